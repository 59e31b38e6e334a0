//! `GET /api/v1/profile/events`: lists the security events of the caller's account. The operator's
//! API lists the events of an account in the same form ([`page`]).

use std::time::Duration;

use http::StatusCode;
use latchmail_core::clock::Timestamp;
use latchmail_core::codes;
use latchmail_directory::events::{AccountEvents, Recorded};
use serde::Serialize;
use utoipa::ToSchema;

use crate::app::App;
use crate::message::{self, Request, Response};
use crate::rejection::Rejection;

/// The time for which events are listed.
const PERIOD: Duration = Duration::from_hours(90 * 24);
/// The default and the maximum number of events of a page.
const DEFAULT_LIMIT: u32 = 50;
const MAX_LIMIT: u32 = 100;

/// A security event of an account.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct SecurityEvent {
    /// The id of the event.
    id: String,
    /// The kind of the event, for example `signed_in`. New versions can add kinds.
    #[serde(rename = "type")]
    kind: String,
    /// The time of the event.
    #[schema(value_type = String, format = DateTime)]
    time: Timestamp,
    /// Who caused the event: an address, `operator` or `service`. Empty for a client that is not
    /// authenticated.
    actor: String,
    /// The id of the credential that caused the event, as in the list of credentials.
    credential: Option<String>,
    /// The client's IP address.
    client: Option<String>,
    /// What the event is about: the id of a credential, or an address.
    subject: Option<String>,
    /// Details for people.
    detail: Option<String>,
    /// The number of events that this entry stands for. A day has a maximum number of entries for
    /// failed sign-ins; further failures are only counted.
    count: i64,
}

impl From<Recorded> for SecurityEvent {
    fn from(event: Recorded) -> Self {
        Self {
            id: event.id.to_string(),
            kind: event.kind,
            time: Timestamp::from_millis(event.at),
            actor: event.actor,
            credential: event.credential,
            client: event.client,
            subject: event.subject,
            detail: event.detail,
            count: event.unlisted.saturating_add(1),
        }
    }
}

/// A page of security events.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct SecurityEvents {
    /// The events, the newest first.
    events: Vec<SecurityEvent>,
    /// The cursor of the next page. `null` on the last page.
    next_cursor: Option<String>,
}

/// Lists the security events of the account.
///
/// Lists the events of the last 90 days, for example sign-ins, failed sign-ins, changes of the
/// password, and the creation and the use of credentials from a new network. The events contain no
/// secrets.
///
/// # Errors
/// Returns 400 if a parameter is invalid.
#[utoipa::path(
    get,
    path = "/api/v1/profile/events",
    operation_id = "listSecurityEvents",
    tag = "Profile",
    params(
        ("limit" = Option<u32>, Query, minimum = 1, maximum = 100, description = "The maximum number of events; 50 by default"),
        ("cursor" = Option<String>, Query, description = "The cursor from the previous page"),
        ("credential" = Option<String>, Query, description = "Only events that a credential caused or that are about it: the id of the credential"),
    ),
    responses(
        (status = 200, description = "The events", body = SecurityEvents),
        (status = 400, description = "`Invalid cursor`, or a text that names the parameter", body = ref("#/components/schemas/Error")),
    ),
    extensions(("x-latchmail" = json!(true))),
)]
pub(super) async fn list_security_events(
    app: &App,
    request: &Request,
) -> Result<Response, Rejection> {
    let account = &request.caller()?.account;
    message::json(StatusCode::OK, &page(app, account, request).await?)
}

/// Returns the page of events that the query of a request selects.
///
/// # Errors
/// Returns 400 if a parameter is invalid, and 500 if the database fails.
pub async fn page(
    app: &App,
    account_id: &str,
    request: &Request,
) -> Result<SecurityEvents, Rejection> {
    let limit = match request.query("limit").map(str::parse::<u32>) {
        None => DEFAULT_LIMIT,
        Some(Ok(limit)) if (1..=MAX_LIMIT).contains(&limit) => limit,
        Some(_) => {
            return Err(Rejection::bad_request(
                codes::INVALID_FIELD,
                "limit must be a number from 1 to 100",
            ));
        }
    };
    let before = match request.query("cursor").map(str::parse::<i64>) {
        None => None,
        Some(Ok(id)) if id > 0 => Some(id),
        Some(_) => {
            return Err(Rejection::bad_request(
                codes::INVALID_CURSOR,
                "Invalid cursor",
            ));
        }
    };
    let wanted = AccountEvents {
        before,
        since: app.clock.now().minus(PERIOD),
        credential: request.query("credential"),
        limit: limit + 1,
    };
    let events = &app.directory.events;
    let mut found = events.of_account(account_id, wanted).await?;
    let limit = usize::try_from(limit).unwrap_or(usize::MAX);
    let has_more = found.len() > limit;
    found.truncate(limit);
    let last = found.last().filter(|_| has_more);
    Ok(SecurityEvents {
        next_cursor: last.map(|event| event.id.to_string()),
        events: found.into_iter().map(SecurityEvent::from).collect(),
    })
}
