//! Domains of the fake host.

use super::{FakeHost, Need};
use crate::capability::{Claimed, Domains, Error, Expected, HeldDomains, Inspected, Verification};

impl FakeHost {
    /// Publishes the challenge of a claimed domain of the signed-in account. The claim can then be
    /// verified.
    ///
    /// # Panics
    /// Panics if no account is signed in.
    #[track_caller]
    pub fn prove_domain(&self, name: &str) {
        self.with_account(|account| account.addresses.prove_domain(name));
    }

    /// Sets the DNS records that [`Domains::inspect_domain`] returns for all domains of the
    /// signed-in account. Initially there are no records.
    ///
    /// # Panics
    /// Panics if no account is signed in.
    #[track_caller]
    pub fn set_records(&self, records: Vec<Expected>) {
        self.with_account(|account| account.addresses.set_records(records));
    }

    /// Returns whether another account has verified the domain.
    fn is_taken(&self, domain: &str) -> bool {
        self.another_account(|account| account.addresses.has_active_domain(domain))
    }
}

/// The fake host does not query the DNS. A test sets the results with [`FakeHost::prove_domain`]
/// and [`FakeHost::set_records`].
impl Domains for FakeHost {
    fn list_domains(&self) -> Result<HeldDomains, Error> {
        self.allow(Need::Session, |account| Ok(account.addresses.domains()))
    }

    fn claim_domain(&self, name: &str) -> Result<Claimed, Error> {
        let (now, name) = (self.now(), name.to_lowercase());
        let taken = self.is_taken(&name);
        self.allow(Need::Session, |account| {
            account.addresses.claim_domain(&name, taken, now)
        })
    }

    fn inspect_domain(&self, name: &str) -> Result<Inspected, Error> {
        let name = name.to_lowercase();
        self.allow(Need::Session, |account| {
            account.addresses.inspect_domain(&name)
        })
    }

    fn verify_domain(&self, name: &str) -> Result<Verification, Error> {
        let (now, name) = (self.now(), name.to_lowercase());
        let taken = self.is_taken(&name);
        self.allow(Need::Session, |account| {
            account.addresses.verify_domain(&name, taken, now)
        })
    }

    fn release_domain(&self, name: &str) -> Result<(), Error> {
        let name = name.to_lowercase();
        self.allow(Need::Session, |account| {
            account.addresses.release_domain(&name)
        })
    }
}
