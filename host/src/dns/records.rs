//! The records that a domain should have, and whether each is there.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use tokio::time::{Instant, timeout_at};

use super::tags::{tags, value};
use super::{Dns, Unreadable, dmarc, spf};

/// How many look-ups that take as long as one may there is time for, one after the other, before what is not known yet counts as not
/// to be told: SPF refers from record to record, and whoever waits for the others' states waits for it too.
const IN_A_ROW: u32 = 2;

/// What a DMARC record is to say. The mildest policy that still does something; any other counts too.
const DMARC_VALUE: &str = "v=DMARC1; p=quarantine";

/// What the SPF record of a domain is to say whose mail leaves from this host.
fn spf_value(mail_host: &str) -> String {
    format!("v=spf1 include:{mail_host} ~all")
}

/// What a DKIM record is to say that publishes this RSA key (`SubjectPublicKeyInfo`, DER, base64), at `<selector>._domainkey.<domain>` (RFC
/// 6376, section 3.6.1).
#[must_use]
pub fn dkim_value(key: &str) -> String {
    format!("v=DKIM1; k=rsa; p={key}")
}

/// What a record is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Where mail for the domain goes.
    Mx,
    /// Who may send from it (RFC 7208).
    Spf,
    /// The key that what it sends is signed with (RFC 6376).
    Dkim,
    /// What others do with what is not signed (RFC 7489).
    Dmarc,
}

impl Kind {
    /// As the API names it.
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

/// A record that a domain should have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// What it is for.
    pub kind: Kind,
    /// Where it is to be published.
    pub host: String,
    /// What it is to say; other words that mean the same count too.
    pub value: String,
    /// Whether it is there; none where that cannot be told now.
    pub ok: Option<bool>,
}

impl Dns {
    /// The records that a domain should have, each looked up now, all at once. `dkim` is the selector and the public key
    /// (`SubjectPublicKeyInfo`, DER, base64) of a domain that has one.
    /// Answers within twice the time that one look-up has, whatever the DNS does.
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
            tracing::debug!(%error, "a record's state cannot be told");
            None
        }
        Err(_) => {
            tracing::debug!(host, "a record's state could not be told in time");
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

/// Whether a record publishes a key for signatures on mail (RFC 6376, section 3.6.1). The key counts, not how it is written.
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
