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
        deliver(&host, &scenario.accounts[0], &values.message(message));
    }
    for (index, step) in scenario.steps.iter().enumerate() {
        match step {
            Step::Deliver(message) => {
                deliver(&host, &scenario.accounts[0], &values.message(message));
            }
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

/// The functions that the fake hosts in JavaScript and Python do not have: the beginning of their
/// names, and the reason.
const LEFT_OUT: [(&str, &str); 17] = [
    ("credentials.", ACCOUNT_SETTINGS),
    ("domains.", ACCOUNT_SETTINGS),
    ("teams.", ACCOUNT_SETTINGS),
    ("compose.", BUNDLED_MAIL),
    ("deliveries.", BUNDLED_MAIL),
    ("drafts.", BUNDLED_MAIL),
    ("filters.", BUNDLED_MAIL),
    ("mailbox.get-snooze", BUNDLED_MAIL),
    ("mailbox.snooze", BUNDLED_MAIL),
    ("mailbox.unsnooze", BUNDLED_MAIL),
    ("mailbox.stream-events", BUNDLED_MAIL),
    ("mailbox.wait-for-changes", BUNDLED_MAIL),
    ("modules.", ACCOUNT_SETTINGS),
    ("outbox.", BUNDLED_MAIL),
    ("queries.", OTHER_PROTOCOLS),
    ("subscriptions.", ACCOUNT_SETTINGS),
    ("webhooks.", ACCOUNT_SETTINGS),
];
const BUNDLED_MAIL: &str = "modules that write mail use the routes of the bundled module";
const OTHER_PROTOCOLS: &str = "only a module that implements another protocol needs these queries";
const ACCOUNT_SETTINGS: &str = "only a module that replaces a bundled one changes these settings";

/// A fake host with the scenarios' runner.
struct Runner {
    language: &'static str,
    command: &'static str,
    /// The file with the list of the interfaces that the project imports.
    interfaces: &'static str,
    /// Changes of the fake host that the scenarios must find: a file, its text, another text, and
    /// the scenario that finds the change.
    differences: [(&'static str, &'static str, &'static str, &'static str); 3],
}

const RUNNERS: [Runner; 2] = [
    Runner {
        language: "javascript",
        command: "node SCENARIOS/run.mjs .",
        interfaces: "package.json",
        differences: [
            (
                "latchmail/testing/mail.js",
                "'folder_exists'",
                "'folder_taken'",
                "folders.json: a folder is created",
            ),
            (
                "latchmail/testing/outbox.js",
                "replayed: true",
                "replayed: false",
                "outbox.json: a repeated call",
            ),
            (
                "latchmail/testing/aliases.js",
                "expiry.val",
                "old.expiresAt",
                "aliases.json: the note and the expiry",
            ),
        ],
    },
    Runner {
        language: "python",
        command: ".venv/bin/python SCENARIOS/run.py",
        interfaces: "pyproject.toml",
        differences: [
            (
                "tests/fake/mail.py",
                "\"folder_exists\"",
                "\"folder_taken\"",
                "folders.json: a folder is created",
            ),
            (
                "tests/fake/outbox.py",
                "replayed=True",
                "replayed=False",
                "outbox.json: a repeated call",
            ),
            (
                "tests/fake/aliases.py",
                "change.expiry.value if",
                "0 if",
                "aliases.json: the note and the expiry",
            ),
        ],
    },
];

/// Replaces a text of a project's file.
fn replace(project: &Path, file: &str, from: &str, to: &str) {
    let path = project.join(file);
    let text = std::fs::read_to_string(&path).unwrap();
    assert!(text.contains(from), "{file} does not contain {from}");
    std::fs::write(path, text.replace(from, to)).unwrap();
}

#[tokio::test]
async fn the_fake_hosts_in_javascript_and_python_return_what_the_scenarios_expect() {
    let scenarios = Path::new(env!("CARGO_MANIFEST_DIR")).join("../components/sdk/scenarios");
    let scenarios = scenarios.canonicalize().unwrap();
    for runner in RUNNERS {
        let folder = tempfile::tempdir().unwrap();
        let project = create(folder.path(), runner.language).await;
        use_python(&project);
        let all = r#""aliases", "caller", "config", "http-client", "log", "mailbox", "outbox", "profile", "store""#;
        replace(
            &project,
            runner.interfaces,
            r#""caller", "mailbox", "store""#,
            all,
        );
        let scenarios = scenarios.display().to_string();
        let command = runner.command.replace("SCENARIOS", &scenarios);

        let output = run_commands(&project, &command, &project).await;
        println!("{output}");
        let missing: Vec<&str> = output.lines().last().unwrap().split(", ").collect();
        for name in &missing {
            let mut left_out = LEFT_OUT.iter();
            let is_left_out = left_out.any(|(start, _)| name.starts_with(start));
            assert!(is_left_out, "{}: no {name}", runner.language);
        }
        for (start, reason) in LEFT_OUT {
            let mut missing = missing.iter();
            let is_missing = missing.any(|name| name.starts_with(start));
            assert!(is_missing, "{}: {start} ({reason})", runner.language);
        }

        for (file, from, to, _) in runner.differences {
            replace(&project, file, from, to);
        }
        let failing = format!("! {command} 2>&1");
        let output = run_commands(&project, &failing, &project).await;
        for (_, _, _, scenario) in runner.differences {
            assert!(output.contains(scenario), "{scenario}\n{output}");
        }
    }
}
