//! The records that a domain needs, and their current state.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use tokio::time::{Instant, timeout_at};

use super::tags::{tags, value};
use super::{Dns, Unreadable, dmarc, spf};

/// The time limit of all states together, in lookup timeouts. SPF needs several lookups in sequence, and the caller waits for the slowest state. A state that
/// is not known by then is reported as unknown.
const IN_A_ROW: u32 = 2;

/// The recommended DMARC record: the mildest policy that has an effect. Any other policy is accepted too.
const DMARC_VALUE: &str = "v=DMARC1; p=quarantine";

/// Returns the recommended SPF record.
fn spf_value(mail_host: &str) -> String {
    format!("v=spf1 include:{mail_host} ~all")
}

/// Returns the DKIM record for an RSA key (`SubjectPublicKeyInfo`, DER, base64), which belongs at `<selector>._domainkey.<domain>` (RFC 6376, section 3.6.1).
#[must_use]
pub fn dkim_value(key: &str) -> String {
    format!("v=DKIM1; k=rsa; p={key}")
}

/// The kind of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// The mail server for incoming mail.
    Mx,
    /// The servers that may send for the domain (RFC 7208).
    Spf,
    /// The public signing key (RFC 6376).
    Dkim,
    /// The policy for unauthenticated mail (RFC 7489).
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
    /// The name at which to publish it.
    pub host: String,
    /// The recommended value. Equivalent values are accepted too.
    pub value: String,
    /// `true` if the record is published, `false` if not, `None` if the state is unknown.
    pub ok: Option<bool>,
}

impl Dns {
    /// Looks up the records that a domain needs, all at once. `dkim` is the selector and the public key (`SubjectPublicKeyInfo`, DER, base64), if the domain
    /// has a key. Returns within twice the timeout of one lookup.
    pub async fn states(&self, domain: &str, dkim: Option<(&str, &str)>) -> Vec<Record> {
        let until = Instant::now() + self.patience * IN_A_ROW;
        let mx = record(
            Kind::Mx,
            domain.into(),
            self.mail_host.clone(),
            until,
            self.has_mx(domain),
        );
        let spf = record(
            Kind::Spf,
            domain.into(),
            spf_value(&self.mail_host),
            until,
            spf::includes(self, domain, &self.mail_host),
        );
        let at = format!("_dmarc.{domain}");
        let dmarc = record(
            Kind::Dmarc,
            at.clone(),
            DMARC_VALUE.into(),
            until,
            self.has_dmarc(&at),
        );
        let dkim = async {
            let (selector, key) = dkim?;
            let at = format!("{selector}._domainkey.{domain}");
            let published = self.has_key(&at, key);
            Some(record(Kind::Dkim, at.clone(), dkim_value(key), until, published).await)
        };
        let (mx, spf, dkim, dmarc) = tokio::join!(mx, spf, dkim, dmarc);
        [Some(mx), Some(spf), dkim, Some(dmarc)]
            .into_iter()
            .flatten()
            .collect()
    }

    async fn has_mx(&self, domain: &str) -> Result<bool, Unreadable> {
        Ok(self.mx(domain).await?.contains(&self.mail_host))
    }

    async fn has_key(&self, at: &str, key: &str) -> Result<bool, Unreadable> {
        let published = self.txt(at).await?;
        Ok(published.iter().any(|record| is_key(record, key)))
    }

    async fn has_dmarc(&self, at: &str) -> Result<bool, Unreadable> {
        Ok(dmarc::states_a_policy(&self.txt(at).await?))
    }
}

async fn record(
    kind: Kind,
    host: String,
    value: String,
    until: Instant,
    state: impl Future<Output = Result<bool, Unreadable>>,
) -> Record {
    let ok = match timeout_at(until, state).await {
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

/// Returns `true` if a record publishes this key for signatures of mail (RFC 6376, section 3.6.1), in any notation.
fn is_key(record: &str, key: &str) -> bool {
    let Some(tags) = tags(record) else {
        return false;
    };
    let version = tags.iter().position(|(name, _)| *name == "v");
    let lists = |name, wanted: &[&str]| {
        value(&tags, name)
            .is_none_or(|list| list.split(':').any(|one| wanted.contains(&one.trim())))
    };
    let said_right = version.is_none_or(|at| at == 0 && tags[0].1 == "DKIM1")
        && value(&tags, "k").is_none_or(|kind| kind == "rsa")
        && lists("h", &["sha256"])
        && lists("s", &["*", "email"]);
    let published = value(&tags, "p").and_then(decoded);
    said_right
        && published
            .is_some_and(|published| !published.is_empty() && Some(published) == decoded(key))
}

fn decoded(base64: &str) -> Option<Vec<u8>> {
    let bare: String = base64.split_ascii_whitespace().collect();
    STANDARD.decode(bare).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_dkim_record_holds_the_whole_key_on_one_line() {
        assert_eq!(dkim_value("AbC="), "v=DKIM1; k=rsa; p=AbC=");
    }

    #[test]
    fn a_key_counts_however_it_is_written() {
        for record in [
            "v=DKIM1; k=rsa; p=AQID",
            "v=DKIM1;k=rsa;p=AQID;",
            "p=AQID",
            " k=rsa ; p=A Q\tI D ; t=y; n=a note",
            "v=DKIM1; h=sha1:sha256; s=email:other; p=AQID",
        ] {
            assert!(is_key(record, "AQID"), "{record}");
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
            assert!(!is_key(record, "AQID"), "{record}");
        }
    }
}
