//! Stores, replaces and removes the messages of drafts.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use latchmail_core::message_number::{MessageNumber, Uid};
use latchmail_core::permissions::Right;
use latchmail_core::policy::DeleteLimit;
use latchmail_directory::message_index::StoredMessage;
use latchmail_imap::flag::Flag;
use latchmail_imap::list::POSITIONS;
use latchmail_imap::{Appended, MessageRef, NewMessage, Stored, header_fields, identity_of_stored};
use latchmail_mime::Header;

use super::content::Identity;
use super::id::DraftId;
use super::original;
use super::recording::{failed, record_change, record_creation, record_stored};
use super::result::Error;
use super::stored::{describe_bytes, require_shown};
use super::survey::Found;
use super::{DraftContent, Drafts, StoredDraft};
use crate::access::Access;
use crate::blocking;
use crate::changing::commands::{change_error, select};
use crate::connections::retry::retry_read;
use crate::context::Context;
use crate::error::Error as MailboxError;
use crate::message::identity::identity;
use crate::message::version::content_version;
use crate::outbox::attached_file::FoundFile;
use crate::outbox::draft::{MAX_MESSAGE, is_message_id};
use crate::outbox::memory::MemoryPermit;
use crate::outbox::{Error as OutboxError, OriginalMessage, Recipient};
use crate::recording::kind;

/// Maximum number of bytes of the header fields that a replacement keeps.
const MAX_KEPT: usize = 2048;

/// Time for which a connection of the pool needs no proof that it still works, unless the mail
/// server has closed it. A firewall can drop a connection that is idle for longer.
const RECENT: Duration = Duration::from_secs(5);

/// The domain of Message-IDs if neither the sender nor the account has a valid address.
const NO_DOMAIN: &str = "localhost.localdomain";

impl Drafts {
    pub(super) async fn create_now(
        &self,
        access: &Access,
        content: &DraftContent,
    ) -> Result<StoredDraft, Error> {
        let message_id = self.new_message_id(access, content)?;
        let id = DraftId::of_message_id(&message_id);
        let identity = Identity {
            id,
            message_id,
            original: None,
        };
        let (message, _memory) = self.compose(access, content, &identity).await?;
        let recording = record_creation(self, access, id).await?;
        let stored = async {
            for _ in 0..2 {
                let path = self.existing_folder(access, Right::MailWrite).await?;
                if let Some(appended) = self.append(access, &path, &message, (id, None)).await? {
                    self.remember(&access.account, &path, appended, id);
                    let number = self.number_of(access, &path, appended).await?;
                    return Ok((number, path, appended));
                }
                self.forget_folder(&access.account);
            }
            let why = "the folder for drafts was removed during every attempt";
            Err(MailboxError::Unavailable(why.into()))
        };
        // The draft is described while the mail server stores it, so its number is not known yet.
        let described = describe_bytes(access, id, MessageNumber(0), message.clone());
        let (stored, described) = tokio::join!(stored, described);
        let number = match stored {
            Ok((number, path, appended)) => {
                record_stored(self, access, recording, number, (&path, appended)).await;
                number
            }
            Err(error) => {
                let error = Error::from(error);
                failed(recording, &error).await;
                return Err(error);
            }
        };
        Ok(StoredDraft {
            version: content_version(&access.account, number),
            number,
            ..described?
        })
    }

    /// Replaces a draft. The caller must hold the account's lock.
    pub(super) async fn replace_now(
        &self,
        access: &Access,
        id: &str,
        content: &DraftContent,
        if_version: Option<&str>,
    ) -> Result<Option<StoredDraft>, Error> {
        let rights = [Right::MailWrite];
        let Some(found) = self.find(access, id, &rights, None).await? else {
            return Ok(None);
        };
        check_version(access, &found, if_version)?;
        require_shown(self, access, &found).await?;
        let (message_id, original) = self.kept_fields(access, &found).await?;
        let message_id = match message_id {
            Some(message_id) => message_id,
            None => self.new_message_id(access, content)?,
        };
        let id = found.id;
        let identity = Identity {
            id,
            message_id,
            original,
        };
        let (message, _memory) = self.compose(access, content, &identity).await?;
        let recording = record_change(self, access, kind::DRAFT_UPDATE, &found);
        let recording = recording.await?;
        match replace_found(self, access, &found, id, message.clone()).await {
            Ok(Some((number, appended))) => {
                let at = (&*found.survey.path, appended);
                record_stored(self, access, recording, number, at).await;
                describe_bytes(access, id, number, message).await.map(Some)
            }
            Ok(None) => {
                failed(recording, &Error::VersionMismatch).await;
                Ok(None)
            }
            Err(error) => {
                failed(recording, &error).await;
                Err(error)
            }
        }
    }

    /// Deletes a draft. The caller must hold the account's lock.
    pub(super) async fn delete_now(
        &self,
        access: &Access,
        id: &str,
        if_version: Option<&str>,
    ) -> Result<Option<()>, Error> {
        let rights = [Right::MailWrite];
        let Some(found) = self.find(access, id, &rights, None).await? else {
            return Ok(None);
        };
        check_version(access, &found, if_version)?;
        if access.delete_limit() != DeleteLimit::Permanent {
            // The policy decides whether the draft is moved to Trash.
            let trashed = self
                .mail
                .changing
                .trash_locked(access, vec![found.number], None);
            let is_gone = trashed.await?.is_empty();
            return if is_gone && if_version.is_some() {
                Err(Error::VersionMismatch)
            } else {
                Ok(Some(()))
            };
        }
        let recording = record_change(self, access, kind::DRAFT_DELETE, &found);
        let recording = recording.await?;
        let removed = self.remove(access, &found).await;
        if let Some(recording) = recording {
            recording.end(removed.as_ref().copied()).await;
        }
        if !removed? && if_version.is_some() {
            return Err(Error::VersionMismatch);
        }
        Ok(Some(()))
    }

    /// Removes the messages of a draft. Returns `false` if another client has removed the newest
    /// message before.
    async fn remove(&self, access: &Access, found: &Found) -> Result<bool, MailboxError> {
        let uids = found.entry.uids();
        let removed = self.expunge(access, found.survey.location(), &uids).await?;
        let existed = removed.contains(&found.entry.uid);
        if existed {
            let old = (found.number, found.message());
            forget_message(&self.mail.context, &access.account, old).await;
        }
        Ok(existed)
    }

    /// Removes the replaced messages of a draft. Returns `false` if another client has replaced or
    /// removed the draft since it was found.
    async fn supersede(
        &self,
        access: &Access,
        found: &Found,
        appended: Appended,
    ) -> Result<bool, MailboxError> {
        let old = found.entry.uids();
        let survey = self.survey(access, &found.survey.path, &[], None).await?;
        let unchanged = survey.is_some_and(|now| {
            let new = now.drafts.iter().find(|entry| entry.uid == appended.uid);
            now.opened.uid_validity == found.survey.opened.uid_validity
                && appended.uid_validity == now.opened.uid_validity
                && now.uids.contains(&found.entry.uid)
                && new.is_some_and(|new| new.older.iter().all(|uid| old.contains(uid)))
        });
        if !unchanged {
            return Ok(false);
        }
        let removed = self.expunge(access, found.survey.location(), &old).await?;
        Ok(removed.contains(&found.entry.uid))
    }

    /// Writes the message of a draft. Returns the message, and the permit for its memory.
    async fn compose(
        &self,
        access: &Access,
        content: &DraftContent,
        identity: &Identity,
    ) -> Result<(Bytes, MemoryPermit), Error> {
        let found = self.outbox.find_files(access, &content.files).await?;
        let files = found.iter().map(FoundFile::size).sum::<usize>();
        let size = content.text_size() + files;
        if size > MAX_MESSAGE {
            return Err(OutboxError::TooLarge.into());
        }
        let memory = self.outbox.acquire_memory(access, size).await?;
        let files = self.outbox.read_files(access, &content.files, found);
        let (files, now) = (files.await?, self.clock.now());
        let (content, identity) = (content.clone(), identity.clone());
        let write = move || content.write(&files, &identity, now);
        let message = blocking::run_text(size, write).await;
        let message = message.map_err(MailboxError::Internal)??;
        Ok((message, memory))
    }

    /// Stores a message in the folder for drafts. Returns `None` if the folder does not exist. If
    /// the connection fails, looks for a message with the id and with a UID after `after`.
    async fn append(
        &self,
        access: &Access,
        path: &Arc<str>,
        message: &Bytes,
        (id, after): (DraftId, Option<Uid>),
    ) -> Result<Option<Appended>, MailboxError> {
        let connections = &self.mail.context.connections;
        // With the folder open, the identity of the message is read without opening it again.
        let mut lease = connections.lease(access, Some(&**path)).await?;
        if access.is_limited() {
            let status = retry_read!(lease, session => session.status(path, POSITIONS));
            let Some(status) = status else {
                return Ok(None);
            };
            let at = (&**path, status.uid_validity);
            if !self.authorize(access, at, &[Right::MailWrite]).await? {
                return Err(MailboxError::Denied(Right::MailWrite));
            }
        }
        let flags = ["\\Draft", "\\Seen"].into_iter().filter_map(Flag::named);
        let flags: Vec<Flag> = flags.collect();
        let new = NewMessage {
            path,
            flags: &flags,
            received_at: None,
            bytes: message.clone(),
        };
        let has_replied = lease.was_used_within(RECENT);
        if !retry_read!(lease, session => session.begin_append(new.clone(), has_replied)) {
            return Ok(None);
        }
        let stored = lease.current_session()?.end_append(None).await;
        let stored = stored.map_err(change_error);
        drop(lease);
        let why = match stored {
            Ok(None) => return Ok(None),
            Ok(Some(Stored {
                location: Some(appended),
                ..
            })) => return Ok(Some(appended)),
            Ok(Some(_)) => "the mail server does not report the UID".to_owned(),
            Err(MailboxError::Unknown(why)) => why,
            Err(error) => return Err(error),
        };
        let survey = self.survey(access, path, &[], None).await.ok().flatten();
        let entries = survey.iter().flat_map(|survey| &survey.drafts);
        let mut stored = entries.filter(|entry| entry.id == Some(id) && after < Some(entry.uid));
        match (stored.next(), &survey) {
            (Some(entry), Some(survey)) => Ok(Some(Appended {
                uid_validity: survey.opened.uid_validity,
                uid: entry.uid,
            })),
            _ => Err(MailboxError::Unknown(why)),
        }
    }

    /// Assigns the number of a message that was just stored.
    async fn number_of(
        &self,
        access: &Access,
        path: &str,
        appended: Appended,
    ) -> Result<MessageNumber, MailboxError> {
        let Appended { uid_validity, uid } = appended;
        let at = MessageRef {
            path,
            uid_validity,
            uid,
        };
        let numbered = async {
            let context = &self.mail.context;
            let mut lease = context.connections.lease(access, Some(path)).await?;
            let found = retry_read!(lease, session => identity_of_stored(session, at));
            drop(lease);
            let gone = || MailboxError::Internal("another client removed the draft".into());
            let stored = StoredMessage {
                path,
                uid_validity,
                imap_uid: uid,
                identity: identity(&found.ok_or_else(gone)?),
            };
            let (index, account) = (context.message_index(), &access.account);
            if let Some(number) = index.number_stored(account, &stored).await? {
                return Ok(number);
            }
            // The index contains a copy of the draft, or does not contain the folder.
            let messages = [(uid, stored.identity)];
            let assign = || index.assign_numbers(account, path, uid_validity, &messages, &[]);
            let numbers = if let Some(numbers) = assign().await? {
                numbers
            } else {
                self.mail.folders.refresh(access).await?;
                assign().await?.unwrap_or_default()
            };
            numbers.get(&uid).copied().ok_or_else(gone)
        };
        numbered.await.map_err(after_append)
    }

    /// Deletes messages permanently. Returns the UIDs of the messages that existed.
    pub(super) async fn expunge(
        &self,
        access: &Access,
        (path, uid_validity): (&str, u32),
        uids: &[Uid],
    ) -> Result<BTreeSet<Uid>, MailboxError> {
        let connections = &self.mail.context.connections;
        let mut lease = connections.lease(access, Some(path)).await?;
        let selected = select(&mut lease, path, uid_validity).await?;
        let Some((session, _)) = selected else {
            return Ok(BTreeSet::new());
        };
        let expunged = session.selected_folder()?.expunge(uids).await;
        expunged.map_err(change_error)
    }

    /// Returns the Message-ID of a draft, if it is valid, and the original of the draft.
    async fn kept_fields(
        &self,
        access: &Access,
        found: &Found,
    ) -> Result<(Option<String>, Option<OriginalMessage>), MailboxError> {
        let at = found.survey.location();
        let connections = &self.mail.context.connections;
        let mut lease = connections.lease(access, Some(at.0)).await?;
        let (uids, names) = ([found.entry.uid], format!("MESSAGE-ID {}", original::FIELD));
        let fetched = retry_read!(lease, session =>
            header_fields(session, at, &uids, (&names, MAX_KEPT)));
        let header = fetched.first().map(|message| message.header.clone());
        let header = header.unwrap_or_default();
        let message_id = Header::of(&header, MAX_KEPT).message_id;
        let message_id = Some(message_id).filter(|id| is_message_id(id));
        Ok((message_id, original::of_header(&header)))
    }

    fn new_message_id(
        &self,
        access: &Access,
        content: &DraftContent,
    ) -> Result<String, OutboxError> {
        let own = || {
            let own = Recipient::new(String::new(), &access.credential.username).ok()?;
            Some(own.address.domain().to_owned())
        };
        let domain = content.domain().or_else(own);
        let domain = domain.as_deref().unwrap_or(NO_DOMAIN);
        self.outbox.new_message_id(domain)
    }
}

/// Stores the new message of a draft, and removes the old ones. Returns `None` if the folder
/// does not exist.
async fn replace_found(
    drafts: &Drafts,
    access: &Access,
    found: &Found,
    id: DraftId,
    message: Bytes,
) -> Result<Option<(MessageNumber, Appended)>, Error> {
    let path = &found.survey.path;
    let after = Some(found.entry.uid);
    let Some(appended) = drafts.append(access, path, &message, (id, after)).await? else {
        drafts.forget_folder(&access.account);
        return Ok(None);
    };
    drafts.remember(&access.account, path, appended, id);
    let replaced = drafts.supersede(access, found, appended).await;
    let replaced = replaced.map_err(after_append)?;
    if !replaced {
        let location = (&**path, appended.uid_validity);
        let removed = drafts.expunge(access, location, &[appended.uid]).await;
        removed.map_err(after_append)?;
        return Err(Error::VersionMismatch);
    }
    let old = (found.number, found.message());
    forget_message(&drafts.mail.context, &access.account, old).await;
    let number = drafts.number_of(access, path, appended).await?;
    Ok(Some((number, appended)))
}

/// Removes the expunged message of a draft from the message index and the cache. A sync with the
/// mail server removes messages that are not removed here.
///
/// The caller must have expunged the message. If another client has moved it before, the message
/// keeps its number. A sync can also have given the number to a copy of the message.
pub(super) async fn forget_message(
    context: &Context,
    account: &str,
    (number, at): (MessageNumber, MessageRef<'_>),
) {
    let index = context.message_index();
    let forget = async {
        let mut messages = index.messages(account, &[number]).await?;
        messages.retain(|message| {
            let location = &message.location;
            location.path == at.path
                && (location.uid_validity(), location.imap_uid()) == (at.uid_validity, at.uid)
        });
        index.remove_lost(account, &messages).await?;
        for message in &messages {
            let location = &message.location;
            context.cache.remove_message(account, number, location);
        }
        Ok::<_, latchmail_directory::Error>(())
    };
    if let Err(error) = forget.await {
        tracing::error!(%error, "failed to remove a draft from the message index");
    }
}

/// Checks the version of a draft that was found.
pub(super) fn check_version(
    access: &Access,
    found: &Found,
    if_version: Option<&str>,
) -> Result<(), Error> {
    let version = content_version(&access.account, found.number);
    if if_version.is_none_or(|expected| expected == version) {
        return Ok(());
    }
    Err(Error::VersionMismatch)
}

/// Converts an error that follows a successful APPEND.
#[expect(clippy::needless_pass_by_value, reason = "for `map_err`")]
fn after_append(error: MailboxError) -> MailboxError {
    MailboxError::Unknown(format!("a draft was stored before this error: {error}"))
}
