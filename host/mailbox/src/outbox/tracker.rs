//! Records sent messages and how the mail server accepted them. [`super::deliveries`] reads the
//! states.

use std::sync::Arc;

use latchmail_core::clock::Clock;
use latchmail_directory::deliveries::{Deliveries, NewMessage, Submission};

use super::envelope::{Envelope, Reports};
use super::result::Error;
use crate::access::Access;
use crate::envelope_id::EnvelopeId;
use crate::error::log_failure;

/// Records sent messages.
#[derive(Debug)]
pub(super) struct Tracker {
    pub(super) directory: Deliveries,
    pub(super) clock: Clock,
    /// The key of envelope ids. `None` if the mail server does not pass reports to the milter.
    key: Option<Arc<[u8]>>,
}

impl Tracker {
    pub(super) fn new(directory: Deliveries, clock: Clock, key: Option<Arc<[u8]>>) -> Self {
        Self {
            directory,
            clock,
            key,
        }
    }

    /// Records a message that is about to be sent. Returns the envelope with the request for
    /// reports.
    pub(super) async fn begin(
        &self,
        access: &Access,
        envelope: &Envelope,
        message_id: &str,
    ) -> Result<Envelope, Error> {
        let id = self.key.as_deref().map(EnvelopeId::generate).transpose();
        let id = id.map_err(|error| Error::Internal(error.to_string()))?;
        let recipients: Vec<String> = envelope.to.iter().map(ToString::to_string).collect();
        let message = NewMessage {
            account: &access.account,
            message_id,
            envelope: &id.as_ref().map(EnvelopeId::hash).unwrap_or_default(),
            sender: access.caller(),
            recipients: &recipients,
        };
        self.directory.begin(message, self.clock.now()).await?;
        Ok(Envelope {
            reports: id.map_or(Reports::Default, Reports::Tracked),
            ..envelope.clone()
        })
    }

    /// Records the outcome at the mail server. The value is `true` if the mail server reports the
    /// deliveries. The default outcome is stored by [`Tracker::begin`], so that most messages need
    /// one write.
    pub(super) async fn end(
        &self,
        access: &Access,
        message_id: &str,
        outcome: &Result<bool, Error>,
    ) {
        let (directory, account) = (&self.directory, &access.account);
        let set = |submission| directory.set_submission(account, message_id, submission);
        log_failure(match outcome {
            Ok(true) => Ok(()),
            Ok(false) => set(Submission::Unreported).await,
            Err(Error::Unknown(_)) => set(Submission::Unknown).await,
            Err(_) => directory.forget(account, message_id).await,
        });
    }
}
