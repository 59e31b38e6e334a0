//! The tools: what each is called, what it says of itself, what it takes and answers. An action is a file below.

mod bounds;
mod create_alias;
mod get_message;
mod list_aliases;
mod list_folders;
mod list_messages;
mod paging;
mod search_messages;
mod send_message;
mod summaries;
mod whole;

use latchmail_sdk::Failure;
use latchmail_sdk::capability::{Config, Scope};
use latchmail_sdk::scope;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::Capabilities;
use crate::outcome::Outcome;

/// A tool.
pub(crate) struct Tool<H> {
    pub(crate) name: &'static str,
    /// What it is called by people.
    title: &'static str,
    /// What a model is told of it.
    description: &'static str,
    /// What the caller has to hold: without it the tool is not listed.
    pub(crate) scope: Scope,
    hints: Hints,
    input: fn() -> Value,
    output: fn() -> Value,
    /// Its arguments are a JSON object.
    pub(crate) call: fn(&H, &[u8]) -> Result<Outcome, Failure>,
}

/// What a client may be told of what a tool does.
#[derive(Clone, Copy)]
enum Hints {
    /// It reads what is the account's own.
    ReadsOwn,
    /// It reads what came from outside.
    ReadsMail,
    /// It adds something to the account.
    Adds,
    /// It does something that nobody takes back.
    Sends,
}

/// All of them, always in this order.
pub(crate) fn all<H: Capabilities>(_: &H) -> [Tool<H>; 7] {
    [
        list_folders::tool(),
        list_messages::tool(),
        search_messages::tool(),
        get_message::tool(),
        list_aliases::tool(),
        create_alias::tool(),
        send_message::tool(),
    ]
}

/// A tool as a list shows it.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Listed {
    name: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    title: Option<&'static str>,
    description: &'static str,
    input_schema: Value,
    #[serde(skip_serializing_if = "Option::is_none")]
    output_schema: Option<Value>,
    annotations: Value,
}

impl<H: Config> Tool<H> {
    /// Returns `false` if no token can have the tool: the operator has to turn on sending.
    pub(crate) fn exists(&self, host: &H) -> bool {
        self.scope != Scope::MailSend || host.get("send_tool").as_deref() == Some("true")
    }
}

impl<H> Tool<H> {
    /// The scope that a client requests for the tool. No client can request `aliases:write`; the host adds it here to tokens with `aliases:read`.
    pub(crate) fn requested_scope(&self) -> &'static str {
        scope::name(match self.scope {
            Scope::AliasesWrite => Scope::AliasesRead,
            other => other,
        })
    }

    /// It as a list shows it; `structured`: where the revision knows of titles and of schemas of results.
    pub(crate) fn listed(&self, structured: bool) -> Listed {
        Listed {
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

/// Reads the arguments of a call.
///
/// # Errors
/// 400 with a sentence that names the argument that will not do.
fn arguments<T: DeserializeOwned>(given: &[u8]) -> Result<T, Failure> {
    latchmail_shape::read(given).map_err(|misfit| Failure::bad_request(misfit.sentence()))
}

/// The folder that is meant: the inbox where none is named.
fn folder(named: Option<&str>) -> &str {
    named.filter(|name| !name.is_empty()).unwrap_or("INBOX")
}
