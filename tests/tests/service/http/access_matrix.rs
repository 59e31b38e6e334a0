//! Every route with every kind of credential. The routes come from the router, and the expected
//! access is listed here, so a new route fails until it is added.

mod expected;
mod routes;

use std::time::Duration;

use latchmail_core::caller::{Scope, missing};
use latchmail_runtime::modules::Access;
use latchmail_tests::administrator::Administrator;
use latchmail_tests::{
    Client, DOMAIN, PASSWORD, Person, RawClient, Response, Service, Setup, log_in,
};
use serde_json::{Value, json};

use self::expected::expected_access;

const NO_CREDENTIAL: &str = "Missing or invalid Authorization header";
const UNUSABLE: &str = "Invalid or expired access token";
const SESSION_ENDED: &str = "Mail session expired, please log in again";
const ADMINS_ONLY: &str = "This endpoint is only available to administrators";
const SESSION_ONLY: &str =
    "This endpoint is only available to a signed-in session, not to API or OAuth tokens";

/// The permissions of a credential: the text with which every route refuses it, or its scopes.
enum Permissions {
    Nothing(&'static str),
    Session,
    Scopes(Vec<Scope>),
    /// An OAuth token: whether it is valid for the agent endpoint too, and its scopes.
    OAuth {
        agent: bool,
        scopes: Vec<Scope>,
    },
}

/// The scopes of OAuth tokens if agents may not send.
const OAUTH_SCOPES: [Scope; 4] = [
    Scope::MailRead,
    Scope::MailWrite,
    Scope::AliasesRead,
    Scope::AliasesWrite,
];

/// Forms of pages. Without the hidden field of the page they are refused for every caller.
/// A route that needs the scope `mail:read` beside that of its declaration.
const READS_TOO: &str = "POST /api/v1/mail/drafts/{id}/send";
const FORMS: [&str; 3] = ["POST /login", "POST /device", "POST /account/sign-in"];

/// Returns the refusal of a credential on a route; `None` if it has access.
fn refusal(access: Access, permissions: &Permissions) -> Option<(u16, String)> {
    match (access, permissions) {
        (Access::Any(_) | Access::Operator(_), _) => {
            panic!("no route of the main listener has this access")
        }
        (Access::Public, _)
        | (Access::Session | Access::Scoped { .. }, Permissions::Session)
        | (Access::OAuth, Permissions::OAuth { agent: true, .. }) => None,
        // The agent endpoint has the same response for all others (section 4.9).
        (Access::OAuth, _) => Some((401, NO_CREDENTIAL.into())),
        (_, Permissions::Nothing(text)) => Some((401, (*text).into())),
        (Access::Session | Access::Admin, Permissions::Scopes(_) | Permissions::OAuth { .. }) => {
            Some((403, SESSION_ONLY.into()))
        }
        // No account here is an administrator. The test of the second factor has one.
        (Access::Admin, Permissions::Session) => Some((403, ADMINS_ONLY.into())),
        (Access::Scoped { scope, .. }, Permissions::Scopes(scopes)) if scopes.contains(&scope) => {
            None
        }
        (Access::Scoped { scope, oauth }, Permissions::OAuth { scopes, .. })
            if oauth && scopes.contains(&scope) =>
        {
            None
        }
        (Access::Scoped { scope, .. }, Permissions::Scopes(_) | Permissions::OAuth { .. }) => {
            Some((403, missing(scope)))
        }
    }
}

async fn response_to(service: &Service, route: &str, credential: Option<&str>) -> Response {
    // Without an error, a stream of events does not end.
    let line = route
        .replace("/mail/events", "/mail/events?types=none")
        .replace("{folder}", "INBOX")
        .replace("{uid}", "999")
        .replace("{index}", "0")
        .replace("{domain}", "none.example")
        .replace("{name}", "mail")
        .replace("{page}", "README.md")
        .replace("{id}", "none")
        .replace("{userId}", "none")
        .replace("{grantId}", "none")
        .replace("{delivery}", "none");
    let request = service.request(&line);
    match credential {
        Some(credential) => Response::of(request.bearer_auth(credential)).await,
        None => Response::of(request).await,
    }
}

/// A kind of credential, its name, and what it allows.
struct Kind {
    name: String,
    credential: Option<String>,
    permissions: Permissions,
}

fn kind(name: &str, credential: impl Into<Option<String>>, permissions: Permissions) -> Kind {
    Kind {
        name: name.to_owned(),
        credential: credential.into(),
        permissions,
    }
}

/// Returns the id of a session, as its owner sees it.
async fn current_session_id(person: &Person<'_>) -> String {
    let lists = person
        .send("GET /api/v1/profile/sessions")
        .await
        .succeeds(200);
    let sessions = lists["sessions"].as_array().unwrap();
    let own = sessions.iter().find(|s| s["current"] == true).unwrap();
    text(&own["id"])
}

/// Returns the access token of a session that its owner has ended.
async fn ended_session(person: &Person<'_>) -> String {
    let gone = person.sign_in_again().await;
    let line = format!(
        "DELETE /api/v1/profile/sessions/{}",
        current_session_id(&gone).await
    );
    gone.send(&line).await.succeeds(200);
    gone.access
}

/// Returns a token that its owner has revoked.
async fn revoked_token(person: &Person<'_>) -> String {
    let token = person.token(&["mail:read"]).await;
    let line = format!("DELETE /api/v1/tokens/{}", text(&token["id"]));
    person.send(&line).await.succeeds(200);
    text(&token["token"])
}

/// Returns one credential of every kind.
async fn credentials(service: &Service) -> Vec<Kind> {
    let eve = service.person("eve").await;
    let short = json!({ "label": "short", "scopes": ["mail:read"], "expiresInDays": 1 });
    let expired = eve.post("/api/v1/tokens", &short).await.succeeds(201);
    service.clock.advance(Duration::from_hours(25));
    let ada = service.person("ada").await;
    let client = ada.app_password("Phone").await;
    let nothing = Permissions::Nothing;
    let mut all = vec![
        kind("nothing", None, nothing(NO_CREDENTIAL)),
        kind("garbage", "garbage".to_owned(), nothing(UNUSABLE)),
        kind(
            "a forged JWT",
            format!("{}x", ada.access),
            nothing(UNUSABLE),
        ),
        kind(
            "no such token",
            format!("lmk_{}", "a".repeat(43)),
            nothing("Invalid API token"),
        ),
        kind("a session", ada.access.clone(), Permissions::Session),
        kind("an expired session", eve.access.clone(), nothing(UNUSABLE)),
        kind(
            "an ended session",
            ended_session(&ada).await,
            nothing(SESSION_ENDED),
        ),
        kind("a refresh token", ada.refresh.clone(), nothing(UNUSABLE)),
        kind(
            "a revoked token",
            revoked_token(&ada).await,
            nothing("This API token has been revoked"),
        ),
        kind(
            "an expired token",
            text(&expired["token"]),
            nothing("This API token has expired"),
        ),
        kind(
            "an app password",
            text(&client["password"]),
            nothing(UNUSABLE),
        ),
    ];
    all.extend(oauth_credentials(service, &ada).await);
    for scope in Scope::ALL {
        let token = ada.token(&[scope.name()]).await;
        let name = format!("a token with {scope}");
        all.push(kind(
            &name,
            text(&token["token"]),
            Permissions::Scopes(vec![scope]),
        ));
    }
    let token = ada.token(&Scope::ALL.map(Scope::name)).await;
    let permissions = Permissions::Scopes(Scope::ALL.to_vec());
    all.push(kind(
        "a token with every scope",
        text(&token["token"]),
        permissions,
    ));
    all
}

/// Returns one credential of every kind that OAuth issues.
async fn oauth_credentials(service: &Service, ada: &Person<'_>) -> Vec<Kind> {
    let agent = Client::register(service).await;
    let granted = agent.tokens(ada).await;
    let api = [("resource", "http://service.test/api/v1")];
    let page = agent.login_page(&api).await;
    let back = agent.sign_in(&page, &ada.address, PASSWORD).await;
    let code = back.redirect_parameter("code").unwrap();
    let api = agent.exchange(&code).await.succeeds(200);
    let api = text(&api["access_token"]);
    let mut all = vec![
        kind(
            "an OAuth token",
            granted.access,
            Permissions::OAuth {
                agent: true,
                scopes: OAUTH_SCOPES.to_vec(),
            },
        ),
        kind(
            "an OAuth token for the API",
            api,
            Permissions::OAuth {
                agent: false,
                scopes: OAUTH_SCOPES.to_vec(),
            },
        ),
        kind(
            "an OAuth refresh token",
            granted.refresh,
            Permissions::Nothing(UNUSABLE),
        ),
        kind(
            "an authorization code",
            code,
            Permissions::Nothing(UNUSABLE),
        ),
    ];
    for scope in OAUTH_SCOPES {
        let requested = [("scope", scope.name())];
        let tokens = agent.tokens_with(ada, &requested).await;
        all.push(kind(
            &format!("an OAuth token with {scope}"),
            text(&tokens["access_token"]),
            Permissions::OAuth {
                agent: true,
                scopes: vec![scope],
            },
        ));
    }
    all
}

fn text(value: &Value) -> String {
    value.as_str().unwrap().to_owned()
}

#[tokio::test]
async fn every_route_accepts_exactly_the_specified_credentials() {
    let service = Service::with_mail().await;
    let declared = expected_access();
    let routes = service.routes();
    for (method, path, access) in &routes {
        let route = format!("{method} {path}");
        let expected = declared.get(route.as_str());
        assert_eq!(
            expected,
            Some(access),
            "{route}: add its access to this list"
        );
    }
    assert_eq!(routes.len(), declared.len());

    let credentials = credentials(&service).await;
    for (route, access) in &declared {
        for Kind {
            name,
            credential,
            permissions,
        } in &credentials
        {
            let answer = response_to(&service, route, credential.as_deref()).await;
            let status = answer.status;
            let told = answer.json["error"].as_str().unwrap_or_default().to_owned();
            if let Some(expected) = refusal(*access, permissions) {
                assert_eq!((status, told), expected, "{route} with {name}");
            } else {
                let form = FORMS.contains(route) && status == 403;
                // This route has no body that the module checks before the second scope.
                let form = form
                    || (*route == READS_TOO && status == 403 && told == missing(Scope::MailRead));
                let served = form || !matches!(status, 401 | 403 | 429 | 500..);
                assert!(served, "{route} with {name}: {status} {told}");
            }
        }
    }
}

#[tokio::test]
async fn every_route_of_administrators_needs_the_second_factor_and_a_recent_sign_in() {
    let service = Service::with_mail().await;
    let ada = service.person("ada").await;
    let make = format!("account admin {} on", ada.address);
    service.operator(&make, "").await.succeeds();
    let routes: Vec<String> = service
        .routes()
        .into_iter()
        .filter(|(_, _, access)| *access == Access::Admin)
        .map(|(method, path, _)| format!("{method} {path}"))
        .collect();
    assert!(routes.len() >= 9, "{routes:?}");
    let second_factor = "This endpoint needs a session that began with two-factor sign-in. \
        To enable it, run on the service's machine: latchmail account two-factor ADDRESS on";
    let password_only = ada.sign_in_again().await;
    let administrator = Administrator::create(&service, "root@first.test").await;
    let enable = format!("account two-factor {} on", ada.address);
    service.operator(&enable, "").await.succeeds();
    for route in &routes {
        let refused = response_to(&service, route, Some(&password_only.access)).await;
        refused.fails(403, second_factor);
    }
    let administrator = administrator.sign_in_to_api().await;
    service.clock.advance(Duration::from_secs(301));
    for route in &routes {
        let response = response_to(&service, route, Some(&administrator.access)).await;
        if route.starts_with("GET ") {
            response.succeeds(200);
            continue;
        }
        let recent = "This action needs a sign-in within the last five minutes. \
            Sign in again, and repeat the request.";
        response.fails(403, recent);
    }
}

#[tokio::test]
async fn administration_can_be_removed_from_the_public_listener() {
    let service = Setup::default()
        .with("admin.public_api = false")
        .start()
        .await;
    let is_admin = |(_, _, access): &(_, _, Access)| *access == Access::Admin;
    assert!(!service.routes().iter().any(is_admin));
    let listed = service.operator("module list", "").await.succeeds();
    assert!(listed.contains("mail"), "{listed}");
}

#[tokio::test]
async fn a_request_without_the_scope_never_reaches_the_mail_server() {
    let mut service = Service::with_own_mail().await;
    let token = {
        let ada = service.person("ada").await;
        ada.token(&["profile:read"]).await
    };
    service.stack().stop_imap().await.unwrap();
    let refused = service
        .with_bearer("GET /api/v1/mail/folders", token["token"].as_str().unwrap())
        .await;
    refused.fails(403, "This credential is missing the \"mail:read\" scope");
    assert_eq!(
        refused.header("www-authenticate"),
        Some("Bearer error=\"insufficient_scope\", scope=\"mail:read\"")
    );
    let refused = service
        .with_bearer("DELETE /api/v1/tokens/x", token["token"].as_str().unwrap())
        .await;
    refused.fails(403, SESSION_ONLY);
    // No scope gives access to a route for sessions.
    assert_eq!(refused.header("www-authenticate"), None);
}

#[tokio::test]
async fn no_route_finds_or_changes_resources_of_another_account() {
    let service = Service::with_mail().await;
    let (ada, bob) = (service.person("ada").await, service.person("bob").await);
    let token = ada.token(&["mail:read"]).await;
    let client = ada.app_password("Phone").await;
    let shop = json!({ "domain": DOMAIN, "name": "shop" });
    let shop = ada.post("/api/v1/aliases", &shop).await.succeeds(201);
    let aliases = vec![shop["id"].to_string()];
    let listed = ada.send("GET /api/v1/teams").await.succeeds(200);
    let teams = vec![text(&listed["teams"][0]["id"])];
    let cyd = json!({ "username": "cyd", "password": PASSWORD, "resource_kind": "mailbox", "rights": ["mail:read"] });
    service.person("cyd").await;
    let path = format!("/api/v1/teams/{}/invitations", teams[0]);
    let invited = ada.post(&path, &cyd).await.succeeds(201);
    let grant = text(&invited["grantId"]);
    let guests = format!("GET /api/v1/teams/{}/members", teams[0]);
    let members = ada.send(&guests).await.succeeds(200);
    let guest = text(&members["members"][1]["userId"]);
    let lists = ada.send("GET /api/v1/profile/sessions").await.succeeds(200);
    let mut ids = vec![text(&token["id"]), text(&client["id"])];
    let sessions = lists["sessions"].as_array().unwrap();
    ids.extend(sessions.iter().map(|session| text(&session["id"])));
    let before = ada.send("GET /api/v1/profile/sessions").await.succeeds(200);
    let named = service
        .routes()
        .into_iter()
        // The owner's page calls the operations of these routes with a session of its own.
        .filter(|(_, path, _)| path.contains("{id}") && path.starts_with("/api/"));
    for (method, path, _) in named {
        let adas = match path.split('/').nth(3) {
            Some("aliases") => &aliases,
            Some("teams") => &teams,
            _ => &ids,
        };
        for id in adas {
            let path = path.replace("{id}", id).replace("{userId}", &guest);
            let line = format!("{method} {}", path.replace("{grantId}", &grant));
            let mut body = cyd.clone();
            body["active"] = json!(false);
            body["sendAt"] = json!("2027-01-01T00:00:00Z");
            body["code"] = json!("a-code");
            let without_body = ["/suspend", "/resume", "/rotate", "/test", "/replay"];
            let takes_body = !without_body.iter().any(|end| line.ends_with(end));
            if line.ends_with("/approve") || line.ends_with("/reject") {
                body = json!({ "hash": "a-hash" });
            } else if line.ends_with("/rewind") {
                body = json!({ "since": "2026-11-01T00:00:00Z" });
            }
            let answer = match method.as_str() {
                "PATCH" | "POST" if takes_body => bob.send_json(&line, &body).await,
                "PUT" => {
                    let request = service.request(&line).bearer_auth(&bob.access);
                    Response::of_json(request.header("if-match", "*"), &json!({})).await
                }
                _ => bob.send(&line).await,
            };
            assert_eq!(answer.status, 404, "{line}: {}", answer.json);
        }
    }
    let after = ada.send("GET /api/v1/profile/sessions").await.succeeds(200);
    assert_eq!(after["credentials"], before["credentials"]);
    assert_eq!(ada.send(&guests).await.succeeds(200), members);
    let left = ada.send("GET /api/v1/aliases").await.succeeds(200);
    assert_eq!(left["aliases"][0]["active"], true);
    service
        .with_bearer("GET /api/v1/mail/folders", &text(&token["token"]))
        .await
        .succeeds(200);
    log_in(&service, &ada.address, &text(&client["password"]))
        .await
        .unwrap();
}

/// Ending a session also affects requests under way: a body may arrive slowly.
#[tokio::test]
async fn a_request_whose_session_ends_during_its_body_has_no_effect() {
    let service = Service::with_mail().await;
    let ada = service.person("ada").await;
    for (line, body) in [
        (
            "POST /api/v1/tokens",
            r#"{"label": "mine", "scopes": ["mail:read"]}"#,
        ),
        ("POST /api/v1/app-passwords", r#"{"label": "mine"}"#),
        ("PATCH /api/v1/profile", r#"{"first_name": "Eve"}"#),
        (
            "POST /api/v1/aliases",
            r#"{"domain": "first.test", "name": "mine"}"#,
        ),
        ("POST /api/v1/domains", r#"{"domain": "eve.example"}"#),
    ] {
        for waited in [Duration::ZERO, Duration::from_secs(5)] {
            let thief = ada.sign_in_again().await;
            let own = current_session_id(&thief).await;
            let head = format!(
                "{line} HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {}\r\nexpect: 100-continue\r\ncontent-length: {}\r\n\r\n",
                thief.access,
                body.len()
            );
            let mut slow = RawClient::connect(&service).await;
            slow.send(head).await;
            // The request was authorized: the service asks for its body.
            assert_eq!(slow.response().await.unwrap().status, 100);
            let over = format!("DELETE /api/v1/profile/sessions/{own}");
            ada.send(&over).await.succeeds(200);
            service.clock.advance(waited);
            slow.send(body).await;
            let answer = slow.response().await.unwrap();
            assert_eq!(answer.error(401), SESSION_ENDED, "{line} after {waited:?}");
        }
    }
    let tokens = ada.send("GET /api/v1/tokens").await.succeeds(200);
    assert_eq!(tokens["tokens"], json!([]));
    let lists = ada.send("GET /api/v1/profile/sessions").await.succeeds(200);
    assert_eq!(lists["credentials"].as_array().unwrap().len(), 1);
    let profile = ada.send("GET /api/v1/profile").await.succeeds(200);
    assert_eq!(profile["first_name"], "Ada");
    let aliases = ada.send("GET /api/v1/aliases").await.succeeds(200);
    assert_eq!(aliases["aliases"], json!([]));
    let permissions = ada.send("GET /api/v1/domains").await.succeeds(200);
    assert_eq!(permissions["used"], 0);
}
