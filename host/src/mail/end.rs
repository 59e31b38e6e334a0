//! What was revoked is ended: the service's own connections, and the sessions that mail clients have open.
//!
//! Called after the directory has revoked it, so that nobody logs in with it any more, whatever becomes of this. A session that could
//! not be ended goes on as its client likes: it reads and changes the mailbox, and the mail server asks for no password again until
//! it reconnects. A warning says so.

use std::sync::{Arc, PoisonError};
use std::time::Duration;

use tokio::time::{sleep, timeout};

use super::Mail;
use super::doveadm::{self, Doveadm, Sessions};
use crate::config;
use crate::error::StartError;

/// How long after the first time sessions are ended once more. A log-in that was under way at the first time was not to be seen yet,
/// and a log-in takes milliseconds, seconds on a machine with too much to do.
const AGAIN: Duration = Duration::from_secs(5);

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
        Ending::AppPasswords(ids) => {
            let sessions = ids.iter().filter_map(|id| Sessions::of_app_password(id));
            sessions.collect()
        }
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
        let sessions = |id: &String| Sessions::of_app_password(id);
        let idle = app_passwords.iter().filter(|id| !self.pool.is_busy(id));
        self.kick(
            idle.filter_map(sessions).collect(),
            app_passwords.iter().filter_map(sessions).collect(),
        )
        .await;
    }

    /// Has `close` called with the id of every app password that is revoked.
    pub(crate) fn on_close(&self, close: impl Fn(&str) + Send + Sync + 'static) {
        let mut others = self.others.lock().unwrap_or_else(PoisonError::into_inner);
        others.push(Box::new(close));
    }

    /// Closes the service's own connections; what is busy closes when it is done.
    fn close(&self, app_password: &str) {
        self.pool.close(app_password);
        let others = self.others.lock().unwrap_or_else(PoisonError::into_inner);
        for close in others.iter() {
            close(app_password);
        }
    }

    /// How many connections of an account the service has.
    #[cfg(test)]
    pub(crate) fn connections(&self, account: &str) -> usize {
        self.pool.connections(account)
    }

    /// Ends some sessions now and all of them a little later. Both go on when nobody waits for it any more.
    async fn kick(&self, now: Vec<Sessions>, later: Vec<Sessions>) {
        let Some(doveadm) = self.doveadm.clone().filter(|_| !later.is_empty()) else {
            return;
        };
        let first = tokio::spawn(kick(Arc::clone(&doveadm), now));
        tokio::spawn(async move {
            sleep(AGAIN).await;
            kick(doveadm, later).await;
        });
        let _ = timeout(doveadm::PATIENCE, first).await;
    }
}

async fn kick(doveadm: Arc<Doveadm>, sessions: Vec<Sessions>) {
    if let Err(error) = doveadm.kick(&sessions).await {
        tracing::warn!(
            %error,
            "sessions of what was revoked may still be open at the mail server"
        );
    }
}
