//! `list_folders`: returns every folder with its message counts.

use latchmail_common::reading::{self, FolderList};
use latchmail_sdk::Failure;
use latchmail_sdk::capability::Scope;
use serde::Deserialize;
use utoipa::ToSchema;

use super::{Hints, Tool, parse};
use crate::outcome::Outcome;
use crate::{Capabilities, schema};

/// The tool has no arguments.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct Arguments {}

pub(super) fn tool<H: Capabilities>() -> Tool<H> {
    Tool {
        name: "list_folders",
        title: "List folders",
        description: "Lists all folders of the mailbox with the number of messages (messages) and of unread messages (unseen). \
Other tools name a folder by its path.",
        scope: Scope::MailRead,
        action: Some("read"),
        full: false,
        hints: Hints::ReadsOwn,
        input: schema::of::<Arguments>,
        output: schema::of::<FolderList>,
        call,
    }
}

fn call(host: &impl Capabilities, json: &[u8]) -> Result<Outcome, Failure> {
    let Arguments {} = parse(json)?;
    Outcome::trusted(&reading::folders(host)?)
}
