//! Domains as JSON (specification, section 2).

use latchmail_sdk::capability::{self, Challenge, Expected, Inspected, RecordKind};
use latchmail_sdk::time::sql;
use serde::Serialize;
use utoipa::ToSchema;

/// A domain of one's own, or the claim of one.
#[derive(Serialize, ToSchema)]
pub(crate) struct Domain {
    /// Its name, in lower case and ASCII (`xn--…`).
    #[serde(rename = "domain")]
    name: String,
    /// `pending_verification` or `active`.
    status: &'static str,
    /// When it was claimed, `YYYY-MM-DD HH:MM:SS` in UTC.
    created_at: String,
    /// When it was verified, `YYYY-MM-DD HH:MM:SS` in UTC; `null` before.
    verified_at: Option<String>,
}

/// What proves that a domain is one's own.
#[derive(Serialize, ToSchema)]
pub(crate) struct Verification {
    /// `TXT`.
    r#type: &'static str,
    /// Where the record is to be published.
    host: String,
    /// What it is to say.
    value: String,
}

/// A domain that was claimed.
#[derive(Serialize, ToSchema)]
pub(crate) struct ClaimedDomain {
    #[serde(flatten)]
    domain: Domain,
    /// What is to be published before it is verified; absent once it is.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    verification: Option<Verification>,
}

/// A record that a domain's mail needs.
#[derive(Serialize, ToSchema)]
pub(crate) struct Record {
    /// `MX`, `SPF`, `DKIM` or `DMARC`.
    kind: &'static str,
    /// Where it is to be published.
    host: String,
    /// What it is to say.
    value: String,
    /// Whether it is found as published; `null` where that could not be checked.
    ok: Option<bool>,
}

/// A domain with the state of its records at this moment.
#[derive(Serialize, ToSchema)]
pub(crate) struct InspectedDomain {
    #[serde(flatten)]
    domain: ClaimedDomain,
    /// The records; that of its key (`DKIM`) once it is active.
    records: Vec<Record>,
}

impl From<&capability::Domain> for Domain {
    fn from(domain: &capability::Domain) -> Self {
        Self {
            name: domain.name.clone(),
            status: match domain.verified_at {
                Some(_) => "active",
                None => "pending_verification",
            },
            created_at: sql(domain.created_at),
            verified_at: domain.verified_at.map(sql),
        }
    }
}

impl From<Challenge> for Verification {
    fn from(challenge: Challenge) -> Self {
        Self {
            r#type: "TXT",
            host: challenge.host,
            value: challenge.value,
        }
    }
}

impl From<capability::Domain> for ClaimedDomain {
    fn from(domain: capability::Domain) -> Self {
        Self {
            domain: Domain::from(&domain),
            verification: domain.challenge.map(Verification::from),
        }
    }
}

impl From<Expected> for Record {
    fn from(record: Expected) -> Self {
        Self {
            kind: match record.kind {
                RecordKind::Mx => "MX",
                RecordKind::Spf => "SPF",
                RecordKind::Dkim => "DKIM",
                RecordKind::Dmarc => "DMARC",
            },
            host: record.host,
            value: record.value,
            ok: record.ok,
        }
    }
}

impl From<Inspected> for InspectedDomain {
    fn from(inspected: Inspected) -> Self {
        Self {
            domain: inspected.domain.into(),
            records: inspected.records.into_iter().map(Record::from).collect(),
        }
    }
}
