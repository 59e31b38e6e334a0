//! Checks the connections to the IMAP server, to doveadm, to the submission service and to the
//! ManageSieve service. Does not log in.

use std::time::Duration;

use latchmail_core::config::{self, Config};
use latchmail_core::finding::Finding;
use latchmail_core::network::is_on_this_machine;
use latchmail_imap::{Connector, Probe};

use crate::connections::doveadm;
use crate::outbox;

/// The maximum duration of a check.
const TIMEOUT: Duration = Duration::from_secs(5);

const IMAP: &str = "imap";
const DOVEADM: &str = "doveadm";
const SMTP: &str = "smtp";
const SIEVE: &str = "sieve";

/// The name that Dovecot reports. Dovecot lists most extensions only after the log-in, and offers
/// all required extensions. Therefore a missing extension before the log-in causes no warning for
/// Dovecot.
const DOVECOT: &str = "Dovecot";

/// Connects to the IMAP server and reads its capabilities.
pub async fn check_imap(config: &Config) -> Finding {
    let settings = config::Imap {
        timeout: config.imap.timeout.min(TIMEOUT),
        ..config.imap.clone()
    };
    let remedy = "start the IMAP server, and check `imap.address`, `imap.tls` and the server's log";
    let connector = match Connector::new(&settings) {
        Ok(connector) => connector,
        Err(error) => return Finding::failed(IMAP, error.to_string(), remedy),
    };
    match connector.probe().await {
        Ok(probe) => assess_imap(config, &probe),
        Err(error) => Finding::failed(IMAP, error.to_string(), remedy),
    }
}

fn assess_imap(config: &Config, probe: &Probe) -> Finding {
    let offered = probe.capabilities;
    let server = probe.name.as_deref().unwrap_or("server of unknown name");
    let connection = describe(server, &config.imap.address, describe_tls(config.imap.tls));
    if !offered.auth_plain && offered.login_disabled {
        return Finding::failed(
            IMAP,
            format!("{connection}, does not allow a log-in with a password"),
            "enable AUTH=PLAIN for connections of the service, or set `imap.tls = true`",
        );
    }
    if config.oauth.introspection.is_some() && !offered.auth_oauthbearer && !offered.auth_xoauth2 {
        return Finding::failed(
            IMAP,
            format!("{connection}, offers neither AUTH=OAUTHBEARER nor AUTH=XOAUTH2"),
            "enable one of them, because `oauth.introspection` is configured; see docs/oauth-external.md",
        );
    }
    let missing: Vec<&str> = offered.missing_extensions().map(|(name, _)| name).collect();
    if !missing.is_empty() && server != DOVECOT {
        return Finding::warning(
            IMAP,
            format!(
                "{connection}, does not list {} before the log-in",
                missing.join(" and ")
            ),
            "log in with a mail client and read the log of the service, which names each extension that is missing after the log-in",
        );
    }
    assess_encryption(IMAP, connection, &config.imap.address, config.imap.tls)
}

/// Sends a request that ends no session to doveadm.
pub async fn check_doveadm(config: &Config) -> Finding {
    match doveadm::probe(&config.imap).await {
        Ok(true) => Finding::ok(DOVEADM, format!("{} accepts the key", config.imap.doveadm)),
        Ok(false) => Finding::warning(
            DOVEADM,
            "`imap.doveadm` is not configured, so a revoked app password does not end open sessions",
            "set `imap.doveadm` and `imap.doveadm_key_file`, see docs/mailserver.md",
        ),
        Err(error) => Finding::failed(
            DOVEADM,
            error.to_string(),
            "start Dovecot, and check `imap.doveadm`, and that the key file has exactly the content that Dovecot reads; see docs/mailserver.md",
        ),
    }
}

/// Connects to the submission service and reads its reply to EHLO.
pub async fn check_smtp(config: &Config) -> Finding {
    let settings = config::Smtp {
        timeout: config.smtp.timeout.min(TIMEOUT),
        ..config.smtp.clone()
    };
    match outbox::probe(&settings).await {
        Ok(probe) => assess_smtp(config, &probe),
        Err(error) => Finding::failed(
            SMTP,
            error.to_string(),
            "start the submission service, and check `smtp.address`, `smtp.tls` and the server's log",
        ),
    }
}

fn assess_smtp(config: &Config, probe: &outbox::Probe) -> Finding {
    let encryption = if config.smtp.starttls {
        "STARTTLS used"
    } else {
        describe_tls(config.smtp.tls)
    };
    let connection = describe(&probe.name, &config.smtp.address, encryption);
    if !probe.auth_password {
        return Finding::failed(
            SMTP,
            format!("{connection}, does not offer AUTH PLAIN or AUTH LOGIN"),
            "enable log-in for connections of the service (`smtpd_sasl_auth_enable`), or set `smtp.tls = true` or `smtp.starttls = true`",
        );
    }
    if config.requests_delivery_reports() && !probe.dsn {
        return Finding::warning(
            SMTP,
            format!("{connection}, does not offer DSN, so the states of deliveries are unknown"),
            "remove `dsn` from `smtpd_discard_ehlo_keywords`, or set `inbound.delivery_reports = false`",
        );
    }
    let tls = config.smtp.tls || config.smtp.starttls;
    assess_encryption(SMTP, connection, &config.smtp.address, tls)
}

/// Connects to the ManageSieve service and reads its capabilities.
pub async fn check_sieve(config: &Config) -> Finding {
    let settings = config::Imap {
        timeout: config.imap.timeout.min(TIMEOUT),
        ..config.imap.clone()
    };
    let address = &config.sieve.address;
    let remedy =
        "start the ManageSieve service, and check `sieve.address`, `imap.tls` and the server's log";
    let connector = match latchmail_sieve::Connector::new(&config.sieve, &settings) {
        Ok(Some(connector)) => connector,
        Ok(None) => {
            return Finding::warning(
                SIEVE,
                "`sieve.address` is not configured, so there are neither vacation responses nor rules",
                "set `sieve.address` if the mail server has Sieve and ManageSieve; see docs/mailserver.md",
            );
        }
        Err(error) => return Finding::failed(SIEVE, error.to_string(), remedy),
    };
    match connector.probe().await {
        Ok(probe) if probe.missing.is_empty() => {
            let server = &probe.implementation;
            let connection = describe(server, address, describe_tls(config.imap.tls));
            assess_encryption(SIEVE, connection, address, config.imap.tls)
        }
        Ok(probe) => Finding::failed(
            SIEVE,
            format!(
                "{address} lacks the Sieve extensions {}",
                probe.missing.join(", ")
            ),
            "enable these extensions, or remove `sieve.address`",
        ),
        Err(error) => Finding::failed(SIEVE, error.to_string(), remedy),
    }
}

const fn describe_tls(tls: bool) -> &'static str {
    if tls { "TLS used" } else { "TLS not used" }
}

fn describe(server: &str, address: &str, encryption: &str) -> String {
    format!("{server} at {address}, {encryption}")
}

/// Returns a warning if the connection to another machine is not encrypted.
fn assess_encryption(check: &'static str, connection: String, address: &str, tls: bool) -> Finding {
    if tls || is_on_this_machine(address) {
        return Finding::ok(check, connection);
    }
    Finding::warning(
        check,
        format!("{connection}, although the server is on another machine"),
        format!("set `{check}.tls = true` and the port of the encrypted service"),
    )
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use latchmail_core::finding::Status;
    use latchmail_imap::capabilities::Capabilities;

    use super::*;

    fn config(settings: &str) -> Config {
        Config::parse(settings, "test", HashMap::new()).unwrap()
    }

    fn probe(name: Option<&str>, capabilities: Capabilities) -> Probe {
        Probe {
            name: name.map(Into::into),
            capabilities,
        }
    }

    #[test]
    fn only_dovecot_may_list_required_extensions_after_the_log_in() {
        let plain = Capabilities {
            auth_plain: true,
            ..Capabilities::default()
        };
        let complete = Capabilities {
            r#move: true,
            uid_plus: true,
            ..plain
        };
        let local = config("");
        let dovecot = assess_imap(&local, &probe(Some("Dovecot"), plain));
        assert_eq!(
            (dovecot.status, dovecot.detail.as_str()),
            (Status::Ok, "Dovecot at 127.0.0.1:143, TLS not used")
        );
        let other = assess_imap(&local, &probe(None, plain));
        assert_eq!(other.status, Status::Warning);
        assert!(
            other.detail.contains("MOVE (RFC 6851) and UIDPLUS"),
            "{}",
            other.detail
        );
        assert_eq!(
            assess_imap(&local, &probe(None, complete)).status,
            Status::Ok
        );
    }

    #[test]
    fn a_server_without_password_log_in_fails() {
        let disabled = Capabilities {
            login_disabled: true,
            ..Capabilities::default()
        };
        let imap = assess_imap(&config(""), &probe(Some("Dovecot"), disabled));
        assert_eq!(imap.status, Status::Failed);
        let server = outbox::Probe {
            name: "mail.example.org".into(),
            auth_password: false,
            dsn: true,
        };
        assert_eq!(assess_smtp(&config(""), &server).status, Status::Failed);
    }

    #[test]
    fn an_unencrypted_connection_to_another_machine_is_a_warning() {
        let server = outbox::Probe {
            name: "mail.example.org".into(),
            auth_password: true,
            dsn: true,
        };
        let remote = config("smtp.address = '10.0.0.1:587'\nsmtp.insecure = true");
        assert_eq!(assess_smtp(&remote, &server).status, Status::Warning);
        assert_eq!(assess_smtp(&config(""), &server).status, Status::Ok);
    }

    #[test]
    fn a_server_without_requested_delivery_reports_is_a_warning() {
        let server = outbox::Probe {
            name: "mail.example.org".into(),
            auth_password: true,
            dsn: false,
        };
        let requesting = config("inbound.delivery_reports = true");
        assert_eq!(assess_smtp(&requesting, &server).status, Status::Warning);
        assert_eq!(assess_smtp(&config(""), &server).status, Status::Ok);
    }
}
