//! Rejects configurations whose connections to mail servers and databases would cross a network without encryption.
//!
//! This module reads only the configuration. It resolves no names: any name other than `localhost` counts as another machine.

use std::net::IpAddr;
use std::str::FromStr as _;

use sqlx::postgres::{PgConnectOptions, PgSslMode};

use super::Config;
use crate::error::StartError;

/// Checks every connection to a mail server or a database.
///
/// # Errors
/// A sentence that names the setting and how to allow the connection.
pub(super) fn check(config: &Config) -> Result<(), StartError> {
    let Config {
        imap,
        smtp,
        database,
        ..
    } = config;
    for (key, address, allowed, remedy) in [
        (
            "imap.address",
            &imap.address,
            imap.tls || imap.insecure,
            "set `imap.tls = true`, or `imap.insecure = true` to allow this",
        ),
        (
            "imap.doveadm",
            &imap.doveadm,
            imap.insecure,
            "set `imap.insecure = true` to allow this",
        ),
        (
            "smtp.address",
            &smtp.address,
            smtp.tls || smtp.insecure,
            "set `smtp.tls = true`, or `smtp.insecure = true` to allow this",
        ),
    ] {
        if !allowed && !address.is_empty() && !is_local(host(address)) {
            return Err(StartError::new(format!(
                "`{key}` is {address}, on another machine, and the connection is not encrypted; {remedy}"
            )));
        }
    }
    match unencrypted_database(&database.url) {
        Some(host) if !database.insecure => Err(StartError::new(format!(
            "`database.url` names {host}, on another machine, and the connection may not be encrypted; append `?sslmode=verify-full` to it, or set \
             `database.insecure = true` to allow this"
        ))),
        _ => Ok(()),
    }
}

/// Returns the host of a PostgreSQL server on another machine, if the connection can be made without TLS. A URL that cannot be parsed is reported
/// when the database is opened.
fn unencrypted_database(url: &str) -> Option<String> {
    if !url.starts_with("postgres") {
        return None;
    }
    let options = PgConnectOptions::from_str(url).ok()?;
    let encrypted = matches!(
        options.get_ssl_mode(),
        PgSslMode::Require | PgSslMode::VerifyCa | PgSslMode::VerifyFull
    );
    let host = options.get_host();
    let on_socket = options.get_socket().is_some() || host.starts_with('/');
    (!encrypted && !on_socket && !is_local(host)).then(|| host.to_owned())
}

/// Returns the host of `host:port`.
fn host(address: &str) -> &str {
    address.rsplit_once(':').map_or(address, |(host, _)| host)
}

fn is_local(host: &str) -> bool {
    let address = host.trim_start_matches('[').trim_end_matches(']');
    host.eq_ignore_ascii_case("localhost")
        || IpAddr::from_str(address).is_ok_and(|ip| ip.to_canonical().is_loopback())
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use crate::config::Config;

    fn refusal(settings: &str) -> Option<String> {
        let parsed = Config::parse(settings, "test", HashMap::new());
        parsed.err().map(|e| e.to_string())
    }

    #[test]
    fn unencrypted_connections_to_other_machines_are_refused() {
        for (settings, key) in [
            ("imap.address = 'mail.example.com:143'", "imap.insecure"),
            ("imap.address = '192.0.2.1:143'", "imap.insecure"),
            ("imap.address = '[2001:db8::1]:143'", "imap.insecure"),
            ("imap.address = '0.0.0.0:143'", "imap.insecure"),
            ("imap.doveadm = 'mail.example.com:8081'", "imap.insecure"),
            ("smtp.address = 'mail.example.com:587'", "smtp.insecure"),
            (
                "database.url = 'postgres://db.example.com/a'",
                "database.insecure",
            ),
            (
                "database.url = 'postgresql://db.example.com/a?sslmode=prefer'",
                "database.insecure",
            ),
            (
                "database.url = 'postgres://[2001:db8::1]/a'",
                "database.insecure",
            ),
        ] {
            let sentence = refusal(settings).unwrap_or_else(|| panic!("{settings} is accepted"));
            assert!(
                sentence.contains(key) && sentence.lines().count() == 1,
                "{sentence}"
            );
            assert_eq!(refusal(&format!("{settings}\n{key} = true")), None);
        }
    }

    #[test]
    fn local_and_encrypted_connections_are_accepted() {
        for settings in [
            "imap.address = 'localhost:143'",
            "imap.address = '127.0.0.2:143'",
            "imap.address = '[::1]:143'",
            "imap.address = 'mail.example.com:993'\nimap.tls = true",
            "smtp.address = 'mail.example.com:465'\nsmtp.tls = true",
            "database.url = 'postgres://localhost/a'",
            "database.url = 'postgres://[::1]/a'",
            "database.url = 'postgres:///a?host=/run/postgresql'",
            "database.url = 'postgres://%2Frun%2Fpostgresql/a'",
            "database.url = 'postgres://db.example.com/a?sslmode=require'",
            "database.url = 'postgres://db.example.com/a?sslmode=verify-full'",
            "database.url = 'sqlite:a.db'",
        ] {
            assert_eq!(refusal(settings), None, "{settings}");
        }
    }
}
