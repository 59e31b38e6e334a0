//! Sign-in at a real identity provider. `tests/provider.mjs` runs the provider. For tests of
//! invalid ID tokens, it signs the tokens of the provider again, with one fault.

mod agents;
mod browser;
mod client_flow;
mod id_tokens;
mod logout;
mod mailboxes;
mod outage;
mod sessions;

use latchmail_tests::client::VERIFIER;
use latchmail_tests::provider::start_url;
use latchmail_tests::{Person, PersonBrowser, Provider, Response, Service, Setup};
use serde_json::{Value, json};

const TOKEN: &str = "/api/v1/auth/oidc/token";
const FOLDERS: &str = "GET /api/v1/mail/folders";
const ADA: &str = "ada@first.test";
const BOB: &str = "bob@first.test";

/// Starts a provider with Ada and Bob, and a service on which both have a mailbox.
async fn start() -> (Provider, Service) {
    start_with("").await
}

/// The same with additional lines of configuration.
async fn start_with(settings: &str) -> (Provider, Service) {
    let provider = Provider::start().await;
    provider.add_person("ada", ADA).await;
    provider.add_person("bob", BOB).await;
    let setup = Setup::default().with_mail();
    let setup = setup.with(&provider.settings()).with(settings);
    let service = setup.start().await;
    provider.register(&service).await;
    for address in [ADA, BOB] {
        let verb = format!("account create {address}");
        service.operator(&verb, "").await.succeeds();
    }
    (provider, service)
}

/// Exchanges a code.
async fn exchange(service: &Service, code: &str, verifier: &str) -> Response {
    let body = json!({ "code": code, "codeVerifier": verifier });
    service.post(TOKEN, &body).await
}

/// Signs a person in with a new browser.
async fn sign_in<'a>(service: &'a Service, person: &str) -> Person<'a> {
    sign_in_with(service, &PersonBrowser::new(), person).await
}

async fn sign_in_with<'a>(
    service: &'a Service,
    browser: &PersonBrowser,
    person: &str,
) -> Person<'a> {
    let code = browser.code(service, person).await;
    let pair = exchange(service, &code, VERIFIER).await.succeeds(200);
    Person::from_token_pair(service, &pair)
}

/// Signs in, and returns the status and the page of the callback.
async fn page(service: &Service, person: &str) -> (u16, String) {
    let response = PersonBrowser::new()
        .sign_in(&start_url(service), person)
        .await;
    shown(&response)
}

fn shown(response: &Response) -> (u16, String) {
    let text = String::from_utf8_lossy(&response.body).into_owned();
    (response.status, text)
}

/// Returns the audit events of an address, one per line.
async fn events(service: &Service, address: &str) -> String {
    let verb = format!("audit --account {address}");
    service.operator(&verb, "").await.succeeds()
}

/// Returns the claims of a new logout token for the service.
fn logout_claims(provider: &Provider, id: &str, more: &Value) -> Value {
    let now = std::time::SystemTime::now()
        .duration_since(std::time::UNIX_EPOCH)
        .unwrap()
        .as_secs();
    let mut claims = json!({
        "iss": provider.issuer, "aud": latchmail_tests::provider::CLIENT_ID,
        "iat": now, "exp": now + 120, "jti": id,
        "events": { "http://schemas.openid.net/event/backchannel-logout": {} },
    });
    for (name, value) in more.as_object().unwrap() {
        claims[name] = value.clone();
    }
    claims
}
