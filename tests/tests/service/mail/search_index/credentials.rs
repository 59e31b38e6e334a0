//! Accounts without a web session: the index is built and updated for API tokens and OAuth grants
//! too.

use latchmail_tests::{Person, Service, append_message, imap};
use serde_json::json;

use super::assert_found;

/// Returns a person who uses this credential, after the web session has ended.
async fn without_session(person: Person<'_>, credential: String) -> Person<'_> {
    let body = json!({ "refreshToken": person.refresh });
    let signed_out = person.post("/api/v1/auth/logout", &body).await;
    signed_out.succeeds(200);
    Person {
        access: credential,
        refresh: String::new(),
        ..person
    }
}

#[tokio::test]
async fn an_account_with_only_an_api_token_has_an_index() {
    let service = Service::with_mail().await;
    let ada = service.person("ada").await;
    let mut client = imap(&ada).await;
    append_message(&mut client, "INBOX", "one").await;
    let token = ada.token(&["mail:read"]).await;
    let token = token["token"].as_str().unwrap().to_owned();
    let agent = without_session(ada, token).await;
    agent.wait_for_index().await;
    assert_found(&agent, "one", &["one"]).await;
    append_message(&mut client, "INBOX", "two").await;
    assert_found(&agent, "two", &["two"]).await;
}

#[tokio::test]
async fn an_account_with_only_an_oauth_grant_has_an_index() {
    let service = Service::with_mail().await;
    let ada = service.person("ada").await;
    let mut client = imap(&ada).await;
    append_message(&mut client, "INBOX", "one").await;
    let token = ada.oauth_token().await;
    let agent = without_session(ada, token).await;
    agent.wait_for_index().await;
    assert_found(&agent, "one", &["one"]).await;
    append_message(&mut client, "INBOX", "two").await;
    assert_found(&agent, "two", &["two"]).await;
}

#[tokio::test]
async fn changes_and_threads_need_the_scope_to_read_mail() {
    let service = Service::with_mail().await;
    let ada = service.person("ada").await;
    let routes = [
        "GET /api/v1/mail/search?q=x&folder=*",
        "GET /api/v1/mail/changes",
        "GET /api/v1/mail/threads",
        "GET /api/v1/mail/threads/0123456789abcdef",
    ];
    let token = ada.token(&["mail:send"]).await;
    for route in routes {
        let refused = service
            .with_bearer(route, token["token"].as_str().unwrap())
            .await;
        refused.fails(403, "This credential is missing the \"mail:read\" scope");
        let unknown = service.send(route).await;
        unknown.fails(401, "Missing or invalid Authorization header");
    }
}
