//! The operator's commands, run as a user types them, and their effects on clients over HTTP, IMAP and SMTP.

mod changes;
mod configuration;
mod creation;
mod passwords;
mod audit;

use latchmail_tests::{Answer, Service};
use lettre::address::Envelope;
use lettre::{AsyncSmtpTransport, AsyncTransport as _, Tokio1Executor};
use serde_json::json;

const LOGIN: &str = "/api/v1/auth/login";
const FOLDERS: &str = "GET /api/v1/mail/folders";
const ENDED: &str = "Mail session expired, please log in again";

async fn sign_in(service: &Service, address: &str, password: &str) -> Answer {
    let body = json!({ "email": address, "password": password });
    service.post(LOGIN, &body).await
}

/// The status of mail for an address from an external sender.
async fn delivery(service: &Service, to: &str) -> u16 {
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

async fn done(service: &Service, verb: &str) -> String {
    service.operator(verb, "").await.done()
}
