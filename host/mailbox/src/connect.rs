//! Connects the pool and the errors of mailboxes with the IMAP client.

use latchmail_core::caller::MailCredential;
use latchmail_imap::{Connector, Session};

use super::pool;

impl pool::Connect for Connector {
    type Session = Session;

    async fn connect(&self, credential: &MailCredential) -> Result<Session, super::Error> {
        Ok(self.logged_in(credential).await?)
    }
}

impl pool::Session for Session {
    fn is_whole(&self) -> bool {
        Session::is_idle(self)
    }

    fn had_open(&self, folder: &str) -> bool {
        Session::has_open(self, folder)
    }
}

impl From<latchmail_imap::Error> for super::Error {
    fn from(error: latchmail_imap::Error) -> Self {
        match error {
            latchmail_imap::Error::Refused => Self::CredentialRefused,
            latchmail_imap::Error::Unavailable(why) => Self::Unavailable(why),
            latchmail_imap::Error::Lost(_) => Self::Unavailable(error.to_string()),
            latchmail_imap::Error::No(_)
            | latchmail_imap::Error::Protocol(_)
            | latchmail_imap::Error::MissingExtension(_) => Self::Internal(error.to_string()),
        }
    }
}
