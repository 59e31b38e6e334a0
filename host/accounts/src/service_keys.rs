//! The keys of a running service. The key file of each host contains the keys that the host knows.
//! The database contains the id of the current key, with which all hosts seal new values.
//!
//! A host reads its key file again when the file changes. If the current key in the database
//! changes, the host uses the new current key without a restart. The first key in the key file of a
//! starting host becomes the current key only if the database has no current key, or if the
//! operator added the key while no other host ran.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use latchmail_core::error::{Failure, StartError};
use latchmail_core::key_file::{self, Stamp};
use latchmail_core::keyring::{self, Keyring};
use latchmail_core::sealing::Purpose;
use latchmail_directory::hosts::{HOST_TIMEOUT, Host};
use latchmail_directory::keys::sealed::SealedColumn;
use latchmail_directory::keys::service_keys::Registered;
use latchmail_directory::{Directory, Error};
use tokio::sync::{Mutex, Notify};
use tokio::time::{Instant, sleep, timeout};

/// The interval at which a host compares its keys with the key file and the database.
const CHECK_INTERVAL: Duration = Duration::from_secs(2);

/// Number of sealed values that one query returns.
const PAGE: i64 = 1000;

/// The keys of a running host.
#[derive(Debug)]
pub struct ServiceKeys {
    directory: Directory,
    file: PathBuf,
    host_id: String,
    keys: Arc<Keyring>,
    seen: Mutex<Seen>,
    wake: Notify,
}

/// The key file and the missing key at the last check.
#[derive(Debug)]
struct Seen {
    file: Option<Stamp>,
    /// The id of the database's current key, if the key file of this host does not contain this
    /// key.
    missing: Option<String>,
}

impl ServiceKeys {
    /// Reads the key file of a host that starts, and compares the keys and the base URL with the
    /// database and the other hosts. Creates a missing key file if the database was not used
    /// before.
    ///
    /// # Errors
    /// Returns an error if the key file cannot be used, or if the host must not run together with
    /// the other hosts.
    pub async fn open(
        directory: Directory,
        file: &Path,
        base_url: &str,
        host_id: &str,
    ) -> Result<Self, StartError> {
        let current = directory
            .keys
            .current_service_key()
            .await
            .map_err(database)?;
        if let Some(kid) = current
            && !file.exists()
        {
            return Err(StartError::new(format!(
                "the key file {} does not exist, and the current key of the database is {kid}: copy the key file from another host or from a backup. If the \
                 key is lost, create the file with a new key, see docs/key-rotation.md",
                file.display()
            )));
        }
        let stamp = Stamp::of(file);
        let keys = Arc::new(Keyring::load(file)?);
        let service_keys = Self {
            directory,
            file: file.to_owned(),
            host_id: host_id.to_owned(),
            keys,
            seen: Mutex::new(Seen {
                // If the key file was missing before, `Keyring::load` has created it.
                file: stamp.or_else(|| Stamp::of(file)),
                missing: None,
            }),
            wake: Notify::new(),
        };
        for host in service_keys.differing_hosts(base_url).await? {
            if host.base_url != base_url {
                return Err(StartError::new(format!(
                    "the host {} uses `base_url` {}, and this host uses {base_url}: all hosts of a database must have the same `base_url`",
                    host.name, host.base_url
                )));
            }
        }
        service_keys.register().await?;
        Ok(service_keys)
    }

    /// Returns the keyring, which changes while the service runs.
    #[must_use]
    pub fn keyring(&self) -> Arc<Keyring> {
        Arc::clone(&self.keys)
    }

    /// Registers the keys of this host in the database, and selects the database's current key. A
    /// host must call this function again after it has written its row to the table of hosts,
    /// because another host can change the current key before that.
    ///
    /// # Errors
    /// Returns an error if the key file does not contain the current key.
    pub async fn register(&self) -> Result<(), StartError> {
        let known = self.keys.all();
        let mut kids: Vec<&str> = known.iter().map(|key| key.kid.as_str()).collect();
        let registered = self
            .directory
            .keys
            .register_service_keys(&kids, &self.host_id)
            .await
            .map_err(database)?;
        match registered {
            Registered::Known(kid) if kids.first() != Some(&kid.as_str()) => {
                self.keys.select(&kid);
                tracing::info!(
                    kid,
                    "the first key of the key file is not the current key; the service uses the database's current key"
                );
            }
            Registered::Known(_) | Registered::New(None) => {}
            Registered::New(Some(previous)) => {
                let kid = kids.remove(0);
                tracing::info!(
                    kid,
                    previous,
                    "the first key of the key file is now the current key"
                );
                if !kids.contains(&previous.as_str()) {
                    tracing::warn!(
                        previous,
                        "the key file does not contain the previous key: all web sessions end, and sealed secrets cannot be decrypted"
                    );
                }
            }
            Registered::Missing(kid) => return Err(self.missing(&kid).await?),
        }
        Ok(())
    }

    /// Returns the error for a key file that does not contain the current key `kid`. The error text
    /// names a source from which the operator can copy the key file.
    async fn missing(&self, kid: &str) -> Result<StartError, StartError> {
        let hosts = self.directory.hosts.list().await.map_err(database)?;
        let other = hosts
            .iter()
            .find(|host| host.id != self.host_id && host.key_ids().any(|one| one == kid));
        let known: Vec<String> = self.keys.all().iter().map(|key| key.kid.clone()).collect();
        let source = other.map_or_else(
            || "another host or a backup".to_owned(),
            |host| format!("the host {}", host.name),
        );
        Ok(StartError::new(format!(
            "the key file {} does not contain the current key {kid} (it contains {}): copy the key file from {source}",
            self.file.display(),
            known.join(", ")
        )))
    }

    /// Returns the running hosts that have another base URL. If the database does not know the
    /// first key of this host, returns all running hosts. A killed host counts as running until
    /// `HOST_TIMEOUT` has passed, so this function waits until each returned host has updated its
    /// row or counts as stopped.
    async fn differing_hosts(&self, base_url: &str) -> Result<Vec<Host>, StartError> {
        let first = self.keys.current().kid.clone();
        let known = self.directory.keys.list().await.map_err(database)?;
        let has_known_key = known.is_empty() || known.iter().any(|key| key.kid == first);
        let differing = async || -> Result<Vec<Host>, StartError> {
            let mut hosts = self.directory.hosts.list().await.map_err(database)?;
            hosts.retain(|host| !has_known_key || host.base_url != base_url);
            Ok(hosts)
        };
        let before = differing().await?;
        let deadline = Instant::now() + HOST_TIMEOUT;
        loop {
            let hosts = differing().await?;
            let is_running = |host: &Host| {
                let earlier = before.iter().find(|earlier| earlier.id == host.id);
                earlier.is_none_or(|earlier| earlier.seen_at < host.seen_at)
            };
            if hosts.iter().all(is_running) || Instant::now() > deadline {
                return Ok(hosts);
            }
            sleep(Duration::from_millis(500)).await;
        }
    }

    /// Requests an immediate check of the key file and the database.
    pub fn wake(&self) {
        self.wake.notify_one();
    }

    /// Waits until the next call of [`ServiceKeys::update`] is due.
    pub async fn next_check(&self) {
        // A check is due after a notification and after the timeout, so the result does not matter.
        let _ = timeout(CHECK_INTERVAL, self.wake.notified()).await;
    }

    /// Reads the key file again if it has changed, and selects the database's current key. Returns
    /// `true` if the keys of this host have changed. If the new key file is invalid, the previous
    /// keys stay in use, and the reason is logged.
    ///
    /// # Errors
    /// Returns an error if the database fails.
    pub async fn update(&self) -> Result<bool, Error> {
        let mut seen = self.seen.lock().await;
        let Some(current) = self.directory.keys.current_service_key().await? else {
            return Ok(false);
        };
        let mut has_changed = false;
        let stamp = Stamp::of(&self.file);
        if seen.file != stamp {
            seen.file = stamp;
            match key_file::read_keys(&self.file)
                .and_then(|keys| self.keys.replace(&keys, &current))
            {
                Ok(true) => {
                    tracing::info!(keys = ?self.keys, "read the changed key file");
                    has_changed = true;
                }
                Ok(false) => tracing::error!(
                    kid = current,
                    "the changed key file does not contain the current key; the previous keys stay in use"
                ),
                Err(error) => {
                    tracing::error!(%error, "cannot read the changed key file; the previous keys stay in use");
                }
            }
        }
        if self.keys.current().kid == current {
            seen.missing = None;
        } else if self.keys.select(&current) {
            tracing::info!(kid = current, "a new key is now the current key");
            has_changed = true;
        } else if seen.missing.as_ref() != Some(&current) {
            tracing::error!(
                kid = current,
                "this host does not have the current key; copy the key file from another host"
            );
            seen.missing = Some(current);
        }
        Ok(has_changed)
    }

    /// Seals values in `columns` again with the current key if they were sealed with another key.
    /// After that, the operator can remove the other keys. If `warn` is `true`, logs a warning for
    /// values that cannot be decrypted.
    ///
    /// # Errors
    /// Returns 500 if the database fails.
    pub async fn reseal(&self, columns: &[SealedColumn], warn: bool) -> Result<(), Failure> {
        for column in columns {
            let current = self.keys.current().id;
            let mut after = String::new();
            loop {
                let page = self
                    .directory
                    .keys
                    .sealed(*column, &current, &after, PAGE)
                    .await?;
                let Some((last, _)) = page.last() else {
                    break;
                };
                after.clone_from(last);
                for (row, sealed) in page {
                    self.reseal_value(*column, &row, &sealed, warn).await?;
                }
            }
        }
        Ok(())
    }

    async fn reseal_value(
        &self,
        column: SealedColumn,
        row: &str,
        sealed: &[u8],
        warn: bool,
    ) -> Result<(), Failure> {
        let purpose = purpose(column);
        if let Some(secret) = self.keys.open_bytes(purpose, row, sealed) {
            let resealed = self.keys.seal_bytes(purpose, row, &secret)?;
            self.directory
                .keys
                .reseal(column, row, sealed, &resealed)
                .await?;
        } else if warn {
            warn_about(column, row);
        }
        Ok(())
    }
}

/// Returns the keys in the key file `file`, and selects the database's current key.
///
/// # Errors
/// Returns an error if the file cannot be used or does not contain the current key.
pub async fn keyring(directory: &Directory, file: &Path) -> Result<Keyring, StartError> {
    let keys = Keyring::load(file)?;
    let current = directory
        .keys
        .current_service_key()
        .await
        .map_err(database)?;
    if let Some(kid) = current
        && !keys.select(&kid)
    {
        return Err(StartError::new(format!(
            "the key file {} does not contain the current key {kid}: copy the key file from another host",
            file.display()
        )));
    }
    Ok(keys)
}

/// Returns the number of values that the key `key` sealed, for each column. Omits columns without
/// such values.
///
/// # Errors
/// Returns an error if the database fails.
pub async fn count_sealed(
    directory: &Directory,
    key: &keyring::Key,
    now: latchmail_core::clock::Timestamp,
) -> Result<Vec<(SealedColumn, u64)>, Error> {
    let mut counts = Vec::new();
    for column in SealedColumn::ALL {
        let count = directory.keys.count_sealed(column, &key.id, now).await?;
        if count > 0 {
            counts.push((column, count));
        }
    }
    Ok(counts)
}

const fn purpose(column: SealedColumn) -> Purpose {
    match column {
        SealedColumn::Session => Purpose::WebSession,
        SealedColumn::ProviderToken => Purpose::ProviderToken,
        SealedColumn::TwoFactor => Purpose::TwoFactor,
        SealedColumn::TeamKey => Purpose::TeamKey,
        SealedColumn::IndexKey => Purpose::IndexKey,
        SealedColumn::DkimKey => Purpose::DkimKey,
        SealedColumn::UploadKey => Purpose::UploadKey,
        SealedColumn::Job => Purpose::Job,
        SealedColumn::OutboxEntry => Purpose::OutboxEntry,
        SealedColumn::OutboxKey => Purpose::OutboxKey,
        SealedColumn::Webhook => Purpose::Webhook,
        SealedColumn::WebhookBody => Purpose::WebhookBody,
        SealedColumn::GrantChange => Purpose::GrantChange,
    }
}

fn warn_about(column: SealedColumn, row: &str) {
    match column {
        SealedColumn::TwoFactor => tracing::warn!(
            account = row,
            "cannot open a second factor with the service's keys"
        ),
        SealedColumn::TeamKey => tracing::warn!(
            mailbox = row,
            "a shared mailbox's key cannot be opened with the service's keys"
        ),
        SealedColumn::DkimKey => tracing::error!(
            domain = row,
            "failed to open a DKIM key; the domain cannot send mail"
        ),
        SealedColumn::Job => tracing::error!(
            job = row,
            "failed to open the payload of a job; the job cannot run"
        ),
        SealedColumn::OutboxEntry => tracing::error!(
            entry = row,
            "failed to open an entry of the outbox; the message cannot be sent"
        ),
        SealedColumn::GrantChange => tracing::error!(
            key = row,
            "failed to open the bytes of a change of a grant; the change cannot be undone"
        ),
        // These columns need no warning. A web session whose app password cannot be decrypted has
        // ended. A session without the identity provider's token ends at its maximum age. The next
        // use of an undecryptable credential of the search index or of the outbox replaces the
        // credential. An upload expires after an hour.
        SealedColumn::Session
        | SealedColumn::ProviderToken
        | SealedColumn::IndexKey
        | SealedColumn::UploadKey
        | SealedColumn::OutboxKey
        | SealedColumn::Webhook
        | SealedColumn::WebhookBody => {}
    }
}

#[expect(clippy::needless_pass_by_value, reason = "a function for `map_err`")]
fn database(error: Error) -> StartError {
    StartError::new(error.to_string())
}
