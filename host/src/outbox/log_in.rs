//! The log-in at the submission service (RFC 4954): an app password as lettre does it, an access token by OAUTHBEARER or XOAUTH2.

use std::fmt;

use lettre::transport::smtp::Error as SmtpError;
use lettre::transport::smtp::authentication::{Credentials, Mechanism as Password};
use lettre::transport::smtp::client::AsyncSmtpConnection;
use lettre::transport::smtp::commands::Ehlo;
use lettre::transport::smtp::extension::ClientId;
use secrecy::{ExposeSecret as _, SecretString};
use zeroize::Zeroizing;

use crate::caller::{MailCredential, Proof};
use crate::sasl::Mechanism;

/// The longest line of a command, its end aside (RFC 5321, section 4.5.3.1.4): what makes it longer has to be asked for.
const LONGEST: usize = 510;

/// What asks the client to go on (RFC 4954, section 4).
const GO_ON: u16 = 334;

/// Why it did not let the credential in.
pub(super) enum Error {
    /// It is wrong.
    Refused,
    /// The service cannot tell, or cannot be talked to.
    Unavailable(String),
}

impl From<SmtpError> for Error {
    fn from(error: SmtpError) -> Self {
        // RFC 4954, section 6: 535 is a credential that is wrong, 454 a server that cannot tell.
        if error.is_permanent() {
            Self::Refused
        } else {
            Self::Unavailable(error.to_string())
        }
    }
}

/// Logs in on a connection that has said hello.
pub(super) async fn log_in(
    connection: &mut AsyncSmtpConnection,
    hello: &ClientId,
    credential: &MailCredential,
) -> Result<(), Error> {
    match &credential.proof {
        Proof::AppPassword(password) => {
            let password = password.expose_secret().to_owned();
            let credentials = Credentials::new(credential.username.clone(), password);
            let mechanisms = [Password::Plain, Password::Login];
            connection.auth(&mechanisms, &credentials).await?;
            Ok(())
        }
        Proof::AccessToken { token, .. } => {
            with_token(connection, hello, &credential.username, token).await
        }
    }
}

async fn with_token(
    connection: &mut AsyncSmtpConnection,
    hello: &ClientId,
    username: &str,
    token: &SecretString,
) -> Result<(), Error> {
    // Asked once more: lettre keeps to itself what it does not use.
    let told = connection.command(Ehlo::new(hello.clone())).await?;
    let offered: Vec<&str> = told.message().filter_map(mechanisms).flatten().collect();
    let mechanism = Mechanism::best(|one| offered.iter().any(|name| one.is(name)));
    let mechanism = mechanism.ok_or_else(|| {
        Error::Unavailable(
            "it offers neither AUTH OAUTHBEARER nor AUTH XOAUTH2, one of which an access token needs".into(),
        )
    })?;
    let response = mechanism.response(username, token).ok_or(Error::Refused)?;
    let whole = Zeroizing::new(format!("AUTH {} {}", mechanism.name(), response.as_str()));
    let mut answer = if whole.len() <= LONGEST {
        connection.command(Line(&whole)).await?
    } else {
        let begun = format!("AUTH {}", mechanism.name());
        connection.command(Line(&begun)).await?;
        connection.command(Line(&response)).await?
    };
    if answer.has_code(GO_ON) {
        // It tells why it refuses, and refuses once that was heard.
        answer = connection.command(Line(mechanism.farewell())).await?;
    }
    if answer.has_code(GO_ON) {
        return Err(Error::Unavailable("its log-in has no end".into()));
    }
    Ok(())
}

/// What a line of the answer to EHLO says of mechanisms, where it does.
fn mechanisms(line: &str) -> Option<std::str::SplitWhitespace<'_>> {
    let mut words = line.split_whitespace();
    let keyword = words.next()?;
    keyword.eq_ignore_ascii_case("AUTH").then_some(words)
}

/// A line as lettre sends it.
struct Line<'a>(&'a str);

impl fmt::Display for Line<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}\r\n", self.0)
    }
}
