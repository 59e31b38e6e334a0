//! What was revoked is ended: the service's own connections, and the sessions that mail clients have open.
//!
//! Called after the directory has revoked it, so that nobody logs in with it any more, whatever becomes of this. A session that could
//! not be ended goes on as its client likes: it reads and changes the mailbox, and the mail server asks for no password again until
//! it reconnects. A warning says so, and the directory remembers the app password, so that it is tried again.

use std::sync::{Arc, PoisonError};
use std::time::Duration;

use tokio::time::{sleep, timeout};

use super::doveadm::{self, Doveadm, Sessions};
use super::{Error, Mail};
use crate::clock::{Clock, Timestamp};
use crate::config;
use crate::directory::endings;
use crate::error::StartError;

/// How long after the first time sessions are ended once more. A log-in that was under way at the first time was not to be seen yet,
/// and a log-in takes milliseconds, seconds on a machine with too much to do.
const AGAIN: Duration = Duration::from_secs(5);

/// How long it is tried again.
const REMEMBERED: Duration = Duration::from_hours(24);

/// App passwords that are taken up at once.
const BATCH: i64 = 1000;

/// What a process ends that keeps no connections of its own.
#[derive(Clone, Copy, Debug)]
pub enum Ending<'a> {
    /// What was begun with these app passwords, given by their ids.
    AppPasswords(&'a [String]),
    /// All of the account with this address.
    Account(&'a str),
}

/// Ends sessions at the mail server, now and once more a little later: for who changed the directory from beside the service. Whether it
/// could be asked at all: not where `imap.doveadm` is not configured.
///
/// # Errors
/// A sentence where the mail server could not be told in the end; sessions that are open may go on then.
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
    // What it says the second time counts: that comes after every log-in which was under way.
    if let Err(error) = doveadm.kick(&open).await {
        tracing::debug!(%error, "sessions were not ended the first time");
    }
    sleep(AGAIN).await;
    let told = doveadm.kick(&open).await;
    told.map_err(|error| StartError::new(error.to_string()))?;
    Ok(true)
}

impl Mail {
    /// Ends every connection that was made with these app passwords, given by their ids: they were revoked. Answers when the mail
    /// server has done it, or after two seconds.
    ///
    /// What the service itself has under way with one of them may take a few seconds more: a change that was begun has an end to
    /// tell of.
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

    /// Ends what is open of app passwords that were gone for some seconds and are remembered since: the process died before it was done, or
    /// the mail server did not answer. Forgets those of yesterday. To be called at the start and every minute.
    ///
    /// # Errors
    /// A sentence where the database or the mail server failed; what is left is remembered still.
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

    /// Has `close` called with the id of every credential that is revoked.
    pub(crate) fn on_close(&self, close: impl Fn(&str) + Send + Sync + 'static) {
        let mut others = self.others.lock().unwrap_or_else(PoisonError::into_inner);
        others.push(Box::new(close));
    }

    /// Closes the service's own connections of a credential, given by its id; what is busy closes when it is done.
    pub(crate) fn close(&self, credential: &str) {
        self.pool.close(credential);
        let others = self.others.lock().unwrap_or_else(PoisonError::into_inner);
        for close in others.iter() {
            close(credential);
        }
    }

    /// How many connections of an account the service has.
    #[cfg(test)]
    pub(crate) fn connections(&self, account: &str) -> usize {
        self.pool.connections(account)
    }

    /// Ends some sessions now and those of all these app passwords a little later; then they need not be remembered. Both go on when nobody
    /// waits for it any more.
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
                tracing::warn!(%error, "sessions that were ended will be ended again");
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

/// Whether it was done.
async fn kick(doveadm: &Doveadm, sessions: &[Sessions]) -> bool {
    let told = doveadm.kick(sessions).await;
    if let Err(error) = &told {
        tracing::warn!(
            %error,
            "sessions of what was revoked may still be open at the mail server"
        );
    }
    told.is_ok()
}
