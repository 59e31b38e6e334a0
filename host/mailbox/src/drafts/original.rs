//! The message that a draft answers or forwards. A header field of the draft contains its number,
//! so the message gets its flag when the draft is sent.

use latchmail_core::message_number::MessageNumber;
use latchmail_imap::change::StoreMode;
use latchmail_imap::flag::Flag;
use latchmail_mime::{self as mime, Fields};

use super::Drafts;
use crate::access::Access;

/// The name of the header field with the relation and the number of the original.
pub(super) const FIELD: &str = "X-Latchmail-Original";

/// The message that a draft answers or forwards.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Original {
    /// The number of the message.
    pub message: MessageNumber,
    /// Whether the draft forwards the message. Otherwise the draft is a reply.
    pub is_forward: bool,
}

impl Original {
    /// Returns the original in the header of a draft.
    pub(super) fn of_header(header: &[u8]) -> Option<Self> {
        let fields = Fields::of(header, Some(&[FIELD.to_owned()])).fields;
        let (relation, number) = fields.first()?.value.trim().split_once(' ')?;
        let is_forward = match relation {
            "reply" => false,
            "forward" => true,
            _ => return None,
        };
        Some(Self {
            message: MessageNumber(number.parse().ok()?),
            is_forward,
        })
    }

    /// Returns the value of the header field.
    pub(super) fn value(self) -> String {
        let relation = if self.is_forward { "forward" } else { "reply" };
        format!("{relation} {}", self.message.0)
    }
}

impl Drafts {
    /// Sets the flag of the message that a sent draft answers or forwards. Logs a failure, because
    /// the draft was sent.
    pub(super) async fn mark_original(&self, access: &Access, message: &[u8]) {
        let (header, _) = mime::split(message);
        let Some(original) = Original::of_header(header) else {
            return;
        };
        let flag = if original.is_forward {
            "$Forwarded"
        } else {
            "\\Answered"
        };
        let flags: Vec<Flag> = Flag::named(flag).into_iter().collect();
        let (changing, numbers) = (&self.mail.changing, [original.message]);
        let marked = changing.flag(access, &numbers, (flags, StoreMode::Add), None);
        if let Err(error) = marked.await {
            let account = &access.account;
            tracing::info!(account, %error, "original of a sent draft not marked");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header_field_contains_the_original() {
        for original in [false, true].map(|is_forward| Original {
            message: MessageNumber(7),
            is_forward,
        }) {
            let header = format!("{FIELD}: {}\r\n\r\n", original.value());
            assert_eq!(Original::of_header(header.as_bytes()), Some(original));
        }
        for value in ["", "reply", "reply x", "reply -1", "copy 7", "reply 7 8"] {
            let header = format!("{FIELD}: {value}\r\n\r\n");
            assert_eq!(Original::of_header(header.as_bytes()), None, "{value}");
        }
    }
}
