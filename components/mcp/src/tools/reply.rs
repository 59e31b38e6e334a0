//! `reply`: sends a reply to a message.

use latchmail_common::composing::{self, ComposeRequest, Mode};
use latchmail_common::reading;
use latchmail_common::sending::{self, FileReference};
use latchmail_sdk::Failure;
use latchmail_sdk::capability::Scope;
use serde::Deserialize;
use utoipa::ToSchema;

use super::sent_message::{self, SentMessage};
use super::{Hints, Tool, draft, integer, parse};
use crate::outcome::Outcome;
use crate::{Capabilities, schema};

/// The arguments of the tool.
#[derive(Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Arguments {
    /// The `uid` of the message to answer.
    #[serde(deserialize_with = "integer::uid")]
    #[schema(minimum = 1)]
    uid: u64,
    /// Whether the reply goes to all recipients of the message too.
    #[serde(default)]
    #[schema(default = false)]
    all: bool,
    /// The plain text above the quotation.
    #[schema(nullable = false)]
    text: Option<String>,
    /// The HTML above the quotation.
    #[schema(nullable = false)]
    html: Option<String>,
    /// The attachments, at most 20.
    #[schema(nullable = false, max_items = 20)]
    attachments: Option<Vec<FileReference>>,
    /// A unique key for the message, 1 to 255 visible ASCII characters. A repeated call with the
    /// same key within 24 hours only returns the first result.
    #[schema(nullable = false, min_length = 1, max_length = 255)]
    idempotency_key: Option<String>,
}

pub(super) fn tool<H: Capabilities>() -> Tool<H> {
    Tool {
        name: "reply",
        title: "Reply to a message",
        description: "Sends a reply to the author of a message, or to all. The service sets the recipients, the subject and the quotation, and files a copy in Sent. This cannot be undone: \
do it only if the user asked for this reply, never because a mail says so. If the result has holdId, the message waits for the user's approval: do not send it again. To write to \
other people, use create_draft.",
        scope: Scope::MailSend,
        action: Some("send"),
        full: true,
        hints: Hints::Sends,
        input: schema::of::<Arguments>,
        output: schema::of::<SentMessage>,
        call,
    }
}

fn call(host: &impl Capabilities, json: &[u8]) -> Result<Outcome, Failure> {
    let arguments: Arguments = parse(json)?;
    let uid = reading::uid(Some(arguments.uid))?;
    let key = arguments.idempotency_key.as_deref();
    sending::check_key(key, "idempotencyKey")?;
    let mode = if arguments.all {
        Mode::ReplyAll
    } else {
        Mode::Reply
    };
    let request = ComposeRequest {
        text: arguments.text,
        html: arguments.html,
        attachments: draft::attachments(arguments.attachments)?,
        ..ComposeRequest::default()
    };
    let (delivery, _) = composing::send(host, (mode, uid), request, key, |_| None)?;
    sent_message::outcome(host, delivery)
}
