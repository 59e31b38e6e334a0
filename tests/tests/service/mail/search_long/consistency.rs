//! A client that follows the changes has the mailbox, and searches find it, whatever other clients
//! do and whenever a process is killed.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};

use latchmail_tests::{MailboxCopy, Model, Person, Random, percent_encoded};

/// The folders that a search of all folders excludes.
const EXCLUDED: [&str; 2] = ["Junk", "Trash"];

fn limit(random: &mut Random) -> usize {
    match random.below(3) {
        0 => 1,
        1 => 1 + random.below(20),
        _ => 1 + random.below(500),
    }
}

/// Returns the path and query of a search of all folders for messages with this subject.
fn search(subject: &str) -> String {
    let query = percent_encoded(&format!("\"{subject}\""));
    format!("/api/v1/mail/search?q={query}&folder=*&limit=100")
}

/// Returns the subjects of the messages in the model.
fn subjects(model: &Model) -> BTreeSet<String> {
    let messages = model.folders.iter().flat_map(|folder| &folder.messages);
    messages.map(|message| message.subject.clone()).collect()
}

/// Reads changes and searches until `done`. Requests can fail, because processes are killed.
async fn follow(
    person: &Person<'_>,
    copy: &mut MailboxCopy,
    random: &mut Random,
    done: &AtomicBool,
) {
    while !done.load(Ordering::Relaxed) {
        copy.try_update(person, || limit(random)).await;
        let number = random.below(1_000);
        person
            .try_get(&search(&format!("message {number:06}")))
            .await;
        tokio::time::sleep(random.millis(100)).await;
    }
}

/// Asserts that a search of all folders finds exactly the messages with this subject.
async fn assert_found(person: &Person<'_>, model: &Model, subject: &str) {
    let mut expected: Vec<&str> = Vec::new();
    for folder in &model.folders {
        if !EXCLUDED.contains(&&*folder.path) {
            let messages = folder.messages.iter();
            let copies = messages
                .filter(|message| message.subject == subject)
                .count();
            expected.extend(std::iter::repeat_n(&*folder.path, copies));
        }
    }
    expected.sort_unstable();
    let response = person.try_get(&search(subject)).await.unwrap();
    let messages = response["messages"].as_array().unwrap().iter();
    let mut found: Vec<&str> = messages.map(|m| m["folder"].as_str().unwrap()).collect();
    found.sort_unstable();
    assert_eq!(found, expected, "{subject} ({})", response["index"]);
    assert_eq!(response["total"], found.len(), "{subject}");
}

mod long {
    use std::collections::BTreeMap;
    use std::time::Duration;

    use latchmail_tests::process::{children_of, kill, pid_of};
    use latchmail_tests::{HostProcess, Imap, Service, StoredMessage, log_in, stored_messages};
    use serde_json::Value;

    use super::super::{Account, text, wait_for_index};
    use super::*;

    const CHECKPOINTS: usize = 200;
    /// Changes between two checkpoints.
    const CHANGES: usize = 50;
    /// A process is killed at each of these checkpoints: 20 in all.
    const CHECKPOINTS_PER_KILL: usize = CHECKPOINTS / 20;
    /// The maximum time before a kill, in milliseconds.
    const BEFORE_KILL: usize = 600;

    #[derive(Clone, Copy, Debug)]
    enum Killed {
        Host,
        Dovecot,
        Both,
    }

    impl Killed {
        fn of(number: usize) -> Self {
            [Self::Host, Self::Dovecot, Self::Both][number % 3]
        }

        /// Kills the processes.
        fn kill(self, service: &Service, host: &HostProcess) {
            if matches!(self, Self::Host | Self::Both) {
                kill(host.pid());
            }
            if matches!(self, Self::Dovecot | Self::Both) {
                let dovecot = pid_of("dovecot", &service.state).expect("Dovecot runs");
                let children = children_of(dovecot);
                kill(dovecot);
                for (pid, _) in children {
                    kill(pid);
                }
            }
        }

        /// Starts the killed processes again.
        async fn restart(self, service: &mut Service, host: &mut HostProcess) {
            if matches!(self, Self::Dovecot | Self::Both) {
                service.stack().restart_imap().await.unwrap();
            }
            if matches!(self, Self::Host | Self::Both) {
                host.start().await;
            }
        }
    }

    #[tokio::test(flavor = "multi_thread")]
    #[ignore = "it takes long; ./just test-all runs it"]
    async fn after_ten_thousand_changes_and_twenty_kills_copy_and_index_equal_the_mailbox() {
        let mut service = Service::with_own_mail().await;
        let (password, mut account) = {
            let ada = service.person("ada").await;
            let made = ada.app_password("another client").await;
            (text(&made["password"]), Account::new(&ada.address))
        };
        let mut host = service.restart_in_process().await;
        let address = account.address.clone();
        let mut client = log_in(&service, &address, &password).await.unwrap();
        let mut model = Model::of(&mut client, 3).await;
        let mut random = Random::new(4);
        account.renew(&service).await;
        let mut copy = MailboxCopy::of(&account.person(&service)).await;
        for checkpoint in 1..=CHECKPOINTS {
            account.renew(&service).await;
            let is_killed = checkpoint % CHECKPOINTS_PER_KILL == 0;
            let killed = is_killed.then(|| Killed::of(checkpoint / CHECKPOINTS_PER_KILL));
            // The model must know which changes succeed, so the client pauses while Dovecot is
            // killed.
            let is_paused = matches!(killed, Some(Killed::Dovecot | Killed::Both));
            if is_paused {
                change(&mut model, &mut client).await;
            }
            let done = AtomicBool::new(false);
            let person = account.person(&service);
            let before_kill = random.millis(BEFORE_KILL);
            let changing = async {
                if !is_paused {
                    change(&mut model, &mut client).await;
                }
            };
            let killing = async {
                if let Some(killed) = killed {
                    tokio::time::sleep(before_kill).await;
                    killed.kill(&service, &host);
                    tokio::time::sleep(Duration::from_millis(100)).await;
                }
            };
            let both = async {
                tokio::join!(changing, killing);
                done.store(true, Ordering::Relaxed);
            };
            tokio::join!(both, follow(&person, &mut copy, &mut random, &done));
            if let Some(killed) = killed {
                killed.restart(&mut service, &mut host).await;
                if is_paused {
                    client = log_in(&service, &address, &password).await.unwrap();
                }
            }
            let person = account.person(&service);
            copy.update(&person, || limit(&mut random)).await;
            let all: Vec<String> = subjects(&model).into_iter().collect();
            if !all.is_empty() {
                let subject: &String = random.pick(&all);
                assert_found(&person, &model, subject).await;
            }
            if is_killed || checkpoint % 5 == 0 {
                let expected = person.content_equal_to_imap(&mut client).await;
                assert_eq!(
                    copy.content(),
                    expected,
                    "checkpoint {checkpoint}, {killed:?}"
                );
            }
        }
        let person = account.person(&service);
        wait_for_index(&person).await;
        assert_all_found(&person, &model, &mut client).await;
        // The index is also complete after another restart.
        kill(host.pid());
        host.start().await;
        wait_for_index(&account.person(&service)).await;
        assert_all_found(&account.person(&service), &model, &mut client).await;
    }

    async fn change(model: &mut Model, client: &mut Imap) {
        for _ in 0..CHANGES {
            model.change(client).await;
        }
    }

    /// A message: its subject, folder, position and flags.
    type Entry = (String, String, u64, BTreeSet<String>);

    /// Asserts that the index finds every message with its folder, position and flags.
    async fn assert_all_found(person: &Person<'_>, model: &Model, client: &mut Imap) {
        let mut stored: BTreeMap<String, BTreeSet<Entry>> = BTreeMap::new();
        for folder in &model.folders {
            if EXCLUDED.contains(&&*folder.path) {
                continue;
            }
            let messages = stored_messages(client, &folder.path).await;
            for (message, seq) in messages.iter().zip(1..) {
                let subject = StoredMessage::subject(message);
                let path = folder.path.clone();
                let entry = (subject.clone(), path, seq, message.flags.clone());
                stored.entry(subject).or_default().insert(entry);
            }
        }
        for subject in subjects(model) {
            let expected = stored.remove(&subject).unwrap_or_default();
            let response = person.try_get(&search(&subject)).await.unwrap();
            assert_eq!(response["index"], "ready");
            let found = response["messages"].as_array().unwrap().iter().map(entry);
            let found: Vec<Entry> = found.collect();
            assert_eq!(response["total"], found.len(), "{subject}");
            let different: BTreeSet<Entry> = found.iter().cloned().collect();
            assert_eq!(different.len(), found.len(), "{subject}");
            assert_eq!(different, expected, "{subject}");
        }
        assert!(stored.is_empty(), "the model lacks {stored:?}");
    }

    fn entry(message: &Value) -> Entry {
        let flags = message["flags"].as_array().unwrap().iter();
        (
            text(&message["subject"]),
            text(&message["folder"]),
            message["seq"].as_u64().unwrap(),
            flags.map(text).collect(),
        )
    }
}
