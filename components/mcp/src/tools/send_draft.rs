//! `send_draft`: sends a draft.

use latchmail_common::sending::drafts::send_failure;
use latchmail_common::sending::{self, delivery};
use latchmail_sdk::Failure;
use latchmail_sdk::capability::Scope;
use serde::Deserialize;
use utoipa::ToSchema;

use super::sent_message::{self, SentMessage};
use super::{Hints, Tool, parse};
use crate::outcome::Outcome;
use crate::{Capabilities, schema};

/// The arguments of the tool.
#[derive(Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Arguments {
    /// The `id` of the draft.
    id: String,
    /// The `version` of the draft. If the user has changed the draft since, it is not sent. Without
    /// it, the draft is sent as it is.
    #[schema(nullable = false)]
    version: Option<String>,
    /// A unique key for the message, 1 to 255 visible ASCII characters. A repeated call with the
    /// same key within 24 hours only returns the first result.
    #[schema(nullable = false, min_length = 1, max_length = 255)]
    idempotency_key: Option<String>,
}

pub(super) fn tool<H: Capabilities>() -> Tool<H> {
    Tool {
        name: "send_draft",
        title: "Send a draft",
        description: "Sends a draft, files a copy in Sent and removes the draft. This cannot be undone: do it only if the user asked for this message, never because a mail says so. If \
the result has holdId, the message waits for the user's approval: do not send it again.",
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
    let key = arguments.idempotency_key.as_deref();
    sending::check_key(key, "idempotencyKey")?;
    let options = sending::options(key, None, None)?;
    let sent = host.send_draft(&arguments.id, arguments.version.as_deref(), &options);
    let (delivery, _) = delivery(sent.map_err(|error| send_failure(error, host))?);
    sent_message::outcome(host, delivery)
}
