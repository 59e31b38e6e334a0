//! Formats domains as text and as JSON.

use std::fmt::Write as _;

use latchmail_accounts::domains::Challenge;
use latchmail_directory::domains::platform_domains::{InUse, PlatformDomain};
use latchmail_directory::domains::{Claim, Domain};
use latchmail_net::dns::Record;
use latchmail_terminal::output::{aligned, escape, format_time};
use serde_json::{Value, json};

/// All details of a domain.
pub(crate) struct DomainDetail<'a> {
    pub(crate) name: &'a str,
    pub(crate) platform: Option<&'a PlatformDomain>,
    pub(crate) claims: &'a [Claim],
    /// Whether the DNS contains the challenge, for each claim. The value is `None` if the claim is
    /// already verified, or if the lookup failed.
    pub(crate) published: &'a [Option<bool>],
    pub(crate) in_use: InUse,
    pub(crate) reserved: &'a [String],
    pub(crate) records: &'a [Record],
}

pub(crate) fn platform_row(domain: &PlatformDomain) -> [String; 4] {
    let since = domain.added_at.map_or_else(|| "-".into(), format_time);
    [
        domain.domain.clone(),
        platform_state(domain).into(),
        "-".into(),
        since,
    ]
}

pub(crate) fn claim_row(claim: &Claim) -> [String; 4] {
    let domain = &claim.domain;
    let since = domain.verified_at.unwrap_or(domain.created_at);
    [
        domain.name.clone(),
        state(domain).into(),
        claim.owner.clone(),
        since.to_string(),
    ]
}

pub(crate) fn platform_json(domain: &PlatformDomain) -> Value {
    json!({
        "domain": domain.domain,
        "state": "platform",
        "configured": domain.added_at.is_none(),
        "addedAt": domain.added_at.map(format_time),
    })
}

pub(crate) fn claim_json(claim: &Claim) -> Value {
    let domain = &claim.domain;
    json!({
        "domain": domain.name,
        "state": state(domain),
        "account": claim.owner,
        "createdAt": domain.created_at,
        "verifiedAt": domain.verified_at,
    })
}

impl DomainDetail<'_> {
    pub(crate) fn text(&self) -> String {
        let mut text = self.name.to_owned();
        if let Some(platform) = self.platform {
            let _ = write!(text, "\n  {:14}{}", "state", platform_state(platform));
        }
        for (claim, published) in self.claims.iter().zip(self.published) {
            let domain = &claim.domain;
            let _ = write!(text, "\n  {:14}{}", state(domain), claim.owner);
            let _ = write!(text, "\n  {:14}{}", "claimed", domain.created_at);
            match (domain.verified_at, Challenge::of(domain)) {
                (Some(at), _) => {
                    let _ = write!(text, "\n  {:14}{at}", "verified");
                }
                (None, Some(challenge)) => {
                    let Challenge { host, value } = challenge;
                    let _ = write!(
                        text,
                        "\n  {:14}{host} TXT {value}  ({})",
                        "challenge",
                        found(*published)
                    );
                }
                (None, None) => {}
            }
        }
        let InUse { accounts, aliases } = self.in_use;
        let _ = write!(text, "\n  {:14}{accounts}", "accounts");
        let _ = write!(text, "\n  {:14}{aliases}", "aliases");
        for address in self.reserved {
            let _ = write!(text, "\n  {:14}{}", "held", escape(address));
        }
        text.push_str("\nrecords");
        let rows: Vec<[String; 4]> = self.records.iter().map(record_row).collect();
        for line in aligned(&rows) {
            let _ = write!(text, "\n  {line}");
        }
        text
    }

    pub(crate) fn json(&self) -> Value {
        let claims = self
            .claims
            .iter()
            .zip(self.published)
            .map(|(claim, published)| {
                let mut json = claim_json(claim);
                if let Some(Challenge { host, value }) = Challenge::of(&claim.domain) {
                    json["challenge"] = json!({ "host": host, "value": value, "ok": published });
                }
                json
            });
        json!({
            "domain": self.name,
            "platform": self.platform.map(platform_json),
            "claims": claims.collect::<Vec<_>>(),
            "accounts": self.in_use.accounts,
            "aliases": self.in_use.aliases,
            "held": self.reserved,
            "records": self.records.iter().map(record_json).collect::<Vec<_>>(),
        })
    }
}

fn record_row(record: &Record) -> [String; 4] {
    [
        record.kind.name().into(),
        found(record.ok).into(),
        record.host.clone(),
        record.value.clone(),
    ]
}

fn record_json(record: &Record) -> Value {
    json!({
        "kind": record.kind.name(),
        "host": record.host,
        "value": record.value,
        "ok": record.ok,
    })
}

const fn found(ok: Option<bool>) -> &'static str {
    match ok {
        Some(true) => "found",
        Some(false) => "not found",
        None => "unknown",
    }
}

const fn state(domain: &Domain) -> &'static str {
    match domain.verified_at {
        Some(_) => "active",
        None => "pending",
    }
}

const fn platform_state(domain: &PlatformDomain) -> &'static str {
    match domain.added_at {
        Some(_) => "platform, added",
        None => "platform, configured",
    }
}
