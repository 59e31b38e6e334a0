//! Streams of two hosts that share a database.

use std::time::Duration;

use latchmail_tests::{EventStream, SecondHost, append_message, imap};
use serde_json::json;

use super::service;

/// Opens a stream of the other host.
async fn open(host: &SecondHost, access: &str) -> EventStream {
    let request = host.request("GET /api/v1/mail/events").bearer_auth(access);
    EventStream::of(request).await
}

#[tokio::test(flavor = "multi_thread")]
async fn each_host_streams_the_same_events_and_ends_streams_of_revoked_credentials() {
    let service = service().await;
    // The mail server sends its notices only to the first host. The other one opens no connections
    // that report changes, so only the first host can wake it before the check.
    let other = service
        .second_host_with(|config| {
            config.events.listen = "127.0.0.1:0".parse().ok();
            config.events.check_interval = Duration::from_mins(10);
        })
        .await;
    let ada = service.person("ada").await;
    let token = ada.token(&["mail:read"]).await;
    let mut first = EventStream::open(&ada, "").await;
    let mut second = open(&other, &ada.access).await;
    let mut of_token = open(&other, token["token"].as_str().unwrap()).await;
    let mut client = imap(&ada).await;
    append_message(&mut client, "INBOX", "One").await;
    let (one, two) = (first.next().await, second.next().await);
    assert_eq!(one.kind, "message.created");
    assert_eq!((one.kind, &one.data["data"]), (two.kind, &two.data["data"]));
    of_token.next().await;

    // A cursor of one host is valid on the other one.
    let uid = one.data["data"]["uid"].as_u64().unwrap();
    let body = json!({ "flags": ["\\Flagged"], "action": "add" });
    let flag = format!("/api/v1/mail/messages/{uid}/flag");
    ada.post(&flag, &body).await.succeeds(200);
    let query = format!("?since={}", two.id);
    let mut resumed = EventStream::open(&ada, &query).await;
    assert_eq!(resumed.next().await.kind, "message.flags");
    assert_eq!(second.next().await.kind, "message.flags");
    of_token.next().await;

    let line = format!("DELETE /api/v1/tokens/{}", token["id"].as_str().unwrap());
    ada.send(&line).await.succeeds(200);
    assert_eq!(of_token.end().await, "revoked");
    other.stop().await;
    drop(second);
}
