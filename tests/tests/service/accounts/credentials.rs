//! API tokens, app passwords, and the list of all credentials.

use std::collections::BTreeSet;
use std::time::Duration;

use futures_util::future::join_all;
use latchmail_tests::{PASSWORD, Person, Response, Service, TEST_TIMEOUT, log_in};
use lettre::transport::smtp::authentication::Credentials;
use lettre::{AsyncSmtpTransport, AsyncTransport as _, Message, Tokio1Executor};
use serde_json::{Value, json};
use tokio::time::timeout;

const TOKENS: &str = "/api/v1/tokens";
const APP_PASSWORDS: &str = "/api/v1/app-passwords";
const SESSIONS: &str = "GET /api/v1/profile/sessions";
const FOLDERS: &str = "GET /api/v1/mail/folders";
const REVOKED: &str = "This API token has been revoked";
const SESSION_ENDED: &str = "Mail session expired, please log in again";
const DAY: Duration = Duration::from_hours(24);

fn text<'a>(value: &'a Value, field: &str) -> &'a str {
    value[field]
        .as_str()
        .unwrap_or_else(|| panic!("no {field} in {value}"))
}

async fn tokens(person: &Person<'_>) -> Vec<Value> {
    let listed = person.send(&format!("GET {TOKENS}")).await.succeeds(200);
    listed["tokens"].as_array().unwrap().clone()
}

async fn revoke(person: &Person<'_>, id: &str) -> Response {
    person.send(&format!("DELETE {TOKENS}/{id}")).await
}

/// Returns one of the two lists of credentials: `credentials` or `sessions`.
async fn listed(person: &Person<'_>, view: &str) -> Vec<Value> {
    let lists = person.send(SESSIONS).await.succeeds(200);
    lists[view].as_array().unwrap().clone()
}

/// Returns whether an SMTP client may log in and send with this password.
pub(super) async fn can_submit(service: &Service, address: &str, password: &str) -> bool {
    let submission = service.mail().submission;
    let transport =
        AsyncSmtpTransport::<Tokio1Executor>::builder_dangerous(submission.ip().to_string())
            .port(submission.port())
            .credentials(Credentials::new(address.into(), password.into()))
            .build();
    let message = Message::builder()
        .from(address.parse().unwrap())
        .to(address.parse().unwrap())
        .subject("to myself")
        .body(String::from("Hello."))
        .unwrap();
    transport.send(message).await.is_ok()
}

// API tokens

#[tokio::test]
async fn a_token_is_shown_once_and_is_limited_to_its_scopes() {
    let service = Service::with_mail().await;
    let ada = service.person("ada").await;
    let body = json!({ "label": "  CI ", "scopes": ["profile:read", "mail:read", "profile:read"], "expiresInDays": 30 });
    let response = ada.post(TOKENS, &body).await;
    assert_eq!(response.header("cache-control"), Some("no-store"));
    let token = response.succeeds(201);
    let secret = text(&token, "token");
    let (prefix, symbols) = secret.split_at(4);
    assert_eq!((prefix, symbols.len()), ("lmk_", 43));
    assert!(symbols.bytes().all(|b| b.is_ascii_alphanumeric()));
    let now = service.clock.now();
    let iso = |at: latchmail_core::clock::Timestamp| {
        let at = chrono::DateTime::from_timestamp_millis(at.millis()).unwrap();
        at.to_rfc3339_opts(chrono::SecondsFormat::Millis, true)
    };
    let expected = json!({
        "id": token["id"], "label": "CI", "scopes": ["mail:read", "profile:read"], "token": secret, "hint": &secret[43..],
        "createdAt": iso(now), "lastUsedAt": null, "expiresAt": iso(now.plus(DAY * 30)),
    });
    assert_eq!(token, expected);

    service.with_bearer(FOLDERS, secret).await.succeeds(200);
    service
        .with_bearer("GET /api/v1/profile", secret)
        .await
        .succeeds(200);
    let refused = service
        .with_bearer("GET /api/v1/mail/search?q=x", secret)
        .await;
    refused.succeeds(200);
    let missing = service
        .with_bearer("DELETE /api/v1/mail/messages/1", secret)
        .await;
    missing.fails(403, "This credential is missing the \"mail:write\" scope");
    let mut listed = tokens(&ada).await.remove(0);
    listed["lastUsedAt"] = Value::Null;
    let mut without = token.clone();
    without.as_object_mut().unwrap().remove("token");
    assert_eq!(listed, without);
}

#[tokio::test]
async fn an_invalid_token_request_is_refused_with_the_specified_text() {
    let service = Service::start().await;
    let ada = service.person("ada").await;
    let available = "mail:read, mail:send, mail:write, aliases:read, aliases:write, profile:read";
    for (body, expected) in [
        (
            json!({ "scopes": ["mail:read"] }),
            "label is required".to_owned(),
        ),
        (
            json!({ "label": " ", "scopes": ["mail:read"] }),
            "label is required".into(),
        ),
        (
            json!({ "label": "x".repeat(65), "scopes": ["mail:read"] }),
            "label must be 1 to 64 characters".into(),
        ),
        (
            json!({ "label": "x" }),
            "At least one scope is required".into(),
        ),
        (
            json!({ "label": "x", "scopes": [] }),
            "At least one scope is required".into(),
        ),
        (
            json!({ "label": "x", "scopes": ["mail"] }),
            format!("Unknown scope \"mail\". Available scopes: {available}"),
        ),
        (
            json!({ "label": "x", "scopes": ["mail:read"], "expiresInDays": 0 }),
            "expiresInDays must be an integer from 1 to 365".into(),
        ),
        (
            json!({ "label": "x", "scopes": ["mail:read"], "expiresInDays": 366 }),
            "expiresInDays must be an integer from 1 to 365".into(),
        ),
    ] {
        ada.post(TOKENS, &body).await.fails(400, &expected);
    }
    let response = ada
        .post(
            TOKENS,
            &json!({ "label": "x", "scopes": ["mail:read"], "expiresInDays": 1.5 }),
        )
        .await;
    response.fails_mentioning(400, "expiresInDays");
    ada.post_raw(TOKENS, "{")
        .await
        .fails(400, "Invalid JSON body");
    assert!(tokens(&ada).await.is_empty());
}

#[tokio::test]
async fn tokens_are_listed_newest_first_including_expired_ones() {
    let service = Service::with_mail().await;
    let ada = service.person("ada").await;
    let short = json!({ "label": "short", "scopes": ["mail:read"], "expiresInDays": 1 });
    let short = ada.post(TOKENS, &short).await.succeeds(201);
    service.clock.advance(Duration::from_mins(1));
    ada.token(&["mail:send"]).await;
    service.clock.advance(DAY);
    let ada = ada.sign_in_again().await;
    let labels: Vec<Value> = tokens(&ada)
        .await
        .iter()
        .map(|t| t["label"].clone())
        .collect();
    assert_eq!(labels, ["a token", "short"]);
    let refused = service.with_bearer(FOLDERS, text(&short, "token")).await;
    refused.fails(401, "This API token has expired");
    // An expired token is revoked like any other.
    revoke(&ada, text(&short, "id")).await.succeeds(200);
    service
        .with_bearer(FOLDERS, text(&short, "token"))
        .await
        .fails(401, REVOKED);
    assert_eq!(tokens(&ada).await.len(), 1);
}

#[tokio::test]
async fn a_revoked_token_is_refused_at_once_on_every_connection_and_no_longer_listed() {
    let service = Service::with_mail().await;
    let ada = service.person("ada").await;
    let token = ada.token(&["mail:read"]).await;
    let other = ada.token(&["mail:read"]).await;
    let secret = text(&token, "token");
    // Warms up several connections of one client.
    let warm = (0..4).map(|_| service.with_bearer(FOLDERS, secret));
    for response in join_all(warm).await {
        response.succeeds(200);
    }
    for _ in 0..2 {
        let done = revoke(&ada, text(&token, "id")).await.succeeds(200);
        assert_eq!(done, json!({ "success": true }));
    }
    let cold = (0..4).map(|_| service.with_bearer(FOLDERS, secret));
    for response in join_all(cold).await {
        response.fails(401, REVOKED);
    }
    let left = tokens(&ada).await;
    assert_eq!(left.len(), 1);
    assert_eq!(left[0]["id"], other["id"]);
    service
        .with_bearer(FOLDERS, text(&other, "token"))
        .await
        .succeeds(200);
    ada.send(FOLDERS).await.succeeds(200);
}

#[tokio::test]
async fn concurrent_requests_cannot_exceed_twenty_tokens() {
    let service = Service::start().await;
    let ada = service.person("ada").await;
    for _ in 0..19 {
        ada.token(&["mail:read"]).await;
    }
    let body = json!({ "label": "one more", "scopes": ["mail:read"] });
    let made = join_all((0..20).map(|_| ada.post(TOKENS, &body))).await;
    let full = "You already have 20 API tokens; revoke one before creating another";
    let mut kept = 0;
    for response in made {
        if response.status == 201 {
            kept += 1;
        } else {
            response.fails(409, full);
        }
    }
    assert_eq!(kept, 1);
    assert_eq!(tokens(&ada).await.len(), 20);
    // A revoked token does not count.
    let first = tokens(&ada).await.remove(0);
    revoke(&ada, text(&first, "id")).await.succeeds(200);
    ada.post(TOKENS, &body).await.succeeds(201);
}

#[tokio::test]
async fn an_expired_token_counts_until_it_is_revoked() {
    let service = Service::with_mail().await;
    let ada = service.person("ada").await;
    for _ in 0..20 {
        let body = json!({ "label": "x", "scopes": ["mail:read"], "expiresInDays": 1 });
        ada.post(TOKENS, &body).await.succeeds(201);
    }
    service.clock.advance(DAY * 2);
    let ada = ada.sign_in_again().await;
    let body = json!({ "label": "x", "scopes": ["mail:read"] });
    let full = "You already have 20 API tokens; revoke one before creating another";
    ada.post(TOKENS, &body).await.fails(409, full);
}

#[tokio::test]
async fn the_last_use_is_shown_to_the_minute_before_and_after_it_is_stored() {
    let mut service = Service::with_mail().await;
    let ada = service.person("ada").await;
    let token = ada.token(&["mail:read"]).await;
    let secret = text(&token, "token").to_owned();
    let used = async |service: &Service, access: &str| {
        let listed = service
            .with_bearer(&format!("GET {TOKENS}"), access)
            .await
            .succeeds(200);
        listed["tokens"][0]["lastUsedAt"].clone()
    };
    assert_eq!(used(&service, &ada.access).await, Value::Null);
    service.clock.advance(Duration::from_secs(75));
    service.with_bearer(FOLDERS, &secret).await.succeeds(200);
    let minute = service.clock.now().millis() / 60_000 * 60_000;
    let expected = chrono::DateTime::from_timestamp_millis(minute).unwrap();
    let expected = expected.to_rfc3339_opts(chrono::SecondsFormat::Millis, true);
    assert_eq!(used(&service, &ada.access).await, json!(expected));
    let access = ada.access.clone();
    service.restart().await;
    assert_eq!(used(&service, &access).await, json!(expected));
}

#[tokio::test]
async fn a_token_of_another_account_is_not_found_and_stays_valid() {
    let service = Service::with_mail().await;
    let (ada, bob) = (service.person("ada").await, service.person("bob").await);
    let token = ada.token(&["mail:read"]).await;
    for id in [text(&token, "id"), "never-made", "%20", "a%2Fb"] {
        revoke(&bob, id).await.fails(404, "Token not found");
    }
    service
        .with_bearer(FOLDERS, text(&token, "token"))
        .await
        .succeeds(200);
}

#[tokio::test]
async fn a_token_without_its_mail_credential_is_refused_and_the_session_stays_valid() {
    let service = Service::with_mail().await;
    let ada = service.person("ada").await;
    let token = ada.token(&["mail:read"]).await;
    service
        .execute("UPDATE api_tokens SET sealed_password = NULL")
        .await;
    let refused = service.with_bearer(FOLDERS, text(&token, "token")).await;
    let unusable =
        "This API token's mail credential is no longer usable, please create a new token";
    refused.fails(401, unusable);
    ada.send(FOLDERS).await.succeeds(200);
}

#[tokio::test]
async fn the_error_for_a_refused_token_differs_from_that_of_a_session() {
    let service = Service::with_mail().await;
    let ada = service.person("ada").await;
    let token = ada.token(&["mail:read"]).await;
    // The directory still has the app password, but the mail server no longer accepts it. No
    // password has this hash.
    service
        .execute(
            "UPDATE app_passwords SET secret_hash = '0000000000000000000000000000000000000000000000000000000000000000'",
        )
        .await;
    let refused = service.with_bearer(FOLDERS, text(&token, "token")).await;
    refused.fails(401, "This credential is no longer valid for mail access");
    ada.send(FOLDERS).await.fails(401, SESSION_ENDED);
    // Routes without mail work with both.
    ada.send(&format!("GET {TOKENS}")).await.succeeds(200);
}

// App passwords

#[tokio::test]
async fn an_app_password_works_for_imap_and_smtp_until_it_is_deleted() {
    let service = Service::with_mail().await;
    let ada = service.person("ada").await;
    let response = ada
        .post(APP_PASSWORDS, &json!({ "label": " Phone " }))
        .await;
    assert_eq!(response.header("cache-control"), Some("no-store"));
    let made = response.succeeds(201);
    let expected = json!({
        "id": made["id"], "type": "app_password", "label": "Phone", "username": "ada@first.test", "password": made["password"],
        "scopes": null, "access": "Full mailbox access over IMAP and SMTP",
    });
    assert_eq!(made, expected);
    let password = text(&made, "password");
    let mut client = log_in(&service, &ada.address, password).await.unwrap();
    client.select("INBOX").await.unwrap();
    client.logout().await.unwrap();
    assert!(can_submit(&service, &ada.address, password).await);

    let line = format!("DELETE {APP_PASSWORDS}/{}", text(&made, "id"));
    let done = ada.send(&line).await.succeeds(200);
    assert_eq!(done, json!({ "success": true }));
    assert!(log_in(&service, &ada.address, password).await.is_err());
    assert!(!can_submit(&service, &ada.address, password).await);
    ada.send(&line).await.fails(404, "App password not found");
    ada.send(FOLDERS).await.succeeds(200);
}

#[tokio::test]
async fn deleting_an_app_password_ends_only_its_own_connections() {
    let service = Service::with_mail().await;
    let ada = service.person("ada").await;
    let (one, other) = (
        ada.app_password("One").await,
        ada.app_password("Other").await,
    );
    let mut ended = log_in(&service, &ada.address, text(&one, "password"))
        .await
        .unwrap();
    let mut goes_on = log_in(&service, &ada.address, text(&other, "password"))
        .await
        .unwrap();
    ada.send(FOLDERS).await.succeeds(200);
    let line = format!("DELETE {APP_PASSWORDS}/{}", text(&one, "id"));
    ada.send(&line).await.succeeds(200);
    let over = async { while ended.noop().await.is_ok() {} };
    timeout(TEST_TIMEOUT, over).await.unwrap();
    goes_on.noop().await.unwrap();
    ada.send(FOLDERS).await.succeeds(200);
}

#[tokio::test]
async fn the_last_login_of_a_mail_client_is_shown_as_last_use() {
    let service = Service::with_mail().await;
    let ada = service.person("ada").await;
    let made = ada.app_password("Phone").await;
    let last_use = async || {
        let credentials = listed(&ada, "credentials").await;
        let client = credentials.iter().find(|c| c["id"] == made["id"]).unwrap();
        client["lastUsedAt"].clone()
    };
    assert_eq!(last_use().await, Value::Null);
    let client = log_in(&service, &ada.address, text(&made, "password")).await;
    let shown = async {
        loop {
            let at = last_use().await;
            if let Some(at) = at.as_str() {
                return at.to_owned();
            }
        }
    };
    let at = timeout(TEST_TIMEOUT, shown).await.unwrap();
    assert!(at.ends_with(":00.000Z"), "{at} is to the minute");
    client.unwrap().logout().await.unwrap();
}

#[tokio::test]
async fn an_app_password_is_not_an_api_token_and_only_an_app_password_opens_a_mailbox() {
    let service = Service::with_mail().await;
    let ada = service.person("ada").await;
    let made = ada.app_password("Phone").await;
    let refused = service.with_bearer(FOLDERS, text(&made, "password")).await;
    refused.fails(401, "Invalid or expired access token");
    let token = ada.token(&["mail:read"]).await;
    for secret in [text(&token, "token"), PASSWORD, &ada.access] {
        assert!(log_in(&service, &ada.address, secret).await.is_err());
    }
}

#[tokio::test]
async fn an_app_password_without_a_label_is_refused() {
    let service = Service::start().await;
    let ada = service.person("ada").await;
    for body in [
        json!({}),
        json!({ "label": "" }),
        json!({ "label": "  " }),
        json!({ "label": null }),
    ] {
        ada.post(APP_PASSWORDS, &body)
            .await
            .fails(400, "label is required");
    }
    let long = json!({ "label": "é".repeat(65) });
    ada.post(APP_PASSWORDS, &long)
        .await
        .fails(400, "label must be 1 to 64 characters");
    ada.post(APP_PASSWORDS, &json!({ "label": 7 }))
        .await
        .fails(400, "label must be a string");
}

#[tokio::test]
async fn the_app_password_of_a_token_cannot_be_deleted_and_the_error_names_the_token() {
    let service = Service::with_mail().await;
    let ada = service.person("ada").await;
    service.clock.advance(Duration::from_secs(1));
    let token = ada.token(&["mail:read"]).await;
    let id = listed(&ada, "sessions").await[0]["id"].clone();
    let id = id.as_str().unwrap();
    let named = format!(
        "This credential backs the API token \"a token\"; revoke it with DELETE /api/v1/tokens/{}",
        text(&token, "id")
    );
    for line in [
        format!("DELETE {APP_PASSWORDS}/{id}"),
        format!("DELETE /api/v1/profile/sessions/{id}"),
    ] {
        ada.send(&line).await.fails(409, &named);
    }
    service
        .with_bearer(FOLDERS, text(&token, "token"))
        .await
        .succeeds(200);
}

// The list of all credentials

#[tokio::test]
async fn both_lists_contain_the_same_app_passwords_newest_first() {
    let service = Service::with_mail().await;
    let ada = service.person("ada").await;
    service.clock.advance(Duration::from_mins(1));
    let client = ada.app_password("Phone").await;
    service.clock.advance(Duration::from_mins(1));
    let token = ada.token(&["mail:send", "mail:read"]).await;
    service.clock.advance(Duration::from_mins(1));
    let request = service.request("POST /api/v1/auth/login").header(
        "user-agent",
        "Mozilla/5.0 (X11; Linux x86_64; rv:145.0) Gecko/20100101 Firefox/145.0",
    );
    let body = json!({ "email": ada.address, "password": PASSWORD });
    Response::of(request.json(&body)).await.succeeds(200);
    service.person("bob").await;

    let credentials = listed(&ada, "credentials").await;
    let shown: Vec<(&str, &str, bool)> = credentials
        .iter()
        .map(|c| {
            (
                text(c, "type"),
                text(c, "label"),
                c["current"].as_bool().unwrap(),
            )
        })
        .collect();
    assert_eq!(shown[0], ("web_session", "Firefox on Linux", false));
    assert_eq!(shown[1], ("api_token", "a token", false));
    assert_eq!(shown[2], ("app_password", "Phone", false));
    assert_eq!((shown[3].0, shown[3].2), ("web_session", true));
    assert_eq!(credentials[1]["id"], token["id"]);
    assert_eq!(credentials[1]["scopes"], json!(["mail:read", "mail:send"]));
    assert_eq!(credentials[2]["id"], client["id"]);
    for other in [&credentials[0], &credentials[2], &credentials[3]] {
        let fields: BTreeSet<&str> = other
            .as_object()
            .unwrap()
            .keys()
            .map(String::as_str)
            .collect();
        let expected = [
            "createdAt",
            "current",
            "expiresAt",
            "id",
            "label",
            "lastUsedAt",
            "type",
        ];
        assert_eq!(fields, BTreeSet::from(expected));
    }
    assert!(credentials[0]["expiresAt"].is_string() && credentials[2]["expiresAt"].is_null());

    let sessions = listed(&ada, "sessions").await;
    assert_eq!(sessions.len(), credentials.len());
    for (session, credential) in sessions.iter().zip(&credentials) {
        let fields: BTreeSet<&str> = session
            .as_object()
            .unwrap()
            .keys()
            .map(String::as_str)
            .collect();
        assert_eq!(
            fields,
            BTreeSet::from(["createdAt", "current", "description", "expiresAt", "id"])
        );
        assert_eq!(session["description"], credential["label"]);
        assert_eq!(session["createdAt"], credential["createdAt"]);
        assert_eq!(session["current"], credential["current"]);
        let same = session["id"] == credential["id"];
        assert_eq!(same, credential["type"] != "api_token");
    }
}

#[tokio::test]
async fn ending_a_session_ends_no_other_session() {
    let service = Service::with_mail().await;
    let ada = service.person("ada").await;
    let other_session = ada.sign_in_again().await;
    let theirs = listed(&other_session, "sessions").await;
    let theirs = theirs.iter().find(|s| s["current"] == true).unwrap();
    let line = format!("DELETE /api/v1/profile/sessions/{}", text(theirs, "id"));
    ada.send(&line).await.succeeds(200);
    other_session.send(FOLDERS).await.fails(401, SESSION_ENDED);
    let refresh = json!({ "refreshToken": other_session.refresh });
    let refused = service.post("/api/v1/auth/refresh", &refresh).await;
    refused.fails(401, "Invalid or expired refresh token");
    ada.send(&line).await.fails(404, "Session not found");
    ada.send(FOLDERS).await.succeeds(200);
    // The caller's own session can be ended too.
    let own = listed(&ada, "sessions").await;
    let line = format!("DELETE /api/v1/profile/sessions/{}", text(&own[0], "id"));
    ada.send(&line).await.succeeds(200);
    ada.send(FOLDERS).await.fails(401, SESSION_ENDED);
}

#[tokio::test]
async fn a_session_or_app_password_of_another_account_is_not_found_and_stays_valid() {
    let service = Service::with_mail().await;
    let (ada, bob) = (service.person("ada").await, service.person("bob").await);
    let client = ada.app_password("Phone").await;
    for session in listed(&ada, "sessions").await {
        let id = text(&session, "id");
        let line = format!("DELETE /api/v1/profile/sessions/{id}");
        bob.send(&line).await.fails(404, "Session not found");
        let line = format!("DELETE {APP_PASSWORDS}/{id}");
        bob.send(&line).await.fails(404, "App password not found");
    }
    ada.send(FOLDERS).await.succeeds(200);
    let password = text(&client, "password");
    log_in(&service, &ada.address, password).await.unwrap();
}

#[tokio::test]
async fn an_ended_session_is_not_listed() {
    let service = Service::with_mail().await;
    let ada = service.person("ada").await;
    service.clock.advance(DAY * 31);
    let ada = ada.sign_in_again().await;
    assert_eq!(listed(&ada, "credentials").await.len(), 1);
}
