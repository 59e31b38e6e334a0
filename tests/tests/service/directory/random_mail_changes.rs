//! After any changes through the API and by another IMAP client, listings equal IMAP, every message
//! keeps its `uid`, and the change log leads to the same mailbox.
//!
//! The API and the other client take turns with random changes. A model tracks the identity of
//! messages, because IMAP does not report it. The test compares at checkpoints. The long run also
//! kills the service, Dovecot or single IMAP processes while messages are stored and listed.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use latchmail_tests::process::{children_of, kill, pid_of};
use latchmail_tests::{
    HostProcess, Imap, MailboxCopy, Model, PASSWORD, Person, Service, StoredMessage, close_folder,
    folder_paths, imap, log_in, stored_messages,
};
use serde_json::Value;

/// Changes between two checkpoints.
const CHANGES: usize = 25;

/// The ids and numbers that the service has returned so far.
#[derive(Default)]
struct ReturnedData {
    folders: BTreeMap<u64, String>,
    /// The `uid` of each message, with its subject.
    uids: BTreeMap<u64, (u64, String)>,
    /// All values of `uid` and all ids of folders that were ever returned.
    used: BTreeSet<u64>,
    used_folders: BTreeSet<String>,
}

impl ReturnedData {
    /// Compares the list of folders and all listings with IMAP, and checks that ids are kept.
    async fn check(&mut self, model: &mut Model, client: &mut Imap, person: &Person<'_>) {
        let listed = person.send("GET /api/v1/mail/folders").await.succeeds(200);
        let listed = listed["folders"].as_array().unwrap();
        let known: BTreeSet<String> = model.folders.iter().map(|f| f.path.clone()).collect();
        assert_eq!(folder_paths(client).await, known, "the model is wrong");
        let shown: BTreeSet<String> = listed.iter().map(|f| text(&f["path"])).collect();
        assert_eq!(shown, known);
        assert_eq!(listed.len(), known.len());
        let (mut uids, mut folders) = (BTreeMap::new(), BTreeMap::new());
        for folder in &model.folders {
            let stored_in_folder = stored_messages(client, &folder.path).await;
            close_folder(client).await;
            let subjects: Vec<String> = stored_in_folder
                .iter()
                .map(StoredMessage::subject)
                .collect();
            let expected: Vec<&str> = folder.messages.iter().map(|m| &*m.subject).collect();
            assert_eq!(subjects, expected, "the model is wrong");
            let shown = listed.iter().find(|f| f["path"] == folder.path).unwrap();
            let unseen = stored_in_folder
                .iter()
                .filter(|m| !m.flags.contains("\\Seen"))
                .count();
            assert_eq!(
                (&shown["messages"], &shown["unseen"]),
                (&stored_in_folder.len().into(), &unseen.into())
            );
            let id = text(&shown["id"]);
            match self.folders.get(&folder.id) {
                Some(before) => assert_eq!(id, *before, "{}", folder.path),
                None => assert!(self.used_folders.insert(id.clone()), "{}", folder.path),
            }
            folders.insert(folder.id, id);
            let messages = person.all_messages(&folder.path).await;
            assert_eq!(messages.len(), stored_in_folder.len(), "{}", folder.path);
            let known = folder.messages.iter().zip(&stored_in_folder);
            for ((message, stored), shown) in known.zip(messages.iter().rev()) {
                assert_eq!(shown["subject"], message.subject, "{}", folder.path);
                let flags = shown["flags"]
                    .as_array()
                    .unwrap()
                    .iter()
                    .map(text)
                    .collect();
                assert_eq!(stored.flags, flags, "{}", message.subject);
                let uid = shown["uid"].as_u64().unwrap();
                uids.insert(message.id, (uid, message.subject.clone()));
            }
        }
        let different: BTreeSet<u64> = uids.values().map(|(uid, _)| *uid).collect();
        assert_eq!(different.len(), uids.len(), "a uid names two messages");
        self.check_numbers(&uids, model);
        self.used.extend(different);
        (self.uids, self.folders) = (uids, folders);
        model.moved.clear();
    }

    /// Checks that messages that stayed or moved keep their numbers, and that numbers of deleted
    /// messages never return. If several copies moved between two checkpoints, they cannot be
    /// distinguished: each has the number of one of them. If the API was used between two
    /// checkpoints, the service has seen some copies before others left, so only messages without
    /// copies are checked.
    fn check_numbers(&self, now: &BTreeMap<u64, (u64, String)>, model: &Model) {
        let moved = &model.moved;
        let mut left: BTreeMap<&str, BTreeSet<u64>> = BTreeMap::new();
        for (id, (uid, subject)) in &self.uids {
            match now.get(id).filter(|_| !moved.contains(id)) {
                Some((same, _)) => assert_eq!(same, uid, "{subject} stayed"),
                None => drop(left.entry(subject).or_default().insert(*uid)),
            }
        }
        let mut arrived: BTreeMap<&str, BTreeSet<u64>> = BTreeMap::new();
        for (id, (uid, subject)) in now {
            if moved.contains(id) || !self.uids.contains_key(id) {
                arrived.entry(subject).or_default().insert(*uid);
            }
        }
        for (subject, arrived) in arrived {
            let left = left.remove(subject).unwrap_or_default();
            let kept = arrived.intersection(&left).count();
            let expected = left.len().min(arrived.len());
            let is_known = !model.uses_api || !model.copied.contains(subject);
            assert!(
                kept == expected || !is_known,
                "{subject}: {left:?}, {arrived:?}"
            );
            let mut new = arrived.difference(&left);
            let returned = new.find(|uid| self.used.contains(uid));
            assert_eq!(returned, None, "{subject}: {left:?}, {arrived:?}");
        }
    }
}

/// Makes changes by another client and, if the model uses the API, through the API in turns.
async fn change(model: &mut Model, client: &mut Imap, person: &Person<'_>) {
    for _ in 0..CHANGES {
        if model.uses_api && model.random.one_in(2) {
            model.change_by_api(person, client).await;
        } else {
            model.change(client).await;
        }
    }
}

/// Applies the change log to a copy, and compares the copy with the mailbox.
async fn compare(copy: &mut MailboxCopy, person: &Person<'_>) {
    copy.update(person, || 500).await;
    assert_eq!(copy.content(), person.content().await);
}

fn text(value: &Value) -> String {
    value.as_str().unwrap().to_owned()
}

#[tokio::test]
async fn every_message_keeps_its_number_through_random_changes() {
    let service = Service::with_mail().await;
    let ada = service.person("ada").await;
    let mut client = imap(&ada).await;
    let (mut model, mut returned) = (Model::of(&mut client, 1).await, ReturnedData::default());
    let mut copy = MailboxCopy::of(&ada).await;
    for checkpoint in 0..12 {
        model.uses_api = checkpoint >= 5;
        change(&mut model, &mut client, &ada).await;
        returned.check(&mut model, &mut client, &ada).await;
        compare(&mut copy, &ada).await;
    }
}

mod long {
    use super::*;

    const ALL: usize = 10_000;
    const KILLS: usize = 20;

    #[tokio::test(flavor = "multi_thread")]
    #[ignore = "it takes long; ./just test-all runs it"]
    async fn every_message_keeps_its_number_through_ten_thousand_changes_and_twenty_kills() {
        let mut service = Service::with_own_mail().await;
        let (password, address) = {
            let ada = service.person("ada").await;
            let made = ada.app_password("another client").await;
            (text(&made["password"]), ada.address)
        };
        let mut host = service.restart_in_process().await;
        let mut client = log_in(&service, &address, &password).await.unwrap();
        let (mut model, mut returned) = (Model::of(&mut client, 2).await, ReturnedData::default());
        let checkpoints = ALL / CHANGES;
        let mut access = String::new();
        let mut copy = None;
        for checkpoint in 1..=checkpoints {
            if checkpoint % 10 == 1 {
                // An access token expires after 15 minutes.
                let ada = Person::sign_in(&service, &address, PASSWORD).await;
                access = ada.access;
            }
            let ada = signed_in(&service, &address, &access);
            model.uses_api = checkpoint > checkpoints / 3;
            change(&mut model, &mut client, &ada).await;
            if checkpoint % (checkpoints / KILLS) == 0 {
                let kind = checkpoint / (checkpoints / KILLS) % 3;
                let uncertain = request_and_kill(&mut model, &ada, kind, &host).await;
                match kind {
                    0 => host.start().await,
                    1 => {
                        service.stack().restart_imap().await.unwrap();
                    }
                    _ => {}
                }
                client = log_in(&service, &address, &password).await.unwrap();
                if let Some(subject) = uncertain {
                    model.add_if_stored(&mut client, &subject).await;
                }
            }
            let ada = signed_in(&service, &address, &access);
            returned.check(&mut model, &mut client, &ada).await;
            match &mut copy {
                Some(copy) => compare(copy, &ada).await,
                None => copy = Some(MailboxCopy::of(&ada).await),
            }
        }
    }

    fn signed_in<'s>(service: &'s Service, address: &str, access: &str) -> Person<'s> {
        Person {
            service,
            address: address.to_owned(),
            access: access.to_owned(),
            refresh: String::new(),
        }
    }

    /// Stores messages, lists folders, and kills one of three processes at the same time. Returns
    /// the subject of a message whose storage was not confirmed.
    async fn request_and_kill(
        model: &mut Model,
        person: &Person<'_>,
        kind: usize,
        host: &HostProcess,
    ) -> Option<String> {
        let pause = Duration::from_millis(model.random.below(60) as u64);
        let paths: Vec<String> = model.folders.iter().map(|f| f.path.clone()).collect();
        let asking = async {
            person
                .service
                .request("GET /api/v1/mail/folders")
                .bearer_auth(&person.access)
                .send()
                .await
                .ok();
            for path in paths {
                let path = path.replace('/', "%2F");
                let line = format!("GET /api/v1/mail/folders/{path}/messages?limit=100");
                let asked = person.service.request(&line).bearer_auth(&person.access);
                asked.send().await.ok();
            }
        };
        let killing = async {
            tokio::time::sleep(pause).await;
            let dovecot = pid_of("dovecot", &person.service.state).expect("Dovecot runs");
            match kind {
                0 => kill(host.pid()),
                1 => {
                    let children = children_of(dovecot);
                    kill(dovecot);
                    for (pid, _) in children {
                        kill(pid);
                    }
                }
                _ => {
                    for (pid, name) in children_of(dovecot) {
                        if name == "imap" {
                            kill(pid);
                        }
                    }
                }
            }
        };
        let (uncertain, (), ()) = tokio::join!(model.import_until_failure(person), asking, killing);
        uncertain
    }
}
