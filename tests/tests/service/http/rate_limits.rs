//! Rate limits, what they apply to, and their headers.
//!
//! The figures are the defaults.

use std::time::Duration;

use latchmail_tests::{DOMAIN, PASSWORD, Person, Response, Service, Setup};
use serde_json::json;

use super::{TOO_MANY, limited};

const FOLDERS: &str = "GET /api/v1/mail/folders";
const LISTING: &str = "GET /api/v1/mail/folders/INBOX/messages";
const LOGIN: &str = "POST /api/v1/auth/login";
const REGISTER: &str = "POST /api/v1/auth/register";
const REFRESH: &str = "POST /api/v1/auth/refresh";
const LOGOUT: &str = "POST /api/v1/auth/logout";
const AVAILABLE: &str = "GET /api/v1/auth/username-available?username=ada";
const DOMAINS: &str = "GET /api/v1/auth/domains";
const READINESS: &str = "GET /api/readiness";

/// Returns the number in a header of a response.
#[track_caller]
fn number(response: &Response, header: &str) -> i64 {
    let value = response.header(header).unwrap_or_else(|| {
        panic!(
            "no {header} on {} {} {:?}",
            response.status, response.json, response.headers
        )
    });
    value.parse().unwrap()
}

/// Asserts that the headers of a counted response are correct, with `left` of `limit` requests
/// remaining.
#[track_caller]
fn assert_counted(service: &Service, response: &Response, limit: i64, left: i64) {
    assert_ne!(response.status, 429, "{left} of {limit} are left");
    assert_eq!(number(response, "x-ratelimit-limit"), limit);
    assert_eq!(number(response, "x-ratelimit-remaining"), left);
    assert!(response.header("retry-after").is_none());
    // Unix seconds, rounded up: the budget refills evenly over a minute.
    let whole_in = number(response, "x-ratelimit-reset") * 1000 - service.clock.now().millis();
    let filling = (limit - left) * 60_000 / limit;
    assert!(
        (filling..filling + 1000).contains(&whole_in),
        "{whole_in} ms"
    );
}

/// Asserts that a request was over the limit, and returns the time in `Retry-After`.
#[track_caller]
fn assert_limited(service: &Service, response: &Response, limit: i64) -> Duration {
    response.fails(429, TOO_MANY);
    assert_eq!(number(response, "x-ratelimit-limit"), limit);
    assert_eq!(number(response, "x-ratelimit-remaining"), 0);
    let whole_in = number(response, "x-ratelimit-reset") * 1000 - service.clock.now().millis();
    assert!((60_000 - 60_000 / limit..61_000).contains(&whole_in));
    let wait = number(response, "retry-after");
    assert!((1..=60).contains(&wait), "{wait}");
    Duration::from_secs(wait.unsigned_abs())
}

/// Repeats `request` up to `limit` and once more, waits for the returned time, and asks again.
async fn use_up_budget(service: &Service, limit: i64, request: impl AsyncFn() -> Response) {
    for left in (0..limit).rev() {
        assert_counted(service, &request().await, limit, left);
    }
    let wait = assert_limited(service, &request().await, limit);
    assert_limited(service, &request().await, limit);
    // One millisecond earlier is too early.
    let moment = Duration::from_millis(1);
    service.clock.advance(wait.saturating_sub(moment));
    assert_limited(service, &request().await, limit);
    service.clock.advance(moment);
    let served = request().await;
    assert_ne!(served.status, 429, "after {wait:?}");
    assert_eq!(number(&served, "x-ratelimit-remaining"), 0);
    let rest = number(&served, "x-ratelimit-reset") * 1000 - service.clock.now().millis();
    service
        .clock
        .advance(Duration::from_millis(rest.unsigned_abs()));
    assert_counted(service, &request().await, limit, limit - 1);
    service.clock.advance(Duration::from_mins(1));
}

/// Tries to sign in as a client behind a trusted proxy.
async fn attempt_sign_in(service: &Service, client: &str, email: &str) -> Response {
    let body = json!({ "email": email, "password": "Wrong-Horse-7" });
    let request = service.request(LOGIN).header("x-forwarded-for", client);
    Response::of(request.json(&body)).await
}

#[tokio::test]
async fn public_routes_are_limited_by_the_budget_of_their_group() {
    let service = limited().await;
    use_up_budget(&service, 60, || service.send(READINESS)).await;
    use_up_budget(&service, 30, || service.send(AVAILABLE)).await;
    use_up_budget(&service, 30, || service.send(DOMAINS)).await;
    let post = async |line: &str, body: serde_json::Value| {
        Response::of(service.request(line).json(&body)).await
    };
    let refresh = json!({ "refreshToken": "never-given-out" });
    use_up_budget(&service, 30, || post(REFRESH, refresh.clone())).await;
    use_up_budget(&service, 3, || post(REGISTER, json!({}))).await;
    use_up_budget(&service, 5, || post(LOGIN, json!({}))).await;
}

#[tokio::test]
async fn session_routes_are_limited_by_the_budget_of_their_group() {
    let service = limited().await;
    let ada = service.person("ada").await;
    use_up_budget(&service, 60, || ada.send(FOLDERS)).await;
    use_up_budget(&service, 60, || ada.send(LISTING)).await;
    use_up_budget(&service, 60, || ada.send("GET /api/v1/mail/messages/77")).await;
    // Requests that are refused for another reason count too.
    use_up_budget(&service, 60, || {
        ada.send("GET /api/v1/mail/folders/%ff/messages")
    })
    .await;
    use_up_budget(&service, 30, async || {
        Response::of(service.request(LOGOUT).bearer_auth(&ada.access)).await
    })
    .await;
}

#[tokio::test]
async fn account_routes_are_limited_by_the_budget_of_their_group() {
    let service = limited().await;
    let ada = service.person("ada").await;
    let nothing = json!({});
    let (tokens, app_passwords) = ("/api/v1/tokens", "/api/v1/app-passwords");
    use_up_budget(&service, 30, || ada.send("GET /api/v1/profile")).await;
    use_up_budget(&service, 30, || {
        ada.send_json("PATCH /api/v1/profile", &nothing)
    })
    .await;
    use_up_budget(&service, 30, || ada.send("GET /api/v1/tokens")).await;
    use_up_budget(&service, 30, || ada.post(tokens, &nothing)).await;
    use_up_budget(&service, 30, || ada.post(app_passwords, &nothing)).await;
    use_up_budget(&service, 30, || ada.send("GET /api/v1/profile/sessions")).await;
    let change = json!({ "current_password": "Wrong-Horse-7", "new_password": "Other-Horse-8" });
    use_up_budget(&service, 5, || {
        ada.post("/api/v1/profile/password", &change)
    })
    .await;
}

#[tokio::test]
async fn team_routes_are_limited_by_the_budget_of_their_group() {
    let service = limited().await;
    let ada = service.person("ada").await;
    let nothing = json!({});
    let (members, member) = (
        "GET /api/v1/teams/none/members",
        "DELETE /api/v1/teams/none/members/none",
    );
    let (grants, grant) = (
        "/api/v1/teams/none/members/none/grants",
        "/api/v1/teams/none/grants/none",
    );
    let (changed, revoked) = (format!("PATCH {grant}"), format!("DELETE {grant}"));
    use_up_budget(&service, 30, || ada.send("GET /api/v1/teams")).await;
    use_up_budget(&service, 30, || ada.send(members)).await;
    use_up_budget(&service, 30, || ada.send(member)).await;
    use_up_budget(&service, 30, || ada.send(&revoked)).await;
    use_up_budget(&service, 30, || ada.send_json(&changed, &nothing)).await;
    use_up_budget(&service, 30, || ada.post(grants, &nothing)).await;
    // An invitation takes a password, so it has the limit of signing in.
    let invitations = "/api/v1/teams/none/invitations";
    use_up_budget(&service, 5, || ada.post(invitations, &nothing)).await;
}

#[tokio::test]
async fn alias_routes_are_limited_by_the_budget_of_their_group() {
    let service = limited().await;
    let ada = service.person("ada").await;
    let nothing = json!({});
    let aliases = "/api/v1/aliases";
    use_up_budget(&service, 30, || ada.send("GET /api/v1/aliases")).await;
    use_up_budget(&service, 30, || ada.post(aliases, &nothing)).await;
    use_up_budget(&service, 30, || ada.send("GET /api/v1/aliases/domains")).await;
    use_up_budget(&service, 30, || ada.send("GET /api/v1/aliases/check")).await;
    use_up_budget(&service, 30, || {
        ada.send_json("PATCH /api/v1/aliases/7", &nothing)
    })
    .await;
    use_up_budget(&service, 30, || ada.send("DELETE /api/v1/aliases/7")).await;
}

#[tokio::test]
async fn domain_routes_are_limited_by_the_budgets_of_their_groups() {
    let service = limited().await;
    let ada = service.person("ada").await;
    let nothing = json!({});
    use_up_budget(&service, 30, || ada.send("GET /api/v1/domains")).await;
    use_up_budget(&service, 30, || {
        ada.send("GET /api/v1/domains/none.example")
    })
    .await;
    use_up_budget(&service, 10, || ada.post("/api/v1/domains", &nothing)).await;
    let verify = "POST /api/v1/domains/none.example/verify";
    use_up_budget(&service, 10, || ada.send(verify)).await;
    let release = "DELETE /api/v1/domains/none.example";
    use_up_budget(&service, 10, || ada.send(release)).await;
}

#[tokio::test]
async fn each_api_token_has_its_own_budget_even_in_one_client() {
    let service = limited().await;
    let ada = service.person("ada").await;
    let mut tokens = Vec::new();
    for _ in 0..6 {
        let token = ada.token(&["mail:read"]).await;
        tokens.push(token["token"].as_str().unwrap().to_owned());
    }
    // More than the limit of the client for unverified credentials.
    for left in (0..60).rev() {
        for token in &tokens {
            let response = service.with_bearer(FOLDERS, token).await;
            assert_counted(&service, &response, 60, left);
        }
    }
    for token in &tokens {
        assert_limited(&service, &service.with_bearer(FOLDERS, token).await, 60);
    }
    assert_counted(&service, &ada.send(FOLDERS).await, 60, 59);
}

#[tokio::test]
async fn the_routes_of_a_group_share_a_budget_that_other_groups_do_not_use() {
    let service = limited().await;
    let ada = service.person("ada").await;
    for line in [FOLDERS, LISTING, "GET /api/v1/mail/messages/77"].repeat(20) {
        assert_ne!(ada.send(line).await.status, 429);
    }
    for line in [FOLDERS, LISTING, "GET /api/v1/mail/messages/77"] {
        assert_limited(&service, &ada.send(line).await, 60);
    }
    let head = Response::of(
        service
            .request("HEAD /api/v1/mail/folders")
            .bearer_auth(&ada.access),
    );
    assert_eq!(head.await.status, 429, "HEAD counts as GET");
    let body = json!({ "refreshToken": "never-given-out" });
    assert_counted(
        &service,
        &ada.post("/api/v1/auth/logout", &body).await,
        30,
        29,
    );
    assert_counted(&service, &service.send(DOMAINS).await, 30, 29);
    assert_counted(&service, &service.send(AVAILABLE).await, 30, 28);
    assert_counted(&service, &service.send(READINESS).await, 60, 59);
}

#[tokio::test]
async fn one_credential_cannot_use_the_budget_of_another() {
    let service = limited().await;
    let (ada, bob) = (service.person("ada").await, service.person("bob").await);
    let other_session = ada.sign_in_again().await;
    for _ in 0..60 {
        ada.send(FOLDERS).await.succeeds(200);
    }
    assert_limited(&service, &ada.send(FOLDERS).await, 60);
    assert_counted(&service, &bob.send(FOLDERS).await, 60, 59);
    assert_counted(&service, &other_session.send(FOLDERS).await, 60, 59);
    // A new token of the same session is the same credential.
    let body = json!({ "refreshToken": ada.refresh });
    let pair = service.post("/api/v1/auth/refresh", &body).await;
    let fresh = Person {
        access: pair.succeeds(200)["accessToken"].as_str().unwrap().into(),
        ..ada.clone()
    };
    assert_limited(&service, &fresh.send(FOLDERS).await, 60);
}

#[tokio::test]
async fn routes_without_a_limit_have_no_limit_headers() {
    let service = limited().await;
    for _ in 0..70 {
        for (line, status) in [
            ("GET /api/health", 200),
            ("GET /api/openapi.json", 200),
            ("GET /nowhere", 404),
            ("PUT /api/v1/auth/login", 405),
        ] {
            let response = service.send(line).await;
            assert_eq!(response.status, status, "{line}");
            for header in ["limit", "remaining", "reset"] {
                let header = format!("x-ratelimit-{header}");
                assert!(response.header(&header).is_none(), "{line}");
            }
        }
    }
}

#[tokio::test]
async fn strangers_cannot_lock_out_the_owner_of_an_address() {
    let service = Setup::default()
        .with_mail()
        .with_default_limits()
        .with("http.trusted_proxies = ['127.0.0.1']")
        .start()
        .await;
    let ada = service.person("ada").await;
    let fails_from = async |clients: std::ops::Range<u8>| {
        for client in clients {
            for _ in 0..5 {
                let response =
                    attempt_sign_in(&service, &format!("192.0.2.{client}"), "Ada@first.test").await;
                response.fails(401, "Invalid credentials");
            }
        }
    };
    fails_from(0..6).await;
    let response = login(&service, "198.51.100.1", &ada).await;
    assert_eq!(response.status, 200);
    // A success does not count towards the limit of the address.
    assert_counted(&service, &response, 5, 4);
    // All unknown networks together have 100 attempts a minute.
    fails_from(6..20).await;
    let wait = assert_limited(&service, &login(&service, "203.0.113.1", &ada).await, 100);
    let other = attempt_sign_in(&service, "203.0.113.1", "bob@first.test").await;
    other.fails(401, "Invalid credentials");
    // A network from which the owner signed in before is not affected.
    let response = login(&service, "198.51.100.1", &ada).await;
    assert_eq!(response.status, 200);
    service.clock.advance(wait);
    let response = login(&service, "203.0.113.1", &ada).await;
    assert_eq!(response.status, 200);
}

async fn login(service: &Service, client: &str, person: &Person<'_>) -> Response {
    let body = json!({ "email": person.address, "password": PASSWORD });
    let request = service.request(LOGIN).header("x-forwarded-for", client);
    Response::of(request.json(&body)).await
}

#[tokio::test]
async fn a_client_that_tries_many_addresses_has_one_budget() {
    let service = limited().await;
    for n in 0..5 {
        let response = attempt_sign_in(&service, "", &format!("nobody-{n}@first.test")).await;
        assert_counted(&service, &response, 5, 4 - n);
    }
    let response = attempt_sign_in(&service, "", "nobody-6@first.test").await;
    assert_limited(&service, &response, 5);
}

#[tokio::test]
async fn a_trusted_proxy_names_the_client_and_an_ipv6_network_is_one_client() {
    let service = Setup::default()
        .with_default_limits()
        .with("http.trusted_proxies = ['127.0.0.0/8', '10.0.0.0/8']")
        .start()
        .await;
    let request = async |name: &str, value: &str| {
        Response::of(service.request(DOMAINS).header(name, value)).await
    };
    let forwarded = async |value: &str| number(&request("x-forwarded-for", value).await, REMAINING);
    assert_eq!(forwarded("192.0.2.1").await, 29);
    assert_eq!(forwarded("192.0.2.1").await, 28);
    assert_eq!(forwarded("192.0.2.2").await, 29);
    // The client's own entries, before those of the proxies.
    assert_eq!(forwarded("198.51.100.9, 192.0.2.1, 10.1.1.1").await, 27);
    assert_eq!(forwarded("192.0.2.1:4711").await, 26);
    assert_eq!(forwarded("::ffff:192.0.2.1").await, 25);
    assert_eq!(forwarded("2001:db8:0:1::1").await, 29);
    assert_eq!(forwarded("2001:db8:0:1:ffff::2").await, 28);
    assert_eq!(forwarded("[2001:db8:0:1:ffff::3]:443").await, 27);
    assert_eq!(forwarded("2001:db8:0:2::1").await, 29);
    // The proxies' own address, if the header names no client. `Forwarded` is not read.
    assert_eq!(forwarded("unknown").await, 29);
    let rfc7239 = request("forwarded", "for=192.0.2.1").await;
    assert_eq!(number(&rfc7239, REMAINING), 28);
}

const REMAINING: &str = "x-ratelimit-remaining";

#[tokio::test]
async fn a_client_cannot_choose_its_own_address() {
    let service = limited().await;
    for n in 0..30 {
        let request = service
            .request(DOMAINS)
            .header("x-forwarded-for", format!("192.0.2.{n}"))
            .header("forwarded", format!("for=192.0.2.{n}"))
            .header("x-real-ip", format!("192.0.2.{n}"));
        assert_counted(&service, &Response::of(request).await, 30, 29 - n);
    }
    assert_limited(&service, &service.send(DOMAINS).await, 30);
}

#[tokio::test]
async fn invalid_credentials_count_for_the_client_address_and_affect_no_session() {
    let service = Setup::default()
        .with_mail()
        .with_default_limits()
        .with("limits.unproven = 6")
        .start()
        .await;
    let ada = service.person("ada").await;
    let made_up = [
        None,
        Some("Bearer some-opaque-oauth-token".to_owned()),
        Some(format!("Bearer lmk_{}", "a".repeat(43))),
        Some(format!("Bearer {}x", ada.access)),
        Some("Basic YTpi".to_owned()),
        Some("Bearer eyJhbGciOiJub25lIn0.e30.".to_owned()),
    ];
    let mut left = 6;
    for header in &made_up {
        let mut request = service.request(FOLDERS);
        if let Some(header) = header {
            request = request.header("authorization", header);
        }
        let response = Response::of(request).await;
        left -= 1;
        assert_eq!(response.status, 401, "{header:?}");
        assert_counted(&service, &response, 6, left);
    }
    let wait = assert_limited(&service, &service.send(FOLDERS).await, 6);
    assert_limited(&service, &service.send(LISTING).await, 6);
    assert_counted(&service, &ada.send(FOLDERS).await, 60, 59);
    service.clock.advance(wait);
    assert_eq!(service.send(FOLDERS).await.status, 401);
}

#[tokio::test]
async fn wrong_signatures_from_an_address_do_not_affect_verified_tokens() {
    let mut service = Setup::default()
        .with_mail()
        .with_default_limits()
        .with("limits.unproven = 6")
        .start()
        .await;
    let tokens = [service.person("ada").await, service.person("bob").await].map(|p| p.access);
    let [ada, bob] = tokens;
    service.restart().await;
    assert_counted(&service, &service.with_bearer(FOLDERS, &ada).await, 60, 59);
    for n in 0..6 {
        let made_up = format!("{ada}{n}");
        let response = service.with_bearer(FOLDERS, &made_up).await;
        response.fails(401, "Invalid or expired access token");
    }
    // The service has not verified this token since its start, so it would have to verify its
    // signature.
    assert_limited(&service, &service.with_bearer(FOLDERS, &bob).await, 6);
    assert_counted(&service, &service.with_bearer(FOLDERS, &ada).await, 60, 58);
}

#[tokio::test]
async fn requests_with_an_ended_session_share_its_budget() {
    let service = limited().await;
    let ada = service.person("ada").await;
    let body = json!({ "refreshToken": ada.refresh });
    ada.post("/api/v1/auth/logout", &body).await.succeeds(200);
    for left in (0..60).rev() {
        let response = ada.send(FOLDERS).await;
        response.fails(401, "Mail session expired, please log in again");
        assert_counted(&service, &response, 60, left);
    }
    assert_limited(&service, &ada.send(FOLDERS).await, 60);
}

#[tokio::test]
async fn every_limit_can_be_configured() {
    let areas = [
        "mail",
        "sign_in",
        "sign_in_address",
        "unproven",
        "registration",
        "public",
        "readiness",
        "session",
    ];
    let settings: Vec<String> = areas.iter().map(|a| format!("limits.{a} = 2")).collect();
    let service = Service::with_mail_and(&settings.join("\n")).await;
    let ada = service.person("ada").await;
    // Registering the account counts as one request.
    let body = json!({ "domain": DOMAIN });
    let register = async || Response::of(service.request(REGISTER).json(&body)).await;
    assert_counted(&service, &register().await, 2, 0);
    assert_limited(&service, &register().await, 2);
    for line in [READINESS, DOMAINS, FOLDERS] {
        assert_counted(&service, &service.send(line).await, 2, 1);
        assert_counted(&service, &service.send(line).await, 2, 0);
        assert_limited(&service, &service.send(line).await, 2);
    }
    for line in [FOLDERS, LOGOUT] {
        assert_counted(&service, &ada.send(line).await, 2, 1);
        assert_counted(&service, &ada.send(line).await, 2, 0);
        assert_limited(&service, &ada.send(line).await, 2);
    }
    assert_counted(
        &service,
        &attempt_sign_in(&service, "", "a@first.test").await,
        2,
        1,
    );
    assert_counted(
        &service,
        &attempt_sign_in(&service, "", "a@first.test").await,
        2,
        0,
    );
    assert_limited(
        &service,
        &attempt_sign_in(&service, "", "a@first.test").await,
        2,
    );
}
