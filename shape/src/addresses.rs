//! Parses mail addresses and lists of mail addresses (RFC 5322, section 3.4; RFC 6532 for other
//! characters than ASCII).
//!
//! A client can use each address that the service displays as a recipient. Therefore the parser
//! also accepts forms that RFC 5322 does not allow but that senders use, if the meaning is clear:
//! `a..b@example.org`, names with brackets, local parts of more than 64 bytes.

use std::fmt::Write as _;
use std::net::{Ipv4Addr, Ipv6Addr};

/// The maximum length of an address in SMTP, in bytes. The length does not include the angle
/// brackets (RFC 5321, section 4.5.3.1.3).
const LONGEST_ADDRESS: usize = 254;
/// The maximum length of a domain and of its labels, in bytes (RFC 1035, section 2.3.4).
const LONGEST_DOMAIN: usize = 253;
const LONGEST_LABEL: usize = 63;

/// An address with its display name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mailbox {
    /// The display name without quotes, or empty.
    pub name: String,
    /// The address, as [`parse_address`] returns it.
    pub address: String,
}

/// The text is not a list of addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InvalidList;

/// Iterates over the addresses of a list: `a@b.example, Name <c@d.example>, "Last, First"
/// <e@f.example> (comment), Group: g@h.example;`. The members of a group count as addresses of the
/// list. Returns an error at the first invalid entry, and then ends.
///
/// Memory and time of one step depend only on the length of the entry, so a caller can stop at its
/// limit of addresses.
#[derive(Clone, Debug)]
pub struct Mailboxes<'a> {
    rest: &'a str,
    is_in_group: bool,
    /// Whether an entry must follow, because a comma precedes `rest`.
    is_entry_due: bool,
}

impl<'a> Mailboxes<'a> {
    /// Starts at the beginning of a list.
    #[must_use]
    pub fn new(list: &'a str) -> Self {
        Self {
            rest: list,
            is_in_group: false,
            is_entry_due: false,
        }
    }

    /// Parses the next address, and skips entries without an address. Returns `None` at the end of
    /// the list.
    fn parse_next(&mut self) -> Result<Option<Mailbox>, InvalidList> {
        loop {
            let entry = Entry::parse(self.rest)?;
            self.rest = &self.rest[entry.length..];
            match entry.end {
                Some(':') if !self.is_in_group && entry.is_group_name() => {
                    (self.is_in_group, self.is_entry_due) = (true, false);
                    continue;
                }
                Some(':') => return Err(InvalidList),
                _ => {}
            }
            let ends_group = entry.end == Some(';');
            if ends_group != self.is_in_group && (ends_group || entry.end.is_none()) {
                return Err(InvalidList);
            }
            if entry.is_empty() {
                if self.is_entry_due || entry.end == Some(',') {
                    return Err(InvalidList);
                }
                if !ends_group {
                    return Ok(None);
                }
                self.end_group()?;
                continue;
            }
            let mailbox = entry.mailbox().ok_or(InvalidList)?;
            if ends_group {
                self.end_group()?;
            } else {
                self.is_entry_due = entry.end.is_some();
            }
            return Ok(Some(mailbox));
        }
    }

    /// Continues after the semicolon at the end of a group. Another entry must be separated by a
    /// comma.
    fn end_group(&mut self) -> Result<(), InvalidList> {
        (self.is_in_group, self.is_entry_due) = (false, false);
        let after = Entry::parse(self.rest)?;
        if !after.is_empty() {
            return Err(InvalidList);
        }
        self.rest = &self.rest[after.length..];
        match after.end {
            None => Ok(()),
            Some(',') => {
                self.is_entry_due = true;
                Ok(())
            }
            Some(_) => Err(InvalidList),
        }
    }
}

impl Iterator for Mailboxes<'_> {
    type Item = Result<Mailbox, InvalidList>;

    fn next(&mut self) -> Option<Self::Item> {
        let next = self.parse_next();
        if next.is_err() {
            *self = Self::new("");
        }
        next.transpose()
    }
}

/// One entry of a list, up to the character that ends the entry.
#[derive(Default)]
struct Entry<'a> {
    /// The text outside brackets, with its quotes and without comments.
    words: String,
    /// The same text as a display name: without quotes and with comments.
    name: String,
    /// The content of the angle brackets.
    bracketed: Option<&'a str>,
    /// The first comment.
    comment: Option<String>,
    /// `true` if a word follows the brackets, or the text contains `@` and brackets.
    is_ambiguous: bool,
    /// `,`, `;` or `:`. `None` at the end of the list.
    end: Option<char>,
    /// The length of the entry in bytes, including `end`.
    length: usize,
}

impl<'a> Entry<'a> {
    fn parse(text: &'a str) -> Result<Self, InvalidList> {
        let mut entry = Self::default();
        let mut at = 0;
        while let Some(character) = text[at..].chars().next() {
            let rest = &text[at..];
            let mut length = character.len_utf8();
            match character {
                ',' | ';' | ':' => {
                    entry.end = Some(character);
                    entry.length = at + length;
                    return Ok(entry);
                }
                '"' => {
                    let (content, quoted) = quoted(rest).ok_or(InvalidList)?;
                    entry.words.push_str(&rest[..quoted]);
                    entry.name.push_str(&content);
                    entry.is_ambiguous |= entry.bracketed.is_some();
                    length = quoted;
                }
                '(' => {
                    let (content, comment) = comment(rest).ok_or(InvalidList)?;
                    if entry.bracketed.is_none() {
                        entry.name.push_str(&rest[..comment]);
                    }
                    entry.comment.get_or_insert(content);
                    length = comment;
                }
                '<' if entry.bracketed.is_none() => {
                    let (content, bracketed) = bracketed(rest).ok_or(InvalidList)?;
                    entry.bracketed = Some(content);
                    length = bracketed;
                }
                '[' if entry.words.ends_with('@') => {
                    length = rest.find(']').ok_or(InvalidList)? + 1;
                    entry.words.push_str(&rest[..length]);
                }
                '<' | '>' | ')' | '\\' => return Err(InvalidList),
                _ if character.is_control() => return Err(InvalidList),
                _ => {
                    entry.words.push(character);
                    if entry.bracketed.is_none() {
                        entry.name.push(character);
                    } else {
                        entry.is_ambiguous |= !character.is_whitespace();
                    }
                }
            }
            at += length;
        }
        entry.length = at;
        Ok(entry)
    }

    fn is_empty(&self) -> bool {
        self.words.trim().is_empty() && self.bracketed.is_none()
    }

    fn is_group_name(&self) -> bool {
        !self.is_empty() && self.bracketed.is_none() && !self.words.contains('@')
    }

    fn mailbox(&self) -> Option<Mailbox> {
        let Some(bracketed) = self.bracketed else {
            return Some(Mailbox {
                name: self
                    .comment
                    .as_deref()
                    .unwrap_or_default()
                    .trim()
                    .to_owned(),
                address: parse_address(self.words.trim())?,
            });
        };
        // An `@` in the name outside quotes can belong to another address if a comma is missing. So
        // the entry is rejected.
        let mut is_quoted = false;
        let mut escaped = false;
        let names_address = self.words.chars().any(|character| {
            is_quoted ^= character == '"' && !escaped;
            escaped = character == '\\' && !escaped;
            character == '@' && !is_quoted
        });
        if self.is_ambiguous || names_address {
            return None;
        }
        let name = match &self.comment {
            Some(comment) if self.words.trim().is_empty() => comment,
            _ => &self.name,
        };
        Some(Mailbox {
            name: name.trim().to_owned(),
            address: parse_address(bracketed.trim())?,
        })
    }
}

/// Returns the content of the quoted string at the beginning of `text`, and the length of the
/// quoted string in bytes.
fn quoted(text: &str) -> Option<(String, usize)> {
    let mut content = String::new();
    let mut escaped = false;
    for (at, character) in text.char_indices().skip(1) {
        match character {
            _ if character.is_control() => return None,
            '"' if !escaped => return Some((content, at + 1)),
            '\\' if !escaped => escaped = true,
            _ => {
                content.push(character);
                escaped = false;
            }
        }
    }
    None
}

/// Returns the content of the comment at the beginning of `text`, and the length of the comment in
/// bytes.
fn comment(text: &str) -> Option<(String, usize)> {
    let mut content = String::new();
    let (mut depth, mut escaped) = (0_usize, false);
    for (at, character) in text.char_indices() {
        match character {
            _ if character.is_control() => return None,
            '\\' if !escaped => {
                escaped = true;
                continue;
            }
            '(' if !escaped => {
                depth += 1;
                if depth == 1 {
                    continue;
                }
            }
            ')' if !escaped => {
                depth -= 1;
                if depth == 0 {
                    return Some((content, at + 1));
                }
            }
            _ => {}
        }
        escaped = false;
        content.push(character);
    }
    None
}

/// Returns the content of the angle brackets at the beginning of `text`, and the length in bytes
/// including the brackets.
fn bracketed(text: &str) -> Option<(&str, usize)> {
    let (mut is_quoted, mut escaped) = (false, false);
    for (at, character) in text.char_indices().skip(1) {
        match character {
            _ if character.is_control() => return None,
            '>' if !is_quoted => return Some((&text[1..at], at + 1)),
            '"' if !escaped => is_quoted = !is_quoted,
            _ => {}
        }
        escaped = character == '\\' && !escaped;
    }
    None
}

/// Parses an address without a name. The local part of the result has quotes only if they are
/// necessary. The domain is unchanged except that a final dot is removed. Returns `None` if the
/// text is not an address.
#[must_use]
pub fn parse_address(text: &str) -> Option<String> {
    let (local_part, domain) = text.rsplit_once('@')?;
    let content = local_part_content(local_part)?;
    let domain = domain.strip_suffix('.').unwrap_or(domain);
    ascii_domain(domain)?;
    let is_dot_atom = content
        .split('.')
        .all(|atom| !atom.is_empty() && atom.chars().all(is_atom_text));
    let mut address = String::new();
    if is_dot_atom {
        address.push_str(&content);
    } else {
        address.push('"');
        for character in content.chars() {
            if matches!(character, '"' | '\\') {
                address.push('\\');
            }
            address.push(character);
        }
        address.push('"');
    }
    write!(address, "@{domain}").ok()?;
    (address.len() <= LONGEST_ADDRESS).then_some(address)
}

/// Returns a domain or an address literal (RFC 5321, section 4.1.3) in ASCII and lower case.
/// Returns `None` if the syntax is invalid.
#[must_use]
pub fn ascii_domain(domain: &str) -> Option<String> {
    if let Some(literal) = domain.strip_prefix('[') {
        let literal = literal.strip_suffix(']')?;
        let ipv6 = literal
            .get(..5)
            .filter(|tag| tag.eq_ignore_ascii_case("IPv6:"));
        let ipv6 = ipv6.map_or(literal, |_| &literal[5..]);
        return match ipv6.parse::<Ipv6Addr>() {
            Ok(address) => Some(format!("[IPv6:{address}]")),
            Err(_) => Some(format!("[{}]", literal.parse::<Ipv4Addr>().ok()?)),
        };
    }
    let domain = idna::domain_to_ascii(domain).ok()?;
    let is_label = |label: &str| {
        (1..=LONGEST_LABEL).contains(&label.len())
            && label
                .bytes()
                .all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte))
    };
    (domain.len() <= LONGEST_DOMAIN && domain.split('.').all(is_label)).then_some(domain)
}

/// Returns a local part without its quotes. A local part consists of words that are separated by
/// dots. Each word can be in quotes.
fn local_part_content(text: &str) -> Option<String> {
    let mut content = String::new();
    let mut rest = text;
    let mut is_after_quotes = false;
    while let Some(character) = rest.chars().next() {
        let mut length = character.len_utf8();
        if character == '"' {
            if is_after_quotes || !(content.is_empty() || content.ends_with('.')) {
                return None;
            }
            let (inner, quoted) = quoted(rest)?;
            content.push_str(&inner);
            length = quoted;
        } else if character == '.' || (is_atom_text(character) && !is_after_quotes) {
            content.push(character);
        } else {
            return None;
        }
        is_after_quotes = character == '"';
        rest = &rest[length..];
    }
    (!content.is_empty()).then_some(content)
}

/// Returns `true` for the characters of an atom (RFC 5322, section 3.2.3; RFC 6532, section 3.2).
fn is_atom_text(character: char) -> bool {
    if character.is_ascii() {
        character.is_ascii_alphanumeric() || "!#$%&'*+-/=?^_`{|}~".contains(character)
    } else {
        !character.is_control() && !character.is_whitespace()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(list: &str) -> Option<Vec<(String, String)>> {
        Mailboxes::new(list)
            .map(|one| one.ok().map(|one| (one.name, one.address)))
            .collect()
    }

    #[test]
    fn all_forms_of_lists_are_parsed() {
        for (list, expected) in [
            ("", &[][..]),
            ("a@b.example", &[("", "a@b.example")]),
            (
                "\"System Operator\"@firm.example",
                &[("", "\"System Operator\"@firm.example")],
            ),
            ("\"a..b\"@firm.example", &[("", "\"a..b\"@firm.example")]),
            ("a..b@firm.example", &[("", "\"a..b\"@firm.example")]),
            ("\"ab\"@firm.example", &[("", "ab@firm.example")]),
            (
                "a.\"b c\".d@firm.example",
                &[("", "\"a.b c.d\"@firm.example")],
            ),
            (
                "\"a\\\"\\ \\\\@<>,\"@b.example",
                &[("", "\"a\\\" \\\\@<>,\"@b.example")],
            ),
            (
                "Müller (Büro) <m@firm.example>",
                &[("Müller (Büro)", "m@firm.example")],
            ),
            ("m@firm.example (Müller)", &[("Müller", "m@firm.example")]),
            ("(Müller) m@firm.example", &[("Müller", "m@firm.example")]),
            (
                "(a (b) \\) c)<m@firm.example>(d)",
                &[("a (b) ) c", "m@firm.example")],
            ),
            (
                "\"Last, First \\\"X\\\"\" <a@b.example>,c@d.example",
                &[("Last, First \"X\"", "a@b.example"), ("", "c@d.example")],
            ),
            (
                "Friends: a@b.example, \"C\" <c@d.example>;, e@f.example",
                &[
                    ("", "a@b.example"),
                    ("C", "c@d.example"),
                    ("", "e@f.example"),
                ],
            ),
            ("undisclosed-recipients:;", &[]),
            ("A:;,B: ;", &[]),
            (
                "[List] J. O'Hara <a@b.example>",
                &[("[List] J. O'Hara", "a@b.example")],
            ),
            (
                "\"x@y.example\" <a@b.example>",
                &[("x@y.example", "a@b.example")],
            ),
            ("< a@b.example >", &[("", "a@b.example")]),
            ("jörg@bücher.example", &[("", "jörg@bücher.example")]),
            ("a@b.example.", &[("", "a@b.example")]),
            ("a@[192.0.2.1]", &[("", "a@[192.0.2.1]")]),
            ("A <a@[IPv6:2001:db8::1]>", &[("A", "a@[IPv6:2001:db8::1]")]),
            (
                "a@[IPv6:2001:db8::1],b@c",
                &[("", "a@[IPv6:2001:db8::1]"), ("", "b@c")],
            ),
        ] {
            let expected = expected.iter().map(|(n, a)| ((*n).into(), (*a).into()));
            assert_eq!(read(list), Some(expected.collect()), "{list}");
        }
        let long = format!("reply+{}@b.example", "x".repeat(100));
        assert_eq!(read(&long), Some(vec![(String::new(), long.clone())]));
    }

    #[test]
    fn invalid_lists_are_rejected() {
        for list in [
            "a",
            "a@",
            "@b.example",
            "a b@c.example",
            "a@b.example c@d.example",
            "a@b.example <c@d.example>",
            "a@b.example,",
            ",a@b.example",
            "a@b.example, , c@d.example",
            "a@b.example;c@d.example",
            "a@b.example;",
            "A: b@c.example",
            "A: b@c.example,;",
            "A: B: c@d.example;;",
            "A: b@c.example; d@e.example",
            ": a@b.example;",
            "Name <a@b.example",
            "Name <a@b.example> x",
            "Name <a@b.example> <c@d.example>",
            "Name <<a@b.example>>",
            "a@b.example\r\nBcc: x@y.example",
            "\"a\r\nb\"@c.example",
            "a (\n) <a@b.example>",
            "a\0@b.example",
            "\"\"@b.example",
            "\"a\"b@c.example",
            "a\"b\"@c.example",
            "\"a@b.example",
            "(a@b.example",
            "a)@b.example",
            "a\\@b.example",
            "<>",
            "a@b..example",
            "a@-\u{7f}.example",
            "a@b c.example",
            "a@[b]",
            "a@[192.0.2.1",
            "a\u{a0}b@c.example",
            &format!("{}@b.example", "x".repeat(250)),
            &format!("a@{}", "\u{fc}".repeat(100_000)),
        ] {
            assert_eq!(read(list), None, "{list:?}");
        }
    }

    #[test]
    fn a_step_does_not_read_the_following_entries() {
        let mut list = Mailboxes::new("a@b.example, \"");
        assert!(list.next().unwrap().is_ok());
        assert_eq!(list.next(), Some(Err(InvalidList)));
        assert_eq!(list.next(), None);
    }
}
