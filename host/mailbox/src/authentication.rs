//! Whether the sender of a message is authenticated, as the mail server wrote it down in `Authentication-Results` (RFC 8601).
//!
//! Reads the topmost field of the configured authserv-id only. The mail server must delete fields of this id that arrive from elsewhere.

use latchmail_core::address::fold_domain;
use latchmail_mime::Header;

use super::bounds;
use super::types::Address;

const FIELD: &[u8] = b"Authentication-Results";

/// What is known of the sender.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Verdict {
    /// DMARC passed, or an account of this server submitted the message.
    Pass,
    /// DMARC failed.
    Fail,
    /// There is no result.
    #[default]
    None,
}

/// The result for one message.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Authentication {
    /// What is known of the sender.
    pub verdict: Verdict,
    /// The domain that the result is about.
    pub domain: Option<String>,
}

impl Authentication {
    /// Reads the result from a message's header. `from` is whom the service shows as the sender. An empty id trusts nothing.
    pub(crate) fn of(header: &[u8], authserv_id: &str, from: &[Address]) -> Self {
        if authserv_id.is_empty() {
            return Self::default();
        }
        let results = fields(header)
            .filter(|(name, _)| name.trim_ascii_end().eq_ignore_ascii_case(FIELD))
            .find_map(|(_, value)| results(&String::from_utf8_lossy(value), authserv_id));
        let authentication = results.map(|results| judged(&results)).unwrap_or_default();
        authentication.for_sender(from)
    }

    /// A result about another domain than the one that is shown proves nothing.
    fn for_sender(mut self, from: &[Address]) -> Self {
        let shown = |address: &Address| {
            let (_, domain) = address.address.rsplit_once('@')?;
            fold_domain(domain)
        };
        let about = self.domain.as_deref().and_then(fold_domain);
        if self.verdict == Verdict::Pass {
            if about.is_none() || from.is_empty() {
                self.verdict = Verdict::None;
            } else if from.iter().any(|address| shown(address) != about) {
                self.verdict = Verdict::Fail;
            }
        }
        self
    }
}

/// The addresses that the service shows for the value of a field such as From, and whether these are all.
#[must_use]
pub fn addresses(value: &[u8]) -> (Vec<String>, bool) {
    let field = [b"From:", value, b"\r\n"].concat();
    let header = Header::of(&field, bounds::FIELD);
    let addresses = header.from.into_iter().map(|one| one.address);
    (addresses.collect(), !header.truncated)
}

/// The fields of a header: name and value, folding included.
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

/// One method with its result and properties.
#[derive(Debug, Default, PartialEq, Eq)]
struct Outcome {
    method: String,
    result: String,
    properties: Vec<(String, String)>,
}

impl Outcome {
    fn property(&self, name: &str) -> Option<&str> {
        let found = self.properties.iter().find(|(known, _)| known == name);
        found.map(|(_, value)| &**value)
    }
}

/// The outcomes of a field, if the authserv-id is this server's. The id must be written without quotes and comments.
fn results(value: &str, authserv_id: &str) -> Option<Vec<Outcome>> {
    let (id, rest) = value.split_once(';').unwrap_or((value, ""));
    let id = id.split_ascii_whitespace().next()?;
    if !id.eq_ignore_ascii_case(authserv_id) {
        return None;
    }
    let tokens = tokens(rest);
    let statements = tokens.split(|token| *token == Token::Semicolon);
    Some(statements.filter_map(outcome).collect())
}

fn outcome(tokens: &[Token]) -> Option<Outcome> {
    let mut pairs = tokens.chunks(3).map_while(|three| match three {
        [Token::Word(name), Token::Equals, Token::Word(value)] => {
            Some((name.to_ascii_lowercase(), value.clone()))
        }
        _ => None,
    });
    let (method, result) = pairs.next()?;
    // A version can follow the method: `dkim/1`.
    let method = method.split('/').next().unwrap_or_default().to_owned();
    Some(Outcome {
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

/// Splits a text into tokens. Comments are left out, and quoted strings are words.
fn tokens(text: &str) -> Vec<Token> {
    let mut tokens = Vec::new();
    let mut word: Option<String> = None;
    let mut comments = 0_usize;
    let mut is_quoted = false;
    let mut characters = text.chars();
    while let Some(character) = characters.next() {
        match character {
            '\\' if is_quoted || comments > 0 => {
                let escaped = characters.next();
                if let (true, Some(escaped)) = (is_quoted, escaped) {
                    word.get_or_insert_default().push(escaped);
                }
            }
            '"' if comments == 0 => {
                is_quoted = !is_quoted;
                word.get_or_insert_default();
            }
            _ if is_quoted => word.get_or_insert_default().push(character),
            '(' => comments += 1,
            ')' if comments > 0 => comments -= 1,
            _ if comments > 0 => {}
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

fn judged(outcomes: &[Outcome]) -> Authentication {
    let of = |method: &'static str| outcomes.iter().filter(move |one| one.method == method);
    let header_from = |one: &Outcome| one.property("header.from").map(domain);
    if let Some(submitted) = of("auth").find(|one| one.result == "pass") {
        let envelope = || submitted.property("smtp.mailfrom").map(domain);
        let login = || submitted.property("smtp.auth").map(domain);
        return Authentication {
            verdict: Verdict::Pass,
            domain: header_from(submitted).or_else(envelope).or_else(login),
        };
    }
    let all_are = |result: &str| of("dmarc").all(|one| one.result == result);
    let verdict = match of("dmarc").next() {
        Some(_) if all_are("pass") => Verdict::Pass,
        Some(_) if of("dmarc").any(|one| one.result == "fail") => Verdict::Fail,
        _ => Verdict::None,
    };
    Authentication {
        verdict,
        domain: of("dmarc").find_map(header_from),
    }
}

/// The domain of an address, or a domain itself.
fn domain(address: &str) -> String {
    let domain = address.rsplit('@').next().unwrap_or(address);
    domain.to_ascii_lowercase()
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: &str = "mail.first.test";

    fn read(header: &str, from: &str) -> Authentication {
        let from = [Address {
            name: String::new(),
            address: from.into(),
        }];
        Authentication::of(header.replace('\n', "\r\n").as_bytes(), ID, &from)
    }

    fn is(verdict: Verdict, domain: &str) -> Authentication {
        Authentication {
            verdict,
            domain: Some(domain.into()),
        }
    }

    #[test]
    fn the_results_of_common_servers_are_read() {
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
                is(expected, "a.test"),
                "{header}"
            );
        }
    }

    #[test]
    fn only_the_topmost_field_of_the_server_itself_counts() {
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
    fn a_result_about_another_domain_than_the_one_shown_is_no_pass() {
        let header =
            "Authentication-Results: mail.first.test; dmarc=pass header.from=xn--bcher-kva.test\n";
        assert_eq!(read(header, "x@b\u{fc}cher.test").verdict, Verdict::Pass);
        assert_eq!(read(header, "x@a.test").verdict, Verdict::Fail);
        assert_eq!(read(header, "x").verdict, Verdict::Fail);
        let unnamed = "Authentication-Results: mail.first.test; dmarc=pass\n";
        assert_eq!(read(unnamed, "x@a.test").verdict, Verdict::None);
    }

    #[test]
    fn without_an_authserv_id_nothing_is_trusted() {
        let header = b"Authentication-Results: ; dmarc=pass header.from=a.test\r\n";
        assert_eq!(
            Authentication::of(header, "", &[]),
            Authentication::default()
        );
    }
}
