//! The profile and the password.

use std::time::Duration;

use latchmail_tests::{DOMAIN, PASSWORD, Person, Service, log_in};
use serde_json::{Value, json};

const PROFILE: &str = "GET /api/v1/profile";
const CHANGE: &str = "PATCH /api/v1/profile";
const NEW_PASSWORD: &str = "/api/v1/profile/password";
const FOLDERS: &str = "GET /api/v1/mail/folders";
const OTHER: &str = "Other-Horse-8";
const SESSION_ENDED: &str = "Mail session expired, please log in again";

fn passwords(current: &str, new: &str) -> Value {
    json!({ "current_password": current, "new_password": new })
}

/// Creates an account as the operator, and signs in to it.
async fn account_of_operator(service: &Service) -> Person<'_> {
    let address = format!("ops@{DOMAIN}");
    service.create_account(&address).await;
    Person::sign_in(service, &address, PASSWORD).await
}

#[tokio::test]
async fn a_profile_contains_the_data_of_the_registration() {
    let service = Service::start().await;
    let ada = service.person("ada").await;
    let made = service.clock.now();
    let profile = ada.send(PROFILE).await.succeeds(200);
    assert_eq!(
        profile,
        json!({
            "email": "ada@first.test", "first_name": "Ada", "last_name": "Lovelace", "dob": "1990-12-10", "created_at": made.sql(),
        })
    );
}

#[tokio::test]
async fn a_change_keeps_fields_that_it_does_not_contain() {
    let service = Service::start().await;
    let ada = service.person("ada").await;
    let change = json!({ "last_name": "  King ", "email": "eve@first.test" });
    let done = ada.send_json(CHANGE, &change).await.succeeds(200);
    assert_eq!(done, json!({ "success": true }));
    let profile = ada.send(PROFILE).await.succeeds(200);
    assert_eq!(profile["last_name"], "King");
    assert_eq!(profile["first_name"], "Ada");
    assert_eq!(profile["email"], "ada@first.test");
}

#[tokio::test]
async fn an_invalid_change_names_its_field_and_changes_nothing() {
    let service = Service::start().await;
    let ada = service.person("ada").await;
    let before = ada.send(PROFILE).await.succeeds(200);
    for body in [json!({}), json!({ "nickname": "x" })] {
        ada.send_json(CHANGE, &body)
            .await
            .fails(400, "Nothing to update");
    }
    let long = "x".repeat(65);
    for (field, value) in [
        ("first_name", json!("")),
        ("first_name", json!("   ")),
        ("first_name", json!(long)),
        ("first_name", json!(7)),
        ("last_name", json!("a\nb")),
        ("dob", json!("10.12.1990")),
        ("dob", json!("1990-02-30")),
        ("dob", json!("2999-01-01")),
        ("dob", json!(service.clock.now().date().to_string())),
    ] {
        let body = json!({ "first_name": "Eve", "last_name": "Eve", field: value });
        ada.send_json(CHANGE, &body)
            .await
            .fails_mentioning(400, field);
    }
    for body in [&b"{"[..], b"", b"\xff"] {
        let request = service.request(CHANGE).bearer_auth(&ada.access).body(body);
        let response = latchmail_tests::Response::of(request).await;
        response.fails(400, "Invalid JSON body");
    }
    assert_eq!(ada.send(PROFILE).await.succeeds(200), before);
}

#[tokio::test]
async fn an_account_created_by_the_operator_has_no_profile_until_its_owner_sets_one() {
    let service = Service::with_mail().await;
    let ops = account_of_operator(&service).await;
    ops.send(PROFILE).await.fails(404, "Profile not found");
    let incomplete = "Profile does not exist. Provide first_name, last_name, and dob to create.";
    let part = json!({ "first_name": "Ops", "dob": "1990-12-10" });
    ops.send_json(CHANGE, &part).await.fails(400, incomplete);
    let whole = json!({ "first_name": "Ops", "last_name": "Team", "dob": "1990-12-10" });
    ops.send_json(CHANGE, &whole).await.succeeds(200);
    assert_eq!(ops.send(PROFILE).await.succeeds(200)["last_name"], "Team");
}

#[tokio::test]
async fn only_the_new_password_signs_in_after_a_change() {
    let service = Service::with_mail().await;
    let ada = service.person("ada").await;
    let done = ada.post(NEW_PASSWORD, &passwords(PASSWORD, OTHER)).await;
    assert_eq!(done.succeeds(200), json!({ "success": true }));
    let sign_in = |password: &str| {
        let body = json!({ "email": ada.address, "password": password });
        let service = &service;
        async move { service.post("/api/v1/auth/login", &body).await }
    };
    sign_in(PASSWORD).await.fails(401, "Invalid credentials");
    sign_in(OTHER).await.succeeds(200);
}

#[tokio::test]
async fn a_new_password_keeps_the_callers_session_and_mail_clients_and_ends_all_others() {
    let service = Service::with_mail().await;
    let ada = service.person("ada").await;
    let bob = service.person("bob").await;
    let other_session = ada.sign_in_again().await;
    let token = ada.token(&["mail:read"]).await;
    let bobs = bob.token(&["mail:read"]).await;
    service.clock.advance(Duration::from_secs(1));
    let client = ada.app_password("Phone").await;
    ada.send(FOLDERS).await.succeeds(200);
    ada.post(NEW_PASSWORD, &passwords(PASSWORD, OTHER))
        .await
        .succeeds(200);

    ada.send(FOLDERS).await.succeeds(200);
    let refreshed = json!({ "refreshToken": ada.refresh });
    service
        .post("/api/v1/auth/refresh", &refreshed)
        .await
        .succeeds(200);
    other_session.send(FOLDERS).await.fails(401, SESSION_ENDED);
    let secret = token["token"].as_str().unwrap();
    let refused = service.with_bearer(FOLDERS, secret).await;
    refused.fails(401, "This API token has been revoked");
    let password = client["password"].as_str().unwrap();
    log_in(&service, &ada.address, password).await.unwrap();
    service
        .with_bearer(FOLDERS, bobs["token"].as_str().unwrap())
        .await
        .succeeds(200);
    bob.send(FOLDERS).await.succeeds(200);

    let listed = ada.send("GET /api/v1/profile/sessions").await.succeeds(200);
    let kinds: Vec<&str> = listed["credentials"]
        .as_array()
        .unwrap()
        .iter()
        .map(|c| c["type"].as_str().unwrap())
        .collect();
    assert_eq!(kinds, ["app_password", "web_session"]);
}

#[tokio::test]
async fn an_invalid_password_change_is_refused_with_the_specified_text() {
    let service = Service::with_mail().await;
    let ada = service.person("ada").await;
    for (body, text) in [
        (
            passwords("Wrong-Horse-7", OTHER),
            (401, "Current password is incorrect"),
        ),
        (
            passwords(&"x".repeat(2000), OTHER),
            (401, "Current password is incorrect"),
        ),
        (
            passwords(PASSWORD, PASSWORD),
            (400, "New password must be different from current password"),
        ),
        (
            json!({ "new_password": OTHER }),
            (400, "current_password is required"),
        ),
        (
            json!({ "current_password": PASSWORD }),
            (400, "new_password is required"),
        ),
        (passwords("", OTHER), (400, "current_password is required")),
        (
            passwords(PASSWORD, "Short-7"),
            (400, "new_password must be at least 8 characters"),
        ),
        (
            passwords(PASSWORD, "all-lower-7"),
            (400, "new_password must contain an upper-case letter"),
        ),
        (
            passwords(PASSWORD, "ALL-UPPER-7"),
            (400, "new_password must contain a lower-case letter"),
        ),
        (
            passwords(PASSWORD, "No-Digit-Here"),
            (400, "new_password must contain a digit"),
        ),
    ] {
        ada.post(NEW_PASSWORD, &body).await.fails(text.0, text.1);
    }
    ada.sign_in_again().await.send(FOLDERS).await.succeeds(200);
}

#[tokio::test]
async fn of_two_concurrent_password_changes_one_succeeds() {
    let service = Service::with_mail().await;
    let ada = service.person("ada").await;
    let (one, other) = (
        passwords(PASSWORD, "First-Horse-1"),
        passwords(PASSWORD, "Second-Horse-2"),
    );
    let (one, other) = tokio::join!(ada.post(NEW_PASSWORD, &one), ada.post(NEW_PASSWORD, &other));
    let mut statuses = [one.status, other.status];
    statuses.sort_unstable();
    assert_eq!(statuses, [200, 401]);
    let mut signed_in = 0;
    for password in [PASSWORD, "First-Horse-1", "Second-Horse-2"] {
        let body = json!({ "email": ada.address, "password": password });
        signed_in += u32::from(service.post("/api/v1/auth/login", &body).await.status == 200);
    }
    assert_eq!(signed_in, 1);
}

#[tokio::test]
async fn a_password_change_does_not_extend_the_callers_session() {
    let service = Service::start().await;
    let ada = service.person("ada").await;
    service.clock.advance(Duration::from_mins(10));
    ada.post(NEW_PASSWORD, &passwords(PASSWORD, OTHER))
        .await
        .succeeds(200);
    service.clock.advance(Duration::from_hours(24 * 30));
    let body = json!({ "refreshToken": ada.refresh });
    let refused = service.post("/api/v1/auth/refresh", &body).await;
    refused.fails(401, "Invalid or expired refresh token");
}
