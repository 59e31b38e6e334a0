//! `/admin/mail-server`: checks of the servers that this host needs, the connections and the events
//! of this host, and the hosts that use the database. The command `latchmail doctor` runs the same
//! checks of the mail server, and also checks the configuration, the DNS and the system.

use latchmail_core::finding::{Finding, Status};
use latchmail_core::metrics;
use latchmail_directory::hosts::Host;
use latchmail_http::App;
use latchmail_http::message::{Request, Response};
use latchmail_http::rejection::Rejection;
use latchmail_http::status::readiness::TIMEOUT;
use latchmail_mailbox::server_checks::{check_doveadm, check_imap, check_sieve, check_smtp};
use maud::{Markup, html};
use tokio::time::timeout;

use super::layout::{Section, table, time};
use super::state::PageState;
use super::visit::{Visit, respond};

const DATABASE: &str = "database";
const REDIS: &str = "redis";
const MODULES: &str = "modules";

const CHECKS: [&str; 4] = ["Check", "State", "Details", "Remedy"];
const HOSTS: [&str; 7] = [
    "Host",
    "Version",
    "URL",
    "Key",
    "State",
    "Started",
    "Last seen",
];

/// Runs the checks, and shows their results, the connections of this host, and all hosts.
pub(super) async fn show(state: &PageState, request: &Request) -> Result<Response, Rejection> {
    let page = Box::pin(async {
        let visit = Visit::of(state, request).await?;
        let app = visit.app;
        let (database, imap, doveadm, smtp, sieve) = tokio::join!(
            check_database(app),
            check_imap(&app.config),
            check_doveadm(&app.config),
            check_smtp(&app.config),
            check_sieve(&app.config),
        );
        let hosts = app.directory.hosts.list().await?;
        let mut findings = vec![database, imap, doveadm, smtp, sieve];
        findings.extend(check_redis(app));
        findings.push(check_modules(app));
        let checks = html! { @for one in &findings { (check(one)) } };
        let host_rows = html! { @for host in &hosts { (host_row(host, app)) } };
        let body = html! {
            h2 { "Checks" }
            (table("Checks of the servers that this host needs", &CHECKS, &checks))
            p.soft { "The command " code { "latchmail doctor" } " also checks the configuration, the DNS, the certificates and the system." }
            h2 { "Connections" }
            (connections(app))
            h2 { "Events" }
            (events(app))
            h2 { "Hosts" }
            (table("Hosts that use the database", &HOSTS, &host_rows))
        };
        visit.page(Some(Section::MailServer), "Mail server", &body)
    });
    respond(request, page).await
}

async fn check_database(app: &App) -> Finding {
    // Show only the kind of the database, because the database's URL can contain a password.
    let kind = if app.config.database().url.starts_with("sqlite:") {
        "SQLite"
    } else {
        "PostgreSQL"
    };
    let problem = match timeout(TIMEOUT, app.directory.ping()).await {
        Ok(Ok(())) => return Finding::ok(DATABASE, kind),
        Ok(Err(error)) => error.to_string(),
        Err(_) => format!("no response within {} s", TIMEOUT.as_secs()),
    };
    Finding::failed(
        DATABASE,
        format!("{kind}: {problem}"),
        "check `database.url`, the network and the load of the database",
    )
}

/// Checks whether Redis is available. Returns `None` if the hosts do not share their rate limits
/// through Redis.
fn check_redis(app: &App) -> Option<Finding> {
    let shared = app.http.limits.shared()?;
    Some(if shared.is_available() {
        Finding::ok(REDIS, "hosts share their rate limits")
    } else {
        Finding::warning(
            REDIS,
            "Redis cannot be reached, so each host applies its rate limits separately",
            "check `redis.url`, the network and the load of the server",
        )
    })
}

fn check_modules(app: &App) -> Finding {
    let problems = app.module_manager.problems();
    if problems.is_empty() {
        return Finding::ok(MODULES, "all enabled modules serve");
    }
    Finding::failed(
        MODULES,
        problems.join("; "),
        "roll the module back, or disable it, on the page of the modules",
    )
}

fn check(finding: &Finding) -> Markup {
    let (class, text) = match finding.status {
        Status::Ok => ("good", "OK"),
        Status::Warning => ("warning", "Warning"),
        Status::Failed => ("bad", "Failed"),
    };
    html! {
        tr {
            th scope="row" { (finding.check) }
            td { span class=(class) { (text) } }
            td { (finding.detail) }
            td { (finding.remedy.as_deref().unwrap_or_default()) }
        }
    }
}

/// Renders the numbers of open connections of this host, and the numbers of messages that this host
/// passed to the submission service.
fn connections(app: &App) -> Markup {
    let pool = |(open, in_use): (usize, usize)| html! { (open) " open, " (in_use) " in use" };
    html! {
        dl {
            dt { "Database" }
            dd { (pool(app.directory.connections())) }
            dt { "IMAP" }
            dd { (pool(app.mail.connections.counts())) }
            dt { "Submitted messages since the start" }
            dd { (counts(&metrics::SUBMISSIONS)) }
        }
    }
}

/// Renders what this host watches and sends to clients and webhooks.
fn events(app: &App) -> Markup {
    let webhooks = metrics::WEBHOOK_MAILBOXES.with([]).get();
    html! {
        dl {
            dt { "Watched mailboxes" }
            dd { (app.watcher.count()) ", " (webhooks) " of them for webhooks" }
            dt { "Open streams" }
            dd { (metrics::EVENT_STREAMS.with([]).get()) }
            dt { "Notices of the mail server since the start" }
            dd { (counts(&metrics::EVENT_NOTICES)) }
            dt { "Attempts to send to webhooks since the start" }
            dd { (counts(&metrics::WEBHOOK_ATTEMPTS)) }
        }
    }
}

/// Renders the counts by outcome, without those that are zero.
fn counts(family: &metrics::Counter<1>) -> Markup {
    let mut counts = family.read();
    counts.retain(|(_, count)| *count > 0.0);
    html! {
        @if counts.is_empty() { "none" }
        @for (index, ([outcome], count)) in counts.iter().enumerate() {
            @if index > 0 { ", " }
            (outcome.replace('_', " ")) ": " (count)
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
