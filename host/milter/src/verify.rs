//! Verifies SPF, DKIM and DMARC of one message with the crate mail-auth. Limits the time and the
//! CPU use.

use std::net::IpAddr;
use std::time::Duration;

use mail_auth::common::crypto::Algorithm;
use mail_auth::dmarc::verify::DmarcParameters;
use mail_auth::spf::verify::SpfParameters;
use mail_auth::{AuthenticatedMessage, MessageAuthenticator};
use tokio::sync::Semaphore;
use tokio::task::block_in_place;
use tokio::time::timeout;

use super::results::{self, Check};

/// Timeout of all DNS lookups for one message together.
const DNS_TIMEOUT: Duration = Duration::from_secs(30);

/// Maximum number of messages that are hashed concurrently.
const MAX_HASHING: usize = 4;

/// The results of verifying a message.
#[derive(Debug)]
pub(crate) struct Verification {
    pub(crate) checks: Vec<Check>,
    pub(crate) dmarc: Check,
    /// The domain of the DMARC result. Empty if there is no DMARC result.
    pub(crate) domain: String,
}

impl Verification {
    fn unchecked(result: &'static str) -> Self {
        Self {
            checks: Vec::new(),
            dmarc: Check::new("dmarc", result),
            domain: String::new(),
        }
    }
}

/// The envelope sender of a message, and the client that sent the message to the mail server.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Envelope<'a> {
    pub(crate) ip: Option<IpAddr>,
    pub(crate) hello: &'a str,
    pub(crate) sender: &'a str,
}

/// Verifies messages with limits on time and CPU use.
pub(crate) struct Verifier {
    /// `None` if the milter uses no DNS.
    authenticator: Option<MessageAuthenticator>,
    authserv_id: String,
    hashing: Semaphore,
}

impl Verifier {
    pub(crate) fn new(authenticator: Option<MessageAuthenticator>, authserv_id: String) -> Self {
        Self {
            authenticator,
            authserv_id,
            hashing: Semaphore::new(MAX_HASHING),
        }
    }

    /// Verifies a message. `message` contains the body only if the message has signatures.
    pub(crate) async fn verify(&self, envelope: Envelope<'_>, message: &[u8]) -> Verification {
        let Some(authenticator) = &self.authenticator else {
            return Verification::unchecked("none");
        };
        let parsed = {
            let _permit = self.hashing.acquire().await;
            block_in_place(|| AuthenticatedMessage::parse(message))
        };
        let Some(parsed) = parsed else {
            return Verification::unchecked("none");
        };
        let checks = self.run_checks(authenticator, envelope, &parsed);
        let verification = timeout(DNS_TIMEOUT, checks).await;
        verification.unwrap_or_else(|_| Verification::unchecked("temperror"))
    }

    async fn run_checks(
        &self,
        authenticator: &MessageAuthenticator,
        envelope: Envelope<'_>,
        message: &AuthenticatedMessage<'_>,
    ) -> Verification {
        let Envelope { ip, hello, sender } = envelope;
        let sender_domain = sender.rsplit_once('@').map_or(hello, |(_, domain)| domain);
        let host = &*self.authserv_id;
        let spf = async {
            // SPF checks IP addresses, so there is no SPF result for a client without an IP
            // address.
            let ip = ip?;
            let parameters = if sender.is_empty() {
                SpfParameters::verify_ehlo(ip, hello, host)
            } else {
                SpfParameters::verify_mail_from(ip, hello, host, sender)
            };
            Some(authenticator.verify_spf(parameters).await)
        };
        let (spf, mut dkim) = tokio::join!(spf, authenticator.verify_dkim(message));
        let spf = spf.unwrap_or_default();
        // Ignore signatures with rsa-sha1, which must not be used for verification (RFC 8301,
        // section 3.1).
        dkim.retain(|one| {
            one.signature()
                .is_none_or(|signature| signature.a != Algorithm::RsaSha1)
        });
        let parameters = DmarcParameters::new(message, &dkim, sender_domain, &spf);
        let dmarc = authenticator.verify_dmarc(parameters).await;
        let property = if sender.is_empty() {
            "smtp.helo"
        } else {
            "smtp.mailfrom"
        };
        let mut checks =
            vec![Check::new("spf", results::spf(spf.result())).with(property, sender_domain)];
        checks.extend(dkim.iter().map(|one| {
            let check = Check::new("dkim", results::dkim(one.result()));
            match one.signature() {
                Some(signature) => check
                    .with("header.d", &signature.d)
                    .with("header.s", &signature.s),
                None => check,
            }
        }));
        Verification {
            checks,
            dmarc: Check::new("dmarc", results::dmarc(&dmarc.result())),
            domain: dmarc.into_domain(),
        }
    }
}
