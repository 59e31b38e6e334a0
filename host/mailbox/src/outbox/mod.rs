//! Outbound mail: checks the sender of a draft, writes and signs the message, passes it to the submission service, and stores a copy.
//!
//! This module knows neither HTTP nor WIT. A send that has started runs to completion on its own task. With an idempotency key, a message is sent only once.

mod draft;
#[cfg(any(test, feature = "testing"))]
pub mod fuzzing;
mod log_in;
mod memory;
mod once;
mod smtp;

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use latchmail_core::changes::Changes;
use latchmail_core::clock::{Clock, Timestamp};
use latchmail_core::config;
use latchmail_core::error::StartError;
use latchmail_core::permissions::Right;
use latchmail_directory::Directory;
use latchmail_directory::addresses::AddressRelation;
use latchmail_directory::events::{Event, Kind};
use latchmail_dkim::Signer;
use latchmail_net::endpoint::Endpoint;
use tokio::time::timeout;

use crate::pool::Pool;
use crate::{Access, Filing, Guest, Mail};
use draft::{Checked, mailbox};
pub use draft::{Draft, File};
use memory::{Memory, Share};
use once::Keys;
use smtp::Connector;

/// The reason why a message was not sent, or may not have been sent.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The caller may not use the sender address. The text can be shown to users.
    #[error("{0}")]
    Denied(&'static str),
    /// The draft contains an invalid value. The text can be shown to users.
    #[error("{0}")]
    Invalid(String),
    /// The finished message exceeds 25 MB.
    #[error("the message exceeds the 25 MB limit")]
    TooLarge,
    /// The mail server rejected a recipient or the message. The text is the server's, after the recipient's address, and can be shown to users.
    #[error("the mail server rejected the message: {0}")]
    Rejected(String),
    /// The idempotency key was used for another message, or its request is still being processed. The text can be shown to users.
    #[error("{0}")]
    Conflict(&'static str),
    /// The mail server rejected the credential.
    #[error("the mail server rejected the credential")]
    CredentialRefused,
    /// Nothing was sent: the mail server is unreachable or rejected the message temporarily.
    #[error("the mail server is not available: {0}")]
    Unavailable(String),
    /// Nothing was sent: the server had closed the idle connection.
    #[error("the connection was closed: {0}")]
    Lost(String),
    /// It is unknown whether the message was sent.
    #[error("it is unknown whether the message was sent: {0}")]
    Unknown(String),
    /// Nothing was sent: an internal error occurred.
    #[error("sending failed: {0}")]
    Internal(String),
}

impl From<crate::Error> for Error {
    fn from(error: crate::Error) -> Self {
        match error {
            crate::Error::CredentialRefused => Self::CredentialRefused,
            crate::Error::Unavailable(why) => Self::Unavailable(why),
            other => Self::Internal(other.to_string()),
        }
    }
}

impl From<latchmail_dkim::Error> for Error {
    fn from(error: latchmail_dkim::Error) -> Self {
        Self::Internal(error.to_string())
    }
}

impl From<latchmail_directory::Error> for Error {
    fn from(error: latchmail_directory::Error) -> Self {
        Self::Internal(error.to_string())
    }
}

/// A message that was sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sent {
    /// The Message-ID with angle brackets.
    pub message_id: String,
    /// The folder in which the copy was stored.
    pub saved_to: Option<String>,
    /// `true` if the message was sent by an earlier request with the same key.
    pub replayed: bool,
}

/// Proof that an account may send from an address, valid for the current request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sender {
    account: String,
    mailbox: lettre::Address,
}

/// The outbound mail service.
#[derive(Debug)]
pub struct Outbox {
    directory: Directory,
    mail: Arc<Mail>,
    pool: Pool<Connector>,
    clock: Clock,
    keys: Keys,
    signing: Arc<latchmail_dkim::Keys>,
    /// The sends in progress.
    sends: Changes,
    memory: Memory,
    patience: Duration,
}

impl Outbox {
    /// Creates the service. Does not connect.
    ///
    /// # Errors
    /// Returns an error if the address or TLS in the configuration cannot be used.
    pub fn new(
        config: &config::Smtp,
        directory: Directory,
        mail: Arc<Mail>,
        signing: Arc<latchmail_dkim::Keys>,
        clock: Clock,
    ) -> Result<Self, StartError> {
        let endpoint = Endpoint::new("smtp.address", &config.address, config.tls)?;
        let pool = Pool::new(
            Connector::new(endpoint, config.timeout),
            config.connections_per_account,
            config.timeout,
            config.idle_timeout,
        );
        let closing = pool.clone();
        mail.on_close(move |revoked| closing.close(revoked));
        Ok(Self {
            pool,
            keys: Keys::new(directory.clone())?,
            directory,
            mail,
            signing,
            clock,
            sends: Changes::default(),
            memory: Memory::new(),
            patience: config.timeout,
        })
    }

    /// Checks that the caller may send from an address: the account's own address or one of its active aliases. A member also needs a grant for it. Returns the
    /// proof for [`Outbox::send`].
    ///
    /// # Errors
    /// Returns [`Error::Denied`] if the caller may not send from it, or [`Error::Internal`] if the directory fails.
    pub async fn check_sender(&self, access: &Access, address: &str) -> Result<Sender, Error> {
        let own = "You can only send from your own address or active aliases";
        let account = &access.account;
        let mailbox = mailbox(address).ok_or(Error::Denied(own))?;
        let folded = mailbox.to_string().to_lowercase();
        if let Some(guest) = &access.guest
            && !self.may_send(account, guest, &folded).await?
        {
            return Err(Error::Denied(own));
        }
        match self.directory.address_relation(account, &folded).await? {
            AddressRelation::Own => Ok(Sender {
                account: account.to_owned(),
                mailbox,
            }),
            AddressRelation::Foreign => Err(Error::Denied(own)),
            AddressRelation::ForeignDomain => Err(Error::Denied(
                "You do not have permission to send from this domain",
            )),
        }
    }

    /// Returns `true` if a member has a grant to send from an address of the account.
    async fn may_send(&self, account: &str, guest: &Guest, address: &str) -> Result<bool, Error> {
        let rights = match self.directory.alias_maker(account, address).await? {
            Some(maker) => {
                let made = maker.as_deref() == Some(guest.account.as_str());
                guest.grants.over_alias(address, made)
            }
            None => guest.grants.over_address(),
        };
        Ok(rights.hold(Right::MailSend))
    }

    /// Sends a message to all recipients or to none, and stores a copy. `sender` is the proof for the draft's sender, if it was already checked. A repeated
    /// `key` within 24 hours sends nothing and returns the first result.
    ///
    /// # Errors
    /// Returns any [`Error`] except [`Error::Lost`].
    pub async fn send(
        self: &Arc<Self>,
        access: &Access,
        draft: Draft,
        sender: Option<&Sender>,
        key: Option<&str>,
    ) -> Result<Sent, Error> {
        let checked = Arc::new(draft.checked()?);
        let from = &checked.envelope.from;
        let proven = |sender: &Sender| sender.account == access.account && sender.mailbox == *from;
        if !sender.is_some_and(proven) {
            self.check_sender(access, from.as_ref()).await?;
        }
        let (outbox, asked, access) = (Arc::clone(self), access, access.clone());
        let key = key.map(|key| once::key(&access, key));
        let sending = async move {
            match key {
                None => {
                    let message_id = outbox.message_id(&checked)?;
                    let ready = outbox.sent(&access, &checked, &message_id).await?;
                    let saved_to = filed(ready).await;
                    Ok(Sent {
                        message_id,
                        saved_to,
                        replayed: false,
                    })
                }
                Some(key) => outbox.once(&access, checked, key).await,
            }
        };
        let mut sent = self.sends.run(sending).await.unwrap_or_else(|error| {
            Err(Error::Unknown(format!("the task ended early: {error}")))
        })?;
        // A member who may not know of the folder does not learn where the copy is.
        if let Some(path) = &sent.saved_to
            && !self.mail.shows(asked, path).await.unwrap_or(false)
        {
            sent.saved_to = None;
        }
        Ok(sent)
    }

    /// Writes and signs a message and passes it to the submission service. Concurrently, uploads the copy for the Sent folder.
    async fn sent(
        &self,
        access: &Access,
        checked: &Arc<Checked>,
        message_id: &str,
    ) -> Result<Ready, Error> {
        let _memory = self.memory_for(access, checked.size()).await?;
        let now = self.clock.now();
        let (writing, id) = (Arc::clone(checked), message_id.to_owned());
        // The directory is queried while the message is written.
        let (signer, message) = tokio::join!(
            self.signing.signer(checked.envelope.from.domain()),
            crate::worked(checked.size(), move || writing.written(&id, now))
        );
        let mut message = message.map_err(Error::Internal)??;
        if let Some(signer) = signer? {
            message = crate::worked(checked.size(), move || signed(&signer, &message, now))
                .await
                .map_err(Error::Internal)??;
        }
        let (sent, ready) = tokio::join!(
            self.handed_over(access, checked, &message),
            self.mail.ready_to_file(access, message.clone())
        );
        if let (Some(guest), Ok(()) | Err(Error::Unknown(_))) = (&access.guest, &sent) {
            self.record(access, guest, checked, message_id).await;
        }
        sent?;
        tracing::info!(
            account = access.account,
            message_id,
            recipients = checked.envelope.to.len(),
            bytes = message.len(),
            "sent"
        );
        Ok(ready)
    }

    /// Records in the audit log that a member sent a message, or may have. The recipients see only the owner's address.
    async fn record(&self, access: &Access, guest: &Guest, checked: &Checked, message_id: &str) {
        let from = checked.envelope.from.to_string();
        let event = Event::of(Kind::SentByGuest, &access.account, self.clock.now())
            .about(message_id)
            .detail(&from);
        if let Err(error) = self.directory.record(event, &guest.origin).await {
            tracing::error!(%error, guest = guest.account, message_id, "failed to record a message sent by a member");
        }
    }

    async fn handed_over(
        &self,
        access: &Access,
        checked: &Checked,
        message: &Bytes,
    ) -> Result<(), Error> {
        let mut lease = self.pool.lease(access, None).await?;
        let was_idle = lease.was_idle();
        let session = lease.session().await?;
        match session.send(&checked.envelope, message).await {
            Err(Error::Lost(why)) if was_idle => {
                tracing::debug!(why, "idle connection to the mail server was closed");
                let session = lease.session().await?;
                session
                    .send(&checked.envelope, message)
                    .await
                    .map_err(unavailable)?;
            }
            sent => sent.map_err(unavailable)?,
        }
        Ok(())
    }

    /// Waits for the memory of a message of `bytes` bytes.
    async fn memory_for(&self, access: &Access, bytes: usize) -> Result<Share, Error> {
        let share = self.memory.share(access.caller(), bytes);
        timeout(self.patience, share)
            .await
            .ok()
            .flatten()
            .ok_or_else(|| Error::Unavailable("too many large messages are being sent".into()))
    }

    /// Generates a Message-ID on the sender's domain.
    fn message_id(&self, checked: &Checked) -> Result<String, Error> {
        let random = once::random().map_err(|error| Error::Internal(error.to_string()))?;
        let now = self.clock.now().millis();
        Ok(format!(
            "<{now:x}.{random}@{}>",
            checked.envelope.from.domain()
        ))
    }

    /// Waits until no send is in progress.
    pub async fn finished(&self) {
        self.sends.finished().await;
    }
}

/// Puts the signature before a message. It does not count towards the size limit.
fn signed(signer: &Signer, message: &[u8], now: Timestamp) -> Result<Bytes, latchmail_dkim::Error> {
    let signature = signer.sign(message, now)?;
    Ok([signature.as_bytes(), message].concat().into())
}

/// The uploaded copy.
type Ready = Result<Option<Filing>, crate::Error>;

/// Stores the copy of a sent message. A failure is only logged, because the message was sent.
async fn filed(ready: Ready) -> Option<String> {
    let filed = async { ready?.ok_or_else(no_folder)?.file().await };
    filed.await.unwrap_or_else(|error| {
        tracing::warn!(%error, "failed to store a copy of a sent message");
        None
    })
}

fn no_folder() -> crate::Error {
    crate::Error::Internal("there is no Sent folder".into())
}

fn unavailable(error: Error) -> Error {
    match error {
        Error::Lost(why) => Error::Unavailable(why),
        other => other,
    }
}

#[cfg(test)]
mod tests;
