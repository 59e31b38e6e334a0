//! The tools: names, descriptions, arguments and results. Each tool has its own file.

mod bounds;
mod create_alias;
mod create_draft;
mod create_folder;
mod create_upload;
mod draft;
mod flag;
mod get_attachment;
mod get_message;
mod get_thread;
mod integer;
mod list_aliases;
mod list_folders;
mod list_messages;
mod list_threads;
mod move_message;
mod paging;
mod reply;
mod search_messages;
mod send_draft;
mod send_message;
mod sent_message;
mod summaries;
mod trash;
mod update_draft;

use latchmail_common::changing;
use latchmail_sdk::capability::{Identity, Scope};
use latchmail_sdk::{Failure, Succeeded};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::Capabilities;
use crate::outcome::Outcome;
pub(crate) use sent_message::{SentMessage, approval_url};

/// A tool.
pub(crate) struct Tool<H> {
    pub(crate) name: &'static str,
    /// The title for people.
    title: &'static str,
    /// The description for models.
    description: &'static str,
    /// The required scope. The list of tools contains the tool only for callers with this scope.
    pub(crate) scope: Scope,
    /// The action of `caller.allows` that the tool performs. `None` if only the scope matters.
    action: Option<&'static str>,
    /// Whether the tool exists only if the operator offers all tools.
    full: bool,
    hints: Hints,
    input: fn() -> Value,
    output: fn() -> Value,
    /// The function that calls the tool. Its second argument is a JSON object with the tool's
    /// arguments.
    pub(crate) call: fn(&H, &[u8]) -> Result<Outcome, Failure>,
}

/// Hints for clients about the effects of a tool.
#[derive(Clone, Copy)]
enum Hints {
    /// The tool reads the account's own data.
    ReadsOwn,
    /// The tool reads mail written by other people.
    ReadsMail,
    /// The tool adds something to the account.
    Adds,
    /// The tool changes something that another call can change back.
    Changes,
    /// The tool replaces something.
    Replaces,
    /// The tool has an effect that cannot be undone.
    Sends,
}

/// Returns all tools, always in this order.
pub(crate) fn all<H: Capabilities>(_: &H) -> [Tool<H>; 19] {
    [
        list_folders::tool(),
        list_messages::tool(),
        search_messages::tool(),
        get_message::tool(),
        list_aliases::tool(),
        create_alias::tool(),
        send_message::tool(),
        list_threads::tool(),
        get_thread::tool(),
        get_attachment::tool(),
        create_upload::tool(),
        create_draft::tool(),
        update_draft::tool(),
        send_draft::tool(),
        reply::tool(),
        flag::tool(),
        move_message::tool(),
        trash::tool(),
        create_folder::tool(),
    ]
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ListedTool {
    name: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    title: Option<&'static str>,
    description: &'static str,
    input_schema: Value,
    #[serde(skip_serializing_if = "Option::is_none")]
    output_schema: Option<Value>,
    annotations: Value,
}

impl<H: Capabilities> Tool<H> {
    /// Returns whether the operator offers the tool.
    pub(crate) fn is_offered(&self, host: &H) -> bool {
        !self.full || host.get("tools").as_deref() == Some("full")
    }

    /// Returns whether the scopes and the policy of the caller's credential allow the tool.
    pub(crate) fn is_allowed(&self, host: &H, caller: &Identity) -> bool {
        let allows = |action| host.allows(action);
        caller.holds(self.scope) && self.action.is_none_or(allows)
    }

    /// Returns whether a token can have the scope of the tool. For the tool that sends mail,
    /// returns `false` unless the operator allows agents to send.
    pub(crate) fn exists(&self, host: &H) -> bool {
        self.scope != Scope::MailSend || host.get("send_tool").as_deref() == Some("true")
    }
}

impl<H> Tool<H> {
    /// Returns whether the tool sends a message, which can wait for the approval of the owner.
    pub(crate) fn sends(&self) -> bool {
        matches!(self.hints, Hints::Sends)
    }

    /// Returns the tool in the format of the tool list. If `structured` is `true`, adds the title
    /// and the output schema. Older revisions do not support these fields.
    pub(crate) fn listed(&self, structured: bool) -> ListedTool {
        ListedTool {
            name: self.name,
            title: structured.then_some(self.title),
            description: self.description,
            input_schema: (self.input)(),
            output_schema: structured.then(self.output),
            annotations: self.hints.annotations(self.title),
        }
    }
}

impl Hints {
    fn annotations(self, title: &str) -> Value {
        let (reads, destroys, repeats, open) = match self {
            Self::ReadsOwn => (true, false, true, false),
            Self::ReadsMail => (true, false, true, true),
            Self::Adds => (false, false, false, false),
            Self::Changes => (false, false, true, false),
            Self::Replaces => (false, true, true, false),
            Self::Sends => (false, true, false, true),
        };
        json!({
            "title": title,
            "readOnlyHint": reads,
            "destructiveHint": destroys,
            "idempotentHint": repeats,
            "openWorldHint": open,
        })
    }
}

/// Parses the arguments of a call.
///
/// # Errors
/// Returns 400 if an argument is invalid. The error message contains the name of the argument.
fn parse<T: DeserializeOwned>(json: &[u8]) -> Result<T, Failure> {
    latchmail_shape::read(json).map_err(Failure::from)
}

/// Returns the result of a change of a message.
///
/// # Errors
/// Returns 404 if the change found no message.
fn success(found: &[u64]) -> Result<Outcome, Failure> {
    changing::require_found(found)?;
    Outcome::trusted(&Succeeded { success: true })
}

/// Returns the requested folder, or the inbox if the call requests no folder.
fn folder(named: Option<&str>) -> &str {
    named.filter(|name| !name.is_empty()).unwrap_or("INBOX")
}
