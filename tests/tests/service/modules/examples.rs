//! The modules in `components/examples` that act on mail, in a complete service.

mod addy;
mod digest;
mod rules;
mod slack;

use latchmail_tests::{Person, examples};
use serde_json::{Value, json};

/// Returns the settings of an example: its component, its grants, and further lines.
fn settings(name: &str, grants: &str, more: &str) -> String {
    let source = examples().join(format!("latchmail_{name}.wasm"));
    format!(
        "modules.{name}.source = '{}'\nmodules.{name}.grants = [{grants}]\n{more}\n",
        source.display()
    )
}

/// Enables a module for a person.
async fn enable(person: &Person<'_>, name: &str) {
    let line = format!("PUT /api/v1/profile/modules/{name}");
    let enabled = person.send_json(&line, &json!({ "enabled": true })).await;
    enabled.succeeds(200);
}

/// Returns the state of the only module with handlers for a person.
async fn state(person: &Person<'_>) -> Value {
    let listed = person.send("GET /api/v1/profile/modules").await;
    listed.succeeds(200)["modules"][0].take()
}

/// Delivers a message with these header fields.
async fn deliver(person: &Person<'_>, header: &str) {
    let to = &person.address;
    let message = format!("{header}\nTo: {to}\n\nText of the message.\n");
    person.service.deliver(to, &message).await;
}
