//! The access of a caller to a mailbox. This module does not check any rights.

use std::sync::Arc;

use latchmail_core::caller::{MailCredential, Origin};
use latchmail_core::permissions::Grants;
use tokio::sync::OwnedSemaphorePermit;

/// A mailbox, the credential that opens it, and the member who uses it.
#[derive(Clone, Debug)]
pub struct Access {
    /// The id of the account that owns the mailbox. Message numbers are stored under this id.
    pub account: String,
    /// The credential for the mail server.
    pub credential: MailCredential,
    /// The member who uses the mailbox, or `None` for the owner. A member's rights are enforced for each folder.
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
    /// The permit for one of the owner's connections, if the request holds the permit from one command to the next (`Pool::hold_member_permit`).
    pub permit: Option<Arc<OwnedSemaphorePermit>>,
}

impl Access {
    /// Returns the id of the caller's account: the member's or the owner's.
    #[must_use]
    pub fn caller(&self) -> &str {
        let member = self.member.as_ref();
        member.map_or(&self.account, |member| &member.account)
    }
}
