//! Normalizes domain names to lower case and ASCII (IDNA, UTS 46), and rejects names that no
//! account can own.

use std::fmt;

use idna::uts46::{AsciiDenyList, DnsLength, Hyphens, Uts46};

/// A domain name that an account can own: lower case, ASCII, at least two labels, not a public
/// suffix, at most 253 characters.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct DomainName(String);

/// The error for a text that is not a valid [`DomainName`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not a domain that an account can own")]
pub struct InvalidDomain;

impl DomainName {
    /// Normalizes a domain name. Ignores surrounding white space and one trailing dot. Converts
    /// labels with letters of other scripts to the form `xn--…`. This form prevents a domain from
    /// imitating a similar domain.
    ///
    /// # Errors
    /// Returns [`InvalidDomain`] for invalid host names (DNS, STD 3), IP addresses, single labels
    /// and public suffixes.
    pub fn parse(text: &str) -> Result<Self, InvalidDomain> {
        let ascii = normalize_host(text.trim())?;
        // `domain_str` returns `None` for a public suffix. A single label counts as a public
        // suffix.
        psl::domain_str(&ascii).ok_or(InvalidDomain)?;
        Ok(Self(ascii))
    }

    /// Returns `true` if the Public Suffix List contains the suffix of the name. Names of private
    /// networks can have other suffixes.
    #[must_use]
    pub fn has_known_suffix(&self) -> bool {
        psl::suffix(self.0.as_bytes()).is_some_and(|suffix| suffix.is_known())
    }

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

/// Normalizes a host name. The name can also be a public suffix or a single label.
pub(crate) fn normalize_host(text: &str) -> Result<String, InvalidDomain> {
    let name = text.strip_suffix('.').unwrap_or(text);
    let ascii = Uts46::new()
        .to_ascii(
            name.as_bytes(),
            AsciiDenyList::STD3,
            Hyphens::Check,
            DnsLength::Verify,
        )
        .map_err(|_| InvalidDomain)?;
    // URL parsers interpret a name as an IPv4 address if the last label is a number (URL standard,
    // "ends in a number"). No top-level domain is a number.
    let last = ascii.rsplit('.').next().unwrap_or_default();
    let is_decimal = last.bytes().all(|byte| byte.is_ascii_digit());
    let is_hexadecimal = last
        .strip_prefix("0x")
        .is_some_and(|digits| digits.bytes().all(|byte| byte.is_ascii_hexdigit()));
    if is_decimal || is_hexadecimal {
        return Err(InvalidDomain);
    }
    Ok(ascii.into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn notations_of_one_domain_have_one_normal_form() {
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
            // With a Cyrillic а. The normal form shows that it is another domain.
            ("аda.example", "xn--da-6kc.example"),
            ("a-b.example", "a-b.example"),
        ] {
            let found = DomainName::parse(typed).map(String::from);
            assert_eq!(found.as_deref(), Ok(folded), "{typed}");
        }
    }

    #[test]
    fn names_that_no_account_can_own_are_rejected() {
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
            // Labels that decode to ASCII, or that mix both forms.
            "xn--ada-.example",
            "xn--BCHER-KVA\u{fc}.example",
            "xn--80ak6aa92e\u{200d}.example",
            "\u{200b}.example",
            "\u{ad}.example",
            "ada.123",
            &format!("{label}.example"),
            &long,
        ] {
            assert_eq!(DomainName::parse(typed), Err(InvalidDomain), "{typed:?}");
        }
    }

    #[test]
    fn a_name_can_have_253_characters() {
        let name = |last: usize| {
            format!(
                "{}.{}.example",
                ["a".repeat(61).as_str(); 3].join("."),
                "b".repeat(last)
            )
        };
        assert_eq!(name(59).len(), 253);
        assert!(DomainName::parse(&name(59)).is_ok());
        assert!(DomainName::parse(&format!("{}.", name(59))).is_ok());
        assert_eq!(DomainName::parse(&name(60)), Err(InvalidDomain));
    }
}
