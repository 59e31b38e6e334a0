//! Tests of the mailbox with a real Dovecot, and with a scripted server for faults that a real server does not produce.

mod answers;
mod changes;
mod dovecot;
mod faults;
mod folders;
mod listing;
mod log_in;
mod messages;
mod numbers;
mod peer;
mod protocol;
pub(crate) mod recorder;
mod searches;
mod sharing;

use std::sync::Arc;

use latchmail_core::caller::MailCredential;
use latchmail_core::config;
use latchmail_directory::testing::{Fresh, on_sqlite};
use secrecy::SecretString;

use super::{Access, Listing, Mail};
use dovecot::{Dovecot, PASSWORD};

/// A mail server, the service's mailboxes on it, and an account.
struct World {
    dovecot: Dovecot,
    mail: Arc<Mail>,
    fresh: Fresh,
    access: Access,
}

impl World {
    /// Returns a page of an existing folder.
    async fn listing(&self, folder: &str, offset: u32, limit: u32) -> Listing {
        let listing = self.mail.messages(&self.access, folder, offset, limit);
        listing.await.unwrap().unwrap()
    }
}

/// Runs `body` with a new mail server and account.
async fn in_a_world<F>(body: impl FnOnce(World) -> F + Send + 'static)
where
    F: Future<Output = ()> + Send + 'static,
{
    on_sqlite(async |fresh| {
        fresh.directory.with("ada", "ada@example.org", &[]).await;
        let dovecot = Dovecot::start();
        let mail = Mail::new(&dovecot.config(), fresh.directory.db().clone()).unwrap();
        body(World {
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

fn access(account: &str, credential: &str) -> Access {
    Access {
        account: account.into(),
        credential: MailCredential::app_password(
            credential.into(),
            format!("{account}@example.org"),
            SecretString::from(PASSWORD),
        ),
        guest: None,
    }
}

fn config(port: u16) -> config::Imap {
    config::Imap {
        address: format!("127.0.0.1:{port}"),
        ..config::Imap::default()
    }
}

/// Returns a short message with CRLF line breaks.
fn note(subject: &str, text: &str) -> Vec<u8> {
    format!(
        "From: Bo <bo@example.net>\r\nTo: ada@example.org\r\nSubject: {subject}\r\n\
         Date: Fri, 20 Nov 2026 09:00:00 +0100\r\nMessage-ID: <{subject}@example.net>\r\n\r\n{text}\r\n"
    )
    .into_bytes()
}
