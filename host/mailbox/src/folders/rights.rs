//! Checks the rights of members on folders, and which folders the policy of a grant opens. A policy
//! names folders by their paths. The grants of members refer to folder ids, because a renamed
//! folder has the same id.
//!
//! A right applies to the path and the UIDVALIDITY of a folder. The path alone is not sufficient,
//! because a path can belong to a new folder after a rename. [`latchmail_core::permissions`]
//! defines the rights.

use std::collections::HashMap;
use std::sync::Arc;

use latchmail_core::permissions::{GrantedFolder, Right, Rights};
use latchmail_core::policy::ActingGrant;
use latchmail_directory::message_index::IndexedFolder;
use latchmail_imap::MessageRef;

use super::Folders;
use crate::access::Access;
use crate::error::Error;

/// The folders that a caller is allowed to use.
pub(crate) enum FolderAccess {
    /// All folders, because the caller is the owner.
    All,
    /// The folders that the policy of a grant opens, by their paths.
    Opened(Arc<ActingGrant>),
    /// The folders that are granted to a member.
    Granted {
        /// The rights on every folder.
        all: Rights,
        /// Additional rights on single folders, by path. Each entry applies only to the folder with
        /// this path and this UIDVALIDITY.
        folders: HashMap<String, Vec<(u32, Rights)>>,
    },
}

/// The result of an authorization.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Decision {
    /// The action is permitted.
    Allowed,
    /// The caller can see the folder but does not have the right.
    Denied,
    /// The caller must not learn that the folder exists.
    Hidden,
}

impl Folders {
    /// Returns the folders that `access` can use, by their current paths in the message index.
    pub(crate) async fn usable_by(&self, access: &Access) -> Result<FolderAccess, Error> {
        let Some(member) = &access.member else {
            let grant = access.grant.as_ref().filter(|_| access.is_limited());
            return Ok(grant.map_or(FolderAccess::All, |grant| {
                FolderAccess::Opened(Arc::clone(grant))
            }));
        };
        let all = member.grants.over_every_folder();
        let mut folders: HashMap<String, Vec<(u32, Rights)>> = HashMap::new();
        if member.grants.folders().next().is_some() {
            let indexed = self
                .context
                .message_index()
                .existing_folders(&access.account)
                .await?;
            let by_id: HashMap<&str, &IndexedFolder> = indexed
                .iter()
                .map(|folder| (folder.public_id(), folder))
                .collect();
            for (granted, rights) in member.grants.folders() {
                let found = by_id.get(granted.id.as_str());
                let found = found.filter(|folder| {
                    let has_object_id = folder.object_id().is_some();
                    applies(granted, has_object_id, folder.uid_validity())
                });
                if let Some(folder) = found {
                    let entries = folders.entry(folder.path.clone()).or_default();
                    entries.push((folder.uid_validity(), rights));
                }
            }
        }
        Ok(FolderAccess::Granted { all, folders })
    }

    /// Checks that the caller has `right` on the folder with this path. Returns all folders that
    /// `access` can use. Returns `None` if the caller must not learn that the folder exists.
    ///
    /// If the caller cannot see the path, updates the folders in the message index from the mail
    /// server and checks again. Another client could have renamed the folder.
    ///
    /// # Errors
    /// Returns [`Error::Denied`] if the caller can see the folder but does not have the right.
    /// Returns another [`Error`] if the operation fails.
    pub(crate) async fn require(
        &self,
        access: &Access,
        path: &str,
        right: Right,
    ) -> Result<Option<FolderAccess>, Error> {
        let folder_access = self.usable_by(access).await?;
        if folder_access.authorize_path(path, right) != Decision::Hidden {
            return folder_access.require_path(path, right);
        }
        // These steps do not depend on the existence of the folder. Otherwise the response time
        // would reveal whether the folder exists.
        self.refresh(access).await?;
        self.usable_by(access).await?.require_path(path, right)
    }

    /// Returns `true` if the caller is allowed to learn whether the folder exists. Always returns
    /// `true` for the owner.
    ///
    /// # Errors
    /// Returns an [`Error`] if the operation fails.
    pub(crate) async fn can_see(&self, access: &Access, path: &str) -> Result<bool, Error> {
        let folder_access = self.usable_by(access).await?;
        Ok(folder_access.authorize_path(path, Right::MailRead) != Decision::Hidden)
    }
}

/// Returns `true` if a grant on the folder with this id applies to the folder. An id from the mail
/// server is sufficient to identify a folder. If the id is from the service, the UIDVALIDITY must
/// also match the grant, because a new folder can have the same name.
pub(crate) fn applies(granted: &GrantedFolder, has_object_id: bool, uid_validity: u32) -> bool {
    has_object_id || granted.uid_validity == uid_validity
}

impl FolderAccess {
    /// Returns `self` if the caller has `right` on the folder with this path in the message index.
    /// Returns `None` if the caller must not learn that the folder exists.
    ///
    /// # Errors
    /// Returns [`Error::Denied`] if the caller can see the folder but does not have the right.
    pub(crate) fn require_path(self, path: &str, right: Right) -> Result<Option<Self>, Error> {
        match self.authorize_path(path, right) {
            Decision::Allowed => Ok(Some(self)),
            Decision::Denied => Err(Error::Denied(right)),
            Decision::Hidden => Ok(None),
        }
    }

    /// Returns `true` if the caller can read the folder with this path and UIDVALIDITY.
    pub(crate) fn can_read(&self, path: &str, uid_validity: u32) -> bool {
        self.authorize(path, uid_validity, Right::MailRead) == Decision::Allowed
    }

    /// Checks a right on the folder with this path and UIDVALIDITY.
    pub(crate) fn authorize(&self, path: &str, uid_validity: u32, right: Right) -> Decision {
        self.decide(path, right, |granted| granted == uid_validity)
    }

    /// Checks a right on the folder of a message.
    pub(crate) fn authorize_message(&self, message: MessageRef<'_>, right: Right) -> Decision {
        self.authorize(message.path, message.uid_validity, right)
    }

    /// Checks a right by path only, so that a request can be rejected without the mail server. The
    /// caller must check the right a second time with the mail server's UIDVALIDITY.
    pub(crate) fn authorize_path(&self, path: &str, right: Right) -> Decision {
        self.decide(path, right, |_| true)
    }

    /// Checks a right with those entries of `path` whose UIDVALIDITY satisfies `matches`.
    fn decide(&self, path: &str, right: Right, matches: impl Fn(u32) -> bool) -> Decision {
        let (all, folders) = match self {
            Self::All => return Decision::Allowed,
            Self::Opened(grant) => {
                let policy = grant.policy.as_ref();
                let is_open = policy.is_none_or(|policy| policy.opens(path));
                return if is_open {
                    Decision::Allowed
                } else {
                    Decision::Hidden
                };
            }
            Self::Granted { all, folders } => (all, folders),
        };
        let entries = folders.get(path).into_iter().flatten();
        let rights = entries
            .filter(|(uid_validity, _)| matches(*uid_validity))
            .fold(*all, |sum, (_, rights)| sum.and(*rights));
        if rights.hold(right) {
            Decision::Allowed
        } else if rights.is_none() {
            Decision::Hidden
        } else {
            Decision::Denied
        }
    }
}
