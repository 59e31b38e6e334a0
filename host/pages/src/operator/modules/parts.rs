//! The HTML elements that several pages about modules contain.

use latchmail_http::message::Request;
use latchmail_runtime::manager::report::{Policy, State, Summary};
use maud::{Markup, html};

use super::super::layout::{button, time_of_text};
use super::super::paths;
use super::charts::Numbers;

/// Renders the button that disables or enables a module.
pub(super) fn switch_button(csrf: &str, summary: &Summary, described_by: &str) -> Markup {
    let (verb, text) = if summary.state == State::Serving {
        ("disable", "Disable")
    } else {
        ("enable", "Enable")
    };
    let path = format!("{}/{verb}", paths::of_module(&summary.name));
    button(csrf, &path, text, described_by)
}

pub(super) fn state_of(summary: &Summary, numbers: &Numbers) -> Markup {
    html! {
        span data-text="state" class=(numbers.class) { (numbers.texts.state) }
        @if let Some(problem) = &summary.problem {
            br;
            (problem)
        }
    }
}

pub(super) fn last_problem(summary: &Summary) -> Markup {
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

pub(super) fn grants(policy: Option<&Policy>) -> String {
    match policy {
        Some(policy) if policy.grants.is_empty() => "none".to_owned(),
        Some(policy) => policy.grants.join(", "),
        None => "–".to_owned(),
    }
}

/// Returns the name of the module from the path of the request.
pub(super) fn name(request: &Request) -> &str {
    request.path.first().map_or("", |(_, name)| name)
}
