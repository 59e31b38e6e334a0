//! Reads the header fields that decide who receives a reply, and the time zone of the sender.

use std::cell::LazyCell;

use percent_encoding::percent_decode_str;

use super::address::Mailboxes;
use super::fields::{select, to_text, unfold};
use super::{declared_charset, limit_header};
use crate::{Address, bounds, date};

/// Maximum number of addresses of each field.
const MAX_ADDRESSES: usize = 1000;

const SENDER: usize = 0;
const FOLLOWUP_TO: usize = 1;
const LIST_POST: usize = 2;
const DATE: usize = 3;
const CONTENT_TYPE: usize = 4;
/// The first field with an address for which a mail server received the message.
const RECEIVED_FOR: usize = 5;

const FIELDS: [&[u8]; 9] = [
    b"sender",
    b"mail-followup-to",
    b"list-post",
    b"date",
    b"content-type",
    b"x-original-to",
    b"envelope-to",
    b"x-delivered-to",
    b"delivered-to",
];

/// The header fields that only replies need.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReplyFields {
    /// The addresses in the Sender field (RFC 5322, section 3.6.2).
    pub sender: Vec<Address>,
    /// The addresses in the Mail-Followup-To field, with which the author says who receives a
    /// reply to all.
    pub followup_to: Vec<Address>,
    /// The address of the mailing list (RFC 2369, section 3.4).
    pub list_post: Option<String>,
    /// The addresses for which mail servers received the message: X-Original-To, Envelope-To,
    /// X-Delivered-To and Delivered-To.
    pub received_for: Vec<String>,
    /// The time zone in the Date field, in seconds east of UTC.
    pub offset: i32,
}

impl ReplyFields {
    /// Decodes the header of a message.
    #[must_use]
    pub fn of(header: &[u8]) -> Self {
        let (header, _) = limit_header(header);
        let selected = select(header, &FIELDS);
        let values = |index| {
            let values = selected.iter().filter(move |(found, _)| *found == index);
            values.map(|(_, value)| *value)
        };
        let charset = LazyCell::new(|| declared_charset(values(CONTENT_TYPE).next_back()));
        let text = |value: &[u8]| unfold(&to_text(value, || *charset)).into_owned();
        let addresses = |index| {
            let all = values(index).flat_map(|value| {
                let value = text(value);
                let addresses = Mailboxes::of(&value).take(MAX_ADDRESSES);
                addresses.collect::<Vec<_>>()
            });
            all.take(MAX_ADDRESSES).collect::<Vec<_>>()
        };
        let received_for = (RECEIVED_FOR..FIELDS.len()).flat_map(addresses);
        let date = values(DATE).next_back().map(text);
        let offset = date.and_then(|date| date::parse_with_offset(&date));
        Self {
            sender: addresses(SENDER),
            followup_to: addresses(FOLLOWUP_TO),
            list_post: values(LIST_POST).find_map(|value| list_address(&text(value))),
            received_for: received_for.map(|one| one.address).collect(),
            offset: offset.map_or(0, |(_, offset)| offset),
        }
    }
}

/// Returns the address of the first `mailto:` URL. The value `NO` means that the list has no
/// address for new messages.
fn list_address(field: &str) -> Option<String> {
    field.split('<').skip(1).find_map(|piece| {
        let (url, _) = piece.split_once('>')?;
        let url: String = url.chars().filter(|c| !c.is_whitespace()).collect();
        let scheme = url.get(..7)?;
        if !scheme.eq_ignore_ascii_case("mailto:") || url.len() > bounds::LIST_URL {
            return None;
        }
        let address = url[7..].split(['?', ',']).next().unwrap_or_default();
        let address = percent_decode_str(address).decode_utf8().ok()?;
        address.contains('@').then(|| address.into_owned())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_fields_of_a_reply_are_read() {
        let fields = ReplyFields::of(
            b"Sender: List <bounce@list.example>\r\nMail-Followup-To: a@x.example,\r\n B <b@x.example>\r\n\
              List-Post: (write here) <https://list.example>,\r\n <MAILTO:my%2Blist@list.example?subject=x>\r\n\
              Delivered-To: c@x.example\r\nX-Original-To: d@x.example\r\n\
              Date: Fri, 20 Nov 2026 09:00:00 -0330\r\n\r\nSender: no@x.example\r\n",
        );
        let addresses = |all: &[Address]| -> Vec<String> {
            all.iter().map(|one| one.address.clone()).collect()
        };
        assert_eq!(addresses(&fields.sender), ["bounce@list.example"]);
        assert_eq!(
            addresses(&fields.followup_to),
            ["a@x.example", "b@x.example"]
        );
        assert_eq!(fields.list_post.as_deref(), Some("my+list@list.example"));
        assert_eq!(fields.received_for, ["d@x.example", "c@x.example"]);
        assert_eq!(fields.offset, -12_600);
    }

    #[test]
    fn missing_fields_and_lists_without_an_address_are_none() {
        assert_eq!(
            ReplyFields::of(b"From: a@x.example\r\n"),
            ReplyFields::default()
        );
        for field in [
            "NO",
            "<NO>",
            "NO (closed)",
            "list@x.example",
            "<mailto:nobody>",
            "<mailto:",
        ] {
            assert_eq!(list_address(field), None, "{field}");
        }
    }
}
