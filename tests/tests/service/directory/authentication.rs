//! Signing in, refreshing, signing out, and registering.

use std::time::Duration;

use chrono::{Days, Months};
use latchmail_tests::{
    DOMAIN, PASSWORD, Person, Response, Service, TEST_TIMEOUT, app_password, imap, log_in,
};
use serde_json::{Value, json};

const LOGIN: &str = "/api/v1/auth/login";
const REFRESH: &str = "/api/v1/auth/refresh";
const REGISTER: &str = "/api/v1/auth/register";
const LOGOUT: &str = "/api/v1/auth/logout";

#[tokio::test]
async fn signing_in_returns_a_token_pair_and_the_user() {
    let service = Service::with_mail().await;
    let ada = service.person("ada").await;
    // The case of the address does not matter.
    let body = json!({ "email": "ADA@First.Test", "password": PASSWORD });
    let pair = service.post(LOGIN, &body).await.succeeds(200);
    assert_eq!(
        pair["user"],
        json!({ "email": ada.address, "isAdmin": false })
    );
    assert_eq!(pair["accessToken"].as_str().unwrap().split('.').count(), 3);
    assert!(pair["refreshToken"].as_str().unwrap().len() >= 43);
}

#[tokio::test]
async fn an_invalid_sign_in_is_refused_with_the_specified_text() {
    let service = Service::with_mail().await;
    service.person("ada").await;
    for body in [
        json!({}),
        json!([]),
        json!({ "email": "ada@first.test" }),
        json!({ "password": "x" }),
        json!({ "email": "ada", "password": "x" }),
        json!({ "email": 7, "password": "x" }),
        json!({ "email": "ada@first.test", "password": "" }),
        json!({ "email": "a b@first.test", "password": "x" }),
    ] {
        let response = service.post(LOGIN, &body).await;
        response.fails(400, "Invalid email or password format");
    }
    for (email, password) in [
        ("ada@first.test", "Wrong-Horse-7"),
        ("nobody@first.test", PASSWORD),
        ("ada@elsewhere.test", PASSWORD),
    ] {
        let body = json!({ "email": email, "password": password });
        service
            .post(LOGIN, &body)
            .await
            .fails(401, "Invalid credentials");
    }
}

#[tokio::test]
async fn during_an_outage_of_the_mail_server_only_the_right_password_gets_503() {
    let mut service = Service::with_own_mail().await;
    // The sign-in reaches the mail server. Until then, the mail server is reported as starting.
    service.person("ada").await.sign_in_again().await;
    service.stack().stop_imap().await.unwrap();
    let right = json!({ "email": "ada@first.test", "password": PASSWORD });
    let response = service.post(LOGIN, &right).await;
    response.fails(
        503,
        "Mail server is unavailable, please try again in a moment",
    );
    assert!(response.header("retry-after").is_some());
    let wrong = json!({ "email": "ada@first.test", "password": "Wrong-Horse-7" });
    service
        .post(LOGIN, &wrong)
        .await
        .fails(401, "Invalid credentials");
}

#[tokio::test]
async fn a_refresh_returns_a_new_pair_and_nothing_else() {
    let service = Service::with_mail().await;
    let ada = service.person("ada").await;
    let pair = refresh(&ada).await.succeeds(200);
    let mut fields: Vec<&String> = pair.as_object().unwrap().keys().collect();
    fields.sort();
    assert_eq!(fields, ["accessToken", "refreshToken"]);
    let fresh = Person {
        access: pair["accessToken"].as_str().unwrap().into(),
        ..ada.clone()
    };
    fresh.send("GET /api/v1/mail/folders").await.succeeds(200);
    // The earlier access token is valid until it expires.
    ada.send("GET /api/v1/mail/folders").await.succeeds(200);
}

async fn refresh(person: &Person<'_>) -> Response {
    let body = json!({ "refreshToken": person.refresh });
    person.service.post(REFRESH, &body).await
}

#[tokio::test]
async fn an_invalid_refresh_is_refused_with_the_specified_text() {
    let service = Service::start().await;
    for body in [
        json!({}),
        json!({ "refreshToken": "" }),
        json!({ "refreshToken": 7 }),
    ] {
        service
            .post(REFRESH, &body)
            .await
            .fails(400, "Missing refresh token");
    }
    let body = json!({ "refreshToken": "never-given-out" });
    service
        .post(REFRESH, &body)
        .await
        .fails(401, "Invalid or expired refresh token");
}

#[tokio::test]
async fn an_immediate_second_use_is_refused_and_the_session_continues() {
    let service = Service::start().await;
    let ada = service.person("ada").await;
    let fresh = refresh(&ada).await.succeeds(200);
    service.clock.advance(Duration::from_secs(9));
    refresh(&ada)
        .await
        .fails(401, "Invalid or expired refresh token");
    let next = json!({ "refreshToken": fresh["refreshToken"] });
    service.post(REFRESH, &next).await.succeeds(200);
}

#[tokio::test]
async fn a_second_use_later_ends_the_session() {
    let service = Service::with_mail().await;
    let ada = service.person("ada").await;
    let fresh = refresh(&ada).await.succeeds(200);
    service.clock.advance(Duration::from_secs(11));
    refresh(&ada)
        .await
        .fails(401, "Invalid or expired refresh token");
    let next = json!({ "refreshToken": fresh["refreshToken"] });
    service
        .post(REFRESH, &next)
        .await
        .fails(401, "Invalid or expired refresh token");
    ada.send("GET /api/v1/mail/folders")
        .await
        .fails(401, "Mail session expired, please log in again");
}

#[tokio::test]
async fn of_two_concurrent_refreshes_one_succeeds_and_the_session_continues() {
    let service = Service::with_mail().await;
    let ada = service.person("ada").await;
    let (one, other) = tokio::join!(refresh(&ada), refresh(&ada));
    let (won, lost) = if one.status == 200 {
        (one, other)
    } else {
        (other, one)
    };
    lost.fails(401, "Invalid or expired refresh token");
    let pair = won.succeeds(200);
    ada.send("GET /api/v1/mail/folders").await.succeeds(200);
    let next = json!({ "refreshToken": pair["refreshToken"] });
    service.post(REFRESH, &next).await.succeeds(200);
}

#[tokio::test]
async fn a_session_ends_thirty_days_after_its_last_refresh() {
    let service = Service::start().await;
    let day = Duration::from_hours(24);
    let mut ada = service.person("ada").await;
    for _ in 0..2 {
        service.clock.advance(day * 29);
        let pair = refresh(&ada).await.succeeds(200);
        ada.refresh = pair["refreshToken"].as_str().unwrap().into();
    }
    service.clock.advance(day * 31);
    refresh(&ada)
        .await
        .fails(401, "Invalid or expired refresh token");
}

#[tokio::test]
async fn signing_out_ends_every_web_session_of_the_account_and_no_other() {
    let service = Service::with_mail().await;
    let ada = service.person("ada").await;
    let other_session = ada.sign_in_again().await;
    let bob = service.person("bob").await;
    let body = json!({ "refreshToken": ada.refresh });
    let done = ada.post(LOGOUT, &body).await.succeeds(200);
    assert_eq!(done, json!({ "success": true }));
    for gone in [&ada, &other_session] {
        gone.send("GET /api/v1/mail/folders")
            .await
            .fails(401, "Mail session expired, please log in again");
        refresh(gone)
            .await
            .fails(401, "Invalid or expired refresh token");
    }
    bob.send("GET /api/v1/mail/folders").await.succeeds(200);
}

/// Logs in as a thief who has the app password of a session.
#[tokio::test]
async fn signing_out_ends_connections_to_the_mail_server() {
    let service = Service::with_mail().await;
    let (ada, bob) = (service.person("ada").await, service.person("bob").await);
    let now = service.clock.now();
    let password = app_password(&service.database(), &ada.address, now).await;
    let mut adas = log_in(&service, &ada.address, &password).await.unwrap();
    let mut bobs = imap(&bob).await;
    adas.noop().await.unwrap();
    let body = json!({ "refreshToken": ada.refresh });
    ada.post(LOGOUT, &body).await.succeeds(200);
    let deadline = tokio::time::Instant::now() + TEST_TIMEOUT;
    while adas.noop().await.is_ok() {
        assert!(
            tokio::time::Instant::now() < deadline,
            "the session is still open"
        );
    }
    bobs.noop().await.unwrap();
}

#[tokio::test]
async fn an_invalid_sign_out_is_refused_with_the_specified_text() {
    let service = Service::with_mail().await;
    let (ada, bob) = (service.person("ada").await, service.person("bob").await);
    ada.post(LOGOUT, &json!({}))
        .await
        .fails(400, "refreshToken is required");
    for token in [bob.refresh.as_str(), "never-given-out"] {
        let body = json!({ "refreshToken": token });
        ada.post(LOGOUT, &body)
            .await
            .fails(401, "Invalid or expired refresh token");
    }
    let body = json!({ "refreshToken": ada.refresh });
    service
        .post(LOGOUT, &body)
        .await
        .fails(401, "Missing or invalid Authorization header");
    for alive in [&ada, &bob] {
        alive.send("GET /api/v1/mail/folders").await.succeeds(200);
    }
}

fn form() -> Value {
    json!({
        "local_part": "ada", "domain": DOMAIN, "password": PASSWORD,
        "first_name": "Ada", "last_name": "Lovelace", "dob": "1990-12-10",
    })
}

fn form_with(field: &str, value: impl Into<Value>) -> Value {
    let mut form = form();
    form[field] = value.into();
    form
}

#[tokio::test]
async fn registering_returns_a_token_pair_with_the_names() {
    let service = Service::start().await;
    let pair = service
        .post(REGISTER, &form_with("local_part", "Ada.Lovelace_1-2"))
        .await
        .succeeds(201);
    assert_eq!(
        pair["user"],
        json!({
            "email": "ada.lovelace_1-2@first.test", "isAdmin": false,
            "first_name": "Ada", "last_name": "Lovelace",
        })
    );
    assert!(pair["accessToken"].is_string() && pair["refreshToken"].is_string());
    let other = form_with("domain", "second.test");
    let pair = service.post(REGISTER, &other).await.succeeds(201);
    assert_eq!(pair["user"]["email"], "ada@second.test");
}

#[tokio::test]
async fn an_invalid_registration_is_refused_and_creates_nothing() {
    let service = Service::start().await;
    service
        .post(REGISTER, &form_with("local_part", "a"))
        .await
        .fails(400, "Username must be at least 2 characters");
    let long = "a".repeat(65);
    for (field, value) in [
        ("local_part", json!(long)),
        ("local_part", json!(".ada")),
        ("local_part", json!("ada-")),
        ("local_part", json!("a da")),
        ("local_part", json!("adä")),
        ("local_part", json!("postmaster")),
        ("local_part", json!("Admin")),
        ("local_part", json!("no-reply")),
        ("local_part", json!(7)),
        ("domain", json!("elsewhere.test")),
        ("domain", json!("")),
        ("password", json!("Short-7")),
        ("password", json!("all-lower-7")),
        ("password", json!("ALL-UPPER-7")),
        ("password", json!("No-Digit-Here")),
        ("first_name", json!("")),
        ("first_name", json!("   ")),
        ("first_name", json!(long)),
        ("last_name", json!("")),
        ("last_name", json!(long)),
        ("dob", json!("10.12.1990")),
        ("dob", json!("1990-02-30")),
        ("dob", json!("2999-01-01")),
    ] {
        let response = service
            .post(REGISTER, &form_with(field, value.clone()))
            .await;
        assert_eq!(response.status, 400, "{field} {value}: {}", response.json);
    }
    for field in [
        "local_part",
        "domain",
        "password",
        "first_name",
        "last_name",
        "dob",
    ] {
        let mut form = form();
        form.as_object_mut().unwrap().remove(field);
        service
            .post(REGISTER, &form)
            .await
            .fails_mentioning(400, field);
    }
    let free = service
        .send("GET /api/v1/auth/username-available?username=ada")
        .await;
    assert_eq!(free.succeeds(200)["available"], true);
}

#[tokio::test]
async fn a_body_that_is_not_json_is_reported() {
    let service = Service::start().await;
    for path in [REGISTER, REFRESH] {
        let request = service
            .request(&format!("POST {path}"))
            .body("{\"local_part\":");
        Response::of(request).await.fails(400, "Invalid JSON body");
    }
}

#[tokio::test]
async fn a_person_must_be_thirteen_to_register() {
    let service = Service::start().await;
    let today = service.clock.now().date();
    let born = |days_short: u64| {
        let day = today.checked_sub_months(Months::new(13 * 12)).unwrap();
        day.checked_add_days(Days::new(days_short))
            .unwrap()
            .to_string()
    };
    let young = service.post(REGISTER, &form_with("dob", born(1))).await;
    assert_eq!(young.status, 400, "{}", young.json);
    service
        .post(REGISTER, &form_with("dob", born(0)))
        .await
        .succeeds(201);
}

#[tokio::test]
async fn of_two_concurrent_registrations_of_an_address_one_succeeds() {
    let service = Service::start().await;
    let form = form();
    let (one, other) = tokio::join!(service.post(REGISTER, &form), service.post(REGISTER, &form));
    let lost = if one.status == 201 { other } else { one };
    lost.fails(409, "This email address is already taken");
    let again = form_with("local_part", "ADA");
    service
        .post(REGISTER, &again)
        .await
        .fails(409, "This email address is already taken");
}

#[tokio::test]
async fn registration_can_be_switched_off() {
    let service = Service::with("registration.enabled = false").await;
    service
        .post(REGISTER, &form())
        .await
        .fails(403, "Registration is currently disabled");
}

#[tokio::test]
async fn a_user_name_is_available_until_it_is_registered() {
    let service = Service::start().await;
    let ask = |name: &str| {
        let line = format!("GET /api/v1/auth/username-available?username={name}");
        let service = &service;
        async move { service.send(&line).await.succeeds(200) }
    };
    assert_eq!(
        ask("Ada").await,
        json!({ "available": true, "address": "ada@first.test" })
    );
    service.person("ada").await;
    assert_eq!(
        ask("ada").await,
        json!({ "available": false, "reason": "This email address is already taken" })
    );
    assert_eq!(
        ask("a").await["reason"],
        "Username must be at least 2 characters"
    );
    for name in ["postmaster", ".ada", "a%20b"] {
        let response = ask(name).await;
        assert_eq!(response["available"], false, "{name}");
        assert!(response["reason"].is_string() && response.get("address").is_none());
    }
}

#[tokio::test]
async fn the_registration_domains_are_listed_in_order() {
    let service = Service::start().await;
    assert_eq!(
        service.send("GET /api/v1/auth/domains").await.succeeds(200),
        json!({ "domains": [{ "domain": "first.test" }, { "domain": "second.test" }] })
    );
}

#[tokio::test]
async fn sessions_survive_a_restart_of_the_service() {
    let mut service = Service::with_mail().await;
    let (access, refresh) = {
        let ada = service.person("ada").await;
        (ada.access, ada.refresh)
    };
    service.restart().await;
    let request = service
        .request("GET /api/v1/mail/folders")
        .bearer_auth(access);
    Response::of(request).await.succeeds(200);
    let body = json!({ "refreshToken": refresh });
    service.post(REFRESH, &body).await.succeeds(200);
}

#[tokio::test]
async fn an_account_has_at_most_a_hundred_sessions_and_the_least_recently_used_ends() {
    let service = Service::with_mail().await;
    let ada = service.person("ada").await;
    service.clock.advance(Duration::from_mins(1));
    let recent = ada.sign_in_again().await;
    // 98 more sessions, refreshed a day later.
    service
        .execute(
            "INSERT INTO app_passwords (id, account_id, kind, label, selector, secret_hash, created_at) \
             WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 98) \
             SELECT 'p' || i, (SELECT id FROM accounts WHERE address = 'ada@first.test'), 'web_session', '', 'p' || i, '', 0 FROM n; \
             INSERT INTO sessions (sid, account_id, app_password_id, sealed_password, created_at, expires_at) \
             SELECT 's' || p.id, p.account_id, p.id, s.sealed_password, 0, s.expires_at + 86400000 FROM app_passwords p, \
                (SELECT sealed_password, expires_at FROM sessions ORDER BY expires_at LIMIT 1) s WHERE p.selector = p.id",
        )
        .await;
    ada.send("GET /api/v1/profile").await.succeeds(200);
    service.clock.advance(Duration::from_mins(1));
    let newest = recent.sign_in_again().await;
    let ended = ada.send("GET /api/v1/profile").await;
    ended.fails(401, "Mail session expired, please log in again");
    for alive in [&recent, &newest] {
        alive.send("GET /api/v1/profile").await.succeeds(200);
    }
}
