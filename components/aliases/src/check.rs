//! GET `/api/v1/aliases/check`: checks whether an alias can be created.

use latchmail_sdk::capability::{Aliases, Caller, Error};
use latchmail_sdk::{Failure, Reply, Request, codes};
use serde::Serialize;
use utoipa::ToSchema;

use crate::MISSING;

/// Whether an alias can be created now.
#[derive(Serialize, ToSchema)]
pub(crate) struct AliasCheck {
    /// Whether the alias can be created.
    available: bool,
    /// The reason why the alias cannot be created. Absent if the alias can be created.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    error: Option<String>,
}

/// Check whether an alias is available
///
/// The check does not reserve the address: another account can take the address before the alias is
/// created.
#[utoipa::path(
    get,
    path = "/api/v1/aliases/check",
    operation_id = "checkAlias",
    tag = "Aliases",
    params(
        ("name" = String, Query, min_length = 1, description = "Part before the `@`"),
        ("domain" = String, Query, min_length = 1, description = "Part after the `@`")
    ),
    responses(
        (status = 200, description = "Whether the alias can be created, and why not", body = AliasCheck),
        (status = 400, description = "`name and domain query params required`", body = latchmail_sdk::Failed)
    )
)]
pub(crate) fn check_alias(
    host: &(impl Aliases + Caller),
    request: &Request,
) -> Result<Reply, Failure> {
    let parameter = |name| request.query(name).filter(|value| !value.is_empty());
    let (Some(name), Some(domain)) = (parameter("name"), parameter("domain")) else {
        return Err(Failure::bad_request(
            codes::NAME_AND_DOMAIN_REQUIRED,
            "name and domain query params required",
        ));
    };
    let error = match host.check_alias(name, domain) {
        Ok(()) => None,
        Err(Error::Invalid(problem) | Error::Conflict(problem) | Error::TooLarge(problem)) => {
            Some(problem.text)
        }
        Err(error) => return Err(Failure::of(error, MISSING, host)),
    };
    Reply::json(&AliasCheck {
        available: error.is_none(),
        error,
    })
}

#[cfg(test)]
mod tests {
    use latchmail_sdk::capability::Problem;
    use latchmail_sdk::testing::{FakeHost, failure, json, request};

    use super::*;

    fn with_query(query: &[(&str, &str)]) -> Request {
        request(&[], query, "")
    }

    #[test]
    fn an_alias_that_cannot_be_created_has_a_reason() {
        let query = with_query(&[("name", "shop"), ("domain", "example.test")]);
        let host = FakeHost::new();
        let free = json(check_alias(&host, &query));
        assert_eq!(free, serde_json::json!({ "available": true }));
        host.create_alias("shop", "example.test").unwrap();
        let taken = json(check_alias(&host, &query));
        assert_eq!(taken["error"], "shop@example.test is already taken");
        for refused in [
            Error::Invalid as fn(Problem) -> Error,
            Error::Conflict,
            Error::TooLarge,
        ] {
            let host = FakeHost::failing(refused(Problem::new(codes::INVALID_FIELD, "No.")));
            let expected = serde_json::json!({ "available": false, "error": "No." });
            assert_eq!(json(check_alias(&host, &query)), expected);
        }
        let denied = FakeHost::failing(Error::denied(codes::PERMISSION_DENIED, "No."));
        let refused = check_alias(&denied, &query).unwrap_err();
        assert_eq!(refused, Failure::new(403, codes::PERMISSION_DENIED, "No."));
        let broken = check_alias(&FakeHost::failing(Error::Internal), &query);
        assert_eq!(broken.unwrap_err().status, 500);
    }

    #[test]
    fn both_parts_are_required() {
        let host = FakeHost::new();
        for query in [
            &[][..],
            &[("name", "shop")],
            &[("domain", "example.test")],
            &[("name", ""), ("domain", "example.test")],
            &[("name", "shop"), ("domain", "")],
        ] {
            let refused = check_alias(&host, &with_query(query)).unwrap_err();
            let text = "name and domain query params required";
            assert_eq!(refused, failure(400, text), "{query:?}");
        }
        assert_eq!(host.calls(), 0);
    }
}
