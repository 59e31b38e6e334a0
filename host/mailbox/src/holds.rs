//! The owner's side of held messages: the list, the decisions, the notices, and the end of the time
//! for a decision. [`Outbox`] holds messages.
//!
//! A job notifies the owner by a message in the inbox. The message is stored with IMAP and not
//! sent, and has the keyword [`NOTICE_KEYWORD`], so that grants do not see it. It contains nothing
//! that a grant can choose.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use latchmail_core::caller::Origin;
use latchmail_core::clock::Timestamp;
use latchmail_core::metrics;
use latchmail_core::sealing::Purpose;
use latchmail_core::secrets;
use latchmail_directory::outbox::Part;
pub use latchmail_directory::outbox::holds::Decision;
use latchmail_directory::outbox::holds::{self as directory, KIND, Notice, NoticeLimits};
use latchmail_directory::session_caller::SessionCaller;
use latchmail_imap::INBOX;
use latchmail_jobs::{Handler, Job, Outcome};
use mail_builder::MessageBuilder;
use mail_builder::headers::date::Date;
use mail_builder::headers::raw::Raw;

use crate::access::Access;
use crate::changing::sent_copy::store_message;
use crate::drafts::{StoredDraft, describe_message};
use crate::message::notice::NOTICE_KEYWORD;
use crate::outbox::holds::{hash_of, held_details};
use crate::outbox::{Error, HeldFile, Outbox, SenderAccess};

/// The header field of notices, for rules of mail clients.
const NOTICE_FIELD: &str = "X-Latchmail-Notice";
/// The limits of the notices to an account.
const NOTICES: NoticeLimits = NoticeLimits {
    interval: Duration::from_mins(10),
    count: 20,
    period: Duration::from_hours(24),
};

/// A held message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hold {
    /// The opaque id.
    pub id: String,
    /// The id of the grant, which can have ended.
    pub grant: String,
    /// The label of the grant. For an agent, the agent has chosen the name.
    pub grant_name: String,
    /// `pending`, `approved`, `rejected` or `expired`.
    pub status: String,
    /// Why the policy holds the message.
    pub reason: String,
    /// The hash of the message, its sender and its recipients.
    pub hash: String,
    /// The time of creation.
    pub created_at: Timestamp,
    /// The time at which the message is rejected without a decision.
    pub expires_at: Timestamp,
    /// The time of the decision.
    pub decided_at: Option<Timestamp>,
    /// The time at which an approved message leaves at the earliest.
    pub send_at: Timestamp,
    /// The Message-ID with angle brackets.
    pub message_id: String,
    /// The sender.
    pub from: String,
    /// All recipients, with those in Cc and Bcc.
    pub recipients: Vec<String>,
    /// The name and the address of each recipient in To.
    pub to: Vec<(String, String)>,
    /// The subject.
    pub subject: String,
    /// The number of bytes of the message and of its draft. 0 after a rejection.
    pub size: u64,
    /// The attachments.
    pub files: Vec<HeldFile>,
}

/// A held message with its texts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeldMessage {
    /// The hold.
    pub hold: Hold,
    /// The texts and the attachments. `None` if the bytes were deleted, after a rejection or after
    /// the message was sent. The id, the version and the number have no meaning.
    pub message: Option<StoredDraft>,
}

/// The held messages of all accounts.
#[derive(Debug)]
pub struct Holds {
    outbox: Arc<Outbox>,
    access: Arc<dyn SenderAccess>,
    /// The URL of the page with the holds.
    page: String,
}

impl Holds {
    /// Creates the service. `page` is the URL of the page with the holds, for notices.
    #[must_use]
    pub fn new(outbox: Arc<Outbox>, access: Arc<dyn SenderAccess>, page: String) -> Self {
        Self {
            outbox,
            access,
            page,
        }
    }

    /// Returns the holds of an account of the last 30 days: first those that wait for a decision,
    /// then the others, newest first.
    ///
    /// # Errors
    /// Returns [`Error::Internal`] or [`Error::Unavailable`] if the database fails.
    pub async fn list(&self, account: &str) -> Result<Vec<Hold>, Error> {
        let now = self.outbox.jobs.now().await?;
        let holds = self.outbox.entries().holds(account).await?.into_iter();
        holds.map(|hold| self.shown(hold, now)).collect()
    }

    /// Returns a hold of the account of `access` with its texts. Returns `None` if there is no such
    /// hold.
    ///
    /// # Errors
    /// Returns an [`Error`] if the operation fails.
    pub async fn find(&self, access: &Access, id: &str) -> Result<Option<HeldMessage>, Error> {
        let found = self.outbox.entries().find_hold(&access.account, id).await?;
        let Some(found) = found else {
            return Ok(None);
        };
        let size = usize::try_from(found.entry.size).unwrap_or(usize::MAX);
        let _memory = self.outbox.acquire_memory(access, size).await?;
        let bytes = self.outbox.read_part(&found.entry, Part::Message).await?;
        let message = match bytes {
            Some(bytes) => Some(describe_message(access, bytes).await?),
            None => None,
        };
        let now = self.outbox.jobs.now().await?;
        let hold = self.shown(found, now)?;
        Ok(Some(HeldMessage { hold, message }))
    }

    /// Approves a message. The message leaves at its time, or at once, through the outbox. `hash`
    /// is the hash of the hold that the owner has seen. `sid` is the id of the owner's session.
    ///
    /// # Errors
    /// Returns an [`Error`] if the operation fails. Nothing is changed in that case.
    pub async fn approve(
        &self,
        access: &Access,
        sid: &str,
        (id, hash): (&str, &str),
        origin: &Origin,
    ) -> Result<Decision, Error> {
        let (outbox, account) = (&self.outbox, &access.account);
        let Some(found) = outbox.entries().find_hold(account, id).await? else {
            return Ok(Decision::NotFound);
        };
        let now = outbox.jobs.now().await?;
        if !found.is_pending(now) {
            return Ok(Decision::NotFound);
        }
        let size = usize::try_from(found.entry.size).unwrap_or(usize::MAX);
        let _memory = outbox.acquire_memory(access, size).await?;
        let Some(message) = outbox.read_part(&found.entry, Part::Message).await? else {
            return Ok(Decision::NotFound);
        };
        // The stored bytes must be those that the owner has seen, whatever the row says.
        if hash_of(outbox, &found.entry, &message)? != hash {
            return Ok(Decision::Changed);
        }
        let payload = outbox.service_keys.seal_bytes(Purpose::Job, id, b"")?;
        let caller = session(access, sid, now);
        let decision = outbox
            .entries()
            .approve_hold(caller, (id, hash), &payload, origin)
            .await?;
        self.decided(access, id, decision, "approved");
        Ok(decision)
    }

    /// Rejects a message. A draft from which it was sent becomes a draft again. The parameters are
    /// those of [`Holds::approve`].
    ///
    /// # Errors
    /// Returns an [`Error`] if the operation fails. Nothing is changed in that case.
    pub async fn reject(
        &self,
        access: &Access,
        sid: &str,
        (id, hash): (&str, &str),
        origin: &Origin,
    ) -> Result<Decision, Error> {
        let now = self.outbox.jobs.now().await?;
        let caller = session(access, sid, now);
        let entries = self.outbox.entries();
        let decision = entries.reject_hold(caller, (id, hash), origin).await?;
        self.decided(access, id, decision, "rejected");
        Ok(decision)
    }

    fn decided(&self, access: &Access, id: &str, decision: Decision, outcome: &'static str) {
        if decision == Decision::Done {
            self.outbox.jobs.wake();
            metrics::HOLDS.increment([outcome]);
            tracing::info!(
                account = access.account,
                entry = id,
                outcome,
                "a hold was decided"
            );
        }
    }

    fn shown(&self, hold: directory::Hold, now: Timestamp) -> Result<Hold, Error> {
        let details = held_details(&self.outbox, &hold)?;
        let is_over = hold.status == "pending" && !hold.is_pending(now);
        Ok(Hold {
            created_at: hold.created_at(),
            expires_at: hold.expires_at(),
            decided_at: hold.decided_at(),
            send_at: hold.entry.send_at(),
            size: u64::try_from(hold.entry.size).unwrap_or(0),
            id: hold.entry.id,
            grant: hold.grant_id,
            grant_name: hold.grant_name,
            status: if is_over {
                "expired".into()
            } else {
                hold.status
            },
            reason: hold.reason,
            hash: hold.hash,
            message_id: hold.entry.message_id,
            from: details.from,
            recipients: details.recipients,
            to: details.to,
            subject: details.subject,
            files: details.files,
        })
    }

    /// Does the job of a hold: writes a notice, rejects the message when its time has passed, and
    /// restores the draft of a rejected message.
    async fn step(&self, job: &Job) -> Result<Outcome, Error> {
        let entries = self.outbox.entries();
        let now = self.outbox.jobs.now().await?;
        let Some(mut hold) = entries.find_hold(&job.account, &job.key).await? else {
            return Ok(Outcome::Done);
        };
        if hold.entry.state == "held" && !hold.is_pending(now) {
            entries.expire_hold(&job.account, &job.key, now).await?;
            metrics::HOLDS.increment(["expired"]);
            match entries.find_hold(&job.account, &job.key).await? {
                Some(expired) => hold = expired,
                None => return Ok(Outcome::Done),
            }
        }
        match &*hold.entry.state {
            "held" => {
                let next = match self.notify(&job.account, hold.is_notified(), now).await? {
                    Some(next) => next.min(hold.expires_at()),
                    None => hold.expires_at(),
                };
                Ok(Outcome::Later(next))
            }
            "rejected" => {
                self.restore_draft(&hold).await?;
                Ok(Outcome::Done)
            }
            _ => Ok(Outcome::Done),
        }
    }

    /// Stores the draft of a rejected message. If a host stops before the last step, the next
    /// attempt stores the draft a second time.
    async fn restore_draft(&self, hold: &directory::Hold) -> Result<(), Error> {
        let entry = &hold.entry;
        let Some(draft) = self.outbox.read_part(entry, Part::Draft).await? else {
            return Ok(());
        };
        if let Some(access) = self.access.access(&entry.account, None).await? {
            let changing = &self.outbox.mail.changing;
            changing.restore_draft(&access, draft).await?;
        }
        Ok(self.outbox.entries().forget_bytes(&entry.id).await?)
    }

    /// Writes a notice about all held messages of an account, unless a limit is reached. Returns
    /// the time of the next attempt, or `None` if no further attempt is needed.
    async fn notify(
        &self,
        account: &str,
        is_notified: bool,
        now: Timestamp,
    ) -> Result<Option<Timestamp>, Error> {
        if is_notified {
            return Ok(None);
        }
        let Some(access) = self.access.access(account, None).await? else {
            return Ok(None);
        };
        let entries = self.outbox.entries();
        let waiting = match entries.begin_notice(account, NOTICES, now).await? {
            Notice::Due(waiting) => waiting,
            Notice::Later(next) => return Ok(Some(next)),
            Notice::None => return Ok(None),
        };
        let written = async {
            let notice = self.notice(&access.credential.username, waiting, now)?;
            let changing = &self.outbox.mail.changing;
            let flags = [NOTICE_KEYWORD];
            let stored = store_message(changing, &access, INBOX, (&flags, notice));
            Ok::<_, Error>(stored.await?)
        };
        if let Err(error) = written.await {
            entries.cancel_notice(account, now).await?;
            return Err(error);
        }
        tracing::info!(account, waiting, "wrote a notice about held messages");
        Ok(None)
    }

    /// Returns the message of a notice to `address`.
    fn notice(&self, address: &str, waiting: i64, now: Timestamp) -> Result<Bytes, Error> {
        let domain = address
            .rsplit_once('@')
            .map_or("localhost", |(_, domain)| domain);
        let id = secrets::id()?;
        let text = format!(
            "Messages that your agents or programs want to send wait for your decision:\r\n\
             {waiting} now.\r\n\r\n\
             Read them, and approve or reject them here:\r\n{}\r\n\r\n\
             A message without a decision is rejected after 24 hours. Opening the page changes\r\n\
             nothing, and asks you to sign in.\r\n",
            self.page
        );
        let message = MessageBuilder::new()
            .date(Date::new(now.seconds()))
            .header("From", Raw::new(format!("Latchmail <{address}>")))
            .header("To", Raw::new(address.to_owned()))
            .subject("Messages wait for your decision")
            .message_id(format!("{id}@{domain}"))
            .header("Auto-Submitted", Raw::new("auto-generated"))
            .header(NOTICE_FIELD, Raw::new("holds"))
            .text_body(text)
            .write_to_vec();
        let message = message.map_err(|error| Error::Internal(error.to_string()))?;
        Ok(message.into())
    }
}

fn session<'a>(access: &'a Access, sid: &'a str, at: Timestamp) -> SessionCaller<'a> {
    SessionCaller {
        account_id: &access.account,
        sid,
        at,
    }
}

impl Handler for Holds {
    fn kind(&self) -> &'static str {
        KIND
    }

    fn run<'a>(&'a self, job: &'a Job) -> BoxFuture<'a, Outcome> {
        let step = self.step(job);
        step.map(|result| result.unwrap_or_else(|error| Outcome::Retry(error.to_string())))
            .boxed()
    }
}
