//! Changes of modules while the service runs, as an administrator, an operator and their clients
//! see them.

mod commands;
mod consent;
mod embedded;
mod install;
mod probe;
mod registry;
mod rollback;
mod several_hosts;
mod start;
mod switches;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use latchmail_tests::administrator::Administrator;
use latchmail_tests::{Person, Response, Service, Variant};
use serde_json::{Value, json};

/// Allows modules without a section of their own.
const NEW_MODULES: &str = "new_modules.paths = ['/variant/', '/other/', '/api/v1/aliases']";

/// Requests the variant's route, and returns the response.
async fn version(service: &Service) -> Response {
    service.send("GET /variant/version").await
}

async fn assert_serves(service: &Service, wanted: &str) {
    let response = version(service).await.succeeds(200);
    assert_eq!(response, json!({ "version": wanted, "again": wanted }));
}

async fn administrator(service: &Service) -> Person<'_> {
    Administrator::create(service, "root-person@first.test")
        .await
        .sign_in_to_api()
        .await
}

fn body(components: &[Vec<u8>], accept: bool) -> Value {
    let modules: Vec<Value> = components
        .iter()
        .map(|component| json!({ "component": STANDARD.encode(component) }))
        .collect();
    json!({ "modules": modules, "accept": accept })
}

async fn install(admin: &Person<'_>, components: &[Vec<u8>], accept: bool) -> Response {
    let body = body(components, accept);
    admin.post("/api/v1/admin/modules", &body).await
}

fn variant_with_version(version: &str) -> Vec<u8> {
    Variant {
        version,
        ..Variant::default()
    }
    .component()
}

fn variant_that(does: &str, version: &str) -> Vec<u8> {
    Variant {
        version,
        does,
        ..Variant::default()
    }
    .component()
}
