//! Checks the MX, SPF, DKIM and DMARC records of the domains in `registration.domains`. Custom
//! domains of accounts are not checked.

use std::collections::HashMap;

use futures_util::future::join_all;
use latchmail_core::config::{self, Config};
use latchmail_core::error::StartError;
use latchmail_directory::domains::PublicKey;
use latchmail_net::dns::{Dns, Kind, Record};

use super::TIMEOUT;
use super::finding::Finding;
use super::user::ServiceUser;

/// The name of findings that do not concern a single record.
const CHECK: &str = "dns";

/// Checks the records of all domains concurrently. Each domain has four findings.
pub(super) async fn check(config: &Config, user: &ServiceUser) -> Vec<Finding> {
    let domains = &config.registration.domains;
    if domains.is_empty() {
        return vec![Finding::warning(
            CHECK,
            "no domain is configured",
            "set `registration.domains`",
        )];
    }
    let settings = config::Dns {
        // The lookups of a domain take at most twice the timeout of one lookup.
        timeout: config.dns.timeout.min(TIMEOUT / 2),
        ..config.dns.clone()
    };
    let dns = match Dns::new(&settings, &config.mail_host()) {
        Ok(dns) => dns,
        Err(error) => {
            let remedy = "correct the section `[dns]` of the configuration";
            return vec![Finding::failed(CHECK, error.to_string(), remedy)];
        }
    };
    let keys = latchmail_dkim::public_keys(&config.dkim, user.id);
    let checks = domains
        .iter()
        .map(|domain| check_domain(&dns, domain, &keys));
    join_all(checks).await.concat()
}

async fn check_domain(
    dns: &Dns,
    domain: &str,
    keys: &Result<HashMap<String, PublicKey>, StartError>,
) -> Vec<Finding> {
    let key = keys.as_ref().ok().and_then(|keys| keys.get(domain));
    let dkim = key.map(|key| (key.selector.as_str(), key.key.as_str()));
    let records = dns.check_records(domain, dkim).await;
    let mut findings: Vec<Finding> = records.iter().map(assess).collect();
    if key.is_none() {
        // The last finding is DMARC. Insert the finding about DKIM before it.
        let position = findings.len().saturating_sub(1);
        findings.insert(position, missing_key(domain, keys.as_ref().err()));
    }
    findings
}

/// Reports a domain without a DKIM key. `error` is the reason why the configured keys cannot be
/// read.
fn missing_key(domain: &str, error: Option<&StartError>) -> Finding {
    let check = check_name(Kind::Dkim);
    match error {
        Some(error) => Finding::failed(
            check,
            format!("{domain}: {error}"),
            "correct the section `[dkim.keys]` or the mode of the file, see docs/dkim.md",
        ),
        None => Finding::warning(
            check,
            format!("{domain} has no DKIM key, so its mail is not signed"),
            "create a key and configure it in `[dkim.keys.NAME]`, see docs/dkim.md",
        ),
    }
}

fn assess(record: &Record) -> Finding {
    let check = check_name(record.kind);
    let (name, host) = (record.kind.name(), &record.host);
    let publish = format!("publish the {name} record `{}` at {host}", record.value);
    match (record.ok, record.kind) {
        (Some(true), _) => Finding::ok(check, format!("{host} has the record")),
        (Some(false), Kind::Mx | Kind::Spf) => Finding::warning(
            check,
            format!("{host} has no {name} record that names the mail server"),
            format!("{publish}, or correct `dns.mail_host`"),
        ),
        (Some(false), Kind::Dkim | Kind::Dmarc) => {
            Finding::warning(check, format!("{host} has no valid {name} record"), publish)
        }
        (None, _) => Finding::warning(
            check,
            format!("the {name} record of {host} cannot be looked up"),
            "check `dns.server` and the network, and run the command again",
        ),
    }
}

const fn check_name(kind: Kind) -> &'static str {
    match kind {
        Kind::Mx => "mx",
        Kind::Spf => "spf",
        Kind::Dkim => "dkim",
        Kind::Dmarc => "dmarc",
    }
}

#[cfg(test)]
mod tests {
    use super::super::finding::Status;
    use super::*;

    #[test]
    fn a_missing_record_is_a_warning_with_the_record_to_publish() {
        let record = |ok| Record {
            kind: Kind::Mx,
            host: "example.com".into(),
            value: "mail.example.com".into(),
            ok,
        };
        assert_eq!(assess(&record(Some(true))).status, Status::Ok);
        let missing = assess(&record(Some(false)));
        assert_eq!(missing.status, Status::Warning);
        let remedy = missing.remedy.unwrap();
        assert!(
            remedy.contains("`mail.example.com` at example.com"),
            "{remedy}"
        );
        assert_eq!(assess(&record(None)).status, Status::Warning);
    }

    #[test]
    fn an_unreadable_key_fails_and_a_missing_key_is_a_warning() {
        let error = StartError::new("cannot read the key file");
        assert_eq!(
            missing_key("a.example", Some(&error)).status,
            Status::Failed
        );
        assert_eq!(missing_key("a.example", None).status, Status::Warning);
    }
}
