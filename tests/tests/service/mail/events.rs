//! Events: the stream, and the requests that wait for a change.
//!
//! Each way in which the service learns of changes has tests: notices of the mail server, and a
//! connection to the mail server without notices.

mod access;
mod bounces;
mod followers;
mod hosts;
mod listen;
mod slow;
mod waiting;

use std::time::Duration;

use latchmail_tests::{
    EventStream, Imap, Service, Setup, append_message, imap, message_with_subject, refused_stream,
    store_flags,
};
use serde_json::json;

/// A stream reads at most 100 events at a time.
const MORE_THAN_A_PAGE: usize = 120;

async fn service() -> Service {
    Service::with_mail().await
}

/// Moves a message as another IMAP client does.
async fn move_message(client: &mut Imap, from: &str, imap_uid: u32, to: &str) {
    client.select(from).await.unwrap();
    client.uid_mv(imap_uid.to_string(), to).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_delivery_is_an_event() {
    let service = service().await;
    let ada = service.person("ada").await;
    let mut stream = EventStream::open(&ada, "").await;
    service
        .deliver_raw(&ada.address, message_with_subject("One").as_bytes())
        .await;
    let event = stream.next().await;
    let uid = ada.uid_of("INBOX", "One").await;
    assert_eq!(event.kind, "message.created");
    assert_eq!(
        (&event.data["id"], &event.data["type"]),
        (&json!(event.id), &json!(event.kind))
    );
    let expected = json!({ "type": "created", "uid": uid, "folder": "INBOX", "flags": [] });
    assert_eq!(event.data["data"], expected);
    assert!(event.data["time"].as_str().unwrap().ends_with('Z'));
}

#[tokio::test(flavor = "multi_thread")]
async fn changes_by_another_client_are_events() {
    let service = service().await;
    let ada = service.person("ada").await;
    let mut client = imap(&ada).await;
    append_message(&mut client, "INBOX", "One").await;
    let uid = ada.uid_of("INBOX", "One").await;
    let mut stream = EventStream::open(&ada, "").await;

    store_flags(&mut client, "INBOX", 1, "+FLAGS (\\Seen)").await;
    let event = stream.next().await;
    assert_eq!(event.kind, "message.flags");
    assert_eq!(event.data["data"]["flags"], json!(["\\Seen"]));

    client.create("Work").await.unwrap();
    assert_eq!(stream.next().await.kind, "folder.created");
    move_message(&mut client, "INBOX", 1, "Work").await;
    let event = stream.next().await;
    assert_eq!(event.kind, "message.moved");
    let moved = &event.data["data"];
    assert_eq!(
        (&moved["uid"], &moved["from"], &moved["folder"]),
        (&json!(uid), &json!("INBOX"), &json!("Work"))
    );

    client.rename("Work", "Projects").await.unwrap();
    let event = stream.next().await;
    assert_eq!(event.kind, "folder.renamed");
    assert_eq!(event.data["data"]["from"], "Work");

    client.select("Projects").await.unwrap();
    client.close().await.unwrap();
    client.delete("Projects").await.unwrap();
    let event = stream.next().await;
    assert_eq!(event.kind, "folder.deleted");
}

#[tokio::test(flavor = "multi_thread")]
async fn without_notices_a_connection_reports_changes() {
    let setup = Setup::default().with_mail().without_notices();
    let service = setup.start().await;
    let ada = service.person("ada").await;
    let mut client = imap(&ada).await;
    let mut stream = EventStream::open(&ada, "").await;
    append_message(&mut client, "INBOX", "One").await;
    assert_eq!(stream.next().await.kind, "message.created");
    // INBOX is open on the connection. The server also reports changes of the other folders.
    append_message(&mut client, "Archive", "Two").await;
    assert_eq!(stream.next().await.data["data"]["folder"], "Archive");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_continues_at_a_cursor_without_gaps_and_repetitions() {
    let service = service().await;
    let ada = service.person("ada").await;
    let mut client = imap(&ada).await;
    let start = EventStream::open(&ada, "").await.cursor;
    for subject in ["One", "Two", "Three"] {
        append_message(&mut client, "INBOX", subject).await;
    }
    let mut stream = EventStream::open(&ada, &format!("?since={start}")).await;
    let mut uids = Vec::new();
    let mut first = String::new();
    for _ in 0..3 {
        let event = stream.next().await;
        if first.is_empty() {
            first.clone_from(&event.id);
        }
        uids.push(event.data["data"]["uid"].as_u64().unwrap());
    }
    let request = service
        .request("GET /api/v1/mail/events?since=other")
        .bearer_auth(&ada.access)
        .header("last-event-id", &first);
    let mut resumed = EventStream::of(request).await;
    for uid in &uids[1..] {
        assert_eq!(resumed.next().await.data["data"]["uid"], *uid);
    }
    // The list of changes accepts the cursor of a stream.
    let line = format!("GET /api/v1/mail/changes?since={first}");
    let changes = ada.send(&line).await.succeeds(200);
    assert_eq!(changes["changes"].as_array().unwrap().len(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_sends_more_events_than_one_read_returns() {
    let service = service().await;
    let ada = service.person("ada").await;
    let mut client = imap(&ada).await;
    let start = EventStream::open(&ada, "").await.cursor;
    for number in 0..MORE_THAN_A_PAGE {
        append_message(&mut client, "INBOX", &number.to_string()).await;
    }
    let mut stream = EventStream::open(&ada, &format!("?since={start}")).await;
    let mut uids = Vec::new();
    for _ in 0..MORE_THAN_A_PAGE {
        uids.push(stream.next().await.data["data"]["uid"].as_u64().unwrap());
    }
    assert!(uids.is_sorted_by(|one, next| one < next), "{uids:?}");
    append_message(&mut client, "INBOX", "Last").await;
    let last = stream.next().await.data["data"]["uid"].as_u64().unwrap();
    assert_eq!(last, ada.uid_of("INBOX", "Last").await);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_filter_selects_types_and_a_folder() {
    let service = service().await;
    let ada = service.person("ada").await;
    let mut client = imap(&ada).await;
    for subject in ["One", "Two"] {
        append_message(&mut client, "INBOX", subject).await;
    }
    let [one, two] = [
        ada.uid_of("INBOX", "One").await,
        ada.uid_of("INBOX", "Two").await,
    ];
    let mut flags = EventStream::open(&ada, "?types=message.flags,message.deleted").await;
    let mut archive = EventStream::open(&ada, "?folder=Archive").await;
    store_flags(&mut client, "INBOX", 1, "+FLAGS (\\Flagged)").await;
    let event = flags.next().await;
    assert_eq!(
        (&*event.kind, &event.data["data"]["uid"]),
        ("message.flags", &json!(one))
    );
    move_message(&mut client, "INBOX", 1, "Archive").await;
    // A message that enters the folder of the filter is created there.
    assert_eq!(archive.next().await.kind, "message.created");
    // The other stream does not contain the move.
    store_flags(&mut client, "INBOX", 2, "+FLAGS (\\Flagged)").await;
    let event = flags.next().await;
    assert_eq!(
        (&*event.kind, &event.data["data"]["uid"]),
        ("message.flags", &json!(two))
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_of_a_folder_continues_after_a_rename() {
    let service = service().await;
    let ada = service.person("ada").await;
    let mut client = imap(&ada).await;
    client.create("Work").await.unwrap();
    let mut stream = EventStream::open(&ada, "?folder=Work").await;
    client.rename("Work", "Projects").await.unwrap();
    assert_eq!(stream.next().await.kind, "folder.renamed");
    append_message(&mut client, "Projects", "One").await;
    let event = stream.next().await;
    assert_eq!(event.kind, "message.created", "{event:?}");
    assert_eq!(event.data["data"]["folder"], "Projects");
    // A client that connects again has the URL with the earlier path.
    let query = format!("?folder=Work&since={}", event.id);
    let mut resumed = EventStream::open(&ada, &query).await;
    append_message(&mut client, "Projects", "Two").await;
    assert_eq!(resumed.next().await.kind, "message.created");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_outcome_of_the_outbox_is_an_event() {
    let service = service().await;
    let ada = service.person("ada").await;
    let mut stream = EventStream::open(&ada, "?types=outbox.sent,outbox.failed").await;
    let body = json!({
        "from": ada.address, "to": "grace@outside.test", "subject": "Later", "text": "Hello.",
        "undoSeconds": 1,
    });
    let accepted = ada.post("/api/v1/mail/send", &body).await.succeeds(202);
    let outbox = &accepted["outboxId"];
    service.clock.advance(Duration::from_secs(2));
    let event = stream.next().await;
    assert_eq!(event.kind, "outbox.sent", "{event:?}");
    assert_eq!(event.data["data"]["outboxId"], *outbox);
    assert!(event.data["data"].get("subject").is_none());
}

#[tokio::test(flavor = "multi_thread")]
async fn invalid_parameters_are_refused() {
    let service = service().await;
    let ada = service.person("ada").await;
    let refused = async |query: &str| refused_stream(&ada, query).await;
    let unknown = refused("?types=message.created,mail").await;
    unknown.fails(400, "unknown event type: mail");
    refused("?folder=Nowhere")
        .await
        .fails(404, "Folder not found");
    for query in ["?since=", "?since=unknown"] {
        refused(query).await.fails(410, "Cursor expired");
    }
    let cursor = EventStream::open(&ada, "").await.cursor;
    let other = refused(&format!("?since={cursor}&folder=INBOX")).await;
    other.fails(410, "Cursor expired");
}
