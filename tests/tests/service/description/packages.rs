//! The client packages in `clients`: their generated code is current, and they work with a running
//! service.

use latchmail_tests::{GeneratedClient, Setup};
use serde_json::{Value, json};

/// Starts a service with two accounts, and passes the data of a script to `run`.
async fn with_client(run: impl AsyncFnOnce(GeneratedClient)) {
    let service = Setup::default().with_mail().start().await;
    let (ada, bob) = (service.person("ada").await, service.person("bob").await);
    let token = ada.token(&["mail:read", "mail:write", "mail:send"]).await;
    let data: Value = json!({
        "base": service.base,
        "token": token["token"],
        "address": ada.address,
        "other": bob.address,
    });
    run(GeneratedClient::of(&service, &data).await).await;
}

#[tokio::test]
async fn the_generated_code_of_the_packages_is_current() {
    with_client(async |client| client.check_packages().await).await;
}

#[tokio::test]
async fn the_package_for_typescript_reads_sends_and_follows_mail() {
    with_client(async |client| client.typescript_package().await).await;
}

#[tokio::test]
async fn the_package_for_python_reads_sends_and_follows_mail() {
    with_client(async |client| client.python_package().await).await;
}
