//! Stores copies of sent messages in the folder with the role `\Sent`.

use std::sync::Arc;

use bytes::Bytes;
use latchmail_imap::Connector;
use latchmail_imap::list::COUNTS;

use super::pool::Lease;
use super::{Access, Error, Mail, Role, reading, roles};

/// A copy that the mail server has received except for the last line. [`Filing::file`] stores the copy. The mail server discards it if the value is dropped.
pub struct Filing {
    mail: Arc<Mail>,
    account: String,
    lease: Lease<Connector>,
    path: Arc<str>,
}

impl Mail {
    /// Uploads a copy while the message is being sent, so that storing it afterwards is fast. Returns `None` if there is no Sent folder.
    ///
    /// # Errors
    /// Returns any [`Error`].
    pub async fn ready_to_file(
        self: &Arc<Self>,
        access: &Access,
        message: Bytes,
    ) -> Result<Option<Filing>, Error> {
        let account = &access.account;
        let mut lease = self.pool.lease(access, None).await?;
        let path = if let Some(path) = self.kept.sent(account) {
            path
        } else {
            let folders = reading!(lease, session => session.folders(COUNTS));
            let sent = roles::arranged(folders)
                .into_iter()
                .find(|folder| folder.role == Some(Role::Sent));
            let Some(sent) = sent else { return Ok(None) };
            self.kept.keep_sent(account, &sent.path);
            sent.path.into()
        };
        if !reading!(lease, session => session.begin_append(&path, message.clone())) {
            return Ok(None);
        }
        Ok(Some(Filing {
            mail: Arc::clone(self),
            account: account.clone(),
            lease,
            path,
        }))
    }
}

impl Filing {
    /// Stores the copy with the flag `\Seen`. Returns the folder's path, or `None` if the folder no longer exists.
    ///
    /// # Errors
    /// Returns any [`Error`].
    pub async fn file(mut self) -> Result<Option<String>, Error> {
        let session = self.lease.as_it_is()?;
        if session.end_append().await? {
            return Ok(Some(self.path.to_string()));
        }
        self.mail.kept.forget_sent(&self.account);
        Ok(None)
    }
}
