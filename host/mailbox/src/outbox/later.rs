//! Messages that leave later. The bytes of a message are in the database, encrypted, so that every
//! host can send the message.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use latchmail_core::clock::Timestamp;
use latchmail_core::codes;
use latchmail_core::error::Problem;
use latchmail_core::message_number::MessageNumber;
use latchmail_core::sealing::Purpose;
use latchmail_core::secrets;
use latchmail_directory::outbox::{self as directory, Entry, Limits, NewEntry, Part};
use serde::{Deserialize, Serialize};

use super::draft::{Draft, MAX_MESSAGE};
use super::envelope::{Envelope, EnvelopeAddress, Reports};
use super::options::SendOptions;
use super::original::{Original, OriginalMessage, Relation};
use super::result::{Error, Scheduled};
use super::sealed::{CHUNK, ENTRY, RowKey};
use super::send::Outbox;
use crate::access::Access;

/// Maximum number and total size of the waiting messages of an account.
const LIMITS: Limits = Limits {
    entries: 1000,
    bytes: 250 * 1024 * 1024,
};
/// Maximum time until a message leaves.
const MAX_DELAY: Duration = Duration::from_hours(366 * 24);
/// Maximum time to undo a send.
const MAX_UNDO: Duration = Duration::from_mins(2);
/// Maximum number of entries in a list.
const MAX_LISTED: u32 = 2000;
/// The name of the encrypted details.
const DETAILS: &str = "details";

/// A complete message that leaves later.
#[derive(Debug)]
pub(crate) struct LaterMessage {
    /// The message without Bcc and without a DKIM signature. Its field Date is replaced when the
    /// message leaves.
    pub(crate) message: Bytes,
    pub(crate) envelope: Envelope,
    /// The Message-ID with angle brackets.
    pub(crate) message_id: String,
    pub(crate) subject: String,
    /// The name and the address of each recipient in To.
    pub(crate) to: Vec<(String, String)>,
    /// The message that this message answers or forwards.
    pub(crate) original: Option<Original>,
    /// The draft from which the message is sent.
    pub(crate) draft: Option<DraftOrigin>,
    /// Whether a copy is filed in the folder `\Sent`.
    pub(crate) has_copy: bool,
}

/// The draft from which a message is sent.
#[derive(Debug)]
pub(crate) struct DraftOrigin {
    /// The id of the draft.
    pub(crate) id: String,
    /// The complete draft. A cancellation stores these bytes in the folder `\Drafts`.
    pub(crate) message: Bytes,
}

/// An entry of the outbox.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OutboxEntry {
    /// The opaque id.
    pub id: String,
    /// `scheduled`, `sending`, `sent`, `failed`, `cancelled` or `unknown`.
    pub state: String,
    /// The time at which the message leaves.
    pub send_at: Timestamp,
    /// The Message-ID with angle brackets.
    pub message_id: String,
    /// The subject.
    pub subject: String,
    /// The name and the address of each recipient in To.
    pub to: Vec<(String, String)>,
    /// The reason of the state `failed` or `unknown`.
    pub error: Option<String>,
    /// The id of the draft from which the message is sent.
    pub draft: Option<String>,
}

/// The details of an entry, which are stored as encrypted JSON.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Details {
    pub(super) from: String,
    pub(super) recipients: Vec<String>,
    subject: String,
    to: Vec<(String, String)>,
    /// The number of the original, and the name of the relation.
    original: Option<(u64, String)>,
    /// The Message-ID of the original, if its number is not known.
    #[serde(default)]
    in_reply_to: Option<String>,
    /// Whether no copy is filed in the folder `\Sent`.
    #[serde(default)]
    pub(super) without_copy: bool,
}

impl Details {
    /// Returns the message that this message answers or forwards.
    pub(super) fn original(&self) -> Option<Original> {
        let Some((number, relation)) = &self.original else {
            return self.in_reply_to.clone().map(Original::ReplyTo);
        };
        Some(Original::Known(OriginalMessage {
            number: MessageNumber(*number),
            relation: Relation::named(relation)?,
        }))
    }

    /// Returns the envelope. Returns `None` if an address is invalid.
    pub(super) fn envelope(&self) -> Option<Envelope> {
        let to = self.recipients.iter();
        Some(Envelope {
            from: EnvelopeAddress::parse(&self.from)?,
            to: to
                .map(|one| EnvelopeAddress::parse(one))
                .collect::<Option<_>>()?,
            reports: Reports::Default,
        })
    }
}

impl Outbox {
    /// Returns the time at which a message with these options leaves.
    pub(crate) async fn departure(&self, options: &SendOptions) -> Result<Timestamp, Error> {
        let now = self.jobs.now().await?;
        let undo = options.undo.unwrap_or_default();
        if undo > MAX_UNDO {
            return Err(invalid("undoSeconds must be 0 to 120"));
        }
        let send_at = options.send_at.unwrap_or(now).max(now.plus(undo));
        check_time(send_at, now)?;
        Ok(send_at)
    }

    /// Writes a message, and stores it until it leaves.
    pub(super) async fn schedule_draft(
        &self,
        draft: &Arc<Draft>,
        envelope: Envelope,
        message_id: &str,
        send_at: Timestamp,
    ) -> Result<Scheduled, Error> {
        let access = &draft.from.access;
        let (message, _memory) = self.write(draft, message_id).await?;
        let later = LaterMessage {
            message,
            envelope,
            message_id: message_id.to_owned(),
            subject: draft.subject.clone(),
            to: draft
                .to
                .iter()
                .map(|one| (one.name.clone(), one.address.to_string()))
                .collect(),
            original: draft.original.clone(),
            draft: None,
            has_copy: true,
        };
        self.schedule(access, later, send_at).await
    }

    /// Stores a complete message until it leaves.
    pub(crate) async fn schedule(
        &self,
        access: &Access,
        later: LaterMessage,
        send_at: Timestamp,
    ) -> Result<Scheduled, Error> {
        let draft = later.draft.as_ref();
        let draft_bytes = draft.map(|draft| draft.message.clone()).unwrap_or_default();
        let size = later.message.len() + draft_bytes.len();
        if later.message.len() > MAX_MESSAGE || draft_bytes.len() > MAX_MESSAGE {
            return Err(Error::TooLarge);
        }
        let id = secrets::id()?;
        let (key, sealed_key) = RowKey::generate(&ENTRY, &id, &self.service_keys)?;
        let sealed_payload = self.service_keys.seal_bytes(Purpose::Job, &id, b"")?;
        let (original, in_reply_to) = match later.original {
            Some(Original::Known(one)) => {
                (Some((one.number.0, one.relation.name().to_owned())), None)
            }
            Some(Original::ReplyTo(message_id)) => (None, Some(message_id)),
            None => (None, None),
        };
        let details = Details {
            from: later.envelope.from.to_string(),
            recipients: later.envelope.to.iter().map(ToString::to_string).collect(),
            subject: later.subject,
            to: later.to,
            original,
            in_reply_to,
            without_copy: !later.has_copy,
        };
        let details = serde_json::to_vec(&details).map_err(|e| Error::Internal(e.to_string()))?;
        let sealed_details = key.seal(DETAILS, &details)?;
        let mut chunks = Vec::new();
        for (part, bytes) in [(Part::Message, later.message), (Part::Draft, draft_bytes)] {
            for (number, at) in (0..).zip((0..bytes.len()).step_by(CHUNK)) {
                let chunk = bytes.slice(at..bytes.len().min(at + CHUNK));
                let sealed = key.seal_chunk(chunk_name(part, number), chunk).await?;
                chunks.push((part, number, sealed));
            }
        }
        let new = NewEntry {
            id: &id,
            account: &access.account,
            member: access.member.as_ref().map(|member| &*member.account),
            send_at,
            message_id: &later.message_id,
            draft: later.draft.as_ref().map(|draft| &*draft.id),
            size: i64::try_from(size).map_err(|_| Error::TooLarge)?,
            sealed_key: &sealed_key,
            sealed_details: &sealed_details,
            sealed_payload: &sealed_payload,
        };
        if !self.entries().add(new, &chunks, LIMITS).await? {
            return Err(Error::OutboxFull);
        }
        self.jobs.wake();
        tracing::info!(
            account = access.account,
            message_id = later.message_id,
            entry = id,
            %send_at,
            "scheduled"
        );
        Ok(Scheduled { id, send_at })
    }

    pub(super) fn entries(&self) -> &directory::Outbox {
        &self.directory.outbox
    }

    /// Returns the caller's entries: first the entries without an outcome by their times, then the
    /// others, newest outcome first. A member of a shared mailbox gets only the member's own
    /// entries.
    ///
    /// # Errors
    /// Returns [`Error::Internal`] or [`Error::Unavailable`] if the database fails.
    pub async fn list_entries(
        &self,
        access: &Access,
        limit: u32,
    ) -> Result<Vec<OutboxEntry>, Error> {
        let member = access.member.as_ref().map(|member| &*member.account);
        let limit = limit.min(MAX_LISTED);
        let entries = self.entries().list(&access.account, member, limit).await?;
        entries.into_iter().map(|entry| self.shown(entry)).collect()
    }

    /// Returns an entry of the caller. Returns `None` if there is no such entry.
    ///
    /// # Errors
    /// Returns [`Error::Internal`] or [`Error::Unavailable`] if the database fails.
    pub async fn entry(&self, access: &Access, id: &str) -> Result<Option<OutboxEntry>, Error> {
        let entry = self.own_entry(access, id).await?;
        entry.map(|entry| self.shown(entry)).transpose()
    }

    async fn own_entry(&self, access: &Access, id: &str) -> Result<Option<Entry>, Error> {
        let entry = self.entries().find(id).await?;
        Ok(entry.filter(|entry| {
            let member = access.member.as_ref().map(|member| &member.account);
            entry.account == access.account && (member.is_none() || member == entry.member.as_ref())
        }))
    }

    /// Changes the time at which a message leaves. Returns `None` if the caller has no such entry.
    ///
    /// # Errors
    /// Returns [`Error::Conflict`] if the message is not scheduled any longer. Returns
    /// [`Error::Invalid`] if the time is not allowed.
    pub async fn reschedule(
        &self,
        access: &Access,
        id: &str,
        send_at: Timestamp,
    ) -> Result<Option<OutboxEntry>, Error> {
        let now = self.jobs.now().await?;
        check_time(send_at, now)?;
        if self.own_entry(access, id).await?.is_none() {
            return Ok(None);
        }
        let changed = self.entries().reschedule(id, send_at.max(now)).await?;
        self.jobs.wake();
        match self.entry(access, id).await? {
            Some(entry) if !changed => Err(ended(&entry.state)),
            entry => Ok(entry),
        }
    }

    /// Cancels a message. Returns `false` if the caller has no such entry. A message that was sent
    /// from a draft becomes this draft again. Has no effect on a cancelled message.
    ///
    /// # Errors
    /// Returns [`Error::Conflict`] if the message is not scheduled any longer.
    pub async fn cancel(&self, access: &Access, id: &str) -> Result<bool, Error> {
        let Some(entry) = self.own_entry(access, id).await? else {
            return Ok(false);
        };
        let now = self.jobs.now().await?;
        if !self.entries().cancel(id, now).await? {
            let entry = self.own_entry(access, id).await?;
            match entry.map(|entry| entry.state) {
                None => return Ok(false),
                Some(state) if state == "cancelled" => {}
                Some(state) => return Err(ended(&state)),
            }
        }
        // The bytes of a draft stay until the draft is stored. A repeated call continues here.
        if entry.draft.is_some()
            && let Some(draft) = self.read_part(&entry, Part::Draft).await?
        {
            self.mail.changing.restore_draft(access, draft).await?;
            self.entries().forget_bytes(id).await?;
        }
        Ok(true)
    }

    fn shown(&self, entry: Entry) -> Result<OutboxEntry, Error> {
        let details = self.details(&entry)?;
        Ok(OutboxEntry {
            send_at: entry.send_at(),
            id: entry.id,
            state: entry.state,
            message_id: entry.message_id,
            subject: details.subject,
            to: details.to,
            error: entry.error,
            draft: entry.draft,
        })
    }

    pub(super) fn details(&self, entry: &Entry) -> Result<Details, Error> {
        let details = self.entry_key(entry)?;
        let details = details.open_value(DETAILS, &entry.sealed_details)?;
        serde_json::from_slice(&details).map_err(|error| Error::Internal(error.to_string()))
    }

    fn entry_key(&self, entry: &Entry) -> Result<RowKey, Error> {
        RowKey::open(&ENTRY, &entry.id, &self.service_keys, &entry.sealed_key)
    }

    /// Reads the bytes of a part of an entry. Returns `None` if there are no bytes.
    pub(super) async fn read_part(
        &self,
        entry: &Entry,
        part: Part,
    ) -> Result<Option<Bytes>, Error> {
        let key = self.entry_key(entry)?;
        let name = |number| chunk_name(part, number);
        let chunk = |number| self.entries().chunk(&entry.id, part, number);
        let all = key.read(0, name, chunk).await?;
        Ok((!all.is_empty()).then_some(all))
    }
}

/// Checks that a time is at most a year ahead.
fn check_time(send_at: Timestamp, now: Timestamp) -> Result<(), Error> {
    if send_at.since(now) > MAX_DELAY {
        return Err(invalid("sendAt must be at most a year ahead"));
    }
    Ok(())
}

fn invalid(text: &'static str) -> Error {
    Error::Invalid(Problem::new(codes::INVALID_SEND_TIME, text))
}

/// Returns the error for an entry that cannot be changed any longer.
fn ended(state: &str) -> Error {
    Error::Conflict(match state {
        "sent" | "sending" | "unknown" => Problem::new(codes::ALREADY_SENT, "Already sent"),
        _ => Problem::new(
            codes::NOT_SCHEDULED,
            "The message is not scheduled any longer",
        ),
    })
}

fn chunk_name(part: Part, number: u32) -> String {
    format!("{part:?} {number}")
}
