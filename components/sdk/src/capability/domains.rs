//! `latchmail:host/domains`: the caller's own domains.

use super::{Error, Host};
use crate::bindings::latchmail::host::domains;
pub use crate::bindings::latchmail::host::domains::{
    Challenge, Claimed, Domain, Expected, Held as HeldDomains, Inspected, RecordKind, Verification,
};

/// The caller's own domains. Each function needs a web session. The host converts domain names to
/// lower case.
pub trait Domains {
    /// Returns the domains, newest first, and the maximum number of domains in the account's plan.
    ///
    /// # Errors
    /// Returns [`Error::Internal`] if the host fails.
    fn list_domains(&self) -> Result<HeldDomains, Error>;

    /// Claims a domain.
    ///
    /// # Errors
    /// Returns [`Error::Invalid`] if the name is not a registrable domain. Returns
    /// [`Error::Conflict`] if the domain belongs to another account. Returns [`Error::Denied`] if
    /// the account's plan allows no domains. Returns [`Error::TooLarge`] if the account already has
    /// the maximum number of domains.
    fn claim_domain(&self, name: &str) -> Result<Claimed, Error>;

    /// Returns a domain and the state of its DNS records.
    ///
    /// # Errors
    /// Returns [`Error::NotFound`] if the account does not have the domain.
    fn inspect_domain(&self, name: &str) -> Result<Inspected, Error>;

    /// Looks up the challenge of a claim in the DNS. Activates the domain if the challenge is
    /// found.
    ///
    /// # Errors
    /// Returns [`Error::NotFound`] if the account does not have the domain. Returns
    /// [`Error::Invalid`] if the domain became a platform domain after the claim. Returns
    /// [`Error::Unavailable`] if the DNS lookup fails.
    fn verify_domain(&self, name: &str) -> Result<Verification, Error>;

    /// Releases a domain.
    ///
    /// # Errors
    /// Returns [`Error::NotFound`] if the account does not have the domain. Returns
    /// [`Error::Conflict`] if the account has aliases on the domain.
    fn release_domain(&self, name: &str) -> Result<(), Error>;
}

impl Domains for Host {
    fn list_domains(&self) -> Result<HeldDomains, Error> {
        domains::list()
    }

    fn claim_domain(&self, name: &str) -> Result<Claimed, Error> {
        domains::claim(name)
    }

    fn inspect_domain(&self, name: &str) -> Result<Inspected, Error> {
        domains::inspect(name)
    }

    fn verify_domain(&self, name: &str) -> Result<Verification, Error> {
        domains::verify(name)
    }

    fn release_domain(&self, name: &str) -> Result<(), Error> {
        domains::release(name)
    }
}
