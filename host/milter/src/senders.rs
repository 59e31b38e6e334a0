//! Extracts the addresses and domains from a header field such as From.
//!
//! Different programs can read a malformed field in different ways. Therefore the result contains every address that this service displays for the field. The
//! result also contains every domain after an `@` outside of quotes and comments.

use std::collections::BTreeSet;

use latchmail_core::address;

/// Maximum length of an encoded word in bytes. RFC 2047 allows 75 characters, but some programs write more.
const MAX_WORD_LENGTH: usize = 1000;

/// Maximum number of addresses in a sender field of a submission. Also the maximum number of sender fields besides From in a submission, and of domains in the
/// From fields of incoming mail. A message that exceeds one of these limits is rejected.
pub(crate) const MAX_SENDERS: usize = 100;

/// The senders in a header field.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Senders {
    /// The addresses that the service displays, unchanged.
    pub(crate) addresses: Vec<String>,
    /// Every domain that a program can display, in lower case and ASCII.
    pub(crate) domains: BTreeSet<String>,
    /// `true` if all programs read the field in the same way.
    pub(crate) is_unambiguous: bool,
}

impl Senders {
    /// Parses the value of a field.
    pub(crate) fn parse(value: &[u8]) -> Self {
        let (addresses, complete) = latchmail_mailbox::parse_addresses(value);
        let (written, is_closed) = written_domains(value);
        let domain = |address: &String| {
            let (_, domain) = address.rsplit_once('@')?;
            Some(domain.to_owned())
        };
        let shown: Vec<String> = addresses.iter().filter_map(domain).collect();
        Self {
            is_unambiguous: complete && is_closed && written.len() == addresses.len(),
            domains: shown
                .iter()
                .chain(&written)
                .map(|one| fold_domain(one))
                .collect(),
            addresses,
        }
    }

    /// Adds the domains of another field of the same name. The addresses of this field are not needed, because a submission with two From fields is rejected,
    /// and only the domains of incoming mail are checked.
    pub(crate) fn merge(&mut self, other: Self) {
        self.domains.extend(other.domains);
        self.is_unambiguous = false;
    }
}

/// Converts a domain to lower case and ASCII, as in the directory. An invalid domain is only converted to lower case.
pub(crate) fn fold_domain(domain: &str) -> String {
    let domain = domain.trim_end_matches('.');
    address::fold_domain(domain).unwrap_or_else(|| domain.to_lowercase())
}

/// Returns the domains after an `@` outside of quotes, comments and encoded words. The second value is `true` if all quotes and comments are closed.
fn written_domains(value: &[u8]) -> (Vec<String>, bool) {
    let text = String::from_utf8_lossy(value);
    let mut domains = Vec::new();
    let mut rest = &*text;
    let mut comments = 0_usize;
    while let Some(next) = rest.chars().next() {
        let mut length = next.len_utf8();
        match next {
            '\\' => length += rest[length..].chars().next().map_or(0, char::len_utf8),
            '(' => comments += 1,
            ')' => comments = comments.saturating_sub(1),
            _ if comments > 0 => {}
            '"' => match quoted_length(&rest[1..]) {
                Some(quoted) => length += quoted,
                None => return (domains, false),
            },
            '=' => length = encoded_word_length(rest).unwrap_or(length),
            '@' => {
                let after = rest[1..].trim_start();
                let ends = |c: char| c.is_whitespace() || "<>,;:()\"@".contains(c);
                let domain = after.split(ends).next().unwrap_or_default();
                domains.push(domain.to_owned());
            }
            _ => {}
        }
        rest = &rest[length..];
    }
    (domains, comments == 0)
}

/// Returns the length of a quoted string. `rest` begins after the first quote, and the length includes the last quote.
fn quoted_length(rest: &str) -> Option<usize> {
    let mut escaped = false;
    for (at, character) in rest.char_indices() {
        match character {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            '"' => return Some(at + 1),
            _ => {}
        }
    }
    None
}

/// Returns the length of the encoded word (RFC 2047) at the start of a text.
fn encoded_word_length(text: &str) -> Option<usize> {
    let text = &text[..text.floor_char_boundary(MAX_WORD_LENGTH)];
    let word = text.split(|c: char| c.is_whitespace() || c == '"').next()?;
    let mut parts = word.strip_prefix("=?")?.splitn(3, '?');
    let (charset, encoding, rest) = (parts.next()?, parts.next()?, parts.next()?);
    let content = rest.find("?=")?;
    Some(2 + charset.len() + 1 + encoding.len() + 1 + content + 2)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_well_formed_field_is_unambiguous() {
        for (value, addresses) in [
            (" ada@first.test", &["ada@first.test"][..]),
            (" Ada <ada@first.test>\r\n", &["ada@first.test"]),
            (
                " \"support@first.test\" <ada@outside.test>",
                &["ada@outside.test"],
            ),
            (
                " \"a\\\"@b\" <ada@outside.test> (see support@first.test)",
                &["ada@outside.test"],
            ),
            (
                " =?utf-8?q?support@first.test?= <ada@outside.test>",
                &["ada@outside.test"],
            ),
            (
                " a@outside.test,\r\n\tb@outside.test",
                &["a@outside.test", "b@outside.test"],
            ),
            (
                " Friends: a@outside.test, b@outside.test;",
                &["a@outside.test", "b@outside.test"],
            ),
        ] {
            let senders = Senders::parse(value.as_bytes());
            assert!(senders.is_unambiguous, "{value}: {senders:?}");
            assert_eq!(senders.addresses, addresses, "{value}");
            let domains: Vec<&String> = senders.domains.iter().collect();
            let expected = addresses[0].rsplit_once('@').unwrap().1;
            assert_eq!(domains, [expected], "{value}");
        }
    }

    #[test]
    fn an_ambiguous_field_names_all_its_domains() {
        for value in [
            " support@first.test <a@outside.test>",
            " <a@outside.test> support@first.test",
            " a@outside.test support@first.test",
            " \"a@outside.test, support@first.test",
            " <@first.test:a@outside.test>",
            " support@first.test@outside.test",
        ] {
            let senders = Senders::parse(value.as_bytes());
            assert!(!senders.is_unambiguous, "{value}: {senders:?}");
            if !value.contains('"') {
                assert!(
                    senders.domains.contains("first.test"),
                    "{value}: {senders:?}"
                );
            }
        }
    }

    #[test]
    fn domains_are_folded() {
        let senders = Senders::parse(" a@B\u{fc}cher.Example.".as_bytes());
        let domains: Vec<&String> = senders.domains.iter().collect();
        assert_eq!(domains, ["xn--bcher-kva.example"]);
        assert!(Senders::parse(b" friends:;").domains.is_empty());
    }
}
