//! The charts of the modules: the script that draws the charts, and `/admin/modules.json`, from
//! which the script reads the counts of calls every two seconds.

use http::StatusCode;
use latchmail_http::message::{self, Request, Response};
use latchmail_http::rejection::Rejection;
use latchmail_runtime::manager::report::{State, Summary};
use latchmail_runtime::modules::{AllUsage, Usage};
use maud::{Markup, html};
use serde::Serialize;

use super::super::paths;
use super::super::state::PageState;
use super::super::visit::{Visit, respond};
use crate::layout::asset;

const SCRIPT: &str = include_str!("charts.js");

/// The counts of all modules, as the script reads them.
#[derive(Serialize)]
struct Data {
    modules: Vec<Numbers>,
}

/// The counts of calls and failures of a module's current version on this host.
#[derive(Serialize)]
pub(super) struct Numbers {
    name: String,
    calls: f64,
    failed: f64,
    pub(super) texts: Texts,
    /// The CSS class of the element that shows the state.
    pub(super) class: &'static str,
}

/// The texts in the table row of a module that the script updates.
#[derive(Serialize)]
pub(super) struct Texts {
    pub(super) state: &'static str,
    pub(super) version: String,
    pub(super) calls: String,
    pub(super) cpu: String,
    pub(super) failures: String,
}

impl Numbers {
    pub(super) fn of(summary: &Summary, all: &AllUsage) -> Self {
        let version = summary.version.as_deref();
        let usage = version.map(|version| all.of(&summary.name, version));
        let usage = usage.unwrap_or_default();
        let (state, class) = match summary.state {
            State::Serving if is_failing(summary) => ("Failing", "bad"),
            State::Serving => ("Serving", "good"),
            State::Disabled => ("Disabled", ""),
            State::Failed => ("Not loaded", "bad"),
        };
        Self {
            name: summary.name.clone(),
            calls: usage.calls,
            failed: usage.failed(),
            texts: Texts {
                state,
                version: version.unwrap_or("–").to_owned(),
                calls: usage.calls.to_string(),
                cpu: cpu(&usage),
                failures: failures(&usage),
            },
            class,
        }
    }
}

/// Formats the CPU time of a version.
pub(super) fn cpu(usage: &Usage) -> String {
    format!("{:.3} s", usage.cpu)
}

/// Formats the counts of failures of a version, by the kind of the failure.
pub(super) fn failures(usage: &Usage) -> String {
    let counts = [
        ("trapped", usage.trapped),
        ("invalid response", usage.invalid_response),
        ("too slow", usage.deadline),
        ("no free sandbox", usage.busy),
    ];
    let counts: Vec<String> = counts
        .iter()
        .filter(|(_, count)| *count > 0.0)
        .map(|(kind, count)| format!("{kind}: {count}"))
        .collect();
    if counts.is_empty() {
        "none".to_owned()
    } else {
        counts.join(", ")
    }
}

/// Returns `true` if the module manager reports the current version as failing, or if the version
/// trapped or returned invalid responses in more than half of the requests.
fn is_failing(summary: &Summary) -> bool {
    summary.health.as_ref().is_some_and(|health| {
        let failed = health.trapped + health.wrong;
        health.failing || failed * 2 > health.requests
    })
}

/// Renders the button that pauses the charts, and the element that loads the script. The button is
/// hidden until the script shows it, because the button does nothing without the script.
pub(super) fn controls() -> Markup {
    html! {
        p {
            button #charts-button type="button" hidden { "Pause the charts" }
            " "
            span #charts-problem.bad role="status" {}
        }
        noscript { p.soft { "The charts need JavaScript." } }
        script type="module" src=(paths::CHARTS_SCRIPT) {}
    }
}

/// Returns the script that draws the charts.
pub(in super::super) fn script() -> Response {
    asset("text/javascript", SCRIPT)
}

/// Returns the counts of all modules. Does not renew the cookie, because a session must end after
/// an hour without a new page even if a page with charts is open.
///
/// A page with charts sends 30 of these requests per minute, so they count towards another rate
/// limit than the pages.
pub(in super::super) async fn data(
    state: &PageState,
    request: &Request,
) -> Result<Response, Rejection> {
    let page = async {
        let visit = Visit::of(state, request).await?;
        let all = AllUsage::read();
        let modules = visit.app.module_manager.list();
        let numbers = modules.iter().map(|summary| Numbers::of(summary, &all));
        let modules = numbers.collect();
        Ok(message::json(StatusCode::OK, &Data { modules })?)
    };
    respond(request, page).await
}
