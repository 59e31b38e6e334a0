//! Extracts the addresses and domains from a header field such as From.
//!
//! Different programs can read a malformed field in different ways. Therefore the result contains
//! every address that this service displays for the field. The result also contains every domain
//! after an `@` outside of quotes and comments.

use std::collections::BTreeSet;

use latchmail_core::address;

/// Maximum number of addresses in a sender field of a submission. Also the maximum number of sender
/// fields besides From in a submission, and of domains in the From fields of incoming mail. A
/// message that exceeds one of these limits is rejected.
pub(crate) const MAX_SENDERS: usize = 100;

/// Maximum size of all sender fields of a message together, in bytes. The parsing of this size
/// takes a few milliseconds. A message that exceeds the limit is rejected, and its further sender
/// fields are not parsed.
pub(crate) const MAX_SENDERS_SIZE: usize = 32 * 1024;

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

    /// Adds the domains of another field of the same name. The addresses of the other field are not
    /// needed, because a submission with two From fields is rejected, and only the domains of
    /// incoming mail are checked.
    pub(crate) fn merge(&mut self, other: Self) {
        self.domains.extend(other.domains);
        self.is_unambiguous = false;
    }
}

/// Converts a domain to lower case and ASCII, as in the directory. An invalid domain is only
/// converted to lower case.
pub(crate) fn fold_domain(domain: &str) -> String {
    let domain = domain.trim_end_matches('.');
    address::fold_domain(domain).unwrap_or_else(|| domain.to_lowercase())
}

/// Returns the domains after an `@` outside of quotes, comments and encoded words. Stops after more
/// than [`MAX_SENDERS`] domains. The second value is `true` if the list is complete, and all quotes
/// and comments are closed.
fn written_domains(value: &[u8]) -> (Vec<String>, bool) {
    let text = String::from_utf8_lossy(value);
    let mut domains = Vec::new();
    let mut comments = 0_usize;
    let mut words = EncodedWords::default();
    // All characters with a meaning are ASCII, so the loop examines single bytes.
    let mut at = 0;
    while let Some(byte) = text.as_bytes().get(at) {
        let mut length = 1;
        match byte {
            b'\\' => length = 2,
            b'(' => comments += 1,
            b')' => comments = comments.saturating_sub(1),
            _ if comments > 0 => {}
            b'"' => match quoted_length(&text[at + 1..]) {
                Some(quoted) => length += quoted,
                None => return (domains, false),
            },
            b'=' if text[at..].starts_with("=?") => {
                length = words.length_at(&text[at..]).unwrap_or(length);
            }
            b'@' => {
                let after = text[at + 1..].trim_start();
                let ends = |c: char| c.is_whitespace() || "<>,;:()\"@".contains(c);
                let domain = after.split(ends).next().unwrap_or_default();
                domains.push(domain.to_owned());
                if domains.len() > MAX_SENDERS {
                    return (domains, false);
                }
            }
            _ => {}
        }
        at += length;
    }
    (domains, comments == 0)
}

/// Returns the length of a quoted string in bytes. `rest` begins after the first quote, and the
/// length includes the last quote.
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

/// Finds the encoded words (RFC 2047) in a text, from its beginning to its end. The time is linear
/// in the length of the text.
#[derive(Default)]
struct EncodedWords {
    /// The length of the rest of the text in bytes, from the white space or quote at which the last
    /// candidate failed. An encoded word contains no white space and no quotes. So all candidates
    /// before this position have no end either.
    possible_at: Option<usize>,
}

impl EncodedWords {
    /// Returns the length of the encoded word at the start of `rest`, which is the rest of the
    /// text.
    fn length_at(&mut self, rest: &str) -> Option<usize> {
        let word = rest.strip_prefix("=?")?;
        if self.possible_at.is_some_and(|at| rest.len() > at) {
            return None;
        }
        // The first two question marks end the character set and the encoding.
        let mut marks = 0;
        for (at, character) in word.char_indices() {
            match character {
                '?' if marks < 2 => marks += 1,
                '?' if word[at..].starts_with("?=") => return Some(2 + at + 2),
                _ if character == '"' || character.is_whitespace() => {
                    self.possible_at = Some(word.len() - at);
                    return None;
                }
                _ => {}
            }
        }
        self.possible_at = Some(0);
        None
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

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
    fn an_encoded_word_ends_before_white_space_and_quotes() {
        for (value, domains) in [
            (" =?a?q?b@c.test?= <d@e.test>", &["e.test"][..]),
            (" =?a?q?b@c.test?=?= <d@e.test>", &["e.test"]),
            (" =?a?q?b@c.test", &["c.test"]),
            (" =?a?q?b@c.test d?=", &["c.test"]),
            (" =?a?q?b@c.test\"d?=\"", &["c.test"]),
            (" =?a?q? =?b?q?b@c.test?= d@e.test", &["e.test"]),
            (" ==?a?=?b@c.test", &["c.test"]),
        ] {
            assert_eq!(written_domains(value.as_bytes()).0, domains, "{value}");
        }
    }

    /// The limit has a wide margin for builds without optimization.
    #[test]
    fn a_long_field_is_parsed_in_linear_time() {
        for (piece, size) in [("=", 100_000), ("=?a", 100_000), ("=?a?q?x", 100_000)]
            .into_iter()
            .chain(
                [
                    "=?a?q?b?=",
                    "@",
                    "a@b.test,",
                    "a@\u{fc},",
                    "\"",
                    "\\",
                    "(",
                    "()",
                    "<",
                    ":",
                    ";",
                    "a b ",
                    "a:;",
                    "\u{fc}",
                    "@ ",
                    "\"a\"@b",
                    "<<@b:",
                    "\n ",
                ]
                .map(|piece| (piece, MAX_SENDERS_SIZE)),
            )
        {
            let value = format!(" a@outside.test{}", piece.repeat(size / piece.len()));
            let start = Instant::now();
            Senders::parse(value.as_bytes());
            let elapsed = start.elapsed();
            assert!(elapsed < Duration::from_secs(1), "{piece}: {elapsed:?}");
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
