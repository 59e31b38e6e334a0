//! `/admin/modules`: the modules with their versions, permissions and results. The numbers of calls
//! are those of the metrics.

mod change;
mod charts;
mod show;

use http::{HeaderValue, header};
use latchmail_runtime::manager::report::{Policy, Report, State, Summary, VersionReport};
use latchmail_runtime::modules::AllUsage;
use maud::{Markup, html};

use super::layout::{POLICY_WITH_SCRIPT, Section, button, table, time_of_text};
use super::listener::PageState;
use super::visit::{Visit, respond};
use crate::message::{Request, Response};
use crate::rejection::Rejection;
use charts::Numbers;

pub(super) use change::{disable, enable, roll_back, switch};
pub(super) use charts::{DATA_PATH, SCRIPT_PATH, data, script};
pub(super) use show::show;

pub(super) const PATH: &str = "/admin/modules";

const HEADINGS: [&str; 9] = [
    "Module",
    "State",
    "Version",
    "Permissions",
    "Calls",
    "CPU time",
    "Failures",
    "Calls per second",
    "Actions",
];

/// A module, its numbers, and the version before the current one.
struct Row {
    report: Report,
    numbers: Numbers,
    earlier: Option<VersionReport>,
}

/// Lists the modules.
pub(super) async fn list(state: &PageState, request: &Request) -> Result<Response, Rejection> {
    let page = async {
        let visit = Visit::of(state, request).await?;
        let modules = &visit.app.module_manager;
        let usage = AllUsage::read();
        let mut rows = Vec::new();
        for summary in modules.list() {
            let name = &summary.name;
            // Another administrator can remove the module concurrently.
            if let Ok(report) = modules.show(name).await {
                let numbers = Numbers::of(&report.summary, &usage);
                let earlier = modules.earlier_version(name).await.ok();
                rows.push(Row {
                    report,
                    numbers,
                    earlier,
                });
            }
        }
        let csrf = &visit.browser.csrf;
        let rows = html! { @for one in &rows { (row(csrf, one)) } };
        let body = html! {
            p.soft { "The numbers are those of the current versions on this host since its start. The page of a module shows all versions." }
            (charts::controls())
            (table("Modules of this service", &HEADINGS, &rows))
        };
        let page = visit.page(Some(Section::Modules), "Modules", &body)?;
        let policy = HeaderValue::from_static(POLICY_WITH_SCRIPT);
        Ok(page.with(header::CONTENT_SECURITY_POLICY, policy))
    };
    respond(request, page).await
}

fn row(csrf: &str, one: &Row) -> Markup {
    let Row {
        report,
        numbers,
        earlier,
    } = one;
    let summary = &report.summary;
    let (name, texts) = (&summary.name, &numbers.texts);
    let id = format!("module-{name}");
    html! {
        tr {
            th scope="row" #(id) { a href=(path_of(name)) { (name) } }
            td { (state_of(summary, numbers)) }
            td {
                span data-text="version" { (texts.version) }
                @if let Some(earlier) = earlier { br; span.soft { "earlier: " (earlier.version) } }
            }
            td { (grants(report.policy.as_ref())) }
            td.number data-text="calls" { (texts.calls) }
            td.number data-text="cpu" { (texts.cpu) }
            td {
                span data-text="failures" { (texts.failures) }
                (last_problem(summary))
            }
            td.chart data-chart=(name) { "–" }
            td {
                (switch_button(csrf, summary, &id))
                @if earlier.is_some() {
                    (button(csrf, &format!("{}/rollback", path_of(name)), "Roll back", &id))
                }
            }
        }
    }
}

/// Renders the button that disables or enables a module.
fn switch_button(csrf: &str, summary: &Summary, described_by: &str) -> Markup {
    let (verb, text) = if summary.state == State::Serving {
        ("disable", "Disable")
    } else {
        ("enable", "Enable")
    };
    let path = format!("{}/{verb}", path_of(&summary.name));
    button(csrf, &path, text, described_by)
}

/// Returns `true` if the version traps or returns invalid responses. A version with few requests
/// counts as failing if most of these requests failed.
fn is_failing(summary: &Summary) -> bool {
    summary.health.as_ref().is_some_and(|health| {
        let failed = health.trapped + health.wrong;
        health.failing || failed * 2 > health.requests
    })
}

fn state_of(summary: &Summary, numbers: &Numbers) -> Markup {
    html! {
        span data-text="state" class=(numbers.class) { (numbers.texts.state) }
        @if let Some(problem) = &summary.problem {
            br;
            (problem)
        }
    }
}

fn last_problem(summary: &Summary) -> Markup {
    let health = summary.health.as_ref();
    let last = health.and_then(|health| {
        let (text, at) = (&health.last_problem, &health.last_problem_at);
        text.as_deref().zip(at.as_deref())
    });
    html! {
        @if let Some((text, at)) = last {
            br;
            "Last: " (time_of_text(at)) ", " (text)
        }
    }
}

fn grants(policy: Option<&Policy>) -> String {
    match policy {
        Some(policy) if policy.grants.is_empty() => "none".to_owned(),
        Some(policy) => policy.grants.join(", "),
        None => "–".to_owned(),
    }
}

/// Returns the path of the page of a module. Names of modules consist of lowercase letters, digits
/// and hyphens.
fn path_of(name: &str) -> String {
    format!("{PATH}/{name}")
}

/// Returns the name of the module from the path of the request.
fn name(request: &Request) -> &str {
    request.path.first().map_or("", |(_, name)| name)
}
