//! Creates, renames and deletes folders.
//!
//! The server's lists of folders before a change decide whether the change is allowed. The message
//! index is updated after a change from a new list, so folders keep their ids and messages their
//! numbers. Changes of messages and of folders of one account do not overlap on this host.
//!
//! A member needs rights on the mailbox as a whole, because a grant on a folder does not include
//! its subfolders and the names of other folders.

use std::sync::Arc;

use latchmail_core::codes;
use latchmail_core::error::Problem;
use latchmail_core::message_number::{MessageNumber, Uid};
use latchmail_core::permissions::Right;
use latchmail_core::policy::{self, DeleteLimit};
use latchmail_imap::Connector;
use latchmail_imap::bounds::FOLDERS;
use latchmail_imap::folder_change::FolderOutcome;
use latchmail_imap::list::{COUNTS, POSITIONS, Role};
use serde_json::json;

use super::Changer;
use super::change::Action;
use super::commands::{change_error, select};
use super::recording::record;
use super::within_policy::DELETING;
use crate::access::Access;
use crate::connections::pool::Lease;
use crate::connections::retry::retry_read;
use crate::error::{Error, FolderConflict};
use crate::folders::path::normalize_path;
use crate::folders::rights::Decision;
use crate::folders::roles::{Folder, to_folders};
use crate::folders::states::folder_state;
use crate::folders::tree::FolderTree;
use crate::recording::{change_of, kind, recorded};

/// Maximum number of messages that one command moves to Trash.
const BATCH: usize = 1000;
/// Maximum number of lists of the messages that a folder still has while the messages are moved to
/// Trash. Other clients can add messages between two lists.
const MAX_LISTS: usize = 20;
/// Maximum number of commands for subscriptions and parents in one write.
const COMMANDS_AT_ONCE: usize = 64;

/// What happens to the messages of a deleted folder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Disposal {
    /// The messages are moved to the folder with the role `\Trash`, and keep their numbers.
    Trash,
    /// The messages are deleted permanently.
    Delete,
}

impl Changer {
    /// Creates a folder and its missing parents, and subscribes to them. Returns the folder with
    /// its id.
    ///
    /// # Errors
    /// Returns [`Error::InvalidFolderPath`] if no folder can have this path. Returns
    /// [`FolderConflict::Exists`] if the folder exists. Returns [`Error::TooLarge`] if the mailbox
    /// has the maximum number of folders. Returns another [`Error`] if the operation fails.
    pub async fn create_folder(
        self: &Arc<Self>,
        access: &Access,
        path: &str,
    ) -> Result<(Folder, Arc<str>), Error> {
        let (changer, access, path) = (Arc::clone(self), access.clone(), path.to_owned());
        let change = async move { changer.create(&access, &path).await };
        self.run_detached(change).await
    }

    /// Renames a folder with its subfolders, or moves the folder to another parent. The ids of the
    /// folders and the numbers of their messages do not change. Missing parents are created.
    /// Returns `None` if the folder does not exist.
    ///
    /// # Errors
    /// Returns [`Error::InvalidFolderPath`] if no folder can have the new path. Returns
    /// [`FolderConflict::Exists`] if a folder has the new path. Returns [`FolderConflict::HasRole`]
    /// if the folder or one of its subfolders has a role. Returns another [`Error`] if the
    /// operation fails.
    pub async fn rename_folder(
        self: &Arc<Self>,
        access: &Access,
        folder: &str,
        path: &str,
    ) -> Result<Option<(Folder, Arc<str>)>, Error> {
        let (changer, access) = (Arc::clone(self), access.clone());
        let (from, to) = (normalize_path(folder).to_owned(), path.to_owned());
        let change = async move {
            let (access, _lock) = &changer.lock(&access).await?;
            let change = || {
                let details = json!({ "from": from, "to": to });
                change_of(kind::FOLDER_RENAME, folder_subject(&from), &details)
            };
            let rename = Box::pin(changer.rename(access, &from, &to));
            recorded(&changer.context, access, change, rename).await
        };
        self.run_detached(change).await
    }

    /// Deletes a folder without subfolders. Without `messages`, the folder must be empty. Returns
    /// `None` if the folder does not exist.
    ///
    /// # Errors
    /// Returns an [`Error::Folder`] with the reason if the folder must not be deleted. Returns
    /// another [`Error`] if the operation fails.
    pub async fn delete_folder(
        self: &Arc<Self>,
        access: &Access,
        folder: &str,
        messages: Option<Disposal>,
    ) -> Result<Option<()>, Error> {
        let (changer, access) = (Arc::clone(self), access.clone());
        let folder = normalize_path(folder).to_owned();
        let change = async move {
            let (access, _lock) = &changer.lock(&access).await?;
            let change = || {
                let details = json!({
                    "path": folder,
                    "messagesDeleted": messages == Some(Disposal::Delete),
                });
                change_of(kind::FOLDER_DELETE, folder_subject(&folder), &details)
            };
            let remove = Box::pin(changer.remove(access, &folder, messages));
            recorded(&changer.context, access, change, remove).await
        };
        self.run_detached(change).await
    }

    /// Runs a change on its own task. The change completes even if the caller is dropped.
    async fn run_detached<T: Send + 'static>(
        &self,
        change: impl Future<Output = Result<T, Error>> + Send + 'static,
    ) -> Result<T, Error> {
        let ended = self.tasks.spawn(change).await;
        ended.unwrap_or_else(|error| {
            let reason = format!("a change of a folder ended early: {error}");
            Err(Error::Unknown(reason))
        })
    }

    async fn create(&self, access: &Access, path: &str) -> Result<(Folder, Arc<str>), Error> {
        let (access, _lock) = &self.lock(access).await?;
        let change = || {
            let details = json!({ "path": path });
            change_of(kind::FOLDER_CREATE, folder_subject(path), &details)
        };
        let create = Box::pin(async { self.create_locked(access, path).await.map(Some) });
        let created = recorded(&self.context, access, change, create).await?;
        created.ok_or_else(|| vanished("created"))
    }

    /// Like [`Changer::create_folder`]. The caller must hold the account's lock.
    pub(super) async fn create_locked(
        &self,
        access: &Access,
        path: &str,
    ) -> Result<(Folder, Arc<str>), Error> {
        if let Some(right) = lacking(access, &[Right::MailWrite]) {
            return Err(Error::Denied(right));
        }
        let mut lease = self.context.connections.lease(access, None).await?;
        let tree = self.folder_tree(access, &mut lease).await?;
        let path = tree.new_path(path)?;
        access.require_open(&path)?;
        if tree.find(&path).is_some() {
            return Err(FolderConflict::Exists.into());
        }
        let parents = tree.missing_parents(&path);
        if tree.count() + parents.len() >= FOLDERS {
            let text = format!("The mailbox has the maximum number of {FOLDERS} folders");
            return Err(Error::TooLarge(Problem::new(codes::TOO_MANY_FOLDERS, text)));
        }
        let name = tree.server_name(&path);
        let created = lease.session().await?.create_folder(&name).await;
        check(created.map_err(change_error)?)?;
        let mut commands = vec![("SUBSCRIBE", name)];
        commands.extend(create_commands(&tree, &parents));
        self.complete(&mut lease, &commands).await?;
        let tree = self.folder_tree(access, &mut lease).await;
        let tree = tree.map_err(|error| after_change(&error))?;
        let found = tree.find(&path).cloned();
        found.ok_or_else(|| vanished("created"))
    }

    /// Renames a folder. The caller must hold the account's lock.
    async fn rename(
        &self,
        access: &Access,
        from: &str,
        to: &str,
    ) -> Result<Option<(Folder, Arc<str>)>, Error> {
        if !self.may_change(access, from).await? {
            return Ok(None);
        }
        let mut lease = self.context.connections.lease(access, None).await?;
        let tree = self.folder_tree(access, &mut lease).await?;
        let Some((folder, id)) = tree.find(from).cloned() else {
            return Ok(None);
        };
        if tree.has_role_within(from) {
            return Err(FolderConflict::HasRole.into());
        }
        let to = tree.new_path(to)?;
        for one in [&*to]
            .into_iter()
            .chain(tree.below(from).map(|one| &*one.path))
        {
            access.require_open(one)?;
        }
        let trash = tree.with_role(Role::Trash);
        if access.delete_limit() == DeleteLimit::Never
            && trash.is_some_and(|trash| trash.contains(&to))
        {
            return Err(Error::Policy(policy::denied(DELETING)));
        }
        if to == from {
            return Ok(Some((folder, id)));
        }
        if tree.find(&to).is_some() {
            return Err(FolderConflict::Exists.into());
        }
        if tree.is_below(&to, from) || !tree.fits_below(from, &to) {
            return Err(Error::InvalidFolderPath);
        }
        let (old, new) = (tree.server_name(from), tree.server_name(&to));
        let subscribed = retry_read!(lease, session => session.subscribed_folders());
        // A server can keep a name without a folder after its last subfolder was deleted or moved.
        // This name contains no messages, and clients cannot see it.
        if tree.is_unselectable(&to) {
            if tree.below(&to).next().is_some() {
                return Err(FolderConflict::Exists.into());
            }
            let deleted = lease.session().await?.delete_folder(&new).await;
            deleted.map_err(change_error)?;
        }
        let renamed = lease.session().await?.rename_folder(&old, &new).await;
        match renamed.map_err(change_error)? {
            FolderOutcome::Missing => return Ok(None),
            outcome => check(outcome)?,
        }
        self.sent_folders.remove(&access.account);
        let new_paths = tree.renamed_paths(from, &to);
        let message_index = self.context.message_index();
        let indexed = message_index.rename_folders(&access.account, &new_paths);
        // Without the new paths, the folders would get new ids on some mail servers.
        indexed
            .await
            .map_err(|error| after_change(&Error::from(error)))?;
        let mut commands = create_commands(&tree, &tree.missing_parents(&to));
        for name in subscribed {
            if name == old || tree.is_below(&name, &old) {
                commands.push(("SUBSCRIBE", format!("{new}{}", &name[old.len()..])));
                commands.push(("UNSUBSCRIBE", name));
            }
        }
        self.complete(&mut lease, &commands).await?;
        let tree = self.folder_tree(access, &mut lease).await;
        let tree = tree.map_err(|error| after_change(&error))?;
        // Another client can have renamed the folder again.
        let found = tree.with_id(&id).or_else(|| tree.find(&to)).cloned();
        found.map(Some).ok_or_else(|| vanished("renamed"))
    }

    /// Deletes a folder. The caller must hold the account's lock.
    async fn remove(
        &self,
        access: &Access,
        path: &str,
        messages: Option<Disposal>,
    ) -> Result<Option<()>, Error> {
        if !self.may_change(access, path).await? {
            return Ok(None);
        }
        let messages = match access.delete_limit() {
            DeleteLimit::Never => return Err(Error::Policy(policy::denied(DELETING))),
            DeleteLimit::Trash => messages.map(|_| Disposal::Trash),
            DeleteLimit::Permanent => messages,
        };
        let mut lease = self.context.connections.lease(access, None).await?;
        let tree = self.folder_tree(access, &mut lease).await?;
        let Some((folder, _)) = tree.find(path) else {
            return Ok(None);
        };
        if folder.role.is_some() {
            return Err(FolderConflict::HasRole.into());
        }
        if tree.below(path).any(|below| below.selectable) {
            return Err(match messages {
                None => FolderConflict::NotEmpty.into(),
                Some(_) => FolderConflict::HasSubfolders.into(),
            });
        }
        drop(lease);
        let mut moved = 0;
        if messages == Some(Disposal::Trash) {
            let trash = tree.with_role(Role::Trash).ok_or(FolderConflict::NoTrash)?;
            moved = self.move_all(access, path, &trash.path).await?;
        }
        let deleted = self.delete_checked(access, &tree, path, messages).await;
        if moved == 0 {
            return deleted;
        }
        // The folder can be gone, because another client has deleted it.
        deleted
            .map(|_| Some(()))
            .map_err(|error| after_moves(moved, error))
    }

    /// Deletes a folder. Unless `messages` is `Some(Disposal::Delete)`, the folder must be empty.
    async fn delete_checked(
        &self,
        access: &Access,
        tree: &FolderTree,
        path: &str,
        messages: Option<Disposal>,
    ) -> Result<Option<()>, Error> {
        let mut lease = self.context.connections.lease(access, None).await?;
        if messages != Some(Disposal::Delete) {
            // DELETE also deletes messages. Therefore this check is the last command before DELETE.
            let status = retry_read!(lease, session => session.status(path, POSITIONS));
            match status {
                None => return Ok(None),
                Some(status) if status.messages > 0 => return Err(FolderConflict::NotEmpty.into()),
                Some(_) => {}
            }
        }
        let mut below: Vec<_> = tree.below(path).collect();
        // Names without folders, the deepest first: a server refuses to delete a name that has
        // subfolders.
        below.sort_unstable_by_key(|one| std::cmp::Reverse(one.name.len()));
        for one in below {
            // Another client can have created a folder with this name.
            let status = retry_read!(lease, session => session.status(&one.path, POSITIONS));
            if status.is_some() {
                return Err(FolderConflict::HasSubfolders.into());
            }
            let deleted = lease.session().await?.delete_folder(&one.name).await;
            deleted.map_err(change_error)?;
        }
        let name = tree.server_name(path);
        let deleted = lease.session().await?.delete_folder(&name).await;
        match deleted.map_err(change_error) {
            Ok(FolderOutcome::Changed) => {}
            Ok(FolderOutcome::Missing) => return Ok(None),
            Ok(FolderOutcome::Exists | FolderOutcome::InvalidName) => {
                return Err(FolderConflict::HasSubfolders.into());
            }
            Err(Error::Rejected(text)) => {
                // Another client can have created a subfolder after the check.
                let tree = self.folder_tree(access, &mut lease).await?;
                return Err(match tree.below(path).next() {
                    Some(_) => FolderConflict::HasSubfolders.into(),
                    None => Error::Rejected(text),
                });
            }
            Err(error) => return Err(error),
        }
        self.sent_folders.remove(&access.account);
        self.complete(&mut lease, &[("UNSUBSCRIBE", name)]).await?;
        Ok(Some(()))
    }

    /// Moves all messages of a folder to the folder `to`, and returns their count. Messages without
    /// a number keep their identity, so a later reconciliation numbers them.
    async fn move_all(&self, access: &Access, from: &str, to: &str) -> Result<usize, Error> {
        let mut moved = 0;
        for _ in 0..MAX_LISTS {
            let found = {
                let mut lease = self.context.connections.lease(access, Some(from)).await?;
                retry_read!(lease, session => session.arrivals(from, 1))
            };
            let Some((opened, uids)) = found.filter(|(_, uids)| !uids.is_empty()) else {
                return Ok(moved);
            };
            if access.grant.is_some() {
                // Each message gets a number, so that its move can be recorded.
                let numbered = self.numbers.reconcile(access, &[]).await;
                numbered.map_err(|error| after_moves(moved, error))?;
            }
            let before = moved;
            for uids in uids.chunks(BATCH) {
                let batch = self.move_batch(access, from, opened.uid_validity, uids, to);
                let count = batch.await.map_err(|error| after_moves(moved, error))?;
                moved += count;
            }
            if moved == before {
                return Ok(moved);
            }
        }
        Ok(moved)
    }

    /// Moves messages, and returns their count. For a grant, moves only messages whose move is
    /// recorded.
    async fn move_batch(
        &self,
        access: &Access,
        from: &str,
        uid_validity: u32,
        uids: &[Uid],
        to: &str,
    ) -> Result<usize, Error> {
        let (message_index, account) = (self.context.message_index(), &access.account);
        let known = message_index.known(account, from, uid_validity, uids);
        let known = known.await?.numbers.into_iter();
        let messages: Vec<(MessageNumber, Uid)> =
            known.map(|(uid, number)| (number, uid)).collect();
        let mut lease = self.context.connections.lease(access, Some(from)).await?;
        let Some((session, _)) = select(&mut lease, from, uid_validity).await? else {
            return Ok(0);
        };
        let mut selected = session.selected_folder()?;
        let recording = if access.grant.is_some() {
            let action = Action::Move { to: to.to_owned() };
            let at = (from, uid_validity);
            let changed = (&*messages, &action);
            let recorded = record(&self.context, access, &mut selected, at, changed);
            Some(recorded.await?)
        } else {
            None
        };
        let uids: Vec<Uid> = match &recording {
            Some(recording) => recording.messages.iter().map(|(_, uid)| *uid).collect(),
            None => uids.to_vec(),
        };
        if uids.is_empty() {
            return Ok(0);
        }
        let moved = selected.move_to(&uids, to).await.map_err(change_error);
        let moved = moved.and_then(|moved| moved.ok_or_else(|| FolderConflict::NoTrash.into()));
        drop(lease);
        match moved {
            Ok(moved) => {
                self.numbers
                    .store_moved(access, &messages, to, &moved)
                    .await;
                if let Some(recording) = recording {
                    recording.moved(&self.context, access, to, &moved).await;
                }
                Ok(uids.len())
            }
            Err(error) => {
                if let Some(recording) = recording {
                    recording.failed(&error).await;
                }
                Err(error)
            }
        }
    }

    /// Runs the commands that complete a change. A refusal is logged, because the change itself
    /// was made.
    async fn complete(
        &self,
        lease: &mut Lease<Connector>,
        commands: &[(&'static str, String)],
    ) -> Result<(), Error> {
        let mut refused = 0;
        for commands in commands.chunks(COMMANDS_AT_ONCE) {
            let session = lease
                .session()
                .await
                .map_err(|error| after_change(&error))?;
            let result = session.try_folder_commands(commands).await;
            refused += result.map_err(|error| after_change(&error.into()))?;
        }
        if refused > 0 {
            tracing::warn!(
                refused,
                "the mail server refused to subscribe to folders or to create their parents"
            );
        }
        Ok(())
    }

    /// Lists the folders and updates the message index.
    async fn folder_tree(
        &self,
        access: &Access,
        lease: &mut Lease<Connector>,
    ) -> Result<FolderTree, Error> {
        let listed = retry_read!(lease, session => session.folders(COUNTS));
        let all = retry_read!(lease, session => session.list());
        let states: Vec<_> = listed.iter().filter_map(folder_state).collect();
        let indexed = self.folders.update_index(access, &states).await?;
        let ids = states.into_iter().zip(indexed);
        let ids = ids.map(|(state, indexed)| (state.path, Arc::from(indexed.public_id())));
        Ok(FolderTree::new(all, to_folders(listed), ids.collect()))
    }

    /// Returns `true` if the caller may rename or delete the folder. Returns `false` if the caller
    /// must not learn that the folder exists.
    async fn may_change(&self, access: &Access, path: &str) -> Result<bool, Error> {
        let Some(right) = lacking(access, &[Right::MailRead, Right::MailWrite]) else {
            return Ok(access.policy().is_none_or(|policy| policy.opens(path)));
        };
        // The rights of a member refer to the paths in the message index.
        self.folders.refresh(access).await?;
        let folder_access = self.folders.usable_by(access).await?;
        match folder_access.authorize_path(path, right) {
            Decision::Hidden => Ok(false),
            Decision::Allowed | Decision::Denied => Err(Error::Denied(right)),
        }
    }
}

/// Returns a right that the member does not have on the mailbox as a whole. Returns `None` for the
/// owner.
fn lacking(access: &Access, rights: &[Right]) -> Option<Right> {
    let held = access.member.as_ref()?.grants.over_every_folder();
    rights.iter().copied().find(|right| !held.hold(*right))
}

/// Returns the commands that create and subscribe to folders that only exist as names.
fn create_commands(tree: &FolderTree, paths: &[String]) -> Vec<(&'static str, String)> {
    let names = paths.iter().map(|path| tree.server_name(path));
    names
        .flat_map(|name| [("CREATE", name.clone()), ("SUBSCRIBE", name)])
        .collect()
}

fn folder_subject(path: &str) -> String {
    format!("folder {path}")
}

fn check(outcome: FolderOutcome) -> Result<(), Error> {
    match outcome {
        FolderOutcome::Changed => Ok(()),
        FolderOutcome::Exists => Err(FolderConflict::Exists.into()),
        FolderOutcome::Missing | FolderOutcome::InvalidName => Err(Error::InvalidFolderPath),
    }
}

/// Converts an error after `moved` messages were moved.
fn after_moves(moved: usize, error: Error) -> Error {
    if moved == 0 {
        return error;
    }
    let text = format!("{moved} messages were moved to Trash before this error: {error}");
    Error::Unknown(text)
}

/// Converts an error that follows a successful change.
fn after_change(error: &Error) -> Error {
    Error::Unknown(format!("a folder was changed before this error: {error}"))
}

fn vanished(change: &str) -> Error {
    Error::Unknown(format!("the mail server does not list the {change} folder"))
}
