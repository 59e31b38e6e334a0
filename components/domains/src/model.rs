//! JSON types of domains.

use latchmail_sdk::capability::{self, Challenge, Expected, Inspected};
use latchmail_sdk::time::sql;
use serde::Serialize;
use utoipa::ToSchema;

/// A verified domain of the account, or a domain that the account claims.
#[derive(Serialize, ToSchema)]
pub(crate) struct Domain {
    /// Name in lower case and ASCII (`xn--…`).
    #[serde(rename = "domain")]
    name: String,
    /// State of the claim.
    #[schema(value_type = DomainStatus)]
    status: &'static str,
    /// Time of the claim, `YYYY-MM-DD HH:MM:SS` in UTC.
    created_at: String,
    /// Time of the verification, `YYYY-MM-DD HH:MM:SS` in UTC. `null` if the claim is not verified.
    verified_at: Option<String>,
}

/// State of the claim to a domain.
#[derive(ToSchema)]
#[serde(rename_all = "snake_case")]
#[expect(dead_code, reason = "used only for the API description")]
pub(crate) enum DomainStatus {
    PendingVerification,
    Active,
}

/// Purpose of a DNS record.
#[derive(ToSchema)]
#[serde(rename_all = "UPPERCASE")]
#[expect(dead_code, reason = "used only for the API description")]
pub(crate) enum DomainRecordKind {
    Mx,
    Spf,
    Dkim,
    Dmarc,
}

/// The DNS record that proves the ownership of a domain.
#[derive(Serialize, ToSchema)]
pub(crate) struct Verification {
    /// Type of the record: always `TXT`.
    r#type: &'static str,
    /// Host name of the record.
    host: String,
    /// Value of the record.
    value: String,
}

/// A claimed domain.
#[derive(Serialize, ToSchema)]
pub(crate) struct ClaimedDomain {
    #[serde(flatten)]
    domain: Domain,
    /// Record that must be published for the verification. Absent if the domain is verified.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    verification: Option<Verification>,
}

/// A DNS record that the domain's mail needs.
#[derive(Serialize, ToSchema)]
pub(crate) struct DomainRecord {
    /// Purpose of the record.
    #[schema(value_type = DomainRecordKind)]
    kind: String,
    /// Host name of the record.
    host: String,
    /// Value of the record.
    value: String,
    /// Whether the record is published with this value; `null` if the check failed.
    ok: Option<bool>,
}

/// A domain with the current state of its records.
#[derive(Serialize, ToSchema)]
pub(crate) struct InspectedDomain {
    #[serde(flatten)]
    domain: ClaimedDomain,
    /// The DNS records of the domain. The list contains the `DKIM` record only if the domain is
    /// active.
    records: Vec<DomainRecord>,
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

impl From<Expected> for DomainRecord {
    fn from(record: Expected) -> Self {
        Self {
            kind: record.kind,
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
            records: inspected
                .records
                .into_iter()
                .map(DomainRecord::from)
                .collect(),
        }
    }
}
