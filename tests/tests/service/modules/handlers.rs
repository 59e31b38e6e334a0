//! Modules that act without a request: events, timers, pauses, previews, and the owner's switch.

mod events;
mod failures;
mod timers;

use std::fmt::Write as _;
use std::time::Duration;

use latchmail_tests::{Person, Service, Setup, fixtures, wait_until};
use serde_json::{Value, json};

const GRANTS: &str = "grants = ['caller', 'mailbox', 'store']";
const SCOPES: &str = "scopes = ['mail:read', 'mail:write']";

/// Returns the configuration of the module `actor`, with lines of its section.
fn settings(lines: &[&str]) -> String {
    let source = fixtures().join("fixture_actor.wasm");
    let mut settings = format!("modules.actor.source = '{}'\n", source.display());
    for line in ["paths = ['/actor/']"].iter().chain(lines) {
        writeln!(settings, "modules.actor.{line}").unwrap();
    }
    settings
}

async fn start() -> Service {
    Service::with_mail_and(&settings(&[GRANTS, SCOPES])).await
}

/// Starts a service whose due times depend on the clock of the test only.
async fn start_with_clock() -> Service {
    let settings = settings(&[GRANTS, SCOPES]);
    let setup = Setup::default().on_sqlite().with_mail();
    setup.with(&settings).start().await
}

/// Enables or disables the module for a person.
async fn switch(person: &Person<'_>, enabled: bool) -> Value {
    let line = "PUT /api/v1/profile/modules/actor";
    let body = json!({ "enabled": enabled });
    person.send_json(line, &body).await.succeeds(200)
}

/// Returns the state of the module for a person.
async fn state(person: &Person<'_>) -> Value {
    let listed = person.send("GET /api/v1/profile/modules").await;
    let modules = listed.succeeds(200)["modules"].as_array().unwrap().clone();
    let found = modules.into_iter().find(|one| one["name"] == "actor");
    found.unwrap()
}

/// Returns the lines that the module has written for a person.
async fn log(person: &Person<'_>) -> Vec<String> {
    let log = person.send("GET /actor/log").await.succeeds(200);
    let lines = log["lines"].as_array().unwrap().iter();
    lines
        .map(|line| line.as_str().unwrap().to_owned())
        .collect()
}

async fn wait_for_log(person: &Person<'_>, expected: &[&str]) {
    let text = format!("the module has written {expected:?}");
    wait_until(&text, async || log(person).await == expected).await;
}

async fn wait_for_pause(person: &Person<'_>) -> Value {
    wait_until("the module is paused", async || {
        state(person).await["paused"] == true
    })
    .await;
    state(person).await
}

async fn deliver(person: &Person<'_>, subject: &str) {
    let to = &person.address;
    let message =
        format!("From: Grace <grace@outside.test>\nTo: {to}\nSubject: {subject}\n\nText.\n");
    person.service.deliver(to, &message).await;
}

/// Delivers a message and waits until it is in the mailbox, so that the next one is later.
async fn deliver_in_order(person: &Person<'_>, subject: &str) {
    deliver(person, subject).await;
    person.wait_for_message(subject).await;
}

/// Moves the clock of the service, and makes the service read the due times again.
fn advance(service: &Service, by: Duration) {
    service.clock.advance(by);
    service.app().jobs.wake();
}

/// Runs an operator's command for the module and the account of a person.
async fn command(person: &Person<'_>, command: &str, more: &str) -> String {
    let command = format!("module {command} actor --account {}{more}", person.address);
    person.service.operator(&command, "").await.succeeds()
}
