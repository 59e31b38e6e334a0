//! Stores a message with APPEND, and assigns its number.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use latchmail_core::clock::{Clock, Timestamp};
use latchmail_core::detached_tasks::DetachedTasks;
use latchmail_core::message_number::{MessageNumber, Uid};
use latchmail_core::permissions::Right;
use latchmail_directory::Directory;
use latchmail_directory::imports::{Import as Record, NewImport, RETENTION};
use latchmail_directory::message_index::StoredMessage;
use latchmail_directory::sendings::Key;
use latchmail_imap::flag::Flag;
use latchmail_imap::list::POSITIONS;
use latchmail_imap::{Connector, Fetched, MessageRef, NewMessage, Opened, Stored};
use latchmail_mime as mime;
use sha2::{Digest as _, Sha256};
use tokio::time::sleep;

use super::content::{Content, check};
use super::find::{Found, find};
use super::result::{Error, Imported};
use crate::access::Access;
use crate::blocking;
use crate::changing::acting;
use crate::changing::commands::change_error;
use crate::connections::pool::Lease;
use crate::connections::retry::retry_read;
use crate::error::{Error as MailboxError, log_failure};
use crate::folders::path::normalize_path;
use crate::folders::rights::Decision;
use crate::idempotency::{KeysInUse, in_progress, other_message, stored_key};
use crate::mail::Mail;
use crate::message::identity::{Identity, header_identity, identity};

/// Maximum duration of an import. An import of another host that began within this time counts as
/// in progress, as long as the host runs.
const MAX_DURATION: Duration = Duration::from_mins(3);

/// Factor by which [`check`] is faster for each byte than the work for which
/// [`blocking::run_sized`] is made. To move the other tasks to another thread takes longer than the
/// check of a message of 20 kB.
const CHECK_SPEED: usize = 64;

/// Delays between the searches for a message after a connection failed.
const LOOKUP_DELAYS: [Duration; 3] = [
    Duration::from_millis(250),
    Duration::from_secs(1),
    Duration::from_secs(3),
];

/// A message to store.
#[derive(Clone, Debug)]
pub struct Import {
    /// The path of the folder.
    pub folder: String,
    /// The bytes of the message.
    pub message: Bytes,
    /// The flags of the message.
    pub flags: Vec<Flag>,
    /// The time of arrival. `None` is the current time.
    pub received_at: Option<Timestamp>,
}

impl Import {
    pub(super) fn path(&self) -> &str {
        normalize_path(&self.folder)
    }

    /// Returns a hash of all values.
    fn fingerprint(&self) -> Vec<u8> {
        let mut hash = Sha256::new();
        hash.update(self.path());
        for flag in &self.flags {
            hash.update([0]);
            hash.update(flag.as_str());
        }
        hash.update([0, 0]);
        let received_at = self.received_at.map_or(-1, Timestamp::millis);
        hash.update(received_at.to_be_bytes());
        hash.update(&self.message);
        hash.finalize().to_vec()
    }
}

/// Stores messages that clients upload.
#[derive(Debug)]
pub struct Importer {
    directory: Directory,
    pub(super) mail: Arc<Mail>,
    clock: Clock,
    /// The id of this host, which distinguishes the imports of this host from the imports of other
    /// hosts.
    process: String,
    keys: KeysInUse,
    /// The imports in progress.
    tasks: DetachedTasks,
}

impl Importer {
    /// Creates the service. `host_id` identifies this process among the hosts that share the
    /// database.
    #[must_use]
    pub fn new(directory: Directory, mail: Arc<Mail>, clock: Clock, host_id: &str) -> Self {
        Self {
            directory,
            mail,
            clock,
            process: host_id.to_owned(),
            keys: KeysInUse::default(),
            tasks: DetachedTasks::default(),
        }
    }

    /// Stores a message. Returns `None` if the folder does not exist. If a request within the last
    /// 24 hours used the same `key`, stores nothing and returns the result of that request. If the
    /// outcome of that request is unknown, looks for the message, and stores the message only if
    /// the folder does not contain it.
    ///
    /// # Errors
    /// Returns an [`Error`] if the operation fails.
    pub async fn import(
        self: &Arc<Self>,
        access: &Access,
        import: Import,
        key: Option<&str>,
    ) -> Result<Option<Imported>, Error> {
        let message = import.message.clone();
        blocking::run_sized(message.len() / CHECK_SPEED, move || check(&message))
            .await
            .map_err(MailboxError::Internal)??;
        let key = key.map(|key| stored_key(access, key));
        let (importer, access) = (Arc::clone(self), access.clone());
        let task = async move {
            let access = acting(&importer.mail.changing, Cow::Borrowed(&access)).await?;
            importer
                .import_recorded(&access, &import, key.as_ref())
                .await
        };
        self.tasks
            .spawn(task)
            .await
            .unwrap_or_else(|error| Err(unknown(format!("an import ended early: {error}"))))
    }

    /// Waits until no import is in progress.
    pub async fn finished(&self) {
        self.tasks.finished().await;
    }

    /// Stores a message, unless an earlier request has used this idempotency key.
    pub(super) async fn import_once(
        &self,
        access: &Access,
        import: &Import,
        key: &Key,
    ) -> Result<Option<Imported>, Error> {
        let in_use = self.keys.start(key);
        let _in_use = in_use.ok_or_else(|| Error::Conflict(in_progress()))?;
        let hashed = import.clone();
        let fingerprint = blocking::run_sized(import.message.len(), move || hashed.fingerprint());
        let fingerprint = fingerprint.await.map_err(MailboxError::Internal)?;
        match self.directory.imports.find(key).await? {
            Some(earlier) if self.clock.now().since(earlier.begun_at()) < RETENTION => {
                if earlier.fingerprint != fingerprint {
                    return Err(Error::Conflict(other_message()));
                }
                self.continue_import(access, import, key, &earlier).await
            }
            _ => {
                self.import_new(access, import, Some((key, &fingerprint)))
                    .await
            }
        }
    }

    /// Returns the result of an earlier request with the same values, or completes this request.
    async fn continue_import(
        &self,
        access: &Access,
        import: &Import,
        key: &Key,
        earlier: &Record,
    ) -> Result<Option<Imported>, Error> {
        if let Some(number) = earlier.stored() {
            return Ok(Some(imported(import, number, true)));
        }
        let now = self.clock.now();
        let is_recent = now.since(earlier.begun_at()) < MAX_DURATION;
        if earlier.is_begun()
            && earlier.process != self.process
            && is_recent
            && self.directory.hosts.is_alive(&earlier.process).await?
        {
            return Err(Error::Conflict(in_progress()));
        }
        let Some((current, lease)) = self.folder_state(access, import).await? else {
            return Ok(None);
        };
        drop(lease);
        let imports = &self.directory.imports;
        if !imports.resume(key, earlier, &self.process, now).await? {
            return Err(Error::Conflict(in_progress()));
        }
        let before = earlier.folder_state();
        let found = if earlier.is_begun() {
            // The connection of the process that stopped can have failed a moment ago.
            self.find_repeatedly(access, import, before).await
        } else {
            self.find_stored(access, import, before).await
        };
        match found {
            Ok(Found::Stored(uid)) => {
                let stored = (uid, None);
                let number = self.number(access, import, current, stored, Some(key), None);
                Ok(Some(imported(import, number.await?, true)))
            }
            Ok(Found::Missing) => self.store(access, import, before, Some(key), None).await,
            Ok(Found::Unknown) => {
                let why = "the stored message cannot be found";
                Err(self.failed(Some(key), unknown(why.into())).await)
            }
            // The earlier outcome is still unknown.
            Err(error) => {
                log_failure(imports.set_unknown(key, &self.process).await);
                Err(error.into())
            }
        }
    }

    /// Stores a message. `record` contains the key and the fingerprint of the record to create.
    pub(super) async fn import_new(
        &self,
        access: &Access,
        import: &Import,
        record: Option<(&Key, &[u8])>,
    ) -> Result<Option<Imported>, Error> {
        let Some((state, lease)) = self.folder_state(access, import).await? else {
            return Ok(None);
        };
        if let Some((key, fingerprint)) = record {
            let new = NewImport {
                fingerprint,
                process: &self.process,
                folder_state: state,
                now: self.clock.now(),
            };
            // Another host has begun an import since the lookup.
            if self.directory.imports.begin(key, new).await?.is_some() {
                return Err(Error::Conflict(in_progress()));
            }
        }
        let key = record.map(|(key, _)| key);
        self.store(access, import, state, key, Some(lease)).await
    }

    /// Returns the UIDVALIDITY and the UIDNEXT of the folder, and the connection that has read
    /// them. Returns `None` if the folder does not exist, or if the caller must not learn that it
    /// exists.
    async fn folder_state(
        &self,
        access: &Access,
        import: &Import,
    ) -> Result<Option<((u32, u32), Lease<Connector>)>, MailboxError> {
        let (folders, path) = (&self.mail.folders, import.path());
        folders.ensure_indexed(access).await?;
        // APPEND contains the name of the folder. Another client could have renamed the folder, so
        // the caller's rights are checked with the current names.
        if access.is_limited() {
            folders.refresh(access).await?;
        }
        let folder_access = folders.require(access, path, Right::MailWrite).await?;
        let Some(folder_access) = folder_access else {
            return Ok(None);
        };
        let mut lease = self.mail.context.connections.lease(access, None).await?;
        let Some(status) = retry_read!(lease, session => session.status(path, POSITIONS)) else {
            return Ok(None);
        };
        let allowed = folder_access.authorize(path, status.uid_validity, Right::MailWrite);
        let state = (status.uid_validity, status.uid_next);
        Ok((allowed == Decision::Allowed).then_some((state, lease)))
    }

    /// Uploads and stores the message. `state` is the state of the folder before the import.
    /// `lease` is the connection that has just read this state. It is `None` if an earlier request
    /// has read the state.
    ///
    /// The message has a number only after another request can already read it. Therefore its
    /// header is marked before, if the results of checks depend on the header alone.
    async fn store(
        &self,
        access: &Access,
        import: &Import,
        state: (u32, u32),
        key: Option<&Key>,
        lease: Option<Lease<Connector>>,
    ) -> Result<Option<Imported>, Error> {
        let imports = &self.directory.imports;
        let header = self.mail.reading.trusts_headers().then(|| {
            let (header, _) = mime::split(&import.message);
            header_identity(header)
        });
        if let Some(header) = header {
            imports.begin_mark(&access.account, header).await?;
        }
        let stored = self
            .store_marked(access, import, state, key, lease, header)
            .await;
        // The mark of a message with a number has ended. If the outcome is unknown, the mark
        // remains.
        let keeps_mark = matches!(
            &stored,
            Ok(Some(_)) | Err(Error::Mailbox(MailboxError::Unknown(_)))
        );
        if let Some(header) = header.filter(|_| !keeps_mark) {
            log_failure(imports.end_mark(&access.account, header).await);
        }
        stored
    }

    /// Stores the message. If the message gets a number, ends the mark of `header`.
    async fn store_marked(
        &self,
        access: &Access,
        import: &Import,
        state: (u32, u32),
        key: Option<&Key>,
        lease: Option<Lease<Connector>>,
        header: Option<Identity>,
    ) -> Result<Option<Imported>, Error> {
        match self.append(access, import, state, lease).await {
            Ok(Some(stored)) => {
                let number = self.number(access, import, state, stored, key, header);
                Ok(Some(imported(import, number.await?, false)))
            }
            Ok(None) => {
                if let Some(key) = key {
                    log_failure(self.directory.imports.release(key, &self.process).await);
                }
                Ok(None)
            }
            Err(error) => Err(self.failed(key, error).await),
        }
    }

    /// Stores the message with APPEND. Returns its UID, and the data from which its identity is
    /// computed, if the data was read with the same command. Returns `None` if the folder does not
    /// exist. If the connection fails while the mail server stores the message, looks for the
    /// message.
    async fn append(
        &self,
        access: &Access,
        import: &Import,
        state: (u32, u32),
        lease: Option<Lease<Connector>>,
    ) -> Result<Option<(Uid, Option<Fetched>)>, Error> {
        let new = NewMessage {
            path: import.path(),
            flags: &import.flags,
            received_at: import.received_at,
            bytes: import.message.clone(),
        };
        let has_replied = lease.is_some();
        let mut lease = match lease {
            Some(lease) => lease,
            None => self.mail.context.connections.lease(access, None).await?,
        };
        let begun = async {
            let begun =
                retry_read!(lease, session => session.begin_append(new.clone(), has_replied));
            Ok::<_, MailboxError>(begun)
        };
        if !begun.await? {
            return Ok(None);
        }
        let stored = async {
            let session = lease.current_session()?;
            session
                .end_append(Some(state.1))
                .await
                .map_err(change_error)
        };
        let stored = stored.await;
        drop(lease);
        match stored {
            Ok(None) => Ok(None),
            Ok(Some(Stored {
                location: Some(location),
                message,
            })) if location.uid_validity == state.0 => Ok(Some((location.uid, message))),
            // The server does not report the UID, or another folder has replaced the folder.
            Ok(Some(_)) => match self.find_stored(access, import, state).await {
                Ok(Found::Stored(uid)) => Ok(Some((uid, None))),
                Ok(Found::Missing | Found::Unknown) => {
                    Err(unknown("the stored message cannot be found".into()))
                }
                Err(error) => Err(unknown(format!(
                    "the stored message was not found: {error}"
                ))),
            },
            Err(MailboxError::Unknown(why)) => {
                match self.find_repeatedly(access, import, state).await {
                    Ok(Found::Stored(uid)) => Ok(Some((uid, None))),
                    _ => Err(unknown(why)),
                }
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Looks several times for a message whose connection failed, because the mail server can still
    /// be storing the message. After the last attempt, a second request can store the message.
    async fn find_repeatedly(
        &self,
        access: &Access,
        import: &Import,
        state: (u32, u32),
    ) -> Result<Found, MailboxError> {
        for delay in LOOKUP_DELAYS {
            if let Ok(found @ Found::Stored(_)) = self.find_stored(access, import, state).await {
                return Ok(found);
            }
            sleep(delay).await;
        }
        self.find_stored(access, import, state).await
    }

    async fn find_stored(
        &self,
        access: &Access,
        import: &Import,
        state: (u32, u32),
    ) -> Result<Found, MailboxError> {
        let message = import.message.clone();
        let content = blocking::run_sized(message.len(), move || Content::of(&message).finish());
        let content = content.await.map_err(MailboxError::Internal)?;
        let connections = &self.mail.context.connections;
        let mut lease = connections.lease(access, Some(import.path())).await?;
        let (path, message) = (import.path(), &import.message);
        Ok(retry_read!(lease, session => find(session, path, state, message, content)))
    }

    /// Returns the number of a stored message. `stored` is a result of [`Self::append`]. Records
    /// that the message was imported, its number, and the outcome of the import with this key. Ends
    /// the mark of `header`.
    async fn number(
        &self,
        access: &Access,
        import: &Import,
        state: (u32, u32),
        stored: (Uid, Option<Fetched>),
        key: Option<&Key>,
        header: Option<Identity>,
    ) -> Result<MessageNumber, Error> {
        let number = self.assign_number(access, import, state, stored, key, header);
        // The message is stored, so the result of a failure is unknown to the client.
        let why = match number.await {
            Ok(number) => return Ok(number),
            Err(MailboxError::Unknown(why)) => why,
            Err(error) => format!("a stored message has no number: {error}"),
        };
        Err(self.failed(key, unknown(why)).await)
    }

    async fn assign_number(
        &self,
        access: &Access,
        import: &Import,
        state: (u32, u32),
        (uid, fetched): (Uid, Option<Fetched>),
        key: Option<&Key>,
        header: Option<Identity>,
    ) -> Result<MessageNumber, MailboxError> {
        let (context, path, uid_validity) = (&self.mail.context, import.path(), state.0);
        let fetched = if let Some(fetched) = fetched {
            fetched
        } else {
            let at = MessageRef {
                path,
                uid_validity,
                uid,
            };
            let mut lease = context.connections.lease(access, Some(path)).await?;
            let fetched = retry_read!(lease, session => session.identities_at(&[at]));
            let mut fetched = fetched.unwrap_or_default().into_iter();
            let found = fetched.find(|message| message.uid == uid);
            found.ok_or_else(gone)?
        };
        let message = StoredMessage {
            path,
            uid_validity,
            imap_uid: uid,
            identity: identity(&fetched),
        };
        let (account, imports) = (&access.account, &self.directory.imports);
        let numbered = imports.number(account, &message, key, header, self.clock.now());
        let number = match numbered.await? {
            Some(number) => number,
            None => {
                self.reconciled_number(access, &message, state, key, header)
                    .await?
            }
        };
        // Another request could have cached the location before the mark was written.
        context.cache.remove_location(account, number);
        Ok(number)
    }

    /// Works like [`Self::assign_number`], for a message that can be a copy or a moved message, or
    /// whose folder is not in the message index. Records first that the message was imported.
    async fn reconciled_number(
        &self,
        access: &Access,
        message: &StoredMessage<'_>,
        (uid_validity, uid_next): (u32, u32),
        key: Option<&Key>,
        header: Option<Identity>,
    ) -> Result<MessageNumber, MailboxError> {
        let (account, imports) = (&access.account, &self.directory.imports);
        let (uid, identity) = (message.imap_uid, message.identity);
        imports.mark(account, identity, self.clock.now()).await?;
        let opened = Opened {
            exists: 0,
            uid_validity,
            uid_next,
        };
        let numbers = &self.mail.numbers;
        let assigned = numbers
            .of_messages(access, message.path, opened, &[(uid, identity)])
            .await?;
        let number = assigned.get(&uid).copied().ok_or_else(gone)?;
        if let Some(key) = key {
            log_failure(imports.stored(key, number).await);
        }
        if let Some(header) = header {
            log_failure(imports.end_mark(account, header).await);
        }
        Ok(number)
    }

    /// Records that the import with this key has failed. Returns `error`.
    async fn failed(&self, key: Option<&Key>, error: Error) -> Error {
        if let Some(key) = key {
            let imports = &self.directory.imports;
            log_failure(match &error {
                Error::Mailbox(MailboxError::Unknown(_)) => {
                    imports.set_unknown(key, &self.process).await
                }
                _ => imports.release(key, &self.process).await,
            });
        }
        error
    }
}

fn imported(import: &Import, number: MessageNumber, replayed: bool) -> Imported {
    Imported {
        number,
        folder: import.path().to_owned(),
        replayed,
    }
}

fn unknown(why: String) -> Error {
    Error::Mailbox(MailboxError::Unknown(why))
}

fn gone() -> MailboxError {
    MailboxError::Internal("another client removed the message".into())
}
