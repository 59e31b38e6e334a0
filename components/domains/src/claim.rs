//! POST `/api/v1/domains`: claims a domain.

use latchmail_sdk::capability::{Caller, Claimed, Domains, Error};
use latchmail_sdk::{Failure, Reply, Request, codes};
use serde::Deserialize;
use utoipa::ToSchema;

use crate::failure::{INVALID, TAKEN, failure_of};
use crate::model::ClaimedDomain;

/// A domain to claim.
#[derive(Deserialize, ToSchema)]
pub(crate) struct DomainRequest {
    /// Name of the domain. The service converts the name to lower case and to ASCII (`xn--…`).
    #[schema(required, nullable = false, min_length = 1, example = "example.com")]
    domain: Option<String>,
}

/// Claim a domain
///
/// The response contains the TXT record that proves the ownership of the domain when it is
/// published. Until a claim is verified, other accounts can also claim the domain. The account
/// whose claim is verified first gets the domain. If the account already has the domain or claimed
/// it before, the response is 200 and nothing changes.
#[utoipa::path(
    post,
    path = "/api/v1/domains",
    operation_id = "claimDomain",
    tag = "Domains",
    request_body = DomainRequest,
    responses(
        (
            status = 200,
            description = "The account already has the domain",
            body = ClaimedDomain,
            links(
                ("verifyDomain" = (operation_id = "verifyDomain", parameters(("domain" = "$response.body#/domain")))),
                ("getDomain" = (operation_id = "getDomain", parameters(("domain" = "$response.body#/domain")))),
                ("releaseDomain" = (operation_id = "releaseDomain", parameters(("domain" = "$response.body#/domain"))))
            )
        ),
        (
            status = 201,
            description = "The domain was claimed",
            body = ClaimedDomain,
            links(
                ("verifyDomain" = (operation_id = "verifyDomain", parameters(("domain" = "$response.body#/domain")))),
                ("getDomain" = (operation_id = "getDomain", parameters(("domain" = "$response.body#/domain")))),
                ("releaseDomain" = (operation_id = "releaseDomain", parameters(("domain" = "$response.body#/domain"))))
            )
        ),
        (status = 400, description = "`Enter a valid domain you own (e.g. example.com)`: not a domain, a public suffix, or a platform domain", body = latchmail_sdk::Failed),
        (status = 403, description = "`Custom domains aren't included in your plan`, `Your plan's custom domains are all in use`", body = latchmail_sdk::Failed),
        (status = 409, description = "`This domain has already been claimed by another user`", body = latchmail_sdk::Failed)
    )
)]
pub(crate) fn claim_domain(
    host: &(impl Domains + Caller),
    request: &Request,
) -> Result<Reply, Failure> {
    let body: DomainRequest = request.json()?;
    let name = body
        .domain
        .ok_or_else(|| Failure::bad_request(codes::INVALID_DOMAIN, INVALID))?;
    let claimed = host
        .claim_domain(name.trim())
        .map_err(|error| match error {
            Error::Conflict(_) => Failure::conflict(codes::DOMAIN_TAKEN, TAKEN),
            Error::TooLarge(_) => Failure::new(
                403,
                codes::TOO_MANY_DOMAINS,
                "Your plan's custom domains are all in use",
            ),
            error => failure_of(error, host),
        })?;
    match claimed {
        Claimed::Created(domain) => Reply::with_status(201, &ClaimedDomain::from(domain)),
        Claimed::Existing(domain) => Reply::json(&ClaimedDomain::from(domain)),
    }
}

#[cfg(test)]
mod tests {
    use latchmail_sdk::testing::{FakeHost, failure, json, request};

    use super::*;

    const BODY: &str = r#"{"domain": " Ada.Example "}"#;

    fn posted(body: &str) -> Request {
        request(&[], &[], body)
    }

    #[test]
    fn a_new_claim_has_a_challenge_and_an_existing_one_is_returned_unchanged() {
        let host = FakeHost::new();
        let created = claim_domain(&host, &posted(BODY)).unwrap();
        assert_eq!(created.status, 201);
        let expected = serde_json::json!({
            "domain": "ada.example", "status": "pending_verification", "created_at": "2026-11-20 08:00:00", "verified_at": null,
            "verification": {"type": "TXT", "host": "_latchmail-challenge.ada.example", "value": "latchmail-verify=a-challenge"},
        });
        assert_eq!(json(Ok(created)), expected);

        let again = claim_domain(&host, &posted(BODY)).unwrap();
        assert_eq!(again.status, 200);
        assert_eq!(json(Ok(again)), expected);
        host.prove_domain("ada.example");
        host.verify_domain("ada.example").unwrap();
        let again = json(claim_domain(&host, &posted(BODY)));
        assert_eq!(again["status"], "active");
        assert!(again.get("verification").is_none());
    }

    #[test]
    fn an_invalid_name_is_refused_before_the_host_is_called() {
        let host = FakeHost::new();
        for (body, text) in [
            ("", "Invalid JSON body"),
            ("{}", INVALID),
            (r#"{"domain": null}"#, INVALID),
            (r#"{"domain": 7}"#, "domain must be a string"),
            (r#"{"domain": ["ada.example"]}"#, "domain must be a string"),
        ] {
            let refused = claim_domain(&host, &posted(body)).unwrap_err();
            assert_eq!(refused, failure(400, text), "{body}");
        }
        assert_eq!(host.calls(), 0);
    }

    #[test]
    fn each_error_of_the_host_has_its_text() {
        for (error, status, text) in [
            (Error::invalid(codes::INVALID_DOMAIN, "x"), 400, INVALID),
            (Error::conflict(codes::DOMAIN_TAKEN, "x"), 409, TAKEN),
            (
                Error::denied(
                    codes::CUSTOM_DOMAINS_NOT_INCLUDED,
                    "Custom domains aren't included in your plan",
                ),
                403,
                "Custom domains aren't included in your plan",
            ),
            (
                Error::too_large(codes::TOO_MANY_DOMAINS, "x"),
                403,
                "Your plan's custom domains are all in use",
            ),
            (Error::Internal, 500, "The operation could not be completed"),
        ] {
            let host = FakeHost::failing(error);
            let refused = claim_domain(&host, &posted(BODY)).unwrap_err();
            assert_eq!(refused, failure(status, text));
        }
    }
}
