//! Tests of the mailbox with a real Dovecot, and with scripted servers for faults that a real
//! server does not produce.

mod change_faults;
mod change_pages;
mod changing;
mod changing_folders;
mod commands;
mod connections;
mod dovecot;
mod faults;
mod folders;
mod imports;
mod listing;
mod message_numbers;
mod messages;
mod races;
pub(crate) mod recording_server;
mod response_size;
mod scripted_server;
mod search_index;
mod searches;
mod snooze;
mod sync;
mod token_login;
mod trash;
mod unreadable;

use std::sync::Arc;

use latchmail_core::caller::MailCredential;
use latchmail_core::config;
use latchmail_core::keyring::testing::keyring;
use latchmail_core::message_number::MessageNumber;
use latchmail_directory::Directory;
use latchmail_directory::testing::{Fresh, on_sqlite};
use secrecy::SecretString;

use crate::{Access, Detail, Listing, Mail, MailSettings, MessageQuery};
use dovecot::{Dovecot, PASSWORD};

/// A mail server with the mailbox of one account, and the service that uses the mail server.
struct TestMailbox {
    dovecot: Dovecot,
    mail: Arc<Mail>,
    fresh: Fresh,
    access: Access,
}

impl TestMailbox {
    /// Returns a page of an existing folder.
    async fn listing(&self, folder: &str, offset: u32, limit: u32) -> Listing {
        let listing = self
            .mail
            .listing
            .messages(&self.access, MessageQuery::page(folder, offset, limit));
        listing.await.unwrap().unwrap()
    }

    /// Returns an existing message.
    async fn detail(&self, number: MessageNumber) -> Detail {
        let detail = self.mail.reading.message(&self.access, number).await;
        detail.unwrap().unwrap()
    }
}

/// Runs `body` with a new mail server and account.
async fn with_mailbox<F>(body: impl FnOnce(TestMailbox) -> F + Send + 'static)
where
    F: Future<Output = ()> + Send + 'static,
{
    with_dovecot(Dovecot::start, body).await;
}

/// Runs `body` with the mail server that `start` returns, and a new account.
async fn with_dovecot<F>(
    start: fn() -> Dovecot,
    body: impl FnOnce(TestMailbox) -> F + Send + 'static,
) where
    F: Future<Output = ()> + Send + 'static,
{
    on_sqlite(async move |fresh| {
        fresh.directory.with("ada", "ada@example.org", &[]).await;
        let dovecot = start();
        let mail = Mail::new(&dovecot.config(), fresh.directory.clone(), with_keys(&[1])).unwrap();
        body(TestMailbox {
            mail: Arc::new(mail),
            access: access("ada", "first"),
            dovecot,
            fresh,
        })
        .await;
    })
    .await
    .unwrap();
}

/// Returns the mailboxes of a mail server, with default settings.
fn new_mail(config: &config::Imap, directory: &Directory) -> Mail {
    Mail::new(config, directory.clone(), MailSettings::default()).unwrap()
}

/// Returns settings with these keys.
fn with_keys(keys: &[u8]) -> MailSettings {
    MailSettings {
        keys: Some(Arc::new(keyring(keys))),
        ..MailSettings::default()
    }
}

fn access(account: &str, credential: &str) -> Access {
    Access {
        account: account.into(),
        credential: MailCredential::app_password(
            credential.into(),
            format!("{account}@example.org"),
            SecretString::from(PASSWORD),
        ),
        member: None,
        grant: None,
        is_person: true,
    }
}

fn config(port: u16) -> config::Imap {
    config::Imap {
        address: format!("127.0.0.1:{port}"),
        ..config::Imap::default()
    }
}

/// Returns a short message with CRLF line breaks.
fn short_message(subject: &str, text: &str) -> Vec<u8> {
    format!(
        "From: Bo <bo@example.net>\r\nTo: ada@example.org\r\nSubject: {subject}\r\n\
         Date: Fri, 20 Nov 2026 09:00:00 +0100\r\nMessage-ID: <{subject}@example.net>\r\n\r\n{text}\r\n"
    )
    .into_bytes()
}
