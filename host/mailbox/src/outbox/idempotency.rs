//! Idempotency keys. A message with a key is sent only once in 24 hours. A repeated request returns
//! the result of the first request.

use std::collections::HashSet;
use std::sync::{Mutex, MutexGuard, PoisonError};

use latchmail_core::codes;
use latchmail_core::error::Problem;
use latchmail_core::hexadecimal;
use latchmail_directory::sendings::{Key, Sending};
use sha2::{Digest as _, Sha256};

use super::result::{Error, Sent};
use crate::access::Access;

/// The idempotency keys of the requests in progress.
#[derive(Debug)]
pub(super) struct IdempotencyKeys {
    /// The id of this host, which distinguishes the sends of this host from the sends of other
    /// hosts.
    process: String,
    in_progress: Mutex<HashSet<Key>>,
}

/// A key whose request is in progress until this value is dropped.
pub(super) struct KeyInUse<'a> {
    keys: &'a IdempotencyKeys,
    key: Key,
}

impl IdempotencyKeys {
    pub(super) fn new(host_id: &str) -> Self {
        Self {
            process: host_id.to_owned(),
            in_progress: Mutex::default(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashSet<Key>> {
        self.in_progress
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// Records that a request with this key is in progress.
    ///
    /// # Errors
    /// Returns [`Error::Conflict`] if another request with the key is in progress in this process.
    pub(super) fn start(&self, key: &Key) -> Result<KeyInUse<'_>, Error> {
        if self.lock().insert(key.clone()) {
            Ok(KeyInUse {
                keys: self,
                key: key.clone(),
            })
        } else {
            Err(in_progress())
        }
    }

    pub(super) fn process(&self) -> &str {
        &self.process
    }

    /// Returns the result of a send that an earlier request started. `is_running` states that
    /// another host is still processing the request.
    pub(super) fn earlier_result(
        earlier: &Sending,
        fingerprint: &[u8],
        is_running: bool,
    ) -> Result<Sent, Error> {
        if earlier.fingerprint != fingerprint {
            return Err(Error::Conflict(Problem::new(
                codes::IDEMPOTENCY_KEY_REUSED,
                "This Idempotency-Key was used for another message",
            )));
        }
        if earlier.is_sent() {
            return Ok(Sent {
                message_id: earlier.message_id.clone(),
                saved_to: earlier.saved_to.clone(),
                replayed: true,
            });
        }
        if is_running {
            return Err(in_progress());
        }
        Err(Error::Unknown(format!(
            "an earlier request with the same idempotency key started to send {}, and the outcome is unknown",
            earlier.message_id
        )))
    }
}

impl Drop for KeyInUse<'_> {
    fn drop(&mut self) {
        self.keys.lock().remove(&self.key);
    }
}

fn in_progress() -> Error {
    Error::Conflict(Problem::new(
        codes::IDEMPOTENCY_KEY_IN_PROGRESS,
        "A request with this Idempotency-Key is still being processed",
    ))
}

/// Returns the stored form of a client's key. Each member has separate keys. Therefore a member
/// does not learn whether another caller used the same key.
pub(super) fn stored_key(access: &Access, key: &str) -> Key {
    let mut hash = Sha256::new();
    if let Some(member) = &access.member {
        hash.update(&member.account);
        // Use a separator that cannot occur in an HTTP header.
        hash.update([0]);
    }
    hash.update(key);
    Key {
        account: access.account.clone(),
        hash: hexadecimal::lower(&hash.finalize()),
    }
}
