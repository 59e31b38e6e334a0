//! Rejects a configuration with an unencrypted connection to a mail server on another machine. The
//! directory checks its own connection to the database.
//!
//! This module reads only the configuration. It does not resolve names: every name except
//! `localhost` counts as another machine.

use super::Config;
use crate::error::StartError;
use crate::network::is_local;

/// Checks that every connection to a mail server is local, encrypted or explicitly allowed.
///
/// # Errors
/// Returns an error that names the setting and tells the operator how to allow the connection.
pub(super) fn check(config: &Config) -> Result<(), StartError> {
    let Config {
        imap, smtp, sieve, ..
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
            "sieve.address",
            &sieve.address,
            imap.tls || imap.insecure,
            "set `imap.tls = true`, which also applies to ManageSieve, or `imap.insecure = true` to allow this",
        ),
        (
            "smtp.address",
            &smtp.address,
            smtp.tls || smtp.starttls || smtp.insecure,
            "set `smtp.tls = true` or `smtp.starttls = true`, or `smtp.insecure = true` to allow this",
        ),
    ] {
        if !allowed && !address.is_empty() && !is_local(host(address)) {
            return Err(StartError::new(format!(
                "`{key}` is {address}, on another machine, and the connection is not encrypted; {remedy}"
            )));
        }
    }
    Ok(())
}

/// Returns the host in `host:port`.
fn host(address: &str) -> &str {
    address.rsplit_once(':').map_or(address, |(host, _)| host)
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
            ("sieve.address = 'mail.example.com:4190'", "imap.insecure"),
            ("smtp.address = 'mail.example.com:587'", "smtp.insecure"),
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
            "smtp.address = 'mail.example.com:587'\nsmtp.starttls = true",
        ] {
            assert_eq!(refusal(settings), None, "{settings}");
        }
    }
}
