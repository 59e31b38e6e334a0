//! The scenarios of the contract (`components/sdk/scenarios`), with the real host: a module in a
//! sandbox performs the calls. The fake hosts for module authors run the same scenarios.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use chrono::DateTime;
use fixture_scenarios::{Caller, Message, Scenario, Step, Values, scenarios};
use futures_util::{StreamExt as _, stream};
use latchmail_tests::{DOMAIN, Imap, PASSWORD, Person, Service, fixtures, imap};
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

/// The number of concurrent scenarios.
const CONCURRENT: usize = 4;

/// The maximum time until the search index contains a new message.
const INDEX_TIMEOUT: Duration = Duration::from_secs(10);

/// Returns a message in the format of mail.
fn message_text(message: &Message, date: i64) -> String {
    let date = DateTime::from_timestamp_millis(date).unwrap().to_rfc2822();
    let mut text = format!("Date: {date}\r\nMIME-Version: 1.0\r\n");
    for (header, field) in [
        ("From", "from"),
        ("Subject", "subject"),
        ("Message-ID", "message-id"),
        ("In-Reply-To", "in-reply-to"),
        ("References", "in-reply-to"),
    ] {
        if !message.text(field).is_empty() {
            write!(text, "{header}: {}\r\n", message.text(field)).unwrap();
        }
    }
    for (header, field) in [("To", "to"), ("Cc", "cc")] {
        let addresses = message.texts(field).join(", ");
        if !addresses.is_empty() {
            write!(text, "{header}: {addresses}\r\n").unwrap();
        }
    }
    let plain = message.0["text"].as_str().map(|text| ("plain", text));
    let html = message.0["html"].as_str().map(|text| ("html", text));
    let mut parts: Vec<String> = [plain, html]
        .into_iter()
        .flatten()
        .map(|(kind, text)| format!("Content-Type: text/{kind}; charset=utf-8\r\n\r\n{text}"))
        .collect();
    parts.extend(message.files().iter().map(|(name, kind, content)| {
        format!(
            "Content-Type: {kind}\r\nContent-Disposition: attachment; filename=\"{name}\"\r\n\
             Content-Transfer-Encoding: base64\r\n\r\n{}",
            STANDARD.encode(content)
        )
    }));
    if let [part] = &parts[..]
        && message.files().is_empty()
    {
        return text + part;
    }
    let kind = if message.files().is_empty() {
        "alternative"
    } else {
        "mixed"
    };
    write!(
        text,
        "Content-Type: multipart/{kind}; boundary=edge\r\n\r\n"
    )
    .unwrap();
    for part in &parts {
        write!(text, "--edge\r\n{part}\r\n").unwrap();
    }
    text + "--edge--\r\n"
}

/// A scenario that runs.
struct Run<'a> {
    service: &'a Service,
    people: BTreeMap<String, Person<'a>>,
    tokens: BTreeMap<Caller, String>,
    client: Option<Imap>,
    first: String,
    stored: i64,
}

impl Run<'_> {
    /// Stores a message in the mailbox of the first account, and creates its folder.
    async fn deliver(&mut self, message: &Message) {
        self.stored += 1;
        let usual = 1_795_161_600_000 + self.stored * 60_000;
        let date = message.0["date"].as_i64().unwrap_or(usual);
        if self.client.is_none() {
            self.client = Some(imap(&self.people[&self.first]).await);
        }
        let client = self.client.as_mut().unwrap();
        let folder = message.folder();
        if client.list(None, Some(folder)).await.unwrap().count().await == 0 {
            client.create(folder).await.unwrap();
        }
        let flags = format!("({})", message.texts("flags").join(" "));
        let arrived = DateTime::from_timestamp_millis(date).unwrap();
        let arrived = arrived.format("\"%d-%b-%Y %H:%M:%S +0000\"").to_string();
        let text = message_text(message, date);
        let stored = client.append(folder, Some(&flags), Some(&arrived), text);
        stored.await.unwrap();
    }

    /// Returns the route for a caller and its credential.
    async fn route(&mut self, caller: &Caller) -> (String, Option<String>) {
        let (name, scopes) = match caller {
            Caller::Anonymous => return ("public".into(), None),
            Caller::Session(name) => {
                return ("session".into(), Some(self.people[name].access.clone()));
            }
            Caller::Token(name, scopes) => (name, scopes),
        };
        if !self.tokens.contains_key(caller) {
            let names: Vec<&str> = scopes.iter().map(String::as_str).collect();
            let made = self.people[name].token(&names).await;
            let token = made["token"].as_str().unwrap().to_owned();
            self.tokens.insert(caller.clone(), token);
        }
        let (area, act) = scopes[0].split_once(':').unwrap();
        let route = format!("{area}{}{}", act[..1].to_uppercase(), &act[1..]);
        (route, Some(self.tokens[caller].clone()))
    }

    async fn perform(&mut self, caller: &Caller, call: &str, with: &Value) -> Value {
        let (route, credential) = self.route(caller).await;
        let request = self.service.request(&format!("POST /scenarios/{route}"));
        let request = match credential {
            Some(credential) => request.bearer_auth(credential),
            None => request,
        };
        let mut with = with.clone();
        // The host decodes the content of attached files.
        let files = with
            .pointer_mut("/draft/files")
            .and_then(Value::as_array_mut);
        let encode = |content: &mut Value| {
            let text = content.as_str().unwrap_or_default();
            *content = STANDARD.encode(text).into();
        };
        for file in files.into_iter().flatten() {
            if let Some(content) = file.pointer_mut("/source/blob") {
                encode(content);
            }
        }
        if let Some(content) = with.get_mut("content") {
            encode(content);
        }
        let mut body = json!({ "call": call, "with": with });
        if call == "mailbox.import-message" {
            let message = with["message"].as_str().unwrap_or_default();
            body["message"] = STANDARD.encode(message).into();
        }
        let response = latchmail_tests::Response::of_json(request, &body).await;
        if response.status == 200 {
            response.json
        } else {
            json!({ "status": response.status, "error": response.json })
        }
    }
}

/// Runs a scenario and returns the differences.
async fn run(service: &Service, number: usize, scenario: &Scenario) -> Vec<String> {
    let mut differences = Vec::new();
    let mut run = Run {
        service,
        people: BTreeMap::new(),
        tokens: BTreeMap::new(),
        client: None,
        first: scenario.accounts[0].clone(),
        stored: 0,
    };
    let mut values = Values::default();
    values.set("n", number.to_string());
    values.set("domain", DOMAIN);
    values.set("password", PASSWORD);
    for name in &scenario.accounts {
        // All scenarios use the same service, so their accounts have different names.
        let person = service.person(&format!("{name}{number}")).await;
        values.set(name, person.address.clone());
        run.people.insert(name.clone(), person);
    }
    for message in &scenario.messages {
        run.deliver(&values.message(message)).await;
    }
    for (index, step) in scenario.steps.iter().enumerate() {
        let (caller, call, with, expected) = match step {
            Step::Deliver(message) => {
                run.deliver(&values.message(message)).await;
                continue;
            }
            Step::Advance => {
                service.clock.advance(Duration::from_secs(1));
                continue;
            }
            Step::Call {
                caller,
                call,
                with,
                expected,
            } => (caller, call, values.fill(with), expected),
        };
        let at = format!("{}, step {index}, {call}", scenario.name);
        // The index is built after the first call that needs it.
        let indexed = [
            "search-messages",
            "list-threads",
            "get-thread",
            "query-messages",
            "get-facts",
            "get-threads",
            "count-messages",
        ];
        let indexed = indexed.iter().any(|name| call.ends_with(name));
        let deadline = Instant::now() + INDEX_TIMEOUT;
        loop {
            let actual = run.perform(caller, call, &with).await;
            // A result of an incomplete index must not set placeholders.
            let mut compared_values = values.clone();
            match compared_values.compare(expected, &actual, &at) {
                Err(_) if indexed && Instant::now() < deadline => {
                    sleep(Duration::from_millis(20)).await;
                }
                compared => {
                    values = compared_values;
                    break differences.extend(compared.err());
                }
            }
        }
    }
    differences
}

#[tokio::test]
async fn the_host_returns_what_the_scenarios_expect() {
    let scenarios = scenarios();
    let source = fixtures().join("fixture_scenarios.wasm");
    let grants = [
        "caller",
        "mailbox",
        "queries",
        "outbox",
        "aliases",
        "profile",
        "credentials",
        "domains",
        "teams",
        "store",
        "http-client",
        "compose",
        "drafts",
        "deliveries",
        "filters",
        "webhooks",
        "subscriptions",
        "modules",
    ];
    let mut settings = format!(
        "modules.scenarios.source = '{}'\nmodules.scenarios.grants = {grants:?}\n\
         modules.scenarios.paths = ['/scenarios/']\n\
         modules.scenarios.hosts = ['api.example.com']\n",
        source.display()
    );
    // All scenarios with settings have the same ones.
    let config: BTreeMap<_, _> = scenarios.iter().flat_map(|one| &one.settings).collect();
    for (key, value) in config {
        writeln!(settings, "modules.scenarios.config.{key} = {value}").unwrap();
    }
    let service = Service::with_mail_and(&settings).await;
    let runs = stream::iter(scenarios.iter().enumerate())
        .map(|(number, scenario)| run(&service, number, scenario))
        .buffer_unordered(CONCURRENT);
    let differences: Vec<String> = runs.map(stream::iter).flatten().collect().await;
    assert!(differences.is_empty(), "{}", differences.join("\n"));
}
