//! The interface `domains`, for the caller's custom domains.

use crate::api::problem;
use latchmail_accounts::domains::{Challenge, Claim, Inspected, Inspection, Verification};
use latchmail_bindings::HostError;
use latchmail_bindings::latchmail::host::domains::{self as wit, Host};
use latchmail_bindings::latchmail::host::types::Error;
use latchmail_core::codes;
use latchmail_directory::domains::{Domain, Released};
use latchmail_net::dns::Record;

use super::call::Call;
use super::convert::account_error;
use super::host_call::host_call;

impl Host for Call {
    async fn list(&mut self) -> Result<wit::Held, HostError<Error>> {
        let _span = host_call("domains.list");
        let account = self.require_session()?;
        let held = self.services.domains.list(&account.id).await;
        let held = held.map_err(account_error)?;
        Ok(wit::Held {
            domains: held.domains.into_iter().map(domain).collect(),
            limit: held.limit,
        })
    }

    async fn claim(&mut self, name: String) -> Result<wit::Claimed, HostError<Error>> {
        let _span = host_call("domains.claim");
        let account = self.require_session()?;
        let domains = &self.services.domains;
        let claim = domains.claim(account.session(), &name, &account.origin);
        Err(HostError::Guest(
            match claim.await.map_err(account_error)? {
                Claim::New(claimed) => return Ok(wit::Claimed::Created(domain(claimed))),
                Claim::Existing(claimed) => return Ok(wit::Claimed::Existing(domain(claimed))),
                Claim::Invalid => invalid_name(),
                Claim::Taken => problem::conflict(
                    codes::DOMAIN_TAKEN,
                    "The domain is claimed by another account",
                ),
                Claim::NotInPlan => problem::denied(
                    codes::CUSTOM_DOMAINS_NOT_INCLUDED,
                    "Custom domains aren't included in your plan",
                ),
                Claim::Full => problem::too_large(
                    codes::TOO_MANY_DOMAINS,
                    "Your plan's custom domains are all in use",
                ),
            },
        ))
    }

    async fn inspect(&mut self, name: String) -> Result<wit::Inspected, HostError<Error>> {
        let _span = host_call("domains.inspect");
        let account = self.require_session()?;
        let inspection = self.services.domains.inspect(&account.id, &name).await;
        match inspection.map_err(account_error)? {
            Inspection::Found(found) => Ok(inspected(found)),
            Inspection::Unknown => Err(Error::NotFound.into()),
            Inspection::Busy => Err(Error::Unavailable.into()),
        }
    }

    async fn verify(&mut self, name: String) -> Result<wit::Verification, HostError<Error>> {
        let _span = host_call("domains.verify");
        let account = self.require_session()?;
        let domains = &self.services.domains;
        let verification = domains.verify(account.session(), &name, &account.origin);
        match verification.await.map_err(account_error)? {
            Verification::Active(found) => Ok(wit::Verification::Active(inspected(found))),
            Verification::Missing => Ok(wit::Verification::Missing),
            Verification::Taken => Ok(wit::Verification::Taken),
            Verification::Invalid => Err(invalid_name().into()),
            Verification::Unknown => Err(Error::NotFound.into()),
            Verification::Unreadable => Err(Error::Unavailable.into()),
        }
    }

    async fn release(&mut self, name: String) -> Result<(), HostError<Error>> {
        let _span = host_call("domains.release");
        let account = self.require_session()?;
        let domains = &self.services.domains;
        let released = domains.release(account.session(), &name, &account.origin);
        match released.await.map_err(account_error)? {
            Released::Released => Ok(()),
            Released::HasAliases => Err(problem::conflict(
                codes::DOMAIN_HAS_ALIASES,
                "There are aliases on the domain",
            )
            .into()),
            Released::Unknown | Released::SessionOver => Err(Error::NotFound.into()),
        }
    }
}

fn invalid_name() -> Error {
    problem::invalid(
        codes::INVALID_DOMAIN,
        "The name is not a domain that an account can claim",
    )
}

fn domain(domain: Domain) -> wit::Domain {
    wit::Domain {
        challenge: Challenge::of(&domain).map(|challenge| wit::Challenge {
            host: challenge.host,
            value: challenge.value,
        }),
        name: domain.name,
        created_at: domain.created_at.millis(),
        verified_at: domain
            .verified_at
            .map(latchmail_core::clock::Timestamp::millis),
    }
}

fn inspected(inspected: Inspected) -> wit::Inspected {
    wit::Inspected {
        domain: domain(inspected.domain),
        records: inspected.records.into_iter().map(expected).collect(),
    }
}

fn expected(record: Record) -> wit::Expected {
    wit::Expected {
        kind: record.kind.name().into(),
        host: record.host,
        value: record.value,
        ok: record.ok,
    }
}
