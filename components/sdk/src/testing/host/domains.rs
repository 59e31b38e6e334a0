//! Domains of the fake host.

use super::aliases::PLATFORM;
use super::{Account, FakeHost, Need};
use crate::capability::{
    Challenge, Claimed, Domain, Domains, Error, Expected, HeldDomains, Inspected, Verification,
};
use latchmail_shape::codes;

/// Maximum number of domains of an account.
const MAX_DOMAINS: u32 = 5;

impl FakeHost {
    /// Publishes the challenge of a claimed domain of the signed-in account. The claim can then be
    /// verified.
    #[track_caller]
    pub fn prove_domain(&self, name: &str) {
        self.with_account(|account| account.proved_domains.push(name.into()));
    }

    /// Sets the DNS records that [`Domains::inspect_domain`] returns for all domains of the
    /// signed-in account. Initially there are no records.
    #[track_caller]
    pub fn set_records(&self, records: Vec<Expected>) {
        self.with_account(|account| account.records = records);
    }
}

/// Returns whether another account has verified the domain.
fn is_taken(host: &FakeHost, domain: &str) -> bool {
    let caller = host.caller.borrow();
    let accounts = host.accounts.borrow();
    let mut others = accounts
        .values()
        .filter(|one| one.address != caller.address);
    others.any(|one| {
        one.domains
            .iter()
            .any(|one| one.name == domain && one.verified_at.is_some())
    })
}

impl Account {
    /// Returns the domains on which the account can create aliases.
    pub(super) fn alias_domains(&self) -> Vec<String> {
        let active = self.domains.iter().filter(|d| d.verified_at.is_some());
        let own = active.map(|domain| domain.name.clone());
        PLATFORM.map(Into::into).into_iter().chain(own).collect()
    }

    fn domain(&mut self, name: &str) -> Result<&mut Domain, Error> {
        let found = self.domains.iter_mut().find(|domain| domain.name == name);
        found.ok_or(Error::NotFound)
    }

    fn inspected(&mut self, name: &str) -> Result<Inspected, Error> {
        Ok(Inspected {
            domain: self.domain(name)?.clone(),
            records: self.records.clone(),
        })
    }
}

/// The fake host does not query the DNS. A test sets the results with [`FakeHost::prove_domain`]
/// and [`FakeHost::set_records`].
impl Domains for FakeHost {
    fn list_domains(&self) -> Result<HeldDomains, Error> {
        self.allow(Need::Session, |account| {
            Ok(HeldDomains {
                domains: account.domains.iter().rev().cloned().collect(),
                limit: MAX_DOMAINS,
            })
        })
    }

    fn claim_domain(&self, name: &str) -> Result<Claimed, Error> {
        let (now, name) = (self.now(), name.to_lowercase());
        let taken = is_taken(self, &name);
        self.allow(Need::Session, |account| {
            if !is_claimable(&name) {
                let text = "The name is not a domain that an account can claim";
                return Err(Error::invalid(codes::INVALID_DOMAIN, text));
            }
            if let Ok(existing) = account.domain(&name) {
                return Ok(Claimed::Existing(existing.clone()));
            }
            if taken {
                return Err(Error::conflict(
                    codes::DOMAIN_TAKEN,
                    "The domain is claimed by another account",
                ));
            }
            if account.domains.len() >= MAX_DOMAINS as usize {
                let text = "Your plan's custom domains are all in use";
                return Err(Error::too_large(codes::TOO_MANY_DOMAINS, text));
            }
            let domain = Domain {
                created_at: now,
                verified_at: None,
                challenge: Some(Challenge {
                    host: format!("_latchmail-challenge.{name}"),
                    value: "latchmail-verify=a-challenge".into(),
                }),
                name,
            };
            account.domains.push(domain.clone());
            Ok(Claimed::Created(domain))
        })
    }

    fn inspect_domain(&self, name: &str) -> Result<Inspected, Error> {
        let name = name.to_lowercase();
        self.allow(Need::Session, |account| account.inspected(&name))
    }

    fn verify_domain(&self, name: &str) -> Result<Verification, Error> {
        let (now, name) = (self.now(), name.to_lowercase());
        let taken = is_taken(self, &name);
        self.allow(Need::Session, |account| {
            let proved = account.proved_domains.contains(&name);
            let domain = account.domain(&name)?;
            if domain.verified_at.is_none() && !proved {
                return Ok(Verification::Missing);
            }
            if taken {
                return Ok(Verification::Taken);
            }
            domain.verified_at.get_or_insert(now);
            domain.challenge = None;
            account.inspected(&name).map(Verification::Active)
        })
    }

    fn release_domain(&self, name: &str) -> Result<(), Error> {
        let name = name.to_lowercase();
        self.allow(Need::Session, |account| {
            account.domain(&name)?;
            let suffix = format!("@{name}");
            let mut aliases = account.aliases.iter();
            if aliases.any(|alias| alias.address.ends_with(&suffix)) {
                return Err(Error::conflict(
                    codes::DOMAIN_HAS_ALIASES,
                    "There are aliases on the domain",
                ));
            }
            account.domains.retain(|domain| domain.name != name);
            Ok(())
        })
    }
}

/// Returns whether an account can claim a name. The fake host has no list of public suffixes: only
/// names without a dot are public suffixes.
fn is_claimable(name: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-';
    let label = |label: &str| !label.is_empty() && label.bytes().all(plain);
    let is_number = |label: &str| label.bytes().all(|byte| byte.is_ascii_digit());
    let (_, last) = name.rsplit_once('.').unwrap_or_default();
    name.split('.').all(label) && !is_number(last) && !PLATFORM.contains(&name)
}
