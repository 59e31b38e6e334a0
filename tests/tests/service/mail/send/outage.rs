//! The mail server stops during a send, and starts again.

use latchmail_tests::{Person, Relay, Response, Service, imap, stored_messages};

use super::{SEND, mail, received_subjects, send_mail, wait_for_mail};

const MAIL_SERVER_DOWN: &str = "Mail server is unavailable, please try again in a moment";

#[track_caller]
fn assert_mail_server_down(response: &Response) {
    response.fails(503, MAIL_SERVER_DOWN);
    assert!(response.header("retry-after").is_some());
}

#[tokio::test]
async fn while_the_submission_service_is_down_sending_returns_503_and_nothing_is_sent_later() {
    let mut relay = Relay::new().await;
    let service = Service::with_mail_and(&format!("smtp.address = '{}'", relay.address)).await;
    relay.set_target(service.mail().submission);
    let (ada, bob) = (service.person("ada").await, service.person("bob").await);
    // The service reaches the mail server. Until then, the mail server is reported as starting.
    assert_eq!(ada.total("INBOX").await, 0);
    // The first round has no connection yet, and the second one has a connection that was closed.
    for round in ["first", "second"] {
        relay.block().await;
        assert_mail_server_down(&ada.post(SEND, &mail("in vain")).await);
        assert_mail_server_down(&ada.post(SEND, &mail("in vain")).await);
        // Other requests still work.
        assert_eq!(ada.total("INBOX").await, 0);
        relay.unblock().await;
        let sent = send_mail(&ada, &mail(round)).await;
        wait_for_mail(&bob, &sent).await;
    }
    // A connection that was closed while idle causes no failure.
    relay.block().await;
    relay.unblock().await;
    wait_for_mail(&bob, &send_mail(&ada, &mail("third")).await).await;
    let received = received_subjects(&ada, &bob).await;
    assert_eq!(received, ["first", "second", "third"]);
    let copies = stored_messages(&mut imap(&ada).await, "Sent").await;
    let copies: Vec<_> = copies
        .iter()
        .map(latchmail_tests::StoredMessage::subject)
        .collect();
    assert_eq!(copies, ["first", "second", "third", "the last one"]);
}

#[tokio::test]
async fn while_logins_fail_sending_returns_503_and_nothing_is_sent_later() {
    let mut service = Service::with_own_mail().await;
    let (ada, bob) = {
        let (ada, bob) = (service.person("ada").await, service.person("bob").await);
        assert_eq!(ada.total("INBOX").await, 0);
        ((ada.access, ada.address), (bob.access, bob.address))
    };
    // Postfix also authenticates logins with Dovecot.
    service.stack().stop_imap().await.unwrap();
    let request = service.request(&format!("POST {SEND}"));
    let request = request.bearer_auth(&ada.0).json(&mail("in vain"));
    assert_mail_server_down(&Response::of(request).await);
    service.stack().start_imap().await.unwrap();
    let of = |(access, address): (String, String)| Person {
        service: &service,
        address,
        access,
        refresh: String::new(),
    };
    let (ada, bob) = (of(ada), of(bob));
    wait_for_mail(&bob, &send_mail(&ada, &mail("after")).await).await;
    assert_eq!(received_subjects(&ada, &bob).await, ["after"]);
    assert_eq!(ada.total("Sent").await, 2);
}
