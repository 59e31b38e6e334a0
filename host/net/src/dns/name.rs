//! Normalizes domain names to lower case and ASCII (IDNA, UTS 46), and rejects names that no account can own.

use std::fmt;

use idna::uts46::{AsciiDenyList, DnsLength, Hyphens, Uts46};

/// A domain name that an account can own: lower case, ASCII, at least two labels, not a public suffix, at most 253 characters.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct DomainName(String);

/// The text is not a domain name that an account can own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not a domain that can be claimed")]
pub struct NoDomain;

impl DomainName {
    /// Returns the normalized name.
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

/// Normalizes a domain name. Ignores surrounding white space and one trailing dot. Letters of other scripts become `xn--…`, and this form is always shown, so
/// that a domain cannot imitate a similar one.
///
/// # Errors
/// Returns [`NoDomain`] for invalid host names (DNS, STD 3), IP addresses, single labels and public suffixes.
pub fn fold(typed: &str) -> Result<DomainName, NoDomain> {
    let ascii = host(typed.trim())?;
    // `None` for a public suffix. A single label counts as one.
    psl::domain_str(&ascii).ok_or(NoDomain)?;
    Ok(DomainName(ascii))
}

/// Normalizes a host name, which may also be a public suffix or a single label.
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
    // A name whose last label is a number is parsed as an IPv4 address (URL standard, "ends in a number"), and no top-level domain is a number.
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
            // With a Cyrillic а, which is another domain and visibly so.
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
            // Decodes to plain ASCII, or the input is not in the encoded form.
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
