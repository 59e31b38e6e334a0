//! Domain names as people type them, made one: lower case and ASCII (IDNA, UTS 46). Says what can be nobody's own.

use std::fmt;

use idna::uts46::{AsciiDenyList, DnsLength, Hyphens, Uts46};

/// A domain that can be somebody's: lower case, ASCII, of two labels or more, no public suffix. At most 253 characters.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct DomainName(String);

/// What was typed is no domain that can be somebody's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("it is no domain that can be somebody's own")]
pub struct NoDomain;

impl DomainName {
    /// As it is kept and shown.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for DomainName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl From<DomainName> for String {
    fn from(name: DomainName) -> Self {
        name.0
    }
}

/// Folds what a person typed. White space around it and one dot at its end are let pass; letters of other scripts become `xn--`, which is what is
/// shown ever after, so that no domain passes for one that it resembles.
///
/// # Errors
/// [`NoDomain`] for what the DNS or the rules of host names (STD 3) do not take, IP addresses, single labels, and public suffixes.
pub fn fold(typed: &str) -> Result<DomainName, NoDomain> {
    let ascii = host(typed.trim())?;
    // None for a suffix itself, a single label among them.
    psl::domain_str(&ascii).ok_or(NoDomain)?;
    Ok(DomainName(ascii))
}

/// Folds the name of a host, which need not be anybody's own domain.
pub(crate) fn host(typed: &str) -> Result<String, NoDomain> {
    let bare = typed.strip_suffix('.').unwrap_or(typed);
    let ascii = Uts46::new()
        .to_ascii(
            bare.as_bytes(),
            AsciiDenyList::STD3,
            Hyphens::Check,
            DnsLength::Verify,
        )
        .map_err(|_| NoDomain)?;
    // What ends in a number is read as an IPv4 address (the URL standard, "ends in a number"), and no top-level domain is one.
    let last = ascii.rsplit('.').next().unwrap_or_default();
    let decimal = last.bytes().all(|byte| byte.is_ascii_digit());
    let hexadecimal = last
        .strip_prefix("0x")
        .is_some_and(|digits| digits.bytes().all(|byte| byte.is_ascii_hexdigit()));
    if decimal || hexadecimal {
        return Err(NoDomain);
    }
    Ok(ascii.into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ways_to_write_a_domain_are_one() {
        for (typed, folded) in [
            ("ada.example", "ada.example"),
            ("  Ada.EXAMPLE. ", "ada.example"),
            ("deep.er.ada.co.uk", "deep.er.ada.co.uk"),
            ("bücher.example", "xn--bcher-kva.example"),
            ("BÜCHER.example", "xn--bcher-kva.example"),
            ("xn--bcher-kva.example", "xn--bcher-kva.example"),
            ("ада。example", "xn--80aal.example"),
            ("ａｄａ.example", "ada.example"),
            ("BU\u{308}CHER.example", "xn--bcher-kva.example"),
            ("XN--BCHER-KVA.example", "xn--bcher-kva.example"),
            ("a\u{ad}da.example", "ada.example"),
            ("straße.example", "xn--strae-oqa.example"),
            // A Cyrillic а: another domain, and seen to be.
            ("аda.example", "xn--da-6kc.example"),
            ("a-b.example", "a-b.example"),
        ] {
            let found = fold(typed).map(String::from);
            assert_eq!(found.as_deref(), Ok(folded), "{typed}");
        }
    }

    #[test]
    fn what_can_be_nobodys_is_refused() {
        let label = "a".repeat(64);
        let long = format!("{}.example", ["a".repeat(61).as_str(); 4].join("."));
        assert_eq!(long.len(), 255);
        for typed in [
            "",
            ".",
            "..",
            "example",
            "com",
            "co.uk",
            "github.io",
            "localhost",
            "192.0.2.1",
            "1.2",
            "[::1]",
            "::1",
            "0x7f.1",
            "127.0.0.0x1",
            "ada.0x",
            "１９２.0.2.1",
            "ada..example",
            ".ada.example",
            "ada.example..",
            "-ada.example",
            "ada-.example",
            "ab--c.example",
            "a_da.example",
            "_dmarc.ada.example",
            "ada example.com",
            "ada\u{a0}b.example",
            "ada .example",
            "ada\t.example",
            "ada\u{202e}.example",
            "אa.example",
            "ada\u{0}.example",
            "ada\n.example",
            "ada.example/",
            "https://ada.example",
            "a@ada.example",
            "*.example",
            "xn--.example",
            "xn--a.example",
            "xn--zzzzzzzzzzz.example",
            // Decoded it is plain ASCII, or not in the form that is encoded.
            "xn--ada-.example",
            "xn--BCHER-KVA\u{fc}.example",
            "xn--80ak6aa92e\u{200d}.example",
            "\u{200b}.example",
            "\u{ad}.example",
            "ada.123",
            &format!("{label}.example"),
            &long,
        ] {
            assert_eq!(fold(typed), Err(NoDomain), "{typed:?}");
        }
    }

    #[test]
    fn a_name_may_be_as_long_as_the_dns_takes() {
        let name = |last: usize| {
            format!(
                "{}.{}.example",
                ["a".repeat(61).as_str(); 3].join("."),
                "b".repeat(last)
            )
        };
        assert_eq!(name(59).len(), 253);
        assert!(fold(&name(59)).is_ok());
        assert!(fold(&format!("{}.", name(59))).is_ok());
        assert_eq!(fold(&name(60)), Err(NoDomain));
    }
}
