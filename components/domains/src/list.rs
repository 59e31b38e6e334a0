//! GET `/api/v1/domains`: the account's domains and what its plan allows.

use latchmail_sdk::capability::{Caller, Domains};
use latchmail_sdk::{Failure, Reply, Request};
use serde::Serialize;
use utoipa::ToSchema;

use crate::failure::told;
use crate::model::Domain;

/// The domains of an account.
#[derive(Serialize, ToSchema)]
pub(crate) struct DomainList {
    /// Newest first, pending claims among them.
    domains: Vec<Domain>,
    /// How many the account's plan allows.
    limit: u32,
    /// How many of them are in use, pending claims among them.
    used: usize,
}

/// List custom domains
///
/// Newest first, with what the account's plan allows.
#[utoipa::path(
    get,
    path = "/api/v1/domains",
    operation_id = "listDomains",
    tag = "Domains",
    responses((status = 200, description = "The domains", body = DomainList))
)]
pub(crate) fn list_domains(host: &(impl Domains + Caller), _: &Request) -> Result<Reply, Failure> {
    let held = host.list_domains().map_err(|error| told(error, host))?;
    Reply::json(&DomainList {
        used: held.domains.len(),
        domains: held.domains.iter().map(Domain::from).collect(),
        limit: held.limit,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{FakeHost, active, asked, json, pending};

    #[test]
    fn domains_are_listed_with_what_the_plan_allows() {
        let host = FakeHost {
            held: vec![pending(), active()],
            ..FakeHost::default()
        };
        let expected = serde_json::json!({
            "domains": [
                {"domain": "ada.example", "status": "pending_verification", "created_at": "2026-11-20 08:00:00", "verified_at": null},
                {"domain": "ada.example", "status": "active", "created_at": "2026-11-20 08:00:00", "verified_at": "2026-11-20 08:00:01"},
            ],
            "limit": 5,
            "used": 2,
        });
        assert_eq!(json(list_domains(&host, &asked(""))), expected);
    }
}
