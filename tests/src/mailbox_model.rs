//! A model of a mailbox under random changes by an IMAP client: the identity of messages through
//! copies, moves and renames.
//!
//! It is independent of the service.

use std::collections::BTreeSet;
use std::ops::Range;

use futures_util::TryStreamExt as _;

use crate::{Imap, Random, message_with_subject};

mod by_api;

/// Folders besides those of every mailbox.
const FOLDERS: usize = 25;
/// From this number of messages on, the client removes more than it adds.
const MESSAGES: usize = 200;

/// A message in a folder. A copy has the same subject but is a different message.
#[derive(Clone, Debug)]
pub struct ModelMessage {
    /// The identity of the message, which is not the service's number.
    pub id: u64,
    /// The subject.
    pub subject: String,
    /// The identity of the folder from which the service moved the message to Trash. `None` if the
    /// message is not in Trash, or if another client moved it there.
    pub from: Option<u64>,
}

impl ModelMessage {
    fn new(id: u64, subject: String) -> Self {
        Self {
            id,
            subject,
            from: None,
        }
    }
}

/// A folder, which keeps its identity through renames.
#[derive(Clone, Debug)]
pub struct ModelFolder {
    /// The identity of the folder.
    pub id: u64,
    /// The current path.
    pub path: String,
    /// In the order of their IMAP UIDs.
    pub messages: Vec<ModelMessage>,
}

/// The expected content of the mailbox.
#[derive(Debug)]
pub struct Model {
    /// The source of the changes.
    pub random: Random,
    /// The folders that can be opened.
    pub folders: Vec<ModelFolder>,
    next: u64,
    /// Messages that have left their location since the last checkpoint.
    pub moved: BTreeSet<u64>,
    /// The subjects of messages that were ever copied.
    pub copied: BTreeSet<String>,
    /// Whether changes are made through the API too.
    pub uses_api: bool,
}

impl Model {
    /// Returns the model of a mailbox without messages.
    pub async fn of(client: &mut Imap, seed: u64) -> Self {
        let mut model = Self {
            random: Random::new(seed),
            folders: Vec::new(),
            next: 1,
            moved: BTreeSet::new(),
            copied: BTreeSet::new(),
            uses_api: false,
        };
        for path in folder_paths(client).await {
            model.adds(path);
        }
        model
    }

    fn id(&mut self) -> u64 {
        self.next += 1;
        self.next
    }

    fn adds(&mut self, path: String) {
        let id = self.id();
        self.folders.push(ModelFolder {
            id,
            path,
            messages: Vec::new(),
        });
    }

    /// Returns whether the path is available for a folder.
    fn is_free(&self, path: &str) -> bool {
        let below = format!("{path}/");
        let mut folders = self.folders.iter();
        !folders.any(|folder| folder.path == path || folder.path.starts_with(&below))
    }

    /// Returns a path, which an earlier folder may have had, at the top or below another folder.
    fn path(&mut self) -> String {
        let name = format!("f{}", self.random.below(2 * FOLDERS));
        let own = self.own();
        if own.is_empty() || self.random.below(3) > 0 {
            return name;
        }
        let parent = own[self.random.below(own.len())];
        format!("{}/{name}", self.folders[parent].path)
    }

    /// Returns the folders that the client may rename and delete.
    fn own(&self) -> Vec<usize> {
        let own = (0..self.folders.len()).filter(|n| self.folders[*n].path.starts_with('f'));
        own.collect()
    }

    fn any_folder(&mut self) -> usize {
        self.random.below(self.folders.len())
    }

    /// Returns a folder with messages, and one to three adjacent messages in it.
    fn some(&mut self) -> Option<(usize, Range<usize>)> {
        let filled: Vec<usize> = (0..self.folders.len())
            .filter(|n| !self.folders[*n].messages.is_empty())
            .collect();
        let folder = *filled.get(self.random.below(filled.len()))?;
        let count = self.folders[folder].messages.len();
        let first = self.random.below(count);
        let length = 1 + self.random.below(3);
        Some((folder, first..(first + length).min(count)))
    }

    /// Makes one change in the mailbox and in the model.
    pub async fn change(&mut self, client: &mut Imap) {
        let total: usize = self.folders.iter().map(|f| f.messages.len()).sum();
        match self.random.below(100) {
            0..24 if total < MESSAGES => self.append(client).await,
            0..36 => self.expunge(client).await,
            36..50 => self.flag(client).await,
            50..62 if total < MESSAGES => self.copy(client).await,
            50..84 => self.moves(client).await,
            84..89 => self.create(client).await,
            89..95 => self.rename(client).await,
            _ => self.delete(client).await,
        }
        close_folder(client).await;
    }

    /// Makes one change that does not affect folders.
    pub async fn change_message(&mut self, client: &mut Imap) {
        match self.random.below(5) {
            0 => self.append(client).await,
            1 => self.expunge(client).await,
            2 => self.flag(client).await,
            3 => self.copy(client).await,
            _ => self.moves(client).await,
        }
    }

    async fn append(&mut self, client: &mut Imap) {
        let (folder, id) = (self.any_folder(), self.id());
        let subject = format!("message {id:06}");
        let folder = &mut self.folders[folder];
        let appended = client.append(&folder.path, None, None, message_with_subject(&subject));
        appended.await.unwrap();
        folder.messages.push(ModelMessage::new(id, subject));
    }

    async fn flag(&mut self, client: &mut Imap) {
        let flags = ["\\Seen", "\\Flagged", "\\Answered", "$Label"];
        let (flag, sign) = (
            flags[self.random.below(4)],
            ["+", "-"][self.random.below(2)],
        );
        if let Some((folder, range)) = self.some() {
            client.select(&self.folders[folder].path).await.unwrap();
            store(client, &range, &format!("{sign}FLAGS ({flag})")).await;
        }
    }

    async fn expunge(&mut self, client: &mut Imap) {
        if let Some((folder, range)) = self.some() {
            let folder = &mut self.folders[folder];
            client.select(&folder.path).await.unwrap();
            expunge(client, &range).await;
            folder.messages.drain(range);
        }
    }

    async fn copy(&mut self, client: &mut Imap) {
        let to = self.any_folder();
        if let Some((folder, range)) = self.some() {
            client.select(&self.folders[folder].path).await.unwrap();
            let path = self.folders[to].path.clone();
            client.copy(set(&range), path).await.unwrap();
            let copied = self.folders[folder].messages[range].to_vec();
            for message in copied {
                let id = self.id();
                self.copied.insert(message.subject.clone());
                let copied = ModelMessage::new(id, message.subject);
                self.folders[to].messages.push(copied);
            }
        }
    }

    /// Moves messages with MOVE, or with COPY and EXPUNGE.
    async fn moves(&mut self, client: &mut Imap) {
        let (to, by_move) = (self.any_folder(), self.random.below(2) == 0);
        if let Some((folder, range)) = self.some() {
            client.select(&self.folders[folder].path).await.unwrap();
            let path = self.folders[to].path.clone();
            if by_move {
                client.mv(set(&range), path).await.unwrap();
            } else {
                client.copy(set(&range), path).await.unwrap();
                expunge(client, &range).await;
            }
            self.moves_messages(folder, range, to, None);
        }
    }

    async fn create(&mut self, client: &mut Imap) {
        let path = self.path();
        if self.own().len() < FOLDERS && self.is_free(&path) {
            create(client, &path).await;
            self.adds(path);
        }
    }

    async fn rename(&mut self, client: &mut Imap) {
        let (own, to) = (self.own(), self.path());
        let Some(folder) = own.get(self.random.below(own.len())) else {
            return;
        };
        let from = self.folders[*folder].path.clone();
        let below = format!("{from}/");
        if !self.is_free(&to) || to.starts_with(&below) {
            return;
        }
        closed(client).await;
        match client.rename(&from, &to).await {
            Ok(()) => {}
            // The name belongs to a deleted folder with subfolders: it still exists but cannot be
            // opened.
            Err(async_imap::error::Error::No(_)) => return,
            Err(error) => panic!("{error}"),
        }
        for folder in &mut self.folders {
            if folder.path == from || folder.path.starts_with(&below) {
                folder.path.replace_range(..from.len(), &to);
            }
        }
    }

    /// Deletes a folder. Some folders are created again under the same name.
    async fn delete(&mut self, client: &mut Imap) {
        let (own, again) = (self.own(), self.random.below(2) == 0);
        let Some(folder) = own.get(self.random.below(own.len())) else {
            return;
        };
        closed(client).await;
        let path = self.folders.remove(*folder).path;
        client.delete(&path).await.unwrap();
        if again {
            create(client, &path).await;
            self.adds(path);
        }
    }
}

fn set(range: &Range<usize>) -> String {
    format!("{}:{}", range.start + 1, range.end)
}

/// Creates a folder. Dovecot 2.3 can leave an empty folder behind if another session opens a folder
/// while it is deleted. A person deletes it again.
async fn create(client: &mut Imap, path: &str) {
    match client.create(path).await {
        Err(async_imap::error::Error::No(text)) if text.contains("ALREADYEXISTS") => {}
        created => return created.unwrap(),
    }
    let left = client.status(path, "(MESSAGES)").await.unwrap();
    assert_eq!(left.exists, 0, "{path}");
    client.delete(path).await.unwrap();
    client.create(path).await.unwrap();
}

async fn store(client: &mut Imap, range: &Range<usize>, command: &str) {
    let stored = client.store(set(range), command).await.unwrap();
    stored.try_collect::<Vec<_>>().await.unwrap();
}

/// Closes the open folder without expunging messages. Dovecot ends a session if another session
/// renames or deletes its open folder.
pub async fn close_folder(client: &mut Imap) {
    match client.run_command_and_check_ok("UNSELECT").await {
        Ok(()) | Err(async_imap::error::Error::Bad(_)) => {}
        Err(error) => panic!("UNSELECT: {error}"),
    }
}

async fn expunge(client: &mut Imap, range: &Range<usize>) {
    store(client, range, "+FLAGS (\\Deleted)").await;
    let expunged = client.expunge().await.unwrap();
    expunged.try_collect::<Vec<_>>().await.unwrap();
}

/// Opens INBOX, because some servers cannot rename an open folder.
async fn closed(client: &mut Imap) {
    client.examine("INBOX").await.unwrap();
}

/// Returns the folders that can be opened.
pub async fn folder_paths(client: &mut Imap) -> BTreeSet<String> {
    let listed = client.list(Some(""), Some("*")).await.unwrap();
    let listed: Vec<_> = listed.try_collect().await.unwrap();
    let cannot = |folder: &async_imap::types::Name| {
        let attributes = format!("{:?}", folder.attributes()).to_lowercase();
        attributes.contains("noselect") || attributes.contains("nonexistent")
    };
    let folders = listed.iter().filter(|folder| !cannot(folder));
    folders.map(|folder| folder.name().to_owned()).collect()
}
