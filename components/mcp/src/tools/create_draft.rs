//! `create_draft`: stores a new draft.

use latchmail_common::sending::drafts::{self, DraftRequest, failure};
use latchmail_common::sending::{FileReference, Sources};
use latchmail_common::{MessageIds, Recipients};
use latchmail_sdk::Failure;
use latchmail_sdk::capability::Scope;
use serde::Deserialize;
use utoipa::ToSchema;

use super::{Hints, Tool, draft, parse};
use crate::outcome::Outcome;
use crate::{Capabilities, schema};

/// The draft in the format of the route, without bytes of files. All fields are optional.
#[derive(Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Arguments {
    /// `reply`, `replyAll`, `forward` or `forwardAsAttachment`: the service composes the draft from
    /// the message `uid`, with its recipients, subject and quotation.
    #[schema(nullable = false)]
    mode: Option<String>,
    /// The `uid` of the message that the draft answers or forwards. Required with `mode`.
    #[schema(nullable = false, minimum = 1)]
    uid: Option<u64>,
    /// The mailbox's own address or one of its enabled aliases. The default is the mailbox's own
    /// address, or that which the message with `uid` was sent to.
    #[schema(nullable = false)]
    from: Option<String>,
    /// The recipients: addresses separated by commas, each with or without a name
    /// (`Name <address>`), or an array of such strings.
    #[serde(default)]
    to: Recipients,
    /// The recipients in `Cc`.
    #[serde(default)]
    cc: Recipients,
    /// The recipients that other recipients do not see (`Bcc`).
    #[serde(default)]
    bcc: Recipients,
    /// The subject, on one line.
    #[schema(nullable = false)]
    subject: Option<String>,
    /// The plain text. With `mode`, it is above the quotation.
    #[schema(nullable = false)]
    text: Option<String>,
    /// The HTML. With `mode`, it is above the quotation.
    #[schema(nullable = false)]
    html: Option<String>,
    /// The Message-ID (`messageId`) of the message that this message replies to.
    #[schema(nullable = false)]
    in_reply_to: Option<String>,
    /// The Message-IDs of the conversation, oldest first.
    #[schema(nullable = false)]
    references: Option<MessageIds>,
    /// The attachments, at most 20.
    #[schema(nullable = false, max_items = 20)]
    attachments: Option<Vec<FileReference>>,
}

pub(super) fn tool<H: Capabilities>() -> Tool<H> {
    Tool {
        name: "create_draft",
        title: "Create a draft",
        description: "Stores a draft in the mailbox, where the user can read, change and send it with any mail client. Nothing is sent. With mode and uid, the service composes a \
reply or a forward. Returns id and version for update_draft and send_draft, and uid with which get_message reads the draft. Attachments are files that were uploaded with \
create_upload, or attachments of messages.",
        scope: Scope::MailWrite,
        action: Some("draft"),
        full: true,
        hints: Hints::Adds,
        input: schema::of::<Arguments>,
        output: schema::of_mail::<draft::Draft>,
        call,
    }
}

fn call(host: &impl Capabilities, json: &[u8]) -> Result<Outcome, Failure> {
    let arguments: Arguments = parse(json)?;
    let is_composed = arguments.mode.is_some();
    let own_address = || (!is_composed).then(|| host.current().address);
    let request = DraftRequest {
        mode: arguments.mode,
        uid: arguments.uid,
        from: arguments.from.or_else(own_address),
        to: arguments.to,
        cc: arguments.cc,
        bcc: arguments.bcc,
        subject: arguments.subject,
        text: arguments.text,
        html: arguments.html,
        in_reply_to: arguments.in_reply_to,
        references: arguments.references,
        attachments: draft::attachments(arguments.attachments)?,
        ..DraftRequest::default()
    };
    let composed = drafts::composed(host, &request)?;
    let new = drafts::draft(request, composed, &|_| None)?;
    let sources = Sources::of(&new);
    let stored = host.create_draft(new);
    draft::outcome(stored.map_err(|error| failure(error, &sources, host))?)
}
