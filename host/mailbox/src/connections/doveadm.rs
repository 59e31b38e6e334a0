//! A client of Dovecot's doveadm HTTP API that ends open sessions and frees the space of deleted
//! messages. The client uses only the commands `kick` and `purge`.
//!
//! The user name of a session is `address/app password id` (`mailserver/dovecot/lookup.conf.ext`).
//! Therefore a mask can select the sessions of one app password. If `imap.session_names` is `user`,
//! the user name is the log-in name of the user. The caller handles failures.

use std::fmt;
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use http::header::{AUTHORIZATION, CONTENT_TYPE, HOST};
use http::{HeaderValue, Request, StatusCode};
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use latchmail_core::error::StartError;
use latchmail_core::{config, secret_file};
use latchmail_net::endpoint::Endpoint;
use serde_json::{Value, json};
use tokio::time::timeout;
use zeroize::Zeroizing;

use crate::connections::server_text::sanitize;

/// Timeout of one request, including the connection.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(2);

/// Timeout of a request that frees the space of deleted messages.
const PURGE_TIMEOUT: Duration = Duration::from_mins(1);

/// Maximum number of commands in one request. Each command takes a fraction of a millisecond.
const BATCH: usize = 200;

/// Maximum size of a response, in bytes. A response contains the users of the ended sessions.
const MAX_RESPONSE: usize = 1024 * 1024;

/// Exit code of `kick` if no user with this name is logged in (`EX_NOUSER` of sysexits.h).
const EX_NOUSER: u64 = 68;

/// A client of Dovecot's doveadm API.
pub(crate) struct Doveadm {
    endpoint: Endpoint,
    host: HeaderValue,
    authorization: HeaderValue,
}

/// The reason why a command might not have succeeded. The error text is for the log.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    /// The API is unreachable, or its response cannot be read.
    #[error("cannot reach doveadm: {0}")]
    Unreachable(String),
    /// The request timed out.
    #[error("doveadm did not respond in time")]
    Timeout,
    /// The API rejected the key.
    #[error("doveadm rejected the key in `imap.doveadm_key_file`")]
    KeyRejected,
    /// The API returned an unexpected status, or reported that a command failed.
    #[error("doveadm failed: {0}")]
    Failed(String),
}

/// A mask for user names, with wildcards. The mask selects the sessions of one app password or of
/// one account.
#[derive(Clone, Debug)]
pub(crate) struct SessionMask(String);

impl SessionMask {
    /// Selects the sessions of an app password. The mask contains only the unique id, because the
    /// account's address can change. Returns `None` if no app password can have this id.
    pub(crate) fn app_password(id: &str) -> Option<Self> {
        has_no_wildcards(id).then(|| Self(format!("*/{id}")))
    }

    /// Selects all sessions of the user with this log-in name. Use this mask only if
    /// `imap.session_names` is `user`. Returns `None` if no user can have this name.
    pub(crate) fn user(name: &str) -> Option<Self> {
        has_no_wildcards(name).then(|| Self(name.to_owned()))
    }

    /// Selects all sessions of an account. Returns `None` if no account can have this address.
    pub(crate) fn account(address: &str) -> Option<Self> {
        has_no_wildcards(address).then(|| Self(format!("{address}/*")))
    }
}

/// Returns `true` if the name is not empty and contains no wildcards. Dovecot's
/// `auth_username_chars` forbids wildcards in user names.
fn has_no_wildcards(name: &str) -> bool {
    !name.is_empty() && !name.contains(['*', '?', '\\'])
}

impl fmt::Debug for Doveadm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Doveadm")
            .field("endpoint", &self.endpoint)
            .finish_non_exhaustive()
    }
}

/// Sends a request that ends no session, to check the connection and the key. Returns `false` if
/// `imap.doveadm` is not configured, otherwise `true`.
///
/// # Errors
/// Returns an error if the key file cannot be used, or if the request fails.
pub(crate) async fn probe(config: &config::Imap) -> Result<bool, StartError> {
    let Some(doveadm) = Doveadm::new(config)? else {
        return Ok(false);
    };
    // The user name of a session contains an address. `none` is not an address, so no session has
    // this user name.
    let masks = [SessionMask("none/none".into())];
    let result = doveadm.kick(&masks).await;
    result.map_err(|error| StartError::new(error.to_string()))?;
    Ok(true)
}

impl Doveadm {
    /// Creates the client from the configuration. Returns `None` if `imap.doveadm` is not set. Does
    /// not connect.
    pub(crate) fn new(config: &config::Imap) -> Result<Option<Self>, StartError> {
        if config.doveadm.is_empty() {
            tracing::warn!(
                "imap.doveadm is not set: revoking an app password does not end sessions that are already open"
            );
            return Ok(None);
        }
        let endpoint = Endpoint::new("imap.doveadm", &config.doveadm, false)?;
        let key = read_key(&config.doveadm_key_file)?;
        let invalid = |e| StartError::new(format!("imap.doveadm cannot be used: {e}"));
        let host = HeaderValue::from_str(&config.doveadm).map_err(invalid)?;
        let text = Zeroizing::new(format!("X-Dovecot-API {}", STANDARD.encode(&key)));
        let mut authorization = HeaderValue::from_str(&text).map_err(invalid)?;
        authorization.set_sensitive(true);
        Ok(Some(Self {
            endpoint,
            host,
            authorization,
        }))
    }

    /// Ends sessions. Succeeds even if no such session exists.
    ///
    /// Dovecot ends the process of the session. One process handles many sessions, one after the
    /// other. Therefore this function can also end a session that has just started in this process.
    /// The client of that session reconnects.
    pub(crate) async fn kick(&self, masks: &[SessionMask]) -> Result<(), Error> {
        for batch in masks.chunks(BATCH) {
            // `kick` accepts one mask, so each mask needs a separate command.
            let commands = batch
                .iter()
                .map(|SessionMask(mask)| json!(["kick", { "mask": [mask] }, "kick"]))
                .collect();
            timeout(TIMEOUT, self.send_request(commands))
                .await
                .map_err(|_| Error::Timeout)??;
        }
        Ok(())
    }

    /// Frees the space of the deleted messages of a user. Mailboxes in the format mdbox
    /// keep deleted messages until this command. The command has no effect on other formats.
    pub(crate) async fn purge(&self, user: &str) -> Result<(), Error> {
        let commands = vec![json!(["purge", { "user": user }, "purge"])];
        let purged = timeout(PURGE_TIMEOUT, self.send_request(commands)).await;
        purged.map_err(|_| Error::Timeout)?
    }

    async fn send_request(&self, commands: Vec<Value>) -> Result<(), Error> {
        let count = commands.len();
        let commands = Value::from(commands);
        // Do not send `Connection: close`. Otherwise Dovecot 2.3.19 sends no response to a request
        // with a wrong key.
        let request = Request::post("/doveadm/v1")
            .header(HOST, &self.host)
            .header(AUTHORIZATION, &self.authorization)
            .header(CONTENT_TYPE, "application/json")
            .body(Full::new(Bytes::from(commands.to_string())))
            .map_err(unreachable)?;
        let stream = self.endpoint.connect().await.map_err(unreachable)?;
        let handshake = http1::handshake(TokioIo::new(stream)).await;
        let (mut sender, connection) = handshake.map_err(unreachable)?;
        let result = async {
            let response = sender.send_request(request).await.map_err(unreachable)?;
            match response.status() {
                StatusCode::OK => {}
                StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => return Err(Error::KeyRejected),
                status => return Err(Error::Failed(status.to_string())),
            }
            let body = Limited::new(response.into_body(), MAX_RESPONSE).collect();
            let body = body.await.map_err(unreachable)?.to_bytes();
            check(&body, count)
        };
        tokio::pin!(result);
        tokio::select! {
            // Poll the response first. Data that arrived before the connection closed must be read.
            biased;
            result = &mut result => result,
            _ = connection => result.await,
        }
    }
}

/// Checks that every command succeeded.
fn check(response: &[u8], commands: usize) -> Result<(), Error> {
    // The text must begin with a word, because `sanitize` removes text in brackets at the beginning
    // as a response code. A JSON array begins with a bracket.
    let failed = || {
        Error::Failed(sanitize(&format!(
            "the response was {}",
            String::from_utf8_lossy(response)
        )))
    };
    let results: Vec<(String, Value, String)> =
        serde_json::from_slice(response).map_err(|_| failed())?;
    let succeeded = results.iter().all(|(kind, detail, _)| {
        kind == "doveadmResponse" || (kind == "error" && detail["exitCode"] == EX_NOUSER)
    });
    if succeeded && results.len() == commands {
        Ok(())
    } else {
        Err(failed())
    }
}

fn unreachable(error: impl fmt::Display) -> Error {
    Error::Unreachable(error.to_string())
}

/// Reads the key file. For Dovecot, a trailing newline is part of the key, so this function does
/// not remove the newline.
fn read_key(path: &Path) -> Result<Zeroizing<Vec<u8>>, StartError> {
    const SETTING: &str = "`imap.doveadm_key_file`";
    // Root can run commands for a service that runs as another user. In that case, the key file
    // belongs to the other user.
    let user = match secret_file::current_user() {
        0 => fs::metadata(path).map_or(0, |metadata| metadata.uid()),
        user => user,
    };
    let key = secret_file::read_as(SETTING, path, user)?;
    if key.trim_ascii().is_empty() {
        let path = path.display();
        return Err(StartError::new(format!("{SETTING} {path} is empty")));
    }
    Ok(key)
}

#[cfg(test)]
mod tests;
