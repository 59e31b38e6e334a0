//! Finds the drafts in the folder for drafts. The ids of messages are cached, because the header of
//! a message never changes.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use latchmail_core::message_number::{MessageNumber, Uid};
use latchmail_core::permissions::Right;
use latchmail_imap::{Appended, Fetched, MessageRef, Opened};
use latchmail_imap::{beginning_in_open_folder, header_fields, undeleted};

use super::id::{DraftId, ID_FIELDS};
use super::result::Error;
use super::{Drafts, StoredDraft};
use crate::access::Access;
use crate::connections::retry::retry_read;
use crate::error::Error as MailboxError;
use crate::message::identity::identity;

/// Maximum number of messages of the folder that are drafts. Older messages are ignored.
const MAX_DRAFTS: usize = 10_000;
/// Maximum number of messages whose ids are cached for one account.
const MAX_KNOWN: usize = 1000;
/// Number of messages whose ids one command reads, and the bytes that it reads of each header.
const BATCH: usize = 500;
const HEADER: usize = 2048;
/// Maximum number of attempts to read a draft that another client replaces at the same time.
const ATTEMPTS: usize = 3;

/// The ids of the messages in a folder.
#[derive(Debug)]
pub(super) struct KnownIds {
    /// Two folders can have the same UIDVALIDITY, for example the time of their creation.
    path: Arc<str>,
    uid_validity: u32,
    /// `None` is a message whose id depends on its number.
    ids: BTreeMap<Uid, Option<DraftId>>,
}

/// The drafts in a folder.
#[derive(Debug)]
pub(super) struct Survey {
    pub(super) path: Arc<str>,
    pub(super) opened: Opened,
    /// The UIDs of all messages, in ascending order.
    pub(super) uids: Vec<Uid>,
    /// The drafts. The newest draft is first.
    pub(super) drafts: Vec<Entry>,
    /// The beginning of the draft that the caller reads. `None` if it was not found.
    pub(super) message: Option<Fetched>,
}

/// A draft in a folder.
#[derive(Clone, Debug)]
pub(super) struct Entry {
    /// `None` if the id depends on the number of the message.
    pub(super) id: Option<DraftId>,
    /// The UID of the newest message with the id.
    pub(super) uid: Uid,
    /// The UIDs of older messages with the same id.
    pub(super) older: Vec<Uid>,
}

/// A draft that was found.
#[derive(Debug)]
pub(super) struct Found {
    pub(super) survey: Survey,
    pub(super) entry: Entry,
    pub(super) id: DraftId,
    pub(super) number: MessageNumber,
}

impl KnownIds {
    fn is_of(&self, path: &str, uid_validity: u32) -> bool {
        *self.path == *path && self.uid_validity == uid_validity
    }
}

impl Survey {
    pub(super) fn location(&self) -> (&str, u32) {
        (&self.path, self.opened.uid_validity)
    }
}

impl Found {
    /// Returns the location of the newest message of the draft.
    pub(super) fn message(&self) -> MessageRef<'_> {
        let (path, uid_validity) = self.survey.location();
        MessageRef {
            path,
            uid_validity,
            uid: self.entry.uid,
        }
    }
}

impl Entry {
    /// Returns the UIDs of all messages of the draft.
    pub(super) fn uids(&self) -> Vec<Uid> {
        [&[self.uid], &self.older[..]].concat()
    }
}

impl Drafts {
    /// Returns a draft. Returns `None` if the draft does not exist, or if the member must not learn
    /// that it exists.
    ///
    /// # Errors
    /// Returns an [`Error`] if the operation fails.
    pub async fn get(&self, access: &Access, id: &str) -> Result<Option<StoredDraft>, Error> {
        for _ in 0..ATTEMPTS {
            let Some(found) = self.find(access, id, &[Right::MailRead], None).await? else {
                return Ok(None);
            };
            let draft = [(found.id, found.entry.uid, found.number)];
            let mut read = self.read(access, found.survey.location(), &draft).await?;
            if let Some(draft) = read.pop() {
                return Ok(Some(draft));
            }
        }
        let why = "another client replaced the draft during every attempt to read it";
        Err(MailboxError::Unavailable(why.into()).into())
    }

    /// Returns a page of drafts, and the total number of drafts. The newest draft is first.
    ///
    /// # Errors
    /// Returns an [`Error`] if the operation fails.
    pub async fn list(
        &self,
        access: &Access,
        (offset, limit): (usize, usize),
    ) -> Result<(Vec<StoredDraft>, usize), Error> {
        let rights = [Right::MailRead];
        let Some(path) = self.folder(access, &rights).await? else {
            return Ok((Vec::new(), 0));
        };
        let Some(survey) = self.survey(access, &path, &rights, None).await? else {
            return Ok((Vec::new(), 0));
        };
        let page: Vec<&Entry> = survey.drafts.iter().skip(offset).take(limit).collect();
        let uids: Vec<Uid> = page.iter().map(|entry| entry.uid).collect();
        let numbers = self.numbers(access, &survey, &uids).await?;
        let numbered = page.iter().filter_map(|entry| {
            let number = *numbers.get(&entry.uid)?;
            let id = entry.id;
            let id = id.unwrap_or_else(|| DraftId::of_number(&access.account, number));
            Some((id, entry.uid, number))
        });
        let numbered: Vec<_> = numbered.collect();
        let drafts = self.read(access, survey.location(), &numbered).await?;
        Ok((drafts, survey.drafts.len()))
    }

    /// Finds the draft with this id. If `bytes` is set, also reads this number of bytes of its
    /// message, unless its id depends on its number. Returns `None` if the draft does not exist, or
    /// if the member must not learn that it exists.
    pub(super) async fn find(
        &self,
        access: &Access,
        id: &str,
        rights: &[Right],
        bytes: Option<usize>,
    ) -> Result<Option<Found>, MailboxError> {
        let Some(path) = self.folder(access, rights).await? else {
            return Ok(None);
        };
        let id = DraftId::parse(id);
        let read = id.zip(bytes);
        let Some(survey) = self.survey(access, &path, rights, read).await? else {
            return Ok(None);
        };
        let Some(id) = id else {
            return Ok(None);
        };
        if let Some(entry) = survey.drafts.iter().find(|entry| entry.id == Some(id)) {
            let (uid, entry) = (entry.uid, entry.clone());
            let numbers = self.numbers(access, &survey, &[uid]).await?;
            return Ok(numbers.get(&uid).map(|number| Found {
                number: *number,
                survey,
                entry,
                id,
            }));
        }
        let unnumbered = survey.drafts.iter().filter(|entry| entry.id.is_none());
        let uids: Vec<Uid> = unnumbered.map(|entry| entry.uid).collect();
        let numbers = self.numbers(access, &survey, &uids).await?;
        let mut numbers = numbers.into_iter();
        let found = numbers.find(|(_, number)| DraftId::of_number(&access.account, *number) == id);
        let Some((uid, number)) = found else {
            return Ok(None);
        };
        let entry = survey.drafts.iter().find(|entry| entry.uid == uid);
        Ok(entry.cloned().map(|entry| Found {
            survey,
            entry,
            id,
            number,
        }))
    }

    /// Finds all drafts in a folder. If `read` is set, also reads this number of bytes of the draft
    /// with this id. Returns `None` if the folder does not exist, or if the member does not have
    /// all `rights` on it.
    pub(super) async fn survey(
        &self,
        access: &Access,
        path: &Arc<str>,
        rights: &[Right],
        read: Option<(DraftId, usize)>,
    ) -> Result<Option<Survey>, MailboxError> {
        let account = &access.account;
        let connections = &self.mail.context.connections;
        let mut lease = connections.lease(access, None).await?;
        let Some((opened, mut uids)) = retry_read!(lease, session => undeleted(session, path))
        else {
            self.forget_folder(account);
            return Ok(None);
        };
        let at = (&**path, opened.uid_validity);
        if !self.authorize(access, at, rights).await? {
            return Ok(None);
        }
        uids.drain(..uids.len().saturating_sub(MAX_DRAFTS));
        let cached = self.known.get(account);
        let cached = cached.filter(|known| known.is_of(path, opened.uid_validity));
        let cached = |uid: &Uid| Some((*uid, *cached.as_ref()?.ids.get(uid)?));
        let mut ids: BTreeMap<Uid, Option<DraftId>> = uids.iter().filter_map(cached).collect();
        let missing: Vec<Uid> = uids
            .iter()
            .copied()
            .filter(|uid| !ids.contains_key(uid))
            .collect();
        for uids in missing.chunks(BATCH) {
            let fetched = retry_read!(lease, session =>
                header_fields(session, at, uids, (ID_FIELDS, HEADER)));
            let new = fetched.iter();
            ids.extend(new.map(|message| (message.uid, DraftId::of_header(&message.header))));
        }
        uids.retain(|uid| ids.contains_key(uid));
        let mut drafts: Vec<Entry> = Vec::new();
        let mut positions: HashMap<DraftId, usize> = HashMap::new();
        for (uid, id) in ids.iter().rev() {
            if let Some(position) = id.and_then(|id| positions.get(&id)) {
                drafts[*position].older.push(*uid);
                continue;
            }
            positions.extend(id.map(|id| (id, drafts.len())));
            drafts.push(Entry {
                id: *id,
                uid: *uid,
                older: Vec::new(),
            });
        }
        let read = read.and_then(|(id, bytes)| {
            let entry = drafts.iter().find(|entry| entry.id == Some(id))?;
            Some((entry.uid, bytes))
        });
        let mut message = None;
        if let Some((uid, bytes)) = read {
            let (path, uid_validity) = at;
            let at = MessageRef {
                path,
                uid_validity,
                uid,
            };
            message = retry_read!(lease, session => beginning_in_open_folder(session, at, bytes));
        }
        drop(lease);
        if ids.len() <= MAX_KNOWN {
            let known = KnownIds {
                path: Arc::clone(path),
                uid_validity: opened.uid_validity,
                ids,
            };
            self.known.insert(account.clone(), Arc::new(known));
        }
        Ok(Some(Survey {
            path: Arc::clone(path),
            opened,
            uids,
            drafts,
            message,
        }))
    }

    /// Caches the id of a message that was just stored in the folder `path`, so no survey has to
    /// read its header.
    pub(super) fn remember(&self, account: &str, path: &Arc<str>, stored: Appended, id: DraftId) {
        let Appended { uid_validity, uid } = stored;
        let known = self.known.get(account);
        let known = known.filter(|known| known.is_of(path, uid_validity));
        let mut ids = known.map(|known| known.ids.clone()).unwrap_or_default();
        if ids.len() < MAX_KNOWN {
            ids.insert(uid, Some(id));
            let known = KnownIds {
                path: Arc::clone(path),
                uid_validity,
                ids,
            };
            self.known.insert(account.to_owned(), Arc::new(known));
        }
    }

    /// Returns the numbers of messages. Omits messages that no longer exist.
    pub(super) async fn numbers(
        &self,
        access: &Access,
        survey: &Survey,
        uids: &[Uid],
    ) -> Result<HashMap<Uid, MessageNumber>, MailboxError> {
        if uids.is_empty() {
            return Ok(HashMap::new());
        }
        let (context, (path, uid_validity)) = (&self.mail.context, survey.location());
        let index = context.message_index();
        let known = index
            .known(&access.account, path, uid_validity, uids)
            .await?;
        if uids.iter().all(|uid| known.numbers.contains_key(uid)) {
            return Ok(known.numbers);
        }
        let at = |uid: &Uid| MessageRef {
            path,
            uid_validity,
            uid: *uid,
        };
        let refs: Vec<_> = uids.iter().map(at).collect();
        let mut lease = context.connections.lease(access, Some(path)).await?;
        let fetched = retry_read!(lease, session => session.identities_at(&refs));
        drop(lease);
        let fetched = fetched.unwrap_or_default();
        let messages: Vec<_> = fetched.iter().map(|m| (m.uid, identity(m))).collect();
        if messages.is_empty() {
            return Ok(HashMap::new());
        }
        let numbers = &self.mail.numbers;
        numbers
            .of_messages(access, path, survey.opened, &messages)
            .await
    }
}
