//! POST `/api/v1/app-passwords`, DELETE `/api/v1/app-passwords/{id}`: creates and deletes passwords
//! for mail clients.

use latchmail_sdk::capability::{Caller, Config, Credentials, Error, Revocation};
use latchmail_sdk::{Code, Failure, Reply, Request, codes};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::label::label;

/// Name of the module setting that the operator sets to `true` if the mail server also supports
/// JMAP.
const JMAP: &str = "jmap";

/// An app password to create.
#[derive(Deserialize, ToSchema)]
pub(crate) struct AppPasswordRequest {
    /// Label, 1 to 64 characters on one line. Surrounding white space is removed.
    #[schema(
        required,
        nullable = false,
        min_length = 1,
        max_length = 64,
        pattern = r"^[^\u0000-\u001f\u007f-\u009f]*[^\s\u0000-\u001f\u007f-\u009f][^\u0000-\u001f\u007f-\u009f]*$"
    )]
    label: Option<String>,
}

/// A new app password.
#[derive(Serialize, ToSchema)]
pub(crate) struct CreatedAppPassword {
    /// Opaque id of the app password.
    id: String,
    /// Kind of the credential: always `app_password`.
    r#type: &'static str,
    /// Label of the app password.
    label: String,
    /// Login name at the mail server: the account's address.
    username: String,
    /// The password. No other response contains it, because only its hash is stored.
    password: String,
    /// `null`: an app password has no scopes.
    #[schema(value_type = Option<Vec<String>>)]
    scopes: (),
    /// Text for people that describes what the app password gives access to.
    access: &'static str,
}

/// Create an app password
///
/// The app password is valid immediately. It gives access to the whole mailbox over IMAP and SMTP.
/// It is not an API token. Only this response contains the password.
#[utoipa::path(
    post,
    path = "/api/v1/app-passwords",
    operation_id = "createAppPassword",
    tag = "Credentials",
    request_body = AppPasswordRequest,
    responses(
        (
            status = 201,
            description = "The app password",
            body = CreatedAppPassword,
            links(
                ("deleteAppPassword" = (operation_id = "deleteAppPassword", parameters(("id" = "$response.body#/id")))),
                ("deleteSession" = (operation_id = "deleteSession", parameters(("id" = "$response.body#/id"))))
            )
        ),
        (status = 400, description = "`label is required`", body = latchmail_sdk::Failed),
        (status = 409, description = "The account has 100 app passwords", body = latchmail_sdk::Failed)
    )
)]
pub(crate) fn create_app_password(
    host: &(impl Credentials + Caller + Config),
    request: &Request,
) -> Result<Reply, Failure> {
    let body: AppPasswordRequest = request.json()?;
    let label = label(body.label.as_deref())?;
    let created = host.create_app_password(label).map_err(|error| {
        Failure::of(
            error,
            (codes::APP_PASSWORD_NOT_FOUND, "App password not found"),
            host,
        )
        .failing(
            codes::APP_PASSWORD_CREATE_FAILED,
            "Failed to create app password",
        )
    })?;
    let created = CreatedAppPassword {
        id: created.id,
        r#type: "app_password",
        label: label.to_owned(),
        username: created.username,
        password: created.secret,
        scopes: (),
        access: if host.get(JMAP).as_deref() == Some("true") {
            "Full mailbox access over IMAP, SMTP and JMAP"
        } else {
            "Full mailbox access over IMAP and SMTP"
        },
    };
    Ok(Reply::with_status(201, &created)?.with("cache-control", "no-store"))
}

/// Delete an app password
///
/// The app password becomes invalid immediately. Mail clients that are logged in with the app
/// password are disconnected.
#[utoipa::path(
    delete,
    path = "/api/v1/app-passwords/{id}",
    operation_id = "deleteAppPassword",
    tag = "Credentials",
    params(("id" = String, Path, description = "The app password's id")),
    responses(
        (status = 200, description = "The app password was deleted", body = latchmail_sdk::Succeeded),
        (status = 404, description = "`App password not found`", body = latchmail_sdk::Failed),
        (status = 409, description = "The app password belongs to an API token; the text names the token", body = latchmail_sdk::Failed)
    )
)]
pub(crate) fn delete_app_password(
    host: &(impl Credentials + Caller),
    request: &Request,
) -> Result<Reply, Failure> {
    revoke(
        host,
        request.path("id"),
        (codes::APP_PASSWORD_NOT_FOUND, "App password not found"),
        (
            codes::APP_PASSWORD_REVOKE_FAILED,
            "Failed to revoke app password",
        ),
    )
}

/// Revokes an app password. `missing` is the code and the error message for status 404, and
/// `failed` for status 500.
pub(crate) fn revoke(
    host: &(impl Credentials + Caller),
    id: &str,
    missing: (Code, &'static str),
    failed: (Code, &'static str),
) -> Result<Reply, Failure> {
    let failure = |error: Error| {
        Failure::of(error, missing.clone(), host).failing(failed.0.clone(), failed.1)
    };
    match host.revoke_app_password(id).map_err(failure)? {
        Revocation::Revoked => Reply::success(),
        Revocation::BacksToken(token) => Err(Failure::conflict(
            codes::APP_PASSWORD_BACKS_TOKEN,
            format!(
                "This credential backs the API token \"{}\"; revoke it with DELETE /api/v1/tokens/{}",
                token.label, token.id
            ),
        )),
    }
}

#[cfg(test)]
mod tests {
    use latchmail_sdk::capability::Scope;
    use latchmail_sdk::testing::{FakeHost, failure, json, request};

    use super::*;

    fn posted(body: &str) -> Request {
        request(&[], &[], body)
    }

    #[test]
    fn the_secret_of_an_app_password_is_only_in_the_first_response() {
        let host = FakeHost::new();
        let created = create_app_password(&host, &posted(r#"{"label": " Phone "}"#)).unwrap();
        assert_eq!(created.status, 201);
        let expected = serde_json::json!({
            "id": "credential-1", "type": "app_password", "label": "Phone", "username": "ada@example.test",
            "password": "secret-of-credential-1", "scopes": null, "access": "Full mailbox access over IMAP and SMTP",
        });
        assert_eq!(json(Ok(created)), expected);
        host.set(JMAP, "true");
        let created = json(create_app_password(&host, &posted(r#"{"label": "a"}"#)));
        assert_eq!(
            created["access"],
            "Full mailbox access over IMAP, SMTP and JMAP"
        );
    }

    #[test]
    fn an_app_password_requires_a_label() {
        let host = FakeHost::new();
        for body in ["{}", r#"{"label": ""}"#, r#"{"label": null}"#] {
            let refused = create_app_password(&host, &posted(body)).unwrap_err();
            assert_eq!(
                refused,
                Failure::bad_request(codes::LABEL_REQUIRED, "label is required"),
                "{body}"
            );
        }
        assert_eq!(host.calls(), 0);
    }

    #[test]
    fn an_app_password_of_a_token_is_not_revoked_and_the_error_names_the_token() {
        let host = FakeHost::new();
        host.create_token("CI", &[Scope::MailRead], None, 20)
            .unwrap();
        let id = host.list_credentials().unwrap().remove(0).id;
        let delete = request(&[("id", id.as_str())], &[], "");
        let refused = delete_app_password(&host, &delete).unwrap_err();
        let text = "This credential backs the API token \"CI\"; revoke it with DELETE /api/v1/tokens/credential-1";
        assert_eq!(refused, failure(409, text));
        assert_eq!(host.list_credentials().unwrap().len(), 2);
    }

    #[test]
    fn a_missing_app_password_is_404_and_a_failing_host_is_500() {
        let delete = request(&[("id", "p")], &[], "");
        let gone = delete_app_password(&FakeHost::new(), &delete).unwrap_err();
        assert_eq!(
            gone,
            Failure::not_found(codes::APP_PASSWORD_NOT_FOUND, "App password not found")
        );
        let failing = FakeHost::failing(Error::Internal);
        let broken = delete_app_password(&failing, &delete).unwrap_err();
        assert_eq!(
            broken,
            Failure::new(
                500,
                codes::APP_PASSWORD_REVOKE_FAILED,
                "Failed to revoke app password"
            )
        );
        let broken = create_app_password(&failing, &posted(r#"{"label": "a"}"#)).unwrap_err();
        assert_eq!(
            broken,
            Failure::new(
                500,
                codes::APP_PASSWORD_CREATE_FAILED,
                "Failed to create app password"
            )
        );
    }
}
