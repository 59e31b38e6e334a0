//! This process as one of the hosts that share a database: announces the host, and handles the events of other hosts.

use std::sync::Arc;

use latchmail_core::error::StartError;
use latchmail_core::secrets;
use latchmail_directory::host_events::{HostEvent, HostEvents};
use latchmail_directory::hosts::{ANNOUNCE_INTERVAL, Announcement};
use latchmail_http::App;
use tokio::time::{MissedTickBehavior, interval, sleep};

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

/// Returns the values that this host announces.
pub(super) fn announcement(app: &App) -> Announcement {
    let keys = app.auth.keys();
    Announcement {
        id: app.host_id.clone(),
        name: app.host_name.clone(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        base_url: app.config.base_url(),
        key_id: keys.current().kid.clone(),
        key_ids: keys.all().map(|key| key.kid.clone()).collect(),
        problem: None,
    }
}

/// Announces this host until the task is aborted.
pub(super) async fn announce(app: Arc<App>) {
    let mut ticks = interval(ANNOUNCE_INTERVAL);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        if let Err(error) = app.directory.announce_host(&announcement(&app)).await {
            tracing::warn!(%error, "cannot announce this host to the other hosts");
        }
    }
}

/// Handles the events of all hosts until the task is aborted.
pub(super) async fn handle_events(app: Arc<App>, mut events: HostEvents) {
    loop {
        match events.next().await {
            Ok(events) => {
                for event in events {
                    handle(&app, event);
                }
            }
            Err(error) => {
                tracing::warn!(%error, "cannot read the events of other hosts");
                sleep(ANNOUNCE_INTERVAL).await;
            }
        }
    }
}

fn handle(app: &App, event: HostEvent) {
    match event {
        // The host that ended the credential also ends the sessions at the mail server.
        HostEvent::CredentialEnded(id) => app.mail.close_connections(&id),
        HostEvent::ModulesChanged => {}
    }
}
