//! Sends HTTP requests to receivers. A receiver must use HTTPS and have a public address, unless
//! the operator allows the receiver. The address is checked when the connection is opened, so a
//! changed DNS record cannot lead to a private address. Redirects are not followed.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use http::{StatusCode, Uri};
use latchmail_core::clock::Clock;
use latchmail_core::config;
use latchmail_core::error::{Problem, StartError};
use latchmail_core::traces::{Kind, Span};
use latchmail_core::{codes, metrics};
use latchmail_net::fetch::{self, Cause, Fetch, Host, Hosts, Request, Response, Target};
use tokio::time::Instant;

use crate::secret::{Secret, signatures};

/// The timeout of an attempt, from the DNS lookup to the end of the response.
const TIMEOUT: Duration = Duration::from_secs(10);
/// Maximum size of a response, in bytes.
const MAX_RESPONSE: usize = 64 * 1024;
/// Maximum length of a URL, in bytes.
const MAX_URL: usize = 2048;
/// Maximum number of concurrent requests of this host to one receiver. Above this number, an
/// account that has a request at the receiver gets no further permit.
const MAX_CONCURRENT: u32 = 8;
/// Maximum number of concurrent requests of this host to one receiver for an account that has none
/// there. The first request of an account does not wait for the requests of other accounts, which
/// can hang.
const MAX_WITH_FIRST: u32 = 64;

/// A message for a receiver.
#[derive(Clone, Copy)]
pub(crate) struct Message<'m> {
    /// The URL of the receiver.
    pub(crate) url: &'m str,
    /// The id of the message, for the header `webhook-id`.
    pub(crate) id: &'m str,
    /// The secrets with which the message is signed.
    pub(crate) secrets: &'m [&'m Secret],
    /// The id of the subscription, for the header `X-MCP-Subscription-Id`.
    pub(crate) subscription: Option<&'m str>,
    /// The body, in JSON.
    pub(crate) body: &'m str,
}

/// The reason why a receiver did not accept a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// The receiver responded with this status.
    Status(StatusCode),
    /// The receiver has no allowed address, or does not accept the connection.
    Connection,
    /// The receiver did not respond in time.
    Timeout,
    /// The TLS handshake failed.
    Tls,
    /// The response is too large.
    TooLarge,
}

impl Refusal {
    /// Returns a text for the owner of the webhook. The text does not contain words of the receiver
    /// or addresses of the network.
    pub(crate) fn text(&self) -> String {
        match self {
            Self::Status(status) => format!("The receiver responded with {}", status.as_u16()),
            Self::Connection => "The receiver cannot be reached at a permitted address".into(),
            Self::Timeout => {
                let seconds = TIMEOUT.as_secs();
                format!("The receiver did not respond within {seconds} seconds")
            }
            Self::Tls => "The TLS handshake with the receiver failed".into(),
            Self::TooLarge => format!("The response is larger than {MAX_RESPONSE} bytes"),
        }
    }

    /// Returns the reason for the error of a subscription.
    pub(crate) fn reason(&self) -> &'static str {
        match self {
            Self::Status(status) if status.is_server_error() => "http_5xx",
            Self::Status(status) if status.is_client_error() => "http_4xx",
            Self::Status(_) | Self::TooLarge => "challenge_failed",
            Self::Connection => "connection_refused",
            Self::Timeout => "timeout",
            Self::Tls => "tls_error",
        }
    }

    /// Returns the status of the response.
    pub(crate) fn status(&self) -> Option<StatusCode> {
        match self {
            Self::Status(status) => Some(*status),
            _ => None,
        }
    }
}

/// The numbers of running requests, by receiver and account.
type Running = HashMap<String, HashMap<String, u32>>;

/// The client of receivers.
#[derive(Debug)]
pub(crate) struct Sender {
    fetch: Fetch,
    /// The receivers that may have a private address and use plain HTTP.
    allow: Hosts,
    clock: Clock,
    running: Arc<Mutex<Running>>,
}

/// The right to send a request to a receiver.
#[derive(Debug)]
pub(crate) struct Permit {
    running: Arc<Mutex<Running>>,
    target: String,
    account: String,
}

impl Sender {
    /// Creates the client.
    ///
    /// # Errors
    /// Returns an error if an entry of `webhooks.allow` is not a host with a port.
    pub(crate) fn new(
        fetch: Fetch,
        config: &config::Webhooks,
        clock: Clock,
    ) -> Result<Self, StartError> {
        let mut entries = Vec::new();
        for entry in &config.allow {
            let has_port = entry.rsplit_once(':').is_some_and(|(host, port)| {
                port.parse::<u16>().is_ok() && !host.is_empty() && !host.contains(['/', '*'])
            });
            if !has_port {
                return Err(StartError::new(format!(
                    "`webhooks.allow` contains `{entry}`, which is not a host with a port, for example `hooks.internal:8443`"
                )));
            }
            entries.push(entry.clone());
            entries.push(format!("http://{entry}"));
        }
        let allow = Hosts::parse(&entries);
        let allow = allow.map_err(|why| StartError::new(format!("`webhooks.allow`: {why}")))?;
        Ok(Self {
            fetch,
            allow,
            clock,
            running: Arc::default(),
        })
    }

    /// Checks the URL of a receiver. Does not resolve its name.
    ///
    /// # Errors
    /// Returns the reason why the URL is not allowed.
    pub(crate) fn check(&self, url: &str) -> Result<Target, Problem> {
        let refused = |text: &'static str| Problem::new(codes::INVALID_WEBHOOK_URL, text);
        // The parser accepts other characters in a path.
        let is_valid = url.len() <= MAX_URL && url.is_ascii() && !url.contains('#');
        let uri = is_valid.then(|| url.parse::<Uri>().ok());
        let target = uri.flatten().and_then(|uri| Target::of(&uri));
        let Some(target) = target else {
            return Err(refused(
                "url must be an absolute URL in ASCII of at most 2048 characters, without user information and fragment",
            ));
        };
        if self.allow.allows(&target) {
            return Ok(target);
        }
        if !target.tls {
            return Err(refused("url must start with https://"));
        }
        if let Host::Address(address) = target.host {
            let address = SocketAddr::new(address, target.port);
            if !Hosts::default().allows_address(address) {
                return Err(refused("url must not have a private address"));
            }
        }
        Ok(target)
    }

    /// Returns a permit for a request of an account to a receiver.
    ///
    /// # Errors
    /// Returns the maximum number of concurrent requests of this host to the receiver if they are
    /// running already.
    pub(crate) fn permit(&self, account: &str, url: &str) -> Result<Permit, u32> {
        let target = self.check(url).map(|target| target.to_string());
        let target = target.unwrap_or_default();
        let mut running = lock(&self.running);
        let accounts = running.entry(target.clone()).or_default();
        let max = if accounts.contains_key(account) {
            MAX_CONCURRENT
        } else {
            MAX_WITH_FIRST
        };
        if accounts.values().sum::<u32>() >= max {
            return Err(max);
        }
        *accounts.entry(account.to_owned()).or_default() += 1;
        Ok(Permit {
            running: Arc::clone(&self.running),
            target,
            account: account.to_owned(),
        })
    }

    /// Sends a message. Returns a response with a status of success.
    ///
    /// # Errors
    /// Returns the reason why the receiver did not accept the message.
    pub(crate) async fn send(&self, message: Message<'_>) -> Result<Response, Refusal> {
        let mut span = Span::start(Kind::Client, || "webhook request".into());
        let started = Instant::now();
        let sent = self.send_once(message).await;
        metrics::WEBHOOK_DURATION.observe([], started.elapsed());
        let outcome = match &sent {
            Ok(_) => "delivered",
            Err(Refusal::Status(_) | Refusal::TooLarge) => "refused",
            Err(Refusal::Timeout) => "timeout",
            Err(Refusal::Connection | Refusal::Tls) => "unreachable",
        };
        metrics::WEBHOOK_ATTEMPTS.increment([outcome]);
        let status = match &sent {
            Ok(response) => Some(response.status),
            Err(refusal) => refusal.status(),
        };
        if let Some(status) = status {
            span.set_number("http.response.status_code", status.as_u16().into());
        }
        span.set("latchmail.outcome", outcome);
        if sent.is_err() {
            span.fail(outcome);
        }
        sent
    }

    async fn send_once(&self, message: Message<'_>) -> Result<Response, Refusal> {
        let Ok(target) = self.check(message.url) else {
            return Err(Refusal::Connection);
        };
        let hosts = if self.allow.allows(&target) {
            Hosts::only(target)
        } else {
            Hosts::default().with_public_hosts()
        };
        let seconds = self.clock.now().seconds();
        let body = message.body.as_bytes();
        let mut headers = vec![
            ("content-type", "application/json".to_owned()),
            ("webhook-id", message.id.to_owned()),
            ("webhook-timestamp", seconds.to_string()),
            (
                "webhook-signature",
                signatures(message.secrets, message.id, seconds, body),
            ),
        ];
        if let Some(subscription) = message.subscription {
            headers.push(("x-mcp-subscription-id", subscription.to_owned()));
        }
        let headers = headers.into_iter();
        let request = Request {
            method: "POST".into(),
            url: message.url.to_owned(),
            headers: headers.map(|(name, value)| (name.into(), value)).collect(),
            body: Bytes::copy_from_slice(body),
            timeout: Some(TIMEOUT),
            max_response_size: Some(MAX_RESPONSE),
            trace: None,
        };
        match self.fetch.send(&hosts, request).await {
            Ok(response) if response.status.is_success() => Ok(response),
            Ok(response) => Err(Refusal::Status(response.status)),
            Err(error) => {
                tracing::debug!(%error, "a receiver of webhooks cannot be reached");
                Err(refusal(&error))
            }
        }
    }
}

fn refusal(error: &fetch::Error) -> Refusal {
    match error {
        fetch::Error::TooLarge(_) => Refusal::TooLarge,
        fetch::Error::Unavailable(reason) | fetch::Error::OutcomeUnknown(reason) => {
            match reason.cause {
                Cause::Timeout => Refusal::Timeout,
                Cause::Tls => Refusal::Tls,
                Cause::Connection | Cause::Exchange => Refusal::Connection,
            }
        }
        fetch::Error::Denied(_) | fetch::Error::Blocked { .. } | fetch::Error::Invalid(_) => {
            Refusal::Connection
        }
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        let mut running = lock(&self.running);
        let Some(accounts) = running.get_mut(&self.target) else {
            return;
        };
        if let Some(count) = accounts.get_mut(&self.account) {
            *count -= 1;
            if *count == 0 {
                accounts.remove(&self.account);
            }
        }
        if accounts.is_empty() {
            running.remove(&self.target);
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // The counts are consistent even if a thread panicked while it had locked them.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use latchmail_net::dns::Dns;

    use super::*;

    fn sender(allow: &[&str]) -> Result<Sender, StartError> {
        let dns = Dns::new(&config::Dns::default(), "mail.invalid")?;
        let config = config::Webhooks {
            allow: allow.iter().map(ToString::to_string).collect(),
        };
        Sender::new(Fetch::new(Arc::new(dns))?, &config, Clock::system())
    }

    #[test]
    fn a_receiver_must_use_https_and_must_not_have_a_private_address() {
        let sender = sender(&["127.0.0.1:9000", "hooks.internal:9000"]).unwrap();
        for url in [
            "https://example.com/hook?a=b",
            "https://example.com:8443/",
            "https://8.8.8.8/",
            "http://127.0.0.1:9000/hook",
            "https://127.0.0.1:9000/hook",
            "http://hooks.internal:9000/",
        ] {
            assert!(sender.check(url).is_ok(), "{url}");
        }
        for url in [
            "",
            "/hook",
            "ftp://example.com/",
            "http://example.com/",
            "https://ada@example.com/",
            "https://example.com/#a",
            "https://example.com/\u{fc}",
            "http://127.0.0.1:9001/",
            "https://127.0.0.1/",
            "https://10.0.0.1/",
            "https://169.254.169.254/",
            "https://100.64.0.1/",
            "https://[::1]/",
            "https://[::ffff:10.0.0.1]/",
            "https://[64:ff9b::10.0.0.1]/",
            "https://[2002:a00:1::1]/",
            "https://[fec0::1]/",
            "https://[fd00::1]:443/",
            "https://2130706433/",
            "https://0x7f.1/",
        ] {
            assert!(sender.check(url).is_err(), "{url}");
        }
        assert!(
            sender
                .check(&format!("https://example.com/{}", "a".repeat(2048)))
                .is_err()
        );
    }

    #[test]
    fn an_entry_of_the_list_of_allowed_receivers_has_a_port() {
        for entry in [
            "",
            "example.com",
            "https://example.com",
            "*.example.com:1",
            "10.0.0.0/8",
            ":80",
        ] {
            assert!(sender(&[entry]).is_err(), "{entry}");
        }
    }

    #[test]
    fn the_number_of_concurrent_requests_to_a_receiver_is_limited() {
        let sender = sender(&[]).unwrap();
        let url = "https://example.com/a";
        let mut permits: Vec<_> = (0..MAX_CONCURRENT)
            .map(|_| sender.permit("ada", url).unwrap())
            .collect();
        let full = sender.permit("ada", "https://example.com/b").unwrap_err();
        assert_eq!(full, MAX_CONCURRENT);
        assert!(sender.permit("ada", "https://example.net/").is_ok());
        // Each other account can have one request, up to a second limit.
        for number in MAX_CONCURRENT..MAX_WITH_FIRST {
            let account = number.to_string();
            permits.push(sender.permit(&account, url).unwrap());
            assert_eq!(sender.permit(&account, url).unwrap_err(), MAX_CONCURRENT);
        }
        assert_eq!(sender.permit("bob", url).unwrap_err(), MAX_WITH_FIRST);
        drop(permits);
        drop(sender.permit("ada", url).unwrap());
        assert!(lock(&sender.running).is_empty());
    }
}
