//! Idempotency keys. A message with a key is sent only once in 24 hours. A repeated request returns
//! the result of the first request.

use latchmail_directory::sendings::{Key, Sending};

use super::result::{Error, Sent};
use crate::idempotency::{KeyInUse, KeysInUse, in_progress, other_message};

/// The idempotency keys of the requests in progress.
#[derive(Debug)]
pub(crate) struct IdempotencyKeys {
    /// The id of this host, which distinguishes the sends of this host from the sends of other
    /// hosts.
    process: String,
    in_progress: KeysInUse,
}

impl IdempotencyKeys {
    pub(crate) fn new(host_id: &str) -> Self {
        Self {
            process: host_id.to_owned(),
            in_progress: KeysInUse::default(),
        }
    }

    /// Records that a request with this key is in progress.
    ///
    /// # Errors
    /// Returns [`Error::Conflict`] if another request with the key is in progress in this process.
    pub(crate) fn start(&self, key: &Key) -> Result<KeyInUse<'_>, Error> {
        let started = self.in_progress.start(key);
        started.ok_or_else(|| Error::Conflict(in_progress()))
    }

    pub(crate) fn process(&self) -> &str {
        &self.process
    }

    /// Returns the result of a send that an earlier request started. `is_running` states that
    /// another host is still processing the request.
    pub(crate) fn earlier_result(
        earlier: &Sending,
        fingerprint: &[u8],
        is_running: bool,
    ) -> Result<Sent, Error> {
        if earlier.fingerprint != fingerprint {
            return Err(Error::Conflict(other_message()));
        }
        if earlier.is_sent() {
            return Ok(Sent {
                message_id: earlier.message_id.clone(),
                saved_to: earlier.saved_to.clone(),
                replayed: true,
                scheduled: None,
                hold: None,
            });
        }
        if is_running {
            return Err(Error::Conflict(in_progress()));
        }
        Err(Error::Unknown(format!(
            "an earlier request with the same idempotency key started to send {}, and the outcome is unknown",
            earlier.message_id
        )))
    }
}
