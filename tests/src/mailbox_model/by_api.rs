//! Random changes through the API, beside those of an IMAP client.

use serde_json::{Value, json};

use super::{Model, ModelMessage};
use crate::{Imap, Person, Response, message_with_subject, percent_encoded};

/// The folder with the role `\Trash`.
const TRASH: &str = "Trash";

impl Model {
    /// Makes one change in the mailbox through the API, and in the model. `client` reads, so that
    /// the model knows the result of operations that it cannot predict.
    pub async fn change_by_api(&mut self, person: &Person<'_>, client: &mut Imap) {
        let total: usize = self.folders.iter().map(|f| f.messages.len()).sum();
        match self.random.below(100) {
            0..20 if total < super::MESSAGES => self.import(person).await,
            0..30 => self.delete_messages(person).await,
            30..42 => self.replace_flags(person).await,
            42..54 if total < super::MESSAGES => self.copy_by_api(person, client).await,
            42..64 => self.move_by_api(person, client).await,
            64..74 => self.trash(person, client).await,
            74..82 => self.restore(person).await,
            82..88 => self.create_by_api(person).await,
            88..95 => self.rename_by_api(person, client).await,
            _ => self.delete_folder(person).await,
        }
    }

    /// Stores a message.
    async fn import(&mut self, person: &Person<'_>) {
        let (folder, id) = (self.any_folder(), self.id());
        let subject = format!("message {id:06}");
        let path = self.folders[folder].path.clone();
        let stored = import(person, &path, &subject).await.succeeds(201);
        assert_eq!(stored["folder"], path);
        self.folders[folder]
            .messages
            .push(ModelMessage::new(id, subject));
    }

    /// Stores messages, at most 60, until the service does not confirm one. Returns the subject of
    /// the unconfirmed message, which exists once or not at all.
    pub async fn import_until_failure(&mut self, person: &Person<'_>) -> Option<String> {
        for _ in 0..60 {
            let (folder, id) = (self.any_folder(), self.id());
            let subject = format!("message {id:06}");
            let path = self.folders[folder].path.clone();
            let request = import_request(person, &path, &subject);
            let response = request.send().await;
            if !response.is_ok_and(|response| response.status() == 201) {
                return Some(subject);
            }
            let message = ModelMessage::new(id, subject);
            self.folders[folder].messages.push(message);
        }
        None
    }

    /// Adds a message to the model if the mailbox contains it. The message must not exist twice.
    pub async fn add_if_stored(&mut self, client: &mut Imap, subject: &str) {
        let mut found = 0;
        for folder in 0..self.folders.len() {
            let subjects = crate::subjects(client, &self.folders[folder].path).await;
            for _ in subjects.iter().filter(|one| *one == subject) {
                let id = self.id();
                let message = ModelMessage::new(id, subject.to_owned());
                self.folders[folder].messages.push(message);
                found += 1;
            }
        }
        assert!(found < 2, "{subject} exists {found} times");
    }

    /// Returns one to three adjacent messages with the service's numbers.
    async fn numbered(
        &mut self,
        person: &Person<'_>,
    ) -> Option<(usize, std::ops::Range<usize>, Vec<u64>)> {
        let (folder, range) = self.some()?;
        let listed = person.all_messages(&self.folders[folder].path).await;
        let uids: Vec<u64> = listed
            .iter()
            .rev()
            .map(|message| message["uid"].as_u64().unwrap())
            .collect();
        assert_eq!(uids.len(), self.folders[folder].messages.len());
        let some = uids[range.clone()].to_vec();
        Some((folder, range, some))
    }

    async fn delete_messages(&mut self, person: &Person<'_>) {
        let Some((folder, range, uids)) = self.numbered(person).await else {
            return;
        };
        bulk(person, "delete", json!({}), &uids).await;
        self.folders[folder].messages.drain(range);
    }

    async fn replace_flags(&mut self, person: &Person<'_>) {
        let flags = ["\\Seen", "\\Flagged", "\\Answered", "$Label"];
        let first = self.random.below(4);
        let flags = &flags[first..first + self.random.below(5 - first)];
        if let Some((_, _, uids)) = self.numbered(person).await {
            let line = format!("PUT /api/v1/mail/messages/{}/flags", uids[0]);
            let replaced = person.send_json(&line, &json!({ "flags": flags })).await;
            replaced.succeeds(200);
        }
    }

    async fn copy_by_api(&mut self, person: &Person<'_>, client: &mut Imap) {
        let to = self.any_folder();
        let Some((folder, range, uids)) = self.numbered(person).await else {
            return;
        };
        let body = json!({ "destination": self.folders[to].path });
        bulk(person, "copy", body, &uids).await;
        let copied = self.folders[folder].messages[range].to_vec();
        let count = copied.len();
        for message in copied {
            let id = self.id();
            self.copied.insert(message.subject.clone());
            let copied = ModelMessage::new(id, message.subject);
            self.folders[to].messages.push(copied);
        }
        self.adopt_order(client, to, count).await;
    }

    async fn move_by_api(&mut self, person: &Person<'_>, client: &mut Imap) {
        let to = self.any_folder();
        let Some((folder, range, uids)) = self.numbered(person).await else {
            return;
        };
        if folder == to {
            return;
        }
        let body = json!({ "destination": self.folders[to].path });
        bulk(person, "move", body, &uids).await;
        let count = range.len();
        self.moves_messages(folder, range, to, None);
        self.adopt_order(client, to, count).await;
    }

    async fn trash(&mut self, person: &Person<'_>, client: &mut Imap) {
        let Some((folder, range, uids)) = self.numbered(person).await else {
            return;
        };
        let trash = self.position(TRASH);
        if folder == trash {
            return;
        }
        bulk(person, "trash", json!({}), &uids).await;
        let from = self.folders[folder].id;
        let count = range.len();
        self.moves_messages(folder, range, trash, Some(from));
        self.adopt_order(client, trash, count).await;
    }

    /// Restores one message that this model put into Trash through the API.
    async fn restore(&mut self, person: &Person<'_>) {
        let trash = self.position(TRASH);
        let messages = &self.folders[trash].messages;
        let known: Vec<usize> = (0..messages.len())
            .filter(|at| messages[*at].from.is_some())
            .collect();
        let Some(at) = known.get(self.random.below(known.len())).copied() else {
            return;
        };
        let listed = person.all_messages(TRASH).await;
        let uid = &listed[listed.len() - 1 - at]["uid"];
        let path = format!("/api/v1/mail/messages/{uid}/restore");
        person.send(&format!("POST {path}")).await.succeeds(200);
        let from = self.folders[trash].messages[at].from;
        let folders = self.folders.iter();
        let to = folders
            .enumerate()
            .find(|(_, folder)| Some(folder.id) == from)
            .map_or_else(|| self.position("INBOX"), |(to, _)| to);
        self.moves_messages(trash, at..at + 1, to, None);
    }

    /// Brings the last `count` messages of a folder into the order of the mailbox. The service can
    /// move or copy several messages in any order.
    async fn adopt_order(&mut self, client: &mut Imap, folder: usize, count: usize) {
        let folder = &mut self.folders[folder];
        let stored = crate::subjects(client, &folder.path).await;
        assert_eq!(stored.len(), folder.messages.len(), "{}", folder.path);
        let mut last = folder.messages.split_off(stored.len() - count);
        for subject in &stored[stored.len() - count..] {
            let at = last.iter().position(|one| one.subject == *subject);
            let at = at.unwrap_or_else(|| panic!("{subject} is not in {last:?}"));
            folder.messages.push(last.remove(at));
        }
    }

    pub(super) fn moves_messages(
        &mut self,
        folder: usize,
        range: std::ops::Range<usize>,
        to: usize,
        from: Option<u64>,
    ) {
        let moved: Vec<ModelMessage> = self.folders[folder].messages.drain(range).collect();
        self.moved.extend(moved.iter().map(|message| message.id));
        let moved = moved
            .into_iter()
            .map(|message| ModelMessage { from, ..message });
        self.folders[to].messages.extend(moved);
    }

    fn position(&self, path: &str) -> usize {
        let mut folders = self.folders.iter();
        folders.position(|folder| folder.path == path).unwrap()
    }

    async fn create_by_api(&mut self, person: &Person<'_>) {
        let path = self.path();
        if self.own().len() >= super::FOLDERS || !self.is_free(&path) {
            return;
        }
        let created = person
            .post("/api/v1/mail/folders", &json!({ "path": path }))
            .await;
        assert_eq!(created.succeeds(201)["path"], path);
        self.adds_parents(&path);
        self.adds(path);
    }

    async fn rename_by_api(&mut self, person: &Person<'_>, client: &mut Imap) {
        let (own, to) = (self.own(), self.path());
        let Some(folder) = own.get(self.random.below(own.len())) else {
            return;
        };
        let from = self.folders[*folder].path.clone();
        let below = format!("{from}/");
        if !self.is_free(&to) || to.starts_with(&below) {
            return;
        }
        super::closed(client).await;
        let line = format!("PATCH /api/v1/mail/folders/{}", percent_encoded(&from));
        let renamed = person.send_json(&line, &json!({ "path": to })).await;
        match renamed.status {
            200 => {}
            // The name belongs to a deleted folder with subfolders.
            409 => return,
            _ => panic!("{from} to {to}: {renamed:?}"),
        }
        for folder in &mut self.folders {
            if folder.path == from || folder.path.starts_with(&below) {
                folder.path.replace_range(..from.len(), &to);
            }
        }
        self.adds_parents(&to);
    }

    /// Adds the parents that the service creates: a deleted folder with subfolders cannot be opened
    /// until it is created again.
    fn adds_parents(&mut self, path: &str) {
        for (at, _) in path.match_indices('/') {
            let parent = &path[..at];
            if !self.folders.iter().any(|folder| folder.path == parent) {
                self.adds(parent.to_owned());
            }
        }
    }

    /// Deletes a folder without subfolders, with its messages or by moving them to Trash.
    async fn delete_folder(&mut self, person: &Person<'_>) {
        let own = self.own();
        let Some(folder) = own.get(self.random.below(own.len())).copied() else {
            return;
        };
        let (path, id) = (self.folders[folder].path.clone(), self.folders[folder].id);
        let below = format!("{path}/");
        if self.folders.iter().any(|one| one.path.starts_with(&below)) {
            return;
        }
        // The order of several messages in Trash is not defined.
        let is_one = self.folders[folder].messages.len() < 2;
        let choice = if is_one && self.random.one_in(2) {
            "trash"
        } else {
            "delete"
        };
        let path = percent_encoded(&path);
        let line = format!("DELETE /api/v1/mail/folders/{path}?messages={choice}");
        person.send(&line).await.succeeds(200);
        if choice == "trash" {
            let (all, trash) = (0..self.folders[folder].messages.len(), self.position(TRASH));
            self.moves_messages(folder, all, trash, Some(id));
        }
        self.folders.remove(folder);
    }
}

fn import_request(person: &Person<'_>, path: &str, subject: &str) -> reqwest::RequestBuilder {
    let line = format!(
        "POST /api/v1/mail/folders/{}/messages",
        percent_encoded(path)
    );
    let request = person.service.request(&line).bearer_auth(&person.access);
    request
        .header("content-type", "message/rfc822")
        .body(message_with_subject(subject))
}

async fn import(person: &Person<'_>, path: &str, subject: &str) -> Response {
    Response::of(import_request(person, path, subject)).await
}

async fn bulk(person: &Person<'_>, action: &str, mut body: Value, uids: &[u64]) {
    body["uids"] = json!(uids);
    let path = format!("/api/v1/mail/messages/bulk/{action}");
    let changed = person.post(&path, &body).await.succeeds(200);
    assert_eq!(changed["count"], uids.len(), "{action}");
}
