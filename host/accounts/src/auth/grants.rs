//! The owner's control over the credentials of programs: API tokens and OAuth grants. The owner
//! lists, suspends, resumes and ends them.
//!
//! A suspended grant is refused with 403 and not with 401, because a client that gets 401 discards
//! its tokens and asks the owner to sign in again.

use std::sync::Arc;

use latchmail_core::caller::{Origin, Scope};
use latchmail_core::clock::{Clock, Timestamp};
use latchmail_core::detached_tasks::DetachedTasks;
use latchmail_core::error::Failure;
use latchmail_core::policy::Policy;
use latchmail_directory::Directory;
use latchmail_directory::grants::{self, Suspension};
use latchmail_directory::tokens::Revocation;

use super::account::{Session, session_over};
use super::oauth_tokens::{Count, IssuedToken, OAuthTokens};
use super::uses::Uses;
use crate::mail_server::MailServer;

/// A grant in the list of its owner.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Grant {
    /// An opaque id.
    pub id: String,
    /// The id of the client of an OAuth grant, or `None` for an API token.
    pub client_id: Option<String>,
    /// The name of the client, or the label of the API token.
    pub name: String,
    /// The scopes, in canonical order.
    pub scopes: Vec<Scope>,
    /// The time of creation.
    pub created_at: Timestamp,
    /// The time of the last use, to the minute, or `None` if the grant was never used.
    pub last_used_at: Option<Timestamp>,
    /// The time at which the grant expires or expired, or `None` if the grant does not expire.
    pub expires_at: Option<Timestamp>,
    /// The time of the suspension, or `None` if the grant is not suspended.
    pub suspended_at: Option<Timestamp>,
    /// The policy, or `None` if only the scopes limit the grant.
    pub policy: Option<Policy>,
}

/// The grants of all accounts.
#[derive(Debug)]
pub struct Grants {
    pub(super) directory: Directory,
    pub(super) mail_server: Arc<dyn MailServer>,
    pub(super) clock: Clock,
    pub(super) tasks: DetachedTasks,
    pub(super) uses: Arc<Uses>,
    pub(super) oauth_tokens: Arc<OAuthTokens>,
}

impl Grants {
    /// Returns the grants of an account, newest first. Includes expired API tokens.
    ///
    /// # Errors
    /// Returns 500 for an internal error.
    pub async fn list(&self, account: &str) -> Result<Vec<Grant>, Failure> {
        let grants = self.directory.grants.list(account, self.clock.now());
        let grants = grants.await?.into_iter();
        Ok(grants.map(|grant| self.listed(grant)).collect())
    }

    fn listed(&self, grant: grants::Grant) -> Grant {
        let noted = grant.app_password_id.as_deref();
        let noted = noted.and_then(|id| self.uses.latest(id));
        let (name, scopes) = match &grant.client_id {
            Some(client) => {
                let name = client_name(&grant.label, client).to_owned();
                (
                    name,
                    self.oauth_tokens.effective_scopes(client, &grant.scopes),
                )
            }
            None => (grant.label, Scope::read_list(&grant.scopes)),
        };
        Grant {
            id: grant.id,
            client_id: grant.client_id,
            name,
            scopes,
            created_at: grant.created_at,
            last_used_at: grant.last_used_at.max(noted),
            expires_at: grant.expires_at,
            suspended_at: grant.suspended_at,
            policy: grant.policy,
        }
    }

    /// Ends a grant of an account. Returns `false` if the account has no such grant.
    ///
    /// # Errors
    /// Returns 500 for an internal error. On error, nothing is changed.
    pub async fn end(&self, account: &str, id: &str, origin: Origin) -> Result<bool, Failure> {
        let (directory, mail_server) = (self.directory.clone(), Arc::clone(&self.mail_server));
        let (account, id) = (account.to_owned(), id.to_owned());
        let now = self.clock.now();
        let end = async move {
            let grants = directory.grants.list(&account, now).await?;
            let Some(grant) = grants.into_iter().find(|grant| grant.id == id) else {
                return Ok(false);
            };
            let app_password = grant.app_password_id;
            let ended = match (&grant.client_id, &app_password) {
                (Some(_), Some(app_password)) => {
                    let ended = directory
                        .oauth
                        .end_grant(&account, app_password, now, &origin);
                    ended.await?
                }
                (Some(_), None) => false,
                (None, _) => {
                    let revoked = directory.tokens.revoke(&account, &id, now, &origin);
                    matches!(revoked.await?, Revocation::Revoked { .. })
                }
            };
            if ended && let Some(app_password) = app_password {
                mail_server.end_sessions(&[app_password]).await;
            }
            Ok(ended)
        };
        self.tasks.complete(end).await
    }

    /// Suspends a grant of the session's account, or resumes a suspended grant. Returns `false` if
    /// the account has no such grant. All hosts close the connections and the running responses of
    /// a suspended grant.
    ///
    /// # Errors
    /// Returns 401 if the session ended concurrently, or 500 for an internal error. On error,
    /// nothing is changed.
    pub async fn set_suspended(
        &self,
        session: Session<'_>,
        id: &str,
        suspended: bool,
        origin: Origin,
    ) -> Result<bool, Failure> {
        let (directory, mail_server) = (self.directory.clone(), Arc::clone(&self.mail_server));
        let (account, sid, id) = (
            session.account.to_owned(),
            session.sid.to_owned(),
            id.to_owned(),
        );
        let now = self.clock.now();
        let change = async move {
            let session = Session {
                account: &account,
                sid: &sid,
            };
            let changed =
                directory
                    .grants
                    .set_suspended(session.asking(now), &id, suspended, &origin);
            match changed.await? {
                Suspension::Done { app_password_id } if suspended => {
                    mail_server.end_sessions(&[app_password_id]).await;
                    Ok(true)
                }
                Suspension::Done { .. } => Ok(true),
                Suspension::Unknown => Ok(false),
                Suspension::SessionOver => Err(session_over()),
            }
        };
        self.tasks.complete(change).await
    }

    /// Suspends a grant of an account for the operator, or resumes it, like
    /// [`Self::set_suspended`]. Returns `false` if the account has no such grant.
    ///
    /// # Errors
    /// Returns 500 for an internal error. On error, nothing is changed.
    pub async fn set_suspended_by_operator(
        &self,
        account: &str,
        id: &str,
        suspended: bool,
        origin: Origin,
    ) -> Result<bool, Failure> {
        let (directory, mail_server) = (self.directory.clone(), Arc::clone(&self.mail_server));
        let (account, id, now) = (account.to_owned(), id.to_owned(), self.clock.now());
        let change = async move {
            let grants = &directory.grants;
            let changed = grants.set_suspended_by_operator(&account, &id, suspended, now, &origin);
            let Suspension::Done { app_password_id } = changed.await? else {
                return Ok(false);
            };
            if suspended {
                mail_server.end_sessions(&[app_password_id]).await;
            }
            Ok(true)
        };
        self.tasks.complete(change).await
    }
}

impl Grants {
    /// Returns a grant of an account. Returns `None` if the account has no such grant.
    ///
    /// # Errors
    /// Returns 500 for an internal error.
    pub async fn find(&self, account: &str, id: &str) -> Result<Option<Grant>, Failure> {
        let grants = self.list(account).await?;
        Ok(grants.into_iter().find(|grant| grant.id == id))
    }

    /// Sets the policy of a grant of the session's account. Returns `false` if the account has no
    /// such grant. Requests that begin later follow the new policy.
    ///
    /// # Errors
    /// Returns 400 if the policy is invalid. Returns 401 if the session ended concurrently, or 500
    /// for an internal error. On error, nothing is changed.
    pub async fn set_policy(
        &self,
        session: Session<'_>,
        id: &str,
        policy: Policy,
        origin: Origin,
    ) -> Result<bool, Failure> {
        let policy = policy.checked();
        let policy = policy.map_err(|problem| Failure::invalid(problem.code, problem.text))?;
        let grants = &self.directory.grants;
        let changed = grants.set_policy(session.asking(self.clock.now()), id, &policy, &origin);
        match changed.await? {
            Suspension::Done { .. } => Ok(true),
            Suspension::Unknown => Ok(false),
            Suspension::SessionOver => Err(session_over()),
        }
    }
}

impl OAuthTokens {
    /// Ends the grant of a token that its client revokes (RFC 7009). The token is an access token
    /// or a refresh token, used or unused. The result is `None` if the token is unknown or expired,
    /// and `Some(false)` if the token was issued to another client. `count` counts the request
    /// towards the rate limit of the grant, before any change.
    ///
    /// # Errors
    /// Returns the error of `count` if `count` fails. Returns 500 for an internal error. On error,
    /// nothing is changed.
    pub async fn revoke(
        &self,
        token: &IssuedToken,
        is_refresh_token: bool,
        client_id: &str,
        count: Count<'_>,
        origin: &Origin,
    ) -> Result<Option<bool>, Failure> {
        let now = self.clock.now();
        let oauth = &self.directory.oauth;
        let found = if is_refresh_token {
            oauth.refresh_token(token.hash(), now).await?
        } else {
            oauth.access_token(token.hash(), now).await?
        };
        let Some(found) = found else {
            return Ok(None);
        };
        let grant = found.grant;
        if grant.client_id != client_id {
            return Ok(Some(false));
        }
        count(&grant.id).await?;
        let origin = Origin {
            actor: grant.address.clone(),
            credential: Some(grant.app_password_id.clone()),
            ..origin.clone()
        };
        let (oauth, mail_server) = (oauth.clone(), Arc::clone(&self.mail_server));
        let end = async move {
            let app_password = grant.app_password_id;
            oauth
                .end_grant(&grant.account_id, &app_password, now, &origin)
                .await?;
            mail_server.end_sessions(&[app_password]).await;
            Ok(Some(true))
        };
        self.tasks.complete(end).await
    }
}

/// Returns the name of a client. The label of an OAuth grant is the client's name with its id in
/// parentheses, or only the id.
fn client_name<'a>(label: &'a str, client: &str) -> &'a str {
    let name = label
        .strip_suffix(')')
        .and_then(|label| label.strip_suffix(client));
    name.and_then(|label| label.strip_suffix(" ("))
        .unwrap_or(label)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_of_a_client_is_the_label_without_the_id() {
        assert_eq!(client_name("Agent (c1)", "c1"), "Agent");
        assert_eq!(client_name("Agent (2) (c1)", "c1"), "Agent (2)");
        assert_eq!(client_name("c1", "c1"), "c1");
    }
}
