//! Aliases of the fake host. The platform domains are `example.test` and `second.test`.

use super::{FakeHost, Need};
use crate::capability::{Alias, Aliases, Error, Scope};
use latchmail_shape::codes;

/// The platform domains.
pub(super) const PLATFORM: [&str; 2] = ["example.test", "second.test"];

/// Maximum number of aliases of an account.
const MAX_ALIASES: usize = 1000;

/// Some of the names that are reserved on the platform domains.
const RESERVED: [&str; 5] = ["abuse", "admin", "hostmaster", "postmaster", "webmaster"];

impl FakeHost {
    /// Adds an alias of the signed-in account. A test can add an alias that the service did not
    /// create.
    #[track_caller]
    pub fn put_alias(&self, alias: Alias) {
        self.with_account(|account| account.aliases.push(alias));
    }
}

/// Returns the address of a new alias, if the account can create the alias.
fn new_alias(host: &FakeHost, caller: &str, name: &str, domain: &str) -> Result<String, Error> {
    let invalid = |code, text: &str| Err(Error::invalid(code, text));
    let domain = domain.to_lowercase();
    let domains = host.accounts.borrow()[caller].alias_domains();
    if !domains.contains(&domain) {
        return invalid(
            codes::ALIAS_DOMAIN_NOT_ALLOWED,
            "You do not have permission to use this domain",
        );
    }
    let allowed =
        |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b".-_".contains(&byte);
    if !(2..=64).contains(&name.len()) || !name.bytes().all(allowed) {
        return invalid(
            codes::INVALID_ALIAS_NAME,
            "The name must be 2 to 64 lower-case letters, digits, dots, hyphens and underscores",
        );
    }
    if PLATFORM.contains(&domain.as_str()) && RESERVED.contains(&name) {
        return invalid(codes::INVALID_ALIAS_NAME, "This name is reserved");
    }
    let address = format!("{name}@{domain}");
    let accounts = host.accounts.borrow();
    let mut aliases = accounts.values().flat_map(|account| &account.aliases);
    if accounts.contains_key(&address) || aliases.any(|alias| alias.address == address) {
        return Err(Error::conflict(
            codes::ALIAS_TAKEN,
            format!("{address} is already taken"),
        ));
    }
    if accounts[caller].aliases.len() >= MAX_ALIASES {
        let text = format!("An account may have {MAX_ALIASES} aliases");
        return Err(Error::too_large(codes::TOO_MANY_ALIASES, text));
    }
    Ok(address)
}

fn change_alias(
    host: &FakeHost,
    id: u64,
    act: impl FnOnce(&mut Vec<Alias>, usize),
) -> Result<(), Error> {
    host.allow(Need::Scope(Scope::AliasesWrite), |account| {
        let found = account.aliases.iter().position(|alias| alias.id == id);
        act(&mut account.aliases, found.ok_or(Error::NotFound)?);
        Ok(())
    })
}

impl Aliases for FakeHost {
    fn list_aliases(&self) -> Result<Vec<Alias>, Error> {
        self.allow(Need::Scope(Scope::AliasesRead), |account| {
            let mut aliases = account.aliases.clone();
            aliases.sort_by(|a, b| a.address.cmp(&b.address));
            Ok(aliases)
        })
    }

    fn alias_domains(&self) -> Result<Vec<String>, Error> {
        self.allow(Need::Scope(Scope::AliasesRead), |account| {
            Ok(account.alias_domains())
        })
    }

    fn create_alias(&self, name: &str, domain: &str) -> Result<Alias, Error> {
        let caller = self.authorize(Need::Scope(Scope::AliasesWrite))?;
        let address = new_alias(self, &caller, name, domain)?;
        let alias = Alias {
            id: self.next_number("alias"),
            address,
            active: true,
            created_at: Some(self.now()),
            modified_at: Some(self.now()),
        };
        self.put_alias(alias.clone());
        Ok(alias)
    }

    fn check_alias(&self, name: &str, domain: &str) -> Result<(), Error> {
        let caller = self.authorize(Need::Scope(Scope::AliasesRead))?;
        new_alias(self, &caller, name, domain).map(drop)
    }

    fn set_alias_active(&self, id: u64, active: bool) -> Result<(), Error> {
        let now = self.now();
        change_alias(self, id, |aliases, index| {
            aliases[index].active = active;
            aliases[index].modified_at = Some(now);
        })
    }

    fn delete_alias(&self, id: u64) -> Result<(), Error> {
        change_alias(self, id, |aliases, index| drop(aliases.remove(index)))
    }
}
