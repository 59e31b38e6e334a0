//! Parses delivery status notifications (RFC 3464), also with addresses that are not ASCII (RFC
//! 6533). A notification is a message that a mail server sends about the delivery of another
//! message.

use super::header::{fields, unfolded};
use super::parameters;
use super::structure::StructureParser;
use super::transfer::Decoder;
use crate::{sections, split};

/// Maximum size of the part with the states that is parsed, in bytes.
const MAX_STATUS: usize = 512 * 1024;
/// Maximum number of recipients that are parsed.
const MAX_RECIPIENTS: usize = 1000;
/// Maximum length of a value in bytes. A longer value is cut.
const MAX_VALUE: usize = 1000;

/// A delivery status notification.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DeliveryStatus {
    /// The envelope id of the reported message (RFC 3464, section 2.2.1).
    pub envelope_id: Option<String>,
    /// The states of the recipients.
    pub recipients: Vec<RecipientStatus>,
}

/// The state of one recipient (RFC 3464, section 2.3).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecipientStatus {
    /// The address to which the message was sent: Original-Recipient, or Final-Recipient if the
    /// notification has no such field.
    pub address: String,
    /// The action.
    pub action: Action,
    /// The reply of the server that caused the state, or the status code.
    pub diagnostic: String,
}

/// The action that a mail server performed (RFC 3464, section 2.3.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// The message could not be delivered.
    Failed,
    /// The message was not delivered yet.
    Delayed,
    /// The message was delivered to the mailbox.
    Delivered,
    /// Another server without delivery reports has accepted the message.
    Relayed,
    /// The message was delivered to several addresses, such as the members of a list.
    Expanded,
}

impl DeliveryStatus {
    /// Parses a notification. Returns `None` if the message is not a notification. `message` is the
    /// beginning of the message.
    #[must_use]
    pub fn parse(message: &[u8]) -> Option<Self> {
        let (header, _) = split(message);
        let content_type = fields(header, b"content-type").next()?;
        let content_type = unfolded(content_type);
        let is_report = parameters::main_value(&content_type)
            .trim()
            .eq_ignore_ascii_case("multipart/report");
        if !is_report {
            return None;
        }
        let mut parser = StructureParser::default();
        parser.push(message);
        let structure = parser.finish(true);
        let part = sections(&structure).find(|section| {
            let types = ["message/delivery-status", "message/global-delivery-status"];
            types.contains(&&*section.attachment.content_type)
        })?;
        let encoded = message.get(part.range)?;
        let encoded = encoded.get(..MAX_STATUS).unwrap_or(encoded);
        let content = Decoder::new(part.encoding).decode(encoded, true);
        let mut groups = groups(&content);
        let envelope_id = value(groups.next()?, b"original-envelope-id");
        let recipients = groups.filter_map(recipient).take(MAX_RECIPIENTS);
        Some(Self {
            envelope_id: envelope_id.filter(|id| !id.is_empty()),
            recipients: recipients.collect(),
        })
    }
}

/// Returns the groups of fields, which are separated by blank lines.
fn groups(content: &[u8]) -> impl Iterator<Item = &[u8]> {
    let mut rest = content;
    std::iter::from_fn(move || {
        loop {
            let first = rest.iter().position(|byte| *byte == b'\n');
            let line = first.map_or(rest.len(), |end| end + 1);
            if rest.is_empty() {
                return None;
            }
            if !rest[..line].trim_ascii().is_empty() {
                break;
            }
            rest = &rest[line..];
        }
        let mut end = 0;
        for line in rest.split_inclusive(|byte| *byte == b'\n') {
            if line.trim_ascii().is_empty() {
                break;
            }
            end += line.len();
        }
        let (group, others) = rest.split_at(end);
        rest = others;
        Some(group)
    })
}

/// Returns the value of a field on one line.
fn value(group: &[u8], name: &[u8]) -> Option<String> {
    let field = fields(group, name).next()?;
    let field = field.get(..MAX_VALUE).unwrap_or(field);
    let text = unfolded(field);
    let words: Vec<&str> = text.split_whitespace().collect();
    Some(words.join(" "))
}

fn recipient(group: &[u8]) -> Option<RecipientStatus> {
    let original = value(group, b"original-recipient").and_then(|value| address(&value));
    let address =
        original.or_else(|| value(group, b"final-recipient").and_then(|value| address(&value)))?;
    let action = value(group, b"action")?;
    let action = action.split([' ', '(', ';']).next().unwrap_or_default();
    let action = match action.to_ascii_lowercase().as_str() {
        "failed" => Action::Failed,
        "delayed" => Action::Delayed,
        "delivered" => Action::Delivered,
        "relayed" => Action::Relayed,
        "expanded" => Action::Expanded,
        _ => return None,
    };
    let diagnostic = value(group, b"diagnostic-code").map(|text| {
        let text = text.split_once(';').map_or(text.as_str(), |(_, text)| text);
        text.trim().to_owned()
    });
    let status = || value(group, b"status").unwrap_or_default();
    Some(RecipientStatus {
        address,
        action,
        diagnostic: diagnostic
            .filter(|text| !text.is_empty())
            .unwrap_or_else(status),
    })
}

/// Returns the address in a value such as `rfc822; ada@example.org`. Some servers add angle
/// brackets. Returns `None` if the address has another type or is empty.
fn address(value: &str) -> Option<String> {
    let (kind, address) = value.split_once(';')?;
    let address = address.trim();
    let bare = address
        .strip_prefix('<')
        .and_then(|rest| rest.strip_suffix('>'));
    let address = bare.unwrap_or(address).trim();
    let decoded = match kind.trim().to_ascii_lowercase().as_str() {
        "rfc822" => address.to_owned(),
        "utf-8" => unescaped(address),
        _ => return None,
    };
    (!decoded.is_empty()).then_some(decoded)
}

/// Replaces the escape sequences `\x{HEX}` of an address (RFC 6533, section 3).
fn unescaped(address: &str) -> String {
    let mut decoded = String::with_capacity(address.len());
    let mut rest = address;
    while let Some((before, after)) = rest.split_once("\\x{") {
        decoded.push_str(before);
        let character = after.split_once('}').and_then(|(digits, others)| {
            let number = u32::from_str_radix(digits, 16).ok()?;
            Some((char::from_u32(number)?, others))
        });
        if let Some((character, others)) = character {
            decoded.push(character);
            rest = others;
        } else {
            decoded.push_str("\\x{");
            rest = after;
        }
    }
    decoded.push_str(rest);
    decoded
}

#[cfg(test)]
mod tests;
