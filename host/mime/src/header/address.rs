//! Parses the addresses of a field (RFC 5322, sections 3.4 and 4.4). Accepts the errors of many
//! senders, and never makes an address from parts of a name.

use std::borrow::Cow;

use super::to_single_line;
use crate::lexical::{comment, quoted_string};
use crate::{Address, words};

/// Maximum length of a domain literal (RFC 5321, section 4.1.3), in bytes.
const MAX_LITERAL: usize = 256;

/// An iterator over the addresses of a field. A field without line breaks is expected.
pub(super) struct Mailboxes<'f> {
    rest: &'f str,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// Text without quotes.
    Atom,
    /// A quoted string.
    Quoted,
    /// Encoded words.
    Word,
    /// An address in angle brackets.
    Angle,
}

/// A part of the name or of the address.
struct Token<'f> {
    kind: Kind,
    raw: &'f str,
    decoded: Cow<'f, str>,
    /// `true` if white space or a comment precedes the token.
    spaced: bool,
}

/// The tokens and the comments of one address.
#[derive(Default)]
struct Mailbox<'f> {
    tokens: Vec<Token<'f>>,
    comments: Vec<String>,
}

impl<'f> Mailboxes<'f> {
    pub(super) fn of(field: &'f str) -> Self {
        Self { rest: field }
    }

    /// Parses tokens up to the next comma or semicolon. A colon ends the name of a group, which is
    /// ignored.
    fn mailbox(&mut self) -> Mailbox<'f> {
        let mut mailbox = Mailbox::default();
        let mut spaced = false;
        loop {
            let before = self.rest.len();
            self.rest = self.rest.trim_start_matches(is_space);
            spaced |= self.rest.len() < before;
            let Some(first) = self.rest.chars().next() else {
                return mailbox;
            };
            let follows_angle = || {
                let last = mailbox.tokens.last();
                last.is_some_and(|last| last.kind == Kind::Angle)
            };
            let (kind, length, decoded) = match first {
                ',' | ';' => {
                    self.rest = &self.rest[1..];
                    return mailbox;
                }
                ':' => {
                    self.rest = &self.rest[1..];
                    mailbox = Mailbox::default();
                    continue;
                }
                '(' => {
                    mailbox.comments.push(self.comment());
                    spaced = true;
                    continue;
                }
                '>' if follows_angle() => {
                    self.rest = &self.rest[1..];
                    continue;
                }
                '<' => {
                    let before = self.rest;
                    let address = self.angle(&mut mailbox.comments);
                    let length = before.len() - self.rest.len();
                    self.rest = before;
                    (Kind::Angle, length, address)
                }
                '"' => {
                    let (content, length) = quoted_string(self.rest);
                    let decoded = decode(content).into();
                    match length {
                        Some(length) => (Kind::Quoted, length, decoded),
                        None => (Kind::Atom, self.rest.len(), decoded),
                    }
                }
                _ => {
                    if let Some((decoded, length)) = words::decode_first(self.rest) {
                        (Kind::Word, length, decoded.into())
                    } else {
                        let length = atom_length(self.rest);
                        (Kind::Atom, length, self.rest[..length].into())
                    }
                }
            };
            let (raw, rest) = self.rest.split_at(length);
            self.rest = rest;
            mailbox.tokens.push(Token {
                kind,
                raw,
                decoded,
                spaced: std::mem::take(&mut spaced),
            });
        }
    }

    fn comment(&mut self) -> String {
        let (content, length) = comment(self.rest);
        self.rest = length.map_or("", |length| &self.rest[length..]);
        decode(content)
    }

    /// Parses the address in angle brackets at the beginning of the rest. Without the closing
    /// bracket, the address ends at a comma. Removes white space around `@` and `.`, and adds the
    /// comments to `comments`.
    fn angle(&mut self, comments: &mut Vec<String>) -> Cow<'f, str> {
        let mut address = String::new();
        let mut spaced = false;
        self.rest = self.rest.trim_start_matches('<');
        let end = self.rest.find(['<', '>']).unwrap_or_default();
        let is_closed = self.rest[end..].starts_with('>');
        let inner = &self.rest[..end];
        if is_closed && !inner.contains(|c| is_space(c) || matches!(c, '(' | '"' | '=')) {
            self.rest = &self.rest[end + 1..];
            return inner.into();
        }
        while let Some(first) = self.rest.chars().next() {
            let (piece, length): (Cow<'_, str>, _) = match first {
                '<' => break,
                ',' if !is_closed => break,
                '>' => {
                    self.rest = &self.rest[1..];
                    break;
                }
                '(' => {
                    comments.push(self.comment());
                    continue;
                }
                '"' => {
                    let length = quoted_string(self.rest).1.unwrap_or(self.rest.len());
                    (self.rest[..length].into(), length)
                }
                c if is_space(c) => {
                    spaced = !address.is_empty();
                    ("".into(), c.len_utf8())
                }
                c => {
                    if let Some((decoded, length)) = words::decode_first(self.rest) {
                        (decoded.into(), length)
                    } else {
                        let ends = |c: char| is_space(c) || ",<>(\"=".contains(c);
                        let rest = &self.rest[c.len_utf8()..];
                        let length = c.len_utf8() + rest.find(ends).unwrap_or(rest.len());
                        (self.rest[..length].into(), length)
                    }
                }
            };
            self.rest = &self.rest[length..];
            if piece.is_empty() {
                continue;
            }
            let joins = address.ends_with(['@', '.']) || piece.starts_with(['@', '.']);
            if std::mem::take(&mut spaced) && !joins {
                address.push(' ');
            }
            address.push_str(&piece);
        }
        address.into()
    }
}

impl Iterator for Mailboxes<'_> {
    type Item = Address;

    fn next(&mut self) -> Option<Address> {
        while !self.rest.is_empty() {
            let address = self.mailbox().address();
            let address = Address {
                name: single_line(address.name),
                address: without_route(single_line(address.address)),
            };
            if !address.name.is_empty() || !address.address.is_empty() {
                return Some(address);
            }
        }
        None
    }
}

impl Mailbox<'_> {
    fn address(mut self) -> Address {
        let comments = self.comments.join(" ");
        let is_angle = |token: &Token<'_>| token.kind == Kind::Angle;
        let Some(angle) = self.tokens.iter().rposition(is_angle) else {
            return self.without_brackets(comments);
        };
        let address = self.tokens.remove(angle).decoded.into_owned();
        let name = text(&self.tokens);
        // Some senders encode the name and the address in one word.
        let (inner, address) = match name_and_address(&address) {
            Some((inner, address)) => (inner.to_owned(), address.to_owned()),
            None => (String::new(), address),
        };
        let name = if name.trim().is_empty() { inner } else { name };
        Address {
            name: with_comments(name, comments),
            address,
        }
    }

    /// Returns the address and its name if there are no angle brackets.
    fn without_brackets(self, comments: String) -> Address {
        let tokens = self.tokens;
        let whole = text(&tokens);
        let has_at = |token: &Token<'_>| token.kind == Kind::Atom && token.raw.contains('@');
        let Some(at) = tokens.iter().position(has_at) else {
            return without_at(&tokens, whole, comments);
        };
        let (start, end) = (local_part(&tokens, at), domain(&tokens, at));
        let (before, after) = (&tokens[..start], &tokens[end..]);
        let is_split = tokens[at].raw.starts_with('@') && tokens[at].spaced && !before.is_empty();
        if is_split || before.iter().chain(after).any(has_at) {
            // Which words belong to the address is unclear.
            return Address {
                name: comments,
                address: whole,
            };
        }
        let address = tokens[start..end].iter().map(|token| match token.kind {
            Kind::Quoted => token.raw,
            _ => &token.decoded,
        });
        let address: String = address.collect();
        let name = [text(before), text(after)].join(" ").trim().to_owned();
        Address {
            name: with_comments(name, comments),
            address,
        }
    }
}

/// Returns the address and its name if no token outside quotes and encoded words contains an `@`. A
/// text without quotes and encoded words can be a local user.
fn without_at(tokens: &[Token<'_>], whole: String, comments: String) -> Address {
    if let Some((name, address)) = name_and_address(&whole) {
        return Address {
            name: with_comments(name.to_owned(), comments),
            address: address.to_owned(),
        };
    }
    let is_one_word = !whole.contains(char::is_whitespace);
    let is_address = if tokens.iter().all(|token| token.kind == Kind::Atom) {
        is_one_word || comments.is_empty()
    } else {
        is_one_word && whole.contains('@')
    };
    if is_address && !whole.is_empty() {
        return Address {
            name: comments,
            address: whole,
        };
    }
    Address {
        name: with_comments(whole, comments),
        address: String::new(),
    }
}

/// Appends the comments to the name. Without a name, the comments are the name (RFC 5322, appendix
/// A.5).
fn with_comments(name: String, comments: String) -> String {
    match (name.is_empty(), comments.is_empty()) {
        (true, _) => comments,
        (false, true) => name,
        (false, false) => format!("{name} ({comments})"),
    }
}

/// Splits a decoded text such as `Ada <ada@example.org>`.
fn name_and_address(text: &str) -> Option<(&str, &str)> {
    let (name, address) = text.trim_end().strip_suffix('>')?.rsplit_once('<')?;
    (address.contains('@') && !address.contains(char::is_whitespace))
        .then_some((name.trim(), address))
}

/// Returns the index of the first token of the local part. White space is allowed only before the
/// `@`.
fn local_part(tokens: &[Token<'_>], at: usize) -> usize {
    let mut start = at;
    if tokens[at].raw.starts_with('@')
        && at > 0
        && (tokens[at - 1].kind == Kind::Quoted || !tokens[at - 1].decoded.contains(is_space))
    {
        start -= 1;
    }
    while start > 0 && !tokens[start].spaced {
        let (before, first) = (&tokens[start - 1], &tokens[start]);
        let are_atoms = before.kind == Kind::Atom && first.kind == Kind::Atom;
        if !are_atoms && !before.raw.ends_with('.') && !first.raw.starts_with('.') {
            break;
        }
        start -= 1;
    }
    start
}

/// Returns the index after the last token of the domain. White space is allowed after the `@` and
/// around dots.
fn domain(tokens: &[Token<'_>], at: usize) -> usize {
    let mut end = at + 1;
    while let Some(next) = tokens.get(end).filter(|next| next.kind != Kind::Quoted) {
        let is_atom = next.kind == Kind::Atom && !next.spaced;
        if !is_atom && !tokens[end - 1].raw.ends_with(['@', '.']) && !next.raw.starts_with('.') {
            break;
        }
        end += 1;
    }
    end
}

/// Joins the decoded tokens. White space between two tokens is one space.
fn text(tokens: &[Token<'_>]) -> String {
    let mut text = String::new();
    for token in tokens {
        if token.spaced && !text.is_empty() {
            text.push(' ');
        }
        text.push_str(match token.kind {
            Kind::Angle => token.raw,
            _ => &token.decoded,
        });
    }
    text
}

/// Returns the length of the atom at the beginning of `text`, at least one character.
fn atom_length(text: &str) -> usize {
    let bytes = text.as_bytes();
    let mut at = 0;
    while let Some(byte) = bytes.get(at) {
        match byte {
            b',' | b';' | b':' | b'<' | b'"' | b'(' | b' ' | b'\t' | b'\r' | b'\n' if at > 0 => {
                break;
            }
            b'=' if at > 0 && bytes.get(at + 1) == Some(&b'?') => break,
            b'@' if bytes.get(at + 1) == Some(&b'[') => {
                let literal = &bytes[at..bytes.len().min(at + MAX_LITERAL)];
                at += memchr::memchr(b']', literal).unwrap_or_default();
            }
            _ => {}
        }
        at += 1;
    }
    at
}

fn is_space(c: char) -> bool {
    c.is_ascii_whitespace()
}

/// Decodes the encoded words in a text.
fn decode(text: String) -> String {
    match words::decode(&text) {
        Cow::Owned(decoded) => decoded,
        Cow::Borrowed(_) => text,
    }
}

/// Replaces control characters with spaces.
fn single_line(text: String) -> String {
    let is_clean = text.trim().len() == text.len() && !crate::contains_control(&text, |_| false);
    if is_clean {
        text
    } else {
        to_single_line(&text)
    }
}

fn without_route(address: String) -> String {
    let stripped = strip_route(&address);
    if stripped.len() == address.len() {
        address
    } else {
        stripped.to_owned()
    }
}

/// Returns an address without brackets and without a source route (RFC 5322, section 4.4).
fn strip_route(address: &str) -> &str {
    let address = address.trim_start_matches('<').trim();
    let address = if address.contains('<') {
        address
    } else {
        address.trim_end_matches('>').trim()
    };
    match address
        .strip_prefix('@')
        .and_then(|route| route.split_once(':'))
    {
        Some((_, after)) if after.contains('@') => after,
        _ => address,
    }
}

#[cfg(test)]
mod tests {
    use super::super::Header;
    use super::*;

    fn from(field: &str) -> Vec<Address> {
        Header::of(format!("From: {field}\r\n").as_bytes(), 1000).from
    }

    fn address(name: &str, address: &str) -> Address {
        Address {
            name: name.into(),
            address: address.into(),
        }
    }

    #[test]
    fn a_local_part_in_quotes_is_part_of_the_address() {
        assert_eq!(
            from("\"spaced local\"@x.org"),
            [address("", "\"spaced local\"@x.org")]
        );
        assert_eq!(
            from("Bo <\"spaced local\"@x.org>, \"a\\\"b\"@y.org (Bo), c@z.org"),
            [
                address("Bo", "\"spaced local\"@x.org"),
                address("Bo", "\"a\\\"b\"@y.org"),
                address("", "c@z.org")
            ]
        );
        assert_eq!(
            from("ada\r\n @x.\torg, ada@y.org"),
            [address("", "ada@x.org"), address("", "ada@y.org")]
        );
        assert_eq!(
            from("Foo Bar @x.org, Foo (Bar) <@x.org>"),
            [
                address("", "Foo Bar @x.org"),
                address("Foo (Bar)", "@x.org")
            ]
        );
        assert_eq!(from("Foo <@x.org>"), [address("Foo", "@x.org")]);
        assert_eq!(from("\"Foo\" <@x.org>"), [address("Foo", "@x.org")]);
    }

    #[test]
    fn white_space_around_the_at_sign_is_not_part_of_the_address() {
        for field in [
            "jan @ x.org",
            "jan@ x.org",
            "jan @x.org",
            "<jan @\t x.org>",
            "< jan@x . org >",
        ] {
            assert_eq!(from(field), [address("", "jan@x.org")], "{field}");
        }
        assert_eq!(from("Jan <jan @ x.org>"), [address("Jan", "jan@x.org")]);
        assert_eq!(
            from("Jan jan@ x.org (y)"),
            [address("Jan (y)", "jan@x.org")]
        );
    }

    #[test]
    fn encoded_words_are_decoded_everywhere() {
        for (field, name, mail) in [
            ("M=?utf-8?Q?=C3=BC?=ller <m@x.org>", "Müller", "m@x.org"),
            ("=?utf-8?Q?M=C3=BC?=ller <m@x.org>", "Müller", "m@x.org"),
            ("\"M=?utf-8?Q?=C3=BC?=ller\" <m@x.org>", "Müller", "m@x.org"),
            ("m@x.org (M=?utf-8?Q?=C3=BC?=ller)", "Müller", "m@x.org"),
            (
                "Jan =?utf-8?Q?M=C3?= =?utf-8?Q?=BC?= <m@x.org>",
                "Jan Mü",
                "m@x.org",
            ),
            ("=?utf-8?Q?a=2C_b?=<m@x.org>", "a, b", "m@x.org"),
            (
                "=?utf-8?Q?Jan?= <=?utf-8?Q?jan=40firm.example?=>",
                "Jan",
                "jan@firm.example",
            ),
            ("Jan <=?utf-8?Q?jan?=@x.org>", "Jan", "jan@x.org"),
            ("=?utf-8?Q?Jan_=3Cjan=40x.org=3E?=", "Jan", "jan@x.org"),
            ("<=?utf-8?Q?Jan_=3Cjan=40x.org=3E?=>", "Jan", "jan@x.org"),
            ("=?utf-8?Q?jan=40x.org?=", "", "jan@x.org"),
            ("=?utf-8?Q?jan?=@x.org", "", "jan@x.org"),
            ("=?utf-8?Q?Jan?=jan@x.org", "Jan", "jan@x.org"),
            ("=?utf-8?Q?Jan_M?=@x.org", "Jan M", "@x.org"),
            ("=?utf-8?Q?a?= =?utf-7?Q?b?= <m@x.org>", "ab", "m@x.org"),
            (
                "=?utf-8?Q?a=0D=0ABcc:_b?= <m@x.org>",
                "a  Bcc: b",
                "m@x.org",
            ),
        ] {
            assert_eq!(from(field), [address(name, mail)], "{field}");
        }
    }

    #[test]
    fn a_name_is_never_part_of_an_address() {
        let names = [
            "Jan",
            "\"Jan\"",
            "\"Doe, Jan\"",
            "Jan Doe",
            "J. Doe",
            "Dr.",
            "=?utf-8?Q?Jan?=",
            "\"=?utf-8?B?SmFu?=\"",
            "=?utf-8?Q?Jan=2C?= =?us-ascii?Q?_Doe?=",
            "Jan@home",
            "Jan (Doe)",
            "(Jan)",
            "\"Jan\" Doe",
            "M\u{fc}ller",
            "",
            "=?utf-8?Q?Jan_=3Ca=40b=3E?=",
            "Jan\tDoe",
            "Jan; Doe",
            "=?iso-2022-kr?Q?Jan?=",
            "\"Jan\\\" Doe\"",
            "a=?b",
        ];
        for name in names {
            for mail in [
                "<ada@x.org>",
                " <ada@x.org>",
                " <ada @x.org>",
                "\r\n <ada@x.org>",
                " <=?utf-8?Q?ada=40x.org?=>",
            ] {
                let read = from(&format!("{name}{mail}"));
                let last = read.last().map(|one| one.address.as_str());
                assert_eq!(last, Some("ada@x.org"), "{name}{mail}");
            }
            let empty = from(&format!("{name}<>")).pop();
            assert!(empty.is_none_or(|one| one.address.is_empty()), "{name}");
        }
        for field in [
            "Jan <>",
            "\"Jan\"",
            "=?utf-8?Q?Jan?=",
            "(Jan)",
            "=?utf-8?Q?J?= an",
        ] {
            let read = from(field);
            assert_eq!(read[0].address, "", "{field}");
            assert!(!read[0].name.is_empty(), "{field}");
        }
        // Without quotes, the text can be a local user.
        assert_eq!(from("root (Cron)"), [address("Cron", "root")]);
    }

    #[test]
    fn a_malformed_list_hides_no_address() {
        for (field, expected) in [
            ("a@x.org b@y.org", vec![address("", "a@x.org b@y.org")]),
            ("a@x.org <b@y.org>", vec![address("a@x.org", "b@y.org")]),
            ("<a@x.org> <b@y.org>", vec![address("<a@x.org>", "b@y.org")]),
            (
                "Jan <a@x.org, b@y.org",
                vec![address("Jan", "a@x.org"), address("", "b@y.org")],
            ),
            (
                "a@x.org; b@y.org",
                vec![address("", "a@x.org"), address("", "b@y.org")],
            ),
            (
                "a@[IPv6:::1], b@y.org",
                vec![address("", "a@[IPv6:::1]"), address("", "b@y.org")],
            ),
            ("<\"a>,b\"@x.org>", vec![address("", "\"a>,b\"@x.org")]),
            (
                "a@x.org>, <<b@y.org>>",
                vec![address("", "a@x.org"), address("", "b@y.org")],
            ),
            (
                "\"a <a@x.org>, b@y.org",
                vec![address("", "a <a@x.org>, b@y.org")],
            ),
            (
                "Jan <a@x.o,rg>, b@y.org",
                vec![address("Jan", "a@x.o,rg"), address("", "b@y.org")],
            ),
            (
                "Jan Doe (<a@x.org>)",
                vec![address("Jan Doe (<a@x.org>)", "")],
            ),
            ("Me -> You <a@x.org>", vec![address("Me -> You", "a@x.org")]),
        ] {
            assert_eq!(from(field), expected, "{field}");
        }
    }

    #[test]
    fn brackets_and_routes_are_not_of_the_address() {
        assert_eq!(
            from("<@a.org,@b.org:ada@x.org>, <<bo@x.org>>, Cy <@d.org>"),
            [
                address("", "ada@x.org"),
                address("", "bo@x.org"),
                address("Cy", "@d.org")
            ]
        );
    }
}
