//! Introspection of a token: the number of requests to the issuer, the lifetime of a response,
//! outages, and the configuration.

use std::time::Duration;

use futures_util::future::join_all;
use latchmail_tests::{CLIENT_SECRET, Issuer, start_error};
use serde_json::json;
use tokio::net::TcpStream;

use super::{
    ADA, BOTH, FOLDERS, NO_ISSUER, TOKEN, UNUSABLE, ask, dovecot_log_contains, start, wait_until,
};

#[tokio::test]
async fn a_revoked_token_is_refused_within_a_minute_and_is_introspected_once_a_minute() {
    let (issuer, service) = start(BOTH, "").await;
    for _ in 0..3 {
        ask(&service, FOLDERS).await.succeeds(200);
    }
    assert_eq!(issuer.introspections(TOKEN), 1);
    issuer.revoke(TOKEN);
    service.clock.advance(Duration::from_secs(59));
    ask(&service, FOLDERS).await.succeeds(200);
    assert_eq!(issuer.introspections(TOKEN), 1);
    assert!(!dovecot_log_contains(
        &service,
        &["imap(ada@first.test)<", "closed"]
    ));
    service.clock.advance(Duration::from_secs(1));
    for _ in 0..3 {
        ask(&service, FOLDERS).await.fails(401, UNUSABLE);
    }
    assert_eq!(
        issuer.introspections(TOKEN),
        2,
        "a negative response is cached too"
    );
    // The service closes its connection before the idle timeout.
    let closed = ["imap(ada@first.test)<", "Connection closed"];
    wait_until("its connection closes", async || {
        dovecot_log_contains(&service, &closed)
    })
    .await;
    issuer.add_token(TOKEN, ADA);
    service.clock.advance(Duration::from_mins(1));
    ask(&service, FOLDERS).await.succeeds(200);
}

#[tokio::test]
async fn a_token_ends_at_its_exp() {
    let (issuer, service) = start(BOTH, "").await;
    let end = service.clock.now().seconds() + 30;
    issuer.change_response(TOKEN, "exp", json!(end));
    ask(&service, FOLDERS).await.succeeds(200);
    service.clock.advance(Duration::from_secs(30));
    ask(&service, FOLDERS).await.fails(401, UNUSABLE);
    assert_eq!(issuer.introspections(TOKEN), 1);
}

#[tokio::test]
async fn concurrent_requests_with_one_token_cause_one_introspection() {
    let (issuer, service) = start(BOTH, "").await;
    issuer.hold();
    let requests = join_all((0..8).map(|_| ask(&service, "GET /api/v1/aliases")));
    let (responses, ()) = tokio::join!(requests, async {
        issuer.wait_for_introspection(TOKEN).await;
        issuer.release();
    });
    for response in responses {
        response.succeeds(200);
    }
    assert_eq!(issuer.introspections(TOKEN), 1);
}

#[tokio::test]
async fn a_disconnected_client_does_not_cancel_the_introspection_for_others() {
    let (issuer, service) = start(BOTH, "").await;
    issuer.hold();
    let first = async {
        let request = ask(&service, "GET /api/v1/aliases");
        tokio::select! {
            _ = request => panic!("the request must wait"),
            () = issuer.wait_for_introspection(TOKEN) => {}
        }
    };
    first.await;
    let second = ask(&service, "GET /api/v1/aliases");
    let (response, ()) = tokio::join!(second, async { issuer.release() });
    response.succeeds(200);
    assert_eq!(issuer.introspections(TOKEN), 1);
}

#[tokio::test]
async fn a_failed_introspection_is_503_and_not_cached() {
    let (issuer, service) = start(BOTH, "oauth.introspection.timeout = 0.5").await;
    for instead in [
        (500, ""),
        (401, ""),
        (302, ""),
        (200, ""),
        (200, "<html>"),
        (200, "{\"active\": \"true\"}"),
        (200, "{\"active\": true, \"exp\": \"soon\"}"),
    ] {
        issuer.override_responses(Some(instead));
        let response = ask(&service, FOLDERS).await;
        response.fails(503, NO_ISSUER);
        assert_eq!(response.header("retry-after"), Some("2"));
    }
    issuer.override_responses(None);
    issuer.hold();
    ask(&service, FOLDERS).await.fails(503, NO_ISSUER);
    issuer.release();
    ask(&service, FOLDERS).await.succeeds(200);
    // Its response stays valid for a minute, even if the server fails.
    issuer.override_responses(Some((500, "")));
    ask(&service, FOLDERS).await.succeeds(200);
}

#[tokio::test]
async fn introspection_works_again_after_an_outage() {
    let (issuer, service) = start(BOTH, "").await;
    let address = issuer.address;
    drop(issuer);
    // The listener is closed when its task has ended.
    wait_until("the listener is closed", async || {
        TcpStream::connect(address).await.is_err()
    })
    .await;
    ask(&service, FOLDERS).await.fails(503, NO_ISSUER);
    let ada = latchmail_tests::Person::sign_in(&service, ADA, latchmail_tests::PASSWORD).await;
    ada.send(FOLDERS).await.succeeds(200);
}

#[tokio::test]
async fn an_invalid_configuration_stops_the_start() {
    let issuer = Issuer::start().await;
    let whole = issuer.settings();
    let without = |key: &str| -> String {
        let kept = whole.lines().filter(|line| !line.starts_with(key));
        kept.collect::<Vec<_>>().join("\n")
    };
    let with = |key: &str, value: &str| format!("{}\n{key} = {value}", without(key));
    for (settings, mention) in [
        (
            "auth_url = 'https://id.example'".to_owned(),
            "oauth.introspection",
        ),
        (without("auth_url"), "auth_url"),
        (with("auth_url", "'http://id.example'"), "https origin"),
        (
            with("oauth.introspection.url", "'http://10.0.0.1/i'"),
            "introspection.url",
        ),
        (
            with("oauth.introspection.url", "'ftp://id.example/i'"),
            "introspection.url",
        ),
        (without("oauth.introspection.url"), "introspection.url"),
        (without("oauth.introspection.client_id"), "client_id"),
        (
            without("oauth.introspection.client_secret_file"),
            "client_secret_file",
        ),
        (
            with("oauth.introspection.client_secret_file", "'/dev/null'"),
            "client_secret_file",
        ),
        (with("oauth.introspection.timeout", "31"), "timeout"),
        (with("oauth.listen", "'127.0.0.1:0'"), "oauth.listen"),
        (
            with("oauth.introspection.username_claim", "''"),
            "username_claim",
        ),
    ] {
        let refused = start_error(&settings).await;
        assert!(refused.contains(mention), "{settings}\n{refused}");
        assert!(!refused.contains(CLIENT_SECRET));
    }
}
