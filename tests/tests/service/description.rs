//! The API description: its statements about every operation, and clients that are generated from
//! it.

use latchmail_tests::Service;
use serde_json::Value;

mod browser;
mod clients;
mod links;
mod packages;
mod schemas;
mod statuses;
mod viewer;

/// Returns the API description of a service with all modules.
async fn description() -> Value {
    described(&Service::start().await).await
}

/// Returns the API description of a service.
async fn described(service: &Service) -> Value {
    service.send("GET /api/openapi.json").await.succeeds(200)
}

/// Returns every operation with its method and path.
fn operations(description: &Value) -> impl Iterator<Item = (String, &Value)> {
    let paths = description["paths"].as_object().unwrap();
    paths.iter().flat_map(|(path, item)| {
        let item = item.as_object().unwrap();
        item.iter().map(move |(method, operation)| {
            (format!("{} {path}", method.to_uppercase()), operation)
        })
    })
}

/// Returns the target of a reference, or the value itself.
fn resolved<'v>(description: &'v Value, value: &'v Value) -> &'v Value {
    match value["$ref"].as_str() {
        Some(reference) => description.pointer(&reference[1..]).unwrap(),
        None => value,
    }
}
