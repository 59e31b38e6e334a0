//! A model of a mailbox that a grant and a person change: the mailbox in which only the person has
//! acted, and the changes of the grant that the person's later changes prevent from being undone.
//!
//! It is independent of the service.

use std::collections::{BTreeMap, BTreeSet};

use futures_util::TryStreamExt as _;
use serde_json::{Value, json};

use crate::{
    Imap, Person, Random, Response, append_message, message_with_subject, percent_encoded,
    stored_messages,
};

const FLAGS: [&str; 4] = ["\\Seen", "\\Flagged", "\\Answered", "$Label"];
/// The folders of the model. Only copies are in the last one.
const FOLDERS: [&str; 5] = ["INBOX", "Trash", "one", "two", "Copies"];
const COPIES: usize = 4;

/// Who made a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum By {
    Grant,
    Person,
}

/// A value of a message that changes independently of the others.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Part {
    Folder,
    Flag(usize),
}

#[derive(Clone, Debug)]
struct Message {
    subject: String,
    uid: u64,
    /// The folder and the flags. `None` if the message does not exist.
    state: Option<(usize, BTreeSet<&'static str>)>,
    /// The state if only the person had acted.
    by_person: Option<(usize, BTreeSet<&'static str>)>,
    /// The kind of the change with which the grant created the message.
    created: Option<&'static str>,
    deleted_by: Option<By>,
    changes: Vec<(By, Part)>,
}

/// The expected content of a mailbox that a grant and a person change.
#[derive(Debug)]
pub struct TwoActors {
    random: Random,
    messages: Vec<Message>,
    imported: usize,
    /// The grant's API token.
    token: String,
}

impl TwoActors {
    /// Fills the mailbox with messages, and returns its model. `token` is the grant's API token.
    pub async fn fill(
        person: &Person<'_>,
        client: &mut Imap,
        token: &str,
        (seed, count): (u64, usize),
    ) -> Self {
        for path in &FOLDERS[2..] {
            let body = json!({ "path": path });
            let created = person.post("/api/v1/mail/folders", &body).await;
            created.succeeds(201);
        }
        for number in 0..count {
            append_message(client, "INBOX", &format!("message {number:06}")).await;
        }
        let listed = person.all_messages("INBOX").await;
        assert_eq!(listed.len(), count);
        let messages = listed.iter().map(|message| {
            let state = Some((0, BTreeSet::new()));
            Message {
                subject: message["subject"].as_str().unwrap().to_owned(),
                uid: message["uid"].as_u64().unwrap(),
                by_person: state.clone(),
                state,
                created: None,
                deleted_by: None,
                changes: Vec::new(),
            }
        });
        Self {
            random: Random::new(seed),
            messages: messages.collect(),
            imported: 0,
            token: token.to_owned(),
        }
    }

    async fn grant(&self, person: &Person<'_>, line: &str, body: &Value) -> Value {
        let request = person.service.request(line).bearer_auth(&self.token);
        let response = Response::of_json(request, body).await;
        assert!(response.status < 300, "{line} {body}: {response:?}");
        response.json
    }

    /// Returns up to three existing messages. With `movable`, none of them is a copy.
    fn some(&mut self, movable: bool) -> Vec<usize> {
        let all: Vec<usize> = (0..self.messages.len())
            .filter(|at| {
                let state = self.messages[*at].state.as_ref();
                state.is_some_and(|(folder, _)| !movable || *folder != COPIES)
            })
            .collect();
        if all.is_empty() {
            return all;
        }
        let count = 1 + self.random.below(3);
        let some: BTreeSet<usize> = (0..count).map(|_| *self.random.pick(&all)).collect();
        some.into_iter().collect()
    }

    fn uids(&self, some: &[usize]) -> Vec<u64> {
        some.iter().map(|at| self.messages[*at].uid).collect()
    }

    /// Makes a change with the grant, through the API.
    pub async fn change_by_grant(&mut self, person: &Person<'_>) {
        match self.random.below(100) {
            0..45 => self.flag_by_grant(person).await,
            45..80 => self.move_by_grant(person).await,
            80..90 => self.copy_by_grant(person).await,
            90..98 => self.import(person).await,
            _ => self.delete_by_grant(person).await,
        }
    }

    async fn flag_by_grant(&mut self, person: &Person<'_>) {
        let (some, flag) = (self.some(false), self.random.below(FLAGS.len()));
        let add = self.random.one_in(2);
        if some.is_empty() {
            return;
        }
        let action = if add { "add" } else { "remove" };
        let uids = self.uids(&some);
        let body = json!({ "uids": uids, "flags": [FLAGS[flag]], "action": action });
        self.grant(person, "POST /api/v1/mail/messages/bulk/flag", &body)
            .await;
        for at in some {
            let message = &mut self.messages[at];
            let (_, flags) = message.state.as_mut().unwrap();
            let changed = if add {
                flags.insert(FLAGS[flag])
            } else {
                flags.remove(FLAGS[flag])
            };
            if changed {
                message.changes.push((By::Grant, Part::Flag(flag)));
            }
        }
    }

    async fn move_by_grant(&mut self, person: &Person<'_>) {
        let (some, to) = (self.some(true), self.random.below(COPIES));
        if some.is_empty() {
            return;
        }
        let body = json!({ "uids": self.uids(&some), "destination": FOLDERS[to] });
        self.grant(person, "POST /api/v1/mail/messages/bulk/move", &body)
            .await;
        for at in some {
            let message = &mut self.messages[at];
            let (folder, _) = message.state.as_mut().unwrap();
            if *folder != to {
                *folder = to;
                message.changes.push((By::Grant, Part::Folder));
            }
        }
    }

    /// Copies a message that was not copied before, so that a subject is unique in each folder.
    async fn copy_by_grant(&mut self, person: &Person<'_>) {
        let some = self.some(true);
        let Some(original) = some.first().map(|at| self.messages[*at].clone()) else {
            return;
        };
        let has_copy =
            |one: &Message| one.created == Some("copy") && one.subject == original.subject;
        if self.messages.iter().any(has_copy) {
            return;
        }
        let line = format!("POST /api/v1/mail/messages/{}/copy", original.uid);
        let body = json!({ "destination": FOLDERS[COPIES] });
        let copied = self.grant(person, &line, &body).await;
        let (_, flags) = original.state.unwrap();
        self.messages.push(Message {
            uid: copied["uid"].as_u64().unwrap(),
            state: Some((COPIES, flags)),
            by_person: None,
            created: Some("copy"),
            changes: Vec::new(),
            ..original
        });
    }

    async fn import(&mut self, person: &Person<'_>) {
        let to = self.random.below(COPIES);
        self.imported += 1;
        let subject = format!("import {:06}", self.imported);
        let path = percent_encoded(FOLDERS[to]);
        let line = format!("POST /api/v1/mail/folders/{path}/messages");
        let request = person.service.request(&line).bearer_auth(&self.token);
        let request = request
            .header("content-type", "message/rfc822")
            .body(message_with_subject(&subject));
        let imported = Response::of(request).await.succeeds(201);
        self.messages.push(Message {
            subject,
            uid: imported["uid"].as_u64().unwrap(),
            state: Some((to, BTreeSet::new())),
            by_person: None,
            created: Some("import"),
            deleted_by: None,
            changes: Vec::new(),
        });
    }

    async fn delete_by_grant(&mut self, person: &Person<'_>) {
        let some = self.some(false);
        let Some(at) = some.first().copied() else {
            return;
        };
        let body = json!({ "uids": [self.messages[at].uid] });
        self.grant(person, "POST /api/v1/mail/messages/bulk/delete", &body)
            .await;
        let message = &mut self.messages[at];
        (message.state, message.deleted_by) = (None, Some(By::Grant));
    }

    /// Makes a change as another client of the person, over IMAP.
    pub async fn change_by_person(&mut self, client: &mut Imap) {
        match self.random.below(100) {
            0..50 => self.toggle(client).await,
            50..96 => self.move_by_person(client).await,
            _ => self.expunge(client).await,
        }
        super::close_folder(client).await;
    }

    /// Opens the folder of a message, and returns the message's IMAP UID.
    async fn open(&self, client: &mut Imap, at: usize) -> String {
        let message = &self.messages[at];
        let (folder, _) = message.state.as_ref().unwrap();
        client.select(FOLDERS[*folder]).await.unwrap();
        let query = format!("SUBJECT \"{}\"", message.subject);
        let found = client.uid_search(query).await.unwrap();
        assert_eq!(found.len(), 1, "{message:?}");
        found.into_iter().next().unwrap().to_string()
    }

    async fn store(client: &mut Imap, uid: &str, command: &str) {
        let stored = client.uid_store(uid, command).await.unwrap();
        stored.try_collect::<Vec<_>>().await.unwrap();
    }

    /// Changes a flag. A change and its reversal that no other change of the flag separates are not
    /// visible to the service, so this model does not make them.
    async fn toggle(&mut self, client: &mut Imap) {
        let (some, flag) = (self.some(false), self.random.below(FLAGS.len()));
        let Some(at) = some.first().copied() else {
            return;
        };
        let part = Part::Flag(flag);
        let changes = self.messages[at].changes.iter();
        let of_flag: Vec<By> = changes
            .filter(|(_, one)| *one == part)
            .map(|(by, _)| *by)
            .collect();
        let is_compared = self.messages[at].created.is_some() || of_flag.contains(&By::Grant);
        if is_compared && of_flag.last() == Some(&By::Person) {
            return;
        }
        let uid = self.open(client, at).await;
        let message = &mut self.messages[at];
        let (_, flags) = message.state.as_mut().unwrap();
        let add = !flags.remove(FLAGS[flag]);
        if add {
            flags.insert(FLAGS[flag]);
        }
        if let Some((_, flags)) = &mut message.by_person {
            flags.remove(FLAGS[flag]);
            if add {
                flags.insert(FLAGS[flag]);
            }
        }
        message.changes.push((By::Person, part));
        let sign = if add { '+' } else { '-' };
        Self::store(client, &uid, &format!("{sign}FLAGS ({})", FLAGS[flag])).await;
    }

    async fn move_by_person(&mut self, client: &mut Imap) {
        let (some, to) = (self.some(true), self.random.below(COPIES));
        let Some(at) = some.first().copied() else {
            return;
        };
        if self.messages[at]
            .state
            .as_ref()
            .is_some_and(|(folder, _)| *folder == to)
        {
            return;
        }
        let uid = self.open(client, at).await;
        client.uid_mv(&uid, FOLDERS[to]).await.unwrap();
        let message = &mut self.messages[at];
        let states = [&mut message.state, &mut message.by_person];
        for (folder, _) in states.into_iter().flatten() {
            *folder = to;
        }
        message.changes.push((By::Person, Part::Folder));
    }

    async fn expunge(&mut self, client: &mut Imap) {
        let some = self.some(false);
        let Some(at) = some.first().copied() else {
            return;
        };
        let uid = self.open(client, at).await;
        Self::store(client, &uid, "+FLAGS (\\Deleted)").await;
        let expunged = client.expunge().await.unwrap();
        expunged.try_collect::<Vec<_>>().await.unwrap();
        let message = &mut self.messages[at];
        (message.state, message.by_person) = (None, None);
        message.deleted_by = Some(By::Person);
    }

    /// Returns the number of conflicts by message and kind, after everything is undone.
    pub fn conflicts(&self) -> BTreeMap<(u64, &'static str), usize> {
        let mut conflicts = BTreeMap::new();
        for message in &self.messages {
            let mut add = |kind| *conflicts.entry((message.uid, kind)).or_insert(0) += 1;
            let all_stay = message.all_changes_stay();
            if message.deleted_by == Some(By::Grant) {
                continue;
            }
            if let Some(kind) = message.created.filter(|_| all_stay) {
                add(kind);
            }
            for (at, (by, part)) in message.changes.iter().enumerate() {
                let mut later = message.changes[at..].iter();
                let is_changed = later.any(|change| *change == (By::Person, *part));
                let stays = all_stay || (is_changed && message.created.is_none());
                if *by == By::Grant && stays {
                    add(match part {
                        Part::Folder => "move",
                        Part::Flag(_) => "flags",
                    });
                }
            }
        }
        conflicts
    }

    /// Checks that the mailbox is the one in which only the person has acted, except for messages
    /// that the grant has deleted permanently and for new messages that the person has changed.
    pub async fn check_rewound(&self, client: &mut Imap) {
        for (number, path) in FOLDERS.iter().enumerate() {
            let expected = self.messages.iter().filter_map(|message| {
                let (folder, flags) = message.rewound()?;
                let flags: Vec<String> = flags.iter().map(|&flag| flag.to_owned()).collect();
                (folder == number).then(|| (message.subject.clone(), flags))
            });
            let expected: BTreeMap<String, Vec<String>> = expected.collect();
            let stored = stored_messages(client, path).await;
            let stored = stored.into_iter().map(|message| {
                let subject = message.header("subject").unwrap();
                assert_eq!(
                    String::from_utf8_lossy(&message.bytes),
                    message_with_subject(&subject)
                );
                (subject, message.flags.into_iter().collect())
            });
            let stored: BTreeMap<String, Vec<String>> = stored.collect();
            assert_eq!(stored, expected, "{path}");
        }
    }
}

impl Message {
    /// Returns `true` if no change of the message can be undone: the person has deleted the
    /// message, or has changed a message that the grant created.
    fn all_changes_stay(&self) -> bool {
        let mut changes = self.changes.iter();
        let is_adopted = self.created.is_some() && changes.any(|(by, _)| *by == By::Person);
        self.deleted_by == Some(By::Person) || is_adopted
    }

    /// Returns the state after everything is undone.
    fn rewound(&self) -> Option<(usize, BTreeSet<&'static str>)> {
        if self.deleted_by.is_some() {
            return None;
        }
        if self.created.is_some() {
            return self.state.clone().filter(|_| self.all_changes_stay());
        }
        self.by_person.clone()
    }
}
