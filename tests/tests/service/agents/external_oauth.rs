//! Access tokens of another authorization server: which requests
//! it gets, how long its responses are valid, and that the mail server gets the token itself.
//!
//! On SQLite in every run: Dovecot 2.3.19 crashes if its PostgreSQL driver and its passdb for
//! tokens are in one process.

mod acceptance;
mod agents;
mod introspection;
mod mail_servers;

use latchmail_tests::{Issuer, Response, Service, Setup, wait_until};
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::TcpStream;

const FOLDERS: &str = "GET /api/v1/mail/folders";
const UNUSABLE: &str = "Invalid or expired access token";
const NO_ISSUER: &str = "The authorization server cannot be reached, please try again in a moment";
const BOTH: &str = "oauthbearer xoauth2";
const TOKEN: &str = "opaque-t0ken~+/=";
const ADA: &str = "ada@first.test";

/// Starts an issuer, a service whose Dovecot accepts the issuer's tokens with these mechanisms, and
/// an account for Ada with a valid token.
async fn start(mechanisms: &str, settings: &str) -> (Issuer, Service) {
    let issuer = Issuer::start().await;
    let settings = format!("{}\n{settings}", issuer.settings());
    let mut service = Setup::default()
        .with_own_mail()
        .on_sqlite()
        .with(&settings)
        .start()
        .await;
    issuer.configure_dovecot(&mut service, mechanisms).await;
    service.person("ada").await;
    issuer.add_token(TOKEN, ADA);
    (issuer, service)
}

async fn ask(service: &Service, line: &str) -> Response {
    service.with_bearer(line, TOKEN).await
}

/// Returns whether Dovecot's log has a line with all of these texts.
fn dovecot_log_contains(service: &Service, mentions: &[&str]) -> bool {
    let log = std::fs::read_to_string(service.mail().log.join("dovecot.log")).unwrap();
    log.lines()
        .any(|line| mentions.iter().all(|mention| line.contains(mention)))
}

/// Returns whether the submission service offers a mechanism.
async fn offers(service: &Service, mechanism: &str) -> bool {
    let stream = TcpStream::connect(service.mail().submission).await.unwrap();
    let mut lines = BufReader::new(stream);
    lines.write_all(b"EHLO test\r\n").await.unwrap();
    let mut offered = false;
    let mut line = String::new();
    while lines.read_line(&mut line).await.is_ok_and(|read| read > 0) {
        offered |= line.contains("AUTH") && line.contains(mechanism);
        if line.starts_with("250 ") {
            break;
        }
        line.clear();
    }
    offered
}
