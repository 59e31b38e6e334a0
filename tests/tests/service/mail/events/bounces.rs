//! A message that is not delivered is an event.

use latchmail_tests::{EventStream, NextServer, Setup};
use serde_json::json;

#[tokio::test(flavor = "multi_thread")]
async fn a_failed_delivery_is_an_event() {
    let setup = Setup::default().with_own_mail();
    let service = setup.with("inbound.delivery_reports = true").start().await;
    let mut service = service;
    let next = NextServer::start().await;
    let transport = format!("smtp:[127.0.0.1]:{}", next.address.port());
    let settings = [
        format!("default_transport = {transport}"),
        format!("relay_transport = {transport}"),
    ];
    let settings = settings.each_ref().map(String::as_str);
    service.stack().configure_postfix(&settings).await.unwrap();
    next.reply("bad", "550 5.1.1 no such user");
    let ada = service.person("ada").await;
    let mut stream = EventStream::open(&ada, "?types=delivery.bounced").await;
    let body = json!({
        "from": ada.address, "to": "bad@outside.test", "subject": "Hello", "text": "Hello.",
    });
    let submit = async || ada.post("/api/v1/mail/send", &body).await.succeeds(200);
    let sent = submit().await;
    let event = stream.next().await;
    assert_eq!(event.kind, "delivery.bounced");
    let data = &event.data["data"];
    assert_eq!(
        (&data["messageId"], &data["address"], &data["status"]),
        (
            &sent["messageId"],
            &json!("bad@outside.test"),
            &json!("bounced")
        )
    );
    let detail = data["detail"].as_str().unwrap();
    assert!(detail.contains("550 5.1.1 no such user"), "{detail}");
    // The event is in the log, so a client that connects later gets it once.
    let cursor = stream.cursor.clone();
    let query = format!("?types=delivery.bounced&since={cursor}");
    let mut later = EventStream::open(&ada, &query).await;
    let sent = submit().await;
    let event = later.next().await;
    assert_eq!(event.data["data"]["messageId"], sent["messageId"]);
}
