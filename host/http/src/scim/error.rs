//! Errors in the format of SCIM (RFC 7644, section 3.12).

use http::{HeaderValue, StatusCode, header};
use latchmail_core::codes;
use serde_json::json;

use super::{BASE, MEDIA_TYPE};
use crate::message::{Response, serialized_json};
use crate::rejection::Rejection;
use crate::response;

const SCHEMA: &str = "urn:ietf:params:scim:api:messages:2.0:Error";

/// Returns the response to a failed request for a path of SCIM.
///
/// # Errors
/// Returns `rejection` if the path is not a path of SCIM.
pub fn render_error(path: &str, rejection: Rejection) -> Result<Response, Rejection> {
    let rest = path.strip_prefix(BASE);
    if !rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/')) {
        return Err(rejection);
    }
    response::log(&rejection);
    let mut body = json!({
        "schemas": [SCHEMA],
        "status": rejection.status.as_str(),
        "detail": rejection.text,
    });
    if let Some(scim_type) = scim_type(&rejection) {
        body["scimType"] = scim_type.into();
    }
    let body = body.to_string();
    let mut response = serialized_json(rejection.status, body.into());
    response.headers.extend(rejection.headers);
    let media_type = HeaderValue::from_static(MEDIA_TYPE);
    Ok(response.with(header::CONTENT_TYPE, media_type))
}

/// Returns the detail error keyword (RFC 7644, section 3.12, table 9).
fn scim_type(rejection: &Rejection) -> Option<&'static str> {
    let code = &rejection.code;
    match rejection.status {
        StatusCode::CONFLICT => Some("uniqueness"),
        StatusCode::BAD_REQUEST if *code == codes::INVALID_FILTER => Some("invalidFilter"),
        StatusCode::BAD_REQUEST if *code == codes::INVALID_PATCH_PATH => Some("invalidPath"),
        StatusCode::BAD_REQUEST if *code == codes::PATCH_TARGET_MISSING => Some("noTarget"),
        StatusCode::BAD_REQUEST if *code == codes::READ_ONLY_ATTRIBUTE => Some("mutability"),
        StatusCode::BAD_REQUEST if *code == codes::INVALID_JSON_BODY => Some("invalidSyntax"),
        StatusCode::BAD_REQUEST => Some("invalidValue"),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_paths_of_scim_have_its_errors() {
        let taken = || Rejection::new(StatusCode::CONFLICT, codes::EMAIL_TAKEN, "taken");
        for path in ["/", "/scim", "/scim/v20/Users", "/admin/api/v1/accounts"] {
            assert!(render_error(path, taken()).is_err(), "{path}");
        }
        for path in ["/scim/v2", "/scim/v2/Users", "/scim/v2/nothing"] {
            let response = render_error(path, taken()).unwrap();
            assert_eq!(response.status, StatusCode::CONFLICT);
            assert_eq!(response.headers[header::CONTENT_TYPE], MEDIA_TYPE);
        }
        assert_eq!(scim_type(&taken()), Some("uniqueness"));
    }
}
