//! Tests that a client that applies the pages of the change log ends with the state of the mailbox.
//! The index is changed at random, without a mail server.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use latchmail_core::message_number::{MessageNumber, Uid};
use latchmail_directory::message_index::{FolderHistory, ListedFolder, MessageIndex, SyncedFolder};
use latchmail_directory::testing::{Fresh, on_postgres, on_sqlite};

use crate::changelog::Change;
use crate::changelog::testing::{Position, read_page};

const ACCOUNT: &str = "ada";
const STEPS: u32 = 120;
const FLAGS: [&str; 4] = ["", "\\Seen", "\\Flagged \\Seen", "$a"];

/// A pseudo-random generator (xorshift).
struct Random(u64);

impl Random {
    fn below(&mut self, end: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 % u64::try_from(end.max(1)).unwrap()).unwrap()
    }

    fn pick<T: Clone>(&mut self, all: impl IntoIterator<Item = T>) -> Option<T> {
        let all: Vec<T> = all.into_iter().collect();
        let index = self.below(all.len());
        all.get(index).cloned()
    }
}

/// The state that a client has: the paths of folders, and the folder and the flags of each message.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct State {
    folders: BTreeSet<String>,
    messages: BTreeMap<MessageNumber, (String, String)>,
}

impl State {
    /// Applies a change. Panics if the change does not fit the state.
    fn apply(&mut self, change: &Change) {
        match change {
            Change::Created {
                number,
                folder,
                flags,
            } => {
                assert!(self.folders.contains(folder), "{change:?}");
                let before = self
                    .messages
                    .insert(*number, (folder.clone(), flags.join(" ")));
                assert_eq!(before, None, "{change:?}");
            }
            Change::Flags {
                number,
                folder,
                flags,
            } => {
                let message = self.messages.get_mut(number).unwrap();
                assert_eq!(message.0, *folder, "{change:?}");
                assert_ne!(message.1, flags.join(" "), "{change:?}");
                message.1 = flags.join(" ");
            }
            Change::Moved {
                number,
                folder,
                from,
                flags,
            } => {
                assert!(
                    self.folders.contains(folder) && folder != from,
                    "{change:?}"
                );
                let message = self.messages.get_mut(number).unwrap();
                assert_eq!(message.0, *from, "{change:?}");
                *message = (folder.clone(), flags.join(" "));
            }
            Change::Deleted { number, folder } => {
                let removed = self.messages.remove(number);
                assert_eq!(removed.unwrap().0, *folder, "{change:?}");
            }
            Change::FolderCreated { folder, .. } => {
                assert!(self.folders.insert(folder.clone()), "{change:?}");
            }
            Change::FolderRenamed { folder, from, .. } => {
                assert!(
                    self.folders.remove(from) && self.folders.insert(folder.clone()),
                    "{change:?}"
                );
                for message in self.messages.values_mut().filter(|m| m.0 == *from) {
                    message.0.clone_from(folder);
                }
            }
            Change::FolderDeleted { folder, .. } => {
                assert!(self.folders.remove(folder), "{change:?}");
                self.messages.retain(|_, message| message.0 != *folder);
            }
        }
    }
}

/// A mailbox of which the test knows the state.
struct Model {
    message_index: MessageIndex,
    random: Random,
    /// The mail server's ids of the folders, by path.
    folders: BTreeMap<String, String>,
    /// The id of the folder and the flags of each message.
    messages: BTreeMap<MessageNumber, (String, String)>,
    last_id: u32,
}

impl Model {
    fn state(&self, visible: impl Fn(&str) -> bool) -> State {
        let paths: BTreeMap<&str, &str> = self
            .folders
            .iter()
            .map(|(path, id)| (id.as_str(), path.as_str()))
            .collect();
        State {
            folders: self
                .folders
                .iter()
                .filter(|(_, id)| visible(id))
                .map(|(path, _)| path.clone())
                .collect(),
            messages: self
                .messages
                .iter()
                .filter(|(_, (folder, _))| visible(folder))
                .map(|(number, (folder, flags))| {
                    (*number, (paths[folder.as_str()].to_owned(), flags.clone()))
                })
                .collect(),
        }
    }

    fn next_id(&mut self) -> Uid {
        self.last_id += 1;
        Uid(self.last_id)
    }

    async fn store_folders(&self) {
        let listed: Vec<ListedFolder<'_>> = self
            .folders
            .iter()
            .map(|(path, id)| ListedFolder {
                path,
                uid_validity: 1,
                uid_next: 1,
                object_id: Some(id),
            })
            .collect();
        self.message_index
            .update_folders(ACCOUNT, &listed)
            .await
            .unwrap();
    }

    async fn internal_id(&self, object_id: &str) -> String {
        let folders = self.message_index.folders(ACCOUNT).await.unwrap();
        let found = folders
            .into_iter()
            .find(|folder| folder.object_id() == Some(object_id));
        found.unwrap().id
    }

    fn path(&self, id: &str) -> String {
        let found = self.folders.iter().find(|(_, known)| *known == id);
        found.unwrap().0.clone()
    }

    async fn set_flags(&self, folder: &str, imap_uid: Uid, flags: &str) {
        let id = self.internal_id(folder).await;
        let at = SyncedFolder {
            id: &id,
            uid_validity: 1,
            highest_modseq: None,
        };
        let flags = [(imap_uid, Arc::from(flags))];
        assert!(
            self.message_index
                .set_flags(ACCOUNT, &at, &flags)
                .await
                .unwrap()
        );
    }

    async fn add(&mut self, folder: &str) {
        let imap_uid = self.next_id();
        let mut identity = [0; 16];
        identity[..4].copy_from_slice(&imap_uid.0.to_be_bytes());
        let path = self.path(folder);
        let messages = [(imap_uid, identity)];
        let numbers = self
            .message_index
            .assign_numbers(ACCOUNT, &path, 1, &messages, &[]);
        let number = numbers.await.unwrap().unwrap()[&imap_uid];
        let flags = FLAGS[self.random.below(4)];
        self.set_flags(folder, imap_uid, flags).await;
        self.messages
            .insert(number, (folder.to_owned(), flags.to_owned()));
    }

    async fn move_to(&mut self, number: MessageNumber, folder: &str) {
        let imap_uid = self.next_id();
        let path = self.path(folder);
        let messages = [(number, imap_uid)];
        let moved = self.message_index.moved(ACCOUNT, &path, 1, &messages);
        assert!(moved.await.unwrap());
        folder.clone_into(&mut self.messages.get_mut(&number).unwrap().0);
    }

    async fn flag(&mut self, number: MessageNumber) {
        let locations = self
            .message_index
            .locations(ACCOUNT, &[number])
            .await
            .unwrap();
        let flags = FLAGS[self.random.below(4)];
        let folder = self.messages[&number].0.clone();
        self.set_flags(&folder, locations[0].1.imap_uid(), flags)
            .await;
        flags.clone_into(&mut self.messages.get_mut(&number).unwrap().1);
    }

    async fn remove(&mut self, uids: Vec<MessageNumber>) {
        self.message_index.remove(ACCOUNT, &uids).await.unwrap();
        self.messages.retain(|number, _| !uids.contains(number));
    }

    /// Deletes a folder. Some of its messages move to other folders.
    async fn delete_folder(&mut self, id: &str, recreate: bool) {
        let path = self.path(id);
        let others: Vec<String> = self
            .folders
            .values()
            .filter(|other| *other != id)
            .cloned()
            .collect();
        let messages: Vec<MessageNumber> = self
            .messages
            .iter()
            .filter(|(_, m)| m.0 == id)
            .map(|(number, _)| *number)
            .collect();
        let mut left = Vec::new();
        self.folders.remove(&path);
        let internal = self.internal_id(id).await;
        if recreate {
            let new = format!("F{}", self.next_id());
            self.folders.insert(path, new);
        }
        self.store_folders().await;
        for number in messages {
            let mut targets = others.clone();
            targets.extend(
                self.folders
                    .values()
                    .filter(|id| !others.contains(id))
                    .cloned(),
            );
            if self.random.below(2) == 0
                && let Some(to) = self.random.pick(targets)
            {
                self.move_to(number, &to).await;
            } else {
                left.push(number);
            }
        }
        self.remove(left).await;
        self.message_index
            .remove_folders(ACCOUNT, &[internal])
            .await
            .unwrap();
    }

    async fn change(&mut self) {
        let name = ["a", "b", "c", "d", "e"][self.random.below(5)].to_owned();
        let folder = self
            .random
            .pick(self.folders.values().cloned().collect::<Vec<_>>())
            .unwrap();
        let message = self
            .random
            .pick(self.messages.keys().copied().collect::<Vec<_>>());
        match (self.random.below(12), message) {
            (0, _) if !self.folders.contains_key(&name) => {
                let id = format!("F{}", self.next_id());
                self.folders.insert(name, id);
                self.store_folders().await;
            }
            (1, _) => {
                // If a folder has the new name, the two folders exchange their names.
                let path = self.path(&folder);
                self.folders.remove(&path);
                if let Some(other) = self.folders.insert(name, folder) {
                    self.folders.insert(path, other);
                }
                self.store_folders().await;
            }
            (2, _) if self.folders.len() > 1 => {
                let recreate = self.random.below(2) == 0;
                self.delete_folder(&folder, recreate).await;
            }
            (3 | 4, Some(number)) => self.flag(number).await,
            (5..=7, Some(number)) if self.messages[&number].0 != folder => {
                self.move_to(number, &folder).await;
            }
            (8, Some(number)) => self.remove(vec![number]).await,
            _ => self.add(&folder).await,
        }
    }
}

/// A client that sees some of the folders.
struct Client {
    name: &'static str,
    state: State,
    position: Option<Position>,
    visible: fn(&str) -> bool,
}

impl Client {
    /// Reads pages until it has the current state. Sometimes changes the mailbox between two pages.
    async fn update(&mut self, model: &mut Model) {
        let mut changes_between = model.random.below(3);
        loop {
            let version = model
                .message_index
                .log
                .start_log(ACCOUNT)
                .await
                .unwrap()
                .unwrap();
            let limit = 1 + model.random.below(6);
            let visible = self.visible;
            let filter = move |folder: &FolderHistory| visible(&folder.public_id);
            let before = self.position;
            let (page, position) = read_page(
                &model.message_index,
                ACCOUNT,
                before,
                version,
                limit,
                filter,
            )
            .await
            .unwrap();
            assert!(page.changes.len() <= limit);
            let renames = page
                .changes
                .iter()
                .map(|c| matches!(c, Change::FolderRenamed { .. }));
            assert!(renames.is_sorted_by(|a, b| a >= b), "{:?}", page.changes);
            if before.is_none() {
                assert!(page.changes.is_empty() && !page.more);
                self.state = model.state(visible);
            }
            for change in &page.changes {
                if let Change::Deleted { number, .. } = change {
                    let exists = model.messages.get(number).is_some_and(|m| visible(&m.0));
                    assert!(!exists || changes_between > 0, "{change:?}");
                }
                self.state.apply(change);
            }
            self.position = Some(position);
            if !page.more {
                assert_eq!(self.state, model.state(visible), "{}", self.name);
                return;
            }
            if changes_between > 0 {
                changes_between -= 1;
                model.change().await;
            }
        }
    }
}

async fn clients_end_with_the_state_of_the_mailbox(fresh: Fresh, seed: u64) {
    fresh.directory.with(ACCOUNT, "ada@example.org", &[]).await;
    let message_index = fresh.directory.message_index.clone();
    let mut model = Model {
        message_index,
        random: Random(0x9e37_79b9_7f4a_7c15 ^ (seed + 1)),
        folders: BTreeMap::from([("INBOX".into(), "F0".into()), ("a".into(), "F1000".into())]),
        messages: BTreeMap::new(),
        last_id: 0,
    };
    model.store_folders().await;
    for folder in model.message_index.folders(ACCOUNT).await.unwrap() {
        let at = SyncedFolder {
            id: &folder.id,
            uid_validity: 1,
            highest_modseq: None,
        };
        model
            .message_index
            .set_highest_modseq(ACCOUNT, &at, 0)
            .await
            .unwrap();
    }
    // The queries of this test expect that the log exists and that no folder was synced.
    model
        .message_index
        .log
        .start_log(ACCOUNT)
        .await
        .unwrap()
        .unwrap();
    fresh
        .execute("UPDATE folders SET highest_modseq = NULL")
        .await;
    let client = |name, visible| Client {
        name,
        state: State::default(),
        position: None,
        visible,
    };
    let mut clients = [
        client("all", |_| true),
        client("inbox", |id| id == "F0"),
        client("some", |id| id.ends_with(['0', '2', '4', '5', '7'])),
    ];
    for _ in 0..STEPS {
        model.change().await;
        for client in &mut clients {
            if model.random.below(5) == 0 {
                client.update(&mut model).await;
            }
        }
    }
    for client in &mut clients {
        client.update(&mut model).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn clients_end_with_the_state_of_the_mailbox_on_sqlite() {
    for seed in 0..8 {
        on_sqlite(move |fresh| clients_end_with_the_state_of_the_mailbox(fresh, seed))
            .await
            .unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn clients_end_with_the_state_of_the_mailbox_on_postgres() {
    for seed in 8..10 {
        on_postgres(move |fresh| clients_end_with_the_state_of_the_mailbox(fresh, seed))
            .await
            .unwrap();
    }
}
