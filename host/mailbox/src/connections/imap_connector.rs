//! Implements the pool's traits for the IMAP client.

use latchmail_core::caller::MailCredential;
use latchmail_imap::{Connector, Session};

use crate::connections::pool;
use crate::error::Error;

impl pool::Connect for Connector {
    type Session = Session;

    async fn connect(&self, credential: &MailCredential) -> Result<Session, Error> {
        Ok(self.logged_in(credential).await?)
    }
}

impl pool::Session for Session {
    fn is_reusable(&self) -> bool {
        Session::is_idle(self)
    }

    fn has_folder_open(&self, folder: &str) -> bool {
        Session::has_open(self, folder)
    }
}
