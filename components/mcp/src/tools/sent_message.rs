//! The result of the tools that send a message. A message that the policy of the grant does not
//! allow waits for the approval of the mailbox's owner.

use latchmail_common::sending::Delivery;
use latchmail_sdk::Failure;
use latchmail_sdk::capability::{Config, OutboxEntry};
use serde::Serialize;
use utoipa::ToSchema;

use crate::outcome::Outcome;

/// The folder of the pages on which the owner approves messages, below the URL of the service.
const APPROVAL_PAGE: &str = "/account/holds";

/// A message that was sent, or that waits for approval.
#[derive(Default, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct SentMessage {
    /// The Message-ID of the sent message, with angle brackets. Absent if the message was not sent.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    message_id: Option<String>,
    /// The folder with the copy. Absent if no copy was filed.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    saved_to: Option<String>,
    /// The id of the hold, if the message waits for the approval of the mailbox's owner. Do not
    /// send the message again.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    hold_id: Option<String>,
    /// `pending` if the message waits for approval, otherwise `approved` or `rejected`. Absent for
    /// a message that needed no approval.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    status: Option<&'static str>,
    /// The page on which the owner approves or rejects the message.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    approval_url: Option<String>,
}

impl SentMessage {
    /// Returns the result for a message that waits for approval.
    pub(crate) fn held(host: &impl Config, hold_id: &str) -> Self {
        Self {
            hold_id: Some(hold_id.to_owned()),
            status: Some("pending"),
            approval_url: approval_url(host, hold_id),
            ..Self::default()
        }
    }

    /// Returns the result for a message after the question to the owner. `entry` is the message in
    /// the outbox, if it was found.
    pub(crate) fn after_question(
        host: &impl Config,
        hold_id: &str,
        entry: Option<OutboxEntry>,
    ) -> Self {
        let held = Self::held(host, hold_id);
        let Some(entry) = entry else {
            return held;
        };
        match entry.state.as_str() {
            "held" => held,
            "scheduled" | "sending" | "sent" | "unknown" => Self {
                message_id: Some(entry.message_id),
                status: Some("approved"),
                ..held
            },
            "rejected" => Self {
                status: Some("rejected"),
                ..held
            },
            // The owner approved the message, but it was not sent.
            _ => Self {
                status: Some("approved"),
                ..held
            },
        }
    }
}

/// Returns the page on which the owner approves a message. Returns `None` if the module does not
/// know the URL of the service.
pub(crate) fn approval_url(host: &impl Config, hold_id: &str) -> Option<String> {
    let base = host.get("base_url").filter(|base| !base.is_empty())?;
    Some(format!("{base}{APPROVAL_PAGE}/{hold_id}"))
}

/// Converts the result of sending a message.
///
/// # Errors
/// Returns 500 if the message leaves later, because the tools have no time to send.
pub(super) fn outcome(host: &impl Config, delivery: Delivery) -> Result<Outcome, Failure> {
    match delivery {
        Delivery::Sent(sent) => Outcome::trusted(&SentMessage {
            message_id: Some(sent.message_id),
            saved_to: sent.saved_to,
            ..SentMessage::default()
        }),
        Delivery::Held(held) => {
            let outcome = Outcome::trusted(&SentMessage::held(host, &held.hold_id))?;
            Ok(outcome.with_hold(held.hold_id))
        }
        Delivery::Scheduled(_) => Err(Failure::internal()),
    }
}
