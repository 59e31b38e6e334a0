//! DELETE `/api/v1/domains/{domain}`: releases a domain.

use latchmail_sdk::capability::{Caller, Domains, Error};
use latchmail_sdk::{Failure, Reply, Request, codes};

use crate::failure::failure_of;

/// Release a domain
///
/// The service then refuses mail for the domain, and destroys the DKIM key of the domain. Other
/// accounts can claim the domain.
#[utoipa::path(
    delete,
    path = "/api/v1/domains/{domain}",
    operation_id = "releaseDomain",
    tag = "Domains",
    params(("domain" = String, Path, description = "The domain")),
    responses(
        (status = 200, description = "The domain was released", body = latchmail_sdk::Succeeded),
        (status = 404, description = "`Domain not found`", body = latchmail_sdk::Failed),
        (status = 409, description = "`Remove all aliases on this domain first`", body = latchmail_sdk::Failed)
    )
)]
pub(crate) fn release_domain(
    host: &(impl Domains + Caller),
    request: &Request,
) -> Result<Reply, Failure> {
    host.release_domain(request.path("domain"))
        .map_err(|error| match error {
            Error::Conflict(_) => Failure::conflict(
                codes::DOMAIN_HAS_ALIASES,
                "Remove all aliases on this domain first",
            ),
            error => failure_of(error, host)
                .failing(codes::DOMAIN_DELETE_FAILED, "Failed to delete domain"),
        })?;
    Reply::success()
}

#[cfg(test)]
mod tests {
    use latchmail_sdk::testing::{FakeHost, failure, json, request};

    use super::*;

    #[test]
    fn a_domain_is_released() {
        let host = FakeHost::new();
        host.claim_domain("ada.example").unwrap();
        let release = request(&[("domain", "ada.example")], &[], "");
        let released = json(release_domain(&host, &release));
        assert_eq!(released, serde_json::json!({"success": true}));
        assert!(host.list_domains().unwrap().domains.is_empty());
    }

    #[test]
    fn each_error_of_the_host_has_its_status() {
        for (error, status, text) in [
            (
                Error::conflict(codes::DOMAIN_HAS_ALIASES, "x"),
                409,
                "Remove all aliases on this domain first",
            ),
            (Error::NotFound, 404, "Domain not found"),
            (Error::Internal, 500, "Failed to delete domain"),
        ] {
            let release = request(&[("domain", "ada.example")], &[], "");
            let refused = release_domain(&FakeHost::failing(error), &release).unwrap_err();
            assert_eq!(refused, failure(status, text));
        }
    }
}
