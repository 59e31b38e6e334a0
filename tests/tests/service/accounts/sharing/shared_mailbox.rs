//! A shared mailbox: Ada's, with two folders and some aliases, and Bob, with whom it is shared.

use latchmail_tests::{Imap, PASSWORD, Person, Response, Service, imap};
use serde_json::{Value, json};

use super::rules::Grant;

/// The folders that the tests share.
pub(crate) const FOLDERS: [&str; 2] = ["Alpha", "Beta"];

/// A message with a file.
const LETTER: &str = "From: Grace <grace@outside.test>\r\nTo: ada@first.test\r\nSubject: SUBJECT\r\n\
    Date: Thu, 19 Nov 2026 11:00:00 +0000\r\nMessage-ID: <SUBJECT@outside.test>\r\nMIME-Version: 1.0\r\n\
    Content-Type: multipart/mixed; boundary=b\r\n\r\n--b\r\nContent-Type: text/plain\r\n\r\nThis is SUBJECT.\r\n\
    --b\r\nContent-Type: application/octet-stream; name=file.bin\r\nContent-Disposition: attachment; filename=file.bin\r\n\r\n\
    SUBJECT\r\n--b--\r\n";

pub(crate) struct SharedMailbox<'a> {
    pub(crate) ada: Person<'a>,
    pub(crate) bob: Person<'a>,
    /// Another IMAP client of Ada's mailbox.
    pub(crate) client: Imap,
    /// The id of Ada's team.
    pub(crate) mailbox: String,
}

impl<'a> SharedMailbox<'a> {
    /// Creates the accounts. Nothing is shared yet.
    pub(crate) async fn new(service: &'a Service) -> Self {
        let ada = service.person("ada").await;
        let mut client = imap(&ada).await;
        for folder in FOLDERS {
            client.create(folder).await.unwrap();
        }
        let teams = ada.send("GET /api/v1/teams").await.succeeds(200);
        Self {
            bob: service.person("bob").await,
            client,
            mailbox: teams["teams"][0]["id"].as_str().unwrap().to_owned(),
            ada,
        }
    }

    /// Returns the id of one of Ada's folders.
    pub(crate) async fn folder(&self, path: &str) -> String {
        self.ada.folder_id(path).await
    }

    /// Puts a message into a folder, and returns its number.
    pub(crate) async fn append(&mut self, folder: &str, subject: &str) -> u64 {
        let letter = LETTER.replace("SUBJECT", subject);
        self.client
            .append(folder, None, None, letter)
            .await
            .unwrap();
        self.ada.uid_of(folder, subject).await
    }

    /// Puts a message that is named after its purpose into a folder.
    pub(crate) async fn append_for(&mut self, folder: &str, purpose: &str) -> u64 {
        self.append(folder, &format!("for-{purpose}")).await
    }

    /// Invites an account with this grant, as Ada.
    pub(crate) async fn invite(&self, name: &str, grant: &Grant) -> Response {
        let mut body = grant.body();
        body["username"] = name.into();
        body["password"] = PASSWORD.into();
        let path = format!("/api/v1/teams/{}/invitations", self.mailbox);
        self.ada.post(&path, &body).await
    }

    /// Returns the members of Ada's mailbox, as Ada sees them.
    pub(crate) async fn members(&self) -> Value {
        let line = format!("GET /api/v1/teams/{}/members", self.mailbox);
        self.ada.send(&line).await.succeeds(200)
    }

    /// Returns the id of a member.
    pub(crate) async fn member(&self, person: &Person<'_>) -> String {
        let members = self.members().await;
        let members = members["members"].as_array().unwrap();
        let found = members
            .iter()
            .find(|member| member["address"] == person.address);
        found.unwrap()["userId"].as_str().unwrap().to_owned()
    }

    /// Adds a grant to Bob, who is a member, and returns its id.
    pub(crate) async fn grant(&self, grant: &Grant) -> String {
        let bob = self.member(&self.bob).await;
        let path = format!("/api/v1/teams/{}/members/{bob}/grants", self.mailbox);
        let granted = self.ada.post(&path, &grant.body()).await.succeeds(201);
        granted["grantId"].as_str().unwrap().to_owned()
    }

    /// Revokes a grant.
    pub(crate) async fn revoke(&self, grant: &str) {
        let line = format!("DELETE /api/v1/teams/{}/grants/{grant}", self.mailbox);
        self.ada.send(&line).await.succeeds(200);
    }

    /// Changes the rights of a grant.
    pub(crate) async fn change(&self, grant: &str, rights: &[&str]) {
        let line = format!("PATCH /api/v1/teams/{}/grants/{grant}", self.mailbox);
        let body = json!({ "rights": rights });
        self.ada.send_json(&line, &body).await.succeeds(200);
    }

    /// Sends a person's request in Ada's mailbox without a body.
    pub(crate) async fn send(&self, person: &Person<'_>, line: &str) -> Response {
        person.send(&self.within(line)).await
    }

    /// Sends a person's request in Ada's mailbox with a JSON body.
    pub(crate) async fn send_json(
        &self,
        person: &Person<'_>,
        line: &str,
        body: &Value,
    ) -> Response {
        person.send_json(&self.within(line), body).await
    }

    pub(crate) fn within(&self, line: &str) -> String {
        let mark = if line.contains('?') { '&' } else { '?' };
        format!("{line}{mark}mailbox={}", self.mailbox)
    }
}

/// Returns the body of a send request from this address.
pub(crate) fn from(address: &str) -> Value {
    json!({ "from": address, "to": "bob@first.test", "subject": "From a guest", "text": "Hello." })
}
