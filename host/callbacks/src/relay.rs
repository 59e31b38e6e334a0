//! Sends events to one receiver of a developer, as the service sends them to webhooks: with the
//! same headers, signature and limits. Each event is sent once.

use http::{StatusCode, Uri};
use latchmail_core::clock::Clock;
use latchmail_core::config;
use latchmail_core::error::StartError;
use latchmail_net::fetch::{Fetch, Target};

use crate::secret::Secret;
use crate::sender::{Message, Refusal, Sender};

/// A receiver, which may have any address.
#[derive(Debug)]
pub struct Relay {
    sender: Sender,
    secret: Secret,
    url: String,
}

impl Relay {
    /// Creates a relay to a URL. Without `secret`, creates a random one.
    ///
    /// # Errors
    /// Returns an error if the URL or the secret is not valid.
    pub fn new(fetch: Fetch, url: &str, secret: Option<&str>) -> Result<Self, StartError> {
        let target = url.parse::<Uri>().ok().and_then(|uri| Target::of(&uri));
        let target = target.map(|target| format!("{}:{}", target.host, target.port));
        let allow = target.into_iter().collect();
        let sender = Sender::new(fetch, &config::Webhooks { allow }, Clock::system())?;
        let checked = sender.check(url);
        checked.map_err(|problem| StartError::new(format!("`{url}`: {problem}")))?;
        let secret = match secret {
            Some(text) => Secret::parse(text).ok_or_else(|| {
                StartError::new("the secret must be `whsec_` and 24 to 64 bytes in base64")
            })?,
            None => Secret::generate().map_err(|failure| StartError::new(failure.to_string()))?,
        };
        Ok(Self {
            sender,
            secret,
            url: url.to_owned(),
        })
    }

    /// Returns the secret with which events are signed.
    #[must_use]
    pub fn secret(&self) -> &str {
        self.secret.text()
    }

    /// Sends an event. Returns the status of the response, which can be an error.
    ///
    /// # Errors
    /// Returns the reason if there is no response.
    pub async fn send(&self, id: &str, body: &str) -> Result<StatusCode, String> {
        let message = Message {
            url: &self.url,
            id,
            secrets: &[&self.secret],
            subscription: None,
            body,
        };
        match self.sender.send(message).await {
            Ok(response) => Ok(response.status),
            Err(Refusal::Status(status)) => Ok(status),
            // The text for owners of webhooks hides the network of the service.
            Err(Refusal::Connection) => Err("The receiver cannot be reached".into()),
            Err(refusal) => Err(refusal.text()),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use latchmail_net::dns::Dns;

    use super::*;

    fn relay(url: &str, secret: Option<&str>) -> Result<Relay, StartError> {
        let dns = Dns::new(&config::Dns::default(), "mail.invalid")?;
        Relay::new(Fetch::new(Arc::new(dns))?, url, secret)
    }

    #[test]
    fn a_receiver_can_have_any_address_with_and_without_tls() {
        for url in [
            "http://localhost:3000/hook",
            "http://127.0.0.1/",
            "https://[::1]:8443/hook?a=b",
            "http://example.com/hook",
        ] {
            assert!(relay(url, None).is_ok(), "{url}");
        }
        for url in [
            "localhost:3000",
            "/hook",
            "http://ada@localhost/",
            "ftp://a/",
        ] {
            assert!(relay(url, None).is_err(), "{url}");
        }
    }

    #[test]
    fn a_secret_is_created_or_given() {
        let url = "http://localhost:3000/";
        let created = relay(url, None).unwrap();
        let given = relay(url, Some(created.secret())).unwrap();
        assert_eq!(given.secret(), created.secret());
        assert!(relay(url, Some("whsec_")).is_err());
    }

    #[tokio::test]
    async fn a_receiver_without_a_server_is_reported() {
        let relay = relay("http://127.0.0.1:1/", None).unwrap();
        let reason = relay.send("a", "{}").await.unwrap_err();
        assert_eq!(reason, "The receiver cannot be reached");
    }
}
