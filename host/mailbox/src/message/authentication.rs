//! Reads the result of the sender's authentication from the header field `Authentication-Results`
//! (RFC 8601). The mail server adds this field to a message.
//!
//! With Latchmail's milter, only the topmost field counts that has the configured authserv-id and a
//! valid mark of the milter ([`mark`](crate::message::mark)). A message that a client stores over
//! IMAP has no valid mark.
//!
//! With another filter, the topmost field with the configured authserv-id counts. A sender can add
//! such a field to a message, so the filter must delete these fields before it adds its own field.

use std::sync::Arc;

use latchmail_core::address::fold_domain;
use latchmail_mime::{Address, Header};

use crate::bounds;
use crate::message::mark::MarkedContent;
use crate::message::spam::Spam;

const FIELD: &[u8] = b"Authentication-Results";

/// The result of the sender's authentication.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Verdict {
    /// DMARC passed, or an account of this server submitted the message.
    Pass,
    /// DMARC failed.
    Fail,
    /// There is no conclusive result.
    #[default]
    None,
}

/// The authentication of a message's sender.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Authentication {
    /// The result.
    pub verdict: Verdict,
    /// The domain to which the result applies.
    pub domain: Option<String>,
}

/// The `Authentication-Results` fields that the service trusts.
#[derive(Clone, Debug, Default)]
pub struct TrustedResults {
    /// The authserv-id of the fields. If the authserv-id is empty, no field is trusted.
    pub authserv_id: String,
    /// The key of the marks. `None` if a filter other than Latchmail's milter writes the fields.
    /// Such fields have no mark.
    pub key: Option<Arc<[u8]>>,
    /// The name of the field that the mail server's spam filter writes. If the name is empty, no
    /// field is trusted. With a key, only fields above the marked field are trusted.
    pub spam_header: String,
}

impl TrustedResults {
    /// Returns `true` if results are trusted although nothing proves who wrote the header.
    pub(crate) fn header_alone(&self) -> bool {
        self.key.is_none() && !(self.authserv_id.is_empty() && self.spam_header.is_empty())
    }
}

/// The beginning of a message.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Beginning<'a> {
    pub(crate) header: &'a [u8],
    pub(crate) body: &'a [u8],
    /// `true` if `body` is the complete body.
    pub(crate) is_complete: bool,
}

impl Beginning<'_> {
    /// Returns the content that a mark covers. Returns `None` if `body` is too short.
    fn marked_content(&self) -> Option<MarkedContent> {
        let mut content = MarkedContent::default();
        for (name, value) in fields(self.header) {
            content.add_field(name, value);
        }
        content.add_body(self.body);
        (self.is_complete || content.is_complete()).then_some(content)
    }
}

/// Reads the authentication result and the result of the spam filter. `from` contains the addresses
/// of the From field, as API clients receive them.
pub(crate) fn read_results(
    message: Beginning<'_>,
    trusted: &TrustedResults,
    from: &[Address],
) -> (Authentication, Spam) {
    let found = find_results(message, trusted);
    let end = match (&found, &trusted.key) {
        // Fields below the marked field can come from the sender.
        (Some((index, _)), Some(_)) => *index,
        (None, Some(_)) => 0,
        (_, None) => usize::MAX,
    };
    let spam = Spam::of(fields(message.header).take(end), &trusted.spam_header);
    let authentication = found
        .map(|(_, results)| evaluate(&results))
        .unwrap_or_default();
    (authentication.for_sender(from), spam)
}

/// Returns the results of the topmost trusted field, and the index of this field in the header.
fn find_results(
    message: Beginning<'_>,
    trusted: &TrustedResults,
) -> Option<(usize, Vec<MethodResult>)> {
    if trusted.authserv_id.is_empty() {
        return None;
    }
    let mut content = None;
    fields(message.header)
        .enumerate()
        .filter(|(_, (name, _))| name.trim_ascii_end().eq_ignore_ascii_case(FIELD))
        .find_map(|(index, (_, value))| {
            let value = String::from_utf8_lossy(value);
            let results = parse_results(&value, &trusted.authserv_id)?;
            let Some(key) = &trusted.key else {
                return Some((index, results));
            };
            let content = content.get_or_insert_with(|| message.marked_content());
            let is_marked = content.as_ref()?.is_marked(key, &value);
            is_marked.then_some((index, results))
        })
}

impl Authentication {
    /// Compares the domain of a passed result with the domains of the senders. If the domains
    /// differ, the result becomes a failure. If the domain or the sender is missing, the result
    /// becomes [`Verdict::None`].
    fn for_sender(mut self, from: &[Address]) -> Self {
        let sender_domain = |address: &Address| {
            let (_, domain) = address.address.rsplit_once('@')?;
            fold_domain(domain)
        };
        let result_domain = self.domain.as_deref().and_then(fold_domain);
        if self.verdict == Verdict::Pass {
            if result_domain.is_none() || from.is_empty() {
                self.verdict = Verdict::None;
            } else if from
                .iter()
                .any(|address| sender_domain(address) != result_domain)
            {
                self.verdict = Verdict::Fail;
            }
        }
        self
    }
}

/// Returns the addresses in the value of a field, as API clients receive them. The second returned
/// value is `true` if the list is complete.
#[must_use]
pub fn parse_addresses(value: &[u8]) -> (Vec<String>, bool) {
    let (mut addresses, mut complete) = decode_addresses(value);
    // API clients receive the field in the character set of the Content-Type field, which is
    // unknown here. In some character sets, a backslash can be the second byte of a character. In
    // that case, the backslash does not escape a quote. Therefore this function also decodes a copy
    // of the value in which each such backslash is replaced.
    let is_second = |bytes: &[u8]| !bytes[0].is_ascii() && bytes[1] == b'\\';
    if value.windows(2).any(is_second) {
        let mut other = value.to_vec();
        for at in 1..other.len() {
            if is_second(&other[at - 1..=at]) {
                other[at] = b'x';
            }
        }
        let (others, all) = decode_addresses(&other);
        complete &= all;
        addresses.extend(others);
    }
    (addresses, complete)
}

fn decode_addresses(value: &[u8]) -> (Vec<String>, bool) {
    let field = [b"From:", value, b"\r\n"].concat();
    let header = Header::of(&field, bounds::FIELD);
    let addresses = header.from.into_iter().map(|address| address.address);
    (addresses.collect(), !header.truncated)
}

/// Iterates over the names and values of the fields of a header. A value includes its folded lines.
fn fields(header: &[u8]) -> impl Iterator<Item = (&[u8], &[u8])> {
    let mut rest = header;
    std::iter::from_fn(move || {
        let mut end = 0;
        loop {
            let line = memchr::memchr(b'\n', rest.get(end..)?);
            end = line.map_or(rest.len(), |line| end + line + 1);
            if !matches!(rest.get(end), Some(b' ' | b'\t')) {
                break;
            }
        }
        let (field, others) = rest.split_at(end);
        rest = others;
        let colon = memchr::memchr(b':', field);
        (!field.is_empty()).then(|| match colon {
            Some(colon) => (&field[..colon], &field[colon + 1..]),
            None => (&[][..], field),
        })
    })
}

/// The result of one authentication method, with its properties.
#[derive(Debug, Default, PartialEq, Eq)]
struct MethodResult {
    method: String,
    result: String,
    properties: Vec<(String, String)>,
}

impl MethodResult {
    fn property(&self, name: &str) -> Option<&str> {
        let found = self.properties.iter().find(|(known, _)| known == name);
        found.map(|(_, value)| &**value)
    }
}

/// Returns the results in the value of a field. Returns `None` if the field has a different
/// authserv-id. An authserv-id with quotes or comments counts as different.
fn parse_results(value: &str, authserv_id: &str) -> Option<Vec<MethodResult>> {
    let (id, rest) = value.split_once(';').unwrap_or((value, ""));
    let id = id.split_ascii_whitespace().next()?;
    if !id.eq_ignore_ascii_case(authserv_id) {
        return None;
    }
    let tokens = tokenize(rest);
    let statements = tokens.split(|token| *token == Token::Semicolon);
    Some(statements.filter_map(parse_result).collect())
}

fn parse_result(tokens: &[Token]) -> Option<MethodResult> {
    let mut pairs = tokens.chunks(3).map_while(|three| match three {
        [Token::Word(name), Token::Equals, Token::Word(value)] => {
            Some((name.to_ascii_lowercase(), value.clone()))
        }
        _ => None,
    });
    let (method, result) = pairs.next()?;
    // A version can follow the method, for example `dkim/1`.
    let method = method.split('/').next().unwrap_or_default().to_owned();
    Some(MethodResult {
        method,
        result: result.to_ascii_lowercase(),
        properties: pairs.collect(),
    })
}

#[derive(Debug, PartialEq, Eq)]
enum Token {
    Word(String),
    Equals,
    Semicolon,
}

/// Splits a text into tokens. Omits comments. Each quoted string is one word.
fn tokenize(text: &str) -> Vec<Token> {
    let mut tokens = Vec::new();
    let mut word: Option<String> = None;
    let mut comment_depth = 0_usize;
    let mut is_quoted = false;
    let mut characters = text.chars();
    while let Some(character) = characters.next() {
        match character {
            '\\' if is_quoted || comment_depth > 0 => {
                let escaped = characters.next();
                if let (true, Some(escaped)) = (is_quoted, escaped) {
                    word.get_or_insert_default().push(escaped);
                }
            }
            '"' if comment_depth == 0 => {
                is_quoted = !is_quoted;
                word.get_or_insert_default();
            }
            _ if is_quoted => word.get_or_insert_default().push(character),
            '(' => comment_depth += 1,
            ')' if comment_depth > 0 => comment_depth -= 1,
            _ if comment_depth > 0 => {}
            '=' | ';' | ' ' | '\t' | '\r' | '\n' => {
                tokens.extend(word.take().map(Token::Word));
                match character {
                    '=' => tokens.push(Token::Equals),
                    ';' => tokens.push(Token::Semicolon),
                    _ => {}
                }
            }
            _ => word.get_or_insert_default().push(character),
        }
    }
    tokens.extend(word.map(Token::Word));
    tokens
}

/// Derives the authentication from all results of a field. A result for `auth` means that an
/// account submitted the message.
fn evaluate(results: &[MethodResult]) -> Authentication {
    let of = |method: &'static str| results.iter().filter(move |result| result.method == method);
    let header_from = |result: &MethodResult| result.property("header.from").map(domain);
    if let Some(submitted) = of("auth").find(|result| result.result == "pass") {
        let envelope = || submitted.property("smtp.mailfrom").map(domain);
        let login = || submitted.property("smtp.auth").map(domain);
        return Authentication {
            verdict: Verdict::Pass,
            domain: header_from(submitted).or_else(envelope).or_else(login),
        };
    }
    let dmarc: Vec<&str> = of("dmarc").map(|result| result.result.as_str()).collect();
    let verdict = if dmarc.contains(&"fail") {
        Verdict::Fail
    } else if !dmarc.is_empty() && dmarc.iter().all(|result| *result == "pass") {
        Verdict::Pass
    } else {
        Verdict::None
    };
    Authentication {
        verdict,
        domain: of("dmarc").find_map(header_from),
    }
}

/// Returns the domain of an address in lower case. `address` can also be a domain.
fn domain(address: &str) -> String {
    let domain = address.rsplit('@').next().unwrap_or(address);
    domain.to_ascii_lowercase()
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: &str = "mail.first.test";

    fn trusted(key: Option<&[u8]>) -> TrustedResults {
        TrustedResults {
            authserv_id: ID.into(),
            key: key.map(Arc::from),
            spam_header: String::new(),
        }
    }

    fn read(header: &str, from: &str) -> Authentication {
        read_with_key(None, header, from)
    }

    fn read_with_key(key: Option<&[u8]>, header: &str, from: &str) -> Authentication {
        let from = [Address {
            name: String::new(),
            address: from.into(),
        }];
        let header = header.replace('\n', "\r\n");
        let message = Beginning {
            header: header.as_bytes(),
            body: b"body",
            is_complete: true,
        };
        read_results(message, &trusted(key), &from).0
    }

    fn authentication(verdict: Verdict, domain: &str) -> Authentication {
        Authentication {
            verdict,
            domain: Some(domain.into()),
        }
    }

    #[test]
    fn the_addresses_in_every_character_set_are_found() {
        // In Shift_JIS, the first backslash is the second byte of a character.
        let value = b" \"\x95\\\" <ceo@first.test>, \" <a@outside.test>\r\n";
        let header = [
            b"From:",
            &value[..],
            b"Content-Type: text/plain; charset=shift_jis\r\n",
        ];
        let displayed = Header::of(&header.concat(), bounds::FIELD).from;
        assert_eq!(displayed[0].address, "ceo@first.test");
        let (addresses, complete) = parse_addresses(value);
        assert!(
            complete && addresses.contains(&displayed[0].address),
            "{addresses:?}"
        );
        assert!(addresses.contains(&"a@outside.test".to_owned()));
        let (addresses, _) = parse_addresses(b" \"a\\\"b\" <a@outside.test>\r\n");
        assert_eq!(addresses, ["a@outside.test"]);
    }

    #[test]
    fn results_in_the_forms_of_common_servers_are_read() {
        for (header, expected) in [
            (
                "mail.first.test; dmarc=pass header.from=a.test",
                Verdict::Pass,
            ),
            (
                "mail.first.test 1;\n\tdkim=pass header.d=a.test;\n\tdmarc=pass (p=none; dis=none) header.from=a.test",
                Verdict::Pass,
            ),
            (
                "MAIL.first.test;\n dmarc=pass (policy=reject) header.from=A.test;\n spf=fail reason=\"x; dmarc=fail\"",
                Verdict::Pass,
            ),
            (
                "mail.first.test; dmarc = fail header.from = a.test",
                Verdict::Fail,
            ),
            (
                "mail.first.test; auth=pass smtp.auth=ada smtp.mailfrom=ada@a.test",
                Verdict::Pass,
            ),
            (
                "mail.first.test; auth=pass smtp.mailfrom=b.test header.from=a.test",
                Verdict::Pass,
            ),
            (
                "mail.first.test; dmarc=none header.from=a.test",
                Verdict::None,
            ),
            (
                "mail.first.test; dmarc=temperror header.from=a.test",
                Verdict::None,
            ),
            (
                "mail.first.test; dmarc=pass header.from=a.test; dmarc=fail header.from=a.test",
                Verdict::Fail,
            ),
        ] {
            let header = format!("Received: x\nAuthentication-Results: {header}\nFrom: x\n");
            assert_eq!(
                read(&header, "x@a.test"),
                authentication(expected, "a.test"),
                "{header}"
            );
        }
    }

    #[test]
    fn only_the_topmost_field_with_the_own_authserv_id_counts() {
        let pass = "dmarc=pass header.from=a.test";
        for header in [
            format!("Authentication-Results: mx.evil.test; {pass}\n"),
            format!("Authentication-Results: mail.first.test.evil.test; {pass}\n"),
            format!("Authentication-Results: \"mail.first.test\"; {pass}\n"),
            format!(
                "Authentication-Results: mail.first.test; spf=pass\nAuthentication-Results: mail.first.test; {pass}\n"
            ),
            format!("X-Authentication-Results: mail.first.test; {pass}\n"),
            format!("Subject: x\n Authentication-Results: mail.first.test; {pass}\n"),
            "Authentication-Results: mail.first.test; none\n".into(),
            "Authentication-Results: mail.first.test\n".into(),
            String::new(),
        ] {
            assert_eq!(
                read(&header, "x@a.test"),
                Authentication::default(),
                "{header}"
            );
        }
    }

    #[test]
    fn a_comment_or_a_quoted_value_adds_no_result() {
        for value in [
            "spf=fail smtp.mailfrom=\"a; dmarc=pass header.from=a.test\"",
            "spf=fail (; dmarc=pass header.from=a.test)",
            "spf=fail (\\); dmarc=pass header.from=a.test)",
            "spf=fail reason=\"\\\"; dmarc=pass header.from=a.test",
        ] {
            let header = format!("Authentication-Results: mail.first.test; {value}\n");
            assert_eq!(read(&header, "x@a.test").verdict, Verdict::None, "{value}");
        }
    }

    #[test]
    fn a_pass_for_another_domain_than_the_senders_is_not_a_pass() {
        let header =
            "Authentication-Results: mail.first.test; dmarc=pass header.from=xn--bcher-kva.test\n";
        assert_eq!(read(header, "x@b\u{fc}cher.test").verdict, Verdict::Pass);
        assert_eq!(read(header, "x@a.test").verdict, Verdict::Fail);
        assert_eq!(read(header, "x").verdict, Verdict::Fail);
        let unnamed = "Authentication-Results: mail.first.test; dmarc=pass\n";
        assert_eq!(read(unnamed, "x@a.test").verdict, Verdict::None);
    }

    #[test]
    fn without_an_authserv_id_no_field_is_trusted() {
        let message = Beginning {
            header: b"Authentication-Results: ; dmarc=pass header.from=a.test\r\n",
            body: b"",
            is_complete: true,
        };
        let none = TrustedResults::default();
        let (read, _) = read_results(message, &none, &[]);
        assert_eq!(read, Authentication::default());
    }

    #[test]
    fn with_a_key_only_marked_fields_count() {
        let results = " mail.first.test; auth=pass header.from=a.test";
        let from = "From: x@a.test\n";
        let mut content = MarkedContent::default();
        content.add_field(b"From", b" x@a.test");
        content.add_body(b"body");
        let marked = content.mark(b"key", results);
        let read = |header: &str| read_with_key(Some(b"key"), header, "x@a.test");
        let pass = authentication(Verdict::Pass, "a.test");
        let forged = format!("Authentication-Results:{results}\n");
        let genuine = format!("Authentication-Results:{marked}\n");
        assert_eq!(read(&format!("{forged}{from}")), Authentication::default());
        assert_eq!(read(&format!("{genuine}{from}")), pass);
        assert_eq!(read(&format!("{forged}{genuine}{from}")), pass);
        let changed = read(&format!("{genuine}{from}Subject: x\n"));
        assert_eq!(changed, Authentication::default());
        // Without the key of the mark, the field counts as before.
        assert_eq!(
            super::tests::read(&format!("{genuine}{from}"), "x@a.test"),
            pass
        );
    }

    #[test]
    fn a_message_whose_marked_body_was_not_read_is_not_verified() {
        let message = Beginning {
            header: b"From: x@a.test\r\n",
            body: b"body",
            is_complete: false,
        };
        assert!(message.marked_content().is_none());
    }
}
