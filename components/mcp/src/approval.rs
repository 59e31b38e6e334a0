//! Messages that wait for the approval of the mailbox's owner. If the client can open URLs, the
//! result of the call asks the client to show the user the page on which the user approves the
//! message (elicitation in the mode `url`). The answer of the client approves nothing: only the
//! owner can, on the page. Without this capability, the result contains the URL of the page.

use latchmail_sdk::Failure;
use latchmail_sdk::capability::{Config, Outbox};
use serde::Serialize;
use serde_json::{Value, json};

use crate::outcome::Outcome;
use crate::rpc::Params;
use crate::tools::{SentMessage, approval_url};

/// The start of the state that the client repeats with the next call.
const STATE: &str = "hold:";
/// The maximum length of the id of a hold, in bytes.
const MAX_ID: usize = 64;

/// A question to the user, in the form of the protocol.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Approval {
    input_requests: Value,
    request_state: String,
}

impl Approval {
    /// Returns the question about a hold. Returns `None` if the URL of the page is unknown.
    pub(crate) fn of(host: &impl Config, hold: &str) -> Option<Self> {
        let url = approval_url(host, hold)?;
        Some(Self {
            input_requests: json!({
                "approval": {
                    "method": "elicitation/create",
                    "params": {
                        "mode": "url",
                        "url": url,
                        "message": "This message needs your approval. Open the page to approve or reject it.",
                    },
                },
            }),
            request_state: format!("{STATE}{hold}"),
        })
    }
}

/// Returns the hold about which the client has asked the user. The id comes from the client, so it
/// proves nothing.
pub(crate) fn asked_about(params: &Params) -> Option<&str> {
    let state = params.get("requestState")?.as_str()?;
    let id = state.strip_prefix(STATE)?;
    let is_id = id.len() <= MAX_ID && id.bytes().all(|byte| byte.is_ascii_alphanumeric());
    is_id.then_some(id)
}

/// Returns the result for a message whose owner decides, or has decided, on the page. If the
/// message is not found in the outbox, the result is that of a message that waits.
///
/// # Errors
/// Returns 500 if the result cannot be serialized as JSON.
pub(crate) fn after_question(
    host: &(impl Config + Outbox),
    hold: &str,
) -> Result<Outcome, Failure> {
    let entry = host.get_entry(hold).ok();
    Outcome::trusted(&SentMessage::after_question(host, hold, entry))
}
