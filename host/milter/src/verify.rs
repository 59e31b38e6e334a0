//! SPF, DKIM and DMARC of one message, with bounded work.
//!
//! mail-auth checks; this file limits what a hostile message can make it do, and does without DNS if there is none.

use std::net::IpAddr;
use std::time::Duration;

use mail_auth::common::crypto::Algorithm;
use mail_auth::dmarc::verify::DmarcParameters;
use mail_auth::spf::verify::SpfParameters;
use mail_auth::{AuthenticatedMessage, MessageAuthenticator};
use tokio::sync::Semaphore;
use tokio::task::block_in_place;
use tokio::time::timeout;

use super::results::{self, Entry};

/// All DNS lookups of one message.
const PATIENCE: Duration = Duration::from_secs(30);

/// Messages that are hashed at the same time.
const HASHED: usize = 4;

/// What the checks found.
#[derive(Debug)]
pub(crate) struct Verdicts {
    pub(crate) entries: Vec<Entry>,
    pub(crate) dmarc: Entry,
    /// The domain that DMARC was checked for; empty if there is none.
    pub(crate) domain: String,
}

impl Verdicts {
    fn without_checks(result: &'static str) -> Self {
        Self {
            entries: Vec::new(),
            dmarc: Entry::new("dmarc", result),
            domain: String::new(),
        }
    }
}

/// The client and the envelope sender.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Envelope<'a> {
    pub(crate) ip: Option<IpAddr>,
    pub(crate) hello: &'a str,
    pub(crate) sender: &'a str,
}

/// Checks messages.
pub(crate) struct Verifier {
    /// `None` if nothing is looked up in the DNS.
    authenticator: Option<MessageAuthenticator>,
    authserv_id: String,
    hashing: Semaphore,
}

impl Verifier {
    pub(crate) fn new(authenticator: Option<MessageAuthenticator>, authserv_id: String) -> Self {
        Self {
            authenticator,
            authserv_id,
            hashing: Semaphore::new(HASHED),
        }
    }

    /// Checks a message: its header, and its body if it has signatures.
    pub(crate) async fn verify(&self, envelope: Envelope<'_>, message: &[u8]) -> Verdicts {
        let Some(authenticator) = &self.authenticator else {
            return Verdicts::without_checks("none");
        };
        let parsed = {
            let _permit = self.hashing.acquire().await;
            block_in_place(|| AuthenticatedMessage::parse(message))
        };
        let Some(parsed) = parsed else {
            return Verdicts::without_checks("none");
        };
        let checks = self.checks(authenticator, envelope, &parsed);
        let checked = timeout(PATIENCE, checks).await;
        checked.unwrap_or_else(|_| Verdicts::without_checks("temperror"))
    }

    async fn checks(
        &self,
        authenticator: &MessageAuthenticator,
        envelope: Envelope<'_>,
        message: &AuthenticatedMessage<'_>,
    ) -> Verdicts {
        let Envelope { ip, hello, sender } = envelope;
        let sender_domain = sender.rsplit_once('@').map_or(hello, |(_, domain)| domain);
        let host = &*self.authserv_id;
        let spf = async {
            // Without an address nothing can be permitted.
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
        // RFC 8301, section 3.1: rsa-sha1 must not be used for verifying.
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
        let mut entries =
            vec![Entry::new("spf", results::spf(spf.result())).with(property, sender_domain)];
        entries.extend(dkim.iter().map(|one| {
            let entry = Entry::new("dkim", results::dkim(one.result()));
            match one.signature() {
                Some(signature) => entry
                    .with("header.d", &signature.d)
                    .with("header.s", &signature.s),
                None => entry,
            }
        }));
        Verdicts {
            entries,
            dmarc: Entry::new("dmarc", results::dmarc(&dmarc.result())),
            domain: dmarc.into_domain(),
        }
    }
}
