//! Fits the changes of a grant into its policy.

use std::borrow::Cow;

use latchmail_core::policy::{self, DeleteLimit};
use latchmail_imap::list::Role;

use super::Changer;
use super::change::{Action, Change};
use crate::access::Access;
use crate::error::Error;

/// What a policy does not allow if a grant must not delete.
pub(super) const DELETING: &str = "deleting";

impl Changer {
    /// Returns the change that the policy of the grant allows: a permanent deletion can become a
    /// move to Trash.
    ///
    /// # Errors
    /// Returns [`Error::Policy`] if the policy does not allow the change. Returns
    /// [`Error::NoTrashFolder`] if a deletion must be a move to Trash and no folder has the role.
    pub(super) async fn within_policy<'c>(
        &self,
        access: &Access,
        change: &'c Change,
    ) -> Result<Cow<'c, Change>, Error> {
        let limit = access.delete_limit();
        match (&change.action, limit) {
            (Action::Delete, DeleteLimit::Never) => Err(Error::Policy(policy::denied(DELETING))),
            (Action::Delete, DeleteLimit::Trash) => {
                let trash = self.folders.with_role(access, Role::Trash).await?;
                let action = Action::Move {
                    to: trash.ok_or(Error::NoTrashFolder)?.path,
                };
                Ok(Cow::Owned(Change {
                    action,
                    ..change.clone()
                }))
            }
            (Action::Move { to }, DeleteLimit::Never) => {
                let trash = self.folders.with_role(access, Role::Trash).await?;
                if trash.is_some_and(|trash| trash.contains(to)) {
                    return Err(Error::Policy(policy::denied(DELETING)));
                }
                Ok(Cow::Borrowed(change))
            }
            _ => Ok(Cow::Borrowed(change)),
        }
    }

    /// Returns `true` if the folder `to` is the folder with the role `\Trash`, and the policy of a
    /// grant lets the grant move messages there. The policy need not open the folder.
    pub(super) async fn is_policy_trash(&self, access: &Access, to: &str) -> Result<bool, Error> {
        let opens = access.policy().map(|policy| policy.opens(to));
        if opens != Some(false) || access.delete_limit() == DeleteLimit::Never {
            return Ok(false);
        }
        let trash = self.folders.with_role(access, Role::Trash).await?;
        Ok(trash.is_some_and(|trash| trash.path == to))
    }
}
