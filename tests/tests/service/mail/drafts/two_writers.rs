//! Random sequences with two writers, the API and an IMAP client: no text is lost without a 412.

use std::collections::BTreeSet;

use latchmail_tests::{Imap, Person, Random, Service, imap, stored_messages};
use serde_json::{Value, json};

use super::mail_clients::{expunge, replace};
use super::{create, get, put};

/// The state of one sequence. Each text is written once.
struct Sequence<'a> {
    ada: &'a Person<'a>,
    client: Imap,
    id: Value,
    /// The last draft that the API returned to its client.
    api: Value,
    /// The UID and the text of the message that the IMAP client edits.
    open: (u32, String),
    /// The texts that a writer wrote and that no writer has replaced knowingly.
    unseen: BTreeSet<String>,
    next: u32,
}

fn message(message_id: &str, text: &str) -> String {
    format!(
        "Message-ID: {message_id}\r\nFrom: Ada <ada@first.test>\r\nSubject: Shared\r\n\
         MIME-Version: 1.0\r\nContent-Type: text/plain\r\n\r\n{text}\r\n"
    )
}

impl Sequence<'_> {
    fn text(&mut self) -> String {
        self.next += 1;
        format!("text {}", self.next)
    }

    /// The API's client reads the draft.
    async fn read(&mut self) {
        let read = get(self.ada, &self.id).await;
        if read.status == 200 {
            self.api = read.succeeds(200);
        }
    }

    /// The API's client replaces the draft that it has read. Returns whether it was told that the
    /// draft has changed.
    async fn put(&mut self) -> bool {
        let text = self.text();
        let draft = json!({ "subject": "Shared", "text": text });
        let replaced = put(self.ada, &self.id, &self.api["version"], &draft).await;
        match replaced.status {
            200 => {
                let seen = self.api["draft"]["text"].as_str().unwrap();
                self.unseen.remove(seen);
                self.unseen.insert(text);
                self.api = replaced.succeeds(200);
                false
            }
            412 | 404 => true,
            _ => panic!("{}", replaced.json),
        }
    }

    /// The IMAP client opens the newest message.
    async fn open(&mut self) {
        let stored = stored_messages(&mut self.client, "Drafts").await;
        if let Some(newest) = stored.last() {
            let text = String::from_utf8_lossy(&newest.bytes);
            let (_, text) = text.split_once("\r\n\r\n").unwrap();
            self.open = (newest.imap_uid, text.trim().to_owned());
        }
    }

    /// The IMAP client saves its draft: it appends a message and removes the one that it opened. It
    /// does not look for changes of others, so it replaces knowingly only what it opened.
    async fn save(&mut self, message_id: &str) {
        let text = self.text();
        let (old, seen) = self.open.clone();
        replace(&mut self.client, old, &message(message_id, &text)).await;
        self.unseen.remove(&seen);
        self.unseen.insert(text);
        self.open().await;
    }

    /// Returns the texts of all messages in Drafts.
    async fn stored(&mut self) -> BTreeSet<String> {
        let stored = stored_messages(&mut self.client, "Drafts").await;
        let text = |bytes: &[u8]| {
            let text = String::from_utf8_lossy(bytes).into_owned();
            text.split_once("\r\n\r\n").unwrap().1.trim().to_owned()
        };
        stored.iter().map(|message| text(&message.bytes)).collect()
    }

    /// Checks that every text that no writer has seen and replaced is stored, unless a writer got a
    /// 412 for it.
    async fn check(&mut self) {
        let stored = self.stored().await;
        let lost: Vec<_> = self.unseen.difference(&stored).collect();
        assert!(lost.is_empty(), "lost {lost:?}, stored {stored:?}");
    }
}

/// Runs one sequence of steps. Both writers also write at the same time.
async fn run(ada: &Person<'_>, seed: u64) {
    let mut random = Random::new(seed);
    let created = create(ada, &json!({ "subject": "Shared", "text": "text 0" })).await;
    let mut client = imap(ada).await;
    let stored = stored_messages(&mut client, "Drafts").await;
    let message_id = stored.last().unwrap().header("message-id").unwrap();
    let mut sequence = Sequence {
        ada,
        client,
        id: created["id"].clone(),
        api: created,
        open: (0, String::new()),
        unseen: BTreeSet::from(["text 0".to_owned()]),
        next: 0,
    };
    sequence.open().await;
    for _ in 0..12 {
        match random.below(6) {
            0 => sequence.read().await,
            1 => sequence.open().await,
            2 => drop(sequence.put().await),
            3 => sequence.save(&message_id).await,
            4 => {
                // A refused client reads the draft and writes again.
                if sequence.put().await {
                    sequence.read().await;
                    sequence.put().await;
                }
            }
            _ => concurrently(&mut sequence, &message_id).await,
        }
        // An older message of the draft stays until a writer that has seen a newer one replaces
        // the draft, so its text is not lost before its writer gets a 412.
        forget_superseded(&mut sequence).await;
        sequence.check().await;
    }
    let uids = stored_messages(&mut sequence.client, "Drafts").await;
    for message in uids {
        expunge(&mut sequence.client, message.imap_uid).await;
    }
    get(ada, &sequence.id).await.fails(404, "Draft not found");
}

/// The API replaces the draft while the IMAP client saves its own edit.
async fn concurrently(sequence: &mut Sequence<'_>, message_id: &str) {
    let (by_api, by_client) = (sequence.text(), sequence.text());
    let draft = json!({ "subject": "Shared", "text": by_api });
    let (ada, id) = (sequence.ada, sequence.id.clone());
    let version = sequence.api["version"].clone();
    let new = message(message_id, &by_client);
    let (old, opened) = sequence.open.clone();
    let (replaced, ()) = tokio::join!(
        put(ada, &id, &version, &draft),
        replace(&mut sequence.client, old, &new)
    );
    sequence.unseen.remove(&opened);
    sequence.unseen.insert(by_client);
    match replaced.status {
        200 => {
            let seen = sequence.api["draft"]["text"].as_str().unwrap();
            sequence.unseen.remove(seen);
            sequence.unseen.insert(by_api);
            sequence.api = replaced.succeeds(200);
        }
        412 | 404 => {}
        _ => panic!("{}", replaced.json),
    }
    sequence.open().await;
}

/// A text of the API's client that another message of the draft has superseded: the next request of
/// this client with the version that it knows must be refused.
async fn forget_superseded(sequence: &mut Sequence<'_>) {
    let current = get(sequence.ada, &sequence.id).await;
    if current.status != 200 {
        return;
    }
    let current = current.succeeds(200);
    if current["version"] == sequence.api["version"] {
        return;
    }
    let text = sequence.api["draft"]["text"].as_str().unwrap().to_owned();
    let draft = json!({ "text": "stale" });
    let known = &sequence.api["version"];
    let stale = put(sequence.ada, &sequence.id, known, &draft).await;
    stale.fails(412, "The message has changed");
    sequence.unseen.remove(&text);
}

async fn sequences(count: u64) {
    let service = Service::with_mail().await;
    let ada = service.person("ada").await;
    for seed in 1..=count {
        run(&ada, seed).await;
    }
}

#[tokio::test]
async fn no_text_is_lost_without_a_412() {
    sequences(4).await;
}

mod long {
    #[tokio::test]
    #[ignore = "it takes long; ./just test-all runs it"]
    async fn no_text_is_lost_without_a_412_in_100_sequences() {
        super::sequences(100).await;
    }
}
