//! OpenDKIM signs mail that mail clients submit, with the keys that the service writes for it
//! (docs/dkim.md).

use std::time::Duration;

use latchmail_tests::dkim::{PKCS8, Records, add_domain, dns_record, key_file, verify};
use latchmail_tests::milter::SigningService;
use latchmail_tests::{
    Imap, Nameserver, Person, StoredMessage, TEST_TIMEOUT, add_alias, imap, stored_messages,
};
use serde_json::{Value, json};
use tokio::time::{sleep, timeout};

const POLL: Duration = Duration::from_millis(20);
const NONE: [bool; 0] = [];
const DOMAINS: &str = "/api/v1/domains";

async fn wait_for_message(client: &mut Imap, subject: &str) -> StoredMessage {
    let comes = async {
        loop {
            let messages = stored_messages(client, "INBOX").await;
            let mut found = messages.into_iter().filter(|m| m.subject() == subject);
            if let Some(message) = found.next() {
                return message;
            }
            sleep(POLL).await;
        }
    };
    let received = timeout(TEST_TIMEOUT, comes).await;
    received.unwrap_or_else(|_| panic!("{subject} never came"))
}

fn letter(from: &str, subject: &str) -> String {
    format!(
        "From: Ada <{from}>\nTo: bob@first.test\nSubject: {subject}\nDate: Thu, 19 Nov 2026 10:00:00 +0100\n\
         Message-ID: <{subject}@ada.example>\n\nHello  \n.\n..dots\n\n\n\n"
    )
}

fn text<'a>(value: &'a Value, field: &str) -> &'a str {
    value[field]
        .as_str()
        .unwrap_or_else(|| panic!("no {field} in {value}"))
}

/// Returns the DKIM record of an active domain.
async fn key_of(person: &Person<'_>, domain: &str) -> Records {
    let active = person.send(&format!("GET {DOMAINS}/{domain}")).await;
    let active = active.succeeds(200);
    let records = active["records"].as_array().unwrap().iter();
    let keys = records.filter(|record| record["kind"] == "DKIM");
    let published = |key: &Value| (text(key, "host").to_owned(), text(key, "value").to_owned());
    keys.map(published).collect()
}

#[tokio::test]
async fn a_domain_signs_after_its_verification_by_the_owner_or_the_operator() {
    let dns = Nameserver::start().await;
    let signing = SigningService::start(&format!("dns.server = '{}'", dns.address)).await;
    let service = &signing.service;
    let ada = service.person("ada").await;
    let phone = ada.app_password("phone").await;
    let mut client = imap(&ada).await;
    for (domain, by_the_operator) in [("ada.example", false), ("other.example", true)] {
        let claimed = ada.post(DOMAINS, &json!({ "domain": domain })).await;
        let wanted = &claimed.succeeds(201)["verification"];
        dns.txt(text(wanted, "host"), &[text(wanted, "value")]);
        if by_the_operator {
            let verify = format!("domain verify {domain}");
            service.operator(&verify, "").await.succeeds();
        } else {
            let verify = format!("POST {DOMAINS}/{domain}/verify");
            ada.send(&verify).await.succeeds(200);
        }
        let from = format!("me@{domain}");
        add_alias(&ada, &from, true).await;
        let message = letter(&from, domain);
        let submitted = signing.submit(&phone, &from, "ada@first.test", &message);
        submitted.await.unwrap();
        let message = wait_for_message(&mut client, domain).await;
        let records = key_of(&ada, domain).await;
        assert_eq!(verify(&message.bytes, &records), [true], "{domain}");
    }
}

#[tokio::test]
async fn mail_from_a_mail_client_is_signed_only_for_the_senders_domain() {
    let signing = SigningService::start("").await;
    let service = &signing.service;
    let (ada, bob) = (service.person("ada").await, service.person("bob").await);
    add_alias(&ada, "me@ada.example", true).await;
    let mut records = add_domain(&ada, "ada.example").await;
    records.extend(add_domain(&bob, "bob.example").await);
    service.sync_milter().await;
    let phone = ada.app_password("phone").await;
    let mut at_bob = imap(&bob).await;
    let submit = async |from: &str, message: &str| {
        signing
            .submit(&phone, from, "bob@first.test", message)
            .await
    };

    submit("me@ada.example", &letter("me@ada.example", "own"))
        .await
        .unwrap();
    let message = wait_for_message(&mut at_bob, "own").await;
    assert_eq!(verify(&message.bytes, &records), [true]);
    assert!(
        message
            .header("dkim-signature")
            .unwrap()
            .contains("d=ada.example")
    );

    // A domain without a key.
    submit("ada@first.test", &letter("ada@first.test", "platform"))
        .await
        .unwrap();
    let message = wait_for_message(&mut at_bob, "platform").await;
    assert_eq!(verify(&message.bytes, &records), NONE);

    // The milter of the service compares the login with the header From too.
    for from in ["ada@first.test", "me@ada.example"] {
        let refused = submit(from, &letter("boss@bob.example", "forged")).await;
        assert!(refused.unwrap_err().is_permanent(), "{from}");
    }

    // Mail that the service submits is signed only once.
    let sent =
        json!({ "from": "me@ada.example", "to": "bob@first.test", "subject": "api", "text": "t" });
    ada.post("/api/v1/mail/send", &sent).await.succeeds(200);
    let message = wait_for_message(&mut at_bob, "api").await;
    assert_eq!(verify(&message.bytes, &records), [true]);

    // Makes it a platform domain, so that Ada's alias stays active.
    service
        .execute(
            "DELETE FROM domains WHERE domain = 'ada.example'; INSERT INTO platform_domains (domain) VALUES ('ada.example')",
        )
        .await;
    submit("me@ada.example", &letter("me@ada.example", "released"))
        .await
        .unwrap();
    let message = wait_for_message(&mut at_bob, "released").await;
    assert_eq!(verify(&message.bytes, &records), NONE);
}

#[tokio::test]
async fn the_configured_key_of_a_platform_domain_signs_mail_of_mail_clients() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("key");
    let public = key_file(&file, PKCS8);
    let records = Records::from([dns_record("first.test", "2026a", &public)]);
    let signing = SigningService::start(&format!(
        "dkim.keys.main = {{ domain = 'first.test', selector = '2026a', key_file = '{}' }}",
        file.display()
    ))
    .await;
    let service = &signing.service;
    let (ada, bob) = (service.person("ada").await, service.person("bob").await);
    let phone = ada.app_password("phone").await;
    let message = letter("ada@first.test", "platform");
    let submitted = signing.submit(&phone, "ada@first.test", "bob@first.test", &message);
    submitted.await.unwrap();
    let message = wait_for_message(&mut imap(&bob).await, "platform").await;
    assert_eq!(verify(&message.bytes, &records), [true]);
}
