//! A client that keeps a copy of a mailbox: it lists the mailbox once, and then applies the changes
//! that the service returns.
//!
//! The copy identifies folders by their ids and messages by their numbers, as `docs/search.md`
//! recommends.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

use crate::{Imap, Person, Response, StoredMessage, percent_encoded, stored_messages};

/// The content of a mailbox: the flags of the messages, by path and number.
pub type Content = BTreeMap<String, BTreeMap<u64, BTreeSet<String>>>;

/// The copy of a mailbox.
#[derive(Clone, Debug)]
pub struct MailboxCopy {
    /// The cursor of the last response.
    pub cursor: String,
    /// The paths of the folders, by id.
    folders: BTreeMap<String, String>,
    messages: BTreeMap<u64, CopiedMessage>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct CopiedMessage {
    folder_id: String,
    flags: BTreeSet<String>,
}

impl MailboxCopy {
    /// Obtains a cursor, and lists all folders and messages.
    pub async fn of(person: &Person<'_>) -> Self {
        let start = person.changes("", "").await.succeeds(200);
        assert_eq!(start["changes"], json!([]));
        assert_eq!(start["more"], false);
        let mut copy = Self {
            cursor: text(&start["cursor"]),
            folders: BTreeMap::new(),
            messages: BTreeMap::new(),
        };
        for folder in folders(person).await {
            let (id, path) = (text(&folder["id"]), text(&folder["path"]));
            for message in person.all_messages(&path).await {
                let copied = CopiedMessage {
                    folder_id: id.clone(),
                    flags: flags(&message),
                };
                copy.messages.insert(uid(&message), copied);
            }
            copy.folders.insert(id, path);
        }
        copy
    }

    /// Returns the content.
    pub fn content(&self) -> Content {
        let paths = self.folders.values();
        let mut content: Content = paths.map(|path| (path.clone(), BTreeMap::new())).collect();
        assert_eq!(content.len(), self.folders.len(), "two folders, one path");
        for (uid, message) in &self.messages {
            let path = &self.folders[&message.folder_id];
            let messages = content.get_mut(path).unwrap();
            messages.insert(*uid, message.flags.clone());
        }
        content
    }

    /// Applies all changes since the last call in pages of these sizes, and returns them.
    pub async fn update(
        &mut self,
        person: &Person<'_>,
        mut limit: impl FnMut() -> usize,
    ) -> Vec<Value> {
        let mut changes = Vec::new();
        loop {
            let limit = limit();
            let response = person
                .changes(&self.cursor, &format!("&limit={limit}"))
                .await;
            let page = response.succeeds(200);
            let of_page = page["changes"].as_array().unwrap();
            assert!(of_page.len() <= limit, "{page}");
            self.apply(&page);
            changes.extend(of_page.iter().cloned());
            if page["more"] == false {
                return changes;
            }
            assert!(!of_page.is_empty(), "an empty page promises more");
        }
    }

    /// Applies all changes until the service or the mail server is not available. Returns `true` if
    /// all changes were applied.
    pub async fn try_update(
        &mut self,
        person: &Person<'_>,
        mut limit: impl FnMut() -> usize,
    ) -> bool {
        loop {
            let rest = format!("&limit={}", limit());
            let Some(page) = person.try_get(&changes_path(&self.cursor, &rest)).await else {
                return false;
            };
            self.apply(&page);
            if page["more"] == false {
                return true;
            }
        }
    }

    /// Applies a response, and stores its cursor.
    pub fn apply(&mut self, page: &Value) {
        for change in page["changes"].as_array().unwrap() {
            self.apply_change(change);
        }
        self.cursor = text(&page["cursor"]);
    }

    fn apply_change(&mut self, change: &Value) {
        let path = text(&change["folder"]);
        match change["type"].as_str().unwrap() {
            "folderCreated" | "folderRenamed" => {
                self.folders.insert(text(&change["id"]), path);
            }
            "folderDeleted" => {
                let id = text(&change["id"]);
                self.folders.remove(&id);
                self.messages.retain(|_, message| message.folder_id != id);
            }
            "created" | "flags" | "moved" => {
                let copied = CopiedMessage {
                    folder_id: self.folder_id(&path, change),
                    flags: flags(change),
                };
                self.messages.insert(uid(change), copied);
            }
            "deleted" => {
                self.messages.remove(&uid(change));
            }
            other => panic!("unknown type {other}: {change}"),
        }
    }

    fn folder_id(&self, path: &str, change: &Value) -> String {
        let mut ids = self.folders.iter().filter(|(_, known)| *known == path);
        match (ids.next(), ids.next()) {
            (Some((id, _)), None) => id.clone(),
            (None, _) => panic!("unknown folder: {change}, {:?}", self.folders),
            (Some(_), Some(_)) => panic!("ambiguous folder: {change}, {:?}", self.folders),
        }
    }
}

impl Person<'_> {
    /// Returns the response to a request for the changes since a cursor. If `since` is empty, the
    /// request has no cursor. `rest` contains more parameters.
    pub async fn changes(&self, since: &str, rest: &str) -> Response {
        self.send(&format!("GET {}", changes_path(since, rest)))
            .await
    }

    /// Returns the messages of a folder of any size, newest first.
    pub async fn all_messages(&self, path: &str) -> Vec<Value> {
        let path = percent_encoded(path);
        let mut messages = Vec::new();
        for page in 1.. {
            let line = format!("GET /api/v1/mail/folders/{path}/messages?limit=100&page={page}");
            let listing = self.send(&line).await.succeeds(200);
            messages.extend(listing["messages"].as_array().unwrap().clone());
            if messages.len() as u64 >= listing["total"].as_u64().unwrap() {
                break;
            }
        }
        messages
    }

    /// Returns the content of the mailbox as the service lists it.
    pub async fn content(&self) -> Content {
        let mut content = Content::new();
        for folder in folders(self).await {
            let path = text(&folder["path"]);
            let messages = self.all_messages(&path).await;
            let messages = messages
                .iter()
                .map(|message| (uid(message), flags(message)));
            content.insert(path, messages.collect());
        }
        content
    }

    /// Asserts that the service and the mail server list the same mailbox, and returns its content.
    /// Paths must be ASCII.
    pub async fn content_equal_to_imap(&self, client: &mut Imap) -> Content {
        let mut content = Content::new();
        for folder in folders(self).await {
            let path = text(&folder["path"]);
            let listed = self.all_messages(&path).await;
            let stored = stored_messages(client, &path).await;
            let stored: Vec<_> = stored
                .iter()
                .rev()
                .map(|message| (StoredMessage::subject(message), message.flags.clone()))
                .collect();
            let shown: Vec<_> = listed
                .iter()
                .map(|message| (text(&message["subject"]), flags(message)))
                .collect();
            assert_eq!(shown, stored, "{path}");
            let messages = listed.iter().map(|message| (uid(message), flags(message)));
            content.insert(path, messages.collect());
        }
        let paths = crate::folder_paths(client).await;
        let listed: BTreeSet<String> = content.keys().cloned().collect();
        assert_eq!(listed, paths);
        content
    }

    /// Returns the JSON of a response. Returns `None` if the service or the mail server is not
    /// available.
    pub async fn try_get(&self, path: &str) -> Option<Value> {
        let request = self.service.request(&format!("GET {path}"));
        let response = request.bearer_auth(&self.access).send().await.ok()?;
        let status = response.status().as_u16();
        let body = response.bytes().await.ok()?;
        let text = String::from_utf8_lossy(&body);
        match status {
            200 => serde_json::from_str(&text).ok(),
            503 => None,
            other => panic!("{path}: {other} {text}"),
        }
    }
}

fn changes_path(since: &str, rest: &str) -> String {
    let path = "/api/v1/mail/changes";
    if since.is_empty() {
        return format!("{path}?{}", rest.trim_start_matches('&'));
    }
    format!("{path}?since={}{rest}", percent_encoded(since))
}

async fn folders(person: &Person<'_>) -> Vec<Value> {
    let listed = person.send("GET /api/v1/mail/folders").await.succeeds(200);
    listed["folders"].as_array().unwrap().clone()
}

fn uid(message: &Value) -> u64 {
    message["uid"].as_u64().unwrap()
}

/// Returns the flags of a message in a listing or in a change.
fn flags(message: &Value) -> BTreeSet<String> {
    let flags = message["flags"].as_array().unwrap();
    flags.iter().map(text).collect()
}

fn text(value: &Value) -> String {
    value.as_str().unwrap().to_owned()
}
