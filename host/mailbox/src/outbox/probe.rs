//! Reads what the submission service reports before the log-in. Does not log in and sends no
//! message.

use std::net::Ipv4Addr;

use latchmail_core::config;
use latchmail_core::error::StartError;
use lettre::transport::smtp::authentication::Mechanism;
use lettre::transport::smtp::commands::Ehlo;
use lettre::transport::smtp::extension::ClientId;
use tokio::time::timeout;

use super::smtp::{Connector, is_dsn};

/// What the submission service reports before the log-in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Probe {
    /// The host name of the server.
    pub name: String,
    /// Whether the server offers a log-in with a password (PLAIN or LOGIN).
    pub auth_password: bool,
    /// Whether the server offers delivery reports (RFC 3461).
    pub dsn: bool,
}

/// Connects, and reads the reply to EHLO. Returns within `smtp.timeout`.
///
/// # Errors
/// Returns an error if the server is unreachable or does not support EHLO.
pub async fn probe(config: &config::Smtp) -> Result<Probe, StartError> {
    let connector = Connector::new(config)?;
    let failed = |why: &str| StartError::new(format!("{}: {why}", config.address));
    let hello = ClientId::Ipv4(Ipv4Addr::LOCALHOST);
    let reading = async {
        let mut connection = connector.open(&hello).await?;
        // Send a second EHLO, because lettre exposes only the extensions that lettre uses.
        let ehlo = connection.command(Ehlo::new(hello.clone())).await;
        let dsn = ehlo.is_ok_and(|reply| reply.message().skip(1).any(is_dsn));
        let server = connection.server_info();
        let passwords = [Mechanism::Plain, Mechanism::Login];
        let probe = Probe {
            name: server.name().to_owned(),
            auth_password: server.get_auth_mechanism(&passwords).is_some(),
            dsn,
        };
        // The result is complete. A failure of QUIT does not matter.
        let _ = connection.quit().await;
        Ok::<_, String>(probe)
    };
    match timeout(config.timeout, reading).await {
        Ok(Ok(probe)) => Ok(probe),
        Ok(Err(why)) => Err(failed(&why)),
        Err(_) => Err(failed("the server did not respond in time")),
    }
}
