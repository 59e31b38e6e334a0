//! GET `/api/v1/profile/grants`, DELETE `/api/v1/profile/grants/{id}`, and POST `suspend` and
//! `resume`: lists, ends, suspends and resumes the credentials of programs.

use latchmail_sdk::capability::{AccountGrant, Caller, Credentials, Error, GrantPolicy};
use latchmail_sdk::time::iso8601;
use latchmail_sdk::{Code, Failure, Reply, Request, codes};
use serde::Serialize;
use serde_json::Value;
use utoipa::ToSchema;

use crate::model::TokenScope;

/// The error if the account has no grant with the requested id.
const MISSING: (Code, &str) = (codes::GRANT_NOT_FOUND, "Grant not found");

/// The kind of a grant. Later versions can have more kinds.
#[derive(ToSchema)]
#[serde(rename_all = "snake_case")]
#[expect(dead_code, reason = "used only for the API description")]
pub(crate) enum GrantKind {
    Oauth,
    Token,
}

/// A credential with which a program acts for the owner of the account.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct AccessGrant {
    /// Opaque id of the grant.
    id: String,
    /// `oauth` for an agent that the owner connected, `token` for an API token.
    #[schema(value_type = GrantKind)]
    kind: String,
    /// The name that the agent gave itself, or the label of the API token.
    name: String,
    /// Scopes of the grant, in canonical order.
    #[schema(value_type = Vec<TokenScope>)]
    scopes: Vec<String>,
    /// The policy of the grant. `null`: the grant has no policy.
    #[schema(required, value_type = Option<Object>)]
    policy: Option<Value>,
    /// Time of creation.
    #[schema(format = DateTime)]
    created_at: String,
    /// Time of the last use, to the minute; `null` if the grant was never used.
    #[schema(format = DateTime)]
    last_used_at: Option<String>,
    /// Time of expiry; `null` if the grant does not expire. The expiry of an API token can be in
    /// the past. Each refresh extends an OAuth grant.
    #[schema(format = DateTime)]
    expires_at: Option<String>,
    /// Whether the grant is suspended.
    suspended: bool,
}

impl AccessGrant {
    fn new(grant: AccountGrant, policies: &[GrantPolicy]) -> Self {
        let policy = policies.iter().find(|policy| policy.grant == grant.id);
        Self {
            policy: policy.and_then(|found| serde_json::from_str(&found.policy).ok()),
            id: grant.id,
            kind: grant.kind,
            name: grant.name,
            scopes: grant.scopes,
            created_at: iso8601(grant.created_at),
            last_used_at: grant.last_used_at.map(iso8601),
            expires_at: grant.expires_at.map(iso8601),
            suspended: grant.suspended_at.is_some(),
        }
    }
}

/// The grants of an account.
#[derive(Serialize, ToSchema)]
pub(crate) struct GrantList {
    /// The grants, newest first.
    grants: Vec<AccessGrant>,
}

/// List grants
///
/// Returns the agents that the owner connected (OAuth grants) and the API tokens, newest first. Web
/// sessions and app passwords of mail clients are in the list of sessions.
#[utoipa::path(
    get,
    path = "/api/v1/profile/grants",
    operation_id = "listGrants",
    tag = "Credentials",
    extensions(("x-latchmail" = json!(true))),
    responses((
        status = 200,
        description = "The grants",
        body = GrantList,
        links(
            ("endGrant" = (operation_id = "endGrant", parameters(("id" = "$response.body#/grants/0/id")))),
            ("suspendGrant" = (operation_id = "suspendGrant", parameters(("id" = "$response.body#/grants/0/id")))),
            ("resumeGrant" = (operation_id = "resumeGrant", parameters(("id" = "$response.body#/grants/0/id")))),
            ("getGrantPolicy" = (operation_id = "getGrantPolicy", parameters(("id" = "$response.body#/grants/0/id"))))
        )
    ))
)]
pub(crate) fn list_grants(
    host: &(impl Credentials + Caller),
    _: &Request,
) -> Result<Reply, Failure> {
    let failed = |error| Failure::of(error, MISSING, host);
    let grants = host.list_grants().map_err(failed)?;
    let policies = host.list_grant_policies().map_err(failed)?;
    let grant = |grant| AccessGrant::new(grant, &policies);
    Reply::json(&GrantList {
        grants: grants.into_iter().map(grant).collect(),
    })
}

/// End a grant
///
/// Ends the grant with all its tokens. Its requests are refused at once, and its running downloads
/// stop within a second. An ended grant cannot be resumed.
#[utoipa::path(
    delete,
    path = "/api/v1/profile/grants/{id}",
    operation_id = "endGrant",
    tag = "Credentials",
    extensions(("x-latchmail" = json!(true))),
    params(("id" = String, Path, description = "The grant's id")),
    responses(
        (status = 200, description = "The grant was ended", body = latchmail_sdk::Succeeded),
        (status = 404, description = "`Grant not found`", body = latchmail_sdk::Failed)
    )
)]
pub(crate) fn end_grant(
    host: &(impl Credentials + Caller),
    request: &Request,
) -> Result<Reply, Failure> {
    done(host, host.end_grant(request.path("id")))
}

/// Suspend a grant
///
/// The grant's requests return 403 `This grant is suspended` until the grant is resumed, and its
/// running downloads stop within a second. The authorization server refuses its refresh token with
/// `invalid_grant`, but the token stays valid. A suspension does not extend the grant.
#[utoipa::path(
    post,
    path = "/api/v1/profile/grants/{id}/suspend",
    operation_id = "suspendGrant",
    tag = "Credentials",
    extensions(("x-latchmail" = json!(true))),
    params(("id" = String, Path, description = "The grant's id")),
    responses(
        (status = 200, description = "The grant is suspended", body = latchmail_sdk::Succeeded),
        (status = 404, description = "`Grant not found`", body = latchmail_sdk::Failed)
    )
)]
pub(crate) fn suspend_grant(
    host: &(impl Credentials + Caller),
    request: &Request,
) -> Result<Reply, Failure> {
    done(host, host.suspend_grant(request.path("id")))
}

/// Resume a grant
///
/// A resumed grant works as before its suspension.
#[utoipa::path(
    post,
    path = "/api/v1/profile/grants/{id}/resume",
    operation_id = "resumeGrant",
    tag = "Credentials",
    extensions(("x-latchmail" = json!(true))),
    params(("id" = String, Path, description = "The grant's id")),
    responses(
        (status = 200, description = "The grant is not suspended", body = latchmail_sdk::Succeeded),
        (status = 404, description = "`Grant not found`", body = latchmail_sdk::Failed)
    )
)]
pub(crate) fn resume_grant(
    host: &(impl Credentials + Caller),
    request: &Request,
) -> Result<Reply, Failure> {
    done(host, host.resume_grant(request.path("id")))
}

fn done(host: &impl Caller, changed: Result<(), Error>) -> Result<Reply, Failure> {
    changed.map_err(|error| Failure::of(error, MISSING, host))?;
    Reply::success()
}

#[cfg(test)]
mod tests {
    use latchmail_sdk::capability::Scope;
    use latchmail_sdk::testing::{FakeHost, NOW, json, put_grant, request, set_grant_policy};

    use super::*;

    fn host() -> FakeHost {
        let host = FakeHost::new();
        host.create_token("CI", &[Scope::MailRead], None, 20)
            .unwrap();
        let agent = AccountGrant {
            id: "g".into(),
            kind: "oauth".into(),
            name: "Agent".into(),
            client_id: Some("c".into()),
            scopes: vec!["mail:read".into(), "aliases:read".into()],
            created_at: NOW + 1,
            last_used_at: Some(NOW + 60_000),
            expires_at: Some(NOW + 61_000),
            suspended_at: None,
        };
        put_grant(&host, agent);
        host
    }

    #[test]
    fn agents_and_tokens_are_listed_newest_first() {
        let listed = json(list_grants(&host(), &Request::default()));
        let expected = serde_json::json!({ "grants": [
            {
                "id": "g", "kind": "oauth", "name": "Agent", "policy": null, "suspended": false,
                "scopes": ["mail:read", "aliases:read"], "createdAt": "2026-11-20T08:00:00.001Z",
                "lastUsedAt": "2026-11-20T08:01:00.000Z", "expiresAt": "2026-11-20T08:01:01.000Z",
            },
            {
                "id": "credential-1", "kind": "token", "name": "CI", "policy": null,
                "scopes": ["mail:read"], "createdAt": "2026-11-20T08:00:00.000Z",
                "lastUsedAt": null, "expiresAt": null, "suspended": false,
            },
        ] });
        assert_eq!(listed, expected);
    }

    #[test]
    fn a_listed_grant_has_its_policy() {
        let host = host();
        set_grant_policy(&host, "g", r#"{"send":"never"}"#);
        let listed = json(list_grants(&host, &Request::default()));
        assert_eq!(
            listed["grants"][0]["policy"],
            serde_json::json!({ "send": "never" })
        );
        assert!(listed["grants"][1]["policy"].is_null());
    }

    #[test]
    fn a_grant_is_suspended_resumed_and_ended() {
        let host = host();
        let success = serde_json::json!({ "success": true });
        for id in ["g", "credential-1"] {
            let by_id = request(&[("id", id)], &[], "");
            let suspended = || {
                let grants = host.list_grants().unwrap();
                let grant = grants.into_iter().find(|grant| grant.id == id);
                grant.map(|grant| grant.suspended_at.is_some())
            };
            assert_eq!(json(suspend_grant(&host, &by_id)), success);
            assert_eq!(suspended(), Some(true));
            assert_eq!(json(resume_grant(&host, &by_id)), success);
            assert_eq!(suspended(), Some(false));
            assert_eq!(json(end_grant(&host, &by_id)), success);
            assert_eq!(suspended(), None);
            let gone = end_grant(&host, &by_id).unwrap_err();
            assert_eq!(gone, Failure::not_found(MISSING.0, MISSING.1));
        }
    }

    #[test]
    fn a_missing_grant_is_404_and_a_failing_host_is_500() {
        let by_id = request(&[("id", "x")], &[], "");
        for act in [end_grant, suspend_grant, resume_grant] {
            assert_eq!(act(&host(), &by_id).unwrap_err().status, 404);
            let failing = FakeHost::failing(Error::Internal);
            assert_eq!(act(&failing, &by_id).unwrap_err().status, 500);
        }
    }
}
