//! The event source.

use latchmail_tests::{TEST_TIMEOUT, append_message, imap};
use reqwest::Response;
use serde_json::{Value, json};
use tokio::time::timeout;

use super::{Jmap, service};

/// Reads the next `state` event of a stream. Returns its data.
async fn next_state(response: &mut Response) -> Value {
    let mut received = String::new();
    let event = async {
        loop {
            let chunk = response.chunk().await.unwrap().expect("the stream ended");
            received.push_str(std::str::from_utf8(&chunk).unwrap());
            let mut blocks = received.split("\n\n");
            let found = blocks.find(|block| block.contains("event: state"));
            let data = found.and_then(|block| block.split_once("data: "));
            if let Some((_, data)) = data
                && received.ends_with("\n\n")
            {
                return serde_json::from_str(data).unwrap();
            }
        }
    };
    timeout(TEST_TIMEOUT, event)
        .await
        .expect("no event arrived")
}

#[tokio::test(flavor = "multi_thread")]
async fn a_change_by_another_client_is_an_event_with_the_new_state() {
    let service = service().await;
    let ada = service.person("ada").await;
    let client = Jmap::connect(&ada).await;
    let line = "GET /jmap/eventsource?types=Email,Thread&closeafter=no&ping=0";
    let request = service.request(line).bearer_auth(&ada.access);
    let mut stream = request.send().await.unwrap();
    assert_eq!(stream.headers()["content-type"], "text/event-stream");
    let mut imap = imap(&ada).await;
    append_message(&mut imap, "INBOX", "One").await;
    let data = next_state(&mut stream).await;
    assert_eq!(data["@type"], "StateChange");
    let states = data["changed"][&client.account].as_object().unwrap();
    assert_eq!(states.keys().collect::<Vec<_>>(), ["Email", "Thread"]);
    // The state of the event is a state of `/changes`.
    let since = json!({ "sinceState": states["Email"] });
    let changes = client.call("Email/changes", since).await;
    assert_eq!(changes["created"], json!([]));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_can_wait_for_one_event() {
    let service = service().await;
    let ada = service.person("ada").await;
    Jmap::connect(&ada).await;
    let line = "GET /jmap/eventsource?types=*&closeafter=state&ping=5";
    let request = service.request(line).bearer_auth(&ada.access);
    let response = request.send().await.unwrap();
    let mut imap = imap(&ada).await;
    append_message(&mut imap, "INBOX", "One").await;
    let body = timeout(TEST_TIMEOUT, response.text()).await.unwrap();
    assert!(body.unwrap().contains("event: state"));
}
