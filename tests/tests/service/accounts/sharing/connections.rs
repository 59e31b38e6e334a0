//! The share of the owner's connections to the mail server that a member can use.

use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;
use latchmail_tests::{Relay, Service};
use serde_json::json;

use super::rules::Grant;
use super::shared_mailbox::SharedMailbox;

const AWAY: &str = "Mail server is unavailable, please try again in a moment";

#[tokio::test]
async fn a_members_slow_downloads_do_not_delay_the_owners() {
    let service = Service::with_mail_and("imap.timeout = 2").await;
    let mut shared = SharedMailbox::new(&service).await;
    // More data than connections buffer without a reader.
    let film = "a line of a long film\r\n".repeat(700_000);
    let letter = format!(
        "Subject: film\r\nContent-Type: text/plain\r\nContent-Disposition: attachment; filename=film.txt\r\n\r\n{film}"
    );
    let appended = shared.client.append("Alpha", None, None, letter);
    appended.await.unwrap();
    let uid = shared.ada.uid_of("Alpha", "film").await;
    let rights = Grant::on("mailbox", "", &["mail:read"]);
    shared.invite("bob", &rights).await.succeeds(201);

    let line = format!("GET /api/v1/mail/messages/{uid}/attachments/0");
    let mut unread = Vec::new();
    for _ in 0..16 {
        let request = service.request(&shared.within(&line));
        let response = request
            .bearer_auth(&shared.bob.access)
            .send()
            .await
            .unwrap();
        assert_eq!(response.status(), 200);
        unread.push(response);
    }
    let downloaded = shared.ada.send(&line).await;
    assert_eq!(
        (downloaded.status, downloaded.body.len()),
        (200, film.len())
    );
    drop(unread);
}

#[tokio::test]
async fn a_members_slow_requests_do_not_delay_the_owners() {
    let relay = Relay::new().await;
    let settings = format!("imap.address = '{}'\nimap.timeout = 2", relay.address);
    let service = Service::with_mail_and(&settings).await;
    relay.set_target(service.mail().imap);
    let mut shared = SharedMailbox::new(&service).await;
    let uid = shared.append("Alpha", "one").await;
    let rights = Grant::on("mailbox", "", &["mail:read", "mail:write"]);
    shared.invite("bob", &rights).await.succeeds(201);

    relay.stall_at("stalled");
    let search = "GET /api/v1/mail/search?q=stalled";
    let mut searches: FuturesUnordered<_> =
        (0..8).map(|_| shared.send(&shared.bob, search)).collect();
    let refused = async {
        for _ in 0..6 {
            searches.next().await.unwrap().fails(503, AWAY);
        }
    };
    tokio::select! {
        () = refused => (),
        () = relay.wait_for_stalled(8) => (),
    }
    let listing = "GET /api/v1/mail/folders/Alpha/messages";
    shared.ada.send(listing).await.succeeds(200);
    // The member's change waits for a connection. It does not delay the owner's changes, although
    // changes run one after another.
    let line = format!("POST /api/v1/mail/messages/{uid}/flag");
    let flag = json!({ "flags": ["\\Seen"], "action": "add" });
    let waiting = shared.send_json(&shared.bob, &line, &flag);
    tokio::pin!(waiting);
    let mut changes = 0;
    let refused = loop {
        tokio::select! {
            answer = &mut waiting => break answer,
            answer = shared.ada.send_json(&line, &flag) => {
                answer.succeeds(200);
                changes += 1;
            }
        }
    };
    refused.fails(503, AWAY);
    assert!(changes > 1, "{changes}");
    assert_eq!(relay.stalled_connections(), 2);
    relay.release();
    while let Some(found) = searches.next().await {
        assert_eq!(found.succeeds(200)["total"], 0);
    }
    shared
        .send_json(&shared.bob, &line, &flag)
        .await
        .succeeds(200);
}
