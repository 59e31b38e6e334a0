//! Supervises web sessions that began at the identity provider. These sessions have a maximum age.
//! If the provider issued a refresh token for a session, the service uses the refresh token
//! periodically. If the provider refuses the refresh token, the service ends the session.
//!
//! While the provider is unreachable, sessions continue until their maximum age.

use std::sync::Arc;

use latchmail_core::caller::Origin;
use latchmail_core::clock::Timestamp;
use latchmail_core::error::Failure;
use latchmail_core::sealing::Purpose;
use latchmail_directory::single_sign_on::DueSession;
use latchmail_oidc::{Error, Provider};

use super::single_sign_on::SingleSignOn;

/// The number of sessions that one query returns.
const PAGE: i64 = 100;

impl SingleSignOn {
    /// Ends sessions that began at the identity provider and exceed the maximum age. Uses the
    /// provider's refresh tokens of the other sessions if the recheck interval has passed. Ends a
    /// session if the provider refuses its refresh token. Does nothing if no identity provider is
    /// configured.
    ///
    /// # Errors
    /// Returns 500 if the database fails.
    pub async fn recheck_provider_sessions(&self) -> Result<(), Failure> {
        let Some(provider) = &self.provider else {
            return Ok(());
        };
        let begun_until = self.clock.now().minus(self.sessions.provider_max_age);
        let directory = self.directory.clone();
        self.end_provider_sessions(move |now| async move {
            let origin = Origin::service();
            Ok(directory
                .single_sign_on
                .end_old_provider_sessions(begun_until, now, &origin)
                .await?)
        })
        .await?;
        let used_until = self.clock.now().minus(self.recheck);
        loop {
            let now = self.clock.now();
            let due = self
                .directory
                .single_sign_on
                .due_provider_sessions(used_until, now, PAGE)
                .await?;
            for session in &due {
                let claimed = self
                    .directory
                    .single_sign_on
                    .claim_provider_session(&session.sid, used_until, now)
                    .await?;
                if claimed
                    && let Err(why) = self.recheck_provider_session(provider, session).await?
                {
                    tracing::warn!(
                        why,
                        "failed to recheck web sessions at the identity provider; the web sessions continue"
                    );
                    return Ok(());
                }
            }
            if i64::try_from(due.len()).unwrap_or(i64::MAX) < PAGE {
                return Ok(());
            }
        }
    }

    /// Uses the refresh token of a session. The inner error is the reason why the provider could
    /// not be queried.
    async fn recheck_provider_session(
        &self,
        provider: &Provider,
        session: &DueSession,
    ) -> Result<Result<(), String>, Failure> {
        let DueSession {
            sid,
            sealed_provider_token: sealed,
        } = session;
        let Some(token) = self.keys.open(Purpose::ProviderToken, sid, sealed) else {
            // A session whose refresh token cannot be decrypted continues until its maximum age.
            return Ok(Ok(()));
        };
        match provider.refresh_sign_in(&token).await {
            Ok(None) => {}
            Ok(Some(next)) => {
                let sealed = self.keys.seal(Purpose::ProviderToken, sid, &next)?;
                self.directory
                    .single_sign_on
                    .set_provider_token(sid, &sealed)
                    .await?;
            }
            Err(Error::Rejected(why)) => {
                tracing::info!(why, "the identity provider ended a sign-in");
                let (directory, sid) = (self.directory.clone(), sid.clone());
                self.end_provider_sessions(move |now| async move {
                    let origin = Origin::service();
                    Ok(directory
                        .single_sign_on
                        .end_refused_provider_session(&sid, now, &origin)
                        .await?)
                })
                .await?;
            }
            Err(Error::Unavailable(why)) => return Ok(Err(why)),
        }
        Ok(Ok(()))
    }

    /// Calls `end`, which ends sessions in the directory and returns the ids of their app
    /// passwords. Then ends the mail server sessions of these app passwords.
    async fn end_provider_sessions<F>(
        &self,
        end: impl FnOnce(Timestamp) -> F,
    ) -> Result<(), Failure>
    where
        F: Future<Output = Result<Vec<String>, Failure>> + Send + 'static,
    {
        let mail_server = Arc::clone(&self.mail_server);
        let end = end(self.clock.now());
        self.tasks
            .complete(async move {
                let ended = end.await?;
                if !ended.is_empty() {
                    mail_server.end_sessions(&ended).await;
                }
                Ok(())
            })
            .await
    }
}
