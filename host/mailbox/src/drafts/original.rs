//! The message that a draft answers or forwards. A header field of the draft contains its number,
//! so the message gets its flag when the draft is sent. A mail client can have removed the field or
//! written the draft. Then the field In-Reply-To names the message.

use latchmail_core::message_number::MessageNumber;
use latchmail_mime::{self as mime, Fields, Header};

use crate::bounds;
use crate::outbox::{Original, OriginalMessage, Relation};

/// The name of the header field with the relation and the number of the original.
pub(super) const FIELD: &str = "X-Latchmail-Original";

/// Returns the original in the header of a draft.
pub(super) fn of_header(header: &[u8]) -> Option<OriginalMessage> {
    let fields = Fields::of(header, Some(&[FIELD.to_owned()])).fields;
    let (relation, number) = fields.first()?.value.trim().split_once(' ')?;
    Some(OriginalMessage {
        number: MessageNumber(number.parse().ok()?),
        relation: Relation::named(relation)?,
    })
}

/// Returns the original of a draft.
pub(super) fn of_message(message: &[u8]) -> Option<Original> {
    let (header, _) = mime::split(message);
    let known = of_header(header).map(Original::Known);
    known.or_else(|| {
        let in_reply_to = Header::of(header, bounds::FIELD).in_reply_to;
        in_reply_to.map(Original::ReplyTo)
    })
}

/// Returns the value of the header field.
pub(super) fn value(original: OriginalMessage) -> String {
    format!("{} {}", original.relation.name(), original.number.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header_field_contains_the_original() {
        for original in [Relation::Reply, Relation::Forward].map(|relation| OriginalMessage {
            number: MessageNumber(7),
            relation,
        }) {
            let header = format!("{FIELD}: {}\r\n\r\n", value(original));
            assert_eq!(of_header(header.as_bytes()), Some(original));
        }
        for value in ["", "reply", "reply x", "reply -1", "copy 7", "reply 7 8"] {
            let header = format!("{FIELD}: {value}\r\n\r\n");
            assert_eq!(of_header(header.as_bytes()), None, "{value}");
        }
    }

    #[test]
    fn without_the_field_the_draft_answers_the_message_in_in_reply_to() {
        let reply = "In-Reply-To: <1@x.example>\r\nReferences: <0@x.example>\r\n";
        let original = of_message(format!("{reply}\r\nText").as_bytes());
        assert_eq!(original, Some(Original::ReplyTo("<1@x.example>".into())));
        let known = format!("{reply}{FIELD}: forward 7\r\n\r\nText");
        let known = of_message(known.as_bytes());
        assert!(matches!(known, Some(Original::Known(one)) if one.number.0 == 7));
        assert_eq!(of_message(b"References: <0@x.example>\r\n\r\nText"), None);
    }
}
