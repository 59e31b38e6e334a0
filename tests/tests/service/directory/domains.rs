//! Custom domains, from a claim to mail, with a real DNS server.

mod claims;
mod mail;
mod ownership;
mod plans;
mod records;
mod verification;

use std::time::Duration;

use latchmail_tests::{Nameserver, Person, Response, Service, Setup};
use serde_json::{Value, json};

const DOMAINS: &str = "/api/v1/domains";
const EXAMPLE: &str = "ada.example";
const INVALID: &str = "Enter a valid domain you own (e.g. example.com)";
const TAKEN: &str = "This domain has already been claimed by another user";
const MISSING: &str = "Verification TXT not found yet — DNS can take a while to propagate";
const UNKNOWN: &str = "Domain not found";
const MEMORY: Duration = Duration::from_secs(30);

fn text<'a>(value: &'a Value, field: &str) -> &'a str {
    value[field]
        .as_str()
        .unwrap_or_else(|| panic!("no {field} in {value}"))
}

async fn claim(person: &Person<'_>, domain: &str) -> Response {
    person.post(DOMAINS, &json!({ "domain": domain })).await
}

async fn verify(person: &Person<'_>, domain: &str) -> Response {
    let line = format!("POST {DOMAINS}/{domain}/verify");
    person.send(&line).await
}

async fn read(person: &Person<'_>, domain: &str) -> Response {
    person.send(&format!("GET {DOMAINS}/{domain}")).await
}

async fn release(person: &Person<'_>, domain: &str) -> Response {
    person.send(&format!("DELETE {DOMAINS}/{domain}")).await
}

async fn list(person: &Person<'_>) -> Value {
    person.send(&format!("GET {DOMAINS}")).await.succeeds(200)
}

/// A service and a DNS server that share a zone.
struct TestEnv {
    service: Service,
    dns: Nameserver,
}

impl TestEnv {
    async fn start() -> Self {
        Self::with("").await
    }

    async fn with(settings: &str) -> Self {
        Self::of(Setup::default().with(settings)).await
    }

    /// Has its own mail servers, because Postfix processes remember domains.
    async fn with_own_mail() -> Self {
        Self::of(Setup::default().with_own_mail()).await
    }

    async fn of(setup: Setup) -> Self {
        let dns = Nameserver::start().await;
        let setup = setup.with(&format!("dns.server = '{}'", dns.address));
        let service = setup.start().await;
        Self { service, dns }
    }

    /// Publishes the record of a claim.
    fn publish_record(&self, claimed: &Value) {
        let wanted = &claimed["verification"];
        self.dns.txt(text(wanted, "host"), &[text(wanted, "value")]);
    }

    /// Claims, publishes and verifies a domain.
    async fn active(&self, person: &Person<'_>, domain: &str) -> Value {
        self.publish_record(&claim(person, domain).await.succeeds(201));
        verify(person, domain).await.succeeds(200)
    }
}
