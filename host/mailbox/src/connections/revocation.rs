//! Closes connections of revoked credentials: the service's own connections, and the sessions of
//! mail clients at the mail server.
//!
//! The credential has already been revoked in the database. Therefore no new log-in succeeds, even
//! if this module fails. The mail server checks the password only at log-in, so an open session
//! stays open until its client closes the session. If a session cannot be ended, a warning is
//! logged. The database stores the app password in a list of app passwords whose sessions must end,
//! so that the service can make another attempt.

use std::sync::{Arc, PoisonError};
use std::time::Duration;

use latchmail_core::clock::{Clock, Timestamp};
use latchmail_core::config::{self, Config, SessionNames};
use latchmail_core::error::StartError;
use latchmail_core::traces::in_request;
use tokio::time::{sleep, timeout};

use super::Connections;
use super::doveadm::{self, Doveadm, SessionMask};
use crate::error::Error;

/// Delay before the second attempt to end sessions. The first attempt can miss a session during its
/// log-in. A log-in needs milliseconds, or seconds on an overloaded machine.
const SECOND_ATTEMPT: Duration = Duration::from_secs(5);

/// The time after a revocation during which the service repeats failed attempts.
const RETRY_PERIOD: Duration = Duration::from_hours(24);

/// Maximum number of app passwords in one attempt to end sessions.
const BATCH: i64 = 1000;

/// The sessions to end.
#[derive(Clone, Copy, Debug)]
pub enum SessionSelector<'a> {
    /// The sessions of the app passwords with these ids.
    AppPasswords(&'a [String]),
    /// All sessions of the account with this address.
    Account(&'a str),
}

/// Ends sessions at the mail server, and makes a second attempt after five seconds. Commands that
/// change the database outside the running service use this function. Returns `false` if
/// `imap.doveadm` is not configured, otherwise `true`. If `imap.session_names` is `user`, this
/// function cannot select the sessions of single app passwords, and ends only the sessions of an
/// account.
///
/// # Errors
/// Returns an error if the second attempt failed. In that case, some sessions might still be open.
pub async fn end_server_sessions(
    config: &Config,
    selector: SessionSelector<'_>,
) -> Result<bool, StartError> {
    let Some(doveadm) = Doveadm::new(&config.imap)? else {
        return Ok(false);
    };
    let masks: Vec<SessionMask> = match (selector, config.imap.session_names) {
        (SessionSelector::AppPasswords(ids), SessionNames::AppPassword) => app_password_masks(ids),
        // The commands of the operator revoke single app passwords only if the service itself uses
        // these app passwords. The service closes its own connections.
        (SessionSelector::AppPasswords(_), SessionNames::User) => Vec::new(),
        (SessionSelector::Account(address), SessionNames::AppPassword) => {
            SessionMask::account(address).into_iter().collect()
        }
        (SessionSelector::Account(address), SessionNames::User) => {
            user_masks(&config.sign_in, address)
        }
    };
    if masks.is_empty() {
        return Ok(true);
    }
    // Only the second result counts. The second attempt also ends sessions whose log-in was in
    // progress at the first attempt.
    if let Err(error) = doveadm.kick(&masks).await {
        tracing::debug!(%error, "first attempt to end sessions failed");
    }
    sleep(SECOND_ATTEMPT).await;
    let result = doveadm.kick(&masks).await;
    result.map_err(|error| StartError::new(error.to_string()))?;
    Ok(true)
}

impl Connections {
    /// Ends all connections of the revoked app passwords with these ids. Returns when the mail
    /// server has ended the connections, or after two seconds.
    ///
    /// A connection with a running command can stay open for a few more seconds, because a change
    /// that has started must report its outcome.
    pub async fn end_sessions(&self, app_passwords: &[String]) {
        for id in app_passwords {
            self.close(id);
        }
        if self.session_names == SessionNames::User {
            return;
        }
        let idle = app_passwords.iter().filter(|id| !self.pool.is_busy(id));
        let masks = idle
            .filter_map(|id| SessionMask::app_password(id))
            .collect();
        self.end_twice(masks, app_passwords).await;
    }

    /// Ends all sessions of the user with this address at the mail server if `imap.session_names`
    /// is `user`. Otherwise does nothing. Returns when the mail server has ended the sessions, or
    /// after two seconds. Makes a second attempt after the delay `SECOND_ATTEMPT`.
    pub async fn end_user_sessions(&self, address: &str) {
        let Some(doveadm) = self.doveadm.clone() else {
            return;
        };
        if self.session_names != SessionNames::User {
            return;
        }
        let masks = user_masks(&self.sign_in, address);
        let (first, again) = ((Arc::clone(&doveadm), masks.clone()), (doveadm, masks));
        let first = tokio::spawn(in_request(async move { kick(&first.0, &first.1).await }));
        tokio::spawn(in_request(async move {
            sleep(SECOND_ATTEMPT).await;
            kick(&again.0, &again.1).await
        }));
        let _ = timeout(doveadm::TIMEOUT, first).await;
    }

    /// Ends the remaining sessions of app passwords that were revoked at least five seconds ago.
    /// Sessions can remain if the service stopped or the mail server did not respond. Makes no
    /// attempt later than 24 hours after the revocation. The service must call this function at its
    /// start and every minute.
    ///
    /// # Errors
    /// Returns an error if the database or the mail server failed. The next call processes the
    /// remaining app passwords.
    pub async fn retry_end_sessions(&self) -> Result<(), Error> {
        let now = Clock::system().now();
        loop {
            let revoked = self
                .directory
                .credentials
                .ended_by(now.minus(SECOND_ATTEMPT), BATCH)
                .await?;
            let count = revoked.len();
            let (recent, expired): (Vec<_>, Vec<_>) = revoked
                .into_iter()
                .partition(|(_, at)| *at > now.minus(RETRY_PERIOD));
            let ids = |revoked: Vec<(String, Timestamp)>| -> Vec<String> {
                revoked.into_iter().map(|(id, _)| id).collect()
            };
            self.directory
                .credentials
                .forget_ended(&ids(expired))
                .await?;
            let by_app_password = self.session_names == SessionNames::AppPassword;
            let Some(doveadm) = self.doveadm.as_ref().filter(|_| by_app_password) else {
                return Ok(());
            };
            let recent = ids(recent);
            let result = doveadm.kick(&app_password_masks(&recent)).await;
            result.map_err(|error| Error::Unavailable(error.to_string()))?;
            self.directory.credentials.forget_ended(&recent).await?;
            if count < usize::try_from(BATCH).unwrap_or(usize::MAX) {
                return Ok(());
            }
        }
    }

    /// Registers a callback that receives the id of every revoked credential.
    pub(crate) fn on_close(&self, callback: impl Fn(&str) + Send + Sync + 'static) {
        let callbacks = self.close_callbacks.lock();
        let mut callbacks = callbacks.unwrap_or_else(PoisonError::into_inner);
        callbacks.push(Box::new(callback));
    }

    /// Closes the service's own connections of the credential with this id, and stops the responses
    /// that are being sent to its clients. A busy connection closes after its current use.
    pub fn close(&self, credential: &str) {
        self.ended.end(credential);
        self.pool.close(credential);
        let callbacks = self.close_callbacks.lock();
        let callbacks = callbacks.unwrap_or_else(PoisonError::into_inner);
        for callback in callbacks.iter() {
            callback(credential);
        }
    }

    /// Returns the number of the service's connections of an account.
    #[cfg(any(test, feature = "testing"))]
    pub fn count_of(&self, account: &str) -> usize {
        self.pool.connections(account)
    }

    /// Ends the sessions that `masks` selects. After the delay `SECOND_ATTEMPT`, ends the sessions
    /// of all `app_passwords` and removes these app passwords from the database's list of app
    /// passwords whose sessions must end. The attempts continue if the caller is dropped.
    async fn end_twice(&self, masks: Vec<SessionMask>, app_passwords: &[String]) {
        let Some(doveadm) = self.doveadm.clone().filter(|_| !app_passwords.is_empty()) else {
            return;
        };
        let first = {
            let doveadm = Arc::clone(&doveadm);
            tokio::spawn(in_request(async move { kick(&doveadm, &masks).await }))
        };
        let (app_passwords, credentials) =
            (app_passwords.to_vec(), self.directory.credentials.clone());
        tokio::spawn(in_request(async move {
            sleep(SECOND_ATTEMPT).await;
            if kick(&doveadm, &app_password_masks(&app_passwords)).await
                && let Err(error) = credentials.forget_ended(&app_passwords).await
            {
                tracing::warn!(%error, "failed to record that sessions were ended; they will be ended again");
            }
        }));
        let _ = timeout(doveadm::TIMEOUT, first).await;
    }
}

fn app_password_masks(ids: &[String]) -> Vec<SessionMask> {
    ids.iter()
        .filter_map(|id| SessionMask::app_password(id))
        .collect()
}

/// Returns masks for the user names that the sessions of a user can have. For an address on the
/// default domain, the user name can be with or without the domain.
fn user_masks(sign_in: &config::SignIn, address: &str) -> Vec<SessionMask> {
    let mut names = vec![address, sign_in.login_name(address)];
    names.dedup();
    names.into_iter().filter_map(SessionMask::user).collect()
}

/// Ends sessions and logs a failure. Returns `true` on success.
async fn kick(doveadm: &Doveadm, masks: &[SessionMask]) -> bool {
    let result = doveadm.kick(masks).await;
    if let Err(error) = &result {
        tracing::warn!(
            %error,
            "sessions of revoked credentials may still be open at the mail server"
        );
    }
    result.is_ok()
}
