//! GET `/api/v1/domains`: lists the account's domains and returns the maximum number of domains in
//! the account's plan.

use latchmail_sdk::capability::{Caller, Domains};
use latchmail_sdk::{Failure, Reply, Request};
use serde::Serialize;
use utoipa::ToSchema;

use crate::failure::failure_of;
use crate::model::Domain;

/// The domains of an account.
#[derive(Serialize, ToSchema)]
pub(crate) struct DomainList {
    /// The domains, newest first, including pending claims.
    domains: Vec<Domain>,
    /// Maximum number of domains in the account's plan.
    limit: u32,
    /// Number of domains that the account has, including pending claims.
    used: usize,
}

/// List custom domains
///
/// Returns the domains, newest first, and the maximum number of domains in the account's plan.
#[utoipa::path(
    get,
    path = "/api/v1/domains",
    operation_id = "listDomains",
    tag = "Domains",
    responses((
        status = 200,
        description = "The domains",
        body = DomainList,
        links(
            ("verifyDomain" = (operation_id = "verifyDomain", parameters(("domain" = "$response.body#/domains/0/domain")))),
            ("getDomain" = (operation_id = "getDomain", parameters(("domain" = "$response.body#/domains/0/domain")))),
            ("releaseDomain" = (operation_id = "releaseDomain", parameters(("domain" = "$response.body#/domains/0/domain"))))
        )
    ))
)]
pub(crate) fn list_domains(host: &(impl Domains + Caller), _: &Request) -> Result<Reply, Failure> {
    let found = host
        .list_domains()
        .map_err(|error| failure_of(error, host))?;
    Reply::json(&DomainList {
        used: found.domains.len(),
        domains: found.domains.iter().map(Domain::from).collect(),
        limit: found.limit,
    })
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use latchmail_sdk::testing::{FakeHost, json};

    use super::*;

    #[test]
    fn domains_are_listed_with_the_limit_of_the_plan() {
        let host = FakeHost::new();
        host.claim_domain("first.example").unwrap();
        host.claim_domain("second.example").unwrap();
        host.advance(Duration::from_secs(1));
        host.prove_domain("first.example");
        host.verify_domain("first.example").unwrap();
        let expected = serde_json::json!({
            "domains": [
                {"domain": "second.example", "status": "pending_verification", "created_at": "2026-11-20 08:00:00", "verified_at": null},
                {"domain": "first.example", "status": "active", "created_at": "2026-11-20 08:00:00", "verified_at": "2026-11-20 08:00:01"},
            ],
            "limit": 5,
            "used": 2,
        });
        assert_eq!(json(list_domains(&host, &Request::default())), expected);
    }
}
