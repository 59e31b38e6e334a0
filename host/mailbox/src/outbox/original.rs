//! The message that another message answers or forwards.

use latchmail_core::message_number::MessageNumber;

use crate::Flag;

/// A message of the mailbox that another message answers or forwards.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OriginalMessage {
    /// The number of the message.
    pub number: MessageNumber,
    /// The relation of the sent message to this message.
    pub relation: Relation,
}

/// The message of the mailbox that a sent message answers or forwards.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Original {
    /// The message with a number, from which the sent message was composed.
    Known(OriginalMessage),
    /// The messages with this Message-ID, which the sent message answers. The Message-ID has angle
    /// brackets.
    ReplyTo(String),
}

/// The relation of a sent message to another message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Relation {
    /// The sent message is a reply.
    Reply,
    /// The sent message is a forward.
    Forward,
}

impl Relation {
    /// Returns the relation with this name. Returns `None` for an unknown name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        match name {
            "reply" => Some(Self::Reply),
            "forward" => Some(Self::Forward),
            _ => None,
        }
    }

    /// Returns the name of the relation.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Reply => "reply",
            Self::Forward => "forward",
        }
    }

    /// Returns the flag of the original (RFC 9051, section 2.3.2).
    pub(super) fn flag(self) -> Option<Flag> {
        Flag::named(match self {
            Self::Reply => "\\Answered",
            Self::Forward => "$Forwarded",
        })
    }
}
