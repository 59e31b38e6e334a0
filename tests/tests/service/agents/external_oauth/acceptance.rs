//! The tokens that are accepted, their permissions, and hostile tokens.

use std::time::Duration;

use latchmail_tests::{EventStream, RawClient, Response};
use serde_json::{Value, json};

use super::{ADA, BOTH, FOLDERS, TOKEN, UNUSABLE, ask, start};

#[tokio::test]
async fn an_external_token_has_the_same_access_as_an_oauth_token() {
    let (_issuer, service) = start(BOTH, "").await;
    for line in [
        "GET /api/v1/tokens",
        "GET /api/v1/domains",
        "GET /api/v1/profile/sessions",
    ] {
        ask(&service, line)
            .await
            .fails_mentioning(403, "signed-in session");
    }
    ask(&service, "GET /api/v1/profile")
        .await
        .fails_mentioning(403, "profile:read");
    let line = format!("{FOLDERS}?mailbox=anybodys");
    ask(&service, &line)
        .await
        .fails_mentioning(403, "signed-in session");
    let post = async |path: &str, body: Value| {
        let request = service.request(&format!("POST {path}"));
        Response::of(request.bearer_auth(TOKEN).json(&body)).await
    };
    let alias = json!({ "domain": "first.test" });
    post("/api/v1/aliases", alias)
        .await
        .fails_mentioning(403, "aliases:write");
    let mail = json!({ "from": ADA, "to": ADA, "subject": "x", "text": "y" });
    post("/api/v1/mail/send", mail)
        .await
        .fails_mentioning(403, "mail:send");
}

#[tokio::test]
async fn a_token_needs_this_audience_its_issuer_and_an_existing_account() {
    let (issuer, service) = start(BOTH, "").await;
    let mut n = 0;
    for (member, value) in [
        ("active", json!(false)),
        ("aud", Value::Null),
        ("aud", json!("https://another.example/mcp")),
        (
            "aud",
            json!([
                "http://service.test.evil.example",
                "http://service.test/mcpx"
            ]),
        ),
        ("iss", json!("https://another.example")),
        ("token_type", json!("DPoP")),
        (
            "cnf",
            json!({ "jkt": "0ZcOCORZNYy-DWpqq30jZyJGHTN0d2HglBV3uiguA4I" }),
        ),
        ("exp", json!(1)),
        ("username", json!("nobody@first.test")),
        ("username", json!("ada")),
        ("username", Value::Null),
    ] {
        n += 1;
        let token = format!("{TOKEN}{n}");
        issuer.add_token(&token, ADA);
        issuer.change_response(&token, member, value.clone());
        let answer = service.with_bearer(FOLDERS, &token).await;
        answer.fails(401, UNUSABLE);
        assert_eq!(
            answer.header("www-authenticate"),
            Some("Bearer"),
            "{member} {value}"
        );
    }
    issuer.change_response(TOKEN, "username", json!("Ada@First.Test"));
    ask(&service, "GET /api/v1/aliases").await.succeeds(200);
}

#[tokio::test]
async fn a_verified_token_has_its_own_budget_and_invalid_tokens_share_that_of_the_client() {
    let (issuer, service) = start(BOTH, "limits.unproven = 2").await;
    for _ in 0..5 {
        ask(&service, FOLDERS).await.succeeds(200);
    }
    service
        .with_bearer(FOLDERS, "made-up")
        .await
        .fails(401, UNUSABLE);
    let refused = service.with_bearer(FOLDERS, "made-up-too").await;
    refused.fails_mentioning(429, "Too many requests");
    assert_eq!(issuer.introspections("made-up-too"), 0);
    ask(&service, FOLDERS).await.succeeds(200);
}

#[tokio::test]
async fn a_disabled_account_is_refused_even_if_the_issuer_accepts_its_token() {
    let (issuer, service) = start(BOTH, "").await;
    ask(&service, FOLDERS).await.succeeds(200);
    service.execute("UPDATE accounts SET active = FALSE").await;
    ask(&service, FOLDERS).await.fails(401, UNUSABLE);
    assert_eq!(issuer.introspections(TOKEN), 1);
}

#[tokio::test]
async fn a_stream_ends_when_its_token_is_revoked_and_when_its_account_is_disabled() {
    let (issuer, service) = start(BOTH, "events.check_interval = 1").await;
    let open = async |token: &str| {
        let request = service.request("GET /api/v1/mail/events");
        EventStream::of(request.bearer_auth(token)).await
    };
    let mut stream = open(TOKEN).await;
    issuer.revoke(TOKEN);
    service.clock.advance(Duration::from_mins(1));
    assert_eq!(stream.end().await, "revoked");
    issuer.add_token("another", ADA);
    let mut stream = open("another").await;
    service.execute("UPDATE accounts SET active = FALSE").await;
    assert_eq!(stream.end().await, "revoked");
}

#[tokio::test]
async fn a_configured_scope_is_required() {
    let (issuer, service) = start(BOTH, "oauth.introspection.scope = 'mail'").await;
    ask(&service, FOLDERS).await.fails(401, UNUSABLE);
    issuer.change_response(TOKEN, "scope", json!("openid mail"));
    service.clock.advance(Duration::from_mins(1));
    ask(&service, FOLDERS).await.succeeds(200);
}

#[tokio::test]
async fn a_token_cannot_inject_protocol() {
    let (issuer, service) = start(BOTH, "").await;
    for hostile in [
        "t\x01auth=Bearer opaque",
        "t\x01\x01",
        "t\0",
        "t\x7f",
        "t u",
        "t\tu",
        "t\u{f6}",
        "t\u{202e}",
    ] {
        let mut raw = RawClient::connect(&service).await;
        let request = format!(
            "GET /api/v1/mail/folders HTTP/1.1\r\nHost: service.test\r\nAuthorization: Bearer {hostile}\r\n\r\n"
        );
        raw.send(request).await;
        let answer = raw.response().await.unwrap();
        assert!(
            [400, 401].contains(&answer.status),
            "{hostile:?}: {}",
            answer.status
        );
    }
    // Visible ASCII with special characters of forms and of IMAP.
    for hostile in [
        "a&active=true&token=b",
        "%00",
        "a%26b",
        "\"}{\"",
        "a,b=c",
        "{3+}",
    ] {
        service
            .with_bearer(FOLDERS, hostile)
            .await
            .fails(401, UNUSABLE);
        assert_eq!(issuer.introspections(hostile), 1, "{hostile}");
    }
    let long = "x".repeat(4097);
    service
        .with_bearer(FOLDERS, &long)
        .await
        .fails(401, UNUSABLE);
    assert_eq!(issuer.introspections(&long), 0);
}
