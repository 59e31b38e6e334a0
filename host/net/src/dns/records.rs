//! Checks the DNS records that a domain needs.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use tokio::time::{Instant, timeout_at};

use super::client::{Dns, LookupError};
use super::tags::{tags, value};
use super::{dmarc, spf};

/// The timeout of all checks together, as a multiple of the timeout of one lookup. SPF needs
/// several lookups in sequence. If a check does not finish before the timeout, the state of its
/// record is unknown.
const TIMEOUT_FACTOR: u32 = 2;

/// The recommended DMARC record, with the weakest policy that has an effect. Other policies are
/// also accepted.
const DMARC_VALUE: &str = "v=DMARC1; p=quarantine";

/// Returns the recommended SPF record.
fn spf_value(mail_host: &str) -> String {
    format!("v=spf1 include:{mail_host} ~all")
}

/// Returns the DKIM record for an RSA key (`SubjectPublicKeyInfo`, DER, base64). The record is
/// published at `<selector>._domainkey.<domain>` (RFC 6376, section 3.6.1).
#[must_use]
pub fn dkim_value(key: &str) -> String {
    format!("v=DKIM1; k=rsa; p={key}")
}

/// The kind of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// The mail server for incoming mail.
    Mx,
    /// The servers that are allowed to send mail for the domain (RFC 7208).
    Spf,
    /// The public key for signatures of mail (RFC 6376).
    Dkim,
    /// The policy for mail that fails authentication (RFC 7489).
    Dmarc,
}

impl Kind {
    /// Returns the kind's name in the API.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Mx => "MX",
            Self::Spf => "SPF",
            Self::Dkim => "DKIM",
            Self::Dmarc => "DMARC",
        }
    }
}

/// A record that a domain needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// The kind.
    pub kind: Kind,
    /// The name at which to publish the record.
    pub host: String,
    /// The recommended value. Equivalent values are also accepted.
    pub value: String,
    /// Whether the record is published, or `None` if the state is unknown.
    pub ok: Option<bool>,
}

impl Dns {
    /// Checks the records that a domain needs, concurrently. `dkim` contains the selector and the
    /// public key (`SubjectPublicKeyInfo`, DER, base64). `dkim` is `None` if the domain has no key.
    /// Returns within twice the timeout of one lookup.
    pub async fn check_records(&self, domain: &str, dkim: Option<(&str, &str)>) -> Vec<Record> {
        let deadline = Instant::now() + self.timeout * TIMEOUT_FACTOR;
        let mx = check(
            Kind::Mx,
            domain.into(),
            self.mail_host.clone(),
            deadline,
            self.has_mx(domain),
        );
        let spf = check(
            Kind::Spf,
            domain.into(),
            spf_value(&self.mail_host),
            deadline,
            spf::includes(self, domain, &self.mail_host),
        );
        let at = format!("_dmarc.{domain}");
        let dmarc = check(
            Kind::Dmarc,
            at.clone(),
            DMARC_VALUE.into(),
            deadline,
            self.has_dmarc(&at),
        );
        let dkim = async {
            let (selector, key) = dkim?;
            let at = format!("{selector}._domainkey.{domain}");
            let published = self.has_key(&at, key);
            Some(check(Kind::Dkim, at.clone(), dkim_value(key), deadline, published).await)
        };
        let (mx, spf, dkim, dmarc) = tokio::join!(mx, spf, dkim, dmarc);
        [Some(mx), Some(spf), dkim, Some(dmarc)]
            .into_iter()
            .flatten()
            .collect()
    }

    async fn has_mx(&self, domain: &str) -> Result<bool, LookupError> {
        Ok(self.mx(domain).await?.contains(&self.mail_host))
    }

    async fn has_key(&self, at: &str, key: &str) -> Result<bool, LookupError> {
        let published = self.txt(at).await?;
        Ok(published.iter().any(|record| publishes_key(record, key)))
    }

    async fn has_dmarc(&self, at: &str) -> Result<bool, LookupError> {
        Ok(dmarc::has_policy(&self.txt(at).await?))
    }
}

/// Waits for the check `is_published` until `deadline`, and returns the record with the result of
/// the check.
async fn check(
    kind: Kind,
    host: String,
    value: String,
    deadline: Instant,
    is_published: impl Future<Output = Result<bool, LookupError>>,
) -> Record {
    let ok = match timeout_at(deadline, is_published).await {
        Ok(Ok(ok)) => Some(ok),
        Ok(Err(error)) => {
            tracing::debug!(%error, "failed to look up a record");
            None
        }
        Err(_) => {
            tracing::debug!(host, "record lookup timed out");
            None
        }
    };
    Record {
        kind,
        host,
        value,
        ok,
    }
}

/// Returns `true` if a record publishes `key` for signatures of mail (RFC 6376, section 3.6.1), in
/// any valid notation.
fn publishes_key(record: &str, key: &str) -> bool {
    let Some(tags) = tags(record) else {
        return false;
    };
    let version = tags.iter().position(|(name, _)| *name == "v");
    let lists = |name, wanted: &[&str]| {
        value(&tags, name)
            .is_none_or(|list| list.split(':').any(|one| wanted.contains(&one.trim())))
    };
    let has_right_type = version.is_none_or(|at| at == 0 && tags[0].1 == "DKIM1")
        && value(&tags, "k").is_none_or(|kind| kind == "rsa")
        && lists("h", &["sha256"])
        && lists("s", &["*", "email"]);
    let published = value(&tags, "p").and_then(decode);
    has_right_type
        && published
            .is_some_and(|published| !published.is_empty() && Some(published) == decode(key))
}

fn decode(base64: &str) -> Option<Vec<u8>> {
    let base64: String = base64.split_ascii_whitespace().collect();
    STANDARD.decode(base64).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_dkim_record_contains_the_whole_key_on_one_line() {
        assert_eq!(dkim_value("AbC="), "v=DKIM1; k=rsa; p=AbC=");
    }

    #[test]
    fn a_key_is_recognized_in_every_valid_notation() {
        for record in [
            "v=DKIM1; k=rsa; p=AQID",
            "v=DKIM1;k=rsa;p=AQID;",
            "p=AQID",
            " k=rsa ; p=A Q\tI D ; t=y; n=a note",
            "v=DKIM1; h=sha1:sha256; s=email:other; p=AQID",
        ] {
            assert!(publishes_key(record, "AQID"), "{record}");
        }
        for record in [
            "",
            "p=",
            "v=DKIM1; p=AQIE",
            "v=DKIM1; p=AQID; p=AQID",
            "v=DKIM1; k=ed25519; p=AQID",
            "v=DKIM2; p=AQID",
            "p=AQID; v=DKIM1",
            "v=DKIM1; h=sha1; p=AQID",
            "v=DKIM1; s=other; p=AQID",
            "v=DKIM1; p=AQID; nonsense",
            "AQID",
        ] {
            assert!(!publishes_key(record, "AQID"), "{record}");
        }
    }
}
