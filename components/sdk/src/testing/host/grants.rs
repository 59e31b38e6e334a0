//! Grants of the fake host: OAuth grants that a test adds, and the API tokens of the account.

use super::{Account, FakeHost};
use crate::capability::{AccountGrant, Error, GrantPolicy, Timestamp, Token};

/// Adds a grant of the signed-in account, for example an OAuth grant. API tokens are grants without
/// this function.
#[track_caller]
pub fn put_grant(host: &FakeHost, grant: AccountGrant) {
    host.with_account(|account| account.oauth_grants.push(grant));
}

/// Sets the policy of a grant of the signed-in account, as a JSON object.
#[track_caller]
pub fn set_grant_policy(host: &FakeHost, grant: &str, policy: &str) {
    host.with_account(|account| {
        account.grant_policies.push(GrantPolicy {
            grant: grant.to_owned(),
            policy: policy.to_owned(),
        });
    });
}

/// Returns the grants of an account, newest first.
pub(super) fn list(account: &Account) -> Vec<AccountGrant> {
    let grant = |token: &Token| AccountGrant {
        id: token.id.clone(),
        kind: "token".into(),
        name: token.label.clone(),
        client_id: None,
        scopes: token.scopes.clone(),
        created_at: token.created_at,
        last_used_at: token.last_used_at,
        expires_at: token.expires_at,
        suspended_at: account.suspended_tokens.get(&token.id).copied(),
    };
    let tokens = account.tokens.iter().rev().map(grant);
    let mut grants: Vec<AccountGrant> = account.oauth_grants.iter().rev().cloned().collect();
    grants.extend(tokens);
    grants.sort_by_key(|grant| std::cmp::Reverse(grant.created_at));
    grants
}

/// Ends an OAuth grant. Returns `false` if the account has no such OAuth grant.
pub(super) fn end(account: &mut Account, id: &str) -> bool {
    let before = account.oauth_grants.len();
    account.oauth_grants.retain(|grant| grant.id != id);
    account.oauth_grants.len() < before
}

/// Suspends a grant at `since`, or resumes the grant if `since` is `None`.
pub(super) fn suspend(
    account: &mut Account,
    id: &str,
    since: Option<Timestamp>,
) -> Result<(), Error> {
    if let Some(grant) = account.oauth_grants.iter_mut().find(|one| one.id == id) {
        grant.suspended_at = since.map(|since| grant.suspended_at.unwrap_or(since));
        return Ok(());
    }
    if !account.tokens.iter().any(|token| token.id == id) {
        return Err(Error::NotFound);
    }
    match since {
        Some(since) => {
            account.suspended_tokens.entry(id.into()).or_insert(since);
        }
        None => drop(account.suspended_tokens.remove(id)),
    }
    Ok(())
}
