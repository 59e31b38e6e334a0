//! POST `/api/v1/profile/password`: changes the password.

use latchmail_sdk::capability::{Caller, PasswordChange, Profile};
use latchmail_sdk::{Failure, Reply, Request, codes};
use serde::Deserialize;
use utoipa::ToSchema;

/// The current and the new password.
#[derive(Deserialize, ToSchema)]
pub(crate) struct PasswordRequest {
    /// Current password.
    #[schema(format = "password", min_length = 1)]
    current_password: String,
    /// New password: at least 8 characters and at most 1024 bytes, with an upper-case letter, a
    /// lower-case letter and a digit.
    #[schema(
        format = "password",
        min_length = 8,
        max_length = 1024,
        pattern = r"^[\s\S]*(?:[a-z][\s\S]*[A-Z][\s\S]*[0-9]|[a-z][\s\S]*[0-9][\s\S]*[A-Z]|[A-Z][\s\S]*[a-z][\s\S]*[0-9]|[A-Z][\s\S]*[0-9][\s\S]*[a-z]|[0-9][\s\S]*[a-z][\s\S]*[A-Z]|[0-9][\s\S]*[A-Z][\s\S]*[a-z])[\s\S]*$"
    )]
    new_password: String,
    /// The two-factor code or a recovery code. Required if two-factor sign-in is on.
    code: Option<String>,
}

/// Change the password
///
/// The web session of the request continues. All other web sessions and all OAuth grants end, and
/// all API tokens are revoked. App passwords of mail clients stay valid.
#[utoipa::path(
    post,
    path = "/api/v1/profile/password",
    operation_id = "changePassword",
    tag = "Profile",
    request_body = PasswordRequest,
    responses(
        (status = 200, description = "The password was changed", body = latchmail_sdk::Succeeded),
        (status = 400, description = "`New password must be different from current password`, or the rule that the new password breaks", body = latchmail_sdk::Failed),
        (status = 401, description = "`Current password is incorrect`, for a wrong `code` too; `Two-factor code required` if two-factor sign-in is on and `code` is missing", body = latchmail_sdk::Failed)
    )
)]
pub(crate) fn change_password(
    host: &(impl Profile + Caller),
    request: &Request,
) -> Result<Reply, Failure> {
    let body: PasswordRequest = request.json()?;
    if body.current_password.is_empty() {
        return Err(Failure::bad_request(
            codes::CURRENT_PASSWORD_REQUIRED,
            "current_password is required",
        ));
    }
    if let Some(code) = &body.code {
        host.present_code(code);
    }
    let changed = host
        .change_password(&body.current_password, &body.new_password)
        .map_err(|error| {
            Failure::of(error, (codes::PROFILE_NOT_FOUND, "Profile not found"), host)
                .failing(codes::PASSWORD_UPDATE_FAILED, "Failed to update password")
        })?;
    match changed {
        PasswordChange::Changed => Reply::success(),
        PasswordChange::Same => Err(Failure::bad_request(
            codes::SAME_PASSWORD,
            "New password must be different from current password",
        )),
        PasswordChange::Wrong => Err(Failure::new(
            401,
            codes::WRONG_PASSWORD,
            "Current password is incorrect",
        )),
    }
}

#[cfg(test)]
mod tests {
    use latchmail_sdk::capability::Error;
    use latchmail_sdk::testing::{FakeHost, failure, json, request};

    use super::*;

    fn body(current: &str, new: &str) -> String {
        format!(r#"{{"current_password": "{current}", "new_password": "{new}"}}"#)
    }

    fn posted(body: &str) -> Request {
        request(&[], &[], body)
    }

    #[test]
    fn each_result_of_a_password_change_has_its_response() {
        let host = FakeHost::new();
        let change = |current, new| change_password(&host, &posted(&body(current, new)));
        let same = change("Correct-Horse-7", "Correct-Horse-7").unwrap_err();
        let text = "New password must be different from current password";
        assert_eq!(same, failure(400, text));
        let wrong = change("Old-Horse-7", "New-Horse-8").unwrap_err();
        assert_eq!(
            wrong,
            Failure::new(401, codes::WRONG_PASSWORD, "Current password is incorrect")
        );
        let done = json(change("Correct-Horse-7", "New-Horse-8"));
        assert_eq!(done, serde_json::json!({"success": true}));
    }

    #[test]
    fn a_missing_field_is_named_and_a_host_error_is_reported() {
        let host = FakeHost::new();
        for (body, text) in [
            (
                r#"{"new_password": "New-Horse-8"}"#,
                "current_password is required",
            ),
            (r#"{"current_password": "a"}"#, "new_password is required"),
            (
                r#"{"current_password": "", "new_password": "New-Horse-8"}"#,
                "current_password is required",
            ),
            (
                r#"{"current_password": "a", "new_password": 1}"#,
                "new_password must be a string",
            ),
        ] {
            let refused = change_password(&host, &posted(body)).unwrap_err();
            assert_eq!(refused, failure(400, text), "{body}");
        }
        let host = FakeHost::failing(Error::Internal);
        let change = posted(&body("Old-Horse-7", "New-Horse-8"));
        let failed = change_password(&host, &change).unwrap_err();
        assert_eq!(
            failed,
            Failure::new(
                500,
                codes::PASSWORD_UPDATE_FAILED,
                "Failed to update password"
            )
        );
    }
}
