//! Idempotency keys: a message with a key is sent only once in 24 hours, and a repeated request returns the first result.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use latchmail_core::error::StartError;
use latchmail_core::hexadecimal;
use latchmail_directory::Directory;
use latchmail_directory::sendings::{Key, Sending};
use sha2::{Digest as _, Sha256};

use super::draft::Checked;
use super::{Error, Outbox, Sent, filed};
use crate::Access;

/// A send by another process counts as in progress for this time. No send takes longer.
const LONGEST: Duration = Duration::from_mins(3);

/// The keys whose requests are being processed.
#[derive(Debug)]
pub(super) struct Keys {
    directory: Directory,
    /// The id of this process, to recognize sends of other processes.
    process: String,
    under_way: Mutex<HashSet<Key>>,
}

/// A key whose request is being processed until this value is dropped.
struct Serving<'a> {
    keys: &'a Keys,
    key: Key,
}

impl Keys {
    pub(super) fn new(directory: Directory) -> Result<Self, StartError> {
        Ok(Self {
            directory,
            process: random().map_err(|e| {
                StartError::new(format!("the system's random number generator failed: {e}"))
            })?,
            under_way: Mutex::default(),
        })
    }

    fn lock(&self) -> MutexGuard<'_, HashSet<Key>> {
        self.under_way
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    fn serve(&self, key: &Key) -> Option<Serving<'_>> {
        self.lock().insert(key.clone()).then(|| Serving {
            keys: self,
            key: key.clone(),
        })
    }
}

impl Drop for Serving<'_> {
    fn drop(&mut self) {
        self.keys.lock().remove(&self.key);
    }
}

impl Outbox {
    /// Sends a message, unless one was sent with this key.
    pub(super) async fn once(
        &self,
        access: &Access,
        checked: Arc<Checked>,
        key: Key,
    ) -> Result<Sent, Error> {
        let Some(_serving) = self.keys.serve(&key) else {
            return Err(under_way());
        };
        let message_id = self.message_id(&checked)?;
        let printing = Arc::clone(&checked);
        let fingerprint = crate::worked(checked.size(), move || printing.fingerprint())
            .await
            .map_err(Error::Internal)?;
        let now = self.clock.now();
        let process = &self.keys.process;
        let directory = &self.keys.directory;
        let before = directory
            .begin_sending(&key, &fingerprint, process, &message_id, now)
            .await?;
        if let Some(before) = before {
            return self.again(&before, &fingerprint);
        }
        match self.sent(access, &checked, &message_id).await {
            Ok(ready) => {
                written(directory.sent(&key).await);
                let saved_to = filed(ready).await;
                if let Some(folder) = &saved_to {
                    written(directory.sent_copy_filed(&key, folder).await);
                }
                Ok(Sent {
                    message_id,
                    saved_to,
                    replayed: false,
                })
            }
            Err(error @ Error::Unknown(_)) => {
                written(directory.sending_unknown(&key).await);
                Err(error)
            }
            Err(error) => {
                written(directory.release_sending(&key).await);
                Err(error)
            }
        }
    }

    /// Returns the result of a send that an earlier request started.
    fn again(&self, before: &Sending, fingerprint: &[u8]) -> Result<Sent, Error> {
        if before.fingerprint != fingerprint {
            return Err(Error::Conflict(
                "This Idempotency-Key was used for another message",
            ));
        }
        if before.is_sent() {
            return Ok(Sent {
                message_id: before.message_id.clone(),
                saved_to: before.saved_to.clone(),
                replayed: true,
            });
        }
        let elsewhere = before.process != self.keys.process
            && self.clock.now().since(before.begun_at()) < LONGEST;
        if before.is_begun() && elsewhere {
            return Err(under_way());
        }
        Err(Error::Unknown(format!(
            "sending of {} was started with this key and its outcome is unknown",
            before.message_id
        )))
    }
}

fn under_way() -> Error {
    Error::Conflict("A request with this Idempotency-Key is still being processed")
}

/// Logs a failure to store the outcome. The outcome stays valid, and the stored row never claims more than what happened.
fn written(outcome: Result<(), latchmail_directory::Error>) {
    if let Err(error) = outcome {
        tracing::error!(%error, "failed to store the outcome of a send");
    }
}

/// Returns a client's key as it is stored. Each member has separate keys, so that it does not learn what others sent with the same key.
pub(super) fn key(access: &Access, key: &str) -> Key {
    let mut hash = Sha256::new();
    if let Some(guest) = &access.guest {
        hash.update(&guest.account);
        // A separator that cannot occur in a header.
        hash.update([0]);
    }
    hash.update(key);
    Key {
        account: access.account.clone(),
        hash: hexadecimal::lower(&hash.finalize()),
    }
}

/// Returns 96 random bits in hexadecimal.
pub(super) fn random() -> Result<String, getrandom::Error> {
    let mut bytes = [0; 12];
    getrandom::fill(&mut bytes)?;
    Ok(hexadecimal::lower(&bytes))
}
