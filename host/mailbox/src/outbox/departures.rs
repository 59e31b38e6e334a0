//! Sends the messages of the outbox at their times.
//!
//! A host can be killed at any moment between the submission of a message and the record of its
//! outcome. Therefore each submission carries the secret id of its entry in a header field. The
//! milter records the id, removes the field, and rejects a second submission with the same id. If
//! the milter is not in use, a message whose host was killed during the submission gets the state
//! `unknown`, and is not submitted again.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use latchmail_core::clock::Timestamp;
use latchmail_directory::jobs::Lease;
use latchmail_directory::outbox::submissions::Submission;
use latchmail_directory::outbox::{Entry, KIND, Part, RETENTION};
use latchmail_jobs::{Handler, Job, Outcome};
use mail_builder::headers::Header as _;
use mail_builder::headers::date::Date;

use super::result::Error;
use super::send::{Outbox, sign, store_copy};
use crate::access::Access;
use crate::error::Error as MailboxError;

/// The header field with the secret id of a submission.
pub const SUBMISSION_FIELD: &str = "X-Latchmail-Submission";

/// The text with which the milter rejects a submission that it accepted before.
pub const REPEATED_SUBMISSION: &str = "this submission was accepted before";

/// The time after which the service gives up if the message could not be submitted.
const PATIENCE: Duration = Duration::from_hours(24);

/// Number of attempts with a credential that the mail server refuses. The mail server can cache a
/// failed log-in of a new credential for a short time.
const CREDENTIAL_ATTEMPTS: i64 = 6;

/// The text for an account or a member without access.
const NO_ACCESS: &str = "The sender can no longer use the mailbox";
/// The text for an unknown outcome.
const UNKNOWN: &str = "The service stopped while it sent the message, and the outcome is unknown";

/// Returns `true` if the text has the format of a submission's id, which is the id of an entry.
#[must_use]
pub fn is_submission_id(text: &str) -> bool {
    let is_symbol = |byte: u8| byte.is_ascii_lowercase() || matches!(byte, b'2'..=b'7');
    text.len() == 24 && text.bytes().all(is_symbol)
}

/// Provides the access with which messages are sent without a request. The crate
/// `latchmail-service` implements this trait with the database.
pub trait SenderAccess: fmt::Debug + Send + Sync {
    /// Returns the current access of an account to its mailbox, or of a member to the mailbox of
    /// the account. Returns `None` if the account or the member does not exist or is disabled, or
    /// if the mailbox is not shared with the member any longer.
    ///
    /// # Errors
    /// Returns [`MailboxError::Internal`] if the database fails.
    fn access<'a>(
        &'a self,
        account: &'a str,
        member: Option<&'a str>,
    ) -> BoxFuture<'a, Result<Option<Access>, MailboxError>>;
}

/// Sends the messages of the outbox at their times.
#[derive(Debug)]
pub struct Departures {
    outbox: Arc<Outbox>,
    access: Arc<dyn SenderAccess>,
    /// Whether the mail server passes submissions through the milter.
    has_milter: bool,
}

/// The end of an attempt.
enum End {
    /// The message was sent. The value is the access and the copy for the Sent folder, unless the
    /// access ended or the bytes are gone.
    Sent(Option<Box<(Access, Bytes)>>),
    /// The state and the reason that are recorded.
    State(&'static str, Option<String>),
    /// The message was not submitted. It is scheduled again, for this reason.
    PutBack(String),
    /// It is not known whether the message was submitted.
    Unclear(String),
    /// The entry has an outcome, or another host has the lease.
    Nothing,
}

impl Handler for Departures {
    fn kind(&self) -> &'static str {
        KIND
    }

    fn run<'a>(&'a self, job: &'a Job) -> BoxFuture<'a, Outcome> {
        let run = async move {
            let Some(lease) = &job.lease else {
                return Outcome::Retry("the job has no lease".into());
            };
            match self.depart(lease).await {
                Ok(outcome) => outcome,
                Err(error) => Outcome::Retry(error.to_string()),
            }
        };
        run.boxed()
    }
}

impl Departures {
    /// Creates the handler. `has_milter` states that the mail server passes submissions through the
    /// milter.
    #[must_use]
    pub fn new(outbox: Arc<Outbox>, access: Arc<dyn SenderAccess>, has_milter: bool) -> Self {
        Self {
            outbox,
            access,
            has_milter,
        }
    }

    async fn depart(&self, lease: &Lease) -> Result<Outcome, Error> {
        let entries = self.outbox.entries();
        let Some(entry) = entries.find(&lease.job).await? else {
            return Ok(Outcome::Done);
        };
        let end = match entry.state.as_str() {
            "scheduled" => self.submit(lease, &entry).await?,
            "sending" => self.resume(lease, &entry).await?,
            _ => End::Nothing,
        };
        let now = self.outbox.jobs.now().await?;
        match end {
            End::Nothing => Ok(Outcome::Done),
            End::Unclear(why) => Ok(Outcome::Retry(why)),
            End::PutBack(why) if now.since(entry.send_at()) < PATIENCE => {
                entries.put_back(lease).await?;
                Ok(Outcome::Retry(why))
            }
            End::PutBack(why) => {
                let text = "The mail server was not available for a day";
                tracing::error!(entry = entry.id, why, "gave up sending a scheduled message");
                self.record(lease, &entry, ("failed", Some(text))).await?;
                Ok(Outcome::Done)
            }
            End::State(state, error) => {
                self.record(lease, &entry, (state, error.as_deref()))
                    .await?;
                Ok(Outcome::Done)
            }
            End::Sent(copy) => {
                let recorded = self.record(lease, &entry, ("sent", None)).await?;
                if let (true, Some(copy)) = (recorded, copy) {
                    let (access, message) = *copy;
                    let changing = &self.outbox.mail.changing;
                    let details = self.outbox.details(&entry)?;
                    let original = details.original();
                    let copy = async {
                        if !details.without_copy {
                            store_copy(changing.upload_sent_copy(&access, message).await).await;
                        }
                    };
                    tokio::join!(copy, self.outbox.mark_original(&access, original));
                }
                Ok(Outcome::Done)
            }
        }
    }

    /// Records the outcome of a message. Returns `false`, and records nothing, if the host has lost
    /// the lease.
    async fn record(
        &self,
        lease: &Lease,
        entry: &Entry,
        (state, reason): (&str, Option<&str>),
    ) -> Result<bool, Error> {
        let now = self.outbox.jobs.now().await?;
        let entries = self.outbox.entries();
        let recorded = entries.end(lease, entry, state, reason, now).await?;
        tracing::info!(
            account = entry.account,
            message_id = entry.message_id,
            entry = entry.id,
            state,
            reason = reason.unwrap_or_default(),
            "a scheduled message has an outcome"
        );
        Ok(recorded)
    }

    /// Continues after a host that stopped during a submission, or that lost the connection.
    async fn resume(&self, lease: &Lease, entry: &Entry) -> Result<End, Error> {
        let record = self.outbox.entries().submission(&entry.id).await?;
        let now = self.outbox.jobs.now().await?;
        let begun_at = entry.begun_at().unwrap_or(Timestamp::from_millis(0));
        match record {
            Submission::Accepted => {
                let access = self.current_access(entry).await?;
                let message = self.outbox.read_part(entry, Part::Message).await?;
                let message = message.map(|message| set_date(&message, now));
                Ok(End::Sent(access.zip(message).map(Box::new)))
            }
            Submission::NotAccepted if self.has_milter && now.since(begun_at) < RETENTION => {
                self.submit(lease, entry).await
            }
            Submission::NotAccepted | Submission::NoRecords => {
                Ok(End::State("unknown", Some(UNKNOWN.into())))
            }
        }
    }

    async fn current_access(&self, entry: &Entry) -> Result<Option<Access>, Error> {
        let access = self.access.access(&entry.account, entry.member.as_deref());
        Ok(access.await?)
    }

    /// Checks the right to send, and submits the message.
    async fn submit(&self, lease: &Lease, entry: &Entry) -> Result<End, Error> {
        let outbox = &self.outbox;
        let failed = |text: &str| Ok(End::State("failed", Some(text.to_owned())));
        let Some(access) = self.current_access(entry).await? else {
            return failed(NO_ACCESS);
        };
        let details = outbox.details(entry)?;
        match outbox.check_sender(access.clone(), &details.from).await {
            Ok(_) => {}
            Err(Error::Denied(problem)) => return failed(&problem.text),
            Err(error) => return Err(error),
        }
        let Some(envelope) = details.envelope() else {
            return Err(Error::Internal("the envelope is invalid".into()));
        };
        let size = usize::try_from(entry.size).unwrap_or(usize::MAX);
        let _memory = outbox.acquire_memory(&access, size).await?;
        let Some(message) = outbox.read_part(entry, Part::Message).await? else {
            return Ok(End::Nothing);
        };
        let now = outbox.jobs.now().await?;
        let dated = set_date(&message, now);
        let domain = envelope.from.domain();
        let signer = outbox.signing.signer(domain).await?;
        let message = sign(signer, dated, now).await?;
        if entry.state == "scheduled" && !outbox.entries().begin(lease, now).await? {
            return Ok(End::Nothing);
        }
        let field = format!("{SUBMISSION_FIELD}: {}\r\n", entry.id);
        let submitted = Bytes::from([field.as_bytes(), &message].concat());
        let tracker = &outbox.tracker;
        // A repeated submission has no reports, because the mail server may already know the
        // envelope id of the first one.
        let envelope = if entry.state == "scheduled" {
            tracker.begin(&access, &envelope, &entry.message_id).await?
        } else {
            envelope
        };
        let result = outbox.submit_message(&access, &envelope, &submitted).await;
        let is_repeated = matches!(
            &result,
            Err(Error::Rejected(text)) if text.contains(REPEATED_SUBMISSION)
        );
        if !is_repeated {
            tracker.end(&access, &entry.message_id, &result).await;
        }
        if let (Some(member), Ok(_) | Err(Error::Unknown(_))) = (&access.member, &result) {
            outbox
                .record_in_audit_log(&access, member, &envelope, &entry.message_id)
                .await;
        }
        Ok(match result {
            Ok(_) => End::Sent(Some(Box::new((access, message)))),
            Err(Error::Rejected(_)) if is_repeated => End::Sent(Some(Box::new((access, message)))),
            Err(Error::Rejected(text)) => End::State("failed", Some(text)),
            Err(Error::CredentialRefused) if lease.attempt >= CREDENTIAL_ATTEMPTS => {
                End::State("failed", Some(NO_ACCESS.into()))
            }
            Err(Error::Unknown(why)) => End::Unclear(why),
            Err(error) => End::PutBack(error.to_string()),
        })
    }
}

/// Replaces the field Date in the header of a message.
fn set_date(message: &Bytes, now: Timestamp) -> Bytes {
    let end = memchr::memmem::find(message, b"\r\n\r\n").map_or(message.len(), |at| at + 2);
    let mut at = 0;
    while at < end {
        let line = memchr::memmem::find(&message[at..end], b"\r\n");
        let next = line.map_or(end, |length| at + length + 2);
        if message[at..next].len() > 5 && message[at..at + 5].eq_ignore_ascii_case(b"date:") {
            let mut date = b"Date: ".to_vec();
            Date::new(now.seconds()).write_header(&mut date, "Date: ".len());
            return [&message[..at], &date, &message[next..]].concat().into();
        }
        at = next;
    }
    message.clone()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_date_is_replaced_in_the_header_only() {
        let now = Timestamp::from_millis(1_795_161_600_000);
        let message = Bytes::from_static(b"From: a\r\nDate: x\r\nTo: b\r\n\r\nDate: y\r\n");
        let dated = set_date(&message, now);
        let dated = String::from_utf8_lossy(&dated);
        assert_eq!(
            dated,
            "From: a\r\nDate: Fri, 20 Nov 2026 08:00:00 +0000\r\nTo: b\r\n\r\nDate: y\r\n"
        );
        let undated = Bytes::from_static(b"From: a\r\n\r\nDate: y\r\n");
        assert_eq!(set_date(&undated, now), undated);
    }

    #[test]
    fn a_submission_has_the_id_of_an_entry() {
        let id = latchmail_core::secrets::id().unwrap();
        assert!(is_submission_id(&id));
        assert!(!is_submission_id(&id[1..]));
        assert!(!is_submission_id("abcdefghijklmnopqrstuvw1"));
    }
}
