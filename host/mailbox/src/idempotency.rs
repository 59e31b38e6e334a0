//! The idempotency keys of the requests in progress in this process, and the stored form of keys.

use std::collections::HashSet;
use std::sync::{Mutex, MutexGuard, PoisonError};

use latchmail_core::error::Problem;
use latchmail_core::{codes, hexadecimal};
use latchmail_directory::sendings::Key;
use sha2::{Digest as _, Sha256};

use crate::access::Access;

/// The error for a key whose request is in progress.
pub(crate) fn in_progress() -> Problem {
    Problem::new(
        codes::IDEMPOTENCY_KEY_IN_PROGRESS,
        "A request with this Idempotency-Key is still being processed",
    )
}

/// The error for a key that was used with another request.
pub(crate) fn other_message() -> Problem {
    Problem::new(
        codes::IDEMPOTENCY_KEY_REUSED,
        "This Idempotency-Key was used for another message",
    )
}

/// The keys of the requests in progress.
#[derive(Debug, Default)]
pub(crate) struct KeysInUse(Mutex<HashSet<Key>>);

/// A key whose request is in progress until this value is dropped.
pub(crate) struct KeyInUse<'a> {
    keys: &'a KeysInUse,
    key: Key,
}

impl KeysInUse {
    fn lock(&self) -> MutexGuard<'_, HashSet<Key>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records that a request with this key is in progress. Returns `None` if another request with
    /// the key is in progress in this process.
    pub(crate) fn start(&self, key: &Key) -> Option<KeyInUse<'_>> {
        self.lock().insert(key.clone()).then(|| KeyInUse {
            keys: self,
            key: key.clone(),
        })
    }
}

impl Drop for KeyInUse<'_> {
    fn drop(&mut self) {
        self.keys.lock().remove(&self.key);
    }
}

/// Returns the stored form of a client's key. Each member has separate keys. Therefore a member
/// does not learn whether another caller used the same key.
pub(crate) fn stored_key(access: &Access, key: &str) -> Key {
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
