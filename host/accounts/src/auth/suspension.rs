//! The failures of requests whose grant is suspended, or whose policy has ended.

use latchmail_core::clock::Timestamp;
use latchmail_core::codes;
use latchmail_core::error::Failure;
use latchmail_core::policy::Policy;

/// Returns the failure of a request with the API token or the OAuth access token of a suspended
/// grant.
pub(super) fn suspended() -> Failure {
    Failure::forbidden(codes::GRANT_SUSPENDED, "This grant is suspended")
}

/// Returns the policy of a grant. `stored` is its JSON in the directory.
///
/// # Errors
/// Returns 403 if the time of the policy is over, or if the policy is not readable.
pub(super) fn current_policy(
    stored: Option<&str>,
    now: Timestamp,
) -> Result<Option<Policy>, Failure> {
    let policy = stored.map(Policy::stored);
    if policy.as_ref().is_some_and(|policy| policy.is_over(now)) {
        return Err(Failure::forbidden(
            codes::POLICY_DENIED,
            "The policy of this grant does not allow requests any longer",
        ));
    }
    Ok(policy)
}
