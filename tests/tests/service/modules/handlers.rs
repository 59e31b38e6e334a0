//! Modules that act without a request: events, timers, pauses, previews, and the owner's switch.

mod events;
mod failures;
mod hostile;
pub(crate) mod kills;
mod timers;

use std::time::Duration;

use latchmail_tests::{Actor, Person, Service, Setup, wait_until};
use serde_json::{Value, json};

const READ: &str = "['mail:read']";
pub(crate) const READ_AND_WRITE: &str = "['mail:read', 'mail:write']";

/// Returns the section of a module with this name, whose handlers have these scopes.
pub(crate) fn section(name: &str, scopes: &str) -> String {
    format!(
        "modules.{name}.grants = ['caller', 'mailbox', 'store']\n\
         modules.{name}.paths = ['/{name}/']\nmodules.{name}.scopes = {scopes}\n"
    )
}

/// Returns the module `actor` for events of the inbox, with these timers.
pub(crate) fn actor(timers: &str) -> Actor<'_> {
    Actor {
        role: "\\Inbox",
        timers,
        ..Actor::default()
    }
}

/// Starts a service with the module `actor` for events of the inbox, with these timers.
async fn start_with(setup: Setup, scopes: &str, timers: &str) -> Service {
    let setup = setup.with_mail().with(&section("actor", scopes));
    let service = setup.start().await;
    service.install(&[actor(timers).component()]).await;
    service
}

async fn start() -> Service {
    start_with(Setup::default(), READ_AND_WRITE, "none").await
}

/// Starts a service whose due times depend on the clock of the test only.
async fn start_with_clock(timers: &str) -> Service {
    start_with(Setup::default().on_sqlite(), READ_AND_WRITE, timers).await
}

/// Enables or disables the module for a person.
pub(crate) async fn switch(person: &Person<'_>, enabled: bool) -> Value {
    switch_module(person, "actor", enabled).await
}

/// Enables or disables a module for a person.
async fn switch_module(person: &Person<'_>, name: &str, enabled: bool) -> Value {
    let line = format!("PUT /api/v1/profile/modules/{name}");
    let body = json!({ "enabled": enabled });
    person.send_json(&line, &body).await.succeeds(200)
}

/// Returns the state of the module for a person.
async fn state(person: &Person<'_>) -> Value {
    let listed = person.send("GET /api/v1/profile/modules").await;
    let modules = listed.succeeds(200)["modules"].as_array().unwrap().clone();
    let found = modules.into_iter().find(|one| one["name"] == "actor");
    found.unwrap()
}

/// Returns the calls that the module has recorded for a person, oldest first, at most 500.
async fn calls(person: &Person<'_>) -> Vec<Value> {
    calls_of(person, "actor").await
}

/// Returns the calls that a module has recorded for a person, oldest first, at most 500.
async fn calls_of(person: &Person<'_>, name: &str) -> Vec<Value> {
    let calls = person.send(&format!("GET /{name}/calls")).await;
    let calls = calls.succeeds(200);
    calls["calls"].as_array().unwrap().clone()
}

/// Returns the subject of the message of each call for an event, and the name of each timer.
async fn log(person: &Person<'_>) -> Vec<String> {
    log_of(person, "actor").await
}

/// Returns the same for a module.
async fn log_of(person: &Person<'_>, name: &str) -> Vec<String> {
    let calls = calls_of(person, name).await;
    let line = |call: &Value| {
        let line = call.get("timer").unwrap_or(&call["instruction"]);
        line.as_str().unwrap().to_owned()
    };
    calls.iter().map(line).collect()
}

async fn wait_for_log(person: &Person<'_>, expected: &[&str]) {
    let text = format!("the module was called for {expected:?}");
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
