//! The users of the mail server: verifies their passwords on domains with
//! `sign_in.source = "mailserver"`, and looks up users.
//!
//! This module does not read or change accounts. [`crate::auth`] creates the accounts of these
//! users.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use latchmail_core::config::{Config, SignIn};
use latchmail_core::error::{Failure, StartError};
use latchmail_core::work_queue::{WorkPermit, WorkQueue};
use latchmail_net::dovecot_auth::Error as DovecotError;
use latchmail_net::dovecot_auth::client::{self, Verified};
use latchmail_net::dovecot_auth::lookup::Lookups;
use latchmail_net::endpoint::Endpoint;
use latchmail_net::imap_login;
use secrecy::SecretString;

/// The maximum number of passwords that the mail server verifies for this service concurrently.
/// Each verification holds a connection to Dovecot's authentication service, for up to 25 seconds
/// after failed attempts.
const MAX_VERIFICATIONS: usize = 128;
/// The part of `MAX_VERIFICATIONS` that the clients of one site (IPv6 /48, IPv4 /24) can use.
const MAX_VERIFICATIONS_PER_SITE: usize = MAX_VERIFICATIONS / 8;

/// The reason in the audit event if the mail server rejects a password.
pub(crate) const WRONG_PASSWORD: &str = "wrong password";

/// The users of the mail server.
#[derive(Debug)]
pub struct MailServerUsers {
    verifications: Arc<WorkQueue>,
    sign_in: SignIn,
    imap: Endpoint,
    imap_timeout: Duration,
}

/// The result of verifying a password.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Verification {
    /// The password is correct.
    Accepted {
        /// The address of the user. This address can differ from the address in the request,
        /// because the mail server can replace the name of a user.
        address: String,
        /// The name of the user at the mail server.
        name: String,
    },
    /// The password is not accepted. The text is the reason in the audit event.
    Rejected(&'static str),
}

/// The reason why it is unknown whether a user exists.
#[derive(Debug, thiserror::Error)]
pub(crate) enum LookupError {
    /// `sign_in.mailserver.lookup_socket` is not set.
    #[error("`sign_in.mailserver.lookup_socket` is not set")]
    NotConfigured,
    /// The mail server could not look up the user.
    #[error(transparent)]
    Failed(#[from] DovecotError),
}

impl MailServerUsers {
    /// Creates the users from the configuration. Does not connect. Logs a warning if
    /// `sign_in.mailserver.lookup_socket` is not set, because then the sessions of removed users do
    /// not end.
    ///
    /// # Errors
    /// Returns an error if `imap.address` is invalid.
    pub fn new(config: &Config) -> Result<Self, StartError> {
        let (sign_in, imap) = (config.sign_in.clone(), &config.imap);
        if sign_in.uses_mail_server() && sign_in.mailserver.lookup_socket.as_os_str().is_empty() {
            tracing::warn!(
                "sign_in.mailserver.lookup_socket is not set: sessions of users who were removed from the mail server or changed their password there \
                 do not end"
            );
        }
        Ok(Self {
            verifications: WorkQueue::new(MAX_VERIFICATIONS, MAX_VERIFICATIONS_PER_SITE),
            sign_in,
            imap: Endpoint::new("imap.address", &imap.address, imap.tls)?,
            imap_timeout: imap.timeout,
        })
    }

    /// Returns the configuration of the sources of passwords.
    #[must_use]
    pub fn settings(&self) -> &SignIn {
        &self.sign_in
    }

    /// Returns `true` if the mail server verifies the password of this address.
    #[must_use]
    pub fn manages(&self, address: &str) -> bool {
        self.sign_in.is_at_mail_server(address)
    }

    /// Waits for a permit to verify a password that the client with the IP address `client` sent.
    ///
    /// # Errors
    /// Returns 503 if the queue of waiting verifications is full, or if the client disconnects.
    pub(crate) async fn permit(&self, client: Option<IpAddr>) -> Result<WorkPermit, Failure> {
        self.verifications.acquire(client).await
    }

    /// Verifies the password of an address. `client` is the IP address of the user's client, and
    /// `_permit` is a permit of [`Self::permit`].
    ///
    /// # Errors
    /// Returns 503 if the mail server cannot verify the password at the moment.
    pub(crate) async fn verify(
        &self,
        address: &str,
        password: &SecretString,
        client: Option<IpAddr>,
        _permit: WorkPermit,
    ) -> Result<Verification, Failure> {
        let settings = &self.sign_in.mailserver;
        let separator = settings.master_user_separator.as_str();
        if !separator.is_empty() && address.contains(separator) {
            return Ok(Verification::Rejected(
                "the name contains the separator of master users",
            ));
        }
        let name = self.existing_name(address).await;
        let user = if settings.auth_socket.as_os_str().is_empty() {
            let (imap, limit) = (&self.imap, self.imap_timeout);
            match imap_login::verify(imap, limit, name, password, client).await {
                Ok(true) => name.to_owned(),
                Ok(false) => return Ok(Verification::Rejected(WRONG_PASSWORD)),
                Err(error) => return Err(Failure::mail_unavailable().because(error)),
            }
        } else {
            match client::verify(&settings.auth_socket, name, password, client).await {
                Ok(Verified::Right { user }) => user,
                Ok(Verified::Wrong(reason)) => return Ok(Verification::Rejected(reason)),
                Err(error) => return Err(Failure::mail_unavailable().because(error)),
            }
        };
        Ok(self.verification(&user))
    }

    /// Returns the result for a correct password of the user with this canonical name.
    fn verification(&self, user: &str) -> Verification {
        let Some(address) = self.sign_in.address(user) else {
            if user.contains('@') {
                return Verification::Rejected(
                    "the user's name at the mail server is not an address",
                );
            }
            tracing::error!(
                user,
                "a user of the mail server cannot sign in, because the mail server's name of the user has no domain: set \
                 sign_in.mailserver.default_domain"
            );
            return Verification::Rejected("the user's name at the mail server has no domain");
        };
        // The mail server can report a name on another domain. The mail server must not
        // authenticate users of a domain with another source of passwords.
        if !self.manages(&address) {
            return Verification::Rejected(
                "the user's name at the mail server is on a domain with another source of passwords",
            );
        }
        Verification::Accepted {
            address,
            name: user.to_owned(),
        }
    }

    /// Returns the name with which the user of an address logs in to the mail server. On the
    /// default domain, a user's name can contain the domain or not. If the mail server does not
    /// know the name without the domain, returns the address.
    async fn existing_name<'a>(&self, address: &'a str) -> &'a str {
        let name = self.sign_in.login_name(address);
        if name != address
            && let Ok(mut lookups) = self.lookups().await
            && matches!(lookups.user_exists(name).await, Ok(false))
        {
            return address;
        }
        name
    }

    /// Returns the possible names of an account's user at the mail server. `known` is the name that
    /// the mail server reported at the user's last sign-in.
    pub(crate) fn names<'a>(&self, address: &'a str, known: Option<&'a str>) -> Vec<&'a str> {
        if let Some(known) = known {
            return vec![known];
        }
        let name = self.sign_in.login_name(address);
        if name == address {
            vec![address]
        } else {
            vec![address, name]
        }
    }

    /// Connects to the mail server's lookup socket.
    ///
    /// # Errors
    /// Returns an error if the lookup socket is not configured or unreachable.
    pub(crate) async fn lookups(&self) -> Result<Lookups, LookupError> {
        let socket = &self.sign_in.mailserver.lookup_socket;
        if socket.as_os_str().is_empty() {
            return Err(LookupError::NotConfigured);
        }
        Ok(Lookups::connect(socket).await?)
    }

    /// Returns the mail server's canonical name of the user with this address. Returns `None` if
    /// the mail server has no such user, or if the name belongs to another address. Also returns
    /// `None` if the mail server reports `unknown`, an address without a user, as a user. Such a
    /// mail server reports every name as a user (Dovecot's userdb `static`).
    ///
    /// # Errors
    /// Returns an error if the lookup socket is not configured, or if the lookup fails.
    pub(crate) async fn canonical_name(
        &self,
        address: &str,
        unknown: &str,
    ) -> Result<Option<String>, LookupError> {
        let mut lookups = self.lookups().await?;
        for name in self.names(unknown, None) {
            if lookups.user_exists(name).await? {
                tracing::warn!(
                    "the mail server reports every name as a user, so the first sign-in at the identity provider creates no account"
                );
                return Ok(None);
            }
        }
        for name in self.names(address, None) {
            if let Some(found) = lookups.canonical_name(name).await? {
                let is_same = self.sign_in.address(&found).as_deref() == Some(address);
                return Ok(is_same.then_some(found));
            }
        }
        Ok(None)
    }

    /// Returns `true` if the mail server has a user with this address. On the default domain, the
    /// user can have a name with or without the domain.
    ///
    /// # Errors
    /// Returns an error if the lookup socket is not configured, or if the lookup fails.
    pub(crate) async fn exists(&self, address: &str) -> Result<bool, LookupError> {
        let mut lookups = self.lookups().await?;
        for name in self.names(address, None) {
            if lookups.user_exists(name).await? {
                return Ok(true);
            }
        }
        Ok(false)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::*;

    fn users(text: &str) -> MailServerUsers {
        let config = Config::parse(text, "test", HashMap::new()).unwrap();
        MailServerUsers::new(&config).unwrap()
    }

    #[test]
    fn the_canonical_name_selects_the_account() {
        let users = users(
            "sign_in.domains.'a.example'.source = 'mailserver'\nsign_in.mailserver.default_domain = 'a.example'",
        );
        for (user, address) in [
            ("ada", "ada@a.example"),
            ("Ada", "ada@a.example"),
            ("ADA@A.example", "ada@a.example"),
        ] {
            let (address, name) = (address.to_owned(), user.to_owned());
            assert_eq!(
                users.verification(user),
                Verification::Accepted { address, name }
            );
        }
        for user in ["ada@b.example", "ada/1@a.example ", "a b", "@a.example"] {
            let verification = users.verification(user);
            assert!(
                matches!(verification, Verification::Rejected(_)),
                "{user}: {verification:?}"
            );
        }
    }

    #[test]
    fn a_name_without_a_domain_needs_a_default_domain() {
        let users = users("sign_in.source = 'mailserver'");
        assert!(matches!(
            users.verification("ada"),
            Verification::Rejected(_)
        ));
    }

    #[tokio::test]
    async fn a_name_with_the_separator_is_rejected_before_the_mail_server_is_asked() {
        let socket =
            "sign_in.source = 'mailserver'\nsign_in.mailserver.auth_socket = '/nonexistent/socket'";
        let address = "ada*master@a.example";
        let verify = async |text: &str| {
            let users = users(text);
            let permit = users.permit(None).await.unwrap();
            users.verify(address, &"x".into(), None, permit).await
        };
        assert!(matches!(
            verify(socket).await,
            Ok(Verification::Rejected(_))
        ));
        let off = format!("{socket}\nsign_in.mailserver.master_user_separator = ''");
        verify(&off).await.unwrap_err();
    }

    #[tokio::test]
    async fn the_clients_of_one_site_do_not_use_all_verifications() {
        let users = users("sign_in.source = 'mailserver'");
        let permit = async |client: [u8; 4]| users.permit(Some(client.into())).await.unwrap();
        let mut held = Vec::new();
        for number in 0..MAX_VERIFICATIONS_PER_SITE {
            let client = [192, 0, 2, u8::try_from(number).unwrap()];
            held.push(permit(client).await);
        }
        let beyond = users.permit(Some([192, 0, 2, 200].into()));
        let waits = tokio::time::timeout(Duration::from_millis(20), beyond).await;
        assert!(waits.is_err());
        held.push(permit([198, 51, 100, 1]).await);
    }
}
