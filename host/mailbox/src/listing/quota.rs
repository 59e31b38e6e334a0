//! Reads the quota of a mailbox.

use latchmail_core::permissions::Right;
use latchmail_imap::quota::Quota;

use super::Lister;
use crate::access::Access;
use crate::connections::retry::retry_read;
use crate::error::Error;

impl Lister {
    /// Returns the quota of the mailbox as the mail server reports it. A resource without a limit
    /// is `None`.
    ///
    /// # Errors
    /// Returns [`Error::Denied`] if a member has no right to read the mailbox as a whole, because
    /// the quota depends on all folders. Returns another [`Error`] if the operation fails.
    pub async fn quota(&self, access: &Access) -> Result<Quota, Error> {
        if let Some(member) = &access.member
            && !member.grants.over_every_folder().hold(Right::MailRead)
        {
            return Err(Error::Denied(Right::MailRead));
        }
        let mut lease = self.context.connections.lease(access, None).await?;
        Ok(retry_read!(lease, session => session.quota()))
    }
}
