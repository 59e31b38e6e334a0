//! Values that a module stores for accounts, as clients of its routes see them.

use latchmail_tests::{Person, Response, Service, fixtures};
use serde_json::{Value, json};

/// Returns the configuration of the module with the store, and further lines of its section.
fn store_settings(more: &str) -> String {
    let source = fixtures().join("fixture_keeper.wasm");
    let mut settings = String::new();
    for line in [
        &*format!("source = '{}'", source.display()),
        "grants = ['store', 'http-client']",
        "paths = ['/keeper/']",
        more,
    ] {
        if !line.is_empty() {
            settings.extend(["modules.keeper.", line, "\n"]);
        }
    }
    settings
}

/// Returns the result of an operation: `{"ok": …}` or `{"failed": …}`.
async fn run_operation(person: &Person<'_>, operation: &Value) -> Value {
    let response = person.post("/keeper/store", operation).await;
    response.succeeds(200)
}

async fn set(person: &Person<'_>, key: &str, value: &str) -> Value {
    run_operation(person, &json!({ "do": "set", "key": key, "value": value })).await
}

async fn get(person: &Person<'_>, key: &str) -> Value {
    run_operation(person, &json!({ "do": "get", "key": key })).await["ok"].clone()
}

fn done(value: impl Into<Value>) -> Value {
    json!({ "ok": value.into() })
}

#[track_caller]
fn assert_failed(response: &Value, how: &str) {
    let failed = response["failed"].as_str().unwrap_or_default();
    assert!(failed.starts_with(how), "{response} is not {how}");
}

#[tokio::test]
async fn stored_values_are_separate_for_each_account_and_survive_a_restart() {
    let mut service = Service::with(&store_settings("")).await;
    let (ada, bob) = (service.person("ada").await, service.person("bob").await);
    assert_eq!(get(&ada, "k").await, Value::Null);
    assert_eq!(set(&ada, "k", "ada's").await, done(()));
    assert_eq!(set(&bob, "k", "bob's").await, done(()));
    assert_eq!(get(&ada, "k").await, "ada's");
    assert_eq!(get(&bob, "k").await, "bob's");
    set(&ada, "kä", "1").await;
    set(&ada, "l", "1").await;
    let list = json!({ "do": "list", "prefix": "k", "limit": 10 });
    assert_eq!(run_operation(&ada, &list).await, done(json!(["k", "kä"])));
    let rest = json!({ "do": "list", "prefix": "", "after": "k", "limit": 1 });
    assert_eq!(run_operation(&ada, &rest).await, done(json!(["kä"])));
    let delete = json!({ "do": "delete", "key": "k" });
    assert_eq!(run_operation(&bob, &delete).await, done(()));
    assert_eq!(run_operation(&bob, &delete).await, done(()));
    assert_eq!(get(&bob, "k").await, Value::Null);

    let access = ada.access.clone();
    service.restart().await;
    let request = service
        .request("POST /keeper/store")
        .json(&json!({ "do": "get", "key": "k" }))
        .bearer_auth(access);
    assert_eq!(Response::of(request).await.succeeds(200), done("ada's"));
}

#[tokio::test]
async fn every_accepted_credential_gives_access_to_the_accounts_values() {
    let service = Service::with(&store_settings("")).await;
    let ada = service.person("ada").await;
    set(&ada, "k", "v").await;
    let token = ada.token(&["mail:read"]).await;
    let token = token["token"].as_str().unwrap();
    let with_token = async |operation: Value| {
        let request = service.request("POST /keeper/scoped/store");
        let response = Response::of(request.bearer_auth(token).json(&operation)).await;
        response.succeeds(200)
    };
    assert_eq!(
        with_token(json!({ "do": "get", "key": "k" })).await,
        done("v")
    );
    let set = json!({ "do": "set", "key": "k", "value": "w" });
    assert_eq!(with_token(set).await, done(()));
    assert_eq!(get(&ada, "k").await, "w");
}

#[tokio::test]
async fn without_a_caller_the_store_is_denied() {
    let service = Service::with(&store_settings("")).await;
    let ada = service.person("ada").await;
    set(&ada, "k", "v").await;
    for operation in [
        json!({ "do": "get", "key": "k" }),
        json!({ "do": "set", "key": "k", "value": "w" }),
        json!({ "do": "delete", "key": "k" }),
        json!({ "do": "compare", "key": "k", "expected": "v" }),
        json!({ "do": "list", "prefix": "", "limit": 9 }),
    ] {
        // A public route has no caller, even if the request has a credential.
        let by_ada = ada.post("/keeper/public/store", &operation).await;
        assert_failed(&by_ada.succeeds(200), "Error::Denied(");
        let by_nobody = service.post("/keeper/public/store", &operation).await;
        assert_failed(&by_nobody.succeeds(200), "Error::Denied(");
    }
    assert_eq!(get(&ada, "k").await, "v");
}

#[tokio::test]
async fn a_change_with_an_unmet_expectation_is_not_made() {
    let service = Service::with(&store_settings("")).await;
    let ada = service.person("ada").await;
    let compare = async |expected: Value, value: Value| {
        let operation =
            json!({ "do": "compare", "key": "k", "expected": expected, "value": value });
        run_operation(&ada, &operation).await
    };
    assert_eq!(compare(json!("v"), json!("w")).await, done(false));
    assert_eq!(compare(Value::Null, json!("v")).await, done(true));
    assert_eq!(compare(Value::Null, json!("w")).await, done(false));
    assert_eq!(compare(json!("v"), json!("w")).await, done(true));
    assert_eq!(get(&ada, "k").await, "w");
    assert_eq!(compare(json!("v"), Value::Null).await, done(false));
    assert_eq!(compare(json!("w"), Value::Null).await, done(true));
    assert_eq!(get(&ada, "k").await, Value::Null);
}

#[tokio::test]
async fn of_concurrent_changes_of_a_value_one_succeeds() {
    let service = Service::with(&store_settings("")).await;
    let ada = service.person("ada").await;
    let claim = |number: u32| {
        let operation =
            json!({ "do": "compare", "key": "k", "expected": null, "value": number.to_string() });
        let ada = &ada;
        async move { run_operation(ada, &operation).await }
    };
    let claims = futures_util::future::join_all((0..8).map(claim)).await;
    let won = claims.iter().filter(|claim| **claim == done(true)).count();
    let lost = claims.iter().filter(|claim| **claim == done(false)).count();
    assert_eq!((won, lost), (1, 7), "{claims:?}");
}

#[tokio::test]
async fn errors_name_the_limits_of_keys_values_and_lists() {
    let service = Service::with(&store_settings("")).await;
    let ada = service.person("ada").await;
    let longest = "é".repeat(128);
    assert_eq!(set(&ada, &longest, "v").await, done(()));
    assert_eq!(get(&ada, &longest).await, "v");
    for key in [
        "",
        &*format!("{longest}x"),
        "a\nb",
        "a\0b",
        "a\u{7f}b",
        "a\u{85}b",
    ] {
        assert_failed(&set(&ada, key, "v").await, "Error::Invalid(");
        let get = json!({ "do": "get", "key": key });
        assert_failed(&run_operation(&ada, &get).await, "Error::Invalid(");
    }
    let largest = "x".repeat(65_536);
    assert_eq!(set(&ada, "k", &largest).await, done(()));
    assert_eq!(get(&ada, "k").await, *largest);
    let over = set(&ada, "k", &format!("{largest}x")).await;
    assert_failed(&over, "Error::TooLarge(");
    assert_eq!(get(&ada, "k").await, *largest);
    for limit in [0, 1001] {
        let list = json!({ "do": "list", "prefix": "", "limit": limit });
        assert_failed(&run_operation(&ada, &list).await, "Error::Invalid(");
    }
    let list = json!({ "do": "list", "prefix": "\n", "limit": 1 });
    assert_failed(&run_operation(&ada, &list).await, "Error::Invalid(");
    let list = json!({ "do": "list", "prefix": "", "limit": 1000 });
    assert_eq!(
        run_operation(&ada, &list).await,
        done(json!(["k", longest]))
    );
}

#[tokio::test]
async fn a_value_over_the_quota_is_refused_and_deletions_free_space() {
    let service = Service::with(&store_settings("store = 10")).await;
    let (ada, bob) = (service.person("ada").await, service.person("bob").await);
    // A key of one byte, and 64 bytes for the entry.
    let half = "x".repeat(5 * 1024 - 65);
    assert_eq!(set(&ada, "a", &half).await, done(()));
    assert_eq!(set(&ada, "b", &half).await, done(()));
    assert_failed(&set(&ada, "c", "").await, "Error::TooLarge(");
    assert_failed(
        &set(&ada, "b", &format!("{half}x")).await,
        "Error::TooLarge(",
    );
    assert_eq!(get(&ada, "b").await, *half);
    assert_eq!(get(&ada, "c").await, Value::Null);
    assert_eq!(set(&bob, "a", &half).await, done(()));
    let delete = json!({ "do": "delete", "key": "a" });
    assert_eq!(run_operation(&ada, &delete).await, done(()));
    assert_eq!(set(&ada, "c", &half).await, done(()));
}

/// Starts a service and installs the module there, instead of configuring it.
async fn service_with_installed_store() -> Service {
    let source = fixtures().join("fixture_keeper.wasm");
    let settings =
        "modules.keeper.grants = ['store', 'http-client']\nmodules.keeper.paths = ['/keeper/']";
    let service = Service::with(settings).await;
    service.install(&[std::fs::read(source).unwrap()]).await;
    service
}

#[tokio::test]
async fn purge_deletes_the_values_of_a_module_when_or_after_it_is_removed() {
    let service = service_with_installed_store().await;
    let component = std::fs::read(fixtures().join("fixture_keeper.wasm")).unwrap();
    let ada = service.person("ada").await;
    set(&ada, "k", "v").await;
    service
        .operator("module remove keeper", "")
        .await
        .succeeds();
    service.install(std::slice::from_ref(&component)).await;
    assert_eq!(get(&ada, "k").await, "v", "the value stays without --purge");
    service
        .operator("module remove keeper", "")
        .await
        .succeeds();
    let purge = "module remove keeper --purge";
    service.operator(purge, "").await.succeeds();
    service
        .operator(purge, "")
        .await
        .fails_mentioning("no stored data of a module with this name");
    service.install(std::slice::from_ref(&component)).await;
    assert_eq!(get(&ada, "k").await, Value::Null);
    set(&ada, "k", "v").await;
    service.operator(purge, "").await.succeeds();
    service.install(&[component]).await;
    assert_eq!(get(&ada, "k").await, Value::Null);
    let record = service.operator("audit --json", "").await.succeeds();
    let removed: Vec<String> = record
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap())
        .filter(|event| event["kind"] == "module_removed")
        .map(|event| event["detail"].as_str().unwrap_or_default().to_owned())
        .collect();
    assert_eq!(removed, ["", "", "purged", "purged"]);
}

#[tokio::test]
async fn a_purge_that_fails_removes_nothing() {
    let service = service_with_installed_store().await;
    let ada = service.person("ada").await;
    set(&ada, "k", "v").await;
    let away = "ALTER TABLE stores RENAME TO stores_away";
    service.execute(away).await;
    let purge = "module remove keeper --purge";
    service
        .operator(purge, "")
        .await
        .fails_mentioning("The operation could not be completed");
    let back = "ALTER TABLE stores_away RENAME TO stores";
    service.execute(back).await;
    assert_eq!(get(&ada, "k").await, "v");
    service.operator(purge, "").await.succeeds();
}
