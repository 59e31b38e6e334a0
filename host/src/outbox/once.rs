//! A sending under a key of its client's: it happens once in 24 hours, and whoever asks again is told what became of it.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use sha2::{Digest as _, Sha256};

use super::draft::Checked;
use super::{Error, Outbox, Sent, filed};
use crate::directory::Directory;
use crate::directory::sendings::{Key, Sending};
use crate::error::StartError;
use crate::hexadecimal;
use crate::mail::{self, Access};

/// What another process began is taken to be under way for so long: no sending takes longer.
const LONGEST: Duration = Duration::from_mins(3);

/// The keys that are being served.
#[derive(Debug)]
pub(super) struct Keys {
    directory: Directory,
    /// Tells what this process began from what another did.
    process: String,
    under_way: Mutex<HashSet<Key>>,
}

/// A key that is being served, until this is dropped.
struct Serving<'a> {
    keys: &'a Keys,
    key: Key,
}

impl Keys {
    pub(super) fn new(directory: Directory) -> Result<Self, StartError> {
        Ok(Self {
            directory,
            process: random()
                .map_err(|e| StartError::new(format!("the system gives no randomness: {e}")))?,
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
    /// Sends a message, unless one was sent under this key.
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
        let fingerprint = mail::worked(checked.size(), move || printing.fingerprint())
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

    /// What is said of a sending that was begun before.
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
            "{} was begun under this key and its end is not known",
            before.message_id
        )))
    }
}

fn under_way() -> Error {
    Error::Conflict("A request with this Idempotency-Key is still being served")
}

/// What cannot be written down does not change what was done: the row says less than is known, and never more.
fn written(outcome: Result<(), crate::directory::Error>) {
    if let Err(error) = outcome {
        tracing::error!(%error, "the outcome of a sending could not be written down");
    }
}

/// A client's key as it is kept. Each guest of a mailbox has keys of its own: what another sent under one is not for it to learn.
pub(super) fn key(access: &Access, key: &str) -> Key {
    let mut hash = Sha256::new();
    if let Some(guest) = &access.guest {
        hash.update(&guest.account);
        // No header holds it.
        hash.update([0]);
    }
    hash.update(key);
    Key {
        account: access.account.clone(),
        hash: hexadecimal::lower(&hash.finalize()),
    }
}

/// 96 random bits, in hexadecimal.
pub(super) fn random() -> Result<String, getrandom::Error> {
    let mut bytes = [0; 12];
    getrandom::fill(&mut bytes)?;
    Ok(hexadecimal::lower(&bytes))
}
