//! Sign-in with the passwords of the mail server's users, against a real Dovecot with users of its
//! own.

mod aliases;
mod outage;
mod recheck;
mod sign_in;

use latchmail_tests::{Response, Service, Setup};
use serde_json::json;

const LOGIN: &str = "/api/v1/auth/login";
const INVALID: &str = "Invalid credentials";
const FOLDERS: &str = "GET /api/v1/mail/folders";
const ALICE: &str = "alice@first.test";
const SECRET: &str = "Alice-Pass-1";

/// Starts a service whose mail server has the users Alice and Bob.
async fn start() -> Service {
    start_with("").await
}

async fn start_with(settings: &str) -> Service {
    let mut service = Setup::default()
        .with_mail_users(false)
        .with(settings)
        .start()
        .await;
    let users = service.mail_users();
    users.set(ALICE, SECRET);
    users.set("bob@first.test", "Bob-Pass-1");
    service
}

async fn sign_in(service: &Service, email: &str, password: &str) -> Response {
    let body = json!({ "email": email, "password": password });
    service.post(LOGIN, &body).await
}

/// Returns the audit events of an address, one per line.
async fn events(service: &Service, address: &str) -> String {
    let verb = format!("audit --account {address}");
    service.operator(&verb, "").await.succeeds()
}
