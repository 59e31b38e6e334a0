//! Ending sessions that are open at the mail server: a client of Dovecot's doveadm API that knows one command, `kick`.
//!
//! A session's name is `address/app password` (`mailserver/dovecot/lookup.conf.ext`), so those of one app password can be told from
//! all others. What to do where it cannot be done is its caller's to decide.

use std::fmt;
use std::fs::File;
use std::io::Read as _;
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
use serde_json::{Value, json};
use tokio::time::timeout;
use zeroize::Zeroizing;

use super::said;
use crate::config;
use crate::dial::Dial;
use crate::error::StartError;

/// How long one request may take, its connection included.
pub(super) const PATIENCE: Duration = Duration::from_secs(2);

/// Commands of one request. Each takes a fraction of a millisecond.
const BATCH: usize = 200;

/// An answer names whom it ended.
const LARGEST_ANSWER: usize = 1024 * 1024;

/// More than any sensible key.
const LARGEST_KEY: u64 = 4096;

/// What `kick` ends with where nobody of that name is logged in (`EX_NOUSER` of sysexits.h).
const NOBODY: u64 = 68;

/// Dovecot's doveadm API.
pub(super) struct Doveadm {
    dial: Dial,
    host: HeaderValue,
    authorization: HeaderValue,
}

/// Why sessions were not ended, or perhaps not. A sentence for the log.
#[derive(Debug, thiserror::Error)]
pub(super) enum Error {
    /// It cannot be reached, or its answer cannot be read.
    #[error("doveadm does not answer: {0}")]
    Unreachable(String),
    /// It took too long.
    #[error("doveadm did not answer in {} s", PATIENCE.as_secs())]
    Late,
    /// It does not take the key.
    #[error("doveadm refused the key of `imap.doveadm_key_file`")]
    Refused,
    /// It answered something else.
    #[error("doveadm did not do it: {0}")]
    Failed(String),
}

/// The sessions of one app password, or of one account: a name with wildcards.
#[derive(Clone, Debug)]
pub(super) struct Sessions(String);

impl Sessions {
    /// Those that were begun with an app password. Its id is unique, whatever the account's address was when it was used.
    pub(super) fn of_app_password(id: &str) -> Option<Self> {
        plain(id).then(|| Self(format!("*/{id}")))
    }

    /// Those of an account, whatever they were begun with.
    pub(super) fn of_account(address: &str) -> Option<Self> {
        plain(address).then(|| Self(format!("{address}/*")))
    }
}

/// Whether it means only itself among wildcards. What does not cannot have logged in: Dovecot's `auth_username_chars` has none.
fn plain(name: &str) -> bool {
    !name.is_empty() && !name.contains(['*', '?', '\\'])
}

impl fmt::Debug for Doveadm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Doveadm")
            .field("dial", &self.dial)
            .finish_non_exhaustive()
    }
}

impl Doveadm {
    /// The one that is configured, none where none is. Nothing is connected.
    pub(super) fn new(config: &config::Imap) -> Result<Option<Self>, StartError> {
        if config.doveadm.is_empty() {
            tracing::warn!(
                "imap.doveadm is not set: sessions that are open when their app password is revoked go on until they end by themselves"
            );
            return Ok(None);
        }
        let dial = Dial::new("imap.doveadm", &config.doveadm, false)?;
        let key = read_key(&config.doveadm_key_file)?;
        let unusable = |e| StartError::new(format!("imap.doveadm cannot be used: {e}"));
        let host = HeaderValue::from_str(&config.doveadm).map_err(unusable)?;
        let text = Zeroizing::new(format!("X-Dovecot-API {}", STANDARD.encode(&key)));
        let mut authorization = HeaderValue::from_str(&text).map_err(unusable)?;
        authorization.set_sensitive(true);
        Ok(Some(Self {
            dial,
            host,
            authorization,
        }))
    }

    /// Ends sessions. Those that nobody has are ended.
    ///
    /// Dovecot ends a session's process. A process serves many sessions one after the other, so one that begins in the very moment
    /// when the one before it is ended can be ended in its stead; its client connects again.
    pub(super) async fn kick(&self, sessions: &[Sessions]) -> Result<(), Error> {
        for batch in sessions.chunks(BATCH) {
            timeout(PATIENCE, self.ask(batch))
                .await
                .map_err(|_| Error::Late)??;
        }
        Ok(())
    }

    async fn ask(&self, sessions: &[Sessions]) -> Result<(), Error> {
        // One command for each, since Dovecot's takes one mask.
        let commands: Value = sessions
            .iter()
            .map(|Sessions(mask)| json!(["kick", { "mask": [mask] }, "kick"]))
            .collect();
        // Without `Connection: close`: asked for that, Dovecot 2.3.19 does not answer a key that it refuses.
        let request = Request::post("/doveadm/v1")
            .header(HOST, &self.host)
            .header(AUTHORIZATION, &self.authorization)
            .header(CONTENT_TYPE, "application/json")
            .body(Full::new(Bytes::from(commands.to_string())))
            .map_err(unreachable)?;
        let stream = self.dial.connect().await.map_err(unreachable)?;
        let handshake = http1::handshake(TokioIo::new(stream)).await;
        let (mut sender, connection) = handshake.map_err(unreachable)?;
        let answer = async {
            let response = sender.send_request(request).await.map_err(unreachable)?;
            match response.status() {
                StatusCode::OK => {}
                StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => return Err(Error::Refused),
                status => return Err(Error::Failed(status.to_string())),
            }
            let body = Limited::new(response.into_body(), LARGEST_ANSWER).collect();
            let body = body.await.map_err(unreachable)?.to_bytes();
            check(&body, sessions.len())
        };
        tokio::pin!(answer);
        tokio::select! {
            // Driven to its end first: what was received before the connection closed is still there to be read.
            biased;
            answer = &mut answer => answer,
            _ = connection => answer.await,
        }
    }
}

/// Whether every command was done.
fn check(answer: &[u8], commands: usize) -> Result<(), Error> {
    // Its own words, for a log and a terminal. They begin with a bracket, which would be taken for a code.
    let failed = || {
        Error::Failed(said(&format!(
            "it said {}",
            String::from_utf8_lossy(answer)
        )))
    };
    let outcomes: Vec<(String, Value, String)> =
        serde_json::from_slice(answer).map_err(|_| failed())?;
    let done = outcomes.iter().all(|(kind, detail, _)| {
        kind == "doveadmResponse" || (kind == "error" && detail["exitCode"] == NOBODY)
    });
    if done && outcomes.len() == commands {
        Ok(())
    } else {
        Err(failed())
    }
}

fn unreachable(error: impl fmt::Display) -> Error {
    Error::Unreachable(error.to_string())
}

/// The bytes of the key's file, a line's end included: Dovecot takes them so.
fn read_key(path: &Path) -> Result<Zeroizing<Vec<u8>>, StartError> {
    let refused = |why: &str| {
        StartError::new(format!(
            "the file of imap.doveadm_key_file, {}, {why}",
            path.display()
        ))
    };
    let file = File::open(path).map_err(|e| refused(&format!("cannot be read: {e}")))?;
    let found = file
        .metadata()
        .map_err(|e| refused(&format!("cannot be read: {e}")))?;
    if found.mode() & 0o007 != 0 {
        return Err(refused(
            "may be read or written by everybody; make it private with chmod o=",
        ));
    }
    let mut key = Zeroizing::new(Vec::with_capacity(
        usize::try_from(found.len().min(LARGEST_KEY)).unwrap_or(0) + 1,
    ));
    file.take(LARGEST_KEY)
        .read_to_end(&mut key)
        .map_err(|e| refused(&format!("cannot be read: {e}")))?;
    if key.trim_ascii().is_empty() {
        return Err(refused("is empty"));
    }
    Ok(key)
}

#[cfg(test)]
mod tests;
