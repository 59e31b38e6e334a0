//! Accounts whose passwords the mail server stores (`sign_in.source = "mailserver"`). The
//! `password_hash` of such an account is empty or a fingerprint. The fingerprint shows whether the
//! password has changed (`latchmail_core::fingerprint`).

use latchmail_core::caller::Origin;
use latchmail_core::clock::Timestamp;

use super::Credentials;
use crate::credentials::{self, AppPasswordKind, password};
use crate::db::{Error, Tx};
use crate::events::{self, Event, Kind};
use crate::{oauth, tokens};

const IS_APP_PASSWORD: &str =
    "SELECT 1 FROM app_passwords WHERE selector = $1 AND secret_hash = $2";
const REPLACE: &str =
    "UPDATE accounts SET password_hash = $3 WHERE id = $1 AND password_hash = $2 AND active";
const CLEAR: &str = "UPDATE accounts SET password_hash = '' WHERE id = $1";
const DELETE_APP_PASSWORDS: &str = "DELETE FROM app_passwords WHERE account_id = $1 RETURNING id";
const COUNTS: &str = "SELECT kind, COUNT(*) FROM app_passwords WHERE account_id = $1 GROUP BY kind";

/// The credentials that [`Credentials::end_access`] ended.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EndedAccess {
    /// The ids of the deleted app passwords.
    pub app_passwords: Vec<String>,
    /// The number of web sessions.
    pub web_sessions: i64,
    /// The number of OAuth grants.
    pub oauth_grants: i64,
    /// The number of API tokens.
    pub api_tokens: u64,
}

impl Credentials {
    /// Returns `true` if an account has the app password with this selector and this hash.
    ///
    /// # Errors
    /// Returns [`Error`] if the database fails.
    pub async fn is_app_password(&self, selector: &str, hash: &str) -> Result<bool, Error> {
        self.db.exists(IS_APP_PASSWORD, (selector, hash)).await
    }

    /// Replaces the password hash or the fingerprint `before` with `after`. Ends no credential.
    /// Returns `false` if a concurrent request changed the value.
    ///
    /// # Errors
    /// Returns [`Error`] if the database fails.
    pub async fn replace_fingerprint(
        &self,
        account_id: &str,
        before: &str,
        after: &str,
    ) -> Result<bool, Error> {
        let replaced = self
            .db
            .execute(REPLACE, (account_id, before, after))
            .await?;
        Ok(replaced == 1)
    }

    /// Replaces the fingerprint `before` with `after`, because the password has changed. Ends the
    /// same credentials as [`Credentials::set_password`].
    ///
    /// Returns the ids of the deleted app passwords. Returns `None` if a concurrent request changed
    /// the fingerprint.
    ///
    /// # Errors
    /// Returns [`Error`] if the database fails. Nothing is changed in that case.
    pub async fn change_fingerprint(
        &self,
        account_id: &str,
        before: &str,
        after: &str,
        now: Timestamp,
        origin: &Origin,
    ) -> Result<Option<Vec<String>>, Error> {
        let mut tx = self.db.begin_locked(account_id).await?;
        let replaced = tx.execute(REPLACE, (account_id, before, after)).await?;
        if replaced == 0 {
            return Ok(None);
        }
        let tokens = tokens::revoke_all(&mut tx, account_id, now).await?;
        let ended = password::end_all(&mut tx, account_id, "").await?;
        let detail = format!(
            "changed at the mail server; {}",
            password::event_detail(ended.len(), tokens)
        );
        let changed = Event::of(Kind::PasswordChanged, account_id, now).detail(&detail);
        events::commit(tx, changed, origin).await?;
        Ok(Some(ended))
    }

    /// Revokes all credentials of an account and clears the fingerprint. The account stays active.
    /// `reason` is part of the audit event. Returns the ids of the deleted app passwords.
    ///
    /// # Errors
    /// Returns [`Error`] if the database fails. Nothing is changed in that case.
    pub async fn revoke_credentials(
        &self,
        account_id: &str,
        reason: &str,
        now: Timestamp,
        origin: &Origin,
    ) -> Result<Vec<String>, Error> {
        let mut tx = self.db.begin_locked(account_id).await?;
        let (ended, tokens) = end_everything(&mut tx, account_id, now).await?;
        tx.execute(CLEAR, [account_id]).await?;
        let detail = format!("{reason}; {}", password::event_detail(ended.len(), tokens));
        let revoked = Event::of(Kind::CredentialsRevoked, account_id, now).detail(&detail);
        events::commit(tx, revoked, origin).await?;
        Ok(ended)
    }

    /// Ends all web sessions, OAuth grants and API tokens of an account. App passwords of mail
    /// clients, and the app password for the members of the mailbox, remain valid.
    ///
    /// # Errors
    /// Returns [`Error`] if the database fails. Nothing is changed in that case.
    pub async fn end_access(
        &self,
        account_id: &str,
        now: Timestamp,
        origin: &Origin,
    ) -> Result<EndedAccess, Error> {
        let mut tx = self.db.begin_locked(account_id).await?;
        let counts: Vec<(String, i64)> = tx.all(COUNTS, [account_id]).await?;
        let count = |kind: AppPasswordKind| {
            let mut counts = counts.iter();
            let found = counts.find(|(name, _)| name == kind.name());
            found.map_or(0, |(_, count)| *count)
        };
        let api_tokens = tokens::revoke_all(&mut tx, account_id, now).await?;
        let ended = EndedAccess {
            app_passwords: password::end_all(&mut tx, account_id, "").await?,
            web_sessions: count(AppPasswordKind::WebSession),
            oauth_grants: count(AppPasswordKind::OAuthGrant),
            api_tokens,
        };
        let detail = password::event_detail(ended.app_passwords.len(), api_tokens);
        let event = Event::of(Kind::SessionsEnded, account_id, now).detail(&detail);
        events::commit(tx, event, origin).await?;
        Ok(ended)
    }
}

/// Deletes all app passwords of an account, revokes its API tokens, and deletes pending approvals
/// of OAuth clients. Deleting the app passwords also ends the sessions and OAuth grants. Returns
/// the ids of the deleted app passwords and the number of revoked tokens. The caller must lock the
/// account first.
pub(crate) async fn end_everything(
    tx: &mut Tx,
    account_id: &str,
    now: Timestamp,
) -> Result<(Vec<String>, u64), Error> {
    let tokens = tokens::revoke_all(tx, account_id, now).await?;
    oauth::delete_approvals(tx, account_id).await?;
    // Because of foreign keys, the database also deletes the session or other credential of each
    // app password.
    let ended = credentials::delete_by(tx, DELETE_APP_PASSWORDS, [account_id]).await?;
    Ok((ended, tokens))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Fresh, NOW, both};

    const LEFT: &str = "SELECT COUNT(*) FROM app_passwords WHERE account_id = 'a'";
    const LIVE_TOKENS: &str =
        "SELECT COUNT(*) FROM api_tokens WHERE account_id = 'a' AND revoked_at IS NULL";

    /// Creates Ada with two sessions, a mail client, a grant, a key of a shared mailbox and a
    /// token, and Bob with a session.
    async fn people(fresh: &Fresh) {
        let directory = &fresh.directory;
        directory.with("a", "ada@example.org", &["s1", "s2"]).await;
        directory.with("b", "bob@example.org", &["s3"]).await;
        fresh
            .execute(
                "INSERT INTO app_passwords (id, account_id, kind, label, selector, secret_hash, created_at) VALUES
                   ('client', 'a', 'app_password', 'Phone', 'x1', 'h1', 5), ('behind', 'a', 'api_token', 'Token', 'x2', 'h', 6),
                   ('grant', 'a', 'oauth_grant', 'Agent', 'x3', 'h', 7), ('key', 'a', 'team_key', 'Team', 'x4', 'h', 8);
                 INSERT INTO api_tokens (id, account_id, label, scopes, selector, secret_hash, hint, app_password_id, sealed_password, created_at) VALUES
                   ('live', 'a', 'Script', 'mail:read', 'y1', 'h', 'abcd', 'behind', 'x', 9)",
            )
            .await;
    }

    async fn hash(fresh: &Fresh) -> String {
        let account = fresh.directory.accounts.active("a").await.unwrap();
        account.unwrap().password_hash
    }

    async fn a_fingerprint_is_replaced_only_if_it_is_the_expected_one(fresh: Fresh) {
        people(&fresh).await;
        let directory = &fresh.directory;
        let before = hash(&fresh).await;
        let replace = async |before: &str, after| {
            directory
                .credentials
                .replace_fingerprint("a", before, after)
                .await
        };
        assert!(!replace("another", "1").await.unwrap());
        assert!(replace(&before, "1").await.unwrap());
        assert_eq!(hash(&fresh).await, "1");
        assert_eq!(fresh.number(LEFT).await, 6);
        let origin = Origin::default();
        let changed = directory
            .credentials
            .change_fingerprint("a", "another", "2", NOW, &origin);
        assert_eq!(changed.await.unwrap(), None);
        assert_eq!(fresh.number(LEFT).await, 6);
        let changed = directory
            .credentials
            .change_fingerprint("a", "1", "2", NOW, &origin);
        assert_eq!(changed.await.unwrap().unwrap().len(), 4);
        assert_eq!(hash(&fresh).await, "2");
        assert_eq!(fresh.number(LEFT).await, 2, "the mail client and the key");
        assert_eq!(fresh.number(LIVE_TOKENS).await, 0);
    }

    async fn revoked_credentials_leave_an_active_account_without_any(fresh: Fresh) {
        people(&fresh).await;
        let directory = &fresh.directory;
        let listed = directory.accounts.with_credentials().await.unwrap();
        let listed: Vec<_> = listed.iter().map(|account| account.id.as_str()).collect();
        assert_eq!(listed, ["a", "b"]);
        let origin = Origin::default();
        let revoked = directory
            .credentials
            .revoke_credentials("a", "removed", NOW, &origin);
        assert_eq!(revoked.await.unwrap().len(), 6);
        assert_eq!(fresh.number(LEFT).await, 0);
        assert_eq!(fresh.number(LIVE_TOKENS).await, 0);
        assert_eq!(hash(&fresh).await, "");
        let listed = directory.accounts.with_credentials().await.unwrap();
        assert_eq!(listed.len(), 1);
        let event = "SELECT COUNT(*) FROM security_events WHERE kind = 'credentials_revoked' AND detail LIKE 'removed; app passwords ended: 6%'";
        assert_eq!(fresh.number(event).await, 1);
    }

    async fn ended_access_is_counted_and_keeps_mail_clients(fresh: Fresh) {
        people(&fresh).await;
        let origin = Origin::operator();
        let ended = fresh
            .directory
            .credentials
            .end_access("a", NOW, &origin)
            .await
            .unwrap();
        assert_eq!(
            (ended.web_sessions, ended.oauth_grants, ended.api_tokens),
            (2, 1, 1)
        );
        assert_eq!(ended.app_passwords.len(), 4);
        assert_eq!(fresh.number(LEFT).await, 2);
        let again = fresh
            .directory
            .credentials
            .end_access("a", NOW, &origin)
            .await
            .unwrap();
        assert_eq!(again, EndedAccess::default());
    }

    async fn an_app_password_is_found_by_selector_and_hash(fresh: Fresh) {
        people(&fresh).await;
        let found = async |selector, hash| {
            fresh
                .directory
                .credentials
                .is_app_password(selector, hash)
                .await
        };
        assert!(found("x1", "h1").await.unwrap());
        assert!(!found("x1", "h").await.unwrap());
        assert!(!found("x9", "h1").await.unwrap());
    }

    both!(
        a_fingerprint_is_replaced_only_if_it_is_the_expected_one,
        revoked_credentials_leave_an_active_account_without_any,
        ended_access_is_counted_and_keeps_mail_clients,
        an_app_password_is_found_by_selector_and_hash,
    );
}
