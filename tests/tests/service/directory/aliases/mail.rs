//! Aliases at the mail servers: incoming mail, and mail from an alias.

use std::collections::BTreeSet;
use std::time::Duration;

use latchmail_tests::dkim::add_domain;
use latchmail_tests::{
    Person, Response, Service, TEST_TIMEOUT, imap, message_with_subject, subjects,
};
use lettre::transport::smtp::authentication::Credentials;
use lettre::{AsyncSmtpTransport, AsyncTransport as _, Message, Tokio1Executor};
use serde_json::json;
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::TcpStream;
use tokio::time::timeout;

use super::{claimed, created_id, delete, set};

const FOREIGN: &str = "You can only send from your own address or active aliases";
const ELSEWHERE: &str = "You do not have permission to send from this domain";

pub(super) async fn send_from(person: &Person<'_>, from: &str, to: &str) -> Response {
    let mail = json!({ "from": from, "to": to, "subject": "hello", "text": "Hello." });
    person.post("/api/v1/mail/send", &mail).await
}

/// An external SMTP client.
pub(super) struct Smtp {
    stream: BufReader<TcpStream>,
}

impl Smtp {
    /// Connects a client and sends EHLO and MAIL FROM.
    pub(super) async fn start(service: &Service) -> Self {
        let stream = TcpStream::connect(service.mail().smtp).await.unwrap();
        let mut smtp = Self {
            stream: BufReader::new(stream),
        };
        assert_eq!(smtp.reply().await, 220);
        assert_eq!(smtp.send("EHLO outside.test").await, 250);
        assert_eq!(smtp.send("MAIL FROM:<grace@outside.test>").await, 250);
        smtp
    }

    /// Sends a command, and returns the status code of the response.
    async fn send(&mut self, line: &str) -> u16 {
        let line = format!("{line}\r\n");
        self.stream.write_all(line.as_bytes()).await.unwrap();
        self.reply().await
    }

    pub(super) async fn to(&mut self, address: &str) -> u16 {
        self.send(&format!("RCPT TO:<{address}>")).await
    }

    async fn reply(&mut self) -> u16 {
        loop {
            let mut line = String::new();
            let read = timeout(TEST_TIMEOUT, self.stream.read_line(&mut line));
            read.await.expect("the mail server responds").unwrap();
            if line.as_bytes().get(3) != Some(&b'-') {
                return line[..3].parse().unwrap();
            }
        }
    }
}

/// Waits until an inbox contains messages with these subjects, in any order.
async fn arrive(person: &Person<'_>, expected: &[&str]) {
    let mut client = imap(person).await;
    let expected: BTreeSet<String> = expected.iter().map(|s| (*s).to_owned()).collect();
    let come = async {
        loop {
            let found = BTreeSet::from_iter(subjects(&mut client, "INBOX").await);
            if found == expected {
                break;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    timeout(TEST_TIMEOUT, come)
        .await
        .unwrap_or_else(|_| panic!("{expected:?} never came to {}", person.address));
}

/// Returns whether a person's mail client may send from an address.
async fn can_submit(person: &Person<'_>, password: &str, from: &str) -> bool {
    let submission = person.service.mail().submission;
    let transport =
        AsyncSmtpTransport::<Tokio1Executor>::builder_dangerous(submission.ip().to_string())
            .port(submission.port())
            .credentials(Credentials::new(person.address.clone(), password.into()))
            .build();
    let message = Message::builder()
        .from(from.parse().unwrap())
        .to("sink@outside.test".parse().unwrap())
        .body(String::from("Hello."))
        .unwrap();
    transport.send(message).await.is_ok()
}

#[tokio::test]
async fn mail_for_an_alias_is_accepted_only_while_it_is_active() {
    let service = Service::with_mail().await;
    let ada = service.person("ada").await;
    let mut smtp = Smtp::start(&service).await;
    assert_eq!(smtp.to("shop@first.test").await, 550);
    let id = created_id(&ada, "shop@first.test").await;
    assert_eq!(smtp.to("shop@first.test").await, 250);
    assert_eq!(smtp.to("Shop@First.Test").await, 250);
    set(&ada, id, false).await.succeeds(200);
    assert_eq!(smtp.to("shop@first.test").await, 550);
    set(&ada, id, true).await.succeeds(200);
    assert_eq!(smtp.send("RSET").await, 250);
    assert_eq!(smtp.send("MAIL FROM:<grace@outside.test>").await, 250);
    assert_eq!(smtp.to("shop@first.test").await, 250);
    assert_eq!(smtp.send("DATA").await, 354);
    let message = message_with_subject("to the shop");
    assert_eq!(smtp.send(&format!("{message}.")).await, 250);
    arrive(&ada, &["to the shop"]).await;
    // Delivered mail stays.
    delete(&ada, id).await.succeeds(200);
    assert_eq!(smtp.send("MAIL FROM:<grace@outside.test>").await, 250);
    assert_eq!(smtp.to("shop@first.test").await, 550);
    arrive(&ada, &["to the shop"]).await;
    let received = ada.newest().await;
    assert_eq!(received["subject"], "to the shop");
}

#[tokio::test]
async fn an_alias_on_a_custom_domain_receives_and_sends_like_any_other() {
    // A Postfix process remembers a domain until it exits, so no other test may use this domain.
    let service = Service::with_own_mail().await;
    let (ada, bob) = (service.person("ada").await, service.person("bob").await);
    let mut smtp = Smtp::start(&service).await;
    // Postfix remembers domains within a session and beyond it.
    assert_eq!(smtp.to("info@ada.test").await, 554);
    add_domain(&ada, "ada.test").await;
    for name in ["other", "info"] {
        assert_eq!(smtp.to(&format!("{name}@ada.test")).await, 550);
    }
    let id = created_id(&ada, "info@ada.test").await;
    assert_eq!(smtp.to("info@ada.test").await, 250);
    service
        .deliver("info@ada.test", &message_with_subject("to info"))
        .await;
    arrive(&ada, &["to info"]).await;
    send_from(&ada, "info@ada.test", "bob@first.test")
        .await
        .succeeds(200);
    send_from(&bob, "bob@first.test", "info@ada.test")
        .await
        .succeeds(200);
    arrive(&ada, &["to info", "hello"]).await;
    arrive(&bob, &["hello"]).await;
    assert_eq!(bob.newest().await["from"][0]["address"], "info@ada.test");
    send_from(&bob, "info@ada.test", "ada@first.test")
        .await
        .fails(403, ELSEWHERE);
    send_from(&ada, "nobody@ada.test", "bob@first.test")
        .await
        .fails(403, FOREIGN);
    set(&ada, id, false).await.succeeds(200);
    send_from(&ada, "info@ada.test", "bob@first.test")
        .await
        .fails(403, FOREIGN);
    assert_eq!(smtp.to("info@ada.test").await, 550);
    // No other account can have the domain, so nothing is reserved.
    delete(&ada, id).await.succeeds(200);
    assert_eq!(created_id(&ada, "info@ada.test").await, id);
    assert_eq!(smtp.to("info@ada.test").await, 250);
    assert_eq!(smtp.send("QUIT").await, 221);
    let mut later = Smtp::start(&service).await;
    assert_eq!(later.to("info@ada.test").await, 250);
    // A domain without aliases can be released.
    delete(&ada, id).await.succeeds(200);
    service.execute("DELETE FROM domains").await;
    assert_ne!(later.to("info@ada.test").await, 250);
}

#[tokio::test]
async fn an_alias_can_send_from_the_api_and_mail_clients_while_it_is_active() {
    let service = Service::with_mail().await;
    let (ada, bob) = (service.person("ada").await, service.person("bob").await);
    claimed(&ada, "pending.test").await;
    let password = ada.app_password("Phone").await;
    let password = password["password"].as_str().unwrap();
    send_from(&ada, "shop@first.test", "bob@first.test")
        .await
        .fails(403, FOREIGN);
    assert!(!can_submit(&ada, password, "shop@first.test").await);
    let id = created_id(&ada, "shop@first.test").await;
    send_from(&ada, "shop@first.test", "bob@first.test")
        .await
        .succeeds(200);
    send_from(&ada, "Shop@FIRST.test", "bob@first.test")
        .await
        .succeeds(200);
    assert!(can_submit(&ada, password, "shop@first.test").await);
    send_from(&bob, "shop@first.test", "ada@first.test")
        .await
        .fails(403, FOREIGN);
    set(&ada, id, false).await.succeeds(200);
    send_from(&ada, "shop@first.test", "bob@first.test")
        .await
        .fails(403, FOREIGN);
    assert!(!can_submit(&ada, password, "shop@first.test").await);
    set(&ada, id, true).await.succeeds(200);
    assert!(can_submit(&ada, password, "shop@first.test").await);
    delete(&ada, id).await.succeeds(200);
    send_from(&ada, "shop@first.test", "bob@first.test")
        .await
        .fails(403, FOREIGN);
    assert!(!can_submit(&ada, password, "shop@first.test").await);
    for other_session in ["ada@pending.test", "ada@elsewhere.test"] {
        send_from(&ada, other_session, "bob@first.test")
            .await
            .fails(403, ELSEWHERE);
    }
}
