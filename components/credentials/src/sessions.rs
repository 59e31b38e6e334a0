//! GET `/api/v1/profile/sessions`, DELETE `/api/v1/profile/sessions/{id}`: lists all credentials of
//! the account, and ends sessions.

use latchmail_sdk::capability::{Caller, Credentials};
use latchmail_sdk::{Failure, Reply, Request, codes};
use serde::Serialize;
use utoipa::ToSchema;

use crate::app_passwords::revoke;
use crate::model::{Credential, Session};

/// The credentials of an account in two formats, newest first.
#[derive(Serialize, ToSchema)]
pub(crate) struct SessionList {
    /// The app passwords of all credentials, in the older response format, which has fewer fields.
    sessions: Vec<Session>,
    /// The credentials, in the current response format.
    credentials: Vec<Credential>,
}

/// List sessions and credentials
///
/// Returns all credentials of the account: web sessions, API tokens, and app passwords of mail
/// clients. OAuth grants are not included.
#[utoipa::path(
    get,
    path = "/api/v1/profile/sessions",
    operation_id = "listSessions",
    tag = "Credentials",
    responses((
        status = 200,
        description = "The credentials in both formats",
        body = SessionList,
        links(
            ("deleteSession" = (operation_id = "deleteSession", parameters(("id" = "$response.body#/sessions/0/id"))))
        )
    ))
)]
pub(crate) fn list_sessions(
    host: &(impl Credentials + Caller),
    _: &Request,
) -> Result<Reply, Failure> {
    let credentials = host.list_credentials().map_err(|error| {
        Failure::of(error, (codes::SESSION_NOT_FOUND, "Session not found"), host)
            .failing(codes::SESSIONS_UNAVAILABLE, "Unable to fetch sessions")
    })?;
    Reply::json(&SessionList {
        sessions: credentials.iter().map(Session::from).collect(),
        credentials: credentials.iter().map(Credential::from).collect(),
    })
}

/// End a session
///
/// Revokes an app password of a mail client or of a web session. Revoking the app password of a web
/// session ends the session.
#[utoipa::path(
    delete,
    path = "/api/v1/profile/sessions/{id}",
    operation_id = "deleteSession",
    tag = "Credentials",
    params(("id" = String, Path, description = "The app password's id")),
    responses(
        (status = 200, description = "The session was ended", body = latchmail_sdk::Succeeded),
        (status = 404, description = "`Session not found`", body = latchmail_sdk::Failed),
        (status = 409, description = "The app password belongs to an API token; the text names the token", body = latchmail_sdk::Failed)
    )
)]
pub(crate) fn delete_session(
    host: &(impl Credentials + Caller),
    request: &Request,
) -> Result<Reply, Failure> {
    revoke(
        host,
        request.path("id"),
        (codes::SESSION_NOT_FOUND, "Session not found"),
        (codes::SESSION_REVOKE_FAILED, "Failed to revoke session"),
    )
}

#[cfg(test)]
mod tests {
    use latchmail_sdk::capability::{Credential, Error, Scope};
    use latchmail_sdk::testing::{FakeHost, NOW, json, request};

    use super::*;

    #[test]
    fn both_views_contain_the_same_app_passwords() {
        let host = FakeHost::new();
        host.put_credential(Credential {
            id: "p2".into(),
            label: "label".into(),
            current: false,
            kind: "app-password".into(),
            token: None,
            created_at: NOW,
            last_used_at: Some(NOW),
            expires_at: None,
        });
        host.create_token("label", &[Scope::MailRead], None, 20)
            .unwrap();
        let response = json(list_sessions(&host, &Request::default()));
        let at = "2026-11-20T08:00:00.000Z";
        let session = |id: &str, label: &str, current: bool| serde_json::json!({"id": id, "description": label, "createdAt": at, "expiresAt": null, "current": current});
        let sessions = [
            session("app-password-of-credential-1", "label", false),
            session("p2", "label", false),
            session("session", "Web session", true),
        ];
        assert_eq!(response["sessions"], serde_json::json!(sessions));
        let credential = |id: &str, r#type: &str, current: bool| {
            serde_json::json!({
                "id": id, "type": r#type, "label": "label", "createdAt": at, "lastUsedAt": at, "expiresAt": null, "current": current,
            })
        };
        let mut token = credential("credential-1", "api_token", false);
        token["lastUsedAt"] = serde_json::Value::Null;
        token["scopes"] = serde_json::json!(["mail:read"]);
        let mut web_session = credential("session", "web_session", true);
        web_session["label"] = "Web session".into();
        web_session["lastUsedAt"] = serde_json::Value::Null;
        let credentials = [token, credential("p2", "app_password", false), web_session];
        assert_eq!(response["credentials"], serde_json::json!(credentials));
    }

    #[test]
    fn a_missing_app_password_is_404_and_a_failing_host_is_500() {
        let delete = request(&[("id", "p")], &[], "");
        let gone = delete_session(&FakeHost::new(), &delete).unwrap_err();
        assert_eq!(
            gone,
            Failure::not_found(codes::SESSION_NOT_FOUND, "Session not found")
        );
        let failing = FakeHost::failing(Error::Internal);
        let broken = delete_session(&failing, &delete).unwrap_err();
        assert_eq!(
            broken,
            Failure::new(
                500,
                codes::SESSION_REVOKE_FAILED,
                "Failed to revoke session"
            )
        );
        let broken = list_sessions(&failing, &Request::default()).unwrap_err();
        assert_eq!(
            broken,
            Failure::new(500, codes::SESSIONS_UNAVAILABLE, "Unable to fetch sessions")
        );
    }
}
