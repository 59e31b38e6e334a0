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

/// A recorded message that is about to be sent.
pub(crate) struct Tracked {
    /// The envelope with the request for reports.
    pub(super) envelope: Envelope,
    /// The recorded outcome.
    pub(super) recorded: Submission,
}

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

    /// Records a message that is about to be sent, with the outcome that most messages get, so that
    /// most messages need one write.
    pub(super) async fn begin(
        &self,
        access: &Access,
        envelope: &Envelope,
        message_id: &str,
    ) -> Result<Tracked, Error> {
        let id = self.key.as_deref().map(EnvelopeId::generate).transpose();
        let id = id.map_err(|error| Error::Internal(error.to_string()))?;
        let recipients: Vec<String> = envelope.to.iter().map(ToString::to_string).collect();
        let recorded = if id.is_some() {
            Submission::Queued
        } else {
            Submission::Unreported
        };
        let message = NewMessage {
            account: &access.account,
            message_id,
            envelope: &id.as_ref().map(EnvelopeId::hash).unwrap_or_default(),
            sender: access.caller(),
            submission: recorded,
            recipients: &recipients,
        };
        self.directory.begin(message, self.clock.now()).await?;
        let envelope = Envelope {
            reports: id.map_or(Reports::Default, Reports::Tracked),
            ..envelope.clone()
        };
        Ok(Tracked { envelope, recorded })
    }

    /// Records the outcome at the mail server. The value is `true` if the mail server reports the
    /// deliveries. `recorded` is the outcome that [`Tracker::begin`] has recorded for this
    /// submission.
    pub(super) async fn end(
        &self,
        access: &Access,
        message_id: &str,
        recorded: Option<Submission>,
        outcome: &Result<bool, Error>,
    ) {
        let (directory, account) = (&self.directory, &access.account);
        let submission = match outcome {
            Ok(true) => Some(Submission::Queued),
            Ok(false) => Some(Submission::Unreported),
            Err(Error::Unknown(_)) => Some(Submission::Unknown),
            Err(_) => None,
        };
        log_failure(match submission {
            None => directory.forget(account, message_id).await,
            Some(_) if submission == recorded => Ok(()),
            Some(submission) => {
                let set = directory.set_submission(account, message_id, submission);
                set.await
            }
        });
    }
}
