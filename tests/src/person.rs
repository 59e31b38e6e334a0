//! An account with a web session.

use std::time::Duration;

use serde_json::{Value, json};

use crate::directory::add_profile;
use crate::{DOMAIN, Response, Service};

/// The password of all test accounts.
pub const PASSWORD: &str = "Correct-Horse-7";

/// An account that is signed in with a web session.
#[derive(Clone, Debug)]
pub struct Person<'a> {
    /// The service of the account.
    pub service: &'a Service,
    /// The account's address.
    pub address: String,
    /// The access token of the session.
    pub access: String,
    /// The refresh token of the session.
    pub refresh: String,
}

impl<'a> Person<'a> {
    /// Registers `name` on the first domain. If the mail server has the users, adds a user, signs
    /// in, and stores the profile of a registration.
    pub async fn register(service: &'a Service, name: &str) -> Self {
        let address = format!("{name}@{DOMAIN}").to_lowercase();
        if service.add_mail_user(&address).await {
            let person = Self::sign_in(service, &address, PASSWORD).await;
            add_profile(&person).await;
            return person;
        }
        let body = json!({
            "local_part": name, "domain": DOMAIN, "password": PASSWORD,
            "first_name": "Ada", "last_name": "Lovelace", "dob": "1990-12-10",
        });
        let response = service.post("/api/v1/auth/register", &body).await;
        Self::from_token_pair(service, &response.succeeds(201))
    }

    /// Signs in again, for a second session.
    pub async fn sign_in_again(&self) -> Self {
        Self::sign_in(self.service, &self.address, PASSWORD).await
    }

    /// Signs in to an existing account.
    pub async fn sign_in(service: &'a Service, address: &str, password: &str) -> Self {
        let body = json!({ "email": address, "password": password });
        let response = service.post("/api/v1/auth/login", &body).await;
        Self::from_token_pair(service, &response.succeeds(200))
    }

    /// Returns the person of the response to a sign-in.
    pub fn from_token_pair(service: &'a Service, pair: &Value) -> Self {
        let text = |value: &Value| value.as_str().unwrap().to_owned();
        Self {
            service,
            address: text(&pair["user"]["email"]),
            access: text(&pair["accessToken"]),
            refresh: text(&pair["refreshToken"]),
        }
    }

    /// Refreshes the tokens of the session.
    pub async fn refreshed(&self) -> Self {
        let body = json!({ "refreshToken": self.refresh });
        let response = self.service.post("/api/v1/auth/refresh", &body).await;
        let mut pair = response.succeeds(200);
        pair["user"] = json!({ "email": self.address });
        Self::from_token_pair(self.service, &pair)
    }

    /// Returns the response to a request without a body.
    pub async fn send(&self, line: &str) -> Response {
        Response::of(self.service.request(line).bearer_auth(&self.access)).await
    }

    /// Returns the response to a request with a JSON body.
    pub async fn post(&self, path: &str, body: &Value) -> Response {
        self.send_json(&format!("POST {path}"), body).await
    }

    /// Returns the response to a request with a JSON body and any method.
    pub async fn send_json(&self, line: &str, body: &Value) -> Response {
        let request = self.service.request(line);
        Response::of_json(request.bearer_auth(&self.access), body).await
    }

    /// Creates an API token with these scopes, and returns the response.
    pub async fn token(&self, scopes: &[&str]) -> Value {
        let body = json!({ "label": "a token", "scopes": scopes });
        self.post("/api/v1/tokens", &body).await.succeeds(201)
    }

    /// Creates an app password, and returns the response.
    pub async fn app_password(&self, label: &str) -> Value {
        let body = json!({ "label": label });
        self.post("/api/v1/app-passwords", &body)
            .await
            .succeeds(201)
    }

    /// Returns the response to a request with a body of any bytes, declared as JSON.
    pub async fn post_raw(&self, path: &str, body: impl Into<reqwest::Body>) -> Response {
        let request = self.service.request(&format!("POST {path}"));
        let request = request
            .bearer_auth(&self.access)
            .header("content-type", "application/json");
        Response::of(request.body(body)).await
    }

    /// Delivers a message and waits until the inbox contains it.
    pub async fn receive(&self, message: &str) {
        self.receive_raw(&message.replace('\n', "\r\n").into_bytes())
            .await;
    }

    /// The same with exact bytes.
    pub async fn receive_raw(&self, message: &[u8]) {
        let before = self.total("INBOX").await;
        self.service.deliver_raw(&self.address, message).await;
        let deadline = tokio::time::Instant::now() + Duration::from_secs(20);
        while self.total("INBOX").await <= before {
            assert!(
                tokio::time::Instant::now() < deadline,
                "the message did not arrive"
            );
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    /// Waits until the inbox contains a message with that subject.
    pub async fn wait_for_message(&self, subject: &str) {
        let deadline = tokio::time::Instant::now() + Duration::from_secs(20);
        let is_it = |message: &Value| message["subject"] == subject;
        while !self.messages("INBOX").await.iter().any(is_it) {
            assert!(
                tokio::time::Instant::now() < deadline,
                "{subject:?} never came"
            );
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    /// Returns the number of messages in a folder.
    pub async fn total(&self, folder: &str) -> u64 {
        let line = format!("GET /api/v1/mail/folders/{folder}/messages?limit=1");
        self.send(&line).await.succeeds(200)["total"]
            .as_u64()
            .unwrap()
    }

    /// Returns the messages of a folder, newest first.
    pub async fn messages(&self, folder: &str) -> Vec<Value> {
        let line = format!("GET /api/v1/mail/folders/{folder}/messages?limit=100");
        let listing = self.send(&line).await.succeeds(200);
        listing["messages"].as_array().unwrap().clone()
    }

    /// Returns the newest message of the inbox, complete.
    pub async fn newest(&self) -> Value {
        let uid = &self.messages("INBOX").await[0]["uid"];
        let line = format!("GET /api/v1/mail/messages/{uid}");
        self.send(&line).await.succeeds(200)
    }

    /// Returns the numbers of a folder's messages, newest first.
    pub async fn uids(&self, folder: &str) -> Vec<u64> {
        let messages = self.messages(folder).await;
        let uids = messages.iter().map(|m| m["uid"].as_u64().unwrap());
        uids.collect()
    }

    /// Returns the number of the message with that subject in a folder.
    #[track_caller]
    pub fn uid_of(&self, folder: &str, subject: &str) -> impl Future<Output = u64> {
        let at = std::panic::Location::caller();
        async move {
            let messages = self.messages(folder).await;
            let message = messages.iter().find(|m| m["subject"] == subject);
            let message = message
                .unwrap_or_else(|| panic!("no {subject:?} in {folder}, at {at}: {messages:?}"));
            message["uid"].as_u64().unwrap()
        }
    }

    /// Returns the id of the folder with this path.
    pub async fn folder_id(&self, path: &str) -> String {
        let listed = self.send("GET /api/v1/mail/folders").await.succeeds(200);
        let folders = listed["folders"].as_array().unwrap();
        let folder = folders.iter().find(|folder| folder["path"] == path);
        let folder = folder.unwrap_or_else(|| panic!("no {path}: {folders:?}"));
        folder["id"].as_str().unwrap().to_owned()
    }

    /// Moves the message with that number, and returns the response.
    pub async fn move_to(&self, uid: u64, destination: &str) -> Response {
        let path = format!("/api/v1/mail/messages/{uid}/move");
        self.post(&path, &json!({ "destination": destination }))
            .await
    }

    /// Deletes the message with that number, and returns the response.
    pub async fn delete(&self, uid: u64) -> Response {
        let line = format!("DELETE /api/v1/mail/messages/{uid}");
        self.send(&line).await
    }

    /// Returns the message with that number, complete.
    pub async fn message(&self, uid: u64) -> Value {
        let line = format!("GET /api/v1/mail/messages/{uid}");
        self.send(&line).await.succeeds(200)
    }
}
