//! The credential of a request, recognized by its form.

use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use latchmail_tests::{Response, Service};
use serde_json::{Value, json};

const FOLDERS: &str = "GET /api/v1/mail/folders";
const NONE: &str = "Missing or invalid Authorization header";
const UNUSABLE: &str = "Invalid or expired access token";

async fn with_header(service: &Service, value: &str) -> Response {
    Response::of(service.request(FOLDERS).header("authorization", value)).await
}

#[tokio::test]
async fn a_request_without_a_usable_header_is_refused() {
    let service = Service::with_mail().await;
    service.send(FOLDERS).await.fails(401, NONE);
    for value in [
        "",
        "Bearer",
        "Bearer ",
        "Basic YTpi",
        "Token x",
        "Bearer a b",
        "Bearer \u{e9}",
    ] {
        with_header(&service, value).await.fails(401, NONE);
    }
    let twice = service
        .request(FOLDERS)
        .header("authorization", "Bearer a")
        .header("authorization", "Bearer b");
    Response::of(twice).await.fails(401, NONE);
}

#[tokio::test]
async fn invalid_tokens_are_refused_according_to_their_form() {
    let service = Service::with_mail().await;
    let unknown = format!("Bearer lmk_{}", "a".repeat(43));
    with_header(&service, &unknown)
        .await
        .fails(401, "Invalid API token");
    with_header(&service, "Bearer lmk_")
        .await
        .fails(401, "Invalid API token");
    with_header(&service, "Bearer some-opaque-oauth-token")
        .await
        .fails(401, UNUSABLE);
}

#[tokio::test]
async fn an_access_token_is_valid_for_fifteen_minutes() {
    let service = Service::with_mail().await;
    let ada = service.person("ada").await;
    service.clock.advance(Duration::from_secs(15 * 60 - 1));
    ada.send(FOLDERS).await.succeeds(200);
    service.clock.advance(Duration::from_secs(1));
    ada.send(FOLDERS).await.fails(401, UNUSABLE);
}

#[tokio::test]
async fn a_token_of_another_service_is_refused() {
    let (service, other) = tokio::join!(Service::with_mail(), Service::with_mail());
    let (ada, stranger) = (service.person("ada").await, other.person("ada").await);
    // The same issuer and audience, but another key.
    let header = format!("Bearer {}", stranger.access);
    with_header(&service, &header).await.fails(401, UNUSABLE);
    ada.send(FOLDERS).await.succeeds(200);
}

#[tokio::test]
async fn a_token_that_was_tampered_with_is_refused() {
    let service = Service::with_mail().await;
    let ada = service.person("ada").await;
    let parts: Vec<&str> = ada.access.split('.').collect();
    let claims = decoded(parts[1]);
    for forged in [
        // Another account with the old signature.
        format!(
            "{}.{}.{}",
            parts[0],
            encoded(&with(&claims, "sub", "somebody-else")),
            parts[2]
        ),
        // Without a signature.
        format!(
            "{}.{}.",
            encoded(&json!({ "alg": "none", "typ": "JWT" })),
            parts[1]
        ),
        format!("{}.{}.", parts[0], parts[1]),
        // The same key with another algorithm, and with another key's name.
        format!(
            "{}.{}.{}",
            encoded(&with(&decoded(parts[0]), "alg", "HS256")),
            parts[1],
            parts[2]
        ),
        format!(
            "{}.{}.{}",
            encoded(&with(&decoded(parts[0]), "kid", "unknown")),
            parts[1],
            parts[2]
        ),
    ] {
        let response = with_header(&service, &format!("Bearer {forged}")).await;
        response.fails(401, UNUSABLE);
    }
    ada.send(FOLDERS).await.succeeds(200);
}

fn with(object: &Value, member: &str, value: &str) -> Value {
    let mut object = object.clone();
    object[member] = value.into();
    object
}

fn encoded(value: &Value) -> String {
    URL_SAFE_NO_PAD.encode(value.to_string())
}

fn decoded(part: &str) -> Value {
    let bytes = URL_SAFE_NO_PAD.decode(part).unwrap();
    serde_json::from_slice(&bytes).unwrap()
}
