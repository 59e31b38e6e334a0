//! Enforces a member's rights on folders. Grants refer to folder ids, which stay the same through every rename.
//!
//! A right is checked against the path and the UIDVALIDITY with which a command runs or has run. The path alone is not sufficient, because another folder may
//! have it by now. [`latchmail_core::permissions`] defines the rights.

use std::collections::HashMap;
use std::sync::Arc;

use latchmail_core::caller::Origin;
use latchmail_core::permissions::{Grants, Right, Rights};
use latchmail_directory::message_index;
use latchmail_imap::MessageRef;
use tokio::sync::OwnedSemaphorePermit;

use super::{Access, Error, Mail};

/// A member who acts in a shared mailbox.
#[derive(Clone, Debug)]
pub struct Guest {
    /// The id of the member's own account.
    pub account: String,
    /// The member's grants.
    pub grants: Arc<Grants>,
    /// The origin of the request, for the audit log.
    pub origin: Origin,
    /// The permit for one of the owner's connections, if the request holds one between its commands ([`super::pool::Pool::admit`]).
    pub permit: Option<Arc<OwnedSemaphorePermit>>,
}

/// The folders that a caller may use.
pub(crate) enum Reach {
    /// All folders: the caller is the owner.
    Everything,
    /// The folders that are granted to a member.
    Granted {
        /// The rights on every folder.
        everywhere: Rights,
        /// Additional rights on single folders, by path. Each entry is valid only for one UIDVALIDITY.
        folders: HashMap<String, Vec<(u32, Rights)>>,
    },
}

/// The result of an access check on a folder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Judged {
    /// The action is permitted.
    Allowed,
    /// The caller may see the folder, but lacks the right.
    Denied,
    /// The caller may not know that the folder exists.
    Unseen,
}

impl Mail {
    /// Returns the folders that `access` may use, by the paths that are currently in the index.
    pub(crate) async fn reach(&self, access: &Access) -> Result<Reach, Error> {
        let Some(guest) = &access.guest else {
            return Ok(Reach::Everything);
        };
        let everywhere = guest.grants.over_every_folder();
        let mut folders: HashMap<String, Vec<(u32, Rights)>> = HashMap::new();
        if guest.grants.folders().next().is_some() {
            let noted = message_index::folders(&self.db, &access.account).await?;
            for (folder, rights) in guest.grants.folders() {
                // The mail server's id identifies a folder. A folder with an id of the service must also have the granted UIDVALIDITY, because it may have been
                // created again under the same name.
                let found = noted.iter().find(|noted| {
                    noted.public_id() == folder.id
                        && (noted.object_id().is_some()
                            || noted.uid_validity() == folder.uid_validity)
                });
                if let Some(found) = found {
                    let held = folders.entry(found.path.clone()).or_default();
                    held.push((found.uid_validity(), rights));
                }
            }
        }
        Ok(Reach::Granted {
            everywhere,
            folders,
        })
    }

    /// Returns the folders that `access` may use if it has `right` on the folder with this path. Returns `None` if it may not know of such a folder. If the
    /// path is unknown, the index is updated first, because another client may have renamed the folder.
    ///
    /// # Errors
    /// Returns [`Error::Denied`] if the caller may see the folder but lacks the right, or any other [`Error`].
    pub(crate) async fn reach_into(
        &self,
        access: &Access,
        path: &str,
        right: Right,
    ) -> Result<Option<Reach>, Error> {
        let reach = self.reach(access).await?;
        if reach.judge_path(path, right) != Judged::Unseen {
            return reach.admit(path, right);
        }
        // These steps are the same whether the folder exists or not, so that the response time does not reveal it.
        self.keep_track(access).await?;
        self.reach(access).await?.admit(path, right)
    }

    /// Returns `true` if the caller may know that a folder with this path exists. The owner may.
    ///
    /// # Errors
    /// Returns any [`Error`].
    pub async fn shows(&self, access: &Access, path: &str) -> Result<bool, Error> {
        let reach = self.reach(access).await?;
        Ok(reach.judge_path(path, Right::MailRead) != Judged::Unseen)
    }
}

impl Reach {
    /// Returns `self` if it includes `right` on the folder with this path in the index, or `None` if the caller may not know of such a folder.
    ///
    /// # Errors
    /// Returns [`Error::Denied`] if the caller may see the folder but lacks the right.
    pub(crate) fn admit(self, path: &str, right: Right) -> Result<Option<Self>, Error> {
        match self.judge_path(path, right) {
            Judged::Allowed => Ok(Some(self)),
            Judged::Denied => Err(Error::Denied(right)),
            Judged::Unseen => Ok(None),
        }
    }

    /// Checks a right on the folder with this path and UIDVALIDITY.
    pub(crate) fn judge(&self, path: &str, uid_validity: u32, right: Right) -> Judged {
        self.of(path, |validity| validity == uid_validity)
            .map_or(Judged::Allowed, |rights| judged(rights, right))
    }

    /// Checks a right on the folder of a message.
    pub(crate) fn judge_spot(&self, spot: MessageRef<'_>, right: Right) -> Judged {
        self.judge(spot.path, spot.uid_validity, right)
    }

    /// Checks a right by the path in the index alone: to reject a request before the mail server is contacted. It must be checked again with the server's
    /// UIDVALIDITY.
    pub(crate) fn judge_path(&self, path: &str, right: Right) -> Judged {
        self.of(path, |_| true)
            .map_or(Judged::Allowed, |rights| judged(rights, right))
    }

    /// Returns the rights on a folder, or `None` for the owner, who needs none.
    fn of(&self, path: &str, is: impl Fn(u32) -> bool) -> Option<Rights> {
        match self {
            Self::Everything => None,
            Self::Granted {
                everywhere,
                folders,
            } => {
                let held = folders.get(path).into_iter().flatten();
                let held = held.filter(|(validity, _)| is(*validity));
                Some(held.fold(*everywhere, |all, (_, rights)| all.and(*rights)))
            }
        }
    }
}

fn judged(held: Rights, right: Right) -> Judged {
    if held.hold(right) {
        Judged::Allowed
    } else if held.is_none() {
        Judged::Unseen
    } else {
        Judged::Denied
    }
}
