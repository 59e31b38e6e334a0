//! Logs in at the submission service (RFC 4954). lettre sends app passwords. This module sends
//! access tokens with OAUTHBEARER or XOAUTH2.

use std::fmt;

use latchmail_core::caller::{MailCredential, Proof};
use latchmail_net::sasl::Mechanism;
use lettre::transport::smtp::Error as SmtpError;
use lettre::transport::smtp::authentication::{Credentials, Mechanism as Password};
use lettre::transport::smtp::client::AsyncSmtpConnection;
use lettre::transport::smtp::commands::Ehlo;
use lettre::transport::smtp::extension::ClientId;
use secrecy::{ExposeSecret as _, SecretString};
use zeroize::Zeroizing;

/// Maximum length of a command line without its line break (RFC 5321, section 4.5.3.1.4). The
/// client sends a longer SASL response after the server's request.
const MAX_LINE: usize = 510;

/// The reply code with which the server requests the SASL response (RFC 4954, section 4).
const CONTINUE: u16 = 334;

/// The reason why the log-in failed.
pub(super) enum Error {
    /// The credential is wrong.
    Refused,
    /// The submission service could not check the credential, or is unreachable.
    Unavailable(String),
}

impl From<SmtpError> for Error {
    fn from(error: SmtpError) -> Self {
        // Code 535 means a wrong credential, and code 454 means a temporary failure (RFC 4954,
        // section 6).
        if error.is_permanent() {
            Self::Refused
        } else {
            Self::Unavailable(error.to_string())
        }
    }
}

/// Logs in on a connection after EHLO.
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
            log_in_with_token(connection, hello, &credential.username, token).await
        }
    }
}

async fn log_in_with_token(
    connection: &mut AsyncSmtpConnection,
    hello: &ClientId,
    username: &str,
    token: &SecretString,
) -> Result<(), Error> {
    // Send a second EHLO, because lettre exposes only the extensions that lettre uses.
    let ehlo = connection.command(Ehlo::new(hello.clone())).await?;
    let offered: Vec<&str> = ehlo.message().filter_map(mechanisms).flatten().collect();
    let mechanism =
        Mechanism::preferred(|mechanism| offered.iter().any(|name| mechanism.has_name(name)));
    let mechanism = mechanism.ok_or_else(|| {
        Error::Unavailable(
            "log-in with an access token requires AUTH OAUTHBEARER or AUTH XOAUTH2, and the server offers neither".into(),
        )
    })?;
    let response = mechanism.response(username, token).ok_or(Error::Refused)?;
    let command = Zeroizing::new(format!("AUTH {} {}", mechanism.name(), response.as_str()));
    let mut reply = if command.len() <= MAX_LINE {
        connection.command(Line(&command)).await?
    } else {
        let start = format!("AUTH {}", mechanism.name());
        connection.command(Line(&start)).await?;
        connection.command(Line(&response)).await?
    };
    if reply.has_code(CONTINUE) {
        // The server has sent the reason of the failure. The server completes the command only
        // after the server has received this line.
        reply = connection.command(Line(mechanism.error_response())).await?;
    }
    if reply.has_code(CONTINUE) {
        return Err(Error::Unavailable(
            "the server did not complete the log-in".into(),
        ));
    }
    Ok(())
}

/// Returns the mechanisms in a line of the EHLO response. Returns `None` if the line does not
/// contain mechanisms.
fn mechanisms(line: &str) -> Option<std::str::SplitWhitespace<'_>> {
    let mut words = line.split_whitespace();
    let keyword = words.next()?;
    keyword.eq_ignore_ascii_case("AUTH").then_some(words)
}

/// A line for lettre, which does not append a line break.
struct Line<'a>(&'a str);

impl fmt::Display for Line<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}\r\n", self.0)
    }
}
