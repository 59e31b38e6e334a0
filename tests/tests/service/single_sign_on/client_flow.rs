//! The sign-in of a client: the start, the redirect with a code, and the exchange of the code for a
//! session.

use std::time::Duration;

use latchmail_tests::client::{REDIRECT_URI, between};
use latchmail_tests::provider::{parameter, start_url_with};

use super::*;

#[tokio::test]
async fn a_code_opens_the_mailbox_once() {
    let (_provider, service) = start().await;
    let browser = PersonBrowser::new();
    let code = browser.code(&service, "ada").await;
    let pair = exchange(&service, &code, VERIFIER).await.succeeds(200);
    assert_eq!(pair["user"], json!({ "email": ADA, "isAdmin": false }));
    let ada = Person::from_token_pair(&service, &pair);
    ada.send(FOLDERS).await.succeeds(200);
    let refresh = json!({ "refreshToken": ada.refresh });
    let refreshed = service.post("/api/v1/auth/refresh", &refresh).await;
    refreshed.succeeds(200);
    let again = exchange(&service, &code, VERIFIER).await;
    again.fails(400, "The code is invalid, has expired or was already used");
    let events = events(&service, ADA).await;
    assert!(events.contains("at the identity provider"), "{events}");
    let stored = service.dump().await.join("\n");
    assert!(!stored.contains(&code));
}

#[tokio::test]
async fn a_wrong_verifier_and_an_expired_code_open_nothing() {
    let (_provider, service) = start().await;
    let browser = PersonBrowser::new();
    let code = browser.code(&service, "ada").await;
    let wrong = VERIFIER.replace('d', "e");
    let response = exchange(&service, &code, &wrong).await;
    response.fails(400, "codeVerifier is wrong");
    // The wrong verifier used up the code.
    assert_eq!(exchange(&service, &code, VERIFIER).await.status, 400);
    let code = browser.code(&service, "ada").await;
    service.clock.advance(Duration::from_secs(61));
    assert_eq!(exchange(&service, &code, VERIFIER).await.status, 400);
    for (body, field) in [
        (json!({ "code": code }), "codeVerifier is required"),
        (json!({ "codeVerifier": VERIFIER }), "code is required"),
        (
            json!({ "code": "x", "codeVerifier": VERIFIER }),
            "code is malformed",
        ),
    ] {
        service.post(TOKEN, &body).await.fails(400, field);
    }
}

#[tokio::test]
async fn a_sign_in_ends_only_in_the_browser_in_which_it_began() {
    let (provider, service) = start().await;
    let browser = PersonBrowser::new();
    let start = start_url(&service);
    let callback = browser.to_callback(&start, "ada").await;
    let state = parameter(&callback, "state").unwrap();
    let foreign = callback.replace(&state, &"x".repeat(43));
    assert_eq!(browser.get(&foreign).await.status, 403);
    let missing = callback.replace("state=", "stage=");
    assert_eq!(browser.get(&missing).await.status, 403);
    assert_eq!(PersonBrowser::new().get(&callback).await.status, 403);

    // The provider accepts each code once, and the service each state.
    let callback = browser.to_callback(&start, "ada").await;
    assert_eq!(browser.get(&callback).await.status, 303);
    assert_eq!(browser.get(&callback).await.status, 403);
    let code = parameter(&callback, "code").unwrap();
    let next = browser.to_callback(&start, "ada").await;
    let replayed = next.replace(&parameter(&next, "code").unwrap(), &code);
    let (status, text) = shown(&browser.get(&replayed).await);
    assert!(
        status == 400 && text.contains("could not be completed"),
        "{text}"
    );

    // RFC 9207: the response names its issuer.
    let issuer = url_encoded(&provider.issuer);
    for changed in [("https%3A%2F%2Fother.test", 400), ("", 400)] {
        let callback = browser.to_callback(&start, "ada").await;
        assert!(callback.contains(&issuer), "{callback}");
        let callback = callback.replace(&issuer, changed.0);
        assert_eq!(browser.get(&callback).await.status, changed.1);
    }

    let callback = browser.to_callback(&start, "ada").await;
    service.clock.advance(Duration::from_mins(10));
    assert_eq!(browser.get(&callback).await.status, 403);
}

fn url_encoded(text: &str) -> String {
    url::form_urlencoded::byte_serialize(text.as_bytes()).collect()
}

#[tokio::test]
async fn a_sign_in_returns_only_to_allowed_uris() {
    let listed = "https://app.example/callback?fixed=1";
    let (_provider, service) =
        start_with(&format!("sign_in.oidc.redirect_uris = ['{listed}']")).await;
    let browser = PersonBrowser::new();
    for (changes, status) in [
        (vec![], 200),
        (vec![("redirect_uri", listed)], 303),
        (
            vec![("redirect_uri", "http://[::1]:7/x"), ("state", "")],
            200,
        ),
        (vec![("code_challenge_method", "S256")], 200),
        (vec![("redirect_uri", "https://app.example/callback")], 400),
        (
            vec![("redirect_uri", "https://app.example/callback?fixed=1&x")],
            400,
        ),
        (vec![("redirect_uri", "http://localhost:7/x")], 400),
        (vec![("redirect_uri", "http://127.0.0.1.example/x")], 400),
        (vec![("redirect_uri", "javascript:alert(1)")], 400),
        (vec![("redirect_uri", "")], 400),
        (vec![("code_challenge", "")], 400),
        (vec![("code_challenge", "short")], 400),
        (vec![("code_challenge_method", "plain")], 400),
        (vec![("state", &"x".repeat(2001))], 400),
    ] {
        let response = browser.get(&start_url_with(&service, &changes)).await;
        let (got, text) = shown(&response);
        assert_eq!(got, status, "{changes:?}: {text}");
        if status == 400 {
            assert_eq!(response.header("location"), None);
            assert!(text.contains("invalid request"), "{text}");
        }
    }
    let start = start_url_with(&service, &[("redirect_uri", listed), ("state", "s")]);
    let back = browser.sign_in(&start, "ada").await;
    let back = back.header("location").unwrap();
    assert!(back.starts_with(&format!("{listed}&code=lmi_")), "{back}");
    assert!(back.ends_with("&state=s"), "{back}");
}

#[tokio::test]
async fn a_sign_in_that_returns_to_the_device_needs_a_button() {
    let listed = "http://127.0.0.1:7/listed";
    let settings = format!("sign_in.oidc.redirect_uris = ['{listed}']");
    let (_provider, service) = start_with(&settings).await;
    let browser = PersonBrowser::new();
    // The provider knows the person now, and shows no page the next time.
    browser.code(&service, "ada").await;
    for changes in [vec![], vec![("redirect_uri", listed)]] {
        let response = browser.get(&start_url_with(&service, &changes)).await;
        let (status, text) = shown(&response);
        assert_eq!((status, response.header("location")), (200, None), "{text}");
        assert!(
            text.contains("an application on this device")
                && text.contains("<form method=\"post\" action=\"/auth/oidc/start\">"),
            "{text}"
        );
        let policy = response.header("content-security-policy").unwrap();
        assert!(policy.contains("frame-ancestors 'none'"), "{policy}");
    }
    let to_provider = browser.start(&start_url(&service)).await;
    assert_eq!(to_provider.status, 303);
    // The callback needs the state that only the button creates.
    let callback = format!("{}/auth/oidc/callback?code=x&state=y", service.base);
    assert_eq!(browser.get(&callback).await.status, 403);
    // A form of another browser, another site or another page is refused.
    let page = browser.get(&start_url(&service)).await;
    let request = between(&shown(&page).1, "name=\"request\" value=\"", "\"");
    let action = format!("{}/auth/oidc/start", service.base);
    let foreign = PersonBrowser::new();
    foreign.get(&start_url(&service)).await;
    for (browser, request) in [
        (&foreign, request.as_str()),
        (&browser, "x"),
        (&browser, ""),
    ] {
        let refused = browser.submit(&action, &[("request", request)]).await;
        assert_eq!(refused.status, 403);
        assert_eq!(refused.header("location"), None);
    }
}

#[tokio::test]
async fn the_operator_can_disable_returns_to_the_device() {
    let listed = "http://127.0.0.1:7/listed";
    let settings = format!(
        "sign_in.oidc.redirect_uris = ['{listed}']\nsign_in.oidc.loopback_redirects = false"
    );
    let (_provider, service) = start_with(&settings).await;
    let browser = PersonBrowser::new();
    let (status, text) = shown(&browser.get(&start_url(&service)).await);
    assert!(status == 400 && !text.contains("loopback"), "{text}");
    let start = start_url_with(&service, &[("redirect_uri", listed)]);
    assert_eq!(browser.get(&start).await.status, 200);
}

#[tokio::test]
async fn an_error_of_the_provider_returns_to_the_client() {
    let (_provider, service) = start().await;
    let back = PersonBrowser::new().sign_in(&start_url(&service), "").await;
    let back = back.header("location").unwrap().to_owned();
    assert!(back.starts_with(REDIRECT_URI), "{back}");
    assert_eq!(parameter(&back, "error").as_deref(), Some("access_denied"));
    assert_eq!(parameter(&back, "state").as_deref(), Some("a state & more"));
    assert_eq!(parameter(&back, "code"), None);
}

#[tokio::test]
async fn accounts_of_the_provider_have_no_password() {
    let (_provider, service) =
        start_with("sign_in.domains.'second.test'.source = 'accounts'").await;
    let login = json!({ "email": ADA, "password": "Correct-Horse-7" });
    let start = format!("{}/auth/oidc/start", service.base);
    let response = service.post("/api/v1/auth/login", &login).await;
    response.fails_mentioning(403, &start);
    let form = json!({
        "local_part": "carol", "domain": "first.test", "password": "Correct-Horse-7",
        "first_name": "Carol", "last_name": "C", "dob": "1990-12-10",
    });
    let register = "/api/v1/auth/register";
    let closed = service.post(register, &form).await;
    closed.fails(403, "Registration is currently disabled");
    let ada = sign_in(&service, "ada").await;
    let change = json!({ "current_password": "x", "new_password": "Another-Pass-2" });
    let refused = ada.post("/api/v1/profile/password", &change).await;
    refused.fails_mentioning(403, "identity provider");
    for (verb, reason) in [
        (
            format!("account password {ADA} --generate"),
            "signs in at the identity provider",
        ),
        (
            "account create carol@first.test --generate".into(),
            "omit --generate",
        ),
        (
            format!("account two-factor {ADA} on"),
            "responsible for second factors",
        ),
    ] {
        let output = service.operator(&verb, "").await;
        output.fails_mentioning(reason);
    }

    // A domain can have another source.
    let mut other = form;
    other["domain"] = "second.test".into();
    service.post(register, &other).await.succeeds(201);
    Person::sign_in(&service, "carol@second.test", "Correct-Horse-7").await;
}

#[tokio::test]
async fn an_invitation_needs_a_recent_sign_in() {
    let (_provider, service) = start().await;
    let browser = PersonBrowser::new();
    let ada = sign_in_with(&service, &browser, "ada").await;
    let listed = ada.send("GET /api/v1/teams").await.succeeds(200);
    let team = listed["teams"][0]["id"].as_str().unwrap();
    let path = format!("/api/v1/teams/{team}/invitations");
    let body = json!({ "username": "bob", "resource_kind": "mailbox", "rights": ["mail:read"] });
    service.clock.advance(Duration::from_mins(6));
    let late = ada.post(&path, &body).await;
    late.fails_mentioning(403, "within the last five minutes");
    let refresh = json!({ "refreshToken": ada.refresh });
    let refreshed = service.post("/api/v1/auth/refresh", &refresh).await;
    let access = refreshed.succeeds(200)["accessToken"].clone();
    let request = service.request(&format!("POST {path}"));
    let request = request.bearer_auth(access.as_str().unwrap());
    let late = Response::of_json(request, &body).await;
    late.fails_mentioning(403, "within the last five minutes");
    let ada = sign_in_with(&service, &browser, "ada").await;
    service.clock.advance(Duration::from_mins(4));
    ada.post(&path, &body).await.succeeds(201);
}

#[tokio::test]
async fn the_routes_are_described_as_additions() {
    const ROUTES: [(&str, &str, &[&str]); 5] = [
        (
            "/auth/oidc/start",
            "get",
            &["200", "303", "400", "429", "503"],
        ),
        ("/auth/oidc/start", "post", &["303", "403", "429", "503"]),
        (
            "/auth/oidc/callback",
            "get",
            &["200", "303", "400", "403", "503"],
        ),
        (
            "/api/v1/auth/oidc/token",
            "post",
            &["200", "400", "429", "503"],
        ),
        (
            "/auth/oidc/backchannel-logout",
            "post",
            &["200", "400", "429", "503"],
        ),
    ];
    let service = Service::start().await;
    for (path, method, _) in ROUTES {
        let line = format!("{} {path}", method.to_uppercase());
        assert_eq!(service.send(&line).await.status, 404, "{path}");
    }
    let service = Service::with(
        "sign_in.source = 'oidc'\nsign_in.oidc.issuer = 'http://127.0.0.1:1'\nsign_in.oidc.client_id = 'latchmail'",
    )
    .await;
    let description = service.send("GET /api/openapi.json").await.succeeds(200);
    for (path, method, statuses) in ROUTES {
        let operation = &description["paths"][path][method];
        assert_eq!(operation["x-latchmail"], true, "{path}");
        for status in statuses {
            assert!(
                operation["responses"][status].is_object(),
                "{path}: {status}"
            );
        }
    }
}
