//! POST `/api/v1/aliases`: creates an alias with a given or a random name.

use latchmail_common::aliases::{self, CreatedAlias};
use latchmail_sdk::capability::{Aliases, Caller};
use latchmail_sdk::{Failure, Reply, Request};
use serde::Deserialize;
use utoipa::ToSchema;

/// An alias to create.
#[derive(Deserialize, ToSchema)]
pub(crate) struct AliasRequest {
    /// One of the domains on which aliases are allowed.
    #[schema(required, nullable = false, min_length = 1)]
    domain: Option<String>,
    /// Part before the `@`: lower-case letters, digits, dots, hyphens and underscores. The name
    /// starts and ends with a letter or a digit, and it does not contain two dots in a row. If the
    /// name is absent, the alias gets a random name.
    #[schema(
        min_length = 2,
        max_length = 64,
        pattern = r"^[a-z0-9](?:[a-z0-9_-]|\.(?!\.))*[a-z0-9]$"
    )]
    name: Option<String>,
}

/// Create an alias
///
/// The alias can immediately receive mail and be used as a sender. A random name can be pronounced
/// and cannot be guessed. An address that another account owned before counts as taken. Only its
/// former owner can create an alias with the address again.
#[utoipa::path(
    post,
    path = "/api/v1/aliases",
    operation_id = "createAlias",
    tag = "Aliases",
    request_body = AliasRequest,
    responses(
        (
            status = 201,
            description = "The alias",
            body = CreatedAlias,
            links(
                ("updateAlias" = (operation_id = "updateAlias", parameters(("id" = "$response.body#/id")))),
                ("deleteAlias" = (operation_id = "deleteAlias", parameters(("id" = "$response.body#/id"))))
            )
        ),
        (
            status = 400,
            description = "The domain is missing, the address is already taken, the name is invalid, or the account cannot create aliases on the domain",
            body = latchmail_sdk::Failed
        ),
        (status = 409, description = "The account has reached the limit of aliases", body = latchmail_sdk::Failed)
    )
)]
pub(crate) fn create_alias(
    host: &(impl Aliases + Caller),
    request: &Request,
) -> Result<Reply, Failure> {
    let body: AliasRequest = request.json()?;
    let created = aliases::create(host, body.domain.as_deref(), body.name.as_deref())?;
    Reply::with_status(201, &created)
}

#[cfg(test)]
mod tests {
    use latchmail_common::aliases::ATTEMPTS;
    use latchmail_sdk::capability::Error;
    use latchmail_sdk::codes;
    use latchmail_sdk::testing::{FakeHost, failure, json, request};

    use super::*;

    fn posted(body: &str) -> Request {
        request(&[], &[], body)
    }

    #[test]
    fn an_alias_has_the_requested_name() {
        let host = FakeHost::new();
        let body = posted(r#"{"domain": "example.test", "name": "shop"}"#);
        let created = create_alias(&host, &body).unwrap();
        assert_eq!(created.status, 201);
        let expected = serde_json::json!({ "alias": "shop@example.test", "id": 1 });
        assert_eq!(json(Ok(created)), expected);
        assert_eq!(host.list_aliases().unwrap()[0].address, "shop@example.test");
    }

    #[test]
    fn an_alias_without_a_requested_name_has_a_random_name() {
        let host = FakeHost::new();
        for body in [
            r#"{"domain": "example.test"}"#,
            r#"{"domain": "example.test", "name": null}"#,
        ] {
            let created = json(create_alias(&host, &posted(body)));
            let alias = created["alias"].as_str().unwrap();
            let (name, domain) = alias.split_once('@').unwrap();
            assert_eq!((name.len(), domain), (23, "example.test"), "{alias}");
        }
        let aliases = host.list_aliases().unwrap();
        assert!(aliases.len() == 2 && aliases[0].address != aliases[1].address);
    }

    #[test]
    fn a_taken_random_name_is_retried_a_limited_number_of_times() {
        let host = FakeHost::failing(Error::conflict(codes::ALIAS_TAKEN, "It is taken"));
        let refused = create_alias(&host, &posted(r#"{"domain": "example.test"}"#));
        assert_eq!(
            refused.unwrap_err(),
            Failure::bad_request(codes::ALIAS_TAKEN, "It is taken")
        );
        assert_eq!(host.calls(), ATTEMPTS);
        let foreign =
            FakeHost::failing(Error::invalid(codes::ALIAS_DOMAIN_NOT_ALLOWED, "Not yours"));
        let refused = create_alias(&foreign, &posted(r#"{"domain": "example.test"}"#));
        assert_eq!(
            refused.unwrap_err(),
            Failure::bad_request(codes::ALIAS_DOMAIN_NOT_ALLOWED, "Not yours")
        );
        assert_eq!(foreign.calls(), 1);
    }

    #[test]
    fn invalid_input_is_refused_before_the_host_is_called() {
        let host = FakeHost::new();
        for (body, text) in [
            ("", "Invalid JSON body"),
            ("{}", "domain is required"),
            (r#"{"domain": null}"#, "domain is required"),
            (r#"{"domain": ""}"#, "domain is required"),
            (r#"{"domain": 7}"#, "domain must be a string"),
            (
                r#"{"domain": "a.test", "name": 7}"#,
                "name must be a string",
            ),
            ("[]", "The body must be an object"),
        ] {
            let refused = create_alias(&host, &posted(body)).unwrap_err();
            assert_eq!(refused, failure(400, text), "{body}");
        }
        assert_eq!(host.calls(), 0);
    }

    #[test]
    fn each_error_of_the_host_has_its_status() {
        let body = posted(r#"{"domain": "example.test", "name": "shop"}"#);
        for (error, status) in [
            (Error::invalid(codes::ALIAS_TAKEN, "No."), 400),
            (Error::denied(codes::ALIAS_TAKEN, "No."), 403),
            (Error::conflict(codes::ALIAS_TAKEN, "No."), 400),
            (Error::too_large(codes::ALIAS_TAKEN, "No."), 409),
        ] {
            let refused = create_alias(&FakeHost::failing(error), &body).unwrap_err();
            assert_eq!(refused, Failure::new(status, codes::ALIAS_TAKEN, "No."));
        }
        let over = FakeHost::failing(Error::CredentialRefused);
        let refused = create_alias(&over, &body).unwrap_err();
        let text = "Mail session expired, please log in again";
        assert_eq!(refused, failure(401, text));
        let broken = FakeHost::failing(Error::Internal);
        assert_eq!(create_alias(&broken, &body).unwrap_err().status, 500);
    }
}
