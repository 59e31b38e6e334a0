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

    /// Parses tokens up to the next comma or semicolon. The name of a group ends with a colon and
    /// is ignored.
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

    /// Parses the address in angle brackets at the beginning of `self.rest`. Without the closing
    /// bracket, the address ends at a comma. Removes white space around `@` and `.`, and adds the
    /// comments to `comments`.
    fn angle(&mut self, comments: &mut Vec<String>) -> Cow<'f, str> {
        let mut address = String::new();
        let mut spaced = false;
        self.rest = self.rest.trim_start_matches('<');
        let end = memchr::memchr2(b'<', b'>', self.rest.as_bytes()).unwrap_or_default();
        let is_closed = self.rest[end..].starts_with('>');
        let inner = &self.rest[..end];
        let is_special = |b: u8| b.is_ascii_whitespace() || matches!(b, b'(' | b'"' | b'=');
        if is_closed && !inner.bytes().any(is_special) {
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
        // Some senders encode the name and the address in one encoded word.
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

    /// Returns the address and its name if the mailbox has no angle brackets.
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
            // It is unclear which words belong to the address, so the whole text becomes the
            // address.
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
/// text without quotes and encoded words can be the name of a local user.
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

/// Returns the length of the atom at the beginning of `text`, in bytes. The atom has at least one
/// character.
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
mod tests;
