//! Attacks on the authorization server (RFC 9700; specification, section 5), as an attacker sees them.

use std::net::SocketAddr;

use latchmail_tests::client::{CHALLENGE, RETURN, VERIFIER, between};
use latchmail_tests::{Answer, Client, PASSWORD, Service, Setup};
use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;

const FOLDERS: &str = "GET /api/v1/mail/folders";

async fn registered(service: &Service, uris: &[&str]) -> String {
    let body = json!({ "redirect_uris": uris });
    let answer = service.post("/auth/register", &body).await.succeeds(201);
    answer["client_id"].as_str().unwrap().to_owned()
}

#[tokio::test]
async fn only_registered_redirect_uris_are_used() {
    let service = Service::with_mail().await;
    let id = registered(&service, &["https://app.example/cb"]).await;
    let agent = Client::known(&service, &id);
    for uri in [
        "https://app.example/cb/",
        "https://app.example/cb/../x",
        "https://app.example/cb?x=1",
        "https://app.example/cb#x",
        "https://app.example/CB",
        "https://app.example:8443/cb",
        "https://app.example.evil.example/cb",
        "https://app.example@evil.example/cb",
        "https://evil.example/cb",
        "https://evil.example/?https://app.example/cb",
        "https://app.example\\@evil.example/cb",
        "http://app.example/cb",
        "//evil.example",
        "javascript:alert(1)",
    ] {
        let page = agent.page_with(&[("redirect_uri", uri)]).await;
        assert_eq!(page.answer.status, 400, "{uri}");
        assert_eq!(page.answer.header("location"), None, "{uri}");
        assert!(
            page.request.is_empty(),
            "{uri}: the page must not ask to sign in"
        );
        assert!(!page.text.contains("href"), "{uri}: {}", page.text);
    }
    let twice = [("redirect_uri", "https://app.example/cb")];
    let mut wish = agent.usual();
    wish.extend(twice.map(|(k, v)| (k.to_owned(), v.to_owned())));
    let page = agent.page("/login", &wish).await;
    assert_eq!(page.answer.status, 400);
    let unknown = Client::known(&service, "nobody").page_with(&[]).await;
    assert_eq!(unknown.answer.status, 400);
    assert!(!unknown.text.contains("href"));
}

#[tokio::test]
async fn the_service_redirects_only_after_the_user_acted() {
    let service = Service::with_mail().await;
    let agent = Client::register(&service).await;
    for (changes, code) in [
        (("response_type", "token"), "unsupported_response_type"),
        (("response_type", ""), "invalid_request"),
        (("response_mode", "fragment"), "invalid_request"),
        (("code_challenge", ""), "invalid_request"),
        (("code_challenge", "short"), "invalid_request"),
        (("code_challenge_method", "plain"), "invalid_request"),
        (("code_challenge_method", ""), "invalid_request"),
        (("resource", "https://other.example/mcp"), "invalid_target"),
        (("request", "x.y.z"), "request_not_supported"),
        (
            ("request_uri", "https://a.example/"),
            "request_uri_not_supported",
        ),
        (("prompt", "none"), "login_required"),
    ] {
        let page = agent.page_with(&[changes]).await;
        assert_eq!(page.answer.status, 400, "{changes:?}");
        assert_eq!(page.answer.header("location"), None, "{changes:?}");
        // The link back returns the reason to the client.
        let back = between(&page.text, "href=\"", "\"");
        assert!(back.starts_with(RETURN), "{changes:?}: {}", page.text);
        assert!(back.contains(&format!("error={code}&amp;")), "{back}");
        assert!(back.contains("iss=http%3A%2F%2Fservice.test"), "{back}");
    }
}

#[tokio::test]
async fn a_code_used_twice_ends_its_grant() {
    let service = Service::with_mail().await;
    let ada = service.person("ada").await;
    let agent = Client::register(&service).await;
    let code = agent.code(&ada).await;
    let first = agent.exchange(&code).await.succeeds(200);
    let access = first["access_token"].as_str().unwrap();
    service.with_bearer(FOLDERS, access).await.succeeds(200);
    // Another client that has the code ends nothing.
    let thief = Client::register(&service).await;
    assert_eq!(
        thief.exchange(&code).await.succeeds(400)["error"],
        "invalid_grant"
    );
    service.with_bearer(FOLDERS, access).await.succeeds(200);
    assert_eq!(
        agent.exchange(&code).await.succeeds(400)["error"],
        "invalid_grant"
    );
    assert_eq!(service.with_bearer(FOLDERS, access).await.status, 401);
}

#[tokio::test]
async fn a_code_is_worth_nothing_without_what_it_was_asked_for_with() {
    let service = Service::with_mail().await;
    let ada = service.person("ada").await;
    let agent = Client::register(&service).await;
    let code = agent.code(&ada).await;
    for verifier in [
        "",
        CHALLENGE,
        "short",
        &VERIFIER[..42],
        &"a".repeat(43),
        &"a".repeat(129),
    ] {
        let tried = agent
            .token(&[
                ("grant_type", "authorization_code"),
                ("client_id", &agent.client_id),
                ("code", &code),
                ("redirect_uri", RETURN),
                ("code_verifier", verifier),
            ])
            .await;
        assert_eq!(tried.status, 400, "{verifier}");
    }
    service.clock.advance(std::time::Duration::from_mins(1));
    assert_eq!(
        agent.exchange(&code).await.succeeds(400)["error"],
        "invalid_grant"
    );
}

#[tokio::test]
async fn every_redirect_names_the_issuer() {
    let service = Service::with_mail().await;
    let ada = service.person("ada").await;
    let agent = Client::register(&service).await;
    let page = agent.page_with(&[]).await;
    let cancel = between(&page.text, "<a class=\"button quiet\" href=\"", "\"");
    assert!(cancel.contains("error=access_denied&amp;"), "{cancel}");
    assert!(cancel.contains("iss=http%3A%2F%2Fservice.test"), "{cancel}");
    let back = agent.sign_in(&page, &ada.address, PASSWORD).await;
    assert_eq!(back.sent("iss").as_deref(), Some("http://service.test"));
}

#[tokio::test]
async fn a_form_that_another_site_made_signs_nobody_in() {
    let service = Service::with_mail().await;
    let ada = service.person("ada").await;
    let agent = Client::register(&service).await;
    let page = agent.page_with(&[]).await;
    let mine = agent.page_with(&[]).await;
    assert_ne!(page.cookie, mine.cookie);
    let refused = async |page: &latchmail_tests::client::Page| {
        let tried = agent.sign_in(page, &ada.address, PASSWORD).await;
        assert_eq!(tried.answer.header("location"), None);
        tried.answer.status
    };
    // The attacker's form in the victim's browser; without a cookie; without the form.
    let mut crossed = page.clone();
    crossed.cookie.clone_from(&mine.cookie);
    assert_eq!(refused(&crossed).await, 403);
    let mut bare = page.clone();
    bare.cookie = "other=1".into();
    assert_eq!(refused(&bare).await, 403);
    let mut empty = page.clone();
    empty.request.clear();
    assert_eq!(refused(&empty).await, 403);
    let mut changed = page.clone();
    let other = if &page.request[10..11] == "A" {
        "B"
    } else {
        "A"
    };
    changed.request.replace_range(10..11, other);
    assert_eq!(refused(&changed).await, 403);
    // A form of the device page is not valid on the sign-in page.
    let device = agent.page("/device", &[]).await;
    assert_eq!(refused(&device).await, 403);
    let cookie = page.answer.header("set-cookie").unwrap();
    assert!(
        cookie.contains("HttpOnly") && cookie.contains("SameSite=Lax"),
        "{cookie}"
    );
    for (name, value) in [
        ("origin", "https://evil.example"),
        ("origin", "null"),
        ("sec-fetch-site", "cross-site"),
        ("sec-fetch-site", "same-site"),
    ] {
        let url = format!("{}/login", service.base);
        let form = [
            ("request", &*page.request),
            ("email", &ada.address),
            ("password", PASSWORD),
        ];
        let body: Vec<String> = form
            .iter()
            .map(|(k, v)| format!("{k}={}", v.replace('@', "%40")))
            .collect();
        let request = agent
            .browser
            .post(url)
            .header("cookie", &page.cookie)
            .header("content-type", "application/x-www-form-urlencoded")
            .header(name, value)
            .body(body.join("&"));
        assert_eq!(Answer::of(request).await.status, 403, "{name}: {value}");
    }
    // A page is valid for half an hour.
    service.clock.advance(std::time::Duration::from_mins(30));
    assert_eq!(refused(&page).await, 403);
}

#[tokio::test]
async fn no_site_puts_the_pages_in_a_frame_or_has_them_load_anything() {
    let service = Service::with_mail().await;
    let id = registered(&service, &["https://app.example/cb", "com.example.app:/cb"]).await;
    let agent = Client::known(&service, &id);
    for (uri, leads_to) in [
        ("https://app.example/cb", "https:"),
        ("com.example.app:/cb", "com.example.app:"),
    ] {
        let page = agent.page_with(&[("redirect_uri", uri)]).await;
        let policy = page.answer.header("content-security-policy").unwrap();
        for part in [
            "default-src 'none'",
            "frame-ancestors 'none'",
            "base-uri 'none'",
            &format!("form-action 'self' {leads_to};"),
        ] {
            assert!(policy.contains(part), "{part}: {policy}");
        }
        assert!(!policy.contains("unsafe"), "{policy}");
        assert_eq!(page.answer.header("x-frame-options"), Some("DENY"));
        assert_eq!(page.answer.header("cache-control"), Some("no-store"));
        assert!(!page.text.contains("<script"), "{}", page.text);
    }
}

#[tokio::test]
async fn what_a_client_says_of_itself_is_text_on_the_page() {
    let service = Service::with_mail().await;
    let body = json!({
        "client_name": "<img src=x onerror=alert(1)>\"'&",
        "redirect_uris": [RETURN],
    });
    let registered = service.post("/auth/register", &body).await.succeeds(201);
    let agent = Client::known(&service, registered["client_id"].as_str().unwrap());
    let page = agent
        .page_with(&[("state", "\"><script>alert(1)</script>")])
        .await;
    assert_eq!(page.answer.status, 200);
    assert!(
        page.text.contains("&lt;img src=x onerror=alert(1)&gt;"),
        "{}",
        page.text
    );
    for raw in ["<img", "<script"] {
        assert!(!page.text.contains(raw), "{raw}: {}", page.text);
    }
    let typed = agent
        .sign_in(&page, "\"><script>x</script>@first.test", "x")
        .await;
    assert!(!typed.text.contains("<script"), "{}", typed.text);
}

#[tokio::test]
async fn passwords_are_guessed_on_the_page_as_slowly_as_elsewhere() {
    let service = Setup::default()
        .with_mail()
        .with_default_limits()
        .start()
        .await;
    let ada = service.person("ada").await;
    let agent = Client::register(&service).await;
    let page = agent.page_with(&[]).await;
    let mut statuses = Vec::new();
    for _ in 0..7 {
        let tried = agent.sign_in(&page, &ada.address, "Wrong-Horse-7").await;
        statuses.push(tried.answer.status);
        if tried.answer.status == 429 {
            assert!(tried.answer.header("retry-after").is_some());
            assert!(tried.text.contains("Too many requests"), "{}", tried.text);
        }
    }
    assert_eq!(statuses[..4], [403; 4], "{statuses:?}");
    assert_eq!(statuses[5..], [429; 2], "{statuses:?}");
    // It counts towards the limit of the address on all routes.
    let body = json!({ "email": ada.address, "password": PASSWORD });
    let api = service.post("/api/v1/auth/login", &body).await;
    assert_eq!(api.status, 429);
}

#[tokio::test]
async fn user_codes_are_guessed_as_slowly_as_passwords() {
    let service = Setup::default()
        .with_mail()
        .with_default_limits()
        .start()
        .await;
    let agent = Client::register(&service).await;
    let page = agent.page("/device", &[]).await;
    let mut statuses = Vec::new();
    for n in 0..7 {
        let code = format!("BCDF-GHJ{}", ["K", "L", "M", "N", "P", "Q", "R"][n]);
        let tried = agent.fill("/device", &page, &[("user_code", &code)]).await;
        statuses.push(tried.answer.status);
    }
    assert_eq!(statuses[..5], [403; 5], "{statuses:?}");
    assert_eq!(statuses[5..], [429; 2], "{statuses:?}");
}

#[tokio::test]
async fn a_link_alone_lets_no_device_in() {
    let service = Service::with_mail().await;
    let ada = service.person("ada").await;
    let agent = Client::register(&service).await;
    let begun = agent.device().await;
    let code = begun["user_code"].as_str().unwrap();
    let query = [("user_code".to_owned(), code.to_owned())];
    let page = agent.page("/device", &query).await;
    assert!(
        page.text.contains(code),
        "the code is filled in, and the user submits the form"
    );
    assert!(
        page.text
            .contains("Do not enter a code that someone sent you"),
        "{}",
        page.text
    );
    let named = agent.fill("/device", &page, &[("user_code", code)]).await;
    assert!(
        named.text.contains("Test agent"),
        "named before the sign-in"
    );
    let poll = [
        ("grant_type", "urn:ietf:params:oauth:grant-type:device_code"),
        ("client_id", &*agent.client_id),
        ("device_code", begun["device_code"].as_str().unwrap()),
    ];
    let pending = agent.token(&poll).await.succeeds(400);
    assert_eq!(pending["error"], "authorization_pending");
    let no = agent.fill("/device", &named, &[("answer", "no")]).await;
    assert_eq!(no.answer.status, 200, "{}", no.text);
    let denied = agent.token(&poll).await.succeeds(400);
    assert_eq!(denied["error"], "access_denied");
    // A denied request cannot be approved any more.
    let fields = [("email", &*ada.address), ("password", PASSWORD)];
    let late = agent.fill("/device", &named, &fields).await;
    assert_eq!(late.answer.status, 403, "{}", late.text);
}

#[tokio::test]
async fn a_clients_description_is_fetched_from_nowhere_private() {
    let service = Service::with_mail().await;
    for id in [
        "https://127.0.0.1/client.json",
        "https://10.0.0.1/client.json",
        "https://[::1]/client.json",
        "https://169.254.169.254/latest/meta-data",
        "http://app.example/client.json",
        "https://user@app.example/client.json",
        "https://app.example/",
        "https://app.example/client.json?x=1",
    ] {
        let page = Client::known(&service, id).page_with(&[]).await;
        assert_eq!(page.answer.status, 400, "{id}");
        assert!(
            page.request.is_empty() && !page.text.contains("href"),
            "{id}"
        );
    }
}

/// A server for one client description. It is a stub, because no real server returns invalid responses on demand.
async fn describes(answer: impl Fn(SocketAddr) -> String + Send + 'static) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let answer = answer(address);
            tokio::spawn(async move {
                let mut request = [0; 4096];
                let _ = stream.read(&mut request).await;
                let _ = stream.write_all(answer.as_bytes()).await;
                let _ = stream.shutdown().await;
            });
        }
    });
    address
}

fn json_answer(body: &str) -> String {
    format!(
        "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    )
}

#[tokio::test]
async fn a_client_may_be_described_at_its_own_address() {
    let good = describes(|address| {
        let body = json!({
            "client_id": format!("http://{address}/client.json"),
            "client_name": "A described agent",
            "redirect_uris": [RETURN],
        });
        json_answer(&body.to_string())
    })
    .await;
    let other = describes(|_| {
        let body =
            json!({ "client_id": "https://app.example/client.json", "redirect_uris": [RETURN] });
        json_answer(&body.to_string())
    })
    .await;
    let leads_away = describes(|address| {
        format!(
            "HTTP/1.1 302 Found\r\nlocation: http://{address}/other\r\ncontent-length: 0\r\n\r\n"
        )
    })
    .await;
    let large = describes(|address| {
        let id = format!("http://{address}/client.json");
        let body =
            json!({ "client_id": id, "redirect_uris": [RETURN], "more": "x".repeat(20_000) });
        json_answer(&body.to_string())
    })
    .await;
    let hosts = [good, other, leads_away, large].map(|address| format!("'http://{address}'"));
    let settings = format!("oauth.client_hosts = [{}]", hosts.join(", "));
    let service = Setup::default().with_mail().with(&settings).start().await;
    let ada = service.person("ada").await;
    let id = |address: SocketAddr| format!("http://{address}/client.json");
    let agent = Client::known(&service, &id(good));
    let page = agent.page_with(&[]).await;
    assert!(page.text.contains("A described agent"), "{}", page.text);
    assert!(
        page.text.contains(&id(good)),
        "its address is shown, which no other can have"
    );
    let granted = agent.granted(&ada).await;
    agent.refreshed(&granted).await;
    for bad in [other, leads_away, large] {
        let page = Client::known(&service, &id(bad)).page_with(&[]).await;
        assert_eq!(page.answer.status, 400);
        assert!(page.text.contains("is invalid"), "{}", page.text);
    }
}

#[tokio::test]
async fn a_client_with_a_secret_shows_it() {
    let service = Service::with_mail().await;
    let ada = service.person("ada").await;
    let add = [
        "client",
        "add",
        "A server",
        "--redirect-uri",
        RETURN,
        "--json",
    ];
    let made = service.operator_with(&add, "").await.done();
    let made: serde_json::Value = serde_json::from_str(&made).unwrap();
    let (id, secret) = (
        made["client_id"].as_str().unwrap(),
        made["client_secret"].as_str().unwrap(),
    );
    let agent = Client::known(&service, id);
    let code = agent.code(&ada).await;
    assert_eq!(
        agent.exchange(&code).await.succeeds(401)["error"],
        "invalid_client"
    );
    let with = |secret| {
        [
            ("grant_type", "authorization_code"),
            ("client_id", id),
            ("client_secret", secret),
            ("code", &*code),
            ("redirect_uri", RETURN),
            ("code_verifier", VERIFIER),
        ]
    };
    let wrong = agent.token(&with("lms_wrong")).await.succeeds(401);
    assert_eq!(wrong["error"], "invalid_client");
    let tokens = agent.token(&with(secret)).await.succeeds(200);
    let refresh = format!(
        "grant_type=refresh_token&refresh_token={}",
        tokens["refresh_token"].as_str().unwrap()
    );
    let by_header = |name: &str, password: &str| {
        let request = agent
            .browser
            .post(format!("{}/auth/token", service.base))
            .header("content-type", "application/x-www-form-urlencoded")
            .basic_auth(name, Some(password))
            .body(refresh.clone());
        Answer::of(request)
    };
    let wrong = by_header(id, "x").await;
    assert!(
        wrong
            .header("www-authenticate")
            .unwrap()
            .starts_with("Basic")
    );
    assert_eq!(wrong.succeeds(401)["error"], "invalid_client");
    by_header(id, secret).await.succeeds(200);
    // A client without a secret must send none.
    let public = Client::register(&service).await;
    let shown = public
        .token(&[
            ("grant_type", "refresh_token"),
            ("client_id", &public.client_id),
            ("client_secret", secret),
            ("refresh_token", "lmr_x"),
        ])
        .await;
    assert_eq!(shown.succeeds(401)["error"], "invalid_client");
    let listed = service.operator("client list", "").await.done();
    assert!(
        listed.contains("A server") && !listed.contains(secret),
        "{listed}"
    );
    let removed = format!("client remove {id}");
    service.operator(&removed, "").await.done();
    let access = tokens["access_token"].as_str().unwrap();
    assert_eq!(service.with_bearer(FOLDERS, access).await.status, 401);
}

#[tokio::test]
async fn a_token_for_something_else_is_worth_nothing_at_the_agent_endpoint() {
    let service = Service::with_mail().await;
    let ada = service.person("ada").await;
    let agent = Client::register(&service).await;
    let page = agent
        .page_with(&[("resource", "http://service.test/api/v1")])
        .await;
    let back = agent.sign_in(&page, &ada.address, PASSWORD).await;
    let api = agent
        .exchange(&back.sent("code").unwrap())
        .await
        .succeeds(200);
    let api = api["access_token"].as_str().unwrap();
    service.with_bearer(FOLDERS, api).await.succeeds(200);
    let ping = json!({ "jsonrpc": "2.0", "id": 1, "method": "ping" });
    let mcp = |path: &str, token: &str| {
        let request = service.request(&format!("POST {path}")).json(&ping);
        let request = request.header("accept", "application/json, text/event-stream");
        Answer::of(request.bearer_auth(token))
    };
    let text = "Missing or invalid Authorization header";
    let metadata =
        "Bearer resource_metadata=\"http://service.test/.well-known/oauth-protected-resource\"";
    let invalid = format!("{metadata}, error=\"invalid_token\"");
    let good = agent.granted(&ada).await.access;
    let in_the_query = format!("/mcp?access_token={good}");
    for (path, token) in [
        ("/mcp", api),
        ("/mcp", ada.access.as_str()),
        ("/mcp", "lma_nothing"),
        (in_the_query.as_str(), "x"),
    ] {
        let refused = mcp(path, token).await;
        assert_eq!(
            refused.header("www-authenticate"),
            Some(&*invalid),
            "{path}"
        );
        refused.fails(401, text);
    }
    // RFC 6750, section 3.1: no error code without a bearer token.
    for authorization in [None, Some("Basic eDp4"), Some("Bearer ")] {
        let mut request = service.request("POST /mcp").json(&ping);
        if let Some(authorization) = authorization {
            request = request.header("authorization", authorization);
        }
        let refused = Answer::of(request).await;
        assert_eq!(refused.header("www-authenticate"), Some(metadata));
        refused.fails(401, text);
    }
    mcp("/mcp", &good).await.succeeds(200);
}

#[tokio::test]
async fn a_client_is_granted_only_what_it_registered_for() {
    let service = Service::with_mail().await;
    let id = registered(&service, &[RETURN]).await;
    let usual = Client::known(&service, &id);
    // Codes only: no other party can show device codes in the name of a client that does not use them.
    let refused = usual.begin("").await.succeeds(400);
    assert_eq!(refused["error"], "unauthorized_client");
    let device = "urn:ietf:params:oauth:grant-type:device_code";
    let body = json!({ "redirect_uris": [RETURN], "grant_types": [device] });
    let made = service.post("/auth/register", &body).await.succeeds(201);
    let shown = Client::known(&service, made["client_id"].as_str().unwrap());
    shown.device().await;
    let page = shown.page_with(&[]).await;
    assert!(
        page.text.contains("error=unauthorized_client"),
        "{}",
        page.text
    );
}

#[tokio::test]
async fn a_token_that_is_over_spends_its_clients_budget_and_no_other_agents() {
    let settings = "limits.mcp = 5\nlimits.unproven = 8";
    let service = Setup::default().with_mail().with(settings).start().await;
    let ada = service.person("ada").await;
    let agent = Client::register(&service).await;
    let first = agent.granted(&ada).await;
    let ping = json!({ "jsonrpc": "2.0", "id": 1, "method": "ping" });
    let asked = |token: &str| {
        let request = service.request("POST /mcp").json(&ping);
        let request = request.header("mcp-protocol-version", "2025-11-25");
        Answer::of(request.bearer_auth(token))
    };
    asked(&first.access).await.succeeds(200);
    // The code is used a second time, so the grant ends.
    agent.refreshed(&first).await;
    assert_eq!(agent.refresh(&first.refresh).await.status, 400);
    for _ in 0..4 {
        assert_eq!(asked(&first.access).await.status, 401);
    }
    let other = agent.granted(&ada).await;
    asked(&other.access).await.succeeds(200);
}

#[tokio::test]
async fn a_no_after_a_yes_counts_as_long_as_the_device_has_nothing() {
    let service = Service::with_mail().await;
    let ada = service.person("ada").await;
    let agent = Client::register(&service).await;
    let begun = agent.device().await;
    let code = begun["user_code"].as_str().unwrap();
    let page = agent.page("/device", &[]).await;
    let named = agent.fill("/device", &page, &[("user_code", code)]).await;
    let yes = [("email", &*ada.address), ("password", PASSWORD)];
    let done = agent.fill("/device", &named, &yes).await;
    assert!(done.text.contains("Device connected"), "{}", done.text);
    let no = agent.fill("/device", &named, &[("answer", "no")]).await;
    assert!(no.text.contains("Access denied"), "{}", no.text);
    let denied = agent.poll(&begun).await.succeeds(400);
    assert_eq!(denied["error"], "access_denied");
    let again = agent.fill("/device", &named, &[("answer", "no")]).await;
    assert!(again.text.contains("no longer valid"), "{}", again.text);
}
