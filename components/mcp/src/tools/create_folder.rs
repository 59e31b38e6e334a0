//! `create_folder`: creates a folder.

use latchmail_common::{Folder, folders};
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
    /// The full path, with the `delimiter` of `list_folders` between its segments.
    #[schema(min_length = 1, max_length = 2000)]
    path: String,
}

pub(super) fn tool<H: Capabilities>() -> Tool<H> {
    Tool {
        name: "create_folder",
        title: "Create a folder",
        description: "Creates a folder, and its missing parents. Returns the folder.",
        scope: Scope::MailWrite,
        action: Some("folders"),
        full: true,
        hints: Hints::Adds,
        input: schema::of::<Arguments>,
        output: schema::of::<Folder>,
        call,
    }
}

fn call(host: &impl Capabilities, json: &[u8]) -> Result<Outcome, Failure> {
    let arguments: Arguments = parse(json)?;
    Outcome::trusted(&folders::create(host, &arguments.path)?)
}
