//! `list_aliases`: returns the mailbox's own address and its aliases.

use latchmail_common::aliases::{self, AliasList};
use latchmail_sdk::Failure;
use latchmail_sdk::capability::Scope;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::{Hints, Tool, parse};
use crate::outcome::Outcome;
use crate::{Capabilities, schema};

/// The tool has no arguments.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct Arguments {}

/// The addresses of the mailbox.
#[derive(Serialize, ToSchema)]
struct Addresses {
    /// The mailbox's own address.
    mailbox: String,
    #[serde(flatten)]
    aliases: AliasList,
}

pub(super) fn tool<H: Capabilities>() -> Tool<H> {
    Tool {
        name: "list_aliases",
        title: "List aliases",
        description: "Lists the mailbox's own address (mailbox) and its aliases, which also deliver to it. active is true if the alias is enabled.",
        scope: Scope::AliasesRead,
        action: None,
        full: false,
        hints: Hints::ReadsOwn,
        input: schema::of::<Arguments>,
        output: schema::of::<Addresses>,
        call,
    }
}

fn call(host: &impl Capabilities, json: &[u8]) -> Result<Outcome, Failure> {
    let Arguments {} = parse(json)?;
    Outcome::trusted(&Addresses {
        aliases: aliases::list(host)?,
        mailbox: host.current().address,
    })
}
