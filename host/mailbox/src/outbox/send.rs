//! Sends messages. Each send runs to completion on its own task. A message with an idempotency key
//! is sent only once.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use latchmail_core::clock::{Clock, Timestamp};
use latchmail_core::codes;
use latchmail_core::config;
use latchmail_core::detached_tasks::DetachedTasks;
use latchmail_core::error::Problem;
use latchmail_core::error::StartError;
use latchmail_core::keyring::Keyring;
use latchmail_core::metrics;
use latchmail_core::permissions::Right;
use latchmail_directory::Directory;
use latchmail_directory::aliases::addresses::AddressRelation;
use latchmail_directory::events::{Event, Kind};
use latchmail_directory::sendings::{Key, Sending};
use latchmail_dkim::Signer;
use latchmail_jobs::Jobs;
use tokio::time::{Instant, timeout};

use super::draft::{Draft, MAX_MESSAGE};
use super::envelope::{Envelope, EnvelopeAddress, Reports, Sender};
use super::idempotency::IdempotencyKeys;
use super::memory::{MemoryPermit, MessageMemory};
use super::options::SendOptions;
use super::random::random_hex;
use super::result::{Error, Scheduled, Sent};
use super::smtp::Connector;
use super::tracker::Tracker;
use super::uploads::Uploads;
use crate::access::{Access, Member};
use crate::blocking;
use crate::changing::sent_copy::UploadedCopy;
use crate::connections::pool::Pool;
use crate::error::{Error as MailboxError, log_failure};
use crate::idempotency::stored_key;
use crate::mail::Mail;

/// Maximum duration of a send. A send of another host that began within this time counts as in
/// progress, as long as the host runs.
const MAX_SEND_DURATION: Duration = Duration::from_mins(3);

/// The outbound mail service.
#[derive(Debug)]
pub struct Outbox {
    pub(super) directory: Directory,
    pub(crate) mail: Arc<Mail>,
    /// The files that clients upload for later messages.
    pub uploads: Uploads,
    pool: Pool<Connector>,
    pub(super) clock: Clock,
    pub(crate) keys: IdempotencyKeys,
    pub(super) signing: Arc<latchmail_dkim::Keys>,
    /// The sends in progress.
    pub(super) sends: DetachedTasks,
    memory: MessageMemory,
    pub(super) service_keys: Arc<Keyring>,
    /// The jobs that send messages later.
    pub(super) jobs: Arc<Jobs>,
    pub(super) tracker: Tracker,
    timeout: Duration,
}

impl Outbox {
    /// Creates the service. Does not connect. `host_id` identifies this process among the hosts
    /// that share the database.
    ///
    /// `service_keys` encrypts uploads. `reports_key` is the key of envelope ids, or `None` if the
    /// mail server does not pass delivery reports to the milter.
    ///
    /// # Errors
    /// Returns an error if the address or the TLS configuration is invalid.
    #[expect(clippy::too_many_arguments, reason = "what the service consists of")]
    pub fn new(
        config: &config::Smtp,
        directory: Directory,
        mail: Arc<Mail>,
        signing: Arc<latchmail_dkim::Keys>,
        clock: Clock,
        host_id: &str,
        service_keys: Arc<Keyring>,
        reports_key: Option<Arc<[u8]>>,
    ) -> Result<Self, StartError> {
        let pool = Pool::new(
            Connector::new(config)?,
            config.connections_per_account,
            config.idle_connections,
            config.timeout,
            config.idle_timeout,
            &metrics::SUBMISSION_WAIT,
        );
        let jobs = Jobs::new(
            directory.jobs.clone(),
            Arc::clone(&service_keys),
            clock.clone(),
        );
        let closing = pool.clone();
        mail.connections
            .on_close(move |revoked| closing.close(revoked));
        Ok(Self {
            pool,
            uploads: Uploads::new(
                directory.uploads.clone(),
                Arc::clone(&service_keys),
                clock.clone(),
            ),
            tracker: Tracker::new(directory.deliveries.clone(), clock.clone(), reports_key),
            keys: IdempotencyKeys::new(host_id),
            directory,
            mail,
            signing,
            clock,
            sends: DetachedTasks::default(),
            memory: MessageMemory::new(),
            service_keys,
            jobs: Arc::new(jobs),
            timeout: config.timeout,
        })
    }

    /// Sets the jobs with which this outbox wakes the runner of this host.
    #[must_use]
    pub fn with_jobs(self, jobs: Arc<Jobs>) -> Self {
        Self { jobs, ..self }
    }

    /// Checks that the caller is allowed to send from an address. The address must be the account's
    /// own address or an active alias. A member also needs a grant for the address.
    ///
    /// # Errors
    /// Returns [`Error::Denied`] if the caller is not allowed to send from the address. Returns
    /// [`Error::Internal`] if the directory fails.
    pub async fn check_sender(&self, access: Access, address: &str) -> Result<Sender, Error> {
        let not_own = || {
            Error::Denied(Problem::new(
                codes::SENDER_NOT_ALLOWED,
                "You can only send from your own address or active aliases",
            ))
        };
        let account = &access.account;
        let address = EnvelopeAddress::parse(address).ok_or_else(not_own)?;
        let folded = address.to_string().to_lowercase();
        if let Some(member) = &access.member
            && !self.has_send_grant(account, member, &folded).await?
        {
            return Err(not_own());
        }
        match self
            .directory
            .aliases
            .address_relation(account, &folded, self.clock.now())
            .await?
        {
            AddressRelation::Own => Ok(Sender { access, address }),
            AddressRelation::Foreign => Err(not_own()),
            AddressRelation::ForeignDomain => Err(Error::Denied(Problem::new(
                codes::SENDER_DOMAIN_NOT_ALLOWED,
                "You do not have permission to send from this domain",
            ))),
        }
    }

    /// Returns `true` if a member has a grant to send from an address of the account.
    async fn has_send_grant(
        &self,
        account: &str,
        member: &Member,
        address: &str,
    ) -> Result<bool, Error> {
        let rights = match self.directory.aliases.maker(account, address).await? {
            Some(creator) => {
                let is_creator = creator.as_deref() == Some(member.account.as_str());
                member.grants.over_alias(address, is_creator)
            }
            None => member.grants.over_address(),
        };
        Ok(rights.hold(Right::MailSend))
    }

    /// Sends a message to all recipients or to no recipient, and stores a copy. With a time in the
    /// options, stores the complete message until that time instead. If a request within
    /// the last 24 hours used the same key, sends nothing and returns the result of that request.
    ///
    /// # Errors
    /// Returns an [`Error`] if the operation fails. Never returns [`Error::Lost`].
    pub async fn send(self: &Arc<Self>, draft: Draft, options: SendOptions) -> Result<Sent, Error> {
        let envelope = draft.envelope()?;
        let draft = Arc::new(draft);
        let access = &draft.from.access;
        let key = options.key.as_deref().map(|key| stored_key(access, key));
        let (outbox, draft) = (Arc::clone(self), Arc::clone(&draft));
        let task = async move {
            match key {
                None => {
                    let message_id = outbox.message_id(&draft)?;
                    outbox
                        .dispatch(&draft, envelope, message_id, &options)
                        .await
                }
                Some(key) => outbox.send_once(draft, envelope, key, &options).await,
            }
        };
        let mut sent: Sent = self.sends.spawn(task).await.unwrap_or_else(|error| {
            Err(Error::Unknown(format!("the task ended early: {error}")))
        })?;
        // Do not return the folder to a member who must not learn that the folder exists.
        if let Some(path) = &sent.saved_to
            && !self
                .mail
                .folders
                .can_see(access, path)
                .await
                .unwrap_or(false)
        {
            sent.saved_to = None;
        }
        Ok(sent)
    }

    /// Sends a message at once, or stores the message until its time.
    async fn dispatch(
        &self,
        draft: &Arc<Draft>,
        envelope: Envelope,
        message_id: String,
        options: &SendOptions,
    ) -> Result<Sent, Error> {
        let (saved_to, scheduled) = if options.is_later() {
            let send_at = self.departure(options).await?;
            let scheduled = self.schedule_draft(draft, envelope, &message_id, send_at);
            (None, Some(scheduled.await?))
        } else {
            let copy = self.submit(draft, &envelope, &message_id).await?;
            let original = self.mark_original(&draft.from.access, draft.original.clone());
            let (saved_to, ()) = tokio::join!(store_copy(copy), original);
            (saved_to, None)
        };
        Ok(Sent {
            message_id,
            saved_to,
            replayed: false,
            scheduled,
        })
    }

    /// Returns the result of an earlier request that scheduled a message.
    pub(crate) async fn scheduled_before(
        &self,
        key: &Key,
        message_id: &str,
    ) -> Result<Option<Sent>, Error> {
        let entries = self.entries();
        let id = entries.by_message(&key.account, message_id).await?;
        let Some(id) = id else {
            return Ok(None);
        };
        let entry = entries.find(&id).await?;
        Ok(entry.map(|entry| Sent {
            message_id: message_id.to_owned(),
            saved_to: None,
            replayed: true,
            scheduled: Some(Scheduled {
                send_at: entry.send_at(),
                id,
            }),
        }))
    }

    /// Sends a message, unless an earlier request has used this idempotency key.
    async fn send_once(
        &self,
        draft: Arc<Draft>,
        envelope: Envelope,
        key: Key,
        options: &SendOptions,
    ) -> Result<Sent, Error> {
        let _in_use = self.keys.start(&key)?;
        let message_id = self.message_id(&draft)?;
        let hashed = Arc::clone(&draft);
        let fingerprint = blocking::run_sized(draft.input_size(), move || hashed.fingerprint())
            .await
            .map_err(Error::Internal)?;
        let fingerprint = options.add_to_fingerprint(fingerprint);
        let (directory, process) = (&self.directory, self.keys.process());
        let now = self.clock.now();
        let earlier = directory
            .sendings
            .begin(&key, &fingerprint, process, &message_id, now)
            .await?;
        if let Some(earlier) = earlier {
            if options.is_later()
                && earlier.fingerprint == fingerprint
                && let Some(sent) = self.scheduled_before(&key, &earlier.message_id).await?
            {
                return Ok(sent);
            }
            return self.earlier_result(&key, earlier, &fingerprint).await;
        }
        if options.is_later() {
            let sent = self.dispatch(&draft, envelope, message_id, options).await;
            log_failure(match &sent {
                Ok(_) => directory.sendings.sent(&key).await,
                Err(_) => directory.sendings.release(&key).await,
            });
            return sent;
        }
        match self.submit(&draft, &envelope, &message_id).await {
            Ok(copy) => {
                log_failure(directory.sendings.sent(&key).await);
                let (saved_to, ()) = {
                    let original = self.mark_original(&draft.from.access, draft.original.clone());
                    tokio::join!(store_copy(copy), original)
                };
                if let Some(folder) = &saved_to {
                    log_failure(directory.sendings.sent_copy_filed(&key, folder).await);
                }
                Ok(Sent {
                    message_id,
                    saved_to,
                    replayed: false,
                    scheduled: None,
                })
            }
            Err(error @ Error::Unknown(_)) => {
                log_failure(directory.sendings.set_unknown(&key).await);
                Err(error)
            }
            Err(error) => {
                log_failure(directory.sendings.release(&key).await);
                Err(error)
            }
        }
    }

    /// Returns the result of a send that an earlier request started. If the host of that request no
    /// longer runs, the outcome of an unfinished send is unknown.
    pub(crate) async fn earlier_result(
        &self,
        key: &Key,
        earlier: Sending,
        fingerprint: &[u8],
    ) -> Result<Sent, Error> {
        let is_foreign = earlier.process != self.keys.process();
        if !earlier.is_begun() || !is_foreign {
            return IdempotencyKeys::earlier_result(&earlier, fingerprint, false);
        }
        let is_recent = self.clock.now().since(earlier.begun_at()) < MAX_SEND_DURATION;
        if is_recent && self.directory.hosts.is_alive(&earlier.process).await? {
            return IdempotencyKeys::earlier_result(&earlier, fingerprint, true);
        }
        // The host can have finished the send since the first query.
        let current = self.directory.sendings.find(key).await?;
        let earlier = current.unwrap_or(earlier);
        IdempotencyKeys::earlier_result(&earlier, fingerprint, false)
    }

    /// Writes and signs a message and passes the message to the submission service. Concurrently
    /// uploads the copy for the Sent folder.
    async fn submit(
        &self,
        draft: &Arc<Draft>,
        envelope: &Envelope,
        message_id: &str,
    ) -> Result<UploadResult, Error> {
        let written = self.write(draft, message_id);
        let access = &draft.from.access;
        Box::pin(self.deliver(access, envelope, message_id, written, true)).await
    }

    /// Signs a message and passes the message to the submission service. With `has_copy`,
    /// concurrently uploads the copy for the Sent folder. `written` writes the message, and returns
    /// the permit for the memory of the message.
    pub(crate) async fn deliver<P>(
        &self,
        access: &Access,
        envelope: &Envelope,
        message_id: &str,
        written: impl Future<Output = Result<(Bytes, P), Error>>,
        has_copy: bool,
    ) -> Result<UploadResult, Error> {
        // Use the database concurrently with writing the message.
        let (signer, written, tracked) = tokio::join!(
            self.signing.signer(envelope.from.domain()),
            written,
            self.tracker.begin(access, envelope, message_id)
        );
        let (message, _memory) = written?;
        let envelope = &tracked?;
        let message = sign(signer?, message, self.clock.now()).await?;
        let copy = async {
            if has_copy {
                let changing = &self.mail.changing;
                changing.upload_sent_copy(access, message.clone()).await
            } else {
                Ok(None)
            }
        };
        let (sent, copy) = tokio::join!(self.submit_message(access, envelope, &message), copy);
        self.tracker.end(access, message_id, &sent).await;
        if let (Some(member), Ok(_) | Err(Error::Unknown(_))) = (&access.member, &sent) {
            self.record_in_audit_log(access, member, envelope, message_id)
                .await;
        }
        sent?;
        tracing::info!(
            account = access.account,
            message_id,
            recipients = envelope.to.len(),
            bytes = message.len(),
            "sent"
        );
        Ok(copy)
    }

    /// Reads the files of a draft, and writes the message without a signature. The permit is for
    /// the memory of the message.
    pub(super) async fn write(
        &self,
        draft: &Arc<Draft>,
        message_id: &str,
    ) -> Result<(Bytes, MemoryPermit), Error> {
        let found = self.find_files(&draft.from.access, &draft.files).await?;
        let size = draft.min_size(&found);
        if size > MAX_MESSAGE {
            return Err(Error::TooLarge);
        }
        let memory = self.acquire_memory(&draft.from.access, size).await?;
        let files = self
            .read_files(&draft.from.access, &draft.files, found)
            .await?;
        let (writer, id, now) = (Arc::clone(draft), message_id.to_owned(), self.clock.now());
        let message = blocking::run_sized(size, move || writer.write(&files, &id, now));
        Ok((message.await.map_err(Error::Internal)??, memory))
    }

    /// Records in the audit log that a member has sent a message or might have sent a message. The
    /// recipients see only the owner's address, so only the audit log identifies the member.
    pub(super) async fn record_in_audit_log(
        &self,
        access: &Access,
        member: &Member,
        envelope: &Envelope,
        message_id: &str,
    ) {
        let event = Event::of(Kind::SentByGuest, &access.account, self.clock.now())
            .about(message_id)
            .detail(envelope.from.as_str());
        if let Err(error) = self.directory.events.record(event, &member.origin).await {
            tracing::error!(%error, member = member.account, message_id, "failed to record a message sent by a member");
        }
    }

    /// Passes a message to the submission service, and counts the result in the metrics. Returns
    /// `true` if the mail server reports the deliveries.
    pub(super) async fn submit_message(
        &self,
        access: &Access,
        envelope: &Envelope,
        message: &Bytes,
    ) -> Result<bool, Error> {
        let start = Instant::now();
        let sent = self.transfer(access, envelope, message).await;
        let outcome = match &sent {
            Ok(_) => "sent",
            Err(Error::Rejected(_)) => "rejected",
            Err(Error::CredentialRefused) => "credential_refused",
            Err(Error::Unavailable(_)) => "unavailable",
            Err(Error::Unknown(_)) => "unknown",
            Err(_) => "failed",
        };
        metrics::SUBMISSIONS.increment([outcome]);
        metrics::SUBMISSION_DURATION.observe([], start.elapsed());
        sent
    }

    async fn transfer(
        &self,
        access: &Access,
        envelope: &Envelope,
        message: &Bytes,
    ) -> Result<bool, Error> {
        let mut lease = self.pool.lease(access, None).await?;
        let is_reused = lease.is_reused();
        let session = lease.session().await?;
        let mut reports = session.dsn;
        let mut sent = session.send(envelope, message).await;
        if let Err(Error::Lost(why)) = &sent
            && is_reused
        {
            tracing::debug!(why, "idle connection to the mail server was closed");
            let session = lease.session().await?;
            reports = session.dsn;
            sent = session.send(envelope, message).await;
        }
        match sent {
            Ok(()) => Ok(reports && matches!(envelope.reports, Reports::Tracked(_))),
            Err(Error::Lost(why)) => Err(Error::Unavailable(why)),
            Err(other) => Err(other),
        }
    }

    /// Waits until the memory for a message of `bytes` bytes is available.
    pub(crate) async fn acquire_memory(
        &self,
        access: &Access,
        bytes: usize,
    ) -> Result<MemoryPermit, Error> {
        let permit = self.memory.acquire(access.caller(), bytes);
        timeout(self.timeout, permit)
            .await
            .ok()
            .flatten()
            .ok_or_else(|| Error::Unavailable("too many large messages are being sent".into()))
    }

    /// Generates a Message-ID with the sender's domain.
    fn message_id(&self, draft: &Draft) -> Result<String, Error> {
        self.new_message_id(draft.from.address.domain())
    }

    /// Generates a Message-ID with a domain.
    pub(crate) fn new_message_id(&self, domain: &str) -> Result<String, Error> {
        let random = random_hex().map_err(|error| Error::Internal(error.to_string()))?;
        let now = self.clock.now().millis();
        Ok(format!("<{now:x}.{random}@{domain}>"))
    }

    /// Waits until no send is in progress.
    pub async fn finished(&self) {
        self.sends.finished().await;
    }
}

/// Signs a message, if the domain of its sender has a key, and inserts the signature before the
/// message. The size limit does not include the signature.
pub(super) async fn sign(
    signer: Option<Arc<Signer>>,
    message: Bytes,
    now: Timestamp,
) -> Result<Bytes, Error> {
    let Some(signer) = signer else {
        return Ok(message);
    };
    let result = blocking::run_sized(message.len(), move || -> Result<Bytes, Error> {
        let signature = signer.sign(&message, now)?;
        Ok([signature.as_bytes(), &message[..]].concat().into())
    });
    result.await.map_err(Error::Internal)?
}

/// The result of uploading a copy. `None` if no Sent folder exists.
pub(crate) type UploadResult = Result<Option<UploadedCopy>, MailboxError>;

/// Stores the copy of a sent message. Returns the path of the folder. If the copy cannot be stored,
/// logs the failure and returns `None`, because the message was sent.
pub(crate) async fn store_copy(copy: UploadResult) -> Option<String> {
    let stored = async { copy?.ok_or_else(no_sent_folder)?.store().await };
    stored.await.unwrap_or_else(|error| {
        tracing::warn!(%error, "failed to store a copy of a sent message");
        None
    })
}

fn no_sent_folder() -> MailboxError {
    MailboxError::Internal("there is no Sent folder".into())
}
