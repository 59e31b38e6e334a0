//! POST `/api/v1/domains/{domain}/verify`: verifies a claim.

use latchmail_sdk::capability::{Caller, Domains, Verification};
use latchmail_sdk::{Failure, Reply, Request, codes};

use crate::failure::{TAKEN, failure_of};
use crate::model::InspectedDomain;

const MISSING: &str = "Verification TXT not found yet — DNS can take a while to propagate";

/// Verify a domain
///
/// Looks up the TXT record of the claim in the DNS and activates the domain if the record is found.
/// The service then accepts mail for the domain. If the record is not found, this result is cached
/// for 30 seconds. Verifying an active domain returns the domain and its records.
#[utoipa::path(
    post,
    path = "/api/v1/domains/{domain}/verify",
    operation_id = "verifyDomain",
    tag = "Domains",
    params(("domain" = String, Path, description = "The domain")),
    responses(
        (
            status = 200,
            description = "The domain is active; it is returned with its records",
            body = InspectedDomain,
            links(
                ("getDomain" = (operation_id = "getDomain", parameters(("domain" = "$response.body#/domain")))),
                ("releaseDomain" = (operation_id = "releaseDomain", parameters(("domain" = "$response.body#/domain"))))
            )
        ),
        (status = 400, description = "`Verification TXT not found yet — DNS can take a while to propagate`", body = latchmail_sdk::Failed),
        (status = 404, description = "`Domain not found`", body = latchmail_sdk::Failed),
        (status = 409, description = "`This domain has already been claimed by another user`: another account verified it first", body = latchmail_sdk::Failed),
        (status = 503, description = "`Couldn't read DNS right now, try again shortly`", body = latchmail_sdk::Failed)
    )
)]
pub(crate) fn verify_domain(
    host: &(impl Domains + Caller),
    request: &Request,
) -> Result<Reply, Failure> {
    let verification = host
        .verify_domain(request.path("domain"))
        .map_err(|error| failure_of(error, host))?;
    match verification {
        Verification::Active(inspected) => Reply::json(&InspectedDomain::from(inspected)),
        Verification::Missing => Err(Failure::bad_request(
            codes::VERIFICATION_RECORD_NOT_FOUND,
            MISSING,
        )),
        Verification::Taken => Err(Failure::conflict(codes::DOMAIN_TAKEN, TAKEN)),
    }
}

#[cfg(test)]
mod tests {
    use latchmail_sdk::capability::Error;
    use latchmail_sdk::testing::{FakeHost, json, request};

    use super::*;

    fn verify(host: &FakeHost) -> Result<Reply, Failure> {
        verify_domain(host, &request(&[("domain", "ada.example")], &[], ""))
    }

    #[test]
    fn each_outcome_has_its_response() {
        let host = FakeHost::new();
        for account in ["ada@example.test", "bob@example.test"] {
            host.sign_in(account);
            host.claim_domain("ada.example").unwrap();
            let missing = verify(&host).unwrap_err();
            assert_eq!(
                missing,
                Failure::bad_request(codes::VERIFICATION_RECORD_NOT_FOUND, MISSING)
            );
            host.prove_domain("ada.example");
        }
        assert_eq!(json(verify(&host))["status"], "active");
        host.sign_in("ada@example.test");
        assert_eq!(
            verify(&host).unwrap_err(),
            Failure::conflict(codes::DOMAIN_TAKEN, TAKEN)
        );
    }

    #[test]
    fn a_failed_dns_lookup_can_be_retried() {
        let refused = verify(&FakeHost::failing(Error::Unavailable)).unwrap_err();
        assert_eq!(refused.status, 503);
        assert_eq!(
            refused.text,
            "Couldn't read DNS right now, try again shortly"
        );
        assert!(refused.retry_after.is_some());
    }
}
