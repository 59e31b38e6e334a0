//! The access of a caller to a mailbox. This module does not check rights.

use std::sync::Arc;

use latchmail_core::caller::{MailCredential, Origin};
use latchmail_core::permissions::Grants;
use tokio::sync::OwnedSemaphorePermit;

/// The access to a mailbox, with the credential and the member who uses the mailbox.
#[derive(Clone, Debug)]
pub struct Access {
    /// The id of the account that owns the mailbox. Message numbers are stored under this id.
    pub account: String,
    /// The credential for the mail server.
    pub credential: MailCredential,
    /// The member who uses the mailbox, or `None` for the owner. The service checks a member's
    /// rights for each folder.
    pub member: Option<Member>,
}

/// A member who uses a shared mailbox.
#[derive(Clone, Debug)]
pub struct Member {
    /// The id of the member's own account.
    pub account: String,
    /// The member's grants.
    pub grants: Arc<Grants>,
    /// The origin of the request, for the audit log.
    pub origin: Origin,
    /// The permit for one of the owner's connections. `None` if the request acquires a permit for
    /// each command. See `Pool::hold_member_permit`.
    pub permit: Option<Arc<OwnedSemaphorePermit>>,
}

impl Access {
    /// Returns the id of the caller's account. The caller is the member or the owner.
    #[must_use]
    pub fn caller(&self) -> &str {
        let member = self.member.as_ref();
        member.map_or(&self.account, |member| &member.account)
    }
}
