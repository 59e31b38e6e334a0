//! The mail server stops during a send, and starts again.

use latchmail_tests::{Answer, Person, Relay, Service, imap, stored};

use super::{SEND, all_that_came, arrives, mail, sends};

const AWAY: &str = "Mail server is initializing, please try again in a moment";

#[track_caller]
fn away(answer: &Answer) {
    answer.fails(503, AWAY);
    assert!(answer.header("retry-after").is_some());
}

#[tokio::test]
async fn while_the_submission_service_is_down_sending_returns_503_and_nothing_is_sent_later() {
    let mut relay = Relay::new().await;
    let service = Service::with_mail_and(&format!("smtp.address = '{}'", relay.address)).await;
    relay.leads_to(service.mail().submission);
    let (ada, bob) = (service.person("ada").await, service.person("bob").await);
    // Before a connection exists, and after an existing one is closed.
    for round in ["first", "second"] {
        relay.bar().await;
        away(&ada.post(SEND, &mail("in vain")).await);
        away(&ada.post(SEND, &mail("in vain")).await);
        // Other requests still work.
        assert_eq!(ada.total("INBOX").await, 0);
        relay.clear().await;
        let sent = sends(&ada, &mail(round)).await;
        arrives(&bob, &sent).await;
    }
    // A connection that was closed while idle causes no failure.
    relay.bar().await;
    relay.clear().await;
    arrives(&bob, &sends(&ada, &mail("third")).await).await;
    let came = all_that_came(&ada, &bob).await;
    assert_eq!(came, ["first", "second", "third"]);
    let copies = stored(&mut imap(&ada).await, "Sent").await;
    let copies: Vec<_> = copies
        .iter()
        .map(latchmail_tests::Stored::subject)
        .collect();
    assert_eq!(copies, ["first", "second", "third", "the last one"]);
}

#[tokio::test]
async fn while_logins_fail_sending_returns_503_and_nothing_is_sent_later() {
    let mut service = Service::with_own_mail().await;
    let (ada, bob) = {
        let (ada, bob) = (service.person("ada").await, service.person("bob").await);
        ((ada.access, ada.address), (bob.access, bob.address))
    };
    // Postfix also authenticates logins with Dovecot.
    service.stack().stop_imap().await.unwrap();
    let request = service.request(&format!("POST {SEND}"));
    let request = request.bearer_auth(&ada.0).json(&mail("in vain"));
    away(&Answer::of(request).await);
    service.stack().start_imap().await.unwrap();
    let of = |(access, address): (String, String)| Person {
        service: &service,
        address,
        access,
        refresh: String::new(),
    };
    let (ada, bob) = (of(ada), of(bob));
    arrives(&bob, &sends(&ada, &mail("after")).await).await;
    assert_eq!(all_that_came(&ada, &bob).await, ["after"]);
    assert_eq!(ada.total("Sent").await, 2);
}
