//! Operations of the operator on the routes of mail: the addresses of accounts, the addresses to
//! which their mail is forwarded, and the catch-alls and separators of domains. The operator's
//! commands and the operator's API use the same operations.
//!
//! On a domain whose users the mail server has, the mail server itself decides where mail goes, so
//! the routes of the domain and the addresses of its accounts cannot be changed here.

use latchmail_core::address;
use latchmail_core::caller::Origin;
use latchmail_core::clock::Timestamp;
use latchmail_core::codes;
use latchmail_core::config::{PasswordSource, SignIn};
use latchmail_core::error::Failure;
use latchmail_directory::Directory;
use latchmail_directory::accounts::Account;
use latchmail_directory::accounts::rename::Rename;
use latchmail_directory::domains::platform_domains::Created;
use latchmail_directory::operator_tokens::RequestKey;
use latchmail_directory::routes::RouteChange;
use latchmail_directory::routes::domain_settings::DomainSettings;
use latchmail_directory::routes::forwarding::Forward;

/// The separator of extensions. Names of accounts and aliases cannot contain this character.
pub const SEPARATOR: &str = "+";

/// The text for addresses and domains that the mail server manages.
const MANAGED: &str = "The mail server's administrator manages this account";
const MANAGED_DOMAIN: &str = "The mail server's administrator manages the addresses of this domain";

/// The previous address of a renamed account.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Renamed {
    /// The previous address, which is an alias now.
    pub from: String,
    /// The ids of the account's app passwords, whose sessions at the mail server must end. The
    /// log-in name of these sessions is the previous address.
    pub app_passwords: Vec<String>,
}

/// Changes the routes of mail.
#[derive(Clone, Debug)]
pub struct Routing {
    directory: Directory,
    sign_in: SignIn,
}

impl Routing {
    /// Creates the operations on a directory.
    #[must_use]
    pub fn new(directory: Directory, sign_in: SignIn) -> Self {
        Self { directory, sign_in }
    }

    /// Changes the address of an account. The previous address becomes an alias of the account.
    /// Returns `None` if the account already has the address.
    ///
    /// # Errors
    /// Returns 400 if the address is invalid or its domain is not a platform domain. Returns 403 if
    /// the mail server has the user. Returns 409 if the address is taken. Returns 500 for an
    /// internal error. On error, nothing is changed.
    pub async fn rename(
        &self,
        account: &Account,
        new: &str,
        now: Timestamp,
        origin: &Origin,
    ) -> Result<Option<Renamed>, Failure> {
        let new = parse("address", new)?;
        if [&account.address, &new].map(|one| self.sign_in.is_at_mail_server(one)) != [false; 2] {
            return Err(Failure::forbidden(
                codes::ACCOUNT_MANAGED_ELSEWHERE,
                MANAGED,
            ));
        }
        let (_, domain) = new.rsplit_once('@').unwrap_or_default();
        let platform = self.directory.domains.platform_domain(domain).await?;
        if platform.is_none() {
            return Err(Failure::invalid(
                codes::INVALID_FIELD,
                format!("{domain} is not a platform domain"),
            ));
        }
        let accounts = &self.directory.accounts;
        match accounts.rename(&account.id, &new, now, origin).await? {
            Rename::Renamed {
                from,
                app_passwords,
            } => Ok(Some(Renamed {
                from,
                app_passwords,
            })),
            Rename::Unchanged => Ok(None),
            Rename::AddressTaken => Err(Failure::conflict(
                codes::EMAIL_TAKEN,
                "This email address is already taken",
            )),
            Rename::Loop => Err(forwarding_loop()),
            Rename::NoAccount => Err(no_account()),
        }
    }

    /// Changes the address to which copies of an account's mail are forwarded. `None` ends the
    /// forwarding. Returns `false` if nothing was changed.
    ///
    /// # Errors
    /// Returns 400 if the address is invalid or receives no mail, or if mail would be
    /// forwarded back to an account that has received it. Returns 500 for an internal error. On
    /// error, nothing is changed.
    pub async fn set_forward_to(
        &self,
        account_id: &str,
        to: Option<&str>,
        now: Timestamp,
        origin: &Origin,
    ) -> Result<bool, Failure> {
        let to = to.map(|to| parse("forwardTo", to)).transpose()?;
        let forward = Forward {
            to: to.as_deref(),
            may_be_unknown: to
                .as_deref()
                .is_some_and(|to| self.sign_in.is_at_mail_server(to)),
        };
        let accounts = &self.directory.accounts;
        let changed = accounts.set_forward_to(account_id, forward, now, origin);
        match changed.await? {
            RouteChange::Changed => Ok(true),
            RouteChange::Unchanged => Ok(false),
            RouteChange::Loop => Err(forwarding_loop()),
            RouteChange::Unknown | RouteChange::Outdated => Err(no_account()),
            RouteChange::NoSuchAddress => Err(Failure::invalid(
                codes::INVALID_FIELD,
                "forwardTo must be an address that receives mail",
            )),
        }
    }

    /// Changes the catch-all and the separator of a platform domain or a verified domain. Returns
    /// `false` if nothing was changed.
    ///
    /// # Errors
    /// Returns 400 if a value is invalid, or if mail would be forwarded back to an account
    /// that has received it. Returns 403 if the mail server has the users of the domain. Returns
    /// 404 if there is no such domain. Returns 500 for an internal error. On error, nothing is
    /// changed.
    pub async fn set_domain(
        &self,
        domain: &str,
        new: DomainSettings,
        now: Timestamp,
        origin: &Origin,
    ) -> Result<bool, Failure> {
        let changed = self.set_domain_if(domain, None, new, now, origin).await?;
        Ok(changed.unwrap_or(false))
    }

    /// Changes the catch-all and the separator of a domain, like [`Self::set_domain`], if its
    /// current settings are `expected`. Otherwise returns `None`. If nothing changes, the settings
    /// are not checked.
    ///
    /// # Errors
    /// Returns the errors of [`Self::set_domain`].
    pub async fn set_domain_if(
        &self,
        domain: &str,
        expected: Option<&DomainSettings>,
        new: DomainSettings,
        now: Timestamp,
        origin: &Origin,
    ) -> Result<Option<bool>, Failure> {
        let new = checked(new)?;
        let domains = &self.directory.domains;
        if expected != Some(&new)
            && self.sign_in.source(domain) == PasswordSource::Mailserver
            && domains.platform_domain(domain).await?.is_some()
        {
            return Err(managed_domain());
        }
        let changed = domains.set_settings_if(domain, expected, &new, now, origin);
        match changed.await? {
            RouteChange::Changed => Ok(Some(true)),
            RouteChange::Unchanged => Ok(Some(false)),
            RouteChange::Outdated => Ok(None),
            refused => Err(refused_settings(refused)),
        }
    }

    /// Adds a platform domain with its catch-all and its separator. With `key`, a repeated request
    /// changes nothing.
    ///
    /// # Errors
    /// Returns 400 if a setting is invalid. Returns 403 if the mail server has the users of the
    /// domain and there are settings. Returns 500 for an internal error. On error, nothing is
    /// changed.
    pub async fn create_domain(
        &self,
        domain: &str,
        settings: DomainSettings,
        key: Option<&RequestKey>,
        now: Timestamp,
        origin: &Origin,
    ) -> Result<Created, Failure> {
        let settings = checked(settings)?;
        if settings != DomainSettings::default()
            && self.sign_in.source(domain) == PasswordSource::Mailserver
        {
            return Err(managed_domain());
        }
        let domains = &self.directory.domains;
        let created = domains.create_platform_domain(domain, &settings, key, now, origin);
        match created.await? {
            Created::Refused(refused) => Err(refused_settings(refused)),
            created => Ok(created),
        }
    }
}

/// Parses the catch-all of a domain, and checks the separator.
fn checked(settings: DomainSettings) -> Result<DomainSettings, Failure> {
    let catch_all = settings.catch_all.as_deref();
    let catch_all = catch_all.map(|to| parse("catchAll", to)).transpose()?;
    let separator = settings.separator;
    if separator.as_deref().is_some_and(|it| it != SEPARATOR) {
        return Err(Failure::invalid(
            codes::INVALID_FIELD,
            format!("separator must be \"{SEPARATOR}\" or null"),
        ));
    }
    Ok(DomainSettings {
        catch_all,
        separator,
    })
}

fn managed_domain() -> Failure {
    Failure::forbidden(codes::ACCOUNT_MANAGED_ELSEWHERE, MANAGED_DOMAIN)
}

/// Returns the failure for settings of a domain that were refused.
fn refused_settings(refused: RouteChange) -> Failure {
    match refused {
        RouteChange::Loop => forwarding_loop(),
        RouteChange::NoSuchAddress => Failure::invalid(
            codes::INVALID_FIELD,
            "catchAll must be an address of an active account, on a custom domain one of its owner",
        ),
        RouteChange::Changed
        | RouteChange::Unchanged
        | RouteChange::Outdated
        | RouteChange::Unknown => Failure::not_found(codes::DOMAIN_NOT_FOUND, "Domain not found"),
    }
}

/// Parses the address in a field.
fn parse(field: &str, text: &str) -> Result<String, Failure> {
    address::fold(text).ok_or_else(|| {
        Failure::invalid(
            codes::INVALID_FIELD,
            format!("{field} must be an email address"),
        )
    })
}

fn forwarding_loop() -> Failure {
    Failure::invalid(
        codes::FORWARDING_LOOP,
        "Mail would be forwarded back to an account that has received it",
    )
}

fn no_account() -> Failure {
    Failure::not_found(codes::ACCOUNT_NOT_FOUND, "There is no such account")
}
