//! This process as one of the hosts that share a database. Announces this host to the other hosts,
//! and handles the events of other hosts.

use std::sync::Arc;
use std::time::Duration;

use latchmail_core::error::StartError;
use latchmail_core::secrets;
use latchmail_directory::hosts::host_events::{HostEvent, HostEvents};
use latchmail_directory::hosts::{ANNOUNCE_INTERVAL, Announcement};
use latchmail_http::App;
use tokio::time::{Instant, MissedTickBehavior, interval, sleep};

use crate::start_error;

/// The delay before the events of other hosts are read again after an error of the database.
const ERROR_DELAY: Duration = Duration::from_secs(1);

/// The interval at which versions of modules that could not be loaded are tried again.
const RETRY_INTERVAL: Duration = Duration::from_secs(30);

/// The file with the name of this machine.
const MACHINE_NAME: &str = "/proc/sys/kernel/hostname";

/// Returns a new random id for this process.
///
/// # Errors
/// Returns an error if the operating system provides no randomness.
pub(super) fn new_id() -> Result<String, StartError> {
    let id = secrets::symbols::<20>();
    let id = id.map_err(|e| StartError::new(format!("cannot create the id of this host: {e}")))?;
    Ok(id.to_string())
}

/// Returns the name of this machine, or an empty string if the name cannot be read.
pub(super) fn machine_name() -> String {
    let name = std::fs::read_to_string(MACHINE_NAME).unwrap_or_default();
    name.trim_end().to_owned()
}

/// Returns the values that this host announces to the other hosts through the database.
fn announcement(app: &App) -> Announcement {
    let keys = app.auth.keys();
    let problems = app.module_manager.problems();
    Announcement {
        id: app.host_id.clone(),
        name: app.host_name.clone(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        base_url: app.config.base_url(),
        key_id: keys.current().kid.clone(),
        key_ids: keys.all().iter().map(|key| key.kid.clone()).collect(),
        problem: (!problems.is_empty()).then(|| problems.join("; ")),
    }
}

/// Announces this host every [`ANNOUNCE_INTERVAL`] until the task is aborted.
pub(super) async fn announce(app: Arc<App>) {
    let mut ticks = interval(ANNOUNCE_INTERVAL);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        announce_now(&app).await;
    }
}

/// Announces this host once, and logs a failure.
pub(super) async fn announce_now(app: &App) {
    if let Err(error) = app.directory.hosts.announce(&announcement(app)).await {
        tracing::warn!(%error, "cannot announce this host to the other hosts");
    }
}

/// Announces this host, and returns the events of the other hosts. The modules that this host loads
/// next include all earlier changes.
pub(super) async fn join(app: &App) -> Result<HostEvents, StartError> {
    let hosts = &app.directory.hosts;
    let events = hosts.events().await.map_err(start_error)?;
    hosts.set_own_host(&app.host_id);
    let announced = hosts.announce(&announcement(app)).await;
    announced.map_err(start_error)?;
    if let Err(error) = app.service_keys.register().await {
        // The other hosts must not wait for a host that does not start.
        let removed = hosts.remove(&app.host_id).await;
        removed.map_err(start_error)?;
        return Err(error);
    }
    Ok(events)
}

/// Handles the events of all hosts until the task is aborted.
pub(super) async fn handle_events(app: Arc<App>, mut events: HostEvents) {
    let mut tried = Instant::now();
    let mut modules_changed = false;
    loop {
        match events.next().await {
            Ok(events) => {
                for event in events {
                    match event {
                        // The host that ended the credential also ends the sessions at the mail
                        // server.
                        HostEvent::CredentialEnded(id) => app.mail.connections.close(&id),
                        HostEvent::ModulesChanged => modules_changed = true,
                        HostEvent::KeysChanged => app.service_keys.wake(),
                        HostEvent::MailboxChanged(account) => app.watcher.wake(&account),
                        // The listeners of the mailbox check the grants before they read.
                        HostEvent::GrantsChanged(account) => {
                            app.watcher.wake(&account);
                            app.webhooks.check_grants();
                        }
                    }
                }
            }
            Err(error) => {
                tracing::warn!(%error, "cannot read the events of other hosts");
                app.watcher.wake_all();
                sleep(ERROR_DELAY).await;
            }
        }
        let is_retry =
            tried.elapsed() > RETRY_INTERVAL && !app.module_manager.problems().is_empty();
        if modules_changed || is_retry {
            tried = Instant::now();
            modules_changed = !converge(&app).await;
        }
    }
}

/// Loads the modules that other hosts have changed, stops modules with revoked rights, and
/// announces the result. Returns whether this attempt succeeded.
pub(super) async fn converge(app: &App) -> bool {
    if let Err(error) = app.module_manager.converge(app).await {
        tracing::warn!(%error, "cannot apply changes of modules");
        return false;
    }
    announce_now(app).await;
    true
}
