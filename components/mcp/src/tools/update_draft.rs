//! `update_draft`: changes fields of a draft. The other fields stay the same.

use latchmail_common::Recipients;
use latchmail_common::sending::drafts::{self, DraftRequest, NO_DRAFT, failure};
use latchmail_common::sending::{FileReference, Sources};
use latchmail_sdk::capability::{
    Attachment, Blob, Draft, DraftError, File, FileSource, Header, MessagePart, Scope, StoredDraft,
};
use latchmail_sdk::{Failure, codes};
use serde::Deserialize;
use utoipa::ToSchema;

use super::{Hints, Tool, draft, parse};
use crate::outcome::Outcome;
use crate::{Capabilities, schema};

/// The fields to change. A field that is absent stays the same.
#[derive(Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Arguments {
    /// The `id` of the draft.
    id: String,
    /// The `version` of the draft that the change is based on. If the user has changed the draft
    /// since, nothing is changed.
    version: String,
    /// The mailbox's own address or one of its enabled aliases.
    #[schema(nullable = false)]
    from: Option<String>,
    /// The recipients. An empty string removes all of them.
    #[schema(nullable = false)]
    to: Option<Recipients>,
    /// The recipients in `Cc`. An empty string removes all of them.
    #[schema(nullable = false)]
    cc: Option<Recipients>,
    /// The recipients in `Bcc`. An empty string removes all of them.
    #[schema(nullable = false)]
    bcc: Option<Recipients>,
    /// The subject, on one line.
    #[schema(nullable = false)]
    subject: Option<String>,
    /// The complete plain text, which also replaces the HTML.
    #[schema(nullable = false)]
    text: Option<String>,
    /// The complete HTML, which also replaces the plain text.
    #[schema(nullable = false)]
    html: Option<String>,
    /// All attachments, at most 20. An attachment of the draft is kept with the draft's `uid` and
    /// its `index`.
    #[schema(nullable = false, max_items = 20)]
    attachments: Option<Vec<FileReference>>,
}

pub(super) fn tool<H: Capabilities>() -> Tool<H> {
    Tool {
        name: "update_draft",
        title: "Change a draft",
        description: "Changes fields of a draft; other fields stay the same. id and version are those that create_draft or update_draft returned. Returns the new version and uid. If the \
user has changed the draft since, nothing is changed.",
        scope: Scope::MailWrite,
        action: Some("draft"),
        full: true,
        hints: Hints::Replaces,
        input: schema::of::<Arguments>,
        output: schema::of_mail::<draft::Draft>,
        call,
    }
}

fn call(host: &impl Capabilities, json: &[u8]) -> Result<Outcome, Failure> {
    let arguments: Arguments = parse(json)?;
    let stored = host
        .get_draft(&arguments.id)
        .map_err(|error| Failure::of(error, NO_DRAFT, host))?;
    if stored.version != arguments.version {
        return Err(failure(
            DraftError::VersionMismatch,
            &Sources::default(),
            host,
        ));
    }
    if stored.truncated {
        return Err(Failure::bad_request(
            codes::INVALID_DRAFT,
            "Invalid draft: it is too long to be changed with this tool",
        ));
    }
    let mut kept = content(host, stored)?;
    let (id, version) = (arguments.id, arguments.version);
    for (given, kept) in [
        (&arguments.to, &mut kept.to),
        (&arguments.cc, &mut kept.cc),
        (&arguments.bcc, &mut kept.bcc),
    ] {
        if given.is_some() {
            kept.clear();
        }
    }
    if arguments.text.is_some() || arguments.html.is_some() {
        (kept.text, kept.html) = (None, None);
    }
    if arguments.attachments.is_some() {
        kept.files.clear();
    }
    let request = DraftRequest {
        from: arguments.from,
        to: arguments.to.unwrap_or_default(),
        cc: arguments.cc.unwrap_or_default(),
        bcc: arguments.bcc.unwrap_or_default(),
        subject: arguments.subject,
        text: arguments.text,
        html: arguments.html,
        attachments: draft::attachments(arguments.attachments)?,
        ..DraftRequest::default()
    };
    let changed = drafts::draft(request, Some(kept), &|_| None)?;
    let sources = Sources::of(&changed);
    let stored = host.replace_draft(&id, changed, Some(&version));
    draft::outcome(stored.map_err(|error| failure(error, &sources, host))?)
}

/// Returns a stored draft in the form in which it can be stored again.
fn content(host: &impl Capabilities, stored: StoredDraft) -> Result<Draft, Failure> {
    let uid = stored.uid;
    let file = |one: Attachment| File {
        source: FileSource::Part(MessagePart {
            uid,
            index: one.index,
        }),
        filename: Some(one.filename),
        content_type: Some(one.content_type),
        content_id: one.content_id,
        inline: one.disposition == "inline",
    };
    let headers = stored.headers.into_iter();
    Ok(Draft {
        from: stored.from.into_iter().next(),
        to: stored.to,
        cc: stored.cc,
        bcc: stored.bcc,
        reply_to: stored.reply_to,
        subject: stored.subject,
        text: text(host, stored.text)?,
        html: text(host, stored.html)?,
        in_reply_to: stored.in_reply_to,
        references: stored.references,
        headers: headers
            .map(|field| Header {
                name: field.name,
                value: field.value,
            })
            .collect(),
        files: stored.attachments.into_iter().map(file).collect(),
        original: None,
    })
}

/// Reads a text of a stored draft.
fn text(host: &impl Capabilities, text: Option<Blob>) -> Result<Option<String>, Failure> {
    let Some(text) = text else {
        return Ok(None);
    };
    let bytes = text.read_all();
    let bytes = bytes.map_err(|error| Failure::of(error, NO_DRAFT, host))?;
    Ok(Some(String::from_utf8_lossy(&bytes).into_owned()))
}
