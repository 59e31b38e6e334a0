//! `/admin/modules`: the modules with their versions, permissions and results, and the actions on a module.

use latchmail_core::limits::Bucket;
use latchmail_runtime::manager::report::{Report, State, Summary, VersionReport};
use maud::{Markup, html};

use super::layout::{Confirmation, Section, button, table, time_of_text};
use super::listener::PageState;
use super::visit::{Refusal, Visit, respond};
use crate::message::{Request, Response};
use crate::rejection::Rejection;

pub(super) const PATH: &str = "/admin/modules";

const HEADINGS: [&str; 8] = [
    "Module",
    "State",
    "Version",
    "Earlier version",
    "Permissions",
    "Calls",
    "Failures",
    "Actions",
];

/// A module and the version before the current one.
struct Row {
    report: Report,
    earlier: Option<VersionReport>,
}

/// Lists the modules.
pub(super) async fn list(state: &PageState, request: &Request) -> Result<Response, Rejection> {
    let page = async {
        let visit = Visit::of(state, request).await?;
        let modules = &visit.app.module_manager;
        let mut rows = Vec::new();
        for summary in modules.list() {
            let name = &summary.name;
            // Another administrator can remove the module concurrently.
            if let Ok(report) = modules.show(name).await {
                let earlier = modules.earlier_version(name).await.ok();
                rows.push(Row { report, earlier });
            }
        }
        let csrf = &visit.browser.csrf;
        let rows = html! { @for one in &rows { (row(csrf, one)) } };
        let body = html! {
            p.soft { "The numbers are the results of this host since the version was loaded." }
            (table("Modules of this service", &HEADINGS, &rows))
        };
        visit.page(Some(Section::Modules), "Modules", &body)
    };
    respond(state, request, Bucket::Admin, page).await
}

fn row(csrf: &str, Row { report, earlier }: &Row) -> Markup {
    let summary = &report.summary;
    let name = &summary.name;
    let id = format!("module-{name}");
    let action = |verb: &str| format!("{PATH}/{name}/{verb}");
    let grants = match &report.policy {
        Some(policy) if policy.grants.is_empty() => "none".to_owned(),
        Some(policy) => policy.grants.join(", "),
        None => "–".to_owned(),
    };
    html! {
        tr {
            th scope="row" #(id) { (name) }
            td { (state_of(summary)) }
            td { (summary.version.as_deref().unwrap_or("–")) }
            td { (earlier.as_ref().map_or("–", |one| one.version.as_str())) }
            td { (grants) }
            td.number { (summary.health.as_ref().map_or(0, |health| health.requests)) }
            td { (failures(summary)) }
            td {
                @if summary.state == State::Serving {
                    (button(csrf, &action("disable"), "Disable", &id))
                } @else {
                    (button(csrf, &action("enable"), "Enable", &id))
                }
                @if earlier.is_some() {
                    (button(csrf, &action("rollback"), "Roll back", &id))
                }
            }
        }
    }
}

/// Returns `true` if the version traps or returns invalid responses. A version with few requests counts as failing if most of these requests failed.
fn is_failing(summary: &Summary) -> bool {
    summary.health.as_ref().is_some_and(|health| {
        let failed = health.trapped + health.wrong;
        health.failing || failed * 2 > health.requests
    })
}

fn state_of(summary: &Summary) -> Markup {
    html! {
        @match summary.state {
            State::Serving if is_failing(summary) => { span.bad { "Failing" } },
            State::Serving => { span.good { "Serving" } },
            State::Disabled => { "Disabled" },
            State::Failed => { span.bad { "Not loaded" } },
        }
        @if let Some(problem) = &summary.problem {
            br;
            (problem)
        }
    }
}

fn failures(summary: &Summary) -> Markup {
    let Some(health) = &summary.health else {
        return html! { "–" };
    };
    let counts = [
        ("trapped", health.trapped),
        ("invalid response", health.wrong),
        ("too slow", health.late),
        ("no free sandbox", health.busy),
    ];
    let counts: Vec<String> = counts
        .iter()
        .filter(|(_, count)| *count > 0)
        .map(|(kind, count)| format!("{kind}: {count}"))
        .collect();
    html! {
        @if counts.is_empty() { "none" } @else { (counts.join(", ")) }
        @if let (Some(text), Some(at)) = (&health.last_problem, &health.last_problem_at) {
            br;
            "Last: " (time_of_text(at)) ", " (text)
        }
    }
}

/// Enables a module. This action needs no confirmation.
pub(super) async fn enable(state: &PageState, request: &Request) -> Result<Response, Rejection> {
    let page = Box::pin(async {
        let (visit, _) = Visit::of_form(state, request).await?;
        let (app, name) = (visit.app, name(request));
        let origin = visit.origin();
        app.module_manager.enable(app, name, &origin).await?;
        visit.done(PATH, format!("The module {name} is enabled."))
    });
    respond(state, request, Bucket::Admin, page).await
}

/// Disables a module after a confirmation.
pub(super) async fn disable(state: &PageState, request: &Request) -> Result<Response, Rejection> {
    let page = Box::pin(async {
        let (visit, fields) = Visit::of_form(state, request).await?;
        let (app, name) = (visit.app, name(request));
        if !fields.are_confirmed()? {
            app.module_manager.show(name).await?;
            return confirm(
                visit,
                name,
                "disable",
                "Disable",
                &[],
                html! {
                    p { "The routes of the module are not available until the module is enabled again." }
                },
            );
        }
        let origin = visit.origin();
        app.module_manager.disable(app, name, &origin).await?;
        visit.done(PATH, format!("The module {name} is disabled."))
    });
    respond(state, request, Bucket::Admin, page).await
}

/// Rolls a module back after a confirmation. The confirmation contains the version, so a second submission of the form does not roll back further.
pub(super) async fn roll_back(state: &PageState, request: &Request) -> Result<Response, Rejection> {
    let page = Box::pin(async {
        let (visit, fields) = Visit::of_form(state, request).await?;
        let (app, name) = (visit.app, name(request));
        let modules = &app.module_manager;
        if !fields.are_confirmed()? {
            let report = modules.show(name).await?;
            let earlier = modules.earlier_version(name).await?;
            let current = report.summary.version.as_deref().unwrap_or("none");
            let hidden = [("digest", earlier.digest.as_str())];
            return confirm(
                visit,
                name,
                "rollback",
                "Roll back",
                &hidden,
                html! {
                    p { "The earlier version replaces the current version at once, with the current permissions of the module." }
                    dl {
                        dt { "Current version" }
                        dd { (current) }
                        dt { "Earlier version" }
                        dd { (earlier.version) }
                    }
                },
            );
        }
        let digest = fields.one("digest")?;
        let origin = visit.origin();
        let report = modules.roll_back(app, name, digest, &origin).await?;
        let version = report.summary.version.unwrap_or_default();
        visit.done(PATH, format!("The module {name} serves version {version}."))
    });
    respond(state, request, Bucket::Admin, page).await
}

/// Asks for the confirmation of an action on a module.
fn confirm(
    visit: Visit<'_>,
    name: &str,
    verb: &str,
    button: &str,
    fields: &[(&str, &str)],
    text: Markup,
) -> Result<Response, Refusal> {
    let confirmation = Confirmation {
        action: &format!("{PATH}/{name}/{verb}"),
        button,
        back: PATH,
        fields,
        text,
    };
    let body = confirmation.render(&visit.browser.csrf);
    let title = format!("{button} the module {name}?");
    visit.page(Some(Section::Modules), &title, &body)
}

/// Returns the name of the module from the path of the request.
fn name(request: &Request) -> &str {
    request.path.first().map_or("", |(_, name)| name)
}
