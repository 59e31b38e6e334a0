//! The notices of the mail server: Dovecot's event exporter posts a JSON object for each delivery
//! and for each command that changes a mailbox. A notice contains addresses and subjects, so
//! nothing of a notice is logged or kept except the name of the user.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use latchmail_core::error::StartError;
use latchmail_core::{config, metrics, secret_file};
use latchmail_directory::hosts::Hosts;
use secrecy::{ExposeSecret as _, SecretString};
use serde::Deserialize;
use subtle::ConstantTimeEq as _;
use tokio::sync::Notify;
use tokio::time::sleep;

use crate::watcher::Watcher;

/// Maximum size of a notice, in bytes. A notice contains the arguments of an IMAP command.
pub const MAX_NOTICE: usize = 256 * 1024;

/// Maximum number of users whose mailboxes are looked up together.
const BATCH: usize = 500;
/// Maximum number of users with notices that were not processed. Above this number, all listeners
/// wake, because a notice is lost.
const MAX_PENDING: usize = 20_000;
/// The delay before the next attempt after an error of the database.
const ERROR_DELAY: Duration = Duration::from_secs(1);

/// Minimum length of the key, in characters.
const MIN_KEY: usize = 20;

/// Receives notices, and wakes the listeners of the changed mailboxes.
#[derive(Debug)]
pub struct Notices {
    watcher: Arc<Watcher>,
    hosts: Hosts,
    sign_in: config::SignIn,
    /// The key in the URL of notices.
    key: SecretString,
    /// The addresses in notices that were not processed.
    pending: Mutex<HashSet<String>>,
    received: Notify,
}

#[derive(Deserialize)]
struct Notice {
    fields: Fields,
}

#[derive(Deserialize)]
struct Fields {
    user: String,
}

impl Notices {
    /// Creates the receiver, and reads the key. [`Notices::run`] must run.
    ///
    /// # Errors
    /// Returns an error if the file with the URL of notices cannot be read, or contains no key.
    pub fn new(
        config: &config::Events,
        watcher: Arc<Watcher>,
        hosts: Hosts,
        sign_in: config::SignIn,
    ) -> Result<Self, StartError> {
        let url = secret_file::read("the file `events.url_file`", &config.url_file)?;
        let key = std::str::from_utf8(&url).ok().and_then(key);
        let key = key.ok_or_else(|| {
            StartError::new(format!(
                "the file `events.url_file` {} must contain only a URL whose path is `/notices/` and a key of at least {MIN_KEY} letters and digits, without a line break",
                config.url_file.display()
            ))
        })?;
        Ok(Self {
            watcher,
            hosts,
            sign_in,
            key: key.into(),
            pending: Mutex::default(),
            received: Notify::new(),
        })
    }

    /// Returns `true` if the URL of notices contains this key.
    #[must_use]
    pub fn has_key(&self, key: &str) -> bool {
        self.key
            .expose_secret()
            .as_bytes()
            .ct_eq(key.as_bytes())
            .into()
    }

    /// Receives a notice. Returns `false` if the notice is invalid.
    pub fn receive(&self, notice: &[u8]) -> bool {
        let Ok(notice) = serde_json::from_slice::<Notice>(notice) else {
            metrics::EVENT_NOTICES.increment(["invalid"]);
            return false;
        };
        if self.watcher.count() == 0 && self.hosts.is_only_host() {
            metrics::EVENT_NOTICES.increment(["unwatched"]);
            return true;
        }
        // The user of an IMAP session is the log-in name, a slash and the id of the app password.
        let user = notice.fields.user;
        let name = user.split('/').next().unwrap_or_default();
        let Some(address) = self.sign_in.address(name) else {
            metrics::EVENT_NOTICES.increment(["unwatched"]);
            return true;
        };
        let mut pending = self.pending.lock().unwrap_or_else(PoisonError::into_inner);
        if pending.len() >= MAX_PENDING {
            drop(pending);
            metrics::EVENT_NOTICES.increment(["lost"]);
            self.watcher.wake_all();
            return true;
        }
        pending.insert(address);
        drop(pending);
        self.received.notify_one();
        true
    }

    /// Processes the notices until the task is aborted.
    pub async fn run(self: Arc<Self>) {
        loop {
            self.received.notified().await;
            let pending = self.pending.lock();
            let pending = std::mem::take(&mut *pending.unwrap_or_else(PoisonError::into_inner));
            let pending: Vec<String> = pending.into_iter().collect();
            for addresses in pending.chunks(BATCH) {
                self.report(addresses).await;
            }
        }
    }

    async fn report(&self, addresses: &[String]) {
        match self.hosts.report_changes(addresses).await {
            Ok(watched) => {
                for account in &watched {
                    metrics::EVENT_NOTICES.increment(["watched"]);
                    self.watcher.wake(account);
                }
                for _ in watched.len()..addresses.len() {
                    metrics::EVENT_NOTICES.increment(["unwatched"]);
                }
            }
            Err(error) => {
                tracing::warn!(%error, "cannot find the mailboxes of notices");
                metrics::EVENT_NOTICES.increment(["lost"]);
                self.watcher.wake_all();
                sleep(ERROR_DELAY).await;
            }
        }
    }
}

/// Returns the key in a URL of notices.
fn key(url: &str) -> Option<&str> {
    let (_, key) = url.rsplit_once("/notices/")?;
    let is_valid = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_');
    (key.len() >= MIN_KEY && key.chars().all(is_valid)).then_some(key)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_key_is_the_last_segment_of_the_url() {
        let secret = "abcdefghijklmnopqrst";
        let url = format!("http://127.0.0.1:8083/notices/{secret}");
        assert_eq!(key(&url), Some(secret));
        for invalid in [
            "",
            "http://127.0.0.1/notices/short",
            &format!("{url}/more"),
            &format!("{url}\n"),
            secret,
        ] {
            assert_eq!(key(invalid), None, "{invalid}");
        }
    }

    #[test]
    fn a_notice_contains_the_name_of_the_user() {
        let notice = r#"{"event":"imap_command_finished","fields":{"user":"a@b/x","duration":1}}"#;
        let notice: Notice = serde_json::from_str(notice).unwrap();
        assert_eq!(notice.fields.user, "a@b/x");
    }
}
