//! `/admin/modules/{name}`: a module with its limits and its stored versions. On this page, the
//! administrator can switch to another version.

use latchmail_handlers::ModuleMailboxes;
use latchmail_http::message::{Request, Response};
use latchmail_http::rejection::Rejection;
use latchmail_runtime::manager::report::{Policy, VersionReport};
use latchmail_runtime::modules::AllUsage;
use maud::{Markup, html};

use super::super::layout::{Section, table, time_of_text, token};
use super::super::paths;
use super::super::state::PageState;
use super::super::visit::{Visit, respond};
use super::charts::{self, Numbers};
use super::parts::{grants, last_problem, name, state_of, switch_button};

/// The number of hexadecimal digits of a digest that the table shows. The command
/// `latchmail module` prints the same number of digits.
const DIGEST_DIGITS: usize = 12;

const HEADINGS: [&str; 8] = [
    "Version",
    "Digest",
    "Size",
    "Installed",
    "Calls",
    "CPU time",
    "Failures",
    "Actions",
];

const PAUSED_HEADINGS: [&str; 3] = ["Account", "Since", "Reason"];

/// Shows a module.
pub(in super::super) async fn show(
    state: &PageState,
    request: &Request,
) -> Result<Response, Rejection> {
    let page = async {
        let visit = Visit::of(state, request).await?;
        let name = name(request);
        let report = visit.app.module_manager.show(name).await?;
        let mailboxes = visit.app.handlers.mailboxes(name).await?;
        let usage = AllUsage::read();
        let (summary, csrf) = (&report.summary, &visit.browser.csrf);
        let numbers = Numbers::of(summary, &usage);
        let rows = html! { @for one in &report.versions { (row(csrf, name, one, &usage)) } };
        let body = html! {
            dl #facts {
                dt { "State" }
                dd { (state_of(summary, &numbers)) (last_problem(summary)) }
                dt { "Current version" }
                dd { (numbers.texts.version) }
                dt { "Permissions" }
                dd { (grants(report.policy.as_ref())) }
                @if let Some(policy) = &report.policy { (limits(policy)) }
            }
            (switch_button(csrf, summary, "facts"))
            @if let Some(mailboxes) = &mailboxes { (mailbox_list(name, mailboxes)) }
            h2 { "Versions" }
            p.soft { "The numbers are those of this host since its start." }
            (table("Installed versions, the newest first", &HEADINGS, &rows))
        };
        visit.page(Some(Section::Modules), &format!("Module {name}"), &body)
    };
    respond(request, page).await
}

/// Shows for how many mailboxes a module acts without a request, and for which it is paused.
fn mailbox_list(module: &str, mailboxes: &ModuleMailboxes) -> Markup {
    let rows = html! {
        @for paused in &mailboxes.paused_mailboxes {
            tr {
                th scope="row" { (paused.account) }
                td { (time_of_text(&paused.since)) }
                td { (paused.reason) }
            }
        }
    };
    html! {
        h2 { "Mailboxes" }
        p { "Enabled by the owners of " (mailboxes.counts.enabled) " mailboxes, and paused for " (mailboxes.counts.paused) " of them." }
        @if !mailboxes.paused_mailboxes.is_empty() {
            p.soft { "To resume the module: " code { "latchmail module resume " (module) " --account ADDRESS" } }
            (table("Mailboxes for which the module is paused", &PAUSED_HEADINGS, &rows))
        }
    }
}

fn limits(policy: &Policy) -> Markup {
    let list = |items: &[String]| match items {
        [] => "none".to_owned(),
        items => items.join(", "),
    };
    html! {
        dt { "Paths" }
        dd { (list(&policy.paths)) }
        dt { "Hosts that the module can connect to" }
        dd { (list(&policy.hosts)) }
        dt { "Limits of a call" }
        dd { (policy.cpu) " s of CPU time, " (policy.deadline) " s in total, " (policy.memory) " MiB of memory" }
        dt { "Sandboxes" }
        dd { "at most " (policy.concurrency) }
        dt { "If most calls fail" }
        dd { @if policy.rolls_back { "the service rolls back to the earlier version" } @else { "the version stays" } }
    }
}

fn row(csrf: &str, module: &str, version: &VersionReport, all: &AllUsage) -> Markup {
    let usage = all.of(module, &version.version);
    let digest = version.digest.get(..DIGEST_DIGITS);
    let digest = digest.unwrap_or(&version.digest);
    let id = format!("version-{digest}");
    html! {
        tr {
            th scope="row" #(id) { (version.version) }
            td { code { (digest) } }
            td.number { (version.size / 1024) " KiB" }
            td { (time_of_text(&version.installed_at)) }
            td.number { (usage.calls) }
            td.number { (charts::cpu(&usage)) }
            td { (charts::failures(&usage)) }
            td {
                @if version.serving {
                    span.good { "Current" }
                } @else {
                    form method="post" action={ (paths::of_module(module)) "/switch" } {
                        (token(csrf))
                        input type="hidden" name="digest" value=(version.digest);
                        button type="submit" aria-describedby=(id) { "Switch" }
                    }
                }
            }
        }
    }
}
