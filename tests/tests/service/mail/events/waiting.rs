//! Requests that wait for a change.

use std::time::Duration;

use latchmail_tests::{METRICS, Setup, append_message, imap, wait_until};
use tokio::time::{Instant, timeout};

use super::service;

const CHANGES: &str = "GET /api/v1/mail/changes";

#[tokio::test(flavor = "multi_thread")]
async fn a_request_waits_for_the_first_change() {
    let service = Setup::default().with(METRICS).with_mail().start().await;
    let ada = service.person("ada").await;
    let mut client = imap(&ada).await;
    let cursor = ada.send(CHANGES).await.succeeds(200)["cursor"].clone();
    let line = format!("{CHANGES}?since={}&wait=30", cursor.as_str().unwrap());
    let waiting = ada.send(&line);
    let change = async {
        wait_until("the request waits", async || {
            service.scrape().await.gauge("latchmail_event_streams") == 1
        })
        .await;
        append_message(&mut client, "INBOX", "One").await;
    };
    let (response, ()) = timeout(Duration::from_secs(20), async {
        tokio::join!(waiting, change)
    })
    .await
    .unwrap();
    let page = response.succeeds(200);
    assert_eq!(page["changes"][0]["type"], "created");
    assert_eq!(page["more"], false);
    // The cursor is valid for the next request.
    let line = format!("{CHANGES}?since={}", page["cursor"].as_str().unwrap());
    let next = ada.send(&line).await.succeeds(200);
    assert_eq!(next["changes"].as_array().unwrap().len(), 0);
    // A request with changes does not wait.
    let line = format!("{CHANGES}?since={}&wait=30", cursor.as_str().unwrap());
    let page = timeout(Duration::from_secs(20), ada.send(&line)).await;
    assert_eq!(
        page.unwrap().succeeds(200)["changes"]
            .as_array()
            .unwrap()
            .len(),
        1
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wait_ends_without_changes() {
    let service = service().await;
    let ada = service.person("ada").await;
    let cursor = ada.send(CHANGES).await.succeeds(200)["cursor"].clone();
    let started = Instant::now();
    let line = format!("{CHANGES}?since={}&wait=1", cursor.as_str().unwrap());
    let page = ada.send(&line).await.succeeds(200);
    assert!(started.elapsed() >= Duration::from_secs(1));
    assert_eq!(
        (&page["changes"], &page["more"]),
        (&serde_json::json!([]), &false.into())
    );
    for wait in ["61", "x"] {
        let line = format!("{CHANGES}?wait={wait}");
        ada.send(&line)
            .await
            .fails(400, "Invalid changes parameters");
    }
}
