//! Specification, section 8: rate limits, what they apply to, and their headers.
//!
//! The figures are the defaults.

use std::time::Duration;

use latchmail_tests::{Answer, DOMAIN, PASSWORD, Person, Service, Setup};
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

/// The number in a header of a response.
#[track_caller]
fn number(answer: &Answer, header: &str) -> i64 {
    let value = answer.header(header).unwrap_or_else(|| {
        panic!(
            "no {header} on {} {} {:?}",
            answer.status, answer.json, answer.headers
        )
    });
    value.parse().unwrap()
}

/// Asserts that the headers of a counted response are correct, with `left` of `limit` requests remaining.
#[track_caller]
fn counted(service: &Service, answer: &Answer, limit: i64, left: i64) {
    assert_ne!(answer.status, 429, "{left} of {limit} are left");
    assert_eq!(number(answer, "x-ratelimit-limit"), limit);
    assert_eq!(number(answer, "x-ratelimit-remaining"), left);
    assert!(answer.header("retry-after").is_none());
    // Unix seconds, rounded up: the budget refills evenly over a minute.
    let whole_in = number(answer, "x-ratelimit-reset") * 1000 - service.clock.now().millis();
    let filling = (limit - left) * 60_000 / limit;
    assert!(
        (filling..filling + 1000).contains(&whole_in),
        "{whole_in} ms"
    );
}

/// Asserts that a request was over the limit, and returns the time in `Retry-After`.
#[track_caller]
fn refused(service: &Service, answer: &Answer, limit: i64) -> Duration {
    answer.fails(429, TOO_MANY);
    assert_eq!(number(answer, "x-ratelimit-limit"), limit);
    assert_eq!(number(answer, "x-ratelimit-remaining"), 0);
    let whole_in = number(answer, "x-ratelimit-reset") * 1000 - service.clock.now().millis();
    assert!((60_000 - 60_000 / limit..61_000).contains(&whole_in));
    let wait = number(answer, "retry-after");
    assert!((1..=60).contains(&wait), "{wait}");
    Duration::from_secs(wait.unsigned_abs())
}

/// Repeats `ask` up to `limit` and once more, waits for the returned time, and asks again.
async fn spends(service: &Service, limit: i64, ask: impl AsyncFn() -> Answer) {
    for left in (0..limit).rev() {
        counted(service, &ask().await, limit, left);
    }
    let wait = refused(service, &ask().await, limit);
    refused(service, &ask().await, limit);
    // One millisecond earlier is too early.
    let moment = Duration::from_millis(1);
    service.clock.advance(wait.saturating_sub(moment));
    refused(service, &ask().await, limit);
    service.clock.advance(moment);
    let served = ask().await;
    assert_ne!(served.status, 429, "after {wait:?}");
    assert_eq!(number(&served, "x-ratelimit-remaining"), 0);
    let rest = number(&served, "x-ratelimit-reset") * 1000 - service.clock.now().millis();
    service
        .clock
        .advance(Duration::from_millis(rest.unsigned_abs()));
    counted(service, &ask().await, limit, limit - 1);
    service.clock.advance(Duration::from_mins(1));
}

/// A sign-in attempt of a client behind a trusted proxy.
async fn tries(service: &Service, client: &str, email: &str) -> Answer {
    let body = json!({ "email": email, "password": "Wrong-Horse-7" });
    let request = service.request(LOGIN).header("x-forwarded-for", client);
    Answer::of(request.json(&body)).await
}

#[tokio::test]
async fn public_routes_are_limited_by_the_budget_of_their_group() {
    let service = limited().await;
    spends(&service, 60, || service.ask(READINESS)).await;
    spends(&service, 30, || service.ask(AVAILABLE)).await;
    spends(&service, 30, || service.ask(DOMAINS)).await;
    let post = async |line: &str, body: serde_json::Value| {
        Answer::of(service.request(line).json(&body)).await
    };
    let refresh = json!({ "refreshToken": "never-given-out" });
    spends(&service, 30, || post(REFRESH, refresh.clone())).await;
    spends(&service, 3, || post(REGISTER, json!({}))).await;
    spends(&service, 5, || post(LOGIN, json!({}))).await;
}

#[tokio::test]
async fn session_routes_are_limited_by_the_budget_of_their_group() {
    let service = limited().await;
    let ada = service.person("ada").await;
    spends(&service, 60, || ada.ask(FOLDERS)).await;
    spends(&service, 60, || ada.ask(LISTING)).await;
    spends(&service, 60, || ada.ask("GET /api/v1/mail/messages/77")).await;
    // Requests that are refused for another reason count too.
    spends(&service, 60, || {
        ada.ask("GET /api/v1/mail/folders/%ff/messages")
    })
    .await;
    spends(&service, 30, async || {
        Answer::of(service.request(LOGOUT).bearer_auth(&ada.access)).await
    })
    .await;
}

#[tokio::test]
async fn account_routes_are_limited_by_the_budget_of_their_group() {
    let service = limited().await;
    let ada = service.person("ada").await;
    let nothing = json!({});
    let (tokens, app_passwords) = ("/api/v1/tokens", "/api/v1/app-passwords");
    spends(&service, 30, || ada.ask("GET /api/v1/profile")).await;
    spends(&service, 30, || ada.send("PATCH /api/v1/profile", &nothing)).await;
    spends(&service, 30, || ada.ask("GET /api/v1/tokens")).await;
    spends(&service, 30, || ada.post(tokens, &nothing)).await;
    spends(&service, 30, || ada.post(app_passwords, &nothing)).await;
    spends(&service, 30, || ada.ask("GET /api/v1/profile/sessions")).await;
    let change = json!({ "current_password": "Wrong-Horse-7", "new_password": "Other-Horse-8" });
    spends(&service, 5, || {
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
    spends(&service, 30, || ada.ask("GET /api/v1/teams")).await;
    spends(&service, 30, || ada.ask(members)).await;
    spends(&service, 30, || ada.ask(member)).await;
    spends(&service, 30, || ada.ask(&revoked)).await;
    spends(&service, 30, || ada.send(&changed, &nothing)).await;
    spends(&service, 30, || ada.post(grants, &nothing)).await;
    // An invitation takes a password, so it has the limit of signing in.
    let invitations = "/api/v1/teams/none/invitations";
    spends(&service, 5, || ada.post(invitations, &nothing)).await;
}

#[tokio::test]
async fn alias_routes_are_limited_by_the_budget_of_their_group() {
    let service = limited().await;
    let ada = service.person("ada").await;
    let nothing = json!({});
    let aliases = "/api/v1/aliases";
    spends(&service, 30, || ada.ask("GET /api/v1/aliases")).await;
    spends(&service, 30, || ada.post(aliases, &nothing)).await;
    spends(&service, 30, || ada.ask("GET /api/v1/aliases/domains")).await;
    spends(&service, 30, || ada.ask("GET /api/v1/aliases/check")).await;
    spends(&service, 30, || {
        ada.send("PATCH /api/v1/aliases/7", &nothing)
    })
    .await;
    spends(&service, 30, || ada.ask("DELETE /api/v1/aliases/7")).await;
}

#[tokio::test]
async fn domain_routes_are_limited_by_the_budgets_of_their_groups() {
    let service = limited().await;
    let ada = service.person("ada").await;
    let nothing = json!({});
    spends(&service, 30, || ada.ask("GET /api/v1/domains")).await;
    spends(&service, 30, || ada.ask("GET /api/v1/domains/none.example")).await;
    spends(&service, 10, || ada.post("/api/v1/domains", &nothing)).await;
    let verify = "POST /api/v1/domains/none.example/verify";
    spends(&service, 10, || ada.ask(verify)).await;
    let release = "DELETE /api/v1/domains/none.example";
    spends(&service, 10, || ada.ask(release)).await;
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
            let answer = service.with_bearer(FOLDERS, token).await;
            counted(&service, &answer, 60, left);
        }
    }
    for token in &tokens {
        refused(&service, &service.with_bearer(FOLDERS, token).await, 60);
    }
    counted(&service, &ada.ask(FOLDERS).await, 60, 59);
}

#[tokio::test]
async fn the_routes_of_a_group_share_a_budget_that_other_groups_do_not_use() {
    let service = limited().await;
    let ada = service.person("ada").await;
    for line in [FOLDERS, LISTING, "GET /api/v1/mail/messages/77"].repeat(20) {
        assert_ne!(ada.ask(line).await.status, 429);
    }
    for line in [FOLDERS, LISTING, "GET /api/v1/mail/messages/77"] {
        refused(&service, &ada.ask(line).await, 60);
    }
    let head = Answer::of(
        service
            .request("HEAD /api/v1/mail/folders")
            .bearer_auth(&ada.access),
    );
    assert_eq!(head.await.status, 429, "HEAD counts as GET");
    let body = json!({ "refreshToken": "never-given-out" });
    counted(
        &service,
        &ada.post("/api/v1/auth/logout", &body).await,
        30,
        29,
    );
    counted(&service, &service.ask(DOMAINS).await, 30, 29);
    counted(&service, &service.ask(AVAILABLE).await, 30, 28);
    counted(&service, &service.ask(READINESS).await, 60, 59);
}

#[tokio::test]
async fn one_credential_cannot_use_the_budget_of_another() {
    let service = limited().await;
    let (ada, bob) = (service.person("ada").await, service.person("bob").await);
    let elsewhere = ada.again().await;
    for _ in 0..60 {
        ada.ask(FOLDERS).await.succeeds(200);
    }
    refused(&service, &ada.ask(FOLDERS).await, 60);
    counted(&service, &bob.ask(FOLDERS).await, 60, 59);
    counted(&service, &elsewhere.ask(FOLDERS).await, 60, 59);
    // A new token of the same session is the same credential.
    let body = json!({ "refreshToken": ada.refresh });
    let pair = service.post("/api/v1/auth/refresh", &body).await;
    let fresh = Person {
        access: pair.succeeds(200)["accessToken"].as_str().unwrap().into(),
        ..ada.clone()
    };
    refused(&service, &fresh.ask(FOLDERS).await, 60);
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
            let answer = service.ask(line).await;
            assert_eq!(answer.status, status, "{line}");
            for header in ["limit", "remaining", "reset"] {
                let header = format!("x-ratelimit-{header}");
                assert!(answer.header(&header).is_none(), "{line}");
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
                let answer = tries(&service, &format!("192.0.2.{client}"), "Ada@first.test").await;
                answer.fails(401, "Invalid credentials");
            }
        }
    };
    fails_from(0..6).await;
    let answer = login(&service, "198.51.100.1", &ada).await;
    assert_eq!(answer.status, 200);
    // A success does not count towards the limit of the address.
    counted(&service, &answer, 5, 4);
    // All unknown networks together have 100 attempts a minute.
    fails_from(6..20).await;
    let wait = refused(&service, &login(&service, "203.0.113.1", &ada).await, 100);
    let other = tries(&service, "203.0.113.1", "bob@first.test").await;
    other.fails(401, "Invalid credentials");
    // A network from which the owner signed in before is not affected.
    let answer = login(&service, "198.51.100.1", &ada).await;
    assert_eq!(answer.status, 200);
    service.clock.advance(wait);
    let answer = login(&service, "203.0.113.1", &ada).await;
    assert_eq!(answer.status, 200);
}

async fn login(service: &Service, client: &str, person: &Person<'_>) -> Answer {
    let body = json!({ "email": person.address, "password": PASSWORD });
    let request = service.request(LOGIN).header("x-forwarded-for", client);
    Answer::of(request.json(&body)).await
}

#[tokio::test]
async fn a_client_that_tries_many_addresses_has_one_budget() {
    let service = limited().await;
    for n in 0..5 {
        let answer = tries(&service, "", &format!("nobody-{n}@first.test")).await;
        counted(&service, &answer, 5, 4 - n);
    }
    let answer = tries(&service, "", "nobody-6@first.test").await;
    refused(&service, &answer, 5);
}

#[tokio::test]
async fn a_trusted_proxy_names_the_client_and_an_ipv6_network_is_one_client() {
    let service = Setup::default()
        .with_default_limits()
        .with("http.trusted_proxies = ['127.0.0.0/8', '10.0.0.0/8']")
        .start()
        .await;
    let ask = async |name: &str, value: &str| {
        Answer::of(service.request(DOMAINS).header(name, value)).await
    };
    let forwarded = async |value: &str| number(&ask("x-forwarded-for", value).await, REMAINING);
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
    let rfc7239 = ask("forwarded", "for=192.0.2.1").await;
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
        counted(&service, &Answer::of(request).await, 30, 29 - n);
    }
    refused(&service, &service.ask(DOMAINS).await, 30);
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
        let answer = Answer::of(request).await;
        left -= 1;
        assert_eq!(answer.status, 401, "{header:?}");
        counted(&service, &answer, 6, left);
    }
    let wait = refused(&service, &service.ask(FOLDERS).await, 6);
    refused(&service, &service.ask(LISTING).await, 6);
    counted(&service, &ada.ask(FOLDERS).await, 60, 59);
    service.clock.advance(wait);
    assert_eq!(service.ask(FOLDERS).await.status, 401);
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
    counted(&service, &service.with_bearer(FOLDERS, &ada).await, 60, 59);
    for n in 0..6 {
        let made_up = format!("{ada}{n}");
        let answer = service.with_bearer(FOLDERS, &made_up).await;
        answer.fails(401, "Invalid or expired access token");
    }
    // The service has not verified this token since its start, so it would have to verify its signature.
    refused(&service, &service.with_bearer(FOLDERS, &bob).await, 6);
    counted(&service, &service.with_bearer(FOLDERS, &ada).await, 60, 58);
}

#[tokio::test]
async fn requests_with_an_ended_session_share_its_budget() {
    let service = limited().await;
    let ada = service.person("ada").await;
    let body = json!({ "refreshToken": ada.refresh });
    ada.post("/api/v1/auth/logout", &body).await.succeeds(200);
    for left in (0..60).rev() {
        let answer = ada.ask(FOLDERS).await;
        answer.fails(401, "Mail session expired, please log in again");
        counted(&service, &answer, 60, left);
    }
    refused(&service, &ada.ask(FOLDERS).await, 60);
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
    let register = async || Answer::of(service.request(REGISTER).json(&body)).await;
    counted(&service, &register().await, 2, 0);
    refused(&service, &register().await, 2);
    for line in [READINESS, DOMAINS, FOLDERS] {
        counted(&service, &service.ask(line).await, 2, 1);
        counted(&service, &service.ask(line).await, 2, 0);
        refused(&service, &service.ask(line).await, 2);
    }
    for line in [FOLDERS, LOGOUT] {
        counted(&service, &ada.ask(line).await, 2, 1);
        counted(&service, &ada.ask(line).await, 2, 0);
        refused(&service, &ada.ask(line).await, 2);
    }
    counted(&service, &tries(&service, "", "a@first.test").await, 2, 1);
    counted(&service, &tries(&service, "", "a@first.test").await, 2, 0);
    refused(&service, &tries(&service, "", "a@first.test").await, 2);
}
