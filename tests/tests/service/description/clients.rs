//! Clients that are generated from the API description can call every operation, and every response
//! matches the description.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use latchmail_tests::administrator::Administrator;
use latchmail_tests::{
    GeneratedClient, Nameserver, PASSWORD, RICH_MESSAGE, Setup, Variant, fixtures,
};
use serde_json::{Value, json};

/// Starts a service with the accounts that calls of all operations need, and passes a generated
/// client to `run`. One account has mail and a claimed domain, one is a member of its mailbox, and
/// one is an administrator. The administrator is signed in with a second factor. The module `filer`
/// handles events, and has no routes.
async fn with_generated_client(run: impl AsyncFnOnce(GeneratedClient)) {
    let dns = Nameserver::start().await;
    let handler = format!(
        "modules.filer.source = '{}'\nmodules.filer.grants = ['mailbox']\n\
         modules.filer.paths = ['/filer/']\n\
         modules.filer.scopes = ['mail:read', 'mail:write']",
        fixtures().join("fixture_alone.wasm").display()
    );
    let service = Setup::default()
        .with_mail()
        .with("base_url = ''")
        .with("new_modules.paths = ['/variant/']")
        .with(&handler)
        .with(&format!("dns.server = '{}'", dns.address))
        .start()
        .await;
    let ada = service.person("ada").await;
    ada.receive(RICH_MESSAGE).await;
    let claim = json!({ "domain": "ada.example" });
    let claimed = ada.post("/api/v1/domains", &claim).await.succeeds(201);
    let text = |field: &str| claimed["verification"][field].as_str().unwrap();
    dns.txt(text("host"), &[text("value")]);
    let grace = service.person("grace").await;
    let root = Administrator::create(&service, "root-person@first.test").await;
    let root = root.sign_in_to_api().await;
    let components: Vec<Value> = ["1.0.0", "1.0.1"]
        .map(|version| {
            let variant = Variant {
                version,
                ..Variant::default()
            };
            STANDARD.encode(variant.component()).into()
        })
        .into();
    let data = json!({
        "base": service.base,
        "address": ada.address,
        "password": PASSWORD,
        "guest": grace.address,
        "admin": root.access,
        "domain": "ada.example",
        "components": components,
    });
    run(GeneratedClient::of(&service, &data).await).await;
}

#[tokio::test]
async fn a_client_in_typescript_calls_every_operation() {
    with_generated_client(async |generated| generated.typescript().await).await;
}

#[tokio::test]
async fn a_client_in_python_calls_every_operation() {
    with_generated_client(async |generated| generated.python().await).await;
}
