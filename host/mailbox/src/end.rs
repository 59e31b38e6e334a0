//! Ends the connections of revoked credentials: the service's own connections, and the sessions that mail clients have open at the mail server.
//!
//! The directory has already revoked the credential, so no new log-in succeeds, even if this fails. A session that could not be ended stays open until its
//! client closes it, because the mail server checks the password only at log-in. In that case a warning is logged and the directory keeps the app password for
//! another attempt.

use std::sync::{Arc, PoisonError};
use std::time::Duration;

use latchmail_core::clock::{Clock, Timestamp};
use latchmail_core::config;
use latchmail_core::error::StartError;
use latchmail_directory::endings;
use tokio::time::{sleep, timeout};

use super::doveadm::{self, Doveadm, Sessions};
use super::{Error, Mail};

/// Delay before sessions are ended a second time. The first time can miss a log-in in progress. A log-in takes milliseconds, or seconds on an overloaded
/// machine.
const AGAIN: Duration = Duration::from_secs(5);

/// How long failed attempts are repeated.
const REMEMBERED: Duration = Duration::from_hours(24);

/// Maximum number of app passwords per attempt.
const BATCH: i64 = 1000;

/// The sessions to end, for a process without connections of its own.
#[derive(Clone, Copy, Debug)]
pub enum Ending<'a> {
    /// The sessions of the app passwords with these ids.
    AppPasswords(&'a [String]),
    /// All sessions of the account with this address.
    Account(&'a str),
}

/// Ends sessions at the mail server twice: now and `AGAIN` later. For commands that change the directory outside the running service. Returns `false` if
/// `imap.doveadm` is not configured.
///
/// # Errors
/// Returns an error if the second attempt failed. Sessions may still be open in that case.
pub async fn end_at_mail_server(
    config: &config::Imap,
    ending: Ending<'_>,
) -> Result<bool, StartError> {
    let Some(doveadm) = Doveadm::new(config)? else {
        return Ok(false);
    };
    let open: Vec<Sessions> = match ending {
        Ending::AppPasswords(ids) => sessions(ids),
        Ending::Account(address) => Sessions::of_account(address).into_iter().collect(),
    };
    if open.is_empty() {
        return Ok(true);
    }
    // Only the second result counts, because the second attempt runs after all log-ins that were in progress.
    if let Err(error) = doveadm.kick(&open).await {
        tracing::debug!(%error, "first attempt to end sessions failed");
    }
    sleep(AGAIN).await;
    let told = doveadm.kick(&open).await;
    told.map_err(|error| StartError::new(error.to_string()))?;
    Ok(true)
}

impl Mail {
    /// Ends all connections of revoked app passwords, given by their ids. Returns when the mail server has ended them, or after two seconds.
    ///
    /// The service's own commands in progress may take a few seconds longer, because a change that has started must report its outcome.
    pub async fn end(&self, app_passwords: &[String]) {
        for id in app_passwords {
            self.close(id);
        }
        let idle = app_passwords.iter().filter(|id| !self.pool.is_busy(id));
        let now = idle
            .filter_map(|id| Sessions::of_app_password(id))
            .collect();
        self.kick(now, app_passwords).await;
    }

    /// Ends the remaining sessions of app passwords that were revoked at least `AGAIN` ago: the process ended or the mail server did not respond. Forgets app
    /// passwords after `REMEMBERED`. Call this at the start and every minute.
    ///
    /// # Errors
    /// Returns an error if the database or the mail server failed. The remaining app passwords are kept for the next call.
    pub async fn end_again(&self) -> Result<(), Error> {
        let now = Clock::system().now();
        loop {
            let ended = endings::ended_by(&self.db, now.minus(AGAIN), BATCH).await?;
            let all = ended.len();
            let (recent, old): (Vec<_>, Vec<_>) = ended
                .into_iter()
                .partition(|(_, at)| *at > now.minus(REMEMBERED));
            let ids = |ended: Vec<(String, Timestamp)>| -> Vec<String> {
                ended.into_iter().map(|(id, _)| id).collect()
            };
            endings::forget_ended(&self.db, &ids(old)).await?;
            let Some(doveadm) = &self.doveadm else {
                return Ok(());
            };
            let recent = ids(recent);
            let told = doveadm.kick(&sessions(&recent)).await;
            told.map_err(|error| Error::Unavailable(error.to_string()))?;
            endings::forget_ended(&self.db, &recent).await?;
            if all < usize::try_from(BATCH).unwrap_or(usize::MAX) {
                return Ok(());
            }
        }
    }

    /// Registers a callback that receives the id of every revoked credential.
    pub(crate) fn on_close(&self, close: impl Fn(&str) + Send + Sync + 'static) {
        let mut others = self.others.lock().unwrap_or_else(PoisonError::into_inner);
        others.push(Box::new(close));
    }

    /// Closes the service's own connections of a credential, given by its id. Busy connections close after their current use.
    pub fn close(&self, credential: &str) {
        self.pool.close(credential);
        let others = self.others.lock().unwrap_or_else(PoisonError::into_inner);
        for close in others.iter() {
            close(credential);
        }
    }

    /// Returns the number of the service's connections of an account.
    #[cfg(any(test, feature = "testing"))]
    pub fn connections(&self, account: &str) -> usize {
        self.pool.connections(account)
    }

    /// Ends the sessions in `now`, and later those of all `app_passwords`, which are then removed from the directory's list. Both continue if the caller is
    /// dropped.
    async fn kick(&self, now: Vec<Sessions>, app_passwords: &[String]) {
        let Some(doveadm) = self.doveadm.clone().filter(|_| !app_passwords.is_empty()) else {
            return;
        };
        let first = {
            let doveadm = Arc::clone(&doveadm);
            tokio::spawn(async move { kick(&doveadm, &now).await })
        };
        let (later, db) = (app_passwords.to_vec(), self.db.clone());
        tokio::spawn(async move {
            sleep(AGAIN).await;
            if kick(&doveadm, &sessions(&later)).await
                && let Err(error) = endings::forget_ended(&db, &later).await
            {
                tracing::warn!(%error, "failed to record ended sessions; ending them will be repeated");
            }
        });
        let _ = timeout(doveadm::PATIENCE, first).await;
    }
}

fn sessions(app_passwords: &[String]) -> Vec<Sessions> {
    let sessions = app_passwords.iter();
    sessions
        .filter_map(|id| Sessions::of_app_password(id))
        .collect()
}

/// Returns `true` on success.
async fn kick(doveadm: &Doveadm, sessions: &[Sessions]) -> bool {
    let told = doveadm.kick(sessions).await;
    if let Err(error) = &told {
        tracing::warn!(
            %error,
            "sessions of revoked credentials may still be open at the mail server"
        );
    }
    told.is_ok()
}
