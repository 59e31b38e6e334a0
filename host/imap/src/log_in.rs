//! Logs in with an app password (PLAIN or LOGIN) or an access token (OAUTHBEARER or XOAUTH2). A
//! rejected credential and an unavailable server cause different errors.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use imap_proto::{Response, Status};
use latchmail_core::caller::{MailCredential, Proof};
use latchmail_net::sasl::Mechanism;
use secrecy::{ExposeSecret as _, SecretString};
use zeroize::Zeroizing;

use super::capabilities::Capabilities;
use super::wire::{OnReply, Outcome, Wire};
use super::{Error, quoted};

/// Logs in. Returns the capabilities that the server sent during the log-in, if any.
pub(crate) async fn log_in(
    wire: &mut Wire,
    capabilities: Capabilities,
    credential: &MailCredential,
) -> Result<Option<Capabilities>, Error> {
    let mut untagged = None;
    let on: OnReply<'_> = &mut |reply, _| {
        if let Response::Capabilities(all) = reply {
            untagged = Some(Capabilities::of(all));
        }
        Ok(())
    };
    let username = &credential.username;
    let outcome = match &credential.proof {
        Proof::AppPassword(password) => {
            with_password(wire, capabilities, username, password, on).await?
        }
        Proof::AccessToken { token, .. } => {
            with_token(wire, capabilities, username, token, on).await?
        }
    };
    let listed = Capabilities::in_code(outcome.code.as_ref());
    check_outcome(outcome)?;
    Ok(listed.or(untagged))
}

async fn with_password(
    wire: &mut Wire,
    capabilities: Capabilities,
    username: &str,
    password: &SecretString,
    on: OnReply<'_>,
) -> Result<Outcome, Error> {
    let password = password.expose_secret();
    if username.contains('\0') || password.contains('\0') {
        return Err(Error::Refused);
    }
    let tag = if capabilities.auth_plain {
        // The authorization identity before the first NUL is empty (RFC 4616, section 2).
        let plain = Zeroizing::new(format!("\0{username}\0{password}"));
        let response = Zeroizing::new(STANDARD.encode(plain.as_bytes()));
        authenticate(wire, capabilities, "PLAIN", &response, on).await?
    } else if capabilities.login_disabled {
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
    capabilities: Capabilities,
    username: &str,
    token: &SecretString,
    on: OnReply<'_>,
) -> Result<Outcome, Error> {
    let offered = |mechanism| match mechanism {
        Mechanism::OAuthBearer => capabilities.auth_oauthbearer,
        Mechanism::XOAuth2 => capabilities.auth_xoauth2,
    };
    let mechanism = Mechanism::preferred(offered).ok_or_else(|| {
        Error::Unavailable(
            "log-in with an access token requires AUTH=OAUTHBEARER or AUTH=XOAUTH2, and the mail server offers neither".into(),
        )
    })?;
    let response = mechanism.response(username, token).ok_or(Error::Refused)?;
    let tag = authenticate(wire, capabilities, mechanism.name(), &response, on).await?;
    wire.flush().await?;
    if let Some(outcome) = wire.continuation(on).await? {
        return Ok(outcome);
    }
    // The server has rejected the token and sent the reason as a continuation request. The server
    // completes the command only after the client's response.
    wire.queue_line(mechanism.error_response());
    wire.finish_one(tag, on).await
}

/// Starts AUTHENTICATE, queues the client's response and returns the tag. With SASL-IR, the
/// response is part of the command. Without SASL-IR, waits until the server has requested the
/// response.
async fn authenticate(
    wire: &mut Wire,
    capabilities: Capabilities,
    mechanism: &str,
    response: &str,
    on: OnReply<'_>,
) -> Result<String, Error> {
    if capabilities.sasl_ir {
        let command = Zeroizing::new(format!("AUTHENTICATE {mechanism} {response}"));
        return Ok(wire.queue(&command));
    }
    let tag = wire.queue(&format!("AUTHENTICATE {mechanism}"));
    wire.flush().await?;
    if let Some(outcome) = wire.continuation(on).await? {
        return Err(Error::Unavailable(outcome.text));
    }
    wire.queue_line(response);
    Ok(tag)
}

/// Converts the outcome of the log-in to a result. The response code distinguishes a rejected
/// credential from an unavailable server (RFC 5530).
fn check_outcome(outcome: Outcome) -> Result<(), Error> {
    let refused = ["AUTHENTICATIONFAILED", "AUTHORIZATIONFAILED", "EXPIRED"]
        .iter()
        .any(|code| outcome.has_code(code));
    match outcome.status {
        Status::Ok => Ok(()),
        Status::No if refused || !outcome.text.starts_with('[') => Err(Error::Refused),
        _ => Err(Error::Unavailable(outcome.text)),
    }
}
