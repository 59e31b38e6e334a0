//! GET `/api/v1/domains/{domain}`: returns a domain and the state of its DNS records.

use latchmail_sdk::capability::{Caller, Domains};
use latchmail_sdk::{Failure, Reply, Request};

use crate::failure::failure_of;
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
        .map_err(|error| failure_of(error, host))?;
    Reply::json(&InspectedDomain::from(inspected))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use latchmail_sdk::capability::Expected;
    use latchmail_sdk::codes;
    use latchmail_sdk::testing::{FakeHost, json, request};

    use super::*;

    fn record(kind: &str, value: &str, ok: Option<bool>) -> Expected {
        Expected {
            kind: kind.into(),
            host: "ada.example".into(),
            value: value.into(),
            ok,
        }
    }

    #[test]
    fn a_domain_is_returned_with_its_records() {
        let host = FakeHost::new();
        host.claim_domain("ada.example").unwrap();
        let read = request(&[("domain", "ada.example")], &[], "");
        let pending = json(get_domain(&host, &read));
        assert_eq!(pending["status"], "pending_verification");
        assert_eq!(
            pending["verification"]["value"],
            "latchmail-verify=a-challenge"
        );
        host.advance(Duration::from_secs(1));
        host.prove_domain("ada.example");
        host.verify_domain("ada.example").unwrap();
        host.set_records(vec![
            record("MX", "mx", Some(true)),
            record("SPF", "spf", Some(false)),
            record("DKIM", "dkim", None),
            record("DMARC", "dmarc", Some(true)),
        ]);
        let expected = serde_json::json!({
            "domain": "ada.example", "status": "active", "created_at": "2026-11-20 08:00:00", "verified_at": "2026-11-20 08:00:01",
            "records": [
                {"kind": "MX", "host": "ada.example", "value": "mx", "ok": true},
                {"kind": "SPF", "host": "ada.example", "value": "spf", "ok": false},
                {"kind": "DKIM", "host": "ada.example", "value": "dkim", "ok": null},
                {"kind": "DMARC", "host": "ada.example", "value": "dmarc", "ok": true},
            ],
        });
        assert_eq!(json(get_domain(&host, &read)), expected);
    }

    #[test]
    fn an_unknown_domain_is_not_found() {
        let read = request(&[("domain", "ada.example")], &[], "");
        let missing = get_domain(&FakeHost::new(), &read).unwrap_err();
        assert_eq!(
            missing,
            Failure::not_found(codes::DOMAIN_NOT_FOUND, "Domain not found")
        );
    }
}
