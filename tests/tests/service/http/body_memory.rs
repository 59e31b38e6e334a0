//! The memory for request bodies while one account sends large ones slowly.

use std::time::Duration;

use latchmail_tests::{PASSWORD, Person, RawClient, Service, TEST_TIMEOUT};
use serde_json::json;
use tokio::time::{Instant, sleep, timeout};

const MIB: usize = 1024 * 1024;
/// The largest body of the route for sending is 40 MiB, so one account can use 40 of these 96 MiB,
/// and one network 48. No slow body times out during the test.
const SETTINGS: &str = "http.body_memory = 96\nhttp.body_timeout = 600";

/// Starts to send a message with a body of `announced` bytes, and writes `sent` bytes of an
/// attachment. The service holds three quarters of them.
async fn slow_send(person: &Person<'_>, announced: usize, sent: usize) -> RawClient {
    let mut client = RawClient::connect(person.service).await;
    let head = format!(
        "POST /api/v1/mail/send HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer {}\r\nContent-Type: application/json\r\nContent-Length: {announced}\r\n\r\n{{\"attachments\": [{{\"filename\": \"a\", \"content\": \"",
        person.access
    );
    // The service does not read from a client that it has refused.
    if client.try_send(head).await {
        client.try_send("x".repeat(sent)).await;
    }
    client
}

async fn small_send(person: &Person<'_>) -> u16 {
    let message = json!({ "from": person.address, "to": person.address, "subject": "Small", "text": "A small message." });
    person.post("/api/v1/mail/send", &message).await.status
}

#[tokio::test]
async fn slow_uploads_of_one_account_do_not_affect_another() {
    let service = Service::with_mail_and(SETTINGS).await;
    let (mallory, ada) = (service.person("mallory").await, service.person("ada").await);
    let mut slow = Vec::new();
    for _ in 0..2 {
        slow.push(slow_send(&mallory, 39 * MIB, 38 * MIB).await);
    }
    for _ in 0..80 {
        slow.push(slow_send(&mallory, MIB, 900 * 1024).await);
    }
    // When Mallory's next request is refused, her share is used up.
    let deadline = Instant::now() + TEST_TIMEOUT;
    loop {
        let mut probe = slow_send(&mallory, MIB, 0).await;
        let answered = timeout(Duration::from_millis(200), probe.response());
        if let Ok(Some(answer)) = answered.await {
            answer.error(503);
            break;
        }
        assert!(
            Instant::now() < deadline,
            "Mallory's share is never used up"
        );
        sleep(Duration::from_millis(10)).await;
    }
    for _ in 0..10 {
        let login = json!({ "email": ada.address, "password": PASSWORD });
        let login = service.post("/api/v1/auth/login", &login).await;
        assert_eq!(login.status, 200, "{}", login.json);
        assert_eq!(small_send(&ada).await, 200);
    }
    assert_eq!(
        small_send(&mallory).await,
        200,
        "small bodies have a pool of their own"
    );
    let large = json!({ "from": ada.address, "to": ada.address, "subject": "Large", "attachments": [{ "filename": "a", "content": "x".repeat(5 * MIB) }] });
    let large = ada.post("/api/v1/mail/send", &large).await;
    assert_eq!(large.status, 200, "{}", large.json);
    drop(slow);
}
