//! Changes the messages of a mailbox: flags, moves, copies, deletions, and copies of sent messages.
//! Creates, renames and deletes folders.

pub(crate) mod change;
pub(crate) mod commands;
mod conditions;
mod flags;
pub(crate) mod folders;
mod in_folder;
mod mark;
mod recording;
pub(crate) mod sent_copy;
pub(crate) mod snooze;
mod trash;
mod within_policy;

use std::borrow::Cow;
use std::sync::Arc;

use latchmail_core::account_permits::AccountPermits;
use latchmail_core::detached_tasks::DetachedTasks;
use latchmail_core::policy::ActingGrant;
use quick_cache::sync::Cache;
use tokio::sync::OwnedSemaphorePermit;

use crate::access::Access;
use crate::cache::{LookupCounter, MAX_ACCOUNTS};
use crate::context::Context;
use crate::error::Error;
use crate::folders::Folders;
use crate::index::SearchIndex;
use crate::numbers::Numbers;

/// Changes messages.
#[derive(Debug)]
pub struct Changer {
    context: Arc<Context>,
    folders: Arc<Folders>,
    numbers: Arc<Numbers>,
    index: Arc<SearchIndex>,
    /// One lock per account, which serializes the changes of the mailbox.
    locks: AccountPermits,
    /// The running changes.
    tasks: DetachedTasks,
    /// The cached path of each account's Sent folder.
    sent_folders: Cache<String, Arc<str>>,
    sent_folder_lookups: LookupCounter,
}

impl Changer {
    pub(crate) fn new(
        context: Arc<Context>,
        folders: Arc<Folders>,
        numbers: Arc<Numbers>,
        index: Arc<SearchIndex>,
    ) -> Self {
        Self {
            context,
            folders,
            numbers,
            index,
            locks: AccountPermits::new(1),
            tasks: DetachedTasks::default(),
            sent_folders: Cache::new(MAX_ACCOUNTS),
            sent_folder_lookups: LookupCounter::new("sent_folders"),
        }
    }

    /// Acquires the mailbox's lock. Then reads a member's grants again, because a grant can have
    /// been withdrawn while the request waited for the lock. See [`acting`] for the access of a
    /// grant.
    pub(crate) async fn lock<'a>(
        &self,
        access: &'a Access,
    ) -> Result<(Cow<'a, Access>, Option<OwnedSemaphorePermit>), Error> {
        let connections = &self.context.connections;
        let (access, lock) = connections.lock(&self.locks, access).await?;
        let mut access = acting(self, access).await?;
        if let Some(member) = &access.member {
            let teams = &self.context.directory.teams;
            let shared = teams.shared_mailbox(&access.account, &member.account);
            let grants = shared.await?.map(|shared| shared.grants);
            let grants = Arc::new(grants.unwrap_or_else(|| Vec::new().into()));
            if let Some(member) = &mut access.to_mut().member {
                member.grants = grants;
            }
        }
        Ok((access, lock))
    }

    /// Waits until no change is in progress.
    pub async fn finished(&self) {
        self.tasks.finished().await;
    }
}

/// Returns the access with which a change of a grant is made, with the grant's current policy. The
/// change uses a credential of the service, so a suspension of the grant does not interrupt the
/// change between two commands: a change is refused here, or completes. The access of other callers
/// does not change.
///
/// # Errors
/// Returns [`Error::Suspended`] if the grant was suspended or has ended. Returns another
/// [`Error`] if the database fails.
pub(crate) async fn acting<'a>(
    changer: &Changer,
    mut access: Cow<'a, Access>,
) -> Result<Cow<'a, Access>, Error> {
    let Some(grant) = access.grant.clone() else {
        return Ok(access);
    };
    if access.credential.app_password_id() != Some(&*grant.app_password_id) {
        // The service completes what the grant began, see `completing`.
        return Ok(access);
    }
    let policies = &changer.context.directory.policies;
    let standing = policies.standing(&grant.app_password_id).await?;
    let standing = standing.filter(|standing| !standing.suspended);
    let policy = standing.ok_or(Error::Suspended)?.policy;
    if policy != grant.policy {
        access.to_mut().grant = Some(Arc::new(ActingGrant {
            policy,
            ..ActingGrant::clone(&grant)
        }));
    }
    if let Some(service) = changer.index.access_of(&access.account).await? {
        access.to_mut().credential = service.credential;
    }
    Ok(access)
}

/// Returns the access with which a change of a grant is completed that has begun, also if the grant
/// was suspended since.
///
/// # Errors
/// Returns an [`Error`] if the database fails.
pub(crate) async fn completing(changer: &Changer, access: &Access) -> Result<Access, Error> {
    let mut access = access.clone();
    if access.grant.is_some() {
        match changer.index.access_of(&access.account).await? {
            Some(service) => access.credential = service.credential,
            // With the credential of the grant, the change would be refused.
            None => access.grant = None,
        }
    }
    Ok(access)
}
