//! `/admin/log`: the audit events, which include the changes that administrators and the operator
//! made.

use latchmail_core::clock::Timestamp;
use latchmail_directory::events::{EventFilter, Recorded};
use latchmail_http::message::{Request, Response};
use latchmail_http::rejection::Rejection;
use maud::{Markup, html};

use super::layout::{Section, search, table, time};
use super::paths;
use super::state::PageState;
use super::visit::{Visit, respond};
use crate::layout::see_other_to;

/// The number of events on a page.
const LIMIT: u32 = 100;

const HEADINGS: [&str; 7] = [
    "Time", "Event", "Account", "Actor", "Client", "Subject", "Details",
];

/// Shows the newest events before the time in the query parameter `before`, in milliseconds since
/// the Unix epoch. The parameter `address` selects the events of one account.
pub(super) async fn show(state: &PageState, request: &Request) -> Result<Response, Rejection> {
    let page = async {
        let visit = Visit::of(state, request).await?;
        let address = request.query("address").unwrap_or_default().trim();
        let before = request.query("before").and_then(|text| text.parse().ok());
        let filter = EventFilter {
            address: address.to_lowercase(),
            since: Timestamp::from_millis(0),
            until: Timestamp::from_millis(before.unwrap_or(i64::MAX)),
            limit: LIMIT,
        };
        let events = visit.app.directory.events.list(&filter).await?;
        let body = html! {
            (search(&visit.browser.csrf, paths::LOG, "address", "Address of an account", address))
            (events_table("Security events and changes, newest first", &events))
            @if let Some(next) = next_page(&events) {
                p { a href={ (paths::of_events(address)) "&before=" (next) } { "Older events" } }
            }
        };
        visit.page(Some(Section::Log), "Log", &body)
    };
    respond(request, page).await
}

/// Returns the value of `before` for the page with older events, or `None` if `events` is the last
/// page. The next page starts with the time of the last event on this page, because further events
/// can have the same time. If all events on this page have the same time, the next page starts
/// before this time, because otherwise it would show the same events again.
fn next_page(events: &[Recorded]) -> Option<i64> {
    let (first, last) = (events.first()?, events.last()?);
    let is_full = events.len() == LIMIT as usize;
    is_full.then_some(if first.at == last.at {
        last.at
    } else {
        last.at + 1
    })
}

/// Receives the search form. Redirects the browser to the events of the entered address.
pub(super) async fn find(state: &PageState, request: &Request) -> Result<Response, Rejection> {
    let page = async {
        let (_, fields) = Visit::of_form(state, request).await?;
        let address = fields.one("address")?.unwrap_or_default();
        Ok(see_other_to(&paths::of_events(address))?)
    };
    respond(request, page).await
}

/// Renders a table of events, or a sentence if there are no events.
pub(super) fn events_table(caption: &str, events: &[Recorded]) -> Markup {
    let rows = html! {
        @for event in events {
            tr {
                td { (time(event.at)) }
                th scope="row" {
                    (event.kind)
                    @if event.unlisted > 0 { " (and " (event.unlisted) " similar)" }
                }
                td { (event.address) }
                td { (event.actor) }
                td { (event.client.as_deref().unwrap_or_default()) }
                td { (event.subject.as_deref().unwrap_or_default()) }
                td { (event.detail.as_deref().unwrap_or_default()) }
            }
        }
    };
    html! {
        @if events.is_empty() { p { "There are no events." } } @else { (table(caption, &HEADINGS, &rows)) }
    }
}
