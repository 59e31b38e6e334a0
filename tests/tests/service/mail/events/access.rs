//! Who may open a stream, and how streams end.

use std::time::Duration;

use latchmail_tests::{
    EventStream, Response, Service, Setup, append_message, imap, refused_stream,
};
use serde_json::json;
use tokio::time::timeout;

use crate::accounts::sharing::rules::Grant;
use crate::accounts::sharing::shared_mailbox::SharedMailbox;

/// The time within which the service must notice that a client has closed a stream. The time is
/// shorter than the interval of cursors (20 s), because sending a cursor fails too.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(10);

/// Starts a service that does not check mailboxes without a notice while a test runs. So a stream
/// without a change ends only if the end of the rights wakes the stream. A test in
/// `latchmail-events` shows that a stream that is woken ends at once.
async fn service() -> Service {
    Setup::default()
        .with("events.check_interval = 3600")
        .with_mail()
        .start()
        .await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_token_needs_the_scope_and_its_revocation_ends_the_stream() {
    let service = service().await;
    let ada = service.person("ada").await;
    let line = "GET /api/v1/mail/events";
    let other = ada.token(&["mail:send"]).await;
    let refused = service.with_bearer(line, other["token"].as_str().unwrap());
    assert_eq!(refused.await.status, 403);
    let token = ada.token(&["mail:read"]).await;
    let request = service
        .request(line)
        .bearer_auth(token["token"].as_str().unwrap());
    let mut stream = EventStream::of(request).await;
    let mut own = EventStream::open(&ada, "").await;
    let id = token["id"].as_str().unwrap();
    ada.send(&format!("DELETE /api/v1/tokens/{id}"))
        .await
        .succeeds(200);
    assert_eq!(stream.end().await, "revoked");
    // The stream of the session continues.
    let mut client = imap(&ada).await;
    append_message(&mut client, "INBOX", "One").await;
    assert_eq!(own.next().await.kind, "message.created");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_ends_when_its_token_expires() {
    let service = service().await;
    let ada = service.person("ada").await;
    let mut client = imap(&ada).await;
    let body = json!({ "label": "short", "scopes": ["mail:read"], "expiresInDays": 1 });
    let token = ada.post("/api/v1/tokens", &body).await.succeeds(201);
    service.clock.advance(Duration::from_mins(24 * 60 - 1));
    let request = service.request("GET /api/v1/mail/events");
    let request = request.bearer_auth(token["token"].as_str().unwrap());
    let mut stream = EventStream::of(request).await;
    service.clock.advance(Duration::from_mins(1));
    // The clock of the service does not wake the stream. The rights are checked before the change
    // is sent.
    append_message(&mut client, "INBOX", "One").await;
    assert_eq!(stream.end().await, "revoked");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_contains_no_event_after_the_end_of_its_credential() {
    let service = service().await;
    let ada = service.person("ada").await;
    let mut client = imap(&ada).await;
    for (method, path, end) in [
        ("DELETE", "tokens", ""),
        ("POST", "profile/grants", "/suspend"),
    ] {
        let token = ada.token(&["mail:read"]).await;
        let request = service.request("GET /api/v1/mail/events");
        let request = request.bearer_auth(token["token"].as_str().unwrap());
        let mut stream = EventStream::of(request).await;
        append_message(&mut client, "INBOX", "Before").await;
        assert_eq!(stream.next().await.kind, "message.created");
        let id = token["id"].as_str().unwrap();
        let line = format!("{method} /api/v1/{path}/{id}{end}");
        ada.send(&line).await.succeeds(200);
        append_message(&mut client, "INBOX", "After").await;
        assert_eq!(stream.end().await, "revoked");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_suspension_of_a_token_ends_its_stream() {
    let service = service().await;
    let ada = service.person("ada").await;
    let token = ada.token(&["mail:read"]).await;
    let request = service.request("GET /api/v1/mail/events");
    let request = request.bearer_auth(token["token"].as_str().unwrap());
    let mut stream = EventStream::of(request).await;
    let id = token["id"].as_str().unwrap();
    let line = format!("POST /api/v1/profile/grants/{id}/suspend");
    ada.send(&line).await.succeeds(200);
    assert_eq!(stream.end().await, "revoked");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_ends_when_its_account_is_disabled() {
    let service = service().await;
    let ada = service.person("ada").await;
    let mut stream = EventStream::open(&ada, "").await;
    let verb = format!("account disable {}", ada.address);
    service.operator(&verb, "").await.succeeds();
    assert_eq!(stream.end().await, "revoked");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_sign_out_ends_the_streams_of_sessions() {
    let service = service().await;
    let ada = service.person("ada").await;
    let mut stream = EventStream::open(&ada, "").await;
    let body = json!({ "refreshToken": ada.refresh });
    ada.post("/api/v1/auth/logout", &body).await.succeeds(200);
    assert_eq!(stream.end().await, "revoked");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stop_of_the_service_ends_streams() {
    let mut service = service().await;
    let mut stream = {
        let ada = service.person("ada").await;
        EventStream::open(&ada, "").await
    };
    let ((), reason) = tokio::join!(service.stop(), stream.end());
    assert_eq!(reason, "shutdown");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_member_gets_the_events_of_granted_folders_only() {
    let service = service().await;
    let mut shared = SharedMailbox::new(&service).await;
    let alpha = shared.folder("Alpha").await;
    let grant = Grant::on("folder", &alpha, &["mail:read"]);
    shared.invite("bob", &grant).await.succeeds(201);
    let open = async |shared: &SharedMailbox<'_>| {
        let line = shared.within("GET /api/v1/mail/events");
        let request = service.request(&line).bearer_auth(&shared.bob.access);
        EventStream::of(request).await
    };
    let mut stream = open(&shared).await;
    append_message(&mut shared.client, "Beta", "Hidden").await;
    append_message(&mut shared.client, "Alpha", "Shown").await;
    let event = stream.next().await;
    assert_eq!(event.kind, "message.created");
    assert_eq!(event.data["data"]["folder"], "Alpha");
    // A message that leaves the granted folder is deleted for the member.
    shared.client.select("Alpha").await.unwrap();
    shared.client.uid_mv("1", "Beta").await.unwrap();
    let event = stream.next().await;
    assert_eq!(event.kind, "message.deleted");

    // A new grant changes what the member can read, so the stream and its cursor end.
    let cursor = stream.cursor.clone();
    let beta = shared.folder("Beta").await;
    let granted = shared
        .grant(&Grant::on("folder", &beta, &["mail:read"]))
        .await;
    assert_eq!(stream.end().await, "rights_changed");
    let line = shared.within(&format!("GET /api/v1/mail/events?since={cursor}"));
    shared.bob.send(&line).await.fails(410, "Cursor expired");
    let mut stream = open(&shared).await;
    shared.revoke(&granted).await;
    assert_eq!(stream.end().await, "rights_changed");

    let mut stream = open(&shared).await;
    let bob = shared.member(&shared.bob).await;
    let line = format!("DELETE /api/v1/teams/{}/members/{bob}", shared.mailbox);
    shared.ada.send(&line).await.succeeds(200);
    assert_eq!(stream.end().await, "revoked");
}

#[tokio::test(flavor = "multi_thread")]
async fn streams_are_limited_and_a_closed_stream_frees_its_place() {
    let service = Setup::default()
        .with("events.streams_per_credential = 2")
        .with_mail()
        .start()
        .await;
    let ada = service.person("ada").await;
    let first = EventStream::open(&ada, "").await;
    let _second = EventStream::open(&ada, "").await;
    let refused = refused_stream(&ada, "").await;
    refused.fails(
        429,
        "Too many open streams, please close some or try again later",
    );
    let again = ada.sign_in_again().await;
    let _other_session = EventStream::open(&again, "").await;
    drop(first);
    // The service sends nothing on the stream in this time.
    let freed = latchmail_tests::wait_until("a place is free", async || {
        stream_status(&service, &ada.access).await == 200
    });
    timeout(CLOSE_TIMEOUT, freed).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn pages_of_other_origins_can_open_and_continue_streams() {
    let service = Setup::default()
        .with("cors_origins = ['https://app.example']\nevents.streams_per_credential = 1")
        .with_mail()
        .start()
        .await;
    let ada = service.person("ada").await;
    let request = |method: &str| {
        let request = service.request(&format!("{method} /api/v1/mail/events"));
        request.header("origin", "https://app.example")
    };
    let preflight = request("OPTIONS")
        .header("access-control-request-method", "GET")
        .header(
            "access-control-request-headers",
            "authorization,last-event-id",
        );
    let allowed = Response::of(preflight).await;
    assert_eq!(allowed.status, 204);
    let headers = allowed.header("access-control-allow-headers").unwrap();
    assert!(headers.contains("Last-Event-ID"), "{headers}");

    // The response to HEAD has no body, and is no open stream.
    let head = Response::of(request("HEAD").bearer_auth(&ada.access)).await;
    assert_eq!((head.status, head.body.len()), (200, 0));
    assert_eq!(head.header("content-type"), Some("text/event-stream"));
    let opened = request("GET")
        .bearer_auth(&ada.access)
        .send()
        .await
        .unwrap();
    assert_eq!(opened.status(), 200);
    let origin = &opened.headers()["access-control-allow-origin"];
    assert_eq!(origin, "https://app.example");
}

#[tokio::test(flavor = "multi_thread")]
async fn streams_leave_connections_for_other_requests() {
    let service = Setup::default()
        .with("http.max_connections = 8")
        .with_mail()
        .start()
        .await;
    let ada = service.person("ada").await;
    let mut streams = Vec::new();
    for _ in 0..6 {
        streams.push(EventStream::open(&ada, "").await);
    }
    refused_stream(&ada, "").await.fails(
        429,
        "Too many open streams, please close some or try again later",
    );
    ada.send("GET /api/v1/mail/folders").await.succeeds(200);
}

/// Opens a stream, closes it, and returns the status.
pub(super) async fn stream_status(service: &Service, access: &str) -> u16 {
    let request = service
        .request("GET /api/v1/mail/events")
        .bearer_auth(access);
    request.send().await.unwrap().status().as_u16()
}
