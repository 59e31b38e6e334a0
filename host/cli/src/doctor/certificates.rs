//! Checks the TLS certificates of the service and of the mail servers. For a mail server, checks
//! the certificate on the port to which the service connects, and the certificate on the port for
//! mail clients. Does not check ports with STARTTLS.

use std::net::SocketAddr;
use std::time::Duration;

use futures_util::future::join_all;
use latchmail_core::clock::{Clock, Timestamp};
use latchmail_core::config::Config;
use latchmail_core::network::is_local;
use latchmail_net::certificate::certificate_expiry;
use latchmail_transport::tls;
use tokio::net::TcpStream;
use tokio::time::{Instant, timeout_at};
use url::Url;

use super::TIMEOUT;
use super::finding::Finding;

const TLS: &str = "tls";

const DAY: Duration = Duration::from_hours(24);
/// The remaining validity of a certificate below which the operator gets a warning.
const WARNING_PERIOD: Duration = DAY.saturating_mul(14);

/// The ports for mail clients: IMAP and submission with TLS from the first byte (RFC 8314).
const PUBLIC_IMAP: u16 = 993;
const PUBLIC_SUBMISSION: u16 = 465;

/// A server with TLS.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Server {
    /// `host:port`.
    address: String,
    /// The name for which the certificate must be valid.
    name: String,
    /// Whether the service itself connects to the server. Otherwise, only mail clients do, and a
    /// problem is a warning.
    required: bool,
}

/// Checks the certificate of the service, and the certificates of all mail servers concurrently.
pub(super) async fn check(config: &Config) -> Vec<Finding> {
    let mut findings = Vec::from_iter(check_service(config, Clock::system().now()));
    findings.extend(join_all(servers(config).into_iter().map(check_certificate)).await);
    findings
}

/// Checks the certificate of the service. Without a certificate, checks that no client can connect
/// from another machine without a proxy.
fn check_service(config: &Config, now: Timestamp) -> Option<Finding> {
    if !config.serves_tls() {
        let is_public = |address: SocketAddr| !address.ip().to_canonical().is_loopback();
        let is_exposed =
            config.listen.tcp().is_some_and(is_public) && config.http.trusted_proxies.is_empty();
        return is_exposed.then(|| {
            Finding::warning(
                TLS,
                format!("clients can connect to {} without TLS", config.listen),
                "set `tls.certificate` and `tls.key`, or use a proxy with TLS and name it in `http.trusted_proxies`; see docs/tls.md",
            )
        });
    }
    let base_url = config.base_url();
    let name = Url::parse(&base_url).ok();
    let name = name.as_ref().and_then(Url::host_str).unwrap_or_default();
    let name = name.trim_start_matches('[').trim_end_matches(']');
    let checked = if config.acme.is_configured() {
        tls::check_issued_certificate(config, name)
    } else {
        tls::check_certificate(&config.tls, name).map(Some)
    };
    let Some(checked) = checked.transpose() else {
        return Some(Finding::warning(
            TLS,
            format!("{} has not issued a certificate yet", config.acme.directory),
            "start the service, which orders the certificate, and read its log; see docs/tls.md",
        ));
    };
    Some(match checked {
        Err(error) => Finding::failed(TLS, error.to_string(), "correct the files; see docs/tls.md"),
        Ok(summary) if summary.expiry < now => Finding::failed(
            TLS,
            format!(
                "the certificate of the service expired on {}",
                summary.expiry.date()
            ),
            "renew the certificate. The service uses the new files without a restart",
        ),
        Ok(summary) if !summary.is_valid_for_name => Finding::warning(
            TLS,
            format!(
                "the certificate of the service is not valid for {name}, the name in `base_url`"
            ),
            "use a certificate for this name, or correct `base_url`",
        ),
        Ok(summary) => assess_expiry("the service", summary.expiry, now),
    })
}

/// Returns the mail servers to which the service connects with TLS, and the ports for mail clients
/// on the mail servers' machines.
fn servers(config: &Config) -> Vec<Server> {
    let (imap, smtp) = (&config.imap, &config.smtp);
    let mut servers = Vec::new();
    for (address, tls, public_port) in [
        (&imap.address, imap.tls, PUBLIC_IMAP),
        (&smtp.address, smtp.tls, PUBLIC_SUBMISSION),
    ] {
        // The checks `imap` and `smtp` report an invalid address.
        let Some((host, _)) = address.rsplit_once(':') else {
            continue;
        };
        let public = Server {
            address: format!("{host}:{public_port}"),
            name: config.mail_host(),
            required: false,
        };
        // The service does not verify certificates on loopback addresses.
        if tls && !is_local(host) {
            let name = host.trim_start_matches('[').trim_end_matches(']');
            servers.push(Server {
                address: address.clone(),
                name: name.to_owned(),
                required: true,
            });
        }
        if !servers
            .iter()
            .any(|server| server.address == public.address)
        {
            servers.push(public);
        }
    }
    servers
}

async fn check_certificate(server: Server) -> Finding {
    let Server {
        address,
        name,
        required,
    } = server;
    let deadline = Instant::now() + TIMEOUT;
    let Ok(Ok(stream)) = timeout_at(deadline, TcpStream::connect(&address)).await else {
        return Finding::warning(
            TLS,
            format!("{address} cannot be reached, so its certificate was not checked"),
            "enable this port at the mail server if mail clients use it; see docs/mailserver.md",
        );
    };
    let failed = |why: &str| {
        let (detail, remedy) = (
            format!("{address}, with the name {name}: {why}"),
            "use a certificate that is trusted, not expired, and valid for this name. `imap.address`, `smtp.address` and `dns.mail_host` set the names",
        );
        if required {
            Finding::failed(TLS, detail, remedy)
        } else {
            Finding::warning(TLS, detail, remedy)
        }
    };
    match timeout_at(deadline, certificate_expiry(stream, &name)).await {
        Ok(Ok(end)) => assess_expiry(&address, end, Clock::system().now()),
        Ok(Err(error)) => failed(&error.to_string()),
        Err(_) => failed("the server did not respond in time"),
    }
}

/// Assesses the remaining validity of a certificate that has not expired. The callers report
/// expired certificates.
fn assess_expiry(address: &str, end: Timestamp, now: Timestamp) -> Finding {
    let remaining = end.since(now);
    let days = remaining.as_secs() / DAY.as_secs();
    let date = end.date();
    let detail = format!("the certificate of {address} expires on {date} (days: {days})");
    if remaining < WARNING_PERIOD {
        return Finding::warning(TLS, detail, "renew the certificate and reload the server");
    }
    Finding::ok(TLS, detail)
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::super::finding::Status;
    use super::*;

    #[test]
    fn a_certificate_causes_a_warning_two_weeks_before_it_expires() {
        let now = Timestamp::from_millis(1_795_161_600_000);
        let status = |end| assess_expiry("mail.example.org:993", end, now).status;
        assert_eq!(status(now.plus(DAY * 14)), Status::Ok);
        assert_eq!(status(now.plus(DAY * 13)), Status::Warning);
        assert_eq!(status(now), Status::Warning);
    }

    #[test]
    fn the_certificate_of_the_service_is_checked() {
        let folder = tempfile::tempdir().unwrap();
        let check = |settings: &str, now: Timestamp| {
            let config = Config::parse(settings, "test", HashMap::new()).unwrap();
            check_service(&config, now).map(|finding| finding.status)
        };
        let now = Clock::system().now();
        assert_eq!(check("", now), None);
        let public = "listen = '0.0.0.0:80'";
        assert_eq!(check(public, now), Some(Status::Warning));
        let proxied = format!("{public}\nhttp.trusted_proxies = ['10.0.0.1']");
        assert_eq!(check(&proxied, now), None);
        let (certificate, key) = (folder.path().join("certificate"), folder.path().join("key"));
        let settings = format!(
            "base_url = 'https://a.example'\ntls.certificate = '{}'\ntls.key = '{}'",
            certificate.display(),
            key.display()
        );
        assert_eq!(check(&settings, now), Some(Status::Failed));
        let generated = rcgen::generate_simple_self_signed(["a.example".to_owned()]).unwrap();
        std::fs::write(certificate, generated.cert.pem()).unwrap();
        std::fs::write(key, generated.key_pair.serialize_pem()).unwrap();
        assert_eq!(check(&settings, now), Some(Status::Ok));
        let other = settings.replace("a.example", "b.example");
        assert_eq!(check(&other, now), Some(Status::Warning));
        // The certificate is valid until the year 4096.
        let later = now.plus(DAY * 365 * 3000);
        assert_eq!(check(&settings, later), Some(Status::Failed));
    }

    #[test]
    fn the_ports_for_mail_clients_must_have_the_public_name() {
        let servers = |settings: &str| {
            let config = Config::parse(settings, "test", HashMap::new()).unwrap();
            let servers = servers(&config).into_iter();
            let servers: Vec<_> = servers.map(|one| (one.address, one.name)).collect();
            servers
        };
        let server = |address: &str, name: &str| (address.to_owned(), name.to_owned());
        let domain = "registration.domains = ['example.org']\n";
        assert_eq!(
            servers(domain),
            [
                server("127.0.0.1:993", "mail.example.org"),
                server("127.0.0.1:465", "mail.example.org"),
            ]
        );
        let remote = format!(
            "{domain}imap.address = 'mail.example.org:993'\nimap.tls = true\nsmtp.address = '[::1]:1465'\nsmtp.tls = true"
        );
        assert_eq!(
            servers(&remote),
            [
                server("mail.example.org:993", "mail.example.org"),
                server("[::1]:465", "mail.example.org"),
            ]
        );
    }
}
