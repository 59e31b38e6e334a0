//! GET and PATCH `/api/v1/profile`: reads and changes the profile of the account's owner.

use latchmail_sdk::capability::{self, Caller, Changes, Error};
use latchmail_sdk::time::sql;
use latchmail_sdk::{Failure, Reply, Request, codes};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

const INCOMPLETE: &str =
    "Profile does not exist. Provide first_name, last_name, and dob to create.";

/// A profile.
#[derive(Serialize, ToSchema)]
pub(crate) struct Profile {
    /// Address of the account.
    #[schema(format = "email")]
    email: String,
    /// First name.
    first_name: String,
    /// Last name.
    last_name: String,
    /// Date of birth, `YYYY-MM-DD`.
    #[schema(format = Date)]
    dob: String,
    /// Time of creation, `YYYY-MM-DD HH:MM:SS` in UTC.
    created_at: String,
}

/// The fields to change. Other fields stay the same.
#[derive(Deserialize, ToSchema)]
#[schema(min_properties = 1)]
pub(crate) struct ProfileRequest {
    /// First name, 1 to 64 characters on one line. Surrounding white space is removed. `null` is
    /// the same as absent.
    #[schema(
        min_length = 1,
        max_length = 64,
        pattern = r"^[^\u0000-\u001f\u007f-\u009f]*[^\s\u0000-\u001f\u007f-\u009f][^\u0000-\u001f\u007f-\u009f]*$"
    )]
    first_name: Option<String>,
    /// Last name, 1 to 64 characters on one line. Surrounding white space is removed. `null` is the
    /// same as absent.
    #[schema(
        min_length = 1,
        max_length = 64,
        pattern = r"^[^\u0000-\u001f\u007f-\u009f]*[^\s\u0000-\u001f\u007f-\u009f][^\u0000-\u001f\u007f-\u009f]*$"
    )]
    last_name: Option<String>,
    /// Date of birth, `YYYY-MM-DD`. The person must be at least 13 years old. `null` is the same as
    /// absent.
    #[schema(format = Date, pattern = "^[0-9]{4}-[0-9]{2}-[0-9]{2}$")]
    dob: Option<String>,
}

/// Read the profile
///
/// If the operator created the account, it has no profile until the owner of the account creates
/// one.
#[utoipa::path(
    get,
    path = "/api/v1/profile",
    operation_id = "getProfile",
    tag = "Profile",
    responses(
        (status = 200, description = "The profile", body = Profile),
        (status = 404, description = "`Profile not found`", body = latchmail_sdk::Failed)
    )
)]
pub(crate) fn get_profile(
    host: &(impl capability::Profile + Caller),
    _: &Request,
) -> Result<Reply, Failure> {
    let details = host.get().map_err(|error| {
        Failure::of(error, (codes::PROFILE_NOT_FOUND, "Profile not found"), host)
    })?;
    Reply::json(&Profile {
        email: details.address,
        first_name: details.first_name,
        last_name: details.last_name,
        dob: details.dob,
        created_at: sql(details.created_at),
    })
}

/// Change the profile
///
/// Absent fields stay the same. If the account has no profile, the request creates one and must
/// contain all three fields.
#[utoipa::path(
    patch,
    path = "/api/v1/profile",
    operation_id = "updateProfile",
    tag = "Profile",
    request_body = ProfileRequest,
    responses(
        (status = 200, description = "The profile was changed", body = latchmail_sdk::Succeeded),
        (status = 400, description = "`Nothing to update`, or a text that names the invalid field", body = latchmail_sdk::Failed)
    )
)]
pub(crate) fn update_profile(
    host: &(impl capability::Profile + Caller),
    request: &Request,
) -> Result<Reply, Failure> {
    let body: ProfileRequest = request.json()?;
    let changes = Changes {
        first_name: body.first_name,
        last_name: body.last_name,
        dob: body.dob,
    };
    if let (None, None, None) = (&changes.first_name, &changes.last_name, &changes.dob) {
        return Err(Failure::bad_request(
            codes::NOTHING_TO_UPDATE,
            "Nothing to update",
        ));
    }
    host.update(&changes).map_err(|error| match error {
        Error::NotFound => Failure::bad_request(codes::PROFILE_INCOMPLETE, INCOMPLETE),
        error => Failure::of(error, (codes::PROFILE_NOT_FOUND, "Profile not found"), host),
    })?;
    Reply::success()
}

#[cfg(test)]
mod tests {
    use latchmail_sdk::testing::{FakeHost, failure, json, request};

    use super::*;

    fn posted(body: &str) -> Request {
        request(&[], &[], body)
    }

    #[test]
    fn a_profile_is_read_and_changed() {
        let host = FakeHost::new();
        let mut expected = serde_json::json!({
            "email": "ada@example.test", "first_name": "Ada", "last_name": "Lovelace", "dob": "1990-12-10",
            "created_at": "2026-11-20 08:00:00",
        });
        assert_eq!(json(get_profile(&host, &Request::default())), expected);
        let changed = json(update_profile(&host, &posted(r#"{"last_name": "King"}"#)));
        assert_eq!(changed, serde_json::json!({"success": true}));
        expected["last_name"] = "King".into();
        assert_eq!(json(get_profile(&host, &Request::default())), expected);
    }

    #[test]
    fn an_empty_change_and_an_invalid_field_are_refused() {
        let host = FakeHost::new();
        for body in ["{}", r#"{"first_name": null}"#, r#"{"email": "x"}"#] {
            let refused = update_profile(&host, &posted(body)).unwrap_err();
            assert_eq!(
                refused,
                Failure::bad_request(codes::NOTHING_TO_UPDATE, "Nothing to update"),
                "{body}"
            );
        }
        let refused = update_profile(&host, &posted(r#"{"dob": 1990}"#)).unwrap_err();
        assert_eq!(refused, failure(400, "dob must be a string"));
        let text = "dob must not be in the future";
        let host = FakeHost::failing(Error::invalid(codes::INVALID_DATE_OF_BIRTH, text));
        let refused = update_profile(&host, &posted(r#"{"dob": "2099-01-01"}"#)).unwrap_err();
        assert_eq!(refused, failure(400, text));
    }

    #[test]
    fn without_a_profile_all_fields_are_required() {
        let host = FakeHost::new();
        host.forget_profile();
        let missing = get_profile(&host, &Request::default()).unwrap_err();
        assert_eq!(
            missing,
            Failure::not_found(codes::PROFILE_NOT_FOUND, "Profile not found")
        );
        let refused = update_profile(&host, &posted(r#"{"last_name": "King"}"#)).unwrap_err();
        assert_eq!(
            refused,
            Failure::bad_request(codes::PROFILE_INCOMPLETE, INCOMPLETE)
        );
    }
}
