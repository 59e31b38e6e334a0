//! The routes of the journal of a grant: `GET /api/v1/profile/grants/{id}/journal` and
//! `POST /api/v1/profile/grants/{id}/rewind`. These are routes of the host, so no module can read
//! the journal or undo changes for the owner.

use std::time::Duration;

use http::{Method, StatusCode};
use latchmail_core::clock::Timestamp;
use latchmail_core::codes;
use latchmail_core::error::{Failure, StartError};
use latchmail_mailbox::journal::{JournalEntry, Report};
use latchmail_runtime::modules::{Access, Route};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::{OpenApi, ToSchema};

use crate::app::App;
use crate::message::{self, Request, Response};
use crate::owner::{self, Owner};
use crate::rejection::Rejection;
use crate::route_group::{HostRoute, RouteGroup, host_route};

/// The maximum size of a request body, in bytes.
const MAX_BODY: usize = 4 * 1024;
/// The number of changes on a page, and its maximum.
const PAGE: u32 = 50;
const MAX_PAGE: u32 = 200;
/// The time limit of a request that undoes changes.
const DEADLINE: Duration = Duration::from_mins(2);

/// The state of a change.
#[derive(ToSchema)]
#[schema(rename_all = "snake_case")]
#[expect(dead_code, reason = "used only for the API description")]
enum GrantChangeState {
    Done,
    Undone,
    Unknown,
}

/// A change that a grant made.
#[derive(Serialize, ToSchema)]
struct GrantChange {
    /// The id. A later change has a higher id.
    id: i64,
    #[schema(value_type = String, format = DateTime)]
    at: Timestamp,
    /// `flags`, `move`, `copy`, `import`, `delete`, `draft_create`, `draft_update`, `draft_delete`,
    /// `send`, `schedule`, `folder_create`, `folder_rename`, `folder_delete`, `alias_create`,
    /// `alias_update` or `alias_delete`. Later versions can have more kinds.
    kind: String,
    /// `unknown` if a host stopped during the change, so that the change may not have been made.
    #[schema(value_type = GrantChangeState)]
    state: &'static str,
    /// The number of the message; `null` if the change concerns no message.
    #[schema(required)]
    uid: Option<u64>,
    /// What was changed, for example the folders of a move or the flags that were added.
    #[schema(value_type = Object)]
    details: Value,
}

impl From<JournalEntry> for GrantChange {
    fn from(entry: JournalEntry) -> Self {
        Self {
            id: entry.id,
            at: entry.at,
            kind: entry.kind,
            state: entry.state,
            uid: entry.number.map(|number| number.0),
            details: entry.details,
        }
    }
}

/// A page of the journal of a grant.
#[derive(Serialize, ToSchema)]
struct GrantJournal {
    /// The changes of the last 30 days, newest first.
    changes: Vec<GrantChange>,
    /// The value of `before` for the next page; `null` on the last page.
    #[schema(required)]
    next: Option<i64>,
}

/// The time from which changes are undone.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct RewindRequest {
    /// The changes at and after this time are undone (RFC 3339).
    #[schema(format = DateTime)]
    since: String,
}

/// The result of undoing changes.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
struct RewindReport {
    /// `false` if the request ended before all changes were processed. The same request continues.
    complete: bool,
    /// The number of changes that this request has undone.
    undone: u64,
    /// The changes that stay, because somebody else has changed the same message, flag, draft or
    /// alias since. At most 1000.
    conflicts: Vec<GrantChange>,
    /// The number of conflicts.
    conflict_count: u64,
    /// The changes that cannot be undone: messages that were sent or deleted permanently, and
    /// changes of folders. At most 1000.
    remaining: Vec<GrantChange>,
}

impl From<Report> for RewindReport {
    fn from(report: Report) -> Self {
        let changes = |entries: Vec<JournalEntry>| entries.into_iter().map(Into::into).collect();
        Self {
            complete: report.complete,
            undone: report.undone,
            conflicts: changes(report.conflicts),
            conflict_count: report.conflict_count,
            remaining: changes(report.remaining),
        }
    }
}

/// List the changes of a grant
///
/// Returns what the grant has changed within the last 30 days. The journal of a grant that has
/// ended stays.
#[utoipa::path(
    get,
    path = "/api/v1/profile/grants/{id}/journal",
    operation_id = "listGrantChanges",
    tag = "Grants",
    extensions(("x-latchmail" = json!(true))),
    params(
        ("id" = String, Path, description = "The grant's id"),
        ("before" = Option<i64>, Query, description = "The `next` of the page before; the default is the newest page"),
        ("limit" = Option<u32>, Query, description = "The maximum number of changes on a page: 1 to 200; the default is 50"),
    ),
    responses(
        (status = 200, description = "The changes", body = GrantJournal),
        (status = 400, description = "Invalid paging parameters", body = ref("#/components/schemas/Error")),
        (status = 404, description = "`Grant not found`", body = ref("#/components/schemas/Error")),
    )
)]
async fn list_grant_changes(app: &App, request: &Request) -> Result<Response, Rejection> {
    let (before, limit) = paging(request)?;
    let (owner, id) = (Owner::of(request)?, owner::segment(request, "id"));
    let account = &owner.access.account;
    let page = app.journal.list(account, id, before, limit).await?;
    if page.entries.is_empty() {
        require_grant(app, account, id).await?;
    }
    let journal = GrantJournal {
        changes: page.entries.into_iter().map(Into::into).collect(),
        next: page.next,
    };
    message::json(StatusCode::OK, &journal)
}

/// Undo the changes of a grant
///
/// Undoes what the grant has changed since a time and what nobody else has changed since: moves,
/// flags, copies, imports, drafts and aliases. The result is the mailbox in which only the others
/// have acted. What cannot be undone is listed. Suspend the grant first. If a request ends early,
/// the same request continues.
#[utoipa::path(
    post,
    path = "/api/v1/profile/grants/{id}/rewind",
    operation_id = "rewindGrant",
    tag = "Grants",
    extensions(("x-latchmail" = json!(true))),
    params(("id" = String, Path, description = "The grant's id")),
    request_body = RewindRequest,
    responses(
        (status = 200, description = "The result", body = RewindReport),
        (status = 400, description = "`since` is not a time", body = ref("#/components/schemas/Error")),
        (status = 404, description = "`Grant not found`", body = ref("#/components/schemas/Error")),
    )
)]
async fn rewind_grant(app: &App, request: &Request) -> Result<Response, Rejection> {
    let RewindRequest { since } = request.json()?;
    let since = Timestamp::from_rfc3339(&since).ok_or_else(|| {
        let text = "since must be a time in the format of RFC 3339";
        Rejection::bad_request(codes::INVALID_FIELD, text)
    })?;
    let (owner, id) = (Owner::of(request)?, owner::segment(request, "id"));
    let account = &owner.access.account;
    let any = app.journal.list(account, id, None, 1).await?;
    if any.entries.is_empty() {
        require_grant(app, account, id).await?;
    }
    let origin = request.origin();
    let report = app.journal.rewind(owner.caller, id, since, &origin).await?;
    message::json(StatusCode::OK, &RewindReport::from(report))
}

/// Returns the parameters `before` and `limit`.
fn paging(request: &Request) -> Result<(Option<i64>, u32), Rejection> {
    let invalid = || {
        let text = "Invalid paging parameters";
        Rejection::bad_request(codes::INVALID_PAGING_PARAMETERS, text)
    };
    let before = request.query("before").map(str::parse::<i64>).transpose();
    let limit = request.query("limit").map(str::parse::<u32>).transpose();
    let (before, limit) = (
        before.map_err(|_| invalid())?,
        limit.map_err(|_| invalid())?,
    );
    let limit = limit.unwrap_or(PAGE);
    if (1..=MAX_PAGE).contains(&limit) {
        Ok((before, limit))
    } else {
        Err(invalid())
    }
}

/// Checks that the account has a grant.
async fn require_grant(app: &App, account: &str, id: &str) -> Result<(), Rejection> {
    let grants = app.auth.grants.list(account).await?;
    if grants.iter().any(|grant| grant.id == id) {
        return Ok(());
    }
    Err(Failure::not_found(codes::GRANT_NOT_FOUND, "Grant not found").into())
}

#[derive(OpenApi)]
#[openapi(paths(list_grant_changes, rewind_grant))]
struct Description;

/// Returns the routes and their handlers.
///
/// # Errors
/// Returns an error if the API description cannot be serialized.
pub fn route_group() -> Result<RouteGroup<App>, StartError> {
    const JOURNAL: &str = "/api/v1/profile/grants/{id}/journal";
    const REWIND: &str = "/api/v1/profile/grants/{id}/rewind";
    let route = |method, path, operation| Route {
        access: Access::Session,
        bucket: "profile".into(),
        ..host_route(method, path, operation)
    };
    RouteGroup::host(
        vec![
            HostRoute {
                route: route(Method::GET, JOURNAL, "listGrantChanges"),
                handler: |app, request| Box::pin(list_grant_changes(app, request)),
            },
            HostRoute {
                route: Route {
                    max_body: MAX_BODY,
                    deadline: DEADLINE,
                    ..route(Method::POST, REWIND, "rewindGrant")
                },
                handler: |app, request| Box::pin(rewind_grant(app, request)),
            },
        ],
        &Description::openapi(),
    )
}
