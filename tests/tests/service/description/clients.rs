//! Clients that are generated from the API description can call every operation, and every response matches the description.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use latchmail_tests::{Generated, Nameserver, PASSWORD, RICH, Setup, Variant};
use serde_json::{Value, json};

/// A service with the accounts that a tour of all operations needs: one with mail and a claimed domain, a member of its mailbox, and an
/// administrator.
async fn tour(make: impl AsyncFnOnce(Generated)) {
    let dns = Nameserver::start().await;
    let service = Setup::default()
        .with_mail()
        .with("base_url = ''")
        .with("new_modules.paths = ['/variant/']")
        .with(&format!("dns.server = '{}'", dns.address))
        .start()
        .await;
    let ada = service.person("ada").await;
    ada.receives(RICH).await;
    let claim = json!({ "domain": "ada.example" });
    let claimed = ada.post("/api/v1/domains", &claim).await.succeeds(201);
    let text = |field: &str| claimed["verification"][field].as_str().unwrap();
    dns.txt(text("host"), &[text("value")]);
    let grace = service.person("grace").await;
    let root = service.person("root-person").await;
    let admin = format!("account admin {} on", root.address);
    service.operator(&admin, "").await.done();
    let components: Vec<Value> = ["1.0.0", "1.0.1"]
        .map(|version| {
            let variant = Variant {
                version,
                ..Variant::default()
            };
            STANDARD.encode(variant.component()).into()
        })
        .into();
    let world = json!({
        "base": service.base,
        "address": ada.address,
        "password": PASSWORD,
        "guest": grace.address,
        "admin": root.address,
        "domain": "ada.example",
        "components": components,
    });
    make(Generated::of(&service, &world).await).await;
}

#[tokio::test]
async fn a_client_in_typescript_calls_every_operation() {
    tour(async |generated| generated.typescript().await).await;
}

#[tokio::test]
async fn a_client_in_python_calls_every_operation() {
    tour(async |generated| generated.python().await).await;
}
