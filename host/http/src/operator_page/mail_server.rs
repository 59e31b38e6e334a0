//! `/admin/mail-server`: whether this host reaches the database and the mail server, and the hosts that use the database. `latchmail doctor` checks more.

use std::fmt::Display;
use std::time::Duration;

use latchmail_core::limits::Bucket;
use latchmail_directory::hosts::Host;
use maud::{Markup, html};
use tokio::net::TcpStream;
use tokio::time::timeout;

use super::layout::{Section, table, time};
use super::listener::PageState;
use super::visit::{Visit, respond};
use crate::app::App;
use crate::message::{Request, Response};
use crate::rejection::Rejection;

pub(super) const PATH: &str = "/admin/mail-server";

/// The maximum duration of each check.
const TIMEOUT: Duration = Duration::from_secs(3);

const CHECKS: [&str; 4] = ["Server", "Address", "State", "Details"];
const HOSTS: [&str; 7] = [
    "Host",
    "Version",
    "URL",
    "Key",
    "State",
    "Started",
    "Last seen",
];

/// The result of a check: the reason of the failure, if it failed.
type CheckResult = Result<(), String>;

/// Shows the state of the servers and the hosts.
pub(super) async fn show(state: &PageState, request: &Request) -> Result<Response, Rejection> {
    let page = async {
        let visit = Visit::of(state, request).await?;
        let app = visit.app;
        let (database, imap, submission) = tokio::join!(
            within(app.directory.ping()),
            within(app.mail.ping()),
            within(TcpStream::connect(&*app.config.smtp.address)),
        );
        let hosts = app.directory.hosts().await?;
        let checks = html! {
            (check("Database", database_kind(app), &database))
            (check("IMAP", &app.config.imap.address, &imap))
            (check("Submission", &app.config.smtp.address, &submission))
        };
        let host_rows = html! { @for host in &hosts { (host_row(host, app)) } };
        let body = html! {
            h2 { "Servers" }
            (table("Servers that this host needs", &CHECKS, &checks))
            p.soft { "The command " code { "latchmail doctor" } " checks the configuration of the mail server, the DNS and the certificates." }
            h2 { "Hosts" }
            (table("Hosts that use the database", &HOSTS, &host_rows))
        };
        visit.page(Some(Section::MailServer), "Mail server", &body)
    };
    respond(state, request, Bucket::Admin, page).await
}

/// Returns the reason if the operation fails or takes too long.
async fn within<T, E: Display>(check: impl Future<Output = Result<T, E>>) -> CheckResult {
    match timeout(TIMEOUT, check).await {
        Ok(Ok(_)) => Ok(()),
        Ok(Err(error)) => Err(error.to_string()),
        Err(_) => Err(format!("no response within {} seconds", TIMEOUT.as_secs())),
    }
}

/// Returns the kind of the database. Its URL can contain a password.
fn database_kind(app: &App) -> &'static str {
    if app.config.database().url.starts_with("sqlite:") {
        "SQLite"
    } else {
        "PostgreSQL"
    }
}

fn check(name: &str, address: &str, result: &CheckResult) -> Markup {
    html! {
        tr {
            th scope="row" { (name) }
            td { (address) }
            @match result {
                Ok(()) => {
                    td { span.good { "Available" } }
                    td {}
                }
                Err(reason) => {
                    td { span.bad { "Unavailable" } }
                    td { (reason) }
                }
            }
        }
    }
}

fn host_row(host: &Host, app: &App) -> Markup {
    html! {
        tr {
            th scope="row" {
                (host.name)
                @if host.id == app.host_id { " (this host)" }
            }
            td { (host.version) }
            td { (host.base_url) }
            td { (host.key_id) }
            td {
                @match &host.problem {
                    Some(problem) => { span.bad { (problem) } },
                    None => { span.good { "Ready" } },
                }
            }
            td { (time(host.started_at)) }
            td { (time(host.seen_at)) }
        }
    }
}
