//! Stores copies of sent messages in the Sent folder.

use std::sync::Arc;

use bytes::Bytes;
use latchmail_imap::flag::Flag;
use latchmail_imap::list::COUNTS;
use latchmail_imap::{Connector, NewMessage};

use super::{Changer, completing};
use crate::access::Access;
use crate::connections::pool::Lease;
use crate::connections::retry::retry_read;
use crate::error::Error;
use crate::folders::roles::{drafts_folder, sent_folder, to_folders};

/// A copy of a sent message. The APPEND command was sent to the mail server without its last line.
/// [`UploadedCopy::store`] sends the last line, which stores the copy. If this value is dropped,
/// the mail server discards the copy.
pub(crate) struct UploadedCopy {
    changer: Arc<Changer>,
    account: String,
    lease: Lease<Connector>,
    path: Arc<str>,
}

impl Changer {
    /// Uploads a copy of a message to the mail server. The caller uploads the copy while the
    /// message is being sent, so that storing the copy afterwards is fast. Returns `None` if no
    /// Sent folder exists.
    ///
    /// # Errors
    /// Returns an [`Error`] if the operation fails.
    pub(crate) async fn upload_sent_copy(
        self: &Arc<Self>,
        access: &Access,
        message: Bytes,
    ) -> Result<Option<UploadedCopy>, Error> {
        let completed;
        let access = if access.grant.is_some() {
            // The message may have been sent already, so a suspension of the grant must not end
            // the session with the copy.
            completed = completing(self, access).await?;
            &completed
        } else {
            access
        };
        let account = &access.account;
        let mut lease = self.context.connections.lease(access, None).await?;
        let cached = self.sent_folders.get(account);
        let path = if let Some(path) = self.sent_folder_lookups.count(cached) {
            path
        } else {
            let folders = retry_read!(lease, session => session.folders(COUNTS));
            let Some(sent) = sent_folder(to_folders(folders)) else {
                return Ok(None);
            };
            let path = Arc::from(sent.path);
            self.sent_folders.insert(account.clone(), Arc::clone(&path));
            path
        };
        let seen: Vec<Flag> = Flag::named("\\Seen").into_iter().collect();
        let copy = NewMessage {
            path: &path,
            flags: &seen,
            received_at: None,
            bytes: message,
        };
        if !retry_read!(lease, session => session.begin_append(copy.clone(), false)) {
            return Ok(None);
        }
        Ok(Some(UploadedCopy {
            changer: Arc::clone(self),
            account: account.clone(),
            lease,
            path,
        }))
    }
}

impl Changer {
    /// Stores a draft in the folder for drafts, with the flags `\Draft` and `\Seen`.
    ///
    /// # Errors
    /// Returns [`Error::Internal`] if there is no such folder, or another [`Error`] if the
    /// operation fails.
    pub(crate) async fn restore_draft(
        self: &Arc<Self>,
        access: &Access,
        message: Bytes,
    ) -> Result<(), Error> {
        let mut lease = self.context.connections.lease(access, None).await?;
        let folders = retry_read!(lease, session => session.folders(COUNTS));
        drop(lease);
        let no_folder = || Error::Internal("there is no Drafts folder".into());
        let path = drafts_folder(to_folders(folders))
            .ok_or_else(no_folder)?
            .path;
        let flags = ["\\Draft", "\\Seen"];
        let stored = store_message(self, access, &path, (&flags, message)).await?;
        stored.then_some(()).ok_or_else(no_folder)
    }
}

/// Stores a message in a folder. Returns `false` if the folder does not exist.
///
/// # Errors
/// Returns an [`Error`] if the operation fails.
pub(crate) async fn store_message(
    changer: &Changer,
    access: &Access,
    path: &str,
    (flags, message): (&[&str], Bytes),
) -> Result<bool, Error> {
    let flags: Vec<Flag> = flags.iter().filter_map(|flag| Flag::named(flag)).collect();
    let copy = NewMessage {
        path,
        flags: &flags,
        received_at: None,
        bytes: message,
    };
    let mut lease = changer.context.connections.lease(access, None).await?;
    if !retry_read!(lease, session => session.begin_append(copy.clone(), false)) {
        return Ok(false);
    }
    let stored = lease.current_session()?.end_append(None).await?;
    Ok(stored.is_some())
}

impl UploadedCopy {
    /// Stores the copy with the flag `\Seen`. Returns the path of the folder. Returns `None` if the
    /// folder no longer exists.
    ///
    /// # Errors
    /// Returns an [`Error`] if the operation fails.
    pub(crate) async fn store(mut self) -> Result<Option<String>, Error> {
        let session = self.lease.current_session()?;
        if session.end_append(None).await?.is_some() {
            return Ok(Some(self.path.to_string()));
        }
        self.changer.sent_folders.remove(&self.account);
        Ok(None)
    }
}
