//! `/account/holds`: messages that agents and tokens want to send and that wait for a decision of
//! the owner. The page shows the exact recipients, the text as text only, and the names of the
//! attachments. A decision is bound to the hash of the shown message.

use http::StatusCode;
use latchmail_core::clock::Timestamp;
use latchmail_core::codes;
use latchmail_html::readable;
use latchmail_http::App;
use latchmail_http::message::{Request, Response};
use latchmail_http::rejection::Rejection;
use latchmail_mailbox::drafts::StoredDraft;
use latchmail_mailbox::holds::{Decision, HeldMessage, Hold};
use maud::{Markup, html};

use super::claims::{foreign, mention_service, visible};
use super::paths;
use super::visit::{Refusal, Visit, act, show};
use crate::elements::{time, token};

/// The maximum length of the shown text, in bytes. The page says if a text is longer.
const MAX_TEXT: usize = 100_000;

/// The maximum length of the HTML that is converted to text, in bytes.
const MAX_HTML: usize = 500_000;

/// The status of a hold that waits for a decision.
const PENDING: &str = "pending";

/// The title of the page of a hold. It has no word of the agent.
const TITLE: &str = "Message that waits for your decision";

/// Returns the number of messages that wait for a decision.
pub(super) async fn pending(visit: &Visit<'_>) -> Result<usize, Refusal> {
    let holds = visit.app.holds.list(visit.account()).await?;
    Ok(holds.iter().filter(|hold| hold.status == PENDING).count())
}

/// Lists the messages: first those that wait, then those that were decided.
pub(super) async fn list(app: &App, request: &Request) -> Result<Response, Rejection> {
    let page = Box::pin(async {
        let visit = Visit::of(app, request).await?;
        let holds = app.holds.list(visit.account()).await?;
        let (waiting, decided): (Vec<Hold>, Vec<Hold>) =
            holds.into_iter().partition(|hold| hold.status == PENDING);
        let body = html! {
            p.soft { "The policy of an agent or a token did not allow these messages. A message without a decision is rejected after 24 hours." }
            h2 { "Waiting" }
            @if waiting.is_empty() { p { "No message waits for your decision." } }
            ul.cards { @for hold in &waiting { li { (card(app, hold)) } } }
            @if !decided.is_empty() {
                h2 { "Decided" }
                ul.cards { @for hold in &decided { li { (card(app, hold)) } } }
            }
        };
        visit.page(paths::HOLDS, "Held mail", &body)
    });
    show(app, request, page).await
}

fn card(app: &App, hold: &Hold) -> Markup {
    let is_claim = mention_service(app, &[&hold.subject]);
    html! {
        h3 { a href=(paths::of(paths::HOLDS, &hold.id)) { (subject(hold)) } }
        @if is_claim { (claim_warning(app)) }
        p { "From " (foreign(&hold.grant_name)) ", to " (foreign(&hold.recipients.join(", "))) }
        p {
            (time(hold.created_at.millis())) ". "
            @if hold.status == PENDING { "Rejected without a decision at " (time(hold.expires_at.millis())) "." }
            @else { (status(hold)) }
        }
    }
}

/// Shows one message.
pub(super) async fn one(app: &App, request: &Request) -> Result<Response, Rejection> {
    let page = Box::pin(async {
        let visit = Visit::of(app, request).await?;
        let held = app.holds.find(&visit.access(), visit.id()).await?;
        let held = held.ok_or_else(missing)?;
        let body = message(app, visit.csrf(), &held);
        visit.page(paths::HOLDS, TITLE, &body)
    });
    show(app, request, page).await
}

fn message(app: &App, csrf: &str, shown: &HeldMessage) -> Markup {
    let hold = &shown.hold;
    let path = paths::of(paths::HOLDS, &hold.id);
    let (text, is_incomplete) = shown.message.as_ref().map(shown_text).unwrap_or_default();
    let names = shown.message.iter().flat_map(|draft| &draft.from);
    let mut texts: Vec<&str> = vec![hold.subject.as_str(), text.as_str(), hold.from.as_str()];
    texts.extend(names.map(|from| from.name.as_str()));
    html! {
        dl {
            dt { "Agent or token" }
            dd { (foreign(&hold.grant_name)) }
            dt { "Reason" }
            dd { "The policy does not allow " (hold.reason) "." }
            dt { "State" }
            dd { (status(hold)) }
            @if hold.status == PENDING {
                dt { "Rejected without a decision at" }
                dd { (time(hold.expires_at.millis())) }
            }
            @if hold.send_at > hold.created_at {
                dt { "To be sent at" }
                dd { (time(hold.send_at.millis())) }
            }
        }
        h2 { "All recipients" }
        ul { @for recipient in &hold.recipients { li { (foreign(recipient)) } } }
        h2 #message { "Message" }
        p.soft { (app.config.service_name) " did not write what follows. The page shows it as text, with the targets of links, and loads nothing from it." }
        @if mention_service(app, &texts) { (claim_warning(app)) }
        section.foreign aria-labelledby="message" {
            dl {
                dt { "From" }
                dd { (foreign(&hold.from)) }
                @if let Some(draft) = &shown.message { (headers(draft)) }
                dt { "Subject" }
                dd { (subject(hold)) }
            }
            @if shown.message.is_some() { pre dir="auto" { (visible(&text)) } }
            @else { p { "The text is no longer stored." } }
            @if is_incomplete { p.warning { "The text is longer than this page, or a part of it is not shown." } }
        }
        h2 { "Attachments" }
        @if hold.files.is_empty() { p { "None." } }
        ul {
            @for file in &hold.files {
                li { (foreign(&file.filename)) ", " (foreign(&file.content_type)) ", " (file.size) " bytes" }
            }
        }
        @if hold.status == PENDING {
            h2 { "Your decision" }
            div.actions {
                (decision(csrf, &format!("{path}/approve"), "Send the message", "primary", &hold.hash))
                (decision(csrf, &format!("{path}/reject"), "Reject", "danger", &hold.hash))
            }
        }
    }
}

/// Renders the header fields with addresses, because recipients can also be in Bcc.
fn headers(draft: &StoredDraft) -> Markup {
    let fields = [
        ("To", &draft.to),
        ("Cc", &draft.cc),
        ("Bcc", &draft.bcc),
        ("Replies go to", &draft.reply_to),
    ];
    html! {
        @for (name, addresses) in fields {
            @if !addresses.is_empty() {
                dt { (name) }
                @for one in addresses {
                    dd { (foreign(&format!("{} <{}>", one.name, one.address))) }
                }
            }
        }
    }
}

/// Returns the text of a message with the targets of its links. The second value is `true` if the
/// text is not complete. A message with HTML can have another plain text, so both are shown.
fn shown_text(draft: &StoredDraft) -> (String, bool) {
    let mut text = draft.text.clone().unwrap_or_default();
    let mut is_incomplete = draft.truncated;
    if let Some(html) = &draft.html {
        let beginning = html.get(..html.floor_char_boundary(MAX_HTML));
        let beginning = beginning.unwrap_or_default();
        let found = readable(beginning);
        is_incomplete |= found.hidden || found.incomplete || beginning.len() < html.len();
        if text.trim() != found.text.trim() {
            if !text.is_empty() {
                text.push_str("\n\n--- The formatted version of the same message ---\n\n");
            }
            text.push_str(&found.text);
        }
    }
    if text.len() > MAX_TEXT {
        text.truncate(text.floor_char_boundary(MAX_TEXT));
        is_incomplete = true;
    }
    (text, is_incomplete)
}

fn decision(csrf: &str, action: &str, name: &str, class: &str, hash: &str) -> Markup {
    html! {
        form method="post" action=(action) {
            (token(csrf))
            input type="hidden" name="hash" value=(hash);
            button class=(class) type="submit" aria-describedby="message" { (name) }
        }
    }
}

fn subject(hold: &Hold) -> Markup {
    html! {
        @if hold.subject.is_empty() { "(no subject)" } @else { (foreign(&hold.subject)) }
    }
}

/// Renders the warning for a text that names this service.
fn claim_warning(app: &App) -> Markup {
    let service = &app.config.service_name;
    html! {
        p.warning { "This message names " (service) ". It is not from " (service) "." }
    }
}

fn status(hold: &Hold) -> Markup {
    let at = hold.decided_at.map(Timestamp::millis);
    html! {
        @match hold.status.as_str() {
            PENDING => { "Waits for your decision" }
            "approved" => { span.good { "Approved" } }
            "rejected" => { span.bad { "Rejected" } }
            "expired" => { span.bad { "Rejected without a decision" } }
            other => { (other) }
        }
        @if let Some(at) = at { " " (time(at)) }
    }
}

/// Approves a message, so that it is sent.
pub(super) async fn approve(app: &App, request: &Request) -> Result<Response, Rejection> {
    decide(app, request, true).await
}

/// Rejects a message.
pub(super) async fn reject(app: &App, request: &Request) -> Result<Response, Rejection> {
    decide(app, request, false).await
}

async fn decide(app: &App, request: &Request, approves: bool) -> Result<Response, Rejection> {
    let page = Box::pin(async move {
        let (visit, fields) = Visit::of_form(app, request).await?;
        let hash = fields.one("hash")?.unwrap_or_default();
        let (access, origin) = (visit.access(), visit.origin());
        let (sid, id) = (visit.sid(), visit.id());
        let decided = if approves {
            app.holds.approve(&access, sid, (id, hash), &origin).await
        } else {
            app.holds.reject(&access, sid, (id, hash), &origin).await
        };
        match decided? {
            Decision::Done => {
                let notice = if approves {
                    "The message is approved and will be sent."
                } else {
                    "The message is rejected."
                };
                visit.done(paths::HOLDS, notice)
            }
            Decision::NotFound => Err(missing().into()),
            Decision::Changed => Err(changed().into()),
            Decision::SessionOver => Err(Refusal::SignInRequired),
        }
    });
    act(app, request, page).await
}

fn missing() -> Rejection {
    Rejection::new(
        StatusCode::NOT_FOUND,
        codes::HOLD_NOT_FOUND,
        "Hold not found",
    )
}

/// Returns the rejection of a decision about another message than the stored one.
fn changed() -> Rejection {
    let text = "The hold has changed";
    Rejection::new(StatusCode::CONFLICT, codes::HOLD_CHANGED, text)
}
