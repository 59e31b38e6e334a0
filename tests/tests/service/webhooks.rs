//! Webhooks and the subscriptions of agents, with a receiver on this machine.

mod changes;
mod events;
mod failures;
mod hosts;
mod receivers;
mod rights;
mod subscriptions;

use std::time::Duration;

use latchmail_tests::{Person, Receiver, Service, Setup, wait_until};
use serde_json::{Value, json};

/// Starts a service with mail, and a receiver that the service allows.
async fn start() -> (Service, Receiver) {
    let receiver = Receiver::start().await;
    let service = Service::with_mail_and(&receiver.setting()).await;
    (service, receiver)
}

/// Starts a service whose times of webhooks depend on the clock of the test only. With PostgreSQL,
/// they depend on the clock of the database.
async fn start_with_clock() -> (Service, Receiver) {
    let receiver = Receiver::start().await;
    let setup = Setup::default().on_sqlite().with_mail();
    (setup.with(&receiver.setting()).start().await, receiver)
}

/// Creates a webhook of a person's session. Returns its id and its secret.
async fn create(person: &Person<'_>, body: &Value) -> (String, String) {
    let created = person.post("/api/v1/webhooks", body).await.succeeds(201);
    let text = |name: &str| created[name].as_str().unwrap().to_owned();
    (text("id"), text("secret"))
}

async fn state(person: &Person<'_>, id: &str) -> Value {
    let line = format!("GET /api/v1/webhooks/{id}");
    person.send(&line).await.succeeds(200)
}

/// Returns the deliveries of a webhook, newest first.
async fn deliveries(person: &Person<'_>, id: &str) -> Vec<Value> {
    let line = format!("GET /api/v1/webhooks/{id}/deliveries");
    let listed = person.send(&line).await.succeeds(200);
    listed["deliveries"].as_array().unwrap().clone()
}

async fn deliver(person: &Person<'_>, subject: &str) {
    let to = &person.address;
    let message =
        format!("From: Grace <grace@outside.test>\nTo: {to}\nSubject: {subject}\n\nText.\n");
    person.service.deliver(to, &message).await;
}

/// Moves the clock of the service, and makes the service read the due times again.
fn advance(service: &Service, by: Duration) {
    service.clock.advance(by);
    service.app().jobs.wake();
}

/// Waits until the newest delivery of a webhook has this state.
async fn wait_for_state(person: &Person<'_>, id: &str, expected: &str) -> Value {
    let mut newest = json!(null);
    wait_until(&format!("the newest delivery is {expected}"), async || {
        newest = deliveries(person, id)
            .await
            .first()
            .cloned()
            .unwrap_or_default();
        newest["state"] == expected
    })
    .await;
    newest
}
