//! Lists of addresses (RFC 5322, section 3.4), with their groups.

use serde_json::{Value, json};

use super::words;

/// The maximum number of addresses of a field.
const MAX_ADDRESSES: usize = 1_000;
/// The maximum depth of comments.
const MAX_COMMENTS: usize = 16;

/// An address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Mailbox {
    pub(crate) name: Option<String>,
    pub(crate) email: String,
}

impl Mailbox {
    pub(crate) fn to_json(&self) -> Value {
        json!({ "name": self.name, "email": self.email })
    }
}

/// Addresses that are in one group, or in no group.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Group {
    /// The name of the group. `None` for addresses in no group.
    pub(crate) name: Option<String>,
    pub(crate) addresses: Vec<Mailbox>,
}

/// The part of an address that was read.
#[derive(Default)]
struct Entry {
    /// The words before the angle brackets.
    phrase: String,
    /// The text in angle brackets.
    angle: Option<String>,
    comment: Option<String>,
}

impl Entry {
    /// Adds a word to the phrase.
    fn push(&mut self, word: &str) {
        self.phrase.push_str(word);
    }

    fn name(&self) -> Option<String> {
        let name = words::decode(self.phrase.trim());
        let name = name.split_whitespace().collect::<Vec<_>>().join(" ");
        (!name.is_empty()).then_some(name)
    }

    /// Returns the address. Returns `None` if there is none.
    fn finish(&mut self) -> Option<Mailbox> {
        let entry = std::mem::take(self);
        let comment = entry.comment.as_deref().map(words::decode);
        let without_spaces = |text: &str| text.split_whitespace().collect::<String>();
        let (name, email) = match &entry.angle {
            Some(angle) => (entry.name().or(comment), without_spaces(angle)),
            None => (comment, without_spaces(&entry.phrase)),
        };
        let is_empty = email.is_empty() && name.is_none();
        (!is_empty).then_some(Mailbox { name, email })
    }
}

/// Parses a list of addresses. Malformed addresses are kept as they are.
pub(crate) fn parse(raw: &[u8]) -> Vec<Group> {
    let text = words::unfold(raw);
    let mut groups: Vec<Group> = vec![Group::default()];
    let mut entry = Entry::default();
    let mut count = 0;
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        if count > MAX_ADDRESSES {
            break;
        }
        match c {
            '"' => entry.push(&quoted(&mut chars)),
            '(' => {
                let comment = comment(&mut chars);
                entry.comment.get_or_insert(comment);
            }
            '<' => {
                let mut angle = String::new();
                for c in chars.by_ref() {
                    if c == '>' {
                        break;
                    }
                    angle.push(c);
                }
                // An obsolete route precedes the address (RFC 5322, section 4.4).
                let address = match angle.rsplit_once(':') {
                    Some((route, address)) if route.trim_start().starts_with('@') => address,
                    _ => angle.as_str(),
                };
                entry.angle = Some(address.to_owned());
            }
            ',' => {
                count += 1;
                add(&mut groups, entry.finish());
            }
            ':' if entry.angle.is_none() && last(&groups).name.is_none() => {
                let name = entry.name().unwrap_or_default();
                entry = Entry::default();
                groups.push(Group {
                    name: Some(name),
                    addresses: Vec::new(),
                });
            }
            ';' => {
                add(&mut groups, entry.finish());
                groups.push(Group::default());
            }
            c => entry.push(c.encode_utf8(&mut [0; 4])),
        }
    }
    add(&mut groups, entry.finish());
    groups.retain(|group| group.name.is_some() || !group.addresses.is_empty());
    groups
}

fn last(groups: &[Group]) -> &Group {
    const NONE: &Group = &Group {
        name: None,
        addresses: Vec::new(),
    };
    groups.last().unwrap_or(NONE)
}

fn add(groups: &mut [Group], address: Option<Mailbox>) {
    if let Some(group) = groups.last_mut() {
        group.addresses.extend(address);
    }
}

/// Reads a quoted string after its quotation mark.
fn quoted(chars: &mut impl Iterator<Item = char>) -> String {
    let mut text = String::new();
    while let Some(c) = chars.next() {
        match c {
            '"' => break,
            '\\' => text.extend(chars.next()),
            c => text.push(c),
        }
    }
    text
}

/// Reads a comment after its parenthesis.
fn comment(chars: &mut impl Iterator<Item = char>) -> String {
    let (mut text, mut depth) = (String::new(), 1);
    while let Some(c) = chars.next() {
        match c {
            '(' if depth < MAX_COMMENTS => depth += 1,
            ')' if depth == 1 => break,
            ')' => depth -= 1,
            '\\' => text.extend(chars.next()),
            c => text.push(c),
        }
    }
    text.trim().to_owned()
}

/// Returns all addresses without their groups.
pub(crate) fn flat(groups: Vec<Group>) -> Vec<Mailbox> {
    groups.into_iter().flat_map(|one| one.addresses).collect()
}

/// Formats an address for a header field. Returns `None` if the address cannot be in a field.
pub(crate) fn write(mailbox: &Mailbox) -> Option<String> {
    let is_valid = |c: char| !c.is_control() && !matches!(c, '<' | '>' | '(' | ')' | ',');
    let email = mailbox.email.trim();
    if email.is_empty() || !email.chars().all(is_valid) || email.contains(char::is_whitespace) {
        return None;
    }
    let name = mailbox.name.as_deref().unwrap_or_default().trim();
    if name.is_empty() {
        return Some(email.into());
    }
    if name.chars().any(char::is_control) {
        return None;
    }
    Some(format!("{} <{email}>", write_name(name)))
}

/// Formats the name of an address or of a group.
pub(crate) fn write_name(name: &str) -> String {
    let is_atom = |b: u8| b.is_ascii_alphanumeric() || b" !#$%&'*+-/=?^_`{|}~".contains(&b);
    let encoded = words::encode(name);
    if encoded != name || name.bytes().all(is_atom) {
        return encoded;
    }
    let quoted = name.replace('\\', "\\\\").replace('"', "\\\"");
    format!("\"{quoted}\"")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn mailbox(name: Option<&str>, email: &str) -> Mailbox {
        Mailbox {
            name: name.map(Into::into),
            email: email.into(),
        }
    }

    #[test]
    fn addresses_have_names_and_groups() {
        let text = b" \"James, Smythe\" <james@example.com>, Friends:\r\n jane@example.com,\r\n \
            =?UTF-8?Q?John_Sm=C3=AEth?= <john@example.com>;, bo@x.example (Bo B)";
        let groups = parse(text);
        let expected = [
            Group {
                name: None,
                addresses: vec![mailbox(Some("James, Smythe"), "james@example.com")],
            },
            Group {
                name: Some("Friends".into()),
                addresses: vec![
                    mailbox(None, "jane@example.com"),
                    mailbox(Some("John Sm\u{ee}th"), "john@example.com"),
                ],
            },
            Group {
                name: None,
                addresses: vec![mailbox(Some("Bo B"), "bo@x.example")],
            },
        ];
        assert_eq!(groups, expected);
        assert_eq!(flat(groups).len(), 4);
        assert!(parse(b"undisclosed-recipients:;")[0].addresses.is_empty());
        assert_eq!(flat(parse(b"<@a,@b:c@d>")), [mailbox(None, "c@d")]);
        assert_eq!(flat(parse(b"a \\ b")), [mailbox(None, "a\\b")]);
        assert!(parse(b" ").is_empty());
    }

    #[test]
    fn an_address_is_written_so_that_it_is_read_again() {
        for (name, email) in [
            (None, "a@b.example"),
            (Some("Ada Lovelace"), "a@b.example"),
            (Some("Love\"lace, \\Ada"), "a@b.example"),
            (Some("Ad\u{e4}"), "a@b.example"),
        ] {
            let one = mailbox(name, email);
            let written = write(&one).unwrap();
            assert_eq!(flat(parse(written.as_bytes())), [one], "{written}");
        }
        for email in ["", "a b", "a\r\nb@c", "a<b", "a,b@c"] {
            assert_eq!(write(&mailbox(None, email)), None);
        }
        assert_eq!(write(&mailbox(Some("a\r\nb"), "a@b.example")), None);
    }

    proptest! {
        #[test]
        fn any_field_is_parsed(raw in any::<Vec<u8>>()) {
            parse(&raw);
        }
    }
}
