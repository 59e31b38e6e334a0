//! `trash`: moves a message to Trash.

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
}

pub(super) fn tool<H: Capabilities>() -> Tool<H> {
    Tool {
        name: "trash",
        title: "Move a message to Trash",
        description: "Moves a message to Trash. The message keeps its uid, and move moves it back. No tool deletes a message permanently.",
        scope: Scope::MailWrite,
        action: Some("trash"),
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
    success(&changing::trash(host, None, &[uid])?)
}
