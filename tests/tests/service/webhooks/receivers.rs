//! The receivers to which the service sends events.

use std::net::IpAddr;

use latchmail_tests::tls::{CertificateFolder, NAME};
use latchmail_tests::{Behaviour, Nameserver, Person, Receiver, Service, start_error};
use serde_json::json;

use super::{create, deliver, start};

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
    assert_eq!(receiver.connections(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_name_that_changes_to_a_private_address_is_never_connected() {
    let folder = tempfile::tempdir().unwrap();
    let certificate = CertificateFolder::create(folder.path());
    let receiver = Receiver::start_tls(&certificate).await;
    let nameserver = Nameserver::start().await;
    let settings = format!("dns.server = '{}'", nameserver.address);
    let mut service = Service::with_mail_and(&settings).await;
    let ada = service.person("ada").await;
    let user = json!({ "email": ada.address });
    let pair = json!({ "accessToken": ada.access, "refreshToken": ada.refresh, "user": user });
    let mut process = service.restart_in_process().await;
    // The host trusts the certificate of the receiver, so only the address is refused.
    process.restart_trusting(&certificate.authority()).await;
    let ada = Person::from_token_pair(&service, &pair);
    let port = receiver.address.port();
    // A public address to which no route leads.
    let public: IpAddr = "3ffe::1".parse().unwrap();
    let private: IpAddr = "127.0.0.1".parse().unwrap();
    nameserver.addresses(NAME, &[public]);
    let url = format!("https://{NAME}:{port}/");
    let (id, _) = create(&ada, &json!({ "url": url })).await;
    let test = format!("POST /api/v1/webhooks/{id}/test");
    for addresses in [&[private][..], &[public, private], &[private, public]] {
        nameserver.addresses(NAME, addresses);
        let sent = ada.send(&test).await.succeeds(200);
        assert_eq!(
            (&sent["state"], &sent["status"]),
            (&json!("failed"), &json!(null))
        );
    }
    assert_eq!(receiver.connections(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_receiver_needs_a_certificate_of_a_trusted_authority() {
    let folder = tempfile::tempdir().unwrap();
    let certificate = CertificateFolder::create(folder.path());
    let receiver = Receiver::start_tls(&certificate).await;
    let mut service = Service::with_mail_and(&receiver.setting()).await;
    let ada = service.person("ada").await;
    let (id, secret) = create(&ada, &json!({ "url": receiver.url("/") })).await;
    let test = format!("POST /api/v1/webhooks/{id}/test");
    let sent = ada.send(&test).await.succeeds(200);
    assert_eq!(
        (&sent["state"], &sent["error"]),
        (
            &json!("failed"),
            &json!("The TLS handshake with the receiver failed")
        )
    );
    assert_eq!(receiver.received(), []);

    let user = json!({ "email": ada.address });
    let pair = json!({ "accessToken": ada.access, "refreshToken": ada.refresh, "user": user });
    let mut process = service.restart_in_process().await;
    process.restart_trusting(&certificate.authority()).await;
    let ada = Person::from_token_pair(&service, &pair);
    let sent = ada.send(&test).await.succeeds(200);
    assert_eq!(sent["state"], "delivered", "{sent}");
    deliver(&ada, "one").await;
    let requests = receiver.wait_for("/", 2).await;
    assert!(requests.iter().all(|one| one.is_signed_with(&secret)));
    assert_eq!(requests[1].body["type"], "message.created");
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
