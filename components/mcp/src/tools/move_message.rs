//! `move`: moves a message to another folder.

use latchmail_common::{changing, reading};
use latchmail_sdk::capability::Scope;
use latchmail_sdk::{Failure, Succeeded};
use serde::Deserialize;
use utoipa::ToSchema;

use super::{Hints, Tool, integer, parse, success};
use crate::outcome::Outcome;
use crate::{Capabilities, schema};

/// The arguments of the tool.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct Arguments {
    /// The message's `uid`, as in lists.
    #[serde(deserialize_with = "integer::uid")]
    #[schema(minimum = 1)]
    uid: u64,
    /// The path of the target folder, as returned by `list_folders`.
    #[schema(min_length = 1)]
    destination: String,
}

pub(super) fn tool<H: Capabilities>() -> Tool<H> {
    Tool {
        name: "move",
        title: "Move a message",
        description: "Moves a message to another folder. The message keeps its uid. To move it to Trash, use trash.",
        scope: Scope::MailWrite,
        action: Some("move"),
        full: true,
        hints: Hints::Changes,
        input: schema::of::<Arguments>,
        output: schema::of::<Succeeded>,
        call,
    }
}

fn call(host: &impl Capabilities, json: &[u8]) -> Result<Outcome, Failure> {
    let arguments: Arguments = parse(json)?;
    let uid = reading::uid(Some(arguments.uid))?;
    success(&changing::move_to(
        host,
        None,
        &[uid],
        &arguments.destination,
    )?)
}
