//! Whom a header field such as From names.
//!
//! Two programs can read a malformed field in two ways, so a field counts as naming every address that this service shows for it and every domain that
//! follows an `@` outside of quotes and comments.

use std::collections::BTreeSet;

use latchmail_core::address;

/// Bytes of an encoded word. RFC 2047 allows 75; some programs write more.
const LONGEST_WORD: usize = 1000;

/// Addresses in a field of senders of a submission, fields of senders of a submission besides From, and domains in From of other mail. A message with more
/// is refused.
pub(crate) const SENDERS: usize = 100;

/// Whom a field names.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Named {
    /// The addresses that the service shows, as they are written.
    pub(crate) addresses: Vec<String>,
    /// Every domain that a reader may see, folded.
    pub(crate) domains: BTreeSet<String>,
    /// Whether the field can be read in one way only.
    pub(crate) clear: bool,
}

impl Named {
    /// Reads the value of a field.
    pub(crate) fn of(value: &[u8]) -> Self {
        let (addresses, complete) = latchmail_mailbox::parse_addresses(value);
        let (written, closed) = written(value);
        let domain = |address: &String| {
            let (_, domain) = address.rsplit_once('@')?;
            Some(domain.to_owned())
        };
        let shown: Vec<String> = addresses.iter().filter_map(domain).collect();
        Self {
            clear: complete && closed && written.len() == addresses.len(),
            domains: shown
                .iter()
                .chain(&written)
                .map(|one| folded(one))
                .collect(),
            addresses,
        }
    }

    /// Adds the domains of another field of the same name. Two fields cannot be read in one way. A submission with two is refused, so the addresses are
    /// not needed.
    pub(crate) fn and(&mut self, other: Self) {
        self.domains.extend(other.domains);
        self.clear = false;
    }
}

/// A domain as the directory has it. What is not a domain stays as it is.
pub(crate) fn folded(domain: &str) -> String {
    let domain = domain.trim_end_matches('.');
    address::fold_domain(domain).unwrap_or_else(|| domain.to_lowercase())
}

/// The domains that follow an `@` outside of quotes, comments and encoded words, and whether all of these end.
fn written(value: &[u8]) -> (Vec<String>, bool) {
    let text = String::from_utf8_lossy(value);
    let mut domains = Vec::new();
    let mut rest = &*text;
    let mut comments = 0_usize;
    while let Some(next) = rest.chars().next() {
        let mut taken = next.len_utf8();
        match next {
            '\\' => taken += rest[taken..].chars().next().map_or(0, char::len_utf8),
            '(' => comments += 1,
            ')' => comments = comments.saturating_sub(1),
            _ if comments > 0 => {}
            '"' => match quoted(&rest[1..]) {
                Some(length) => taken += length,
                None => return (domains, false),
            },
            '=' => taken = encoded_word(rest).unwrap_or(taken),
            '@' => {
                let after = rest[1..].trim_start();
                let ends = |c: char| c.is_whitespace() || "<>,;:()\"@".contains(c);
                let domain = after.split(ends).next().unwrap_or_default();
                domains.push(domain.to_owned());
            }
            _ => {}
        }
        rest = &rest[taken..];
    }
    (domains, comments == 0)
}

/// The length of what is left of a quoted string, its last quote included.
fn quoted(rest: &str) -> Option<usize> {
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

/// The length of the encoded word (RFC 2047) that a text begins with.
fn encoded_word(text: &str) -> Option<usize> {
    let text = &text[..text.floor_char_boundary(LONGEST_WORD)];
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
    fn a_field_that_can_be_read_in_one_way_is_clear() {
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
            let named = Named::of(value.as_bytes());
            assert!(named.clear, "{value}: {named:?}");
            assert_eq!(named.addresses, addresses, "{value}");
            let domains: Vec<&String> = named.domains.iter().collect();
            let expected = addresses[0].rsplit_once('@').unwrap().1;
            assert_eq!(domains, [expected], "{value}");
        }
    }

    #[test]
    fn a_field_that_can_be_read_in_two_ways_names_all_its_domains() {
        for value in [
            " support@first.test <a@outside.test>",
            " <a@outside.test> support@first.test",
            " a@outside.test support@first.test",
            " \"a@outside.test, support@first.test",
            " <@first.test:a@outside.test>",
            " support@first.test@outside.test",
        ] {
            let named = Named::of(value.as_bytes());
            assert!(!named.clear, "{value}: {named:?}");
            if !value.contains('"') {
                assert!(named.domains.contains("first.test"), "{value}: {named:?}");
            }
        }
    }

    #[test]
    fn domains_are_folded() {
        let named = Named::of(" a@B\u{fc}cher.Example.".as_bytes());
        let domains: Vec<&String> = named.domains.iter().collect();
        assert_eq!(domains, ["xn--bcher-kva.example"]);
        assert!(Named::of(b" friends:;").domains.is_empty());
    }
}
