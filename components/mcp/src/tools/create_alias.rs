//! `create_alias`: creates an alias with a given or a random name.

use latchmail_common::aliases::{self, CreatedAlias};
use latchmail_sdk::Failure;
use latchmail_sdk::capability::Scope;
use serde::Deserialize;
use utoipa::ToSchema;

use super::{Hints, Tool, parse};
use crate::outcome::Outcome;
use crate::{Capabilities, schema};

/// The arguments of the tool.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct Arguments {
    /// The domain of the alias: the part after the `@` of `mailbox` in `list_aliases`, or a custom
    /// domain of the user.
    domain: String,
    /// The part before the `@`: lower-case letters, digits, dots, hyphens and underscores. Random
    /// if absent.
    #[schema(
        nullable = false,
        min_length = 2,
        max_length = 64,
        pattern = "^[a-z0-9._-]+$"
    )]
    name: Option<String>,
}

pub(super) fn tool<H: Capabilities>() -> Tool<H> {
    Tool {
        name: "create_alias",
        title: "Create an alias",
        description: "Creates an additional address of the mailbox and returns it. Without a name, the address is random and cannot be guessed. \
This changes the account: do it only if the user asked for it.",
        scope: Scope::AliasesWrite,
        action: Some("aliases"),
        full: false,
        hints: Hints::Adds,
        input: schema::of::<Arguments>,
        output: schema::of::<CreatedAlias>,
        call,
    }
}

fn call(host: &impl Capabilities, json: &[u8]) -> Result<Outcome, Failure> {
    let arguments: Arguments = parse(json)?;
    let created = aliases::create(host, Some(&arguments.domain), arguments.name.as_deref())?;
    Outcome::trusted(&created)
}
