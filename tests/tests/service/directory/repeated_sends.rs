//! `Idempotency-Key`: a repeated request sends one mail.

use std::time::Duration;

use latchmail_tests::{Person, Relay, Response, Service, TEST_TIMEOUT};
use serde_json::Value;
use tokio::time::{sleep, timeout};

use crate::mail::send::{
    POLL, SEND, mail, received_subjects, refused, send_mail, wait_for_mail, with,
};

async fn send_with_key(person: &Person<'_>, key: &str, mail: &Value) -> Response {
    let request = person.service.request(&format!("POST {SEND}"));
    let request = request.bearer_auth(&person.access).json(mail);
    Response::of(request.header("idempotency-key", key)).await
}

/// Asserts that the response is a repetition of the first one.
#[track_caller]
fn assert_replayed(response: Response) -> Value {
    let header = response.header("idempotent-replayed");
    assert_eq!(header, Some("true"), "{}", response.json);
    response.succeeds(200)
}

/// Asserts that the mail was sent by this request.
#[track_caller]
fn assert_sent(response: Response) -> Value {
    let header = response.header("idempotent-replayed");
    assert_eq!(header, None, "{}", response.json);
    response.succeeds(200)
}

#[tokio::test]
async fn a_mail_that_is_repeated_with_its_key_is_sent_once() {
    let service = Service::with_mail().await;
    let (ada, bob) = (service.person("ada").await, service.person("bob").await);
    let mail = mail("once");
    let first = assert_sent(send_with_key(&ada, "a-key", &mail).await);
    assert_eq!(first["savedTo"], "Sent");
    wait_for_mail(&bob, &first).await;
    // A key applies to all sessions of the account.
    let other_session = ada.sign_in_again().await;
    for person in [&ada, &ada, &other_session] {
        assert_eq!(
            assert_replayed(send_with_key(person, "a-key", &mail).await),
            first
        );
    }
    assert_eq!(received_subjects(&ada, &bob).await, ["once"]);
    assert_eq!(ada.total("Sent").await, 2);
    // Another key sends another mail, and so does a request without a key.
    let second = assert_sent(send_with_key(&ada, "A-KEY", &mail).await);
    let third = send_mail(&ada, &mail).await;
    assert!(second != first && third != first && third != second);
    wait_for_mail(&bob, &second).await;
    wait_for_mail(&bob, &third).await;
}

#[tokio::test]
async fn a_key_is_valid_for_one_mail() {
    let service = Service::with_mail().await;
    let (ada, bob) = (service.person("ada").await, service.person("bob").await);
    let first = assert_sent(send_with_key(&ada, "a-key", &mail("one")).await);
    let file = |content: &str| {
        let file = serde_json::json!([{ "filename": "a.txt", "content": content }]);
        with(mail("with a file"), "attachments", file)
    };
    assert_sent(send_with_key(&ada, "file", &file("YQ==")).await);
    assert_replayed(send_with_key(&ada, "file", &file("YQ==")).await);
    for (key, other) in [
        ("a-key", mail("another")),
        ("a-key", with(mail("one"), "text", "Another text.")),
        ("a-key", with(mail("one"), "bcc", "ada@first.test")),
        ("file", file("YWI=")),
        ("file", mail("with a file")),
    ] {
        let response = send_with_key(&ada, key, &other).await;
        refused(&response, 409, other);
        assert_eq!(response.header("idempotent-replayed"), None);
    }
    assert_eq!(
        assert_replayed(send_with_key(&ada, "a-key", &mail("one")).await),
        first
    );
    assert_eq!(received_subjects(&ada, &bob).await, ["one", "with a file"]);
}

#[tokio::test]
async fn keys_of_accounts_are_separate() {
    let service = Service::with_mail().await;
    let (ada, bob) = (service.person("ada").await, service.person("bob").await);
    let back = with(mail("back"), "from", "bob@first.test");
    let back = with(back, "to", "ada@first.test");
    let there = assert_sent(send_with_key(&ada, "a-key", &mail("there")).await);
    let back_again = assert_sent(send_with_key(&bob, "a-key", &back).await);
    assert!(there["messageId"] != back_again["messageId"]);
    wait_for_mail(&bob, &there).await;
    wait_for_mail(&ada, &back_again).await;
    assert_eq!(
        assert_replayed(send_with_key(&bob, "a-key", &back).await),
        back_again
    );
    assert_eq!(
        assert_replayed(send_with_key(&ada, "a-key", &mail("there")).await),
        there
    );
}

#[tokio::test]
async fn a_key_is_valid_for_a_day_and_survives_a_restart() {
    let mut service = Service::with_mail().await;
    let mail = mail("once a day");
    let (access, address, first) = {
        let (ada, bob) = (service.person("ada").await, service.person("bob").await);
        let first = assert_sent(send_with_key(&ada, "a-key", &mail).await);
        wait_for_mail(&bob, &first).await;
        (ada.access, ada.address, first)
    };
    service.restart().await;
    let ada = Person {
        service: &service,
        address,
        access,
        refresh: String::new(),
    };
    assert_eq!(
        assert_replayed(send_with_key(&ada, "a-key", &mail).await),
        first
    );
    service.clock.advance(Duration::from_hours(23));
    let ada = ada.sign_in_again().await;
    assert_eq!(
        assert_replayed(send_with_key(&ada, "a-key", &mail).await),
        first
    );
    service.clock.advance(Duration::from_hours(2));
    let ada = ada.sign_in_again().await;
    let second = assert_sent(send_with_key(&ada, "a-key", &mail).await);
    assert!(second["messageId"] != first["messageId"]);
    assert_eq!(
        assert_replayed(send_with_key(&ada, "a-key", &mail).await),
        second
    );
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
            let response = send_with_key(&ada, &key, &wrong).await;
            refused(&response, status, &wrong);
            assert_eq!(response.header("idempotent-replayed"), None);
        }
        let right = assert_sent(send_with_key(&ada, &key, &mail("right")).await);
        wait_for_mail(&bob, &right).await;
        assert_eq!(
            assert_replayed(send_with_key(&ada, &key, &mail("right")).await),
            right
        );
    }
    assert_eq!(received_subjects(&ada, &bob).await, ["right"; 5]);
}

/// Starts a service that submits mail through a relay.
async fn service_behind_relay() -> (Relay, Service) {
    let relay = Relay::new().await;
    let service = Service::with_mail_and(&format!("smtp.address = '{}'", relay.address)).await;
    relay.set_target(service.mail().submission);
    (relay, service)
}

#[tokio::test]
async fn a_key_in_use_is_refused_for_another_request() {
    let (relay, service) = service_behind_relay().await;
    let (ada, bob) = (service.person("ada").await, service.person("bob").await);
    relay.hold();
    let mail = mail("in flight");
    let meanwhile = async {
        relay.wait_until_held().await;
        let same = send_with_key(&ada, "a-key", &mail).await;
        let other = send_with_key(&ada, "a-key", &crate::mail::send::mail("another")).await;
        relay.release();
        (same, other)
    };
    let (first, (same, other)) = tokio::join!(send_with_key(&ada, "a-key", &mail), meanwhile);
    refused(&same, 409, "the same");
    refused(&other, 409, "another");
    let first = assert_sent(first);
    assert_eq!(
        assert_replayed(send_with_key(&ada, "a-key", &mail).await),
        first
    );
    assert_eq!(received_subjects(&ada, &bob).await, ["in flight"]);
}

#[tokio::test]
async fn of_concurrent_requests_with_one_key_one_sends() {
    let service = Service::with_mail().await;
    let (ada, bob) = (service.person("ada").await, service.person("bob").await);
    let mail = mail("at once");
    let calls = (0..10).map(|_| send_with_key(&ada, "a-key", &mail));
    let responses = futures_util::future::join_all(calls).await;
    let mut news = 0;
    for response in responses {
        match (response.status, response.header("idempotent-replayed")) {
            (200, None) => news += 1,
            (200, Some("true")) | (409, None) => (),
            other => panic!("{other:?} {}", response.json),
        }
    }
    assert_eq!(news, 1);
    assert_eq!(received_subjects(&ada, &bob).await, ["at once"]);
}

#[tokio::test]
async fn after_a_disconnect_the_key_returns_the_outcome() {
    let (relay, service) = service_behind_relay().await;
    let (ada, bob) = (service.person("ada").await, service.person("bob").await);
    relay.hold();
    let mail = mail("unheard");
    tokio::select! {
        response = send_with_key(&ada, "a-key", &mail) => panic!("{}", response.json),
        () = relay.wait_until_held() => (),
    }
    relay.release();
    let answered = async {
        loop {
            let response = send_with_key(&ada, "a-key", &mail).await;
            if response.status != 409 {
                return response;
            }
            sleep(POLL).await;
        }
    };
    let response = timeout(TEST_TIMEOUT, answered).await;
    let sent = assert_replayed(response.expect("the call ends"));
    wait_for_mail(&bob, &sent).await;
    assert_eq!(received_subjects(&ada, &bob).await, ["unheard"]);
}

#[tokio::test]
async fn a_failed_mail_can_be_sent_later_with_the_same_key() {
    let (mut relay, service) = service_behind_relay().await;
    let (ada, bob) = (service.person("ada").await, service.person("bob").await);
    relay.block().await;
    let mail = mail("later");
    for _ in 0..2 {
        refused(
            &send_with_key(&ada, "a-key", &mail).await,
            503,
            "no mail server",
        );
    }
    relay.unblock().await;
    let sent = assert_sent(send_with_key(&ada, "a-key", &mail).await);
    assert_eq!(
        assert_replayed(send_with_key(&ada, "a-key", &mail).await),
        sent
    );
    assert_eq!(received_subjects(&ada, &bob).await, ["later"]);
}
