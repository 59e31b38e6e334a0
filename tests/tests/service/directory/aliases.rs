//! Aliases in the API and at the mail servers. Sections 3 and 7 define
//! their states and error texts.

mod expiry;
mod limits;
mod mail;
mod names;
mod ownership;
mod routes;

use latchmail_tests::{Person, Response};
use serde_json::{Value, json};

const ALIASES: &str = "/api/v1/aliases";
const MISSING: &str = "Alias not found or not owned by you";

/// Claims a domain without verifying it.
async fn claimed(person: &Person<'_>, domain: &str) {
    let body = json!({ "domain": domain });
    person.post("/api/v1/domains", &body).await.succeeds(201);
}

/// Creates an alias, and returns the response.
async fn create(person: &Person<'_>, address: &str) -> Response {
    let (name, domain) = address.rsplit_once('@').unwrap();
    let body = json!({ "name": name, "domain": domain });
    person.post(ALIASES, &body).await
}

/// Creates an alias and returns its id.
async fn created_id(person: &Person<'_>, address: &str) -> u64 {
    let made = create(person, address).await.succeeds(201);
    assert_eq!(made["alias"], address);
    made["id"].as_u64().unwrap()
}

async fn set(person: &Person<'_>, id: u64, active: bool) -> Response {
    let line = format!("PATCH {ALIASES}/{id}");
    person.send_json(&line, &json!({ "active": active })).await
}

async fn delete(person: &Person<'_>, id: u64) -> Response {
    person.send(&format!("DELETE {ALIASES}/{id}")).await
}

async fn listed(person: &Person<'_>) -> Vec<Value> {
    let list = person.send(&format!("GET {ALIASES}")).await.succeeds(200);
    list["aliases"].as_array().unwrap().clone()
}

async fn addresses(person: &Person<'_>) -> Vec<String> {
    let listed = listed(person).await;
    let address = |alias: &Value| alias["address"].as_str().unwrap().to_owned();
    listed.iter().map(address).collect()
}

async fn check(person: &Person<'_>, name: &str, domain: &str) -> Response {
    let encoded = |text: &str| {
        text.bytes()
            .fold(String::new(), |all, b| all + &format!("%{b:02X}"))
    };
    let query = format!("name={}&domain={}", encoded(name), encoded(domain));
    person.send(&format!("GET {ALIASES}/check?{query}")).await
}

/// Returns the reason why an alias is not available; `None` if it is.
async fn checked(person: &Person<'_>, name: &str, domain: &str) -> Option<String> {
    let response = check(person, name, domain).await.succeeds(200);
    let error = response.get("error");
    assert_eq!(response["available"], error.is_none(), "{response}");
    error.map(|error| error.as_str().unwrap().to_owned())
}
