//! `/account/grants/{id}/journal`: what an agent or a token changed, and the rewind, which undoes
//! the changes since a time.

use std::time::Duration;

use latchmail_core::clock::Timestamp;
use latchmail_core::codes;
use latchmail_http::App;
use latchmail_http::message::{Request, Response};
use latchmail_http::rejection::Rejection;
use latchmail_mailbox::journal::{JournalEntry, Report};
use maud::{Markup, html};
use serde_json::Value;

use super::claims::foreign;
use super::grants::find;
use super::paths;
use super::visit::{Visit, act, show};
use crate::elements::{Confirmation, time, token};

/// The number of changes on a page.
const LIMIT: u32 = 100;

/// The spans of time that the owner can undo. The last is as long as changes are recorded.
const SPANS: [(&str, &str, Duration); 5] = [
    ("10m", "the last 10 minutes", Duration::from_mins(10)),
    ("1h", "the last hour", Duration::from_hours(1)),
    ("1d", "the last day", Duration::from_hours(24)),
    ("7d", "the last 7 days", Duration::from_hours(7 * 24)),
    (
        "30d",
        "all recorded changes (30 days)",
        Duration::from_hours(30 * 24),
    ),
];

/// Shows the newest changes before the entry in the query parameter `before`.
pub(super) async fn list(app: &App, request: &Request) -> Result<Response, Rejection> {
    let page = Box::pin(async {
        let visit = Visit::of(app, request).await?;
        let grant = find(&visit).await?;
        let before = request.query("before").and_then(|text| text.parse().ok());
        let listed = app
            .journal
            .list(visit.account(), &grant.id, before, LIMIT)
            .await?;
        let path = journal_path(&grant.id);
        let body = html! {
            p.soft { "Changes are recorded for 30 days, newest first." }
            @if listed.entries.is_empty() { p { "There are no recorded changes." } } @else {
                (rewind_form(visit.csrf(), &path))
                h2 { "Changes" }
                (entries(&listed.entries))
            }
            @if let Some(next) = listed.next {
                p { a href={ (path) "?before=" (next) } { "Older changes" } }
            }
        };
        let title = format!("Journal of {}", grant.name);
        visit.page(paths::GRANTS, &title, &body)
    });
    show(app, request, page).await
}

/// Undoes the changes since a time, after a confirmation. Shows what was not undone.
pub(super) async fn rewind(app: &App, request: &Request) -> Result<Response, Rejection> {
    let page = Box::pin(async {
        let (visit, fields) = Visit::of_form(app, request).await?;
        let grant = find(&visit).await?;
        let path = journal_path(&grant.id);
        let span = fields.one("span")?;
        let span = SPANS.into_iter().find(|(name, ..)| Some(*name) == span);
        let (name, words, duration) = span
            .ok_or_else(|| Rejection::bad_request(codes::INVALID_FIELD, "Select a span of time"))?;
        // The confirmation contains the time, so that the time between the two forms does not
        // exclude changes.
        let since = match fields.one("since")? {
            Some(millis) => millis
                .parse::<i64>()
                .map(Timestamp::from_millis)
                .map_err(|_| {
                    Rejection::bad_request(codes::INVALID_FIELD, "since must be a time")
                })?,
            None => app.clock.now().minus(duration),
        };
        if !fields.are_confirmed()? {
            let millis = since.millis().to_string();
            let confirmation = Confirmation {
                action: &format!("{path}/rewind"),
                button: "Undo",
                back: &path,
                fields: &[("span", name), ("since", millis.as_str())],
                text: html! {
                    p { "Everything that it changed since " (time(since.millis())) " is undone, unless someone else changed the same message later. Mail that was sent stays sent." }
                    @if grant.suspended_at.is_none() {
                        p.warning { "It is active and can make new changes. Suspend it first to prevent this." }
                    }
                },
            };
            let body = confirmation.render(visit.csrf());
            let title = format!("Undo {words} of {}?", grant.name);
            return visit.page(paths::GRANTS, &title, &body);
        }
        let report = app
            .journal
            .rewind(&visit.caller, &grant.id, since, &visit.origin())
            .await?;
        let body = html! {
            (result(&report))
            p { a href=(path) { "Back to the journal" } }
        };
        let title = format!("Undone: {words} of {}", grant.name);
        visit.page(paths::GRANTS, &title, &body)
    });
    act(app, request, page).await
}

fn journal_path(id: &str) -> String {
    format!("{}/journal", paths::of(paths::GRANTS, id))
}

fn rewind_form(csrf: &str, path: &str) -> Markup {
    html! {
        form.search method="post" action={ (path) "/rewind" } {
            (token(csrf))
            div {
                label for="span" { "Undo what it changed in" }
                select #span name="span" {
                    @for (name, words, _) in &SPANS { option value=(name) { (words) } }
                }
            }
            button.danger type="submit" { "Undo" }
        }
    }
}

fn result(report: &Report) -> Markup {
    html! {
        p.notice role="status" {
            "Changes undone: " (report.undone) "."
            @if !report.complete { " Some changes were not examined. Repeat the action to continue." }
        }
        @if !report.conflicts.is_empty() {
            h2 { "Not undone, because someone else changed the same later: " (report.conflict_count) }
            (entries(&report.conflicts))
        }
        @if !report.remaining.is_empty() {
            h2 { "Cannot be undone" }
            (entries(&report.remaining))
        }
    }
}

fn entries(entries: &[JournalEntry]) -> Markup {
    html! {
        ul.cards {
            @for entry in entries {
                li {
                    p {
                        strong { (entry.kind.replace('_', " ")) } " "
                        (time(entry.at.millis()))
                        @if let Some(number) = entry.number { ", message " (number.0) }
                        @match entry.state {
                            "undone" => { " " span.good { "undone" } }
                            "unknown" => { " " span.bad { "outcome unknown" } }
                            _ => {}
                        }
                    }
                    (summary(&entry.details))
                }
            }
        }
    }
}

/// Renders the details of a change. The texts are from messages, so they are shown as text.
fn summary(details: &Value) -> Markup {
    let details = details.as_object().into_iter().flatten();
    let details: Vec<(&String, String)> = details
        .filter(|(_, value)| !value.is_null() && !value.as_array().is_some_and(Vec::is_empty))
        .map(|(name, value)| (name, plain(value)))
        .collect();
    html! {
        @if !details.is_empty() {
            dl {
                @for (name, value) in &details {
                    dt { (name) }
                    dd { (foreign(value)) }
                }
            }
        }
    }
}

/// Returns a JSON value as text for people: a string without quotation marks, a list with commas.
fn plain(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Array(values) => {
            let texts: Vec<String> = values.iter().map(plain).collect();
            texts.join(", ")
        }
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn details_of_a_change_are_text() {
        let details = json!({
            "subject": "<img src=https://evil.test/x>", "added": ["\\Seen", "todo"], "removed": [],
        });
        let shown = summary(&details).into_string();
        assert!(!shown.contains("<img"), "{shown}");
        assert!(
            shown.contains("\\Seen, todo") && !shown.contains("removed"),
            "{shown}"
        );
        assert_eq!(summary(&json!(null)).into_string(), "");
    }
}
