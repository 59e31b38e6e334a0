//! The tasks that keep the keys of this host up to date. They apply changes of the key file and of
//! the current key in the database. After a change of the current key, they encrypt stored secrets
//! again with the new key.

use std::sync::Arc;
use std::time::Duration;

use latchmail_accounts::service_keys::ServiceKeys;
use latchmail_core::config::Config;
use latchmail_core::error::StartError;
use latchmail_directory::Directory;
use latchmail_directory::keys::sealed::SealedColumn;
use latchmail_http::App;
use tokio::sync::watch;
use tokio::time::timeout;

use crate::hosts;

/// The delay of the second pass of [`reseal`] after a change of the current key. The second pass
/// encrypts values again that requests in progress encrypted with the previous key.
const SECOND_PASS_DELAY: Duration = Duration::from_mins(1);

/// The interval between further passes of [`reseal`] while the key file contains several keys.
const PASS_INTERVAL: Duration = Duration::from_hours(1);

/// Reads the key file, and encrypts stored secrets again with the current key. Does not do this
/// with the secrets of sessions, because their number can be large. The task [`reseal`] does.
///
/// # Errors
/// Returns a sentence for the operator if the keys cannot be used.
pub(super) async fn open(
    config: &Config,
    directory: &Directory,
    host_id: &str,
) -> Result<ServiceKeys, StartError> {
    let base_url = config.base_url();
    let keys = ServiceKeys::open(directory.clone(), &config.key_file, &base_url, host_id).await?;
    keys.reseal(&SealedColumn::WITHOUT_SESSIONS, true)
        .await
        .map_err(|e| StartError::new(e.to_string()))?;
    Ok(keys)
}

/// Applies changes of the key file and of the current key until the task is aborted. Announces each
/// change immediately, because `latchmail key rotate` waits for the announcements of all hosts.
/// Sends the `kid` of the current key to [`reseal`].
pub(super) async fn follow(app: Arc<App>, current: watch::Sender<String>) {
    loop {
        match app.service_keys.update().await {
            Ok(true) => hosts::announce_now(&app).await,
            Ok(false) => {}
            Err(error) => {
                tracing::warn!(%error, "cannot compare the service's keys with the database");
            }
        }
        let kid = app.auth.keys().current().kid.clone();
        current.send_if_modified(|previous| {
            let has_changed = *previous != kid;
            *previous = kid;
            has_changed
        });
        app.service_keys.next_check().await;
    }
}

/// Encrypts stored secrets again with the current key until the task is aborted: after the start,
/// after each change of the current key, and periodically.
pub(super) async fn reseal(app: Arc<App>, mut current: watch::Receiver<String>) {
    let mut delays = [SECOND_PASS_DELAY].into_iter();
    let mut is_first = true;
    loop {
        let has_several = app.auth.keys().all().len() > 1;
        if has_several || is_first {
            // Values that cannot be decrypted are logged only in the first pass after a change.
            let result = app.service_keys.reseal(&SealedColumn::ALL, is_first).await;
            if let Err(error) = result {
                tracing::error!(%error, "cannot seal stored secrets with the current key");
            }
        }
        is_first = false;
        let delay = delays.next().unwrap_or(PASS_INTERVAL);
        match timeout(delay, current.changed()).await {
            Err(_) => {}
            Ok(Ok(())) => {
                delays = [SECOND_PASS_DELAY].into_iter();
                is_first = true;
            }
            // The task [`follow`] has ended, so it sends no further changes.
            Ok(Err(_)) => return,
        }
    }
}
