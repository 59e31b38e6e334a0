//! GET `/api/v1/aliases/domains`: lists the domains on which the caller can create aliases.

use latchmail_sdk::capability::{Aliases, Caller};
use latchmail_sdk::{Failure, Reply, Request};
use serde::Serialize;
use utoipa::ToSchema;

use crate::MISSING;

/// A domain on which aliases are allowed.
#[derive(Serialize, ToSchema)]
pub(crate) struct AliasDomain {
    /// Name in lower case and ASCII.
    domain: String,
}

/// The domains on which aliases are allowed.
#[derive(Serialize, ToSchema)]
pub(crate) struct AliasDomainList {
    /// The platform domains, then the account's own active domains.
    domains: Vec<AliasDomain>,
}

/// List the domains for aliases
#[utoipa::path(
    get,
    path = "/api/v1/aliases/domains",
    operation_id = "listAliasDomains",
    tag = "Aliases",
    responses((
        status = 200,
        description = "The domains",
        body = AliasDomainList,
        links(
            ("checkAlias" = (operation_id = "checkAlias", parameters(("domain" = "$response.body#/domains/0/domain"))))
        )
    ))
)]
pub(crate) fn list_alias_domains(
    host: &(impl Aliases + Caller),
    _: &Request,
) -> Result<Reply, Failure> {
    let domains = host
        .alias_domains()
        .map_err(|error| Failure::of(error, MISSING, host))?;
    let domains = domains.into_iter();
    Reply::json(&AliasDomainList {
        domains: domains.map(|domain| AliasDomain { domain }).collect(),
    })
}

#[cfg(test)]
mod tests {
    use latchmail_sdk::capability::Domains as _;
    use latchmail_sdk::testing::{FakeHost, json};

    use super::*;

    #[test]
    fn domains_are_returned_in_the_order_of_the_host() {
        let host = FakeHost::new();
        host.claim_domain("ada.example").unwrap();
        host.prove_domain("ada.example");
        host.verify_domain("ada.example").unwrap();
        let expected = serde_json::json!({ "domains": [
            { "domain": "example.test" }, { "domain": "second.test" }, { "domain": "ada.example" },
        ] });
        assert_eq!(
            json(list_alias_domains(&host, &Request::default())),
            expected
        );
    }
}
