//! GET `/api/v1/domains/{domain}`: returns a domain and the state of its records.

use latchmail_sdk::capability::{Caller, Domains};
use latchmail_sdk::{Failure, Reply, Request};

use crate::failure::told;
use crate::model::InspectedDomain;

/// Read a domain
///
/// Looks up each record of the domain in the DNS.
#[utoipa::path(
    get,
    path = "/api/v1/domains/{domain}",
    operation_id = "getDomain",
    tag = "Domains",
    params(("domain" = String, Path, description = "The domain")),
    responses(
        (
            status = 200,
            description = "The domain and its records",
            body = InspectedDomain,
            links(
                ("verifyDomain" = (operation_id = "verifyDomain", parameters(("domain" = "$response.body#/domain")))),
                ("releaseDomain" = (operation_id = "releaseDomain", parameters(("domain" = "$response.body#/domain"))))
            )
        ),
        (status = 404, description = "`Domain not found`", body = latchmail_sdk::Failed),
        (status = 503, description = "`Couldn't read DNS right now, try again shortly`: too many lookups are in progress", body = latchmail_sdk::Failed)
    )
)]
pub(crate) fn get_domain(
    host: &(impl Domains + Caller),
    request: &Request,
) -> Result<Reply, Failure> {
    let inspected = host
        .inspect_domain(request.path("domain"))
        .map_err(|error| told(error, host))?;
    Reply::json(&InspectedDomain::from(inspected))
}

#[cfg(test)]
mod tests {
    use latchmail_sdk::capability::Error;

    use super::*;
    use crate::testing::{FakeHost, asked, json, pending};

    #[test]
    fn a_domain_is_told_with_its_records() {
        let answer = json(get_domain(&FakeHost::default(), &asked("ada.example")));
        let expected = serde_json::json!({
            "domain": "ada.example", "status": "active", "created_at": "2026-11-20 08:00:00", "verified_at": "2026-11-20 08:00:01",
            "records": [
                {"kind": "MX", "host": "ada.example", "value": "mx", "ok": true},
                {"kind": "SPF", "host": "ada.example", "value": "spf", "ok": false},
                {"kind": "DKIM", "host": "ada.example", "value": "dkim", "ok": null},
                {"kind": "DMARC", "host": "ada.example", "value": "dmarc", "ok": true},
            ],
        });
        assert_eq!(answer, expected);
        let host = FakeHost {
            held: vec![pending()],
            ..FakeHost::default()
        };
        let answer = json(get_domain(&host, &asked("ada.example")));
        assert_eq!(answer["status"], "pending_verification");
        assert_eq!(answer["verification"]["value"], "prove=it");
    }

    #[test]
    fn one_that_is_not_there_is_not_found() {
        let host = FakeHost {
            fails: Some(Error::NotFound),
            ..FakeHost::default()
        };
        let missing = get_domain(&host, &asked("ada.example")).unwrap_err();
        assert_eq!(missing, Failure::not_found("Domain not found"));
    }
}
