//! The aliases and the domains of an account.

use crate::capability::{
    Alias, Challenge, Claimed, Domain, Error, Expected, HeldDomains, Inspected, Timestamp,
    Verification,
};

/// The platform domains.
const PLATFORM: [&str; 2] = ["example.test", "second.test"];

/// Maximum number of domains of an account.
const MAX_DOMAINS: u32 = 5;
/// Maximum number of aliases of an account.
const MAX_ALIASES: usize = 1000;

#[derive(Debug, Default)]
pub(crate) struct Addresses {
    aliases: Vec<Alias>,
    last_id: u64,
    domains: Vec<Domain>,
    /// The names of domains with a published challenge.
    proved: Vec<String>,
    records: Vec<Expected>,
}

impl Addresses {
    /// Returns whether the address is an active alias of the account.
    pub(crate) fn sends_from(&self, address: &str) -> bool {
        let mut active = self.aliases.iter().filter(|alias| alias.active);
        active.any(|alias| alias.address.eq_ignore_ascii_case(address))
    }

    /// Returns all aliases, sorted by address.
    pub(crate) fn aliases(&self) -> Vec<Alias> {
        let mut aliases = self.aliases.clone();
        aliases.sort_by(|a, b| a.address.cmp(&b.address));
        aliases
    }

    /// Adds an alias without checks.
    pub(crate) fn put_alias(&mut self, alias: Alias) {
        self.aliases.push(alias);
    }

    /// Returns the domains on which the account can create aliases.
    pub(crate) fn alias_domains(&self) -> Vec<String> {
        let active = self.domains.iter().filter(|d| d.verified_at.is_some());
        let own = active.map(|domain| domain.name.clone());
        PLATFORM.map(Into::into).into_iter().chain(own).collect()
    }

    /// Checks whether an alias can be created. Returns the address of the alias. `taken` contains
    /// the addresses of all accounts.
    pub(crate) fn check_alias(
        &self,
        name: &str,
        domain: &str,
        taken: &[String],
    ) -> Result<String, Error> {
        let domain = domain.to_lowercase();
        if !self.alias_domains().contains(&domain) {
            return Err(Error::Invalid(
                "You do not have permission to use this domain".into(),
            ));
        }
        let allowed =
            |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b".-_".contains(&byte);
        if !(2..=64).contains(&name.len()) || !name.bytes().all(allowed) {
            return Err(Error::Invalid(
                "The name must be 2 to 64 lower-case letters, digits, dots, hyphens and underscores".into(),
            ));
        }
        let address = format!("{name}@{domain}");
        let own = self.aliases.iter().any(|alias| alias.address == address);
        if own || taken.contains(&address) {
            return Err(Error::Conflict(format!("{address} is already taken")));
        }
        if self.aliases.len() >= MAX_ALIASES {
            return Err(Error::TooLarge(format!(
                "An account may have {MAX_ALIASES} aliases"
            )));
        }
        Ok(address)
    }

    /// Creates an alias. `taken` contains the addresses of all accounts.
    pub(crate) fn create_alias(
        &mut self,
        name: &str,
        domain: &str,
        taken: &[String],
        now: Timestamp,
    ) -> Result<Alias, Error> {
        let address = self.check_alias(name, domain, taken)?;
        self.last_id += 1;
        let alias = Alias {
            id: self.last_id,
            address,
            active: true,
            created_at: Some(now),
            modified_at: Some(now),
        };
        self.aliases.push(alias.clone());
        Ok(alias)
    }

    pub(crate) fn set_alias_active(
        &mut self,
        id: u64,
        active: bool,
        now: Timestamp,
    ) -> Result<(), Error> {
        let mut aliases = self.aliases.iter_mut();
        let alias = aliases.find(|alias| alias.id == id);
        let alias = alias.ok_or(Error::NotFound)?;
        alias.active = active;
        alias.modified_at = Some(now);
        Ok(())
    }

    pub(crate) fn delete_alias(&mut self, id: u64) -> Result<(), Error> {
        let found = self.aliases.iter().position(|alias| alias.id == id);
        self.aliases.remove(found.ok_or(Error::NotFound)?);
        Ok(())
    }
}

impl Addresses {
    /// Returns whether the account has verified the domain.
    pub(crate) fn has_active_domain(&self, name: &str) -> bool {
        let mut active = self.domains.iter().filter(|d| d.verified_at.is_some());
        active.any(|domain| domain.name == name)
    }

    /// Records that the challenge of a domain is published.
    pub(crate) fn prove_domain(&mut self, name: &str) {
        self.proved.push(name.into());
    }

    /// Sets the DNS records of all domains.
    pub(crate) fn set_records(&mut self, records: Vec<Expected>) {
        self.records = records;
    }

    /// Returns the domains, newest first, and the maximum number of domains.
    pub(crate) fn domains(&self) -> HeldDomains {
        HeldDomains {
            domains: self.domains.iter().rev().cloned().collect(),
            limit: MAX_DOMAINS,
        }
    }

    /// Claims a domain. `taken` is `true` if another account has verified the domain.
    pub(crate) fn claim_domain(
        &mut self,
        name: &str,
        taken: bool,
        now: Timestamp,
    ) -> Result<Claimed, Error> {
        if !name.contains('.') || PLATFORM.contains(&name) {
            return Err(Error::Invalid(
                "The name is not a domain that an account can claim".into(),
            ));
        }
        if let Ok(existing) = self.domain(name) {
            return Ok(Claimed::Existing(existing.clone()));
        }
        if taken {
            return Err(Error::Conflict("Another account has the domain".into()));
        }
        if self.domains.len() >= MAX_DOMAINS as usize {
            return Err(Error::TooLarge(
                "Your plan's custom domains are all in use".into(),
            ));
        }
        let domain = Domain {
            name: name.into(),
            created_at: now,
            verified_at: None,
            challenge: Some(Challenge {
                host: format!("_latchmail-challenge.{name}"),
                value: "latchmail-verify=a-challenge".into(),
            }),
        };
        self.domains.push(domain.clone());
        Ok(Claimed::Created(domain))
    }

    /// Returns a domain with its DNS records.
    pub(crate) fn inspect_domain(&mut self, name: &str) -> Result<Inspected, Error> {
        Ok(Inspected {
            domain: self.domain(name)?.clone(),
            records: self.records.clone(),
        })
    }

    /// Verifies a domain. `taken` is `true` if another account has verified the domain.
    pub(crate) fn verify_domain(
        &mut self,
        name: &str,
        taken: bool,
        now: Timestamp,
    ) -> Result<Verification, Error> {
        let proved = self.proved.iter().any(|proved| proved == name);
        let domain = self.domain(name)?;
        if domain.verified_at.is_none() && !proved {
            return Ok(Verification::Missing);
        }
        if taken {
            return Ok(Verification::Taken);
        }
        domain.verified_at.get_or_insert(now);
        domain.challenge = None;
        self.inspect_domain(name).map(Verification::Active)
    }

    /// Removes a domain that has no aliases.
    pub(crate) fn release_domain(&mut self, name: &str) -> Result<(), Error> {
        self.domain(name)?;
        let suffix = format!("@{name}");
        let mut aliases = self.aliases.iter();
        if aliases.any(|alias| alias.address.ends_with(&suffix)) {
            return Err(Error::Conflict("There are aliases on the domain".into()));
        }
        self.domains.retain(|domain| domain.name != name);
        Ok(())
    }

    fn domain(&mut self, name: &str) -> Result<&mut Domain, Error> {
        let found = self.domains.iter_mut().find(|domain| domain.name == name);
        found.ok_or(Error::NotFound)
    }
}
