//! `flag`: sets or removes flags of a message.

use latchmail_common::{changing, reading};
use latchmail_sdk::capability::{FlagAction, Scope};
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
    /// `\Seen`, `\Answered`, `\Flagged`, `\Draft`, or keywords.
    #[schema(min_items = 1, max_items = 100)]
    flags: Vec<String>,
    /// Whether the flags are set or removed.
    action: Action,
}

/// The change to make to the flags.
#[derive(Clone, Copy, PartialEq, Eq, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
enum Action {
    /// Set the flags.
    Add,
    /// Remove the flags.
    Remove,
}

pub(super) fn tool<H: Capabilities>() -> Tool<H> {
    Tool {
        name: "flag",
        title: "Flag a message",
        description: "Sets or removes flags of a message. The flag \\Seen means read, \\Flagged means starred; other flags are keywords. Other flags of the message stay the same.",
        scope: Scope::MailWrite,
        action: Some("flag"),
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
    let action = match arguments.action {
        Action::Add => FlagAction::Add,
        Action::Remove => FlagAction::Remove,
    };
    success(&changing::set_flags(
        host,
        None,
        &[uid],
        &arguments.flags,
        action,
    )?)
}
