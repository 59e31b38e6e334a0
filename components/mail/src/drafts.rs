//! `/api/v1/mail/drafts`: stores, reads, lists, replaces and deletes drafts.

use latchmail_common::reading;
use latchmail_common::sending::Sources;
use latchmail_common::sending::drafts::{
    self, DraftContent, DraftHead, DraftRequest, NO_DRAFT, failure, parts,
};
use latchmail_sdk::capability::{Caller, Compose, DraftError, Drafts, Page, StoredDraft};
use latchmail_sdk::{Failure, Reply, Request, codes};
use serde::Serialize;
use utoipa::ToSchema;

/// Maximum number of entity tags of `If-Match` that are compared.
const MAX_TAGS: usize = 20;

/// A stored draft.
#[derive(Serialize, ToSchema)]
#[schema(example = json!({"id": "8f1c0a5be2d94c7b9a3f6e1d2c4b5a69",
    "version": "5f2b7c9d01e34a6f8b9c0d1e2f3a4b5c", "uid": 4127,
    "draft": {"from": "ada@latchmail.test", "replyTo": [], "to": ["bob@latchmail.test"], "cc": [],
        "bcc": [], "subject": "Offer", "text": "Dear Bob,\n", "references": [], "headers": [],
        "attachments": []}}))]
pub(crate) struct Draft {
    #[serde(flatten)]
    head: DraftHead,
    /// The content.
    draft: DraftContent,
}

/// A page of drafts.
#[derive(Serialize, ToSchema)]
pub(crate) struct DraftList {
    /// The drafts on the page. The newest draft is first.
    drafts: Vec<Draft>,
    /// The total number of drafts.
    total: u32,
}

/// The fields of a page without its drafts.
#[derive(Serialize)]
struct Total {
    total: u32,
}

/// Create a draft
///
/// Stores a draft in the folder with the role `\Drafts`, so every mail client can open, edit and
/// send it. All fields are optional. What is unfinished or invalid, for example half an address, is
/// stored, and refused when the draft is sent.
#[utoipa::path(
    post,
    path = "/api/v1/mail/drafts",
    operation_id = "createDraft",
    tag = "Mail",
    extensions(("x-latchmail" = json!(true))),
    request_body = DraftRequest,
    responses(
        (
            status = 201,
            description = "Stored",
            body = Draft,
            headers(("ETag" = String, description = "The version"))
        ),
        (status = 400, description = "`Invalid JSON body`; a value that no message can contain; an attachment that is not valid", body = latchmail_sdk::Failed),
        (status = 403, description = "An attachment of a message without the scope `mail:read`", body = latchmail_sdk::Failed),
        (status = 404, description = "`Upload not found`, `Attachment not found`, `Message not found`", body = latchmail_sdk::Failed),
        (status = 413, description = "`Message exceeds the 25 MB limit`", body = latchmail_sdk::Failed),
        (status = 507, description = "`The mailbox is full`", body = latchmail_sdk::Failed)
    )
)]
pub(crate) fn create_draft(
    host: &(impl Drafts + Compose + Caller),
    request: &Request,
) -> Result<Reply, Failure> {
    let body = request.json::<DraftRequest>()?;
    let composed = drafts::composed(host, &body)?;
    let draft = drafts::draft(body, composed, &|index| request.take_blob(index))?;
    let sources = Sources::of(&draft);
    let stored = host.create_draft(draft);
    let stored = stored.map_err(|error| failure(error, &sources, host))?;
    Ok(reply(stored)?.status(201))
}

/// List drafts
///
/// Returns a page of drafts. If several messages have the same id, for example while a mail client
/// replaces a draft, the newest message is the draft.
#[utoipa::path(
    get,
    path = "/api/v1/mail/drafts",
    operation_id = "listDrafts",
    tag = "Mail",
    extensions(("x-latchmail" = json!(true))),
    params(
        ("page" = Option<u32>, Query, minimum = 1, description = "The number of the page, from 1; the default is 1"),
        ("limit" = Option<u32>, Query, minimum = 1, maximum = 100, description = "The number of drafts per page; the default is 50")
    ),
    responses(
        (
            status = 200,
            description = "The page",
            body = DraftList,
            links(("getDraft" = (operation_id = "getDraft", parameters(("id" = "$response.body#/drafts/0/id")))))
        ),
        (status = 400, description = "`Invalid paging parameters`", body = latchmail_sdk::Failed),
        (status = 413, description = "The texts of the drafts are too large; request fewer drafts at once", body = latchmail_sdk::Failed)
    )
)]
pub(crate) fn list_drafts(
    host: &(impl Drafts + Caller),
    request: &Request,
) -> Result<Reply, Failure> {
    let paging = request.paging(50, reading::BAD_PAGING)?;
    let listed = host.list_drafts(Page {
        offset: paging.offset,
        limit: paging.limit,
    });
    let listed = listed.map_err(|error| Failure::of(error, NO_DRAFT, host))?;
    let total = Total {
        total: listed.total,
    };
    let drafts = listed.drafts.into_iter().map(parts);
    Reply::json_list_nested_with_texts(&total, ("drafts", "draft"), drafts)
}

/// Read a draft
#[utoipa::path(
    get,
    path = "/api/v1/mail/drafts/{id}",
    operation_id = "getDraft",
    tag = "Mail",
    extensions(("x-latchmail" = json!(true))),
    params(
        ("id" = String, Path, description = "The draft's id"),
        ("If-None-Match" = Option<String>, Header, description = "A version: if the draft has this version, the response is 304")
    ),
    responses(
        (
            status = 200,
            description = "The draft",
            body = Draft,
            headers(("ETag" = String, description = "The version"))
        ),
        (status = 304, description = "The draft has the version in `If-None-Match`"),
        (status = 404, description = "`Draft not found`", body = latchmail_sdk::Failed)
    )
)]
pub(crate) fn get_draft(
    host: &(impl Drafts + Caller),
    request: &Request,
) -> Result<Reply, Failure> {
    let found = host.get_draft(request.path("id"));
    let draft = found.map_err(|error| Failure::of(error, NO_DRAFT, host))?;
    let tags = request.if_none_match();
    if tags.is_some_and(|tags| tags.match_weakly(&draft.version)) {
        return Ok(Reply::not_modified(&draft.version));
    }
    reply(draft)
}

/// Replace a draft
///
/// Replaces the draft if it has the version in `If-Match`. If a mail client has changed the draft
/// since the client read it, nothing is changed. The response has the new `version` and `uid`.
#[utoipa::path(
    put,
    path = "/api/v1/mail/drafts/{id}",
    operation_id = "replaceDraft",
    tag = "Mail",
    extensions(("x-latchmail" = json!(true))),
    params(
        ("id" = String, Path, description = "The draft's id"),
        ("If-Match" = String, Header, description = "The version that the client read, in quotation marks", example = "\"5f2b7c9d01e34a6f8b9c0d1e2f3a4b5c\"")
    ),
    request_body = DraftRequest,
    responses(
        (
            status = 200,
            description = "Replaced",
            body = Draft,
            headers(("ETag" = String, description = "The new version"))
        ),
        (status = 400, description = "As for a new draft", body = latchmail_sdk::Failed),
        (status = 403, description = "An attachment of a message without the scope `mail:read`", body = latchmail_sdk::Failed),
        (status = 404, description = "`Draft not found`; `Upload not found`, `Attachment not found`, `Message not found`", body = latchmail_sdk::Failed),
        (status = 412, description = "`The message has changed`", body = latchmail_sdk::Failed),
        (status = 413, description = "`Message exceeds the 25 MB limit`", body = latchmail_sdk::Failed),
        (status = 428, description = "`The header If-Match is required`", body = latchmail_sdk::Failed),
        (status = 507, description = "`The mailbox is full`", body = latchmail_sdk::Failed)
    )
)]
pub(crate) fn replace_draft(
    host: &(impl Drafts + Caller),
    request: &Request,
) -> Result<Reply, Failure> {
    if request.if_match().is_none() {
        return Err(Failure::new(
            428,
            codes::PRECONDITION_REQUIRED,
            "The header If-Match is required",
        ));
    }
    let body = request.json::<DraftRequest>()?;
    let draft = drafts::draft(body, None, &|index| request.take_blob(index))?;
    let (id, sources) = (request.path("id"), Sources::of(&draft));
    let failed = |error| failure(error, &sources, host);
    let version = required_version(host, request, id).map_err(failed)?;
    let stored = host.replace_draft(id, draft, version.as_deref());
    reply(stored.map_err(failed)?)
}

/// Delete a draft
///
/// Deletes the draft permanently. With `If-Match`, only if the draft has this version.
#[utoipa::path(
    delete,
    path = "/api/v1/mail/drafts/{id}",
    operation_id = "deleteDraft",
    tag = "Mail",
    extensions(("x-latchmail" = json!(true))),
    params(
        ("id" = String, Path, description = "The draft's id"),
        ("If-Match" = Option<String>, Header, description = "The version that the client read, in quotation marks")
    ),
    responses(
        (status = 200, description = "Deleted", body = latchmail_sdk::Succeeded),
        (status = 404, description = "`Draft not found`", body = latchmail_sdk::Failed),
        (status = 412, description = "`The message has changed`", body = latchmail_sdk::Failed)
    )
)]
pub(crate) fn delete_draft(
    host: &(impl Drafts + Caller),
    request: &Request,
) -> Result<Reply, Failure> {
    let id = request.path("id");
    let failed = |error| failure(error, &Sources::default(), host);
    let version = required_version(host, request, id).map_err(failed)?;
    host.delete_draft(id, version.as_deref()).map_err(failed)?;
    Reply::success()
}

fn reply(stored: StoredDraft) -> Result<Reply, Failure> {
    let version = stored.version.clone();
    let (head, content) = parts(stored);
    Ok(Reply::json_nested_with_texts(&head, "draft", content)?.with_etag(&version))
}

/// Returns the version that `If-Match` requires. Returns `None` without the header, or for `*`. If
/// the header contains several entity tags, returns the one that the draft has.
pub(crate) fn required_version(
    host: &impl Drafts,
    request: &Request,
    id: &str,
) -> Result<Option<String>, DraftError> {
    let Some(tags) = request.if_match().filter(|tags| !tags.is_any()) else {
        return Ok(None);
    };
    let tags: Vec<&str> = tags.strong().take(MAX_TAGS).collect();
    match tags[..] {
        // No draft has an empty version.
        [] => Ok(Some(String::new())),
        [tag] => Ok(Some(tag.to_owned())),
        _ => {
            let current = host.get_draft(id)?.version;
            let found = tags.contains(&current.as_str());
            Ok(Some(if found { current } else { String::new() }))
        }
    }
}

#[cfg(test)]
mod tests;
