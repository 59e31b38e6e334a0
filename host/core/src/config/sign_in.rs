//! `[sign_in]`: how users sign in, and which program verifies their passwords.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use serde::Deserialize;

use super::values::{list, seconds, section};
use crate::address;
use crate::error::StartError;

/// The section `[sign_in]` of the configuration.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct SignIn {
    /// The party that verifies the passwords for all domains without their own section in
    /// `domains`.
    pub source: PasswordSource,
    /// The settings for single domains, by the domain's canonical name.
    pub domains: BTreeMap<String, DomainSignIn>,
    /// The settings for [`PasswordSource::Mailserver`].
    pub mailserver: MailserverSignIn,
    /// The settings for [`PasswordSource::Oidc`].
    pub oidc: OidcSignIn,
}

/// The party that verifies passwords: this service, the mail server or an identity provider.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum PasswordSource {
    /// The service stores the hashes of passwords.
    #[default]
    Accounts,
    /// The mail server verifies passwords with its own users.
    Mailserver,
    /// Users sign in at an identity provider. The service sees no passwords.
    Oidc,
}

/// A section `[sign_in.domains."<name>"]` of the configuration: the settings for one domain.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DomainSignIn {
    /// The party that verifies the passwords for the domain.
    pub source: PasswordSource,
}

section! {
    /// The section `[sign_in.mailserver]` of the configuration.
    pub struct MailserverSignIn {
        /// The path of Dovecot's socket with the authentication client protocol. If empty, the
        /// service verifies passwords with IMAP LOGIN.
        pub auth_socket: PathBuf,
        /// The path of Dovecot's socket with the auth-master protocol. If empty, the service cannot
        /// notice changed passwords and removed users.
        pub lookup_socket: PathBuf,
        /// The interval between two lookups of all users, in seconds.
        #[serde(deserialize_with = "seconds")]
        pub recheck: Duration = Duration::from_mins(5),
        /// The domain of log-in names without a domain. If empty, every log-in name must have a
        /// domain.
        pub default_domain: String,
        /// The separator between a user name and the name of a master user. Log-in names with this
        /// character are rejected. If empty, all log-in names are allowed.
        pub master_user_separator: String = "*".into(),
        /// The URL at which users change their password. If empty, the service names no URL.
        pub password_url: String,
    }
}

section! {
    /// The section `[sign_in.oidc]` of the configuration.
    pub struct OidcSignIn {
        /// The provider's issuer identifier, exactly as the provider's discovery document contains
        /// it.
        pub issuer: String,
        /// The client id of the service at the provider.
        pub client_id: String,
        /// The file with the client secret. If empty, the service is a public client.
        pub client_secret_file: PathBuf,
        /// The claim with the address of the person's mailbox.
        pub mailbox_claim: String = "email".into(),
        /// Whether a missing claim `email_verified` means that the provider has verified the
        /// address.
        pub trust_missing_email_verified: bool,
        /// Whether the browser can return to any loopback URI after a sign-in. An application on
        /// the user's computer listens at such a URI.
        pub loopback_redirects: bool = true,
        /// The maximum age of web sessions that began with a sign-in at the provider, in seconds.
        #[serde(deserialize_with = "seconds")]
        pub max_session_age: Duration = Duration::from_hours(7 * 24),
        /// The interval between two uses of a session's refresh token at the provider, in seconds.
        #[serde(deserialize_with = "seconds")]
        pub recheck: Duration = Duration::from_mins(15),
        /// The URIs of clients to which a sign-in can return, in addition to loopback URIs.
        #[serde(deserialize_with = "list")]
        pub redirect_uris: Vec<String>,
        /// The scopes that the service requests from the provider.
        #[serde(deserialize_with = "list")]
        pub scopes: Vec<String> = vec!["openid".into(), "email".into()],
    }
}

impl SignIn {
    /// Returns the source of passwords for a domain in its canonical form.
    #[must_use]
    pub fn source(&self, domain: &str) -> PasswordSource {
        let own = self.domains.get(domain);
        own.map_or(self.source, |domain| domain.source)
    }

    /// Returns the sources of passwords of all domains.
    fn sources(&self) -> impl Iterator<Item = PasswordSource> {
        let own = self.domains.values().map(|domain| domain.source);
        std::iter::once(self.source).chain(own)
    }

    /// Returns the source of passwords for an address.
    fn source_of_address(&self, address: &str) -> PasswordSource {
        let (_, domain) = address.rsplit_once('@').unwrap_or_default();
        self.source(domain)
    }

    /// Returns `true` if the mail server verifies the passwords of at least one domain.
    #[must_use]
    pub fn uses_mail_server(&self) -> bool {
        self.sources()
            .any(|source| source == PasswordSource::Mailserver)
    }

    /// Returns `true` if the mail server verifies the password of this address.
    #[must_use]
    pub fn is_at_mail_server(&self, address: &str) -> bool {
        self.source_of_address(address) == PasswordSource::Mailserver
    }

    /// Returns `true` if the users of at least one domain sign in at the identity provider.
    #[must_use]
    pub fn uses_provider(&self) -> bool {
        self.sources().any(|source| source == PasswordSource::Oidc)
    }

    /// Returns `true` if the users of at least one domain sign in with a password.
    #[must_use]
    pub fn uses_passwords(&self) -> bool {
        self.sources().any(|source| source != PasswordSource::Oidc)
    }

    /// Returns `true` if the user with this address signs in at the identity provider.
    #[must_use]
    pub fn is_at_provider(&self, address: &str) -> bool {
        self.source_of_address(address) == PasswordSource::Oidc
    }

    /// Returns `true` if the address can belong to a user of the mail server who has no account
    /// yet. The first sign-in creates the account.
    #[must_use]
    pub fn can_be_mail_server_user(&self, address: &str) -> bool {
        match self.source_of_address(address) {
            PasswordSource::Accounts => false,
            PasswordSource::Mailserver => true,
            PasswordSource::Oidc => !self.mailserver.lookup_socket.as_os_str().is_empty(),
        }
    }

    /// Returns the mail server's log-in name of an address. If the domain of the address is
    /// `default_domain`, the log-in name is the local part. Otherwise the log-in name is the
    /// address.
    #[must_use]
    pub fn login_name<'a>(&self, address: &'a str) -> &'a str {
        match address.rsplit_once('@') {
            Some((name, domain)) if domain == self.mailserver.default_domain => name,
            _ => address,
        }
    }

    /// Returns the address of a log-in name, in lower case. Returns `None` if no address has this
    /// form, or if the name has no domain and no default domain is configured.
    #[must_use]
    pub fn address(&self, login_name: &str) -> Option<String> {
        if login_name.contains('@') {
            return address::fold(login_name);
        }
        let domain = &self.mailserver.default_domain;
        (!domain.is_empty())
            .then(|| address::fold(&format!("{login_name}@{domain}")))
            .flatten()
    }

    /// Returns the text for users who try to change a password that the service does not store.
    /// Returns `None` if the service stores the password.
    #[must_use]
    pub fn password_hint(&self, address: &str) -> Option<String> {
        match self.source_of_address(address) {
            PasswordSource::Accounts => None,
            PasswordSource::Mailserver => Some(self.mail_server_hint()),
            PasswordSource::Oidc => Some(
                "The identity provider manages the sign-in of this account. Change the password there."
                    .into(),
            ),
        }
    }

    fn mail_server_hint(&self) -> String {
        let place = match self.mailserver.password_url.as_str() {
            "" => "there",
            url => &format!("at {url}"),
        };
        format!("The mail server manages this password. Change it {place}.")
    }

    /// Replaces each domain by its canonical form, and checks the other settings.
    pub(super) fn check(&mut self) -> Result<(), StartError> {
        let mut domains = BTreeMap::new();
        for (domain, settings) in &self.domains {
            let folded = folded("sign_in.domains", domain)?;
            if domains.insert(folded, *settings).is_some() {
                return Err(StartError::new(format!(
                    "`sign_in.domains` contains `{domain}` more than once"
                )));
            }
        }
        self.domains = domains;
        let mailserver = &mut self.mailserver;
        if !mailserver.default_domain.is_empty() {
            mailserver.default_domain = folded(
                "sign_in.mailserver.default_domain",
                &mailserver.default_domain,
            )?;
        }
        for (key, value) in [
            ("mailserver.recheck", mailserver.recheck),
            ("oidc.recheck", self.oidc.recheck),
            ("oidc.max_session_age", self.oidc.max_session_age),
        ] {
            if value.is_zero() {
                return Err(StartError::new(format!(
                    "`sign_in.{key}` must be more than 0 seconds"
                )));
            }
        }
        let separator = &mailserver.master_user_separator;
        let mut characters = separator.chars();
        let first = characters.next();
        if first.is_some_and(|c| c.is_ascii_alphanumeric() || c == '@')
            || characters.next().is_some()
        {
            return Err(StartError::new(format!(
                "`sign_in.mailserver.master_user_separator` is `{separator}`: it must be one character that is neither a letter, a digit nor @, or \
                 empty"
            )));
        }
        Ok(())
    }
}

/// Returns the canonical form of a domain: lower case, ASCII (RFC 5890), without the last dot.
/// `key` is the name of the setting, for error messages.
pub(super) fn folded(key: &str, domain: &str) -> Result<String, StartError> {
    let bare = domain.trim();
    address::fold_domain(bare.strip_suffix('.').unwrap_or(bare)).ok_or_else(|| {
        StartError::new(format!(
            "`{key}` contains `{domain}`, which is not a domain"
        ))
    })
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::*;
    use crate::config::Config;

    fn parsed(text: &str) -> Result<SignIn, StartError> {
        Config::parse(text, "test", HashMap::new()).map(|config| config.sign_in)
    }

    #[test]
    fn the_service_verifies_passwords_by_default() {
        let sign_in = parsed("").unwrap();
        assert!(!sign_in.is_at_mail_server("ada@example.org"));
        assert_eq!(sign_in.mailserver.recheck, Duration::from_mins(5));
        assert_eq!(sign_in.address("ada"), None);
    }

    #[test]
    fn a_domain_can_have_its_own_source() {
        let sign_in = parsed(
            "[sign_in]\nsource = 'mailserver'\n[sign_in.domains.'Bücher.example.']\nsource = 'accounts'",
        )
        .unwrap();
        assert!(sign_in.is_at_mail_server("ada@example.org"));
        assert!(!sign_in.is_at_mail_server("ada@xn--bcher-kva.example"));
        let dotted = parsed("sign_in.domains.\"example.org\".source = 'mailserver'").unwrap();
        assert!(dotted.is_at_mail_server("ada@example.org"));
        assert!(!dotted.is_at_mail_server("ada@example.net"));
    }

    #[test]
    fn the_users_of_a_domain_can_sign_in_at_the_provider() {
        let sign_in = parsed(
            "[sign_in]\nsource = 'oidc'\n[sign_in.domains.'a.example']\nsource = 'mailserver'\n[sign_in.domains.'b.example']\nsource = 'accounts'",
        )
        .unwrap();
        assert!(sign_in.uses_provider() && sign_in.uses_passwords());
        assert!(sign_in.is_at_provider("ada@c.example"));
        assert!(!sign_in.is_at_provider("ada@b.example"));
        assert!(!sign_in.can_be_mail_server_user("ada@c.example"));
        assert!(sign_in.can_be_mail_server_user("ada@a.example"));
        assert_eq!(sign_in.oidc.mailbox_claim, "email");
        assert_eq!(sign_in.oidc.scopes, ["openid", "email"]);
        let only = parsed("sign_in.source = 'oidc'\nsign_in.mailserver.lookup_socket = '/s'");
        let only = only.unwrap();
        assert!(!only.uses_passwords() && only.can_be_mail_server_user("ada@c.example"));
        assert!(!parsed("").unwrap().uses_provider());
    }

    #[test]
    fn a_log_in_name_on_the_default_domain_has_no_domain() {
        let sign_in = parsed("sign_in.mailserver.default_domain = 'Example.org'").unwrap();
        assert_eq!(sign_in.login_name("ada@example.org"), "ada");
        assert_eq!(sign_in.login_name("ada@example.net"), "ada@example.net");
        assert_eq!(sign_in.address("Ada").as_deref(), Some("ada@example.org"));
        assert_eq!(sign_in.address("a b"), None);
        assert_eq!(sign_in.address(""), None);
        assert_eq!(
            sign_in.address("Ada@example.net").as_deref(),
            Some("ada@example.net")
        );
    }

    #[test]
    fn the_hint_names_the_url() {
        let text = "The mail server manages this password. Change it";
        let hint = |settings: &str| parsed(settings).unwrap().password_hint("ada@a.example");
        assert_eq!(hint(""), None);
        let source = "sign_in.source = 'mailserver'\n";
        assert_eq!(hint(source), Some(format!("{text} there.")));
        let with = format!("{source}sign_in.mailserver.password_url = 'https://a.example/p'");
        assert_eq!(hint(&with), Some(format!("{text} at https://a.example/p.")));
        let provider = hint("sign_in.source = 'oidc'").unwrap();
        assert!(provider.contains("identity provider"), "{provider}");
    }

    #[test]
    fn invalid_settings_are_rejected_by_name() {
        for (text, reason) in [
            ("sign_in.source = 'ldap'", "ldap"),
            (
                "sign_in.domains.'a b'.source = 'accounts'",
                "sign_in.domains",
            ),
            (
                "sign_in.domains.'a.example'.source = 'accounts'\nsign_in.domains.'A.example'.source = 'accounts'",
                "more than once",
            ),
            ("sign_in.mailserver.recheck = 0", "mailserver.recheck"),
            ("sign_in.oidc.recheck = 0", "oidc.recheck"),
            ("sign_in.oidc.max_session_age = 0", "oidc.max_session_age"),
            (
                "sign_in.mailserver.default_domain = 'a b'",
                "default_domain",
            ),
            (
                "sign_in.mailserver.master_user_separator = '@'",
                "master_user_separator",
            ),
            (
                "sign_in.mailserver.master_user_separator = '**'",
                "master_user_separator",
            ),
        ] {
            let error = parsed(text).unwrap_err().to_string();
            assert!(error.contains(reason), "{text}: {error}");
        }
    }
}
