//! When a message leaves.

use std::time::Duration;

use latchmail_core::clock::Timestamp;
use sha2::{Digest as _, Sha256};

/// When a message leaves, and the idempotency key.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SendOptions {
    /// The idempotency key.
    pub key: Option<String>,
    /// The time at which the message leaves. A time in the past is the current time.
    pub send_at: Option<Timestamp>,
    /// The time in which the account can cancel the message.
    pub undo: Option<Duration>,
}

impl SendOptions {
    /// Returns the options for a send at once.
    #[must_use]
    pub fn now(key: Option<&str>) -> Self {
        Self {
            key: key.map(ToOwned::to_owned),
            ..Self::default()
        }
    }

    pub(crate) fn is_later(&self) -> bool {
        self.send_at.is_some() || self.undo.is_some()
    }

    /// Adds the times to the fingerprint of a draft. Returns the fingerprint unchanged for a send
    /// at once.
    pub(crate) fn add_to_fingerprint(&self, fingerprint: [u8; 32]) -> [u8; 32] {
        if !self.is_later() {
            return fingerprint;
        }
        let mut digest = Sha256::new();
        digest.update(fingerprint);
        digest.update(format!("{:?} {:?}", self.send_at, self.undo));
        digest.finalize().into()
    }
}
