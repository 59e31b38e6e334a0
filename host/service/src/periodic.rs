//! The tasks that the service repeats while it runs: cleanup, writes that can wait, and the checks
//! of rights that end elsewhere. The jobs of [`crate::jobs`] are not among them.

use std::sync::Arc;
use std::time::Duration;

use latchmail_http::App;
use latchmail_runtime::modules::Failing;
use tokio::sync::mpsc;

/// The interval at which expired data is deleted.
const CLEANUP_INTERVAL: Duration = Duration::from_hours(1);

/// The interval at which the times of last use of credentials are written to the directory.
const WRITE_USES_INTERVAL: Duration = Duration::from_mins(1);

/// The maximum interval between two checks of the sessions that began at the identity provider.
const MAX_RECHECK_INTERVAL: Duration = Duration::from_mins(1);

/// The interval between attempts to end the mail server sessions of revoked credentials.
const END_SESSIONS_INTERVAL: Duration = Duration::from_mins(1);

/// The interval at which the jobs are stored that delete accounts.
const DELETE_ACCOUNTS_INTERVAL: Duration = Duration::from_mins(1);

const DAY: Duration = Duration::from_hours(24);

/// Deletes expired data periodically, starting immediately. Also ends the mail server sessions of
/// expired credentials and updates the milter's keys.
pub(super) async fn clean_up(app: Arc<App>) {
    loop {
        match app.directory.sweep(app.clock.now()).await {
            Ok(ended) => app.mail.connections.end_sessions(&ended).await,
            Err(error) => tracing::error!(%error, "failed to delete expired data"),
        }
        if let Err(error) = app.exports.clean_up().await {
            tracing::error!(%error, "failed to delete the files of old exports");
        }
        app.dkim.clear_cache();
        if let Err(error) = app.dkim.sync_milter().await {
            tracing::error!(%error, "failed to sync milter keys");
        }
        let retention = DAY.saturating_mul(app.config.audit.days.max(1));
        if let Err(error) = app
            .directory
            .events
            .delete_events_before(app.clock.now().minus(retention))
            .await
        {
            tracing::error!(%error, "failed to delete old security events");
        }
        tokio::time::sleep(CLEANUP_INTERVAL).await;
    }
}

/// Writes the times of last use of credentials to the directory periodically.
pub(super) async fn write_uses(app: Arc<App>) {
    loop {
        tokio::time::sleep(WRITE_USES_INTERVAL).await;
        if let Err(error) = app.auth.write_uses().await {
            tracing::error!(%error, "failed to store the times of last use of credentials");
        }
    }
}

/// Logs failing modules, and rolls them back if their policy requires it, while the service runs.
pub(super) async fn run_circuit_breaker(app: Arc<App>, failing: mpsc::UnboundedReceiver<Failing>) {
    app.module_manager.run_circuit_breaker(&*app, failing).await;
}

/// Periodically ends mail server sessions of revoked credentials, starting immediately. This task
/// handles sessions that could not be ended at the revocation.
pub(super) async fn end_sessions(app: Arc<App>) {
    loop {
        if let Err(error) = app.mail.connections.retry_end_sessions().await {
            tracing::warn!(%error, "sessions of revoked credentials may still be open at the mail server");
        }
        tokio::time::sleep(END_SESSIONS_INTERVAL).await;
    }
}

/// Stores the jobs that delete the accounts whose grace period is over, periodically and at the
/// start. The operator's commands plan deletions, too.
pub(super) async fn delete_accounts(app: Arc<App>) {
    loop {
        if let Err(failure) = app.removals.ensure_due().await {
            tracing::error!(?failure, "failed to store the deletions of accounts");
        }
        tokio::time::sleep(DELETE_ACCOUNTS_INTERVAL).await;
    }
}

/// Looks up the users of the mail server periodically, and ends the access of removed users. Does
/// nothing if the mail server verifies no passwords.
pub(super) async fn recheck_users(app: Arc<App>) {
    let sign_in = &app.config.sign_in;
    while sign_in.uses_mail_server() {
        tokio::time::sleep(sign_in.mailserver.recheck).await;
        if let Err(error) = app
            .auth
            .mail_server_accounts
            .recheck_mail_server_users()
            .await
        {
            tracing::error!(%error, "failed to recheck the users of the mail server");
        }
    }
}

/// Periodically checks that the identity provider still accepts the sessions that began there, and
/// ends the other sessions. Does nothing if no user signs in at a provider.
pub(super) async fn recheck_provider_sessions(app: Arc<App>) {
    let sign_in = &app.config.sign_in;
    while sign_in.uses_provider() {
        tokio::time::sleep(sign_in.oidc.recheck.min(MAX_RECHECK_INTERVAL)).await;
        if let Err(error) = app.auth.single_sign_on.recheck_provider_sessions().await {
            tracing::error!(%error, "failed to recheck the sessions of the identity provider");
        }
    }
}
