//! The access of a caller to a mailbox. This module does not check rights.

use std::sync::Arc;

use latchmail_core::caller::{MailCredential, Origin};
use latchmail_core::permissions::Grants;
use latchmail_core::policy::{self, ActingGrant, DeleteLimit, Policy};
use tokio::sync::OwnedSemaphorePermit;

use crate::error::Error;

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
    /// The API token or the OAuth grant with which the caller acts, or `None` for other callers. A
    /// grant cannot use shared mailboxes, so `member` is `None` if `grant` is not.
    pub grant: Option<Arc<ActingGrant>>,
    /// Whether a person acts, with a session or with a mail client.
    pub is_person: bool,
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
    /// Returns the access of the owner without a request.
    #[must_use]
    pub fn of_owner(account: String, credential: MailCredential) -> Self {
        Self {
            account,
            credential,
            member: None,
            grant: None,
            is_person: false,
        }
    }

    /// Returns the policy of the caller's grant. Returns `None` if there is no policy.
    #[must_use]
    pub fn policy(&self) -> Option<&Policy> {
        self.grant.as_ref()?.policy.as_ref()
    }

    /// Returns `true` if the caller can use only some folders. Then the steps of an operation must
    /// not depend on the existence of other folders and messages.
    pub(crate) fn is_limited(&self) -> bool {
        let policy = self.policy();
        self.member.is_some() || policy.is_some_and(|policy| policy.folders.is_some())
    }

    /// Returns `true` if codes and links for signing in must be hidden from the caller.
    pub(crate) fn hides_codes(&self) -> bool {
        self.policy().is_some_and(|policy| policy.hide_codes)
    }

    /// Returns `true` if attachments must be hidden from the caller.
    pub(crate) fn hides_attachments(&self) -> bool {
        self.policy().is_some_and(|policy| !policy.attachments)
    }

    /// Returns how the caller may delete messages.
    pub(crate) fn delete_limit(&self) -> DeleteLimit {
        let policy = self.policy();
        policy.map_or(DeleteLimit::Permanent, |policy| policy.delete)
    }

    /// Checks that the caller can use the folder with this path.
    ///
    /// # Errors
    /// Returns [`Error::Policy`] if the policy does not open the folder.
    pub(crate) fn require_open(&self, path: &str) -> Result<(), Error> {
        match self.policy() {
            Some(policy) if !policy.opens(path) => {
                Err(Error::Policy(policy::denied("the use of this folder")))
            }
            _ => Ok(()),
        }
    }

    /// Returns the id of the caller's account. The caller is the member or the owner.
    #[must_use]
    pub fn caller(&self) -> &str {
        let member = self.member.as_ref();
        member.map_or(&self.account, |member| &member.account)
    }
}
