//! `Idempotency-Key`: a repeated request sends one mail.

use std::time::Duration;

use latchmail_tests::{Answer, EVENTUALLY, Person, Relay, Service};
use serde_json::Value;
use tokio::time::{sleep, timeout};

use crate::mail::s4_3_send::{POLL, SEND, all_that_came, arrives, mail, refused, sends, with};

async fn keyed(person: &Person<'_>, key: &str, mail: &Value) -> Answer {
    let request = person.service.request(&format!("POST {SEND}"));
    let request = request.bearer_auth(&person.access).json(mail);
    Answer::of(request.header("idempotency-key", key)).await
}

/// Asserts that the response is a repetition of the first one.
#[track_caller]
fn replayed(answer: Answer) -> Value {
    let header = answer.header("idempotent-replayed");
    assert_eq!(header, Some("true"), "{}", answer.json);
    answer.succeeds(200)
}

/// Asserts that the mail was sent by this request.
#[track_caller]
fn new(answer: Answer) -> Value {
    let header = answer.header("idempotent-replayed");
    assert_eq!(header, None, "{}", answer.json);
    answer.succeeds(200)
}

#[tokio::test]
async fn a_mail_that_is_repeated_with_its_key_is_sent_once() {
    let service = Service::with_mail().await;
    let (ada, bob) = (service.person("ada").await, service.person("bob").await);
    let mail = mail("once");
    let first = new(keyed(&ada, "a-key", &mail).await);
    assert_eq!(first["savedTo"], "Sent");
    arrives(&bob, &first).await;
    // Another session of the account too.
    let elsewhere = ada.again().await;
    for person in [&ada, &ada, &elsewhere] {
        assert_eq!(replayed(keyed(person, "a-key", &mail).await), first);
    }
    assert_eq!(all_that_came(&ada, &bob).await, ["once"]);
    assert_eq!(ada.total("Sent").await, 2);
    // Another key sends another mail, and so does a request without a key.
    let second = new(keyed(&ada, "A-KEY", &mail).await);
    let third = sends(&ada, &mail).await;
    assert!(second != first && third != first && third != second);
    arrives(&bob, &second).await;
    arrives(&bob, &third).await;
}

#[tokio::test]
async fn a_key_is_valid_for_one_mail() {
    let service = Service::with_mail().await;
    let (ada, bob) = (service.person("ada").await, service.person("bob").await);
    let first = new(keyed(&ada, "a-key", &mail("one")).await);
    let file = |content: &str| {
        let file = serde_json::json!([{ "filename": "a.txt", "content": content }]);
        with(mail("with a file"), "attachments", file)
    };
    new(keyed(&ada, "file", &file("YQ==")).await);
    replayed(keyed(&ada, "file", &file("YQ==")).await);
    for (key, other) in [
        ("a-key", mail("another")),
        ("a-key", with(mail("one"), "text", "Another text.")),
        ("a-key", with(mail("one"), "bcc", "ada@first.test")),
        ("file", file("YWI=")),
        ("file", mail("with a file")),
    ] {
        let answer = keyed(&ada, key, &other).await;
        refused(&answer, 409, other);
        assert_eq!(answer.header("idempotent-replayed"), None);
    }
    assert_eq!(replayed(keyed(&ada, "a-key", &mail("one")).await), first);
    assert_eq!(all_that_came(&ada, &bob).await, ["one", "with a file"]);
}

#[tokio::test]
async fn keys_of_accounts_are_separate() {
    let service = Service::with_mail().await;
    let (ada, bob) = (service.person("ada").await, service.person("bob").await);
    let back = with(mail("back"), "from", "bob@first.test");
    let back = with(back, "to", "ada@first.test");
    let there = new(keyed(&ada, "a-key", &mail("there")).await);
    let back_again = new(keyed(&bob, "a-key", &back).await);
    assert!(there["messageId"] != back_again["messageId"]);
    arrives(&bob, &there).await;
    arrives(&ada, &back_again).await;
    assert_eq!(replayed(keyed(&bob, "a-key", &back).await), back_again);
    assert_eq!(replayed(keyed(&ada, "a-key", &mail("there")).await), there);
}

#[tokio::test]
async fn a_key_is_valid_for_a_day_and_survives_a_restart() {
    let mut service = Service::with_mail().await;
    let mail = mail("once a day");
    let (access, address, first) = {
        let (ada, bob) = (service.person("ada").await, service.person("bob").await);
        let first = new(keyed(&ada, "a-key", &mail).await);
        arrives(&bob, &first).await;
        (ada.access, ada.address, first)
    };
    service.restart().await;
    let ada = Person {
        service: &service,
        address,
        access,
        refresh: String::new(),
    };
    assert_eq!(replayed(keyed(&ada, "a-key", &mail).await), first);
    service.clock.advance(Duration::from_hours(23));
    let ada = ada.again().await;
    assert_eq!(replayed(keyed(&ada, "a-key", &mail).await), first);
    service.clock.advance(Duration::from_hours(2));
    let ada = ada.again().await;
    let second = new(keyed(&ada, "a-key", &mail).await);
    assert!(second["messageId"] != first["messageId"]);
    assert_eq!(replayed(keyed(&ada, "a-key", &mail).await), second);
}

#[tokio::test]
async fn a_refused_mail_does_not_use_up_its_key() {
    let service = Service::with_mail().await;
    let (ada, bob) = (service.person("ada").await, service.person("bob").await);
    for (number, (status, wrong)) in [
        (400, with(mail("wrong"), "to", "nobody@first.test")),
        (
            400,
            with(mail("wrong"), "to", "bob@first.test, nobody@first.test"),
        ),
        (400, with(mail("wrong"), "to", "nobody")),
        (400, with(mail("wrong"), "subject", 5)),
        (403, with(mail("wrong"), "from", "bob@first.test")),
    ]
    .into_iter()
    .enumerate()
    {
        let key = format!("key-{number}");
        for _ in 0..2 {
            let answer = keyed(&ada, &key, &wrong).await;
            refused(&answer, status, &wrong);
            assert_eq!(answer.header("idempotent-replayed"), None);
        }
        let right = new(keyed(&ada, &key, &mail("right")).await);
        arrives(&bob, &right).await;
        assert_eq!(replayed(keyed(&ada, &key, &mail("right")).await), right);
    }
    assert_eq!(all_that_came(&ada, &bob).await, ["right"; 5]);
}

/// A service that submits mail through a relay.
async fn relayed() -> (Relay, Service) {
    let relay = Relay::new().await;
    let service = Service::with_mail_and(&format!("smtp.address = '{}'", relay.address)).await;
    relay.leads_to(service.mail().submission);
    (relay, service)
}

#[tokio::test]
async fn a_key_in_use_is_refused_for_another_request() {
    let (relay, service) = relayed().await;
    let (ada, bob) = (service.person("ada").await, service.person("bob").await);
    relay.hold();
    let mail = mail("in flight");
    let meanwhile = async {
        relay.holds().await;
        let same = keyed(&ada, "a-key", &mail).await;
        let other = keyed(&ada, "a-key", &crate::mail::s4_3_send::mail("another")).await;
        relay.release();
        (same, other)
    };
    let (first, (same, other)) = tokio::join!(keyed(&ada, "a-key", &mail), meanwhile);
    refused(&same, 409, "the same");
    refused(&other, 409, "another");
    let first = new(first);
    assert_eq!(replayed(keyed(&ada, "a-key", &mail).await), first);
    assert_eq!(all_that_came(&ada, &bob).await, ["in flight"]);
}

#[tokio::test]
async fn of_concurrent_requests_with_one_key_one_sends() {
    let service = Service::with_mail().await;
    let (ada, bob) = (service.person("ada").await, service.person("bob").await);
    let mail = mail("at once");
    let calls = (0..10).map(|_| keyed(&ada, "a-key", &mail));
    let answers = futures_util::future::join_all(calls).await;
    let mut news = 0;
    for answer in answers {
        match (answer.status, answer.header("idempotent-replayed")) {
            (200, None) => news += 1,
            (200, Some("true")) | (409, None) => (),
            other => panic!("{other:?} {}", answer.json),
        }
    }
    assert_eq!(news, 1);
    assert_eq!(all_that_came(&ada, &bob).await, ["at once"]);
}

#[tokio::test]
async fn after_a_disconnect_the_key_returns_the_outcome() {
    let (relay, service) = relayed().await;
    let (ada, bob) = (service.person("ada").await, service.person("bob").await);
    relay.hold();
    let mail = mail("unheard");
    tokio::select! {
        answer = keyed(&ada, "a-key", &mail) => panic!("{}", answer.json),
        () = relay.holds() => (),
    }
    relay.release();
    let answered = async {
        loop {
            let answer = keyed(&ada, "a-key", &mail).await;
            if answer.status != 409 {
                return answer;
            }
            sleep(POLL).await;
        }
    };
    let answer = timeout(EVENTUALLY, answered).await;
    let sent = replayed(answer.expect("the call ends"));
    arrives(&bob, &sent).await;
    assert_eq!(all_that_came(&ada, &bob).await, ["unheard"]);
}

#[tokio::test]
async fn a_failed_mail_can_be_sent_later_with_the_same_key() {
    let (mut relay, service) = relayed().await;
    let (ada, bob) = (service.person("ada").await, service.person("bob").await);
    relay.bar().await;
    let mail = mail("later");
    for _ in 0..2 {
        refused(&keyed(&ada, "a-key", &mail).await, 503, "no mail server");
    }
    relay.clear().await;
    let sent = new(keyed(&ada, "a-key", &mail).await);
    assert_eq!(replayed(keyed(&ada, "a-key", &mail).await), sent);
    assert_eq!(all_that_came(&ada, &bob).await, ["later"]);
}
