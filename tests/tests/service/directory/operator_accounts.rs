//! The operator's commands, run as a user types them, and their effects on clients over HTTP, IMAP
//! and SMTP.

mod audit;
mod changes;
mod configuration;
mod creation;
mod passwords;

use latchmail_tests::{Response, Service};
use lettre::address::Envelope;
use lettre::{AsyncSmtpTransport, AsyncTransport as _, Tokio1Executor};
use serde_json::json;

const LOGIN: &str = "/api/v1/auth/login";
const FOLDERS: &str = "GET /api/v1/mail/folders";
const SESSION_ENDED: &str = "Mail session expired, please log in again";

pub(super) async fn sign_in(service: &Service, address: &str, password: &str) -> Response {
    let body = json!({ "email": address, "password": password });
    service.post(LOGIN, &body).await
}

/// Sends mail from an external sender to an address, and returns the SMTP status.
pub(super) async fn delivery(service: &Service, to: &str) -> u16 {
    let smtp = service.mail().smtp;
    let transport: AsyncSmtpTransport<Tokio1Executor> =
        AsyncSmtpTransport::<Tokio1Executor>::builder_dangerous(smtp.ip().to_string())
            .port(smtp.port())
            .build();
    let from = "sender@outside.test".parse().unwrap();
    let envelope = Envelope::new(Some(from), vec![to.parse().unwrap()]).unwrap();
    match transport
        .send_raw(&envelope, b"Subject: x\r\n\r\nx\r\n")
        .await
    {
        Ok(_) => 250,
        Err(error) => error.status().unwrap().into(),
    }
}

pub(super) async fn run_command(service: &Service, verb: &str) -> String {
    service.operator(verb, "").await.succeeds()
}
