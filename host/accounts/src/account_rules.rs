//! The rules for accounts that the operator creates or changes: at the command line, on the
//! operator's page, through the admin API and through SCIM.

use std::collections::BTreeSet;

use latchmail_core::clock::Clock;
use latchmail_core::codes;
use latchmail_core::config::{Config, SignIn};
use latchmail_core::error::Failure;
use latchmail_directory::accounts::DEFAULT_PLAN;
use latchmail_directory::accounts::administration::Names;
use latchmail_directory::{Directory, Error};

use crate::auth::person;

/// Maximum length of a name at the identity provider, in characters.
const MAX_FOREIGN_NAME: usize = 255;

/// The rules for accounts.
#[derive(Clone, Debug)]
pub struct AccountRules {
    directory: Directory,
    clock: Clock,
    /// The domains in the configuration. The service writes them to the database only at its start.
    domains: Vec<String>,
    plans: BTreeSet<String>,
    sign_in: SignIn,
}

impl AccountRules {
    /// Creates the rules from the configuration.
    #[must_use]
    pub fn new(config: &Config, directory: Directory, clock: Clock) -> Self {
        let plans = config.plans.keys().map(String::as_str);
        Self {
            directory,
            clock,
            domains: config.registration.domains.clone(),
            plans: plans.chain([DEFAULT_PLAN]).map(Into::into).collect(),
            sign_in: config.sign_in.clone(),
        }
    }

    /// Returns the platform domains, from the database and from the configuration.
    ///
    /// # Errors
    /// Returns an error if the database fails.
    pub async fn platform_domains(&self) -> Result<BTreeSet<String>, Error> {
        let configured = self.domains.iter().map(|domain| domain.to_lowercase());
        let stored = self.directory.domains.platform_domains().await?.into_iter();
        let added = stored.filter(|row| row.added_at.is_some());
        Ok(configured.chain(added.map(|row| row.domain)).collect())
    }

    /// Returns the domain of user names without a domain, or `None` if no domain is configured.
    #[must_use]
    pub fn default_domain(&self) -> Option<&str> {
        self.domains.first().map(String::as_str)
    }

    /// Checks that accounts can be created on the domain of `address`.
    ///
    /// # Errors
    /// Returns 400 if the domain is not a platform domain, or 500 for an internal error.
    pub async fn check_domain(&self, address: &str) -> Result<(), Failure> {
        let (_, domain) = address.rsplit_once('@').unwrap_or_default();
        let domains = self.platform_domains().await?;
        if domains.contains(domain) {
            return Ok(());
        }
        let names: Vec<&str> = domains.iter().map(String::as_str).collect();
        Err(Failure::invalid(
            codes::PLATFORM_DOMAIN_REQUIRED,
            format!(
                "{domain} is not a platform domain; the platform domains are {}. `registration.domains` and `latchmail domain add` add platform domains",
                names.join(", ")
            ),
        ))
    }

    /// Checks that a plan is in the configuration or is the default plan.
    ///
    /// # Errors
    /// Returns 400 if there is no such plan.
    pub fn check_plan(&self, plan: &str) -> Result<(), Failure> {
        if self.plans.contains(plan) {
            return Ok(());
        }
        let known: Vec<&str> = self.plans.iter().map(String::as_str).collect();
        let plan: String = plan.chars().flat_map(char::escape_default).collect();
        Err(Failure::invalid(
            codes::INVALID_FIELD,
            format!(
                "unknown plan `{plan}`; the configuration has {}",
                known.join(", ")
            ),
        ))
    }

    /// Checks that this service manages the sign-in of an account. `has_password` states whether
    /// the account gets a password.
    ///
    /// # Errors
    /// Returns 403 if the mail server stores the password, or if the account gets a password
    /// although its user signs in at the identity provider.
    pub fn check_sign_in(&self, address: &str, has_password: bool) -> Result<(), Failure> {
        let is_managed = self.sign_in.is_at_mail_server(address)
            || has_password && self.sign_in.is_at_provider(address);
        match self.sign_in.password_hint(address).filter(|_| is_managed) {
            Some(hint) => Err(Failure::forbidden(codes::PASSWORD_MANAGED_ELSEWHERE, hint)),
            None => Ok(()),
        }
    }

    /// Checks that the mail server does not have the user with this address.
    ///
    /// # Errors
    /// Returns 403 if the mail server has the user.
    pub fn check_managed_here(&self, address: &str) -> Result<(), Failure> {
        if self.sign_in.is_at_mail_server(address) {
            return Err(Failure::forbidden(
                codes::ACCOUNT_MANAGED_ELSEWHERE,
                "The mail server's administrator manages this account",
            ));
        }
        Ok(())
    }

    /// Returns `true` if the mail server can have a user with this address who has no account.
    #[must_use]
    pub fn may_be_mail_server_user(&self, address: &str) -> bool {
        self.sign_in.is_at_mail_server(address)
    }

    /// Checks the names of an account.
    ///
    /// # Errors
    /// Returns 400 with the name of the invalid field.
    pub fn check_names(&self, names: &Names) -> Result<(), Failure> {
        for (field, value) in [
            ("firstName", &names.first_name),
            ("lastName", &names.last_name),
        ] {
            if let Some(value) = value
                && person::name(field, value)? != *value
            {
                let text = format!("{field} must not begin or end with white space");
                return Err(Failure::invalid(codes::INVALID_NAME, text));
            }
        }
        if let Some(dob) = &names.dob {
            person::date_of_birth(dob, self.clock.now().date())?;
        }
        for (field, value) in [
            ("externalId", &names.external_id),
            ("userName", &names.user_name),
            ("displayName", &names.display_name),
        ] {
            let is_valid = |value: &String| {
                (1..=MAX_FOREIGN_NAME).contains(&value.chars().count())
                    && !value.chars().any(char::is_control)
            };
            if !value.as_ref().is_none_or(is_valid) {
                let text =
                    format!("{field} must be 1 to 255 characters without control characters");
                return Err(Failure::invalid(codes::INVALID_FIELD, text));
            }
        }
        Ok(())
    }
}
