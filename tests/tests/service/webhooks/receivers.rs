//! The receivers to which the service sends events.

use latchmail_tests::{Behaviour, Nameserver, Receiver, Service, start_error};
use serde_json::json;

use super::{create, start};

#[tokio::test]
async fn a_url_with_a_private_address_or_without_tls_is_refused() {
    let service = Service::with_mail().await;
    let ada = service.person("ada").await;
    for (url, text) in [
        ("http://example.com/", "url must start with https://"),
        ("https://127.0.0.1/", "url must not have a private address"),
        ("https://10.0.0.1/", "url must not have a private address"),
        (
            "https://[::ffff:192.168.0.1]/",
            "url must not have a private address",
        ),
        (
            "https://[64:ff9b::a00:1]/",
            "url must not have a private address",
        ),
        ("https://[fec0::1]/", "url must not have a private address"),
    ] {
        let refused = ada.post("/api/v1/webhooks", &json!({ "url": url })).await;
        refused.fails(400, text);
    }
    let error = start_error("webhooks.allow = ['example.com']").await;
    assert!(error.contains("`example.com`"), "{error}");
}

#[tokio::test]
async fn a_name_with_a_private_address_is_never_connected() {
    let (nameserver, receiver) = (Nameserver::start().await, Receiver::start().await);
    let settings = format!("dns.server = '{}'", nameserver.address);
    let service = Service::with_mail_and(&settings).await;
    let ada = service.person("ada").await;
    let port = receiver.address.port();
    let body = json!({ "url": format!("https://hooks.example:{port}/") });
    let (id, _) = create(&ada, &body).await;
    for address in [
        "127.0.0.1",
        "10.0.0.1",
        "::1",
        "::ffff:127.0.0.1",
        "2002:7f00:1::1",
    ] {
        nameserver.addresses("hooks.example", &[address.parse().unwrap()]);
        let line = format!("POST /api/v1/webhooks/{id}/test");
        let sent = ada.send(&line).await.succeeds(200);
        assert_eq!(sent["state"], "failed");
        assert_eq!(
            sent["error"],
            "The receiver cannot be reached at a permitted address"
        );
    }
    assert!(nameserver.queries("hooks.example") >= 5);
    assert_eq!(receiver.received(), []);
}

#[tokio::test]
async fn a_redirect_is_not_followed() {
    let (service, receiver) = start().await;
    let ada = service.person("ada").await;
    let (id, _) = create(&ada, &json!({ "url": receiver.url("/first") })).await;
    receiver.behave(Behaviour::Redirect(receiver.url("/second")));
    let line = format!("POST /api/v1/webhooks/{id}/test");
    let sent = ada.send(&line).await.succeeds(200);
    assert_eq!(
        (&sent["state"], &sent["status"]),
        (&json!("failed"), &json!(307))
    );
    assert_eq!(receiver.received().len(), 1);
    assert_eq!(receiver.received_at("/second"), []);
}
