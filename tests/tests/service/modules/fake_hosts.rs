//! The fake hosts for module authors return the results that the scenarios of the contract expect,
//! as the real host does ([`super::scenarios`]).

use std::path::Path;
use std::time::Duration;

use fixture_scenarios::{Caller, Message, Scenario, Step, Values, perform, scenarios};
use latchmail_sdk::capability::{Blob, Timestamp};
use latchmail_sdk::scope;
use latchmail_sdk::testing::{FakeHost, Letter};
use serde_json::Value;

use super::module_projects::{create, run as run_commands, use_python};

const DOMAIN: &str = "example.test";

fn address(name: &str) -> String {
    format!("{name}@{DOMAIN}")
}

fn letter(message: &Message) -> Letter {
    let mut letter = Letter::from(message.text("from"))
        .subject(message.text("subject"))
        .message_id(message.text("message-id"));
    for recipient in message.texts("to") {
        letter = letter.to(recipient);
    }
    for recipient in message.texts("cc") {
        letter = letter.cc(recipient);
    }
    for flag in message.texts("flags") {
        letter = letter.flag(flag);
    }
    if let Some(text) = message.0["text"].as_str() {
        letter = letter.text(text);
    }
    if let Some(html) = message.0["html"].as_str() {
        letter = letter.html(html);
    }
    if let Some(id) = message.0["in-reply-to"].as_str() {
        letter = letter.in_reply_to(id);
    }
    if let Some(date) = message.0["date"].as_i64() {
        letter = letter.date(Timestamp::from(date));
    }
    for (name, content_type, content) in message.files() {
        letter = letter.file(name, content_type, content.as_bytes());
    }
    letter
}

fn deliver(host: &FakeHost, first: &str, message: &Message) {
    host.sign_in(&address(first));
    host.file(message.folder(), letter(message));
}

fn sign_in(host: &FakeHost, caller: &Caller) {
    let scope = |name: &String| match scope::named(name) {
        Some(scope) => scope,
        None => panic!("there is no scope {name}"),
    };
    match caller {
        Caller::Anonymous => host.sign_out(),
        Caller::Session(name) => host.sign_in(&address(name)),
        Caller::Token(name, scopes) => {
            host.sign_in(&address(name));
            host.use_token(&scopes.iter().map(scope).collect::<Vec<_>>());
        }
    }
}

/// Runs a scenario and returns the differences.
fn run(scenario: &Scenario) -> Vec<String> {
    let mut differences = Vec::new();
    let host = FakeHost::new();
    let mut values = Values::default();
    values.set("n", "1");
    values.set("domain", DOMAIN);
    values.set("password", "Correct-Horse-7");
    for name in &scenario.accounts {
        host.sign_in(&address(name));
        values.set(name, address(name));
    }
    for (key, value) in &scenario.settings {
        host.set(key, value.as_str().unwrap_or_default());
    }
    for message in &scenario.messages {
        deliver(&host, &scenario.accounts[0], message);
    }
    for (index, step) in scenario.steps.iter().enumerate() {
        match step {
            Step::Deliver(message) => deliver(&host, &scenario.accounts[0], message),
            Step::Advance => host.advance(Duration::from_secs(1)),
            Step::Call {
                caller,
                call,
                with,
                expected,
            } => {
                sign_in(&host, caller);
                let file = |content: &Value| {
                    Blob::Bytes(content.as_str().unwrap_or_default().as_bytes().to_vec())
                };
                let actual = perform(&host, call, &values.fill(with), file);
                let at = format!("{}, step {index}, {call}", scenario.name);
                differences.extend(values.compare(expected, &actual, &at).err());
            }
        }
    }
    differences
}

#[test]
fn the_fake_host_in_rust_returns_what_the_scenarios_expect() {
    let differences: Vec<String> = scenarios().iter().flat_map(run).collect();
    assert!(differences.is_empty(), "{}", differences.join("\n"));
}

/// Runs the scenarios that call only functions of the fake hosts. Prints the other functions.
#[tokio::test]
async fn the_fake_hosts_in_javascript_and_python_return_what_the_scenarios_expect() {
    let scenarios = Path::new(env!("CARGO_MANIFEST_DIR")).join("../components/sdk/scenarios");
    let scenarios = scenarios.canonicalize().unwrap();
    for (language, program) in [
        ("javascript", "node SCENARIOS/run.mjs ."),
        ("python", ".venv/bin/python SCENARIOS/run.py"),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let project = create(folder.path(), language).await;
        use_python(&project);
        let command = program.replace("SCENARIOS", &scenarios.display().to_string());
        println!("{}", run_commands(&project, &command, &project).await);
    }
}
