//! Connects the crates `latchmail-accounts` and `latchmail-mailbox`: implements a trait of each
//! crate with the other crate.

use std::sync::Arc;

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use latchmail_accounts::mail_server::{Error, MailServer};
use latchmail_accounts::service_credentials::ServiceCredentials;
use latchmail_core::caller::MailCredential;
use latchmail_mailbox::{self as mailbox, Access, Mail};

/// A [`MailServer`] that calls [`Mail`].
#[derive(Debug)]
pub(super) struct Adapter(pub(super) Arc<Mail>);

impl MailServer for Adapter {
    fn ping(&self) -> BoxFuture<'_, Result<(), Error>> {
        self.0
            .connections
            .ping()
            .map(|result| result.map_err(convert_error))
            .boxed()
    }

    fn end_sessions<'a>(&'a self, app_passwords: &'a [String]) -> BoxFuture<'a, ()> {
        self.0.connections.end_sessions(app_passwords).boxed()
    }

    fn end_user_sessions<'a>(&'a self, address: &'a str) -> BoxFuture<'a, ()> {
        self.0.connections.end_user_sessions(address).boxed()
    }

    fn close_connections(&self, credential: &str) {
        self.0.connections.close(credential);
    }

    fn folder_uid_validity<'a>(
        &'a self,
        account: &'a str,
        credential: MailCredential,
        folder: &'a str,
    ) -> BoxFuture<'a, Result<Option<u32>, Error>> {
        async move {
            let access = Access::of_owner(account.to_owned(), credential);
            let found = self.0.folders.uid_validity(&access, folder).await;
            found.map_err(convert_error)
        }
        .boxed()
    }
}

fn convert_error(error: mailbox::Error) -> Error {
    match error {
        mailbox::Error::CredentialRefused => Error::CredentialRefused,
        mailbox::Error::Unavailable(reason) => Error::Unavailable(reason),
        mailbox::Error::Rejected(text) => Error::Rejected(text),
        error => Error::Internal(error.to_string()),
    }
}

/// A source of index credentials that calls [`ServiceCredentials`].
#[derive(Debug)]
pub(super) struct IndexAdapter(pub(super) ServiceCredentials);

impl mailbox::IndexCredentials for IndexAdapter {
    fn credential<'a>(
        &'a self,
        account: &'a str,
    ) -> BoxFuture<'a, Result<Option<MailCredential>, mailbox::Error>> {
        let credential = self.0.credential(account);
        credential
            .map(|result| result.map_err(|e| mailbox::Error::Internal(e.to_string())))
            .boxed()
    }
}
