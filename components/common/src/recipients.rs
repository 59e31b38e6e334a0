//! Parses the recipients in requests (RFC 5322, section 3.4). A recipient is an address, with or
//! without a name.

use latchmail_sdk::capability::Address;
use latchmail_sdk::{Failure, codes};
use latchmail_shape::addresses::Mailboxes;
use serde::Deserialize;
use utoipa::ToSchema;

use crate::strings::Strings;

/// The maximum number of addresses in one string of a draft. The host has the same limit for all
/// addresses of a field.
const MAX_UNFINISHED: usize = 500;

/// A list of recipients: a string or an array of strings. An empty string contains no recipients.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(transparent)]
#[schema(value_type = OneOrMany)]
pub struct Recipients(Strings);

/// Addresses separated by commas, each with or without a name (`Name <address>`), or an array of
/// such strings.
#[derive(ToSchema)]
#[expect(dead_code, reason = "used only for the API description")]
#[schema(as = Recipients)]
#[serde(untagged)]
pub(crate) enum OneOrMany {
    /// Addresses separated by commas.
    #[schema(title = "List")]
    One(String),
    /// An array of strings, each with one or more addresses.
    #[schema(title = "Array")]
    Many(Vec<String>),
}

impl Recipients {
    /// Returns all recipients in order. If there are more than `limit` recipients, the result can
    /// be incomplete, but it has more than `limit` entries. So the caller can detect that the list
    /// is too long.
    ///
    /// # Errors
    /// Returns 400 if an entry is not an address. The error message contains `field`.
    pub(crate) fn addresses(&self, field: &str, limit: usize) -> Result<Vec<Address>, Failure> {
        let lists = match &self.0 {
            Strings::One(list) if list.trim().is_empty() => &[],
            Strings::One(list) => std::slice::from_ref(list),
            Strings::Many(lists) => lists.as_slice(),
        };
        let mut all = Vec::new();
        for list in lists {
            let read = read(list, limit).filter(|list| !list.is_empty());
            all.extend(read.ok_or_else(|| {
                Failure::bad_request(
                    codes::INVALID_RECIPIENT,
                    format!("{field} must contain only mail addresses"),
                )
            })?);
            if all.len() > limit {
                break;
            }
        }
        Ok(all)
    }
}

impl Recipients {
    /// Returns all recipients in order. Text that is not an address is in the field `address`.
    pub(crate) fn unfinished(&self) -> Vec<Address> {
        let lists = match &self.0 {
            Strings::One(list) => std::slice::from_ref(list),
            Strings::Many(lists) => lists.as_slice(),
        };
        let mut all = Vec::new();
        for list in lists {
            match read(list, MAX_UNFINISHED).filter(|read| !read.is_empty()) {
                Some(read) => all.extend(read),
                None => all.extend(pieces(list).map(unfinished)),
            }
        }
        all
    }
}

fn unfinished(piece: &str) -> Address {
    let read = read(piece, 1).unwrap_or_default();
    match <[Address; 1]>::try_from(read) {
        Ok([one]) => one,
        Err(_) => Address {
            name: String::new(),
            address: piece.to_owned(),
        },
    }
}

/// Returns the texts between the commas of a list that are neither in quotes nor in angle brackets.
fn pieces(list: &str) -> impl Iterator<Item = &str> {
    let (mut is_quoted, mut is_angle) = (false, false);
    let is_separator = move |c: char| {
        match c {
            '"' => is_quoted = !is_quoted,
            '<' => is_angle = true,
            '>' => is_angle = false,
            _ => {}
        }
        c == ',' && !is_quoted && !is_angle
    };
    let pieces = list.split(is_separator).map(str::trim);
    pieces.filter(|piece| !piece.is_empty())
}

/// Parses a list of addresses. Returns at most `limit` + 1 addresses: the last one shows that the
/// list is too long. Returns `None` if the text is not a list of addresses.
pub(crate) fn read(list: &str, limit: usize) -> Option<Vec<Address>> {
    Mailboxes::new(list)
        .take(limit.saturating_add(1))
        .map(|mailbox| {
            let mailbox = mailbox.ok()?;
            Some(Address {
                name: mailbox.name,
                address: mailbox.address,
            })
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn pairs(list: &str) -> Vec<(String, String)> {
        let addresses = read(list, 100).unwrap();
        addresses.into_iter().map(|a| (a.name, a.address)).collect()
    }

    fn pair(name: &str, address: &str) -> (String, String) {
        (name.into(), address.into())
    }

    #[test]
    fn all_forms_of_address_lists_are_parsed() {
        assert_eq!(pairs("a@b.example"), [pair("", "a@b.example")]);
        assert_eq!(
            pairs(" a@b.example,Bo Müller <bo@c.example> ,  \"Last, First\" <d@e.example>"),
            [
                pair("", "a@b.example"),
                pair("Bo Müller", "bo@c.example"),
                pair("Last, First", "d@e.example")
            ]
        );
        assert_eq!(pairs("<a@b.example>"), [pair("", "a@b.example")]);
        assert_eq!(
            pairs("日本 <a@bücher.example>"),
            [pair("日本", "a@bücher.example")]
        );
        assert_eq!(pairs("jörg@b.example"), [pair("", "jörg@b.example")]);
    }

    proptest! {
        #[test]
        fn every_parsed_address_is_valid(list in any::<String>()) {
            for one in read(&list, 100).unwrap_or_default() {
                prop_assert!(one.address.contains('@'));
                prop_assert!(!one.address.chars().chain(one.name.chars()).any(char::is_control));
                prop_assert!(one.address.starts_with('"') || !one.address.contains(['<', '>', ' ', ',']));
            }
        }

        #[test]
        fn a_list_of_quoted_names_and_addresses_is_parsed(
            people in prop::collection::vec(("[a-z]{1,9}", "[^\\p{C}\"\\\\]{0,20}"), 1..5)
        ) {
            let written: Vec<String> = people
                .iter()
                .map(|(user, name)| format!("\"{name}\" <{user}@b.example>"))
                .collect();
            let read: Vec<_> = pairs(&written.join(", ")).into_iter().map(|(_, address)| address).collect();
            let expected: Vec<_> = people.iter().map(|(user, _)| format!("{user}@b.example")).collect();
            prop_assert_eq!(read, expected);
        }
    }

    #[test]
    fn invalid_lists_are_rejected() {
        for list in [
            "a",
            "a@",
            "@b.example",
            "a b@c.example",
            "a@b.example c@d.example",
            "a@b.example,",
            "a@b.example;c@d.example",
            "Name <a@b.example",
            "a@b.example\r\nBcc: x@y.example",
            "a\0@b.example",
            "a@b.example, , c@d.example",
            "<>",
            "a@b_c.example\u{7f}",
            &format!("{}@b.example", "x".repeat(300)),
        ] {
            assert!(read(list, 100).is_none(), "{list:?}");
        }
    }
}
