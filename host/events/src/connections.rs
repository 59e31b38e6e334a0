//! Connections on which the mail server reports changes, if it sends no notices. Each watched
//! mailbox has one connection, which is not a connection of the pool for requests.

use std::sync::Arc;

use tokio::time::sleep;

use crate::watcher::{Watcher, retry_delay};

/// Waits for reports of the mail server about the mailbox of an account, and wakes the listeners,
/// until the task is aborted.
pub(crate) async fn watch(watcher: Arc<Watcher>, account: String) {
    let mut failures = 0;
    loop {
        match watcher.connect(&account).await {
            Ok(Some(mut connection)) => {
                failures = 0;
                // The mailbox can have changed before the connection was open.
                watcher.wake(&account);
                while let Ok(()) = connection.changed().await {
                    watcher.wake(&account);
                }
            }
            // The server reports no changes, or the account is disabled. Listeners still check the
            // mailbox at an interval.
            Ok(None) => return,
            Err(error) => {
                tracing::debug!(%error, account, "cannot wait for changes at the mail server");
            }
        }
        sleep(retry_delay(failures)).await;
        failures += 1;
    }
}
