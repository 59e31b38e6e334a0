//! Prepares the accounts of the mail server's users, for the commands that create such accounts
//! before the first sign-in.

use std::collections::BTreeSet;

use latchmail_core::secrets;
use latchmail_directory::accounts::NewAccount;
use latchmail_directory::accounts::imports::AdoptedUser;

use crate::context::CliContext;

/// The names of the platform domains, from the database and from the configuration. The service
/// writes the configured domains to the database only at its start, so the database can lack some
/// of them.
pub(crate) struct PlatformDomains(BTreeSet<String>);

#[cfg(test)]
impl<const N: usize> From<[String; N]> for PlatformDomains {
    fn from(domains: [String; N]) -> Self {
        Self(domains.into())
    }
}

impl PlatformDomains {
    pub(crate) fn contains(&self, domain: &str) -> bool {
        self.0.contains(domain)
    }

    /// Checks the domain of an address. Returns the reason if the domain is not a platform domain.
    pub(crate) fn check(&self, address: &str) -> Result<(), String> {
        let (_, domain) = address.rsplit_once('@').unwrap_or_default();
        if self.contains(domain) {
            Ok(())
        } else {
            Err(format!("{domain} is not a platform domain"))
        }
    }
}

impl CliContext {
    /// Returns all platform domains.
    pub(crate) async fn platform_domains(&self) -> anyhow::Result<PlatformDomains> {
        let domains = self.account_rules().platform_domains().await?;
        Ok(PlatformDomains(domains))
    }

    /// Returns the account to create for a user of the mail server. Returns the reason if the user
    /// cannot have an account. The same rules apply when a user signs in.
    ///
    /// # Errors
    /// Returns an error if the system provides no randomness.
    pub(crate) fn adopted_user(
        &self,
        login_name: &str,
        platform: &PlatformDomains,
    ) -> anyhow::Result<Result<AdoptedUser, String>> {
        let address = match self.mail_server_address(login_name, platform) {
            Ok(address) => address,
            Err(reason) => return Ok(Err(reason)),
        };
        Ok(Ok(AdoptedUser {
            login_name: (login_name != address).then(|| login_name.to_owned()),
            account: NewAccount::of_mail_server_user(secrets::id()?, address, self.clock.now()),
        }))
    }

    /// Returns the address of a user of the mail server. Returns the reason if the user cannot have
    /// an account.
    pub(crate) fn mail_server_address(
        &self,
        login_name: &str,
        platform: &PlatformDomains,
    ) -> Result<String, String> {
        let sign_in = &self.config.sign_in;
        let settings = &sign_in.mailserver;
        let separator = &settings.master_user_separator;
        if !separator.is_empty() && login_name.contains(separator.as_str()) {
            return Err("contains the separator of master users".into());
        }
        if !login_name.contains('@') && settings.default_domain.is_empty() {
            return Err("has no domain, and `sign_in.mailserver.default_domain` is not set".into());
        }
        let Some(address) = sign_in.address(login_name) else {
            return Err("is not an address".into());
        };
        platform.check(&address)?;
        if !sign_in.can_be_mail_server_user(&address) {
            let (_, domain) = address.rsplit_once('@').unwrap_or_default();
            return Err(format!(
                "the passwords of {domain} are not at the mail server (`sign_in.source` or `sign_in.domains`)"
            ));
        }
        Ok(address)
    }
}
