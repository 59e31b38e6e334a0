//! `domains`: the caller's custom domains.

use std::sync::Arc;

use latchmail_accounts::domains::{Challenge, Claim, Domains, Inspected, Inspection, Verification};
use latchmail_bindings::latchmail::host::domains::{self as wit, Host};
use latchmail_bindings::latchmail::host::types::Error;
use latchmail_directory::domains::{Domain, Released};
use latchmail_net::dns::{Kind, Record};

use super::convert::failed;
use super::{Call, Own};

/// A signed-in caller and the domains service.
struct Owner {
    own: Own,
    domains: Arc<Domains>,
}

impl Host for Call {
    async fn list(&mut self) -> wasmtime::Result<Result<wit::Held, Error>> {
        Ok(async move { self.owner()?.list().await }.await)
    }

    async fn claim(&mut self, name: String) -> wasmtime::Result<Result<wit::Claimed, Error>> {
        Ok(async move { self.owner()?.claim(&name).await }.await)
    }

    async fn inspect(&mut self, name: String) -> wasmtime::Result<Result<wit::Inspected, Error>> {
        Ok(async move { self.owner()?.inspect(&name).await }.await)
    }

    async fn verify(&mut self, name: String) -> wasmtime::Result<Result<wit::Verification, Error>> {
        Ok(async move { self.owner()?.verify(&name).await }.await)
    }

    async fn release(&mut self, name: String) -> wasmtime::Result<Result<(), Error>> {
        Ok(async move { self.owner()?.release(&name).await }.await)
    }
}

impl Call {
    fn owner(&self) -> Result<Owner, Error> {
        Ok(Owner {
            own: self.own()?,
            domains: Arc::clone(&self.services.domains),
        })
    }
}

impl Owner {
    async fn list(&self) -> Result<wit::Held, Error> {
        let held = self.domains.list(&self.own.account).await.map_err(failed)?;
        Ok(wit::Held {
            domains: held.domains.into_iter().map(domain).collect(),
            limit: held.limit,
        })
    }

    async fn claim(&self, name: &str) -> Result<wit::Claimed, Error> {
        let own = &self.own;
        let claim = self.domains.claim(own.session(), name, &own.origin);
        match claim.await.map_err(failed)? {
            Claim::New(claimed) => Ok(wit::Claimed::Created(domain(claimed))),
            Claim::Existing(claimed) => Ok(wit::Claimed::Existing(domain(claimed))),
            Claim::Invalid => Err(not_ones_own()),
            Claim::Taken => Err(Error::Conflict(
                "The domain is claimed by another account".into(),
            )),
            Claim::NotInPlan => Err(Error::Denied(
                "Custom domains aren't included in your plan".into(),
            )),
            Claim::Full => Err(Error::TooLarge(
                "Your plan's custom domains are all in use".into(),
            )),
        }
    }

    async fn inspect(&self, name: &str) -> Result<wit::Inspected, Error> {
        let inspection = self.domains.inspect(&self.own.account, name).await;
        match inspection.map_err(failed)? {
            Inspection::Found(found) => Ok(inspected(found)),
            Inspection::Unknown => Err(Error::NotFound),
            Inspection::Busy => Err(Error::Unavailable),
        }
    }

    async fn verify(&self, name: &str) -> Result<wit::Verification, Error> {
        let own = &self.own;
        let verification = self.domains.verify(own.session(), name, &own.origin);
        match verification.await.map_err(failed)? {
            Verification::Active(found) => Ok(wit::Verification::Active(inspected(found))),
            Verification::Missing => Ok(wit::Verification::Missing),
            Verification::Taken => Ok(wit::Verification::Taken),
            Verification::Invalid => Err(not_ones_own()),
            Verification::Unknown => Err(Error::NotFound),
            Verification::Unreadable => Err(Error::Unavailable),
        }
    }

    async fn release(&self, name: &str) -> Result<(), Error> {
        let own = &self.own;
        let released = self.domains.release(own.session(), name, &own.origin);
        match released.await.map_err(failed)? {
            Released::Released => Ok(()),
            Released::HasAliases => Err(Error::Conflict("There are aliases on the domain".into())),
            Released::Unknown | Released::SessionOver => Err(Error::NotFound),
        }
    }
}

fn not_ones_own() -> Error {
    Error::Invalid("The name is not a domain that an account can claim".into())
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
        kind: match record.kind {
            Kind::Mx => wit::RecordKind::Mx,
            Kind::Spf => wit::RecordKind::Spf,
            Kind::Dkim => wit::RecordKind::Dkim,
            Kind::Dmarc => wit::RecordKind::Dmarc,
        },
        host: record.host,
        value: record.value,
        ok: record.ok,
    }
}
