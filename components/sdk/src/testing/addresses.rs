//! Aliases and domains in memory.

use super::account::Account;
use super::host::{FakeHost, Need};
use crate::capability::{
    Alias, Aliases, Challenge, Claimed, Domain, Domains, Error, Expected, HeldDomains, Inspected,
    Scope, Timestamp, Verification,
};

/// The platform domains.
const PLATFORM: [&str; 2] = ["example.test", "second.test"];

/// Maximum numbers of domains and aliases of an account.
const MOST_DOMAINS: u32 = 5;
const MOST_ALIASES: usize = 1000;

/// The aliases and the domains of an account.
#[derive(Debug, Default)]
pub(super) struct Addresses {
    aliases: Vec<Alias>,
    last_id: u64,
    domains: Vec<Domain>,
    proved: Vec<String>,
    records: Vec<Expected>,
}

impl Addresses {
    /// Returns whether the address is an active alias.
    pub(super) fn sends_from(&self, address: &str) -> bool {
        let mut active = self.aliases.iter().filter(|alias| alias.active);
        active.any(|alias| alias.address.eq_ignore_ascii_case(address))
    }

    fn alias_domains(&self) -> Vec<String> {
        let active = self.domains.iter().filter(|d| d.verified_at.is_some());
        let own = active.map(|domain| domain.name.clone());
        PLATFORM.map(Into::into).into_iter().chain(own).collect()
    }

    fn has_active(&self, name: &str) -> bool {
        let mut active = self.domains.iter().filter(|d| d.verified_at.is_some());
        active.any(|domain| domain.name == name)
    }

    fn inspected(&self, domain: Domain) -> Inspected {
        Inspected {
            domain,
            records: self.records.clone(),
        }
    }

    fn domain(&mut self, name: &str) -> Result<&mut Domain, Error> {
        let found = self.domains.iter_mut().find(|domain| domain.name == name);
        found.ok_or(Error::NotFound)
    }
}

impl Account {
    /// Returns the address of an alias that could be created. `taken` contains the addresses of accounts.
    fn free(&self, name: &str, domain: &str, taken: &[String]) -> Result<String, Error> {
        let domain = domain.to_lowercase();
        if !self.addresses.alias_domains().contains(&domain) {
            return Err(Error::Invalid(
                "You do not have permission to use this domain".into(),
            ));
        }
        let plain =
            |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b".-_".contains(&byte);
        if !(2..=64).contains(&name.len()) || !name.bytes().all(plain) {
            return Err(Error::Invalid(
                "The name must be 2 to 64 lower-case letters, digits, dots, hyphens and underscores".into(),
            ));
        }
        let address = format!("{name}@{domain}");
        let own = self.addresses.aliases.iter().any(|a| a.address == address);
        if own || taken.contains(&address) {
            return Err(Error::Conflict(format!("{address} is already taken")));
        }
        if self.addresses.aliases.len() >= MOST_ALIASES {
            return Err(Error::TooLarge(format!(
                "An account may have {MOST_ALIASES} aliases"
            )));
        }
        Ok(address)
    }

    fn alias(&mut self, id: u64) -> Result<&mut Alias, Error> {
        let found = self
            .addresses
            .aliases
            .iter_mut()
            .find(|alias| alias.id == id);
        found.ok_or(Error::NotFound)
    }
}

/// Addresses of accounts are taken. Aliases of other accounts are not checked. The platform domains are `example.test` and `second.test`.
impl Aliases for FakeHost {
    fn list_aliases(&self) -> Result<Vec<Alias>, Error> {
        self.allow(Need::Scope(Scope::AliasesRead), |account| {
            let mut aliases = account.addresses.aliases.clone();
            aliases.sort_by(|a, b| a.address.cmp(&b.address));
            Ok(aliases)
        })
    }

    fn alias_domains(&self) -> Result<Vec<String>, Error> {
        self.allow(Need::Scope(Scope::AliasesRead), |account| {
            Ok(account.addresses.alias_domains())
        })
    }

    fn create_alias(&self, name: &str, domain: &str) -> Result<Alias, Error> {
        let (now, taken) = (self.now(), self.addresses());
        self.allow(Need::Scope(Scope::AliasesWrite), |account| {
            let address = account.free(name, domain, &taken)?;
            let addresses = &mut account.addresses;
            addresses.last_id += 1;
            let alias = Alias {
                id: addresses.last_id,
                address,
                active: true,
                created_at: Some(now),
                modified_at: Some(now),
            };
            addresses.aliases.push(alias.clone());
            Ok(alias)
        })
    }

    fn check_alias(&self, name: &str, domain: &str) -> Result<(), Error> {
        let taken = self.addresses();
        self.allow(Need::Scope(Scope::AliasesRead), |account| {
            account.free(name, domain, &taken).map(drop)
        })
    }

    fn set_alias_active(&self, id: u64, active: bool) -> Result<(), Error> {
        let now = self.now();
        self.allow(Need::Scope(Scope::AliasesWrite), |account| {
            let alias = account.alias(id)?;
            alias.active = active;
            alias.modified_at = Some(now);
            Ok(())
        })
    }

    fn delete_alias(&self, id: u64) -> Result<(), Error> {
        self.allow(Need::Scope(Scope::AliasesWrite), |account| {
            account.alias(id)?;
            account.addresses.aliases.retain(|alias| alias.id != id);
            Ok(())
        })
    }
}

impl FakeHost {
    /// Publishes the challenge of the signed-in account's claim of a domain, so that verifying the claim succeeds.
    ///
    /// # Panics
    /// Panics if no account is signed in.
    #[track_caller]
    pub fn prove_domain(&self, name: &str) {
        self.with_account(|account| account.addresses.proved.push(name.into()));
    }

    /// Sets the DNS records that inspecting a domain of the signed-in account returns. Initially there are none.
    ///
    /// # Panics
    /// Panics if no account is signed in.
    #[track_caller]
    pub fn set_records(&self, records: Vec<Expected>) {
        self.with_account(|account| account.addresses.records = records);
    }

    /// Adds an alias of the signed-in account, for example an alias that the service did not create.
    ///
    /// # Panics
    /// Panics if no account is signed in.
    #[track_caller]
    pub fn put_alias(&self, alias: Alias) {
        self.with_account(|account| account.addresses.aliases.push(alias));
    }
}

fn claimed(name: &str, now: Timestamp) -> Domain {
    Domain {
        name: name.into(),
        created_at: now,
        verified_at: None,
        challenge: Some(Challenge {
            host: format!("_latchmail-challenge.{name}"),
            value: "latchmail-verify=a-challenge".into(),
        }),
    }
}

/// No DNS records are looked up: [`FakeHost::prove_domain`] and [`FakeHost::set_records`] replace them.
impl Domains for FakeHost {
    fn list_domains(&self) -> Result<HeldDomains, Error> {
        self.allow(Need::Session, |account| {
            Ok(HeldDomains {
                domains: account.addresses.domains.iter().rev().cloned().collect(),
                limit: MOST_DOMAINS,
            })
        })
    }

    fn claim_domain(&self, name: &str) -> Result<Claimed, Error> {
        let (now, name) = (self.now(), name.to_lowercase());
        let taken = self.another_account(|account| account.addresses.has_active(&name));
        self.allow(Need::Session, |account| {
            if !name.contains('.') || PLATFORM.contains(&name.as_str()) {
                return Err(Error::Invalid(
                    "The name is not a domain that an account can claim".into(),
                ));
            }
            let addresses = &mut account.addresses;
            if let Ok(existing) = addresses.domain(&name) {
                return Ok(Claimed::Existing(existing.clone()));
            }
            if taken {
                return Err(Error::Conflict("Another account has the domain".into()));
            }
            if addresses.domains.len() >= MOST_DOMAINS as usize {
                return Err(Error::TooLarge(
                    "Your plan's custom domains are all in use".into(),
                ));
            }
            let domain = claimed(&name, now);
            addresses.domains.push(domain.clone());
            Ok(Claimed::Created(domain))
        })
    }

    fn inspect_domain(&self, name: &str) -> Result<Inspected, Error> {
        let name = name.to_lowercase();
        self.allow(Need::Session, |account| {
            let domain = account.addresses.domain(&name)?.clone();
            Ok(account.addresses.inspected(domain))
        })
    }

    fn verify_domain(&self, name: &str) -> Result<Verification, Error> {
        let (now, name) = (self.now(), name.to_lowercase());
        let taken = self.another_account(|account| account.addresses.has_active(&name));
        self.allow(Need::Session, |account| {
            let proved = account.addresses.proved.contains(&name);
            let domain = account.addresses.domain(&name)?;
            if domain.verified_at.is_none() && !proved {
                return Ok(Verification::Missing);
            }
            if taken {
                return Ok(Verification::Taken);
            }
            domain.verified_at.get_or_insert(now);
            domain.challenge = None;
            let domain = domain.clone();
            Ok(Verification::Active(account.addresses.inspected(domain)))
        })
    }

    fn release_domain(&self, name: &str) -> Result<(), Error> {
        let name = name.to_lowercase();
        self.allow(Need::Session, |account| {
            let addresses = &mut account.addresses;
            addresses.domain(&name)?;
            let on_it = format!("@{name}");
            if addresses
                .aliases
                .iter()
                .any(|a| a.address.ends_with(&on_it))
            {
                return Err(Error::Conflict("There are aliases on the domain".into()));
            }
            addresses.domains.retain(|domain| domain.name != name);
            Ok(())
        })
    }
}
