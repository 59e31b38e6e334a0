//! `/admin/accounts`: finds accounts, shows their credentials, sessions and events, and disables
//! and enables them.

use http::StatusCode;
use latchmail_core::address;
use latchmail_core::clock::Timestamp;
use latchmail_core::codes;
use latchmail_directory::accounts::administration::Listed;
use latchmail_directory::credentials::{AppPasswordKind, Credential};
use latchmail_directory::events::EventFilter;
use latchmail_http::message::{Request, Response};
use latchmail_http::rejection::Rejection;
use maud::{Markup, html};
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};

use super::layout::{Confirmation, Section, button, search, table, time};
use super::log;
use super::paths;
use super::state::PageState;
use super::visit::{Refusal, Visit, respond};
use crate::layout::see_other_to;

/// The maximum number of accounts on a page.
const LIMIT: u32 = 200;

/// The number of events on the page of an account.
const EVENTS: u32 = 20;

const HEADINGS: [&str; 8] = [
    "Address",
    "State",
    "Administrator",
    "Two-factor",
    "Credentials",
    "Web sessions",
    "Last event",
    "Actions",
];

/// Lists the accounts whose address contains the query parameter `q`.
pub(super) async fn list(state: &PageState, request: &Request) -> Result<Response, Rejection> {
    let page = async {
        let visit = Visit::of(state, request).await?;
        let part = request.query("q").unwrap_or_default().trim();
        let now = visit.app.clock.now();
        // Query one account more than the page shows. If the query returns this additional account,
        // the list is incomplete.
        let directory = &visit.app.directory;
        let mut accounts = directory.accounts.matching(part, now, LIMIT + 1).await?;
        let is_incomplete = accounts.len() > LIMIT as usize;
        accounts.truncate(LIMIT as usize);
        let csrf = &visit.browser.csrf;
        let rows = html! { @for one in &accounts { (row(csrf, one)) } };
        let body = html! {
            (search(csrf, paths::ACCOUNTS, "q", "Part of an address", part))
            @if is_incomplete {
                p { "These are the first " (LIMIT) " accounts. Search for others." }
            }
            (table("Accounts", &HEADINGS, &rows))
        };
        visit.page(Some(Section::Accounts), "Accounts", &body)
    };
    respond(request, page).await
}

fn row(csrf: &str, account: &Listed) -> Markup {
    let id = format!("account-{}", account.id);
    html! {
        tr {
            th scope="row" #(id) { a href=(paths::of_account(&account.address)) { (account.address) } }
            td { (state_of(account)) }
            td { (yes_or_no(account.admin)) }
            td { (yes_or_no(account.two_factor)) }
            td.number { (account.credentials) }
            td.number { (account.sessions) }
            td { (optional_time(account.last_event_at.map(Timestamp::from_millis))) }
            td { (action(csrf, account, &id)) }
        }
    }
}

fn action(csrf: &str, account: &Listed, described_by: &str) -> Markup {
    let (verb, name) = if account.active {
        ("disable", "Disable")
    } else {
        ("enable", "Enable")
    };
    let path = format!("{}/{verb}", paths::of_account(&account.address));
    button(csrf, &path, name, described_by)
}

fn state_of(account: &Listed) -> Markup {
    html! {
        @if account.active { span.good { "Active" } } @else { span.bad { "Disabled" } }
    }
}

fn yes_or_no(value: bool) -> &'static str {
    if value { "Yes" } else { "No" }
}

fn optional_time(at: Option<Timestamp>) -> Markup {
    html! {
        @if let Some(at) = at { (time(at.millis())) } @else { "–" }
    }
}

/// Receives the search form. Redirects the browser to the list of matching accounts, so that this
/// list has a URL.
pub(super) async fn find(state: &PageState, request: &Request) -> Result<Response, Rejection> {
    let page = async {
        let (_, fields) = Visit::of_form(state, request).await?;
        let part = fields.one("q")?.unwrap_or_default();
        let part = utf8_percent_encode(part, NON_ALPHANUMERIC);
        Ok(see_other_to(&format!("{}?q={part}", paths::ACCOUNTS))?)
    };
    respond(request, page).await
}

/// Shows an account.
pub(super) async fn show(state: &PageState, request: &Request) -> Result<Response, Rejection> {
    let page = async {
        let visit = Visit::of(state, request).await?;
        let account = account(&visit, request).await?;
        let credentials = visit
            .app
            .auth
            .credentials
            .credentials_and_grants(&account.id)
            .await?;
        let filter = EventFilter {
            address: account.address.clone(),
            since: Timestamp::from_millis(0),
            until: Timestamp::from_millis(i64::MAX),
            limit: EVENTS,
        };
        let events = visit.app.directory.events.list(&filter).await?;
        let csrf = &visit.browser.csrf;
        let of_kinds = |kinds: &[AppPasswordKind]| {
            let all = credentials.iter();
            let selected = all.filter(|one| kinds.contains(&one.kind));
            selected.collect::<Vec<_>>()
        };
        let sessions = of_kinds(&[AppPasswordKind::WebSession]);
        let grants = of_kinds(&[AppPasswordKind::OAuthGrant]);
        let others = of_kinds(&[
            AppPasswordKind::AppPassword,
            AppPasswordKind::ApiToken,
            AppPasswordKind::TeamKey,
        ]);
        let body = html! {
            dl #facts {
                dt { "State" }
                dd { (state_of(&account)) }
                dt { "Administrator" }
                dd { (yes_or_no(account.admin)) }
                dt { "Two-factor sign-in" }
                dd { (yes_or_no(account.two_factor)) }
                dt { "Created" }
                dd { (time(account.created_at)) }
            }
            (action(csrf, &account, "facts"))
            h2 { "Web sessions" }
            (credentials_table("Web sessions", &sessions))
            h2 { "Credentials" }
            (credentials_table("App passwords and API tokens", &others))
            h2 { "OAuth grants" }
            (credentials_table("Applications that the user allowed", &grants))
            h2 { "Last events" }
            (log::events_table("The last events of the account", &events))
            p { a href=(paths::of_events(&account.address)) { "All events of the account" } }
        };
        visit.page(Some(Section::Accounts), &account.address, &body)
    };
    respond(request, page).await
}

fn credentials_table(caption: &str, credentials: &[&Credential]) -> Markup {
    let rows = html! {
        @for one in credentials {
            tr {
                th scope="row" { (one.label) }
                td { (one.kind.name().replace('_', " ")) }
                td { (time(one.created_at.millis())) }
                td { (optional_time(one.last_used_at)) }
                td { (optional_time(one.expires_at)) }
            }
        }
    };
    let headings = ["Name", "Kind", "Created", "Last use", "Expires"];
    html! {
        @if credentials.is_empty() { p { "None." } } @else { (table(caption, &headings, &rows)) }
    }
}

/// Disables an account after a confirmation.
pub(super) async fn disable(state: &PageState, request: &Request) -> Result<Response, Rejection> {
    let page = Box::pin(async {
        let (visit, fields) = Visit::of_form(state, request).await?;
        let account = account(&visit, request).await?;
        let address = &account.address;
        if account.id == visit.administrator.account {
            return Err(conflict("You cannot disable your own account").into());
        }
        if !fields.are_confirmed()? {
            let confirmation = Confirmation {
                action: &format!("{}/disable", paths::of_account(address)),
                button: "Disable",
                back: paths::ACCOUNTS,
                fields: &[],
                text: html! {
                    p { "The account can no longer sign in or receive mail. All its sessions and credentials are revoked. If you enable the account again, only its password works." }
                },
            };
            let body = confirmation.render(&visit.browser.csrf);
            let title = format!("Disable the account {address}?");
            return visit.page(Some(Section::Accounts), &title, &body);
        }
        let provisioning = &visit.app.auth.provisioning;
        provisioning
            .set_active(&account.id, false, &visit.origin())
            .await?;
        visit.done(
            paths::ACCOUNTS,
            format!("The account {address} is disabled."),
        )
    });
    respond(request, page).await
}

/// Enables an account. This action needs no confirmation.
pub(super) async fn enable(state: &PageState, request: &Request) -> Result<Response, Rejection> {
    let page = async {
        let (visit, _) = Visit::of_form(state, request).await?;
        let account = account(&visit, request).await?;
        let provisioning = &visit.app.auth.provisioning;
        let origin = visit.origin();
        Box::pin(provisioning.set_active(&account.id, true, &origin)).await?;
        let address = account.address;
        visit.done(
            paths::ACCOUNTS,
            format!("The account {address} is enabled."),
        )
    };
    respond(request, page).await
}

/// Returns the account whose address is in the path of the request.
async fn account(visit: &Visit<'_>, request: &Request) -> Result<Listed, Refusal> {
    let text = request.path.first().map_or("", |(_, address)| address);
    let not_found = || {
        Rejection::new(
            StatusCode::NOT_FOUND,
            codes::ACCOUNT_NOT_FOUND,
            "There is no such account",
        )
    };
    let address = address::fold(text).ok_or_else(not_found)?;
    let now = visit.app.clock.now();
    let found = visit
        .app
        .directory
        .accounts
        .with_counts(&address, now)
        .await?;
    Ok(found.ok_or_else(not_found)?)
}

fn conflict(text: &'static str) -> Rejection {
    Rejection::new(StatusCode::CONFLICT, codes::ACCOUNT_CONFLICT, text)
}
