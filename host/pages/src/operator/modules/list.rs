//! `/admin/modules`: the modules with their versions, permissions, calls and failures. The counts
//! of calls and failures are the values of the metrics.

use http::{HeaderValue, header};
use latchmail_http::message::{Request, Response};
use latchmail_http::rejection::Rejection;
use latchmail_runtime::manager::report::{Report, VersionReport};
use latchmail_runtime::modules::AllUsage;
use maud::{Markup, html};

use super::super::layout::{POLICY_WITH_SCRIPT, Section, button, table};
use super::super::paths;
use super::super::state::PageState;
use super::super::visit::{Visit, respond};
use super::charts::{self, Numbers};
use super::parts::{grants, last_problem, state_of, switch_button};

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

/// The data of a row in the table of modules: the module, its counts, and the version before the
/// current version.
struct Row {
    report: Report,
    numbers: Numbers,
    earlier: Option<VersionReport>,
}

/// Lists the modules.
pub(in super::super) async fn list(
    state: &PageState,
    request: &Request,
) -> Result<Response, Rejection> {
    let page = async {
        let visit = Visit::of(state, request).await?;
        let modules = &visit.app.module_manager;
        let usage = AllUsage::read();
        let mut rows = Vec::new();
        for summary in modules.list() {
            let name = &summary.name;
            // `show` fails if another administrator removed the module after `list`. So the page
            // omits this module.
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
            th scope="row" #(id) { a href=(paths::of_module(name)) { (name) } }
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
                    (button(csrf, &format!("{}/rollback", paths::of_module(name)), "Roll back", &id))
                }
            }
        }
    }
}
