//! Logs in: with an app password (PLAIN or LOGIN) or an access token (OAUTHBEARER or XOAUTH2). Distinguishes a wrong credential from a server that accepts no
//! log-ins at the moment.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use imap_proto::{Response, Status};
use latchmail_core::caller::{MailCredential, Proof};
use latchmail_net::sasl::Mechanism;
use secrecy::{ExposeSecret as _, SecretString};
use zeroize::Zeroizing;

use super::capabilities::Capabilities;
use super::client::named;
use super::wire::{On, Outcome, Wire};
use super::{Error, quoted};

/// Logs in. Returns the capabilities that the server sent during the log-in, if any.
pub(crate) async fn log_in(
    wire: &mut Wire,
    can: Capabilities,
    credential: &MailCredential,
) -> Result<Option<Capabilities>, Error> {
    let mut told = None;
    let on: On<'_> = &mut |reply, _| {
        if let Response::Capabilities(all) = reply {
            told = Some(Capabilities::of(all));
        }
        Ok(())
    };
    let username = &credential.username;
    let outcome = match &credential.proof {
        Proof::AppPassword(password) => with_password(wire, can, username, password, on).await?,
        Proof::AccessToken { token, .. } => with_token(wire, can, username, token, on).await?,
    };
    let named = named(outcome.code.as_ref());
    accepted(outcome)?;
    Ok(named.or(told))
}

async fn with_password(
    wire: &mut Wire,
    can: Capabilities,
    username: &str,
    password: &SecretString,
    on: On<'_>,
) -> Result<Outcome, Error> {
    let password = password.expose_secret();
    if username.contains('\0') || password.contains('\0') {
        return Err(Error::Refused);
    }
    let tag = if can.auth_plain {
        // RFC 4616: an empty authorization identity, the user name, the password.
        let plain = Zeroizing::new(format!("\0{username}\0{password}"));
        let response = Zeroizing::new(STANDARD.encode(plain.as_bytes()));
        authenticate(wire, can, "PLAIN", &response, on).await?
    } else if can.login_disabled {
        return Err(Error::Unavailable(
            "the mail server does not allow log-in without TLS".into(),
        ));
    } else {
        let (Some(username), Some(password)) = (quoted(username), quoted(password)) else {
            return Err(Error::Refused);
        };
        let password = Zeroizing::new(password);
        wire.queue(&Zeroizing::new(format!(
            "LOGIN {username} {}",
            password.as_str()
        )))
    };
    wire.finish_one(tag, on).await
}

async fn with_token(
    wire: &mut Wire,
    can: Capabilities,
    username: &str,
    token: &SecretString,
    on: On<'_>,
) -> Result<Outcome, Error> {
    let offered = |mechanism| match mechanism {
        Mechanism::OAuthBearer => can.auth_oauthbearer,
        Mechanism::XOAuth2 => can.auth_xoauth2,
    };
    let mechanism = Mechanism::best(offered).ok_or_else(|| {
        Error::Unavailable(
            "log-in with an access token requires AUTH=OAUTHBEARER or AUTH=XOAUTH2, and the mail server offers neither".into(),
        )
    })?;
    let response = mechanism.response(username, token).ok_or(Error::Refused)?;
    let tag = authenticate(wire, can, mechanism.name(), &response, on).await?;
    wire.flush().await?;
    if let Some(outcome) = wire.asked(on).await? {
        return Ok(outcome);
    }
    // The server has sent the reason of the failure, and completes the command after this reply.
    wire.queue_line(mechanism.farewell());
    wire.finish_one(tag, on).await
}

/// Queues AUTHENTICATE with the client's only message and returns its tag. Without SASL-IR, the message is queued after the server has requested it.
async fn authenticate(
    wire: &mut Wire,
    can: Capabilities,
    mechanism: &str,
    response: &str,
    on: On<'_>,
) -> Result<String, Error> {
    if can.sasl_ir {
        let command = Zeroizing::new(format!("AUTHENTICATE {mechanism} {response}"));
        return Ok(wire.queue(&command));
    }
    let tag = wire.queue(&format!("AUTHENTICATE {mechanism}"));
    wire.flush().await?;
    if let Some(outcome) = wire.asked(on).await? {
        return Err(Error::Unavailable(outcome.text));
    }
    wire.queue_line(response);
    Ok(tag)
}

/// Distinguishes a wrong credential from a server that accepts no log-ins at the moment (RFC 5530).
fn accepted(outcome: Outcome) -> Result<(), Error> {
    let refused = ["AUTHENTICATIONFAILED", "AUTHORIZATIONFAILED", "EXPIRED"]
        .iter()
        .any(|code| outcome.says(code));
    match outcome.status {
        Status::Ok => Ok(()),
        Status::No if refused || !outcome.text.starts_with('[') => Err(Error::Refused),
        _ => Err(Error::Unavailable(outcome.text)),
    }
}
