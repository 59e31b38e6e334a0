//! Generated queries over a mailbox with all encodings: the index equals a reference that knows the
//! content of the messages.

use std::collections::BTreeSet;

use latchmail_tests::{Imap, Person, Random, Service, imap, subjects_of};

use serde_json::Value;

use super::generated_mail::{FOLDERS, GeneratedMessage, Token, WORDS};
use super::generated_queries::GeneratedQuery;
use super::wait_for_index;

/// The folder that a search of all folders excludes.
const JUNK: &str = "Junk";

/// Puts generated messages into the mailbox, and waits for the index.
async fn fill(person: &Person<'_>, count: usize, random: &mut Random) -> Vec<GeneratedMessage> {
    let mut client = imap(person).await;
    for folder in ["Work", "Work/Plans"] {
        client.create(folder).await.unwrap();
    }
    let (mut messages, mut lengths) = (Vec::new(), [0; FOLDERS.len()]);
    for number in 0..count {
        let folder = random.below(FOLDERS.len());
        lengths[folder] += 1;
        let message = GeneratedMessage::any(number, lengths[folder], FOLDERS[folder], random);
        let (flags, arrived) = (message.flags(), message.arrived());
        let appended = client.append(message.folder, Some(&flags), Some(&arrived), &message.bytes);
        appended.await.unwrap();
        messages.push(message);
    }
    wait_for_index(person).await;
    messages
}

/// Returns the first word of each subject, which identifies a message.
fn id(subject: &str) -> &str {
    subject.split(' ').next().unwrap_or_default()
}

/// Asserts that a query finds exactly the messages of the reference in their order. `folder` is
/// `None` for all folders.
async fn assert_equal(
    person: &Person<'_>,
    messages: &[GeneratedMessage],
    query: &GeneratedQuery,
    folder: Option<&str>,
    limit: usize,
) {
    let named = query.named_folders();
    let is_searched = |message: &GeneratedMessage| match folder {
        Some(folder) => message.folder == folder,
        None => message.folder != JUNK || named.contains(&JUNK),
    };
    let mut expected: Vec<&GeneratedMessage> = messages
        .iter()
        .filter(|message| is_searched(message) && query.matches(message))
        .collect();
    expected.sort_by_key(|message| {
        let key = if folder.is_some() {
            message.seq
        } else {
            message.arrival
        };
        std::cmp::Reverse(key)
    });
    let expected: Vec<&str> = expected
        .iter()
        .map(|message| &*message.subject[0].text)
        .collect();
    let text = query.text();
    let rest = format!("&folder={}&limit={limit}", folder.unwrap_or("*"));
    let (mut found, mut total): (Vec<String>, _) = (Vec::new(), Value::Null);
    // A page more than expected, so that all excess messages are shown.
    for page in 1..=expected.len() / limit + 2 {
        let response = person.search(&text, &format!("{rest}&page={page}")).await;
        let response = response.succeeds(200);
        assert_eq!(response["index"], "ready", "{text}");
        total = response["total"].clone();
        found.extend(
            subjects_of(&response)
                .iter()
                .map(|subject| id(subject).to_owned()),
        );
    }
    let only = |all: &[&str], other: &[&str]| -> Vec<String> {
        let missing = all.iter().filter(|id| !other.contains(id));
        missing.map(ToString::to_string).collect()
    };
    let ids: Vec<&str> = found.iter().map(String::as_str).collect();
    let (excess, missing) = (only(&ids, &expected), only(&expected, &ids));
    assert_eq!(
        ids, expected,
        "{text} in {folder:?}, excess: {excess:?}, missing: {missing:?}"
    );
    assert_eq!(total, expected.len(), "{text} in {folder:?}");
}

#[tokio::test]
async fn generated_queries_find_the_messages_of_the_reference() {
    let service = Service::with_mail().await;
    let ada = service.person("ada").await;
    let mut random = Random::new(8);
    let messages = fill(&ada, 60, &mut random).await;
    for _ in 0..60 {
        let query = GeneratedQuery::any(&messages, &mut random);
        assert_equal(&ada, &messages, &query, None, 100).await;
    }
}

/// Returns the messages of a folder that the mail server finds with a word.
async fn found_by_server(client: &mut Imap, folder: &str, word: &str) -> BTreeSet<usize> {
    client.select(folder).await.unwrap();
    let found = client
        .uid_search(format!("CHARSET UTF-8 TEXT \"{word}\""))
        .await;
    found.unwrap().into_iter().map(|uid| uid as usize).collect()
}

/// Returns whether a message contains a word in exactly this spelling.
fn has_spelling(message: &GeneratedMessage, spelling: &str) -> bool {
    let has = |tokens: &[Token]| tokens.iter().any(|token| token.text == spelling);
    has(&message.subject) || has(&message.body)
}

mod long {
    use super::*;

    const MESSAGES: usize = 500;
    const QUERIES: usize = 1_000;

    #[tokio::test]
    #[ignore = "it takes long; ./just test-all runs it"]
    async fn a_thousand_generated_queries_find_the_messages_of_the_reference() {
        let service = Service::with_mail().await;
        let ada = service.person("ada").await;
        let mut random = Random::new(9);
        let messages = fill(&ada, MESSAGES, &mut random).await;
        for number in 0..QUERIES {
            let query = GeneratedQuery::any(&messages, &mut random);
            let folder = (number % 3 == 0).then(|| *random.pick(&FOLDERS));
            let limit = *random.pick(&[3, 20, 100]);
            assert_equal(&ada, &messages, &query, folder, limit).await;
        }
    }

    #[tokio::test]
    #[ignore = "it takes long; ./just test-all runs it"]
    async fn the_mail_server_finds_each_word_that_the_index_finds_in_plain_text() {
        let service = Service::with_mail().await;
        let ada = service.person("ada").await;
        let mut client = imap(&ada).await;
        let mut random = Random::new(10);
        let messages = fill(&ada, MESSAGES, &mut random).await;
        let mut compared = 0;
        for folder in FOLDERS {
            for spelling in WORDS.iter().flat_map(|(_, spellings)| *spellings) {
                let by_server = found_by_server(&mut client, folder, spelling).await;
                let query = format!("\"{spelling}\"");
                let mut by_index = BTreeSet::new();
                for page in 1.. {
                    let rest = format!("&folder={folder}&limit=100&page={page}");
                    let response = ada.search(&query, &rest).await.succeeds(200);
                    let subjects = subjects_of(&response);
                    by_index.extend(subjects.iter().map(|subject| id(subject).to_owned()));
                    if subjects.len() < 100 {
                        break;
                    }
                }
                // Other spellings of the same word are folded by other rules.
                let in_folder = messages.iter().filter(|message| message.folder == folder);
                for message in in_folder.filter(|message| message.is_plain) {
                    let is_found = by_index.contains(&message.subject[0].text);
                    if has_spelling(message, spelling) {
                        let number = message.number;
                        assert!(is_found, "the index: {spelling} in {number}");
                        let by_server = by_server.contains(&message.seq);
                        let text = String::from_utf8_lossy(&message.bytes);
                        assert!(by_server, "the mail server: {spelling} in {text}");
                        compared += 1;
                    }
                }
            }
        }
        assert!(compared > 1_000, "{compared}");
    }
}
