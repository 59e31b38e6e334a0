//! Copies of what was sent, filed in the folder whose role is `\Sent`.

use std::sync::Arc;

use bytes::Bytes;

use super::imap::Connector;
use super::imap::list::COUNTS;
use super::pool::Lease;
use super::{Access, Error, Mail, Role, imap, reading, roles};

/// A connection that is alive, and the folder: what can be had ready while a message is being sent.
pub struct Filing {
    mail: Arc<Mail>,
    account: String,
    lease: Lease<Connector>,
    path: Arc<str>,
}

impl Mail {
    /// Makes ready to file a copy. None where there is no folder for it.
    ///
    /// # Errors
    /// Any of [`Error`].
    pub async fn ready_to_file(self: &Arc<Self>, access: &Access) -> Result<Option<Filing>, Error> {
        let account = &access.account;
        let mut lease = self.pool.lease(access, None).await?;
        let path = if let Some(path) = self.kept.sent(account) {
            // What is filed may not be filed twice: whether the connection is alive is seen before.
            reading!(lease, session => session.noop());
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
        Ok(Some(Filing {
            mail: Arc::clone(self),
            account: account.clone(),
            lease,
            path,
        }))
    }
}

impl Filing {
    /// Files a message, as read. Answers the folder's path; none where it went away meanwhile.
    ///
    /// # Errors
    /// Any of [`Error`].
    pub async fn file(mut self, message: Bytes) -> Result<Option<String>, Error> {
        let session = self.lease.session().await?;
        if session.append(&self.path, message).await? {
            return Ok(Some(self.path.to_string()));
        }
        self.mail.kept.forget_sent(&self.account);
        Ok(None)
    }
}
