//! Specification, section 5: every route, asked with every kind of credential. The routes are the router's own; what each of them is to let in is
//! written here, so a route that is added later fails until somebody says so.

use std::collections::BTreeMap;
use std::time::Duration;

use latchmail::caller::Scope;
use latchmail::modules::Access;
use latchmail_tests::{Answer, Person, Service};
use serde_json::{Value, json};

const NONE: &str = "Missing or invalid Authorization header";
const UNUSABLE: &str = "Invalid or expired access token";
const SESSION_ONLY: &str =
    "This endpoint is only available to a signed-in session, not to API or OAuth tokens";

/// Who may use what (specification, section 4).
fn declared() -> BTreeMap<&'static str, Access> {
    let scoped = |scope, oauth| Access::Scoped { scope, oauth };
    let (read, write) = (
        scoped(Scope::MailRead, true),
        scoped(Scope::MailWrite, true),
    );
    BTreeMap::from([
        ("GET /api/health", Access::Public),
        ("GET /api/readiness", Access::Public),
        ("GET /api/openapi.json", Access::Public),
        ("POST /api/v1/auth/login", Access::Public),
        ("POST /api/v1/auth/refresh", Access::Public),
        ("POST /api/v1/auth/register", Access::Public),
        ("POST /api/v1/auth/logout", Access::Session),
        ("GET /api/v1/auth/username-available", Access::Public),
        ("GET /api/v1/auth/domains", Access::Public),
        ("GET /api/v1/mail/folders", read),
        ("GET /api/v1/mail/folders/{folder}/messages", read),
        ("GET /api/v1/mail/search", read),
        ("GET /api/v1/mail/messages/{uid}", read),
        ("GET /api/v1/mail/messages/{uid}/attachments/{index}", read),
        ("POST /api/v1/mail/send", scoped(Scope::MailSend, false)),
        ("POST /api/v1/mail/messages/{uid}/flag", write),
        ("POST /api/v1/mail/messages/{uid}/move", write),
        ("DELETE /api/v1/mail/messages/{uid}", write),
        ("POST /api/v1/mail/messages/bulk/flag", write),
        ("POST /api/v1/mail/messages/bulk/move", write),
        ("POST /api/v1/mail/messages/bulk/delete", write),
        ("GET /api/v1/profile", scoped(Scope::ProfileRead, false)),
        ("PATCH /api/v1/profile", Access::Session),
        ("POST /api/v1/profile/password", Access::Session),
        ("POST /api/v1/tokens", Access::Session),
        ("GET /api/v1/tokens", Access::Session),
        ("DELETE /api/v1/tokens/{id}", Access::Session),
        ("POST /api/v1/app-passwords", Access::Session),
        ("DELETE /api/v1/app-passwords/{id}", Access::Session),
        ("GET /api/v1/profile/sessions", Access::Session),
        ("DELETE /api/v1/profile/sessions/{id}", Access::Session),
    ])
}

/// Whom a credential lets in: what it is refused with everywhere, or which scopes it holds.
enum Held {
    Nothing(&'static str),
    Session,
    Scopes(Vec<Scope>),
}

/// The refusal of a credential on a route; none where it is let in.
fn refusal(access: Access, held: &Held) -> Option<(u16, String)> {
    match (access, held) {
        (Access::Public, _) | (Access::Session | Access::Scoped { .. }, Held::Session) => None,
        (_, Held::Nothing(text)) => Some((401, (*text).into())),
        (Access::Session, Held::Scopes(_)) => Some((403, SESSION_ONLY.into())),
        (Access::Scoped { scope, .. }, Held::Scopes(scopes)) if scopes.contains(&scope) => None,
        (Access::Scoped { scope, .. }, Held::Scopes(_)) => {
            let text = format!("This credential is missing the \"{scope}\" scope");
            Some((403, text))
        }
        (Access::OAuth, _) => Some((401, NONE.into())),
    }
}

async fn asked(service: &Service, route: &str, credential: Option<&str>) -> Answer {
    let line = route
        .replace("{folder}", "INBOX")
        .replace("{uid}", "999")
        .replace("{index}", "0")
        .replace("{id}", "none");
    let request = service.request(&line);
    match credential {
        Some(credential) => Answer::of(request.bearer_auth(credential)).await,
        None => Answer::of(request).await,
    }
}

/// A credential of some kind, what it is called, and whom it lets in.
struct Kind {
    name: String,
    credential: Option<String>,
    held: Held,
}

fn kind(name: &str, credential: impl Into<Option<String>>, held: Held) -> Kind {
    Kind {
        name: name.to_owned(),
        credential: credential.into(),
        held,
    }
}

/// A session of theirs that they ended themselves.
async fn ended(person: &Person<'_>) -> String {
    let gone = person.again().await;
    let lists = gone.ask("GET /api/v1/profile/sessions").await.succeeds(200);
    let sessions = lists["sessions"].as_array().unwrap();
    let own = sessions.iter().find(|s| s["current"] == true).unwrap();
    let line = format!("DELETE /api/v1/profile/sessions/{}", text(&own["id"]));
    gone.ask(&line).await.succeeds(200);
    gone.access
}

/// A token of theirs that they revoked.
async fn revoked(person: &Person<'_>) -> String {
    let token = person.token(&["mail:read"]).await;
    let line = format!("DELETE /api/v1/tokens/{}", text(&token["id"]));
    person.ask(&line).await.succeeds(200);
    text(&token["token"])
}

/// One credential of every kind there is.
async fn credentials(service: &Service) -> Vec<Kind> {
    let eve = service.person("eve").await;
    let short = json!({ "label": "short", "scopes": ["mail:read"], "expiresInDays": 1 });
    let expired = eve.post("/api/v1/tokens", &short).await.succeeds(201);
    service.clock.advance(Duration::from_hours(25));
    let ada = service.person("ada").await;
    let client = ada.app_password("Phone").await;
    let over = "Mail session expired, please log in again";
    let nothing = Held::Nothing;
    let mut all = vec![
        kind("nothing", None, nothing(NONE)),
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
        kind("a session", ada.access.clone(), Held::Session),
        kind("an expired session", eve.access.clone(), nothing(UNUSABLE)),
        kind("an ended session", ended(&ada).await, nothing(over)),
        kind("a refresh token", ada.refresh.clone(), nothing(UNUSABLE)),
        kind(
            "a revoked token",
            revoked(&ada).await,
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
    for scope in Scope::ALL {
        let token = ada.token(&[scope.name()]).await;
        let name = format!("a token with {scope}");
        all.push(kind(
            &name,
            text(&token["token"]),
            Held::Scopes(vec![scope]),
        ));
    }
    let token = ada.token(&Scope::ALL.map(Scope::name)).await;
    let held = Held::Scopes(Scope::ALL.to_vec());
    all.push(kind(
        "a token with every scope",
        text(&token["token"]),
        held,
    ));
    all
}

fn text(value: &Value) -> String {
    value.as_str().unwrap().to_owned()
}

#[tokio::test]
async fn every_route_lets_in_whom_the_specification_names_and_nobody_else() {
    let service = Service::start().await;
    let declared = declared();
    let routes = service.routes();
    for (method, path, access) in &routes {
        let route = format!("{method} {path}");
        let expected = declared.get(route.as_str());
        assert_eq!(expected, Some(access), "{route}: say here who may use it");
    }
    assert_eq!(routes.len(), declared.len());

    let credentials = credentials(&service).await;
    for (route, access) in &declared {
        for Kind {
            name,
            credential,
            held,
        } in &credentials
        {
            let answer = asked(&service, route, credential.as_deref()).await;
            let status = answer.status;
            let told = answer.json["error"].as_str().unwrap_or_default().to_owned();
            if let Some(expected) = refusal(*access, held) {
                assert_eq!((status, told), expected, "{route} with {name}");
            } else {
                let served = !matches!(status, 401 | 403 | 429 | 500..);
                assert!(served, "{route} with {name}: {status} {told}");
            }
        }
    }
}

#[tokio::test]
async fn a_call_without_its_scope_never_reaches_the_mail_server() {
    let mut service = Service::start().await;
    let token = {
        let ada = service.person("ada").await;
        ada.token(&["profile:read"]).await
    };
    service.stack.stop_imap().await.unwrap();
    let refused = service
        .with_bearer("GET /api/v1/mail/folders", token["token"].as_str().unwrap())
        .await;
    refused.fails(403, "This credential is missing the \"mail:read\" scope");
    let refused = service
        .with_bearer("DELETE /api/v1/tokens/x", token["token"].as_str().unwrap())
        .await;
    refused.fails(403, SESSION_ONLY);
}
