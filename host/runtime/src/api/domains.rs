//! The interface `domains`, for the caller's custom domains.

use std::sync::Arc;

use latchmail_accounts::domains::{Challenge, Claim, Domains, Inspected, Inspection, Verification};
use latchmail_bindings::latchmail::host::domains::{self as wit, Host};
use latchmail_bindings::latchmail::host::types::Error;
use latchmail_directory::domains::{Domain, Released};
use latchmail_net::dns::{Kind, Record};

use super::call::Call;
use super::convert::account_error;
use super::host_call::host_call;
use super::session::SessionAccount;

/// The caller's account, and the service that manages custom domains.
struct AccountDomains {
    account: SessionAccount,
    domains: Arc<Domains>,
}

impl Host for Call {
    async fn list(&mut self) -> wasmtime::Result<Result<wit::Held, Error>> {
        let _span = host_call("domains.list");
        Ok(async move { self.account_domains()?.list().await }.await)
    }

    async fn claim(&mut self, name: String) -> wasmtime::Result<Result<wit::Claimed, Error>> {
        let _span = host_call("domains.claim");
        Ok(async move { self.account_domains()?.claim(&name).await }.await)
    }

    async fn inspect(&mut self, name: String) -> wasmtime::Result<Result<wit::Inspected, Error>> {
        let _span = host_call("domains.inspect");
        Ok(async move { self.account_domains()?.inspect(&name).await }.await)
    }

    async fn verify(&mut self, name: String) -> wasmtime::Result<Result<wit::Verification, Error>> {
        let _span = host_call("domains.verify");
        Ok(async move { self.account_domains()?.verify(&name).await }.await)
    }

    async fn release(&mut self, name: String) -> wasmtime::Result<Result<(), Error>> {
        let _span = host_call("domains.release");
        Ok(async move { self.account_domains()?.release(&name).await }.await)
    }
}

impl Call {
    fn account_domains(&self) -> Result<AccountDomains, Error> {
        Ok(AccountDomains {
            account: self.require_session()?,
            domains: Arc::clone(&self.services.domains),
        })
    }
}

impl AccountDomains {
    async fn list(&self) -> Result<wit::Held, Error> {
        let held = self
            .domains
            .list(&self.account.id)
            .await
            .map_err(account_error)?;
        Ok(wit::Held {
            domains: held.domains.into_iter().map(domain).collect(),
            limit: held.limit,
        })
    }

    async fn claim(&self, name: &str) -> Result<wit::Claimed, Error> {
        let account = &self.account;
        let claim = self.domains.claim(account.session(), name, &account.origin);
        match claim.await.map_err(account_error)? {
            Claim::New(claimed) => Ok(wit::Claimed::Created(domain(claimed))),
            Claim::Existing(claimed) => Ok(wit::Claimed::Existing(domain(claimed))),
            Claim::Invalid => Err(invalid_name()),
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
        let inspection = self.domains.inspect(&self.account.id, name).await;
        match inspection.map_err(account_error)? {
            Inspection::Found(found) => Ok(inspected(found)),
            Inspection::Unknown => Err(Error::NotFound),
            Inspection::Busy => Err(Error::Unavailable),
        }
    }

    async fn verify(&self, name: &str) -> Result<wit::Verification, Error> {
        let account = &self.account;
        let verification = self
            .domains
            .verify(account.session(), name, &account.origin);
        match verification.await.map_err(account_error)? {
            Verification::Active(found) => Ok(wit::Verification::Active(inspected(found))),
            Verification::Missing => Ok(wit::Verification::Missing),
            Verification::Taken => Ok(wit::Verification::Taken),
            Verification::Invalid => Err(invalid_name()),
            Verification::Unknown => Err(Error::NotFound),
            Verification::Unreadable => Err(Error::Unavailable),
        }
    }

    async fn release(&self, name: &str) -> Result<(), Error> {
        let account = &self.account;
        let released = self
            .domains
            .release(account.session(), name, &account.origin);
        match released.await.map_err(account_error)? {
            Released::Released => Ok(()),
            Released::HasAliases => Err(Error::Conflict("There are aliases on the domain".into())),
            Released::Unknown | Released::SessionOver => Err(Error::NotFound),
        }
    }
}

fn invalid_name() -> Error {
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
