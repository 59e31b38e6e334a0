//! What a guest may do in which folder, as far as the mailbox can tell folders apart: by their ids, through every rename.
//!
//! Rights are judged by the folder and the UIDVALIDITY that a command is, or was, carried out under. A name alone is nothing: another folder may have it by now.

use std::collections::HashMap;
use std::sync::Arc;

use tokio::sync::OwnedSemaphorePermit;

use super::imap::Spot;
use super::{Access, Error, Mail, index};
use crate::caller::Origin;
use crate::teams::rights::{Grants, Right, Rights};

/// A guest of a mailbox, on whose behalf it is opened.
#[derive(Clone, Debug)]
pub struct Guest {
    /// The guest's own account.
    pub account: String,
    /// What the guest was granted.
    pub grants: Arc<Grants>,
    /// Where its request comes from, for the record.
    pub origin: Origin,
    /// The permit for one of the owner's connections, if the request holds one between its commands ([`super::pool::Pool::admit`]).
    pub permit: Option<Arc<OwnedSemaphorePermit>>,
}

/// The folders that may be reached.
pub(super) enum Reach {
    /// The owner's: all.
    Everything,
    /// A guest's.
    Granted {
        /// What it holds of every folder.
        everywhere: Rights,
        /// What it holds of single ones besides, by path: the UIDVALIDITY that each has to have, and the rights.
        folders: HashMap<String, Vec<(u32, Rights)>>,
    },
}

/// What comes of asking for something in a folder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Judged {
    /// It may be done.
    Allowed,
    /// The folder may be known of, and this may not be done in it.
    Denied,
    /// The folder may not be known of.
    Unseen,
}

impl Mail {
    /// What `access` reaches, as the folders are noted at this moment.
    pub(super) async fn reach(&self, access: &Access) -> Result<Reach, Error> {
        let Some(guest) = &access.guest else {
            return Ok(Reach::Everything);
        };
        let everywhere = guest.grants.over_every_folder();
        let mut folders: HashMap<String, Vec<(u32, Rights)>> = HashMap::new();
        if guest.grants.folders().next().is_some() {
            let noted = index::noted_folders(&self.db, &access.account).await?;
            for (folder, rights) in guest.grants.folders() {
                // The mail server's own id is proof enough; by one of the service's a folder made anew under the same name could go, too.
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

    /// What `access` reaches, where that holds `right` over the folder of this path; none where it may not know of one. A folder that was renamed by
    /// somebody else is found again.
    ///
    /// # Errors
    /// [`Error::Denied`] where it may know of the folder and not do this; any other [`Error`].
    pub(super) async fn reach_into(
        &self,
        access: &Access,
        path: &str,
        right: Right,
    ) -> Result<Option<Reach>, Error> {
        let reach = self.reach(access).await?;
        if reach.judge_path(path, right) != Judged::Unseen {
            return reach.admit(path, right);
        }
        // Whether there is such a folder or not, it takes the same.
        self.keep_track(access).await?;
        self.reach(access).await?.admit(path, right)
    }

    /// Whether a guest may know that there is a folder of this path. The owner may.
    ///
    /// # Errors
    /// Any of [`Error`].
    pub async fn shows(&self, access: &Access, path: &str) -> Result<bool, Error> {
        let reach = self.reach(access).await?;
        Ok(reach.judge_path(path, Right::MailRead) != Judged::Unseen)
    }
}

impl Reach {
    /// Itself, where it holds `right` over the folder that was called so when it was noted; none where it may not know of one.
    ///
    /// # Errors
    /// [`Error::Denied`] where it may know of the folder and not do this.
    pub(super) fn admit(self, path: &str, right: Right) -> Result<Option<Self>, Error> {
        match self.judge_path(path, right) {
            Judged::Allowed => Ok(Some(self)),
            Judged::Denied => Err(Error::Denied(right)),
            Judged::Unseen => Ok(None),
        }
    }

    /// Of the folder that is called so and has this UIDVALIDITY.
    pub(super) fn judge(&self, path: &str, uid_validity: u32, right: Right) -> Judged {
        self.of(path, |validity| validity == uid_validity)
            .map_or(Judged::Allowed, |rights| judged(rights, right))
    }

    /// Of the place of a message.
    pub(super) fn judge_spot(&self, spot: Spot<'_>, right: Right) -> Judged {
        self.judge(spot.path, spot.uid_validity, right)
    }

    /// Of the folder that was called so when it was noted: for what is refused before the mail server is asked, and judged again by what it says.
    pub(super) fn judge_path(&self, path: &str, right: Right) -> Judged {
        self.of(path, |_| true)
            .map_or(Judged::Allowed, |rights| judged(rights, right))
    }

    /// The rights over a folder; none where nobody asks for any.
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
