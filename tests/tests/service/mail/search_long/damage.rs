//! Damage to the index: a host that is killed while it writes, and changed bytes. Searches always
//! return the right messages, and the index is built again.

use latchmail_tests::{Imap, Person, Random, subjects_of};

/// A mailbox whose messages have the same words and one word of their own each.
#[derive(Debug, Default)]
pub(super) struct Mailbox {
    /// The number of messages in INBOX.
    pub(super) messages: usize,
}

impl Mailbox {
    /// Adds messages as another client does.
    pub(super) async fn append(&mut self, client: &mut Imap, count: usize) {
        let mut random = Random::new(self.messages as u64);
        for _ in 0..count {
            let number = self.messages;
            let words: Vec<String> = (0..120)
                .map(|_| format!("w{:05}", random.below(30_000)))
                .collect();
            let message = format!(
                "From: Grace <grace@outside.test>\r\nTo: ada@first.test\r\nSubject: {}\r\nMessage-ID: <{number}@outside.test>\r\n\r\ncommonword\r\n{}\r\n",
                needle(number),
                words.join(" ")
            );
            client.append("INBOX", None, None, message).await.unwrap();
            self.messages += 1;
        }
    }

    /// Asserts that searches find the right messages, from the index or from the mail server.
    pub(super) async fn assert_found(&self, person: &Person<'_>, random: &mut Random) {
        for rest in ["", "&folder=*"] {
            let found = person
                .search("commonword", &format!("&limit=3{rest}"))
                .await;
            let found = found.succeeds(200);
            assert_eq!(found["total"], self.messages, "{rest} {}", found["index"]);
            let newest = (0..self.messages).rev().take(3).map(needle);
            let newest: Vec<String> = newest.collect();
            if rest.is_empty() {
                assert_eq!(subjects_of(&found), newest, "{}", found["index"]);
            }
            let needle = needle(random.below(self.messages));
            let found = person.search(&needle, rest).await.succeeds(200);
            assert_eq!(subjects_of(&found), [needle], "{rest} {}", found["index"]);
            assert_eq!(found["total"], 1);
            let found = person.search("absentword", rest).await.succeeds(200);
            assert_eq!(found["total"], 0, "{rest} {}", found["index"]);
        }
    }
}

fn needle(number: usize) -> String {
    format!("needle{number:05}")
}

mod long {
    use std::path::{Path, PathBuf};
    use std::time::Duration;

    use latchmail_tests::process::kill;
    use latchmail_tests::{Service, log_in};
    use tokio::time::{Instant, sleep};

    use super::super::{Account, is_ready, text, wait_for_index};
    use super::*;

    const KILLS: usize = 50;

    /// Starts a service, and returns it with an account and another client of its mailbox.
    async fn service() -> (Service, Account, Imap) {
        let service = Service::with_mail().await;
        let (password, account) = {
            let ada = service.person("ada").await;
            let made = ada.app_password("another client").await;
            (text(&made["password"]), Account::new(&ada.address))
        };
        let client = log_in(&service, &account.address, &password).await;
        (service, account, client.unwrap())
    }

    #[tokio::test(flavor = "multi_thread")]
    #[ignore = "it takes long; ./just test-all runs it"]
    async fn a_host_that_is_killed_fifty_times_while_it_indexes_finds_the_right_messages() {
        let (mut service, mut account, mut client) = service().await;
        let (mut mailbox, mut random) = (Mailbox::default(), Random::new(5));
        mailbox.append(&mut client, 1_500).await;
        let root = service.state.join("index");
        let mut host = service.restart_in_process().await;
        account.renew(&service).await;
        let started = Instant::now();
        wait_for_index(&account.person(&service)).await;
        let build_time = usize::try_from(started.elapsed().as_millis()).unwrap();
        for round in 0..KILLS {
            account.renew(&service).await;
            let ada = account.person(&service);
            let is_update = round % 2 == 0 && is_ready(&ada).await;
            if is_update {
                // The search itself adds the new messages to the index.
                mailbox.append(&mut client, 40).await;
            } else if is_ready(&ada).await {
                kill(host.pid());
                std::fs::remove_dir_all(&root).unwrap();
                host.start().await;
            }
            let pause = random.millis(if is_update { 400 } else { build_time });
            let searching = async {
                for _ in 0..20 {
                    let path = "/api/v1/mail/search?q=commonword&folder=*";
                    let found = ada.try_get(path).await;
                    if let Some(found) = found {
                        assert_eq!(found["total"], mailbox.messages, "round {round}");
                    }
                    sleep(Duration::from_millis(20)).await;
                }
            };
            let killing = async {
                sleep(pause).await;
                kill(host.pid());
            };
            tokio::join!(searching, killing);
            host.start().await;
            mailbox.assert_found(&ada, &mut random).await;
            if round % 2 == 1 {
                wait_for_index(&ada).await;
                mailbox.assert_found(&ada, &mut random).await;
            }
        }
        account.renew(&service).await;
        let ada = account.person(&service);
        wait_for_index(&ada).await;
        mailbox.assert_found(&ada, &mut random).await;
        assert!(host.is_running());
    }

    #[tokio::test(flavor = "multi_thread")]
    #[ignore = "it takes long; ./just test-all runs it"]
    async fn a_changed_byte_in_any_file_is_noticed_and_the_index_is_built_again() {
        let (mut service, mut account, mut client) = service().await;
        let (mut mailbox, mut random) = (Mailbox::default(), Random::new(6));
        mailbox.append(&mut client, 200).await;
        let mut host = service.restart_in_process().await;
        account.renew(&service).await;
        // Several updates, so that the index has several segments and deletions.
        for _ in 0..4 {
            let ada = account.person(&service);
            wait_for_index(&ada).await;
            mailbox.append(&mut client, 15).await;
            let oldest = mailbox_oldest(&ada).await;
            ada.move_to(oldest, "Trash").await.succeeds(200);
            ada.move_to(oldest, "INBOX").await.succeeds(200);
            ada.search("commonword", "").await.succeeds(200);
        }
        // The moved messages are the newest ones now, so the order is not that of the numbers.
        let total = mailbox.messages;
        kill(host.pid());
        let root = service.state.join("index");
        let pristine = service.state.join("pristine");
        host_is_dead(&mut host).await;
        copy_all(&root, &pristine);
        let files = files(&root);
        assert!(files.len() > 3, "{files:?}");
        let mut noticed = 0;
        for file in &files {
            let undamaged = pristine.join(file.strip_prefix(&root).unwrap());
            let bytes = std::fs::read(undamaged).unwrap();
            let offsets = if bytes.is_empty() { 0 } else { 2 };
            for _ in 0..offsets {
                std::fs::remove_dir_all(&root).unwrap();
                copy_all(&pristine, &root);
                let mut damaged = bytes.clone();
                let at = random.below(bytes.len());
                damaged[at] ^= 1 << random.below(8);
                std::fs::write(file, damaged).unwrap();
                host.start().await;
                account.renew(&service).await;
                let ada = account.person(&service);
                let place = format!("{}, byte {at} of {}", file.display(), bytes.len());
                for rest in ["", "&folder=*"] {
                    let found = ada.search("commonword", rest).await.succeeds(200);
                    assert_eq!(found["total"], total, "{place}, {}", found["index"]);
                    noticed += usize::from(found["index"] != "ready");
                    let needle = needle(random.below(total));
                    let found = ada.search(&needle, rest).await.succeeds(200);
                    assert_eq!(subjects_of(&found), [needle], "{place}");
                }
                assert!(host.is_running(), "{place}");
                kill(host.pid());
                host_is_dead(&mut host).await;
            }
        }
        assert!(
            noticed > files.len() / 2,
            "{noticed} of {} files",
            files.len()
        );
        host.start().await;
        account.renew(&service).await;
        let ada = account.person(&service);
        wait_for_index(&ada).await;
        let found = ada.search("commonword", "").await.succeeds(200);
        assert_eq!(
            (&found["total"], &found["index"]),
            (&total.into(), &"ready".into())
        );
    }

    async fn mailbox_oldest(person: &Person<'_>) -> u64 {
        let messages = person.all_messages("INBOX").await;
        messages.last().unwrap()["uid"].as_u64().unwrap()
    }

    /// Waits until the files of a killed host do not change any more.
    async fn host_is_dead(host: &mut latchmail_tests::HostProcess) {
        latchmail_tests::wait_until("the host ends", async || !host.is_running()).await;
    }

    fn files(folder: &Path) -> Vec<PathBuf> {
        let mut files = Vec::new();
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                files.extend(self::files(&path));
            } else {
                files.push(path);
            }
        }
        files.sort();
        files
    }

    fn copy_all(from: &Path, to: &Path) {
        std::fs::create_dir_all(to).unwrap();
        for entry in std::fs::read_dir(from).unwrap() {
            let path = entry.unwrap().path();
            let copy = to.join(path.file_name().unwrap());
            if path.is_dir() {
                copy_all(&path, &copy);
            } else {
                std::fs::copy(&path, &copy).unwrap();
            }
        }
    }
}
