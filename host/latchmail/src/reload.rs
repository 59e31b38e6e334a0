//! Handles SIGHUP: reads the configuration again and applies the settings that can change while the
//! process runs. Logs the names of other changed keys, but not their values, because a value can be
//! a secret.

use latchmail_core::config::Config;
use latchmail_core::error::StartError;
use latchmail_core::logging::{self, LogFilter};
use latchmail_service::Running;
use sd_notify::NotifyState;

/// The prefixes of the configuration keys that the milter reads.
const MILTER_KEYS: [&str; 4] = ["database.", "dns.", "inbound.", "log."];

/// Reports a state to the service manager. Does nothing without a service manager.
pub(crate) fn notify(states: &[NotifyState<'_>]) {
    if let Err(error) = sd_notify::notify(states) {
        tracing::warn!(%error, "cannot notify the service manager");
    }
}

/// Reloads the settings of the service that can change while it runs: `log.filter`, `limits` and
/// `http.trusted_proxies`. Also applies revoked rights of modules, and reloads the certificate and
/// the key file.
pub(crate) async fn service(running: &Running, log: &LogFilter) {
    running.reload_certificate().await;
    running.reload_keys();
    let started = &running.app.config;
    reload(
        started,
        log,
        |config| running.reload(config),
        |key| match key {
            "log.filter" | "http.trusted_proxies" => {}
            key if key.starts_with("limits.") => {}
            key if key.starts_with("modules.") || key.starts_with("new_modules.") => {
                tracing::info!(
                    key,
                    "a changed key takes effect when the module is changed or enabled, or after a restart; a removed right takes effect now"
                );
            }
            key => tracing::warn!(key, "a changed key takes effect only after a restart"),
        },
    );
    running.apply_revoked_rights().await;
}

/// Reloads the only setting of the milter that can change while it runs: `log.filter`.
pub(crate) fn milter(started: &Config, log: &LogFilter) {
    reload(
        started,
        log,
        |_| Ok(()),
        |key| {
            let is_read = MILTER_KEYS.iter().any(|prefix| key.starts_with(prefix));
            if is_read && key != "log.filter" {
                tracing::warn!(key, "a changed key takes effect only after a restart");
            }
        },
    );
}

/// Reads the configuration file of the started process again. Calls `apply` with the new
/// configuration, and then `report` with each changed key. An invalid configuration changes
/// nothing.
fn reload(
    started: &Config,
    log: &LogFilter,
    apply: impl FnOnce(&Config) -> Result<(), StartError>,
    report: impl Fn(&str),
) {
    match NotifyState::monotonic_usec_now() {
        Ok(now) => notify(&[NotifyState::Reloading, now]),
        Err(error) => tracing::warn!(%error, "cannot read the monotonic clock"),
    }
    let reloaded = Config::load(started.file.as_deref()).and_then(|config| {
        logging::check(&config.log)?;
        apply(&config)?;
        log.replace(&config.log)?;
        Ok(config)
    });
    match reloaded {
        Ok(config) => {
            tracing::info!("reloaded the configuration");
            for key in started.changed_keys(&config) {
                report(&key);
            }
        }
        Err(error) => {
            tracing::error!(%error, "cannot reload the configuration; the previous settings stay in effect");
        }
    }
    notify(&[NotifyState::Ready]);
}
