//! Aliases of the fake host.

use super::{FakeHost, Need};
use crate::capability::{Alias, Aliases, Error, Scope};

impl FakeHost {
    /// Adds an alias of the signed-in account. A test can add an alias that the service did not
    /// create.
    ///
    /// # Panics
    /// Panics if no account is signed in.
    #[track_caller]
    pub fn put_alias(&self, alias: Alias) {
        self.with_account(|account| account.addresses.put_alias(alias));
    }
}

/// An alias cannot have the address of an account. Conflicts with aliases of other accounts are not
/// detected. The platform domains are `example.test` and `second.test`.
impl Aliases for FakeHost {
    fn list_aliases(&self) -> Result<Vec<Alias>, Error> {
        self.allow(Need::Scope(Scope::AliasesRead), |account| {
            Ok(account.addresses.aliases())
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
            account.addresses.create_alias(name, domain, &taken, now)
        })
    }

    fn check_alias(&self, name: &str, domain: &str) -> Result<(), Error> {
        let taken = self.addresses();
        self.allow(Need::Scope(Scope::AliasesRead), |account| {
            let address = account.addresses.check_alias(name, domain, &taken);
            address.map(drop)
        })
    }

    fn set_alias_active(&self, id: u64, active: bool) -> Result<(), Error> {
        let now = self.now();
        self.allow(Need::Scope(Scope::AliasesWrite), |account| {
            account.addresses.set_alias_active(id, active, now)
        })
    }

    fn delete_alias(&self, id: u64) -> Result<(), Error> {
        self.allow(Need::Scope(Scope::AliasesWrite), |account| {
            account.addresses.delete_alias(id)
        })
    }
}
