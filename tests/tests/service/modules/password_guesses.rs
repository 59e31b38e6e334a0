//! A module that guesses its caller's password while it serves the caller's request.

use latchmail_tests::{Log, PASSWORD, Person, Service, Setup, fixtures};
use serde_json::{Value, json};

const TOO_MANY: &str = "Too many requests, please try again later";

/// Starts a service with the guessing module.
async fn service(more: &str) -> Service {
    let source = fixtures().join("fixture_guesser.wasm");
    Setup::default()
        .with_mail()
        .with(&format!(
            "modules.guesser.source = '{}'
modules.guesser.grants = ['profile', 'teams']
modules.guesser.paths = ['/guesser/']
{more}",
            source.display()
        ))
        .start()
        .await
}

fn wrong(count: usize) -> Vec<String> {
    (0..count).map(|n| format!("Wrong-Horse-{n}")).collect()
}

/// Returns the caller's team. Invitations to it check a password too.
async fn team(person: &Person<'_>) -> Value {
    let teams = person.send("GET /api/v1/teams").await.succeeds(200);
    teams["teams"][0]["id"].clone()
}

async fn assert_password_unchanged(person: &Person<'_>) {
    let login = json!({ "email": person.address, "password": PASSWORD });
    let login = person.service.post("/api/v1/auth/login", &login).await;
    assert_eq!(login.status, 200, "{}", login.json);
}

#[tokio::test]
async fn one_request_can_check_at_most_three_passwords() {
    let log = Log::capture();
    let service = service("").await;
    let ada = service.person("ada").await;
    for team in [Value::Null, team(&ada).await] {
        let mut passwords = wrong(2);
        let body = json!({ "passwords": passwords, "team": team });
        let learned = ada.post("/guesser/guess", &body).await.succeeds(200);
        assert_eq!(learned.as_array().unwrap().len(), 2);
        passwords = wrong(3);
        passwords.push(PASSWORD.into());
        let body = json!({ "passwords": passwords, "team": team });
        let ended = ada.post("/guesser/guess", &body).await;
        ended.fails(500, "The operation could not be completed");
        let lines = log.lines_with(ended.header("x-request-id").unwrap());
        let reason = "it exceeded 3 password checks";
        assert!(lines.iter().any(|line| line.contains(reason)), "{lines:?}");
    }
    assert_password_unchanged(&ada).await;
}

#[tokio::test]
async fn wrong_passwords_are_limited_for_modules_and_the_services_own_routes() {
    let service = service("limits.password_change = 5\nlimits.sign_in_address = 5").await;
    let ada = service.person("ada").await;
    let team = team(&ada).await;
    let guess = async |passwords: Vec<String>, team: &Value| {
        let body = json!({ "passwords": passwords, "team": team });
        ada.post("/guesser/guess", &body).await
    };
    guess(wrong(3), &Value::Null).await.succeeds(200);
    guess(wrong(2), &team).await.succeeds(200);
    // The client receives the refusal itself, whatever the module returns.
    for team in [&Value::Null, &team] {
        let refused = guess(vec![PASSWORD.into()], team).await;
        refused.fails(429, TOO_MANY);
        assert!(refused.header("retry-after").is_some());
    }
    // The failure does not count against the module.
    let operator = service.operator("module list --json", "").await.succeeds();
    let modules: Value = serde_json::from_str(&operator).unwrap();
    let list = modules["modules"]
        .as_array()
        .or(modules.as_array())
        .unwrap();
    let guesser = list.iter().find(|module| module["name"] == "guesser");
    assert_eq!(guesser.unwrap()["health"]["trapped"], 0, "{operator}");
    // The service's own routes share the limit.
    let change = json!({ "current_password": PASSWORD, "new_password": "Another-Horse-9" });
    let refused = ada.post("/api/v1/profile/password", &change).await;
    refused.fails(429, TOO_MANY);
    // These attempts neither count towards the limit of signing in nor block it.
    assert_password_unchanged(&ada).await;
    service.clock.advance(std::time::Duration::from_mins(1));
    let ada = ada.sign_in_again().await;
    let changed = ada.post("/api/v1/profile/password", &change).await;
    changed.succeeds(200);
}

#[tokio::test]
async fn the_time_of_a_password_check_counts_for_the_module() {
    let log = Log::capture();
    // The CPU time is less than one check needs.
    let service = service("modules.guesser.cpu = 0.005").await;
    let ada = service.person("ada").await;
    let body = json!({ "passwords": wrong(3), "team": null });
    let ended = ada.post("/guesser/guess", &body).await;
    ended.fails(500, "The operation could not be completed");
    let lines = log.lines_with(ended.header("x-request-id").unwrap());
    let reason = "it exceeded its CPU time of 0.005 s";
    assert!(lines.iter().any(|line| line.contains(reason)), "{lines:?}");
}
