//! Verification of the sender of a message.

use std::net::SocketAddr;
use std::time::Duration;

use latchmail_tests::dkim::add_domain;
use latchmail_tests::{
    Agent, DOMAIN, Nameserver, Person, Service, Setup, TEST_TIMEOUT, add_alias, expunge_all, imap,
    stored_messages,
};
use lettre::address::Envelope;
use lettre::transport::smtp::authentication::Credentials;
use lettre::{AsyncSmtpTransport, AsyncTransport as _, Tokio1Executor};
use serde_json::{Value, json};
use tokio::time::{sleep, timeout};

/// The warning of an agent's result about an unverified sender.
const NOT_VERIFIED: &str = "sender not verified";

/// Delivers a message to `person` with these header fields above those of the sender, and waits
/// until it arrives.
async fn deliver_and_wait(person: &Person<'_>, fields: &str, from: &str) -> u64 {
    let message = format!(
        "{fields}From: {from}\nTo: {}\nSubject: Hello\n\nHello.\n",
        person.address
    );
    person.receive(&message).await;
    person.newest().await["uid"].as_u64().unwrap()
}

/// Returns the result for the sender from the route, and whether an agent gets a warning.
async fn results(person: &Person<'_>, agent: &Agent<'_>, uid: u64) -> (Value, bool) {
    let detail = person.message(uid).await;
    let read = agent.call("get_message", json!({ "uid": uid })).await;
    assert_eq!(read["authentication"], detail["authentication"]);
    let warnings = read["warnings"].as_array().unwrap();
    let about_sender = |warning: &Value| warning.as_str().unwrap().contains(NOT_VERIFIED);
    (
        detail["authentication"].clone(),
        warnings.iter().any(about_sender),
    )
}

#[tokio::test]
async fn messages_contain_the_result_of_the_mail_servers_own_filter() {
    let settings = "inbound.authserv_id = 'mx.filter.test'\ninbound.filter = 'other'";
    let service = Service::with_mail_and(settings).await;
    let ada = service.person("ada").await;
    let agent = Agent::for_person(&ada).await;
    let from = "Grace <grace@outside.test>";
    for (results_of, result, domain) in [
        (
            "mx.filter.test; dmarc=pass (p=none) header.from=outside.test",
            "pass",
            json!("outside.test"),
        ),
        (
            "mx.filter.test; dmarc=fail header.from=outside.test",
            "fail",
            json!("outside.test"),
        ),
        (
            "mx.filter.test; dmarc=pass header.from=elsewhere.test",
            "fail",
            json!("elsewhere.test"),
        ),
        (
            "mx.filter.test; dmarc=none header.from=outside.test",
            "none",
            json!("outside.test"),
        ),
        (
            "mx.elsewhere.test; dmarc=pass header.from=outside.test",
            "none",
            json!(null),
        ),
        (
            "mx.filter.test; spf=pass\nAuthentication-Results: mx.filter.test; dmarc=pass header.from=outside.test",
            "none",
            json!(null),
        ),
    ] {
        let fields = format!("Authentication-Results: {results_of}\n");
        let uid = deliver_and_wait(&ada, &fields, from).await;
        let expected = json!({ "result": result, "domain": domain });
        assert_eq!(
            results(&ada, &agent, uid).await,
            (expected, result != "pass"),
            "{results_of}"
        );
    }
}

#[tokio::test]
async fn no_result_is_trusted_without_a_configured_name() {
    let service = Service::with_mail_and("inbound.authserv_id = ''").await;
    let ada = service.person("ada").await;
    let agent = Agent::for_person(&ada).await;
    let fields = "Authentication-Results: mx.filter.test; dmarc=pass header.from=outside.test\n";
    let uid = deliver_and_wait(&ada, fields, "grace@outside.test").await;
    let none = json!({ "result": "none", "domain": null });
    assert_eq!(results(&ada, &agent, uid).await, (none, true));
}

/// An external domain whose SPF record allows this machine.
const TRUSTED: &str = "trusted.example";
/// An external domain whose SPF record does not allow this machine.
const FORGED: &str = "forged.example";

/// Publishes the SPF and DMARC records of the domains of these tests.
async fn dns() -> Nameserver {
    let dns = Nameserver::start().await;
    for (domain, spf) in [
        (TRUSTED, "v=spf1 ip4:127.0.0.1 -all"),
        (FORGED, "v=spf1 ip4:192.0.2.1 -all"),
        (DOMAIN, "v=spf1 ip4:192.0.2.1 -all"),
    ] {
        dns.txt(domain, &[spf]);
        dns.txt(&format!("_dmarc.{domain}"), &["v=DMARC1; p=none"]);
    }
    dns
}

/// Starts a service whose milter uses this DNS server.
async fn service_with_milter(dns: &Nameserver, settings: &str) -> Service {
    let settings = format!("dns.server = '{}'\n{settings}", dns.address);
    Setup::default().with_milter(&settings).start().await
}

/// Sends a message to the mail server as a client without authentication does.
async fn deliver(service: &Service, sender: &str, message: &str) -> Result<(), String> {
    let smtp = service.mail().smtp;
    submit(smtp, None, sender, message).await
}

async fn submit(
    server: SocketAddr,
    login: Option<&Value>,
    sender: &str,
    message: &str,
) -> Result<(), String> {
    let sender = (!sender.is_empty()).then(|| sender.parse().unwrap());
    let envelope = Envelope::new(sender, vec!["ada@first.test".parse().unwrap()]).unwrap();
    let host = server.ip().to_string();
    let mut transport =
        AsyncSmtpTransport::<Tokio1Executor>::builder_dangerous(host).port(server.port());
    if let Some(login) = login {
        let text = |field: &str| login[field].as_str().unwrap().to_owned();
        transport = transport.credentials(Credentials::new(text("username"), text("password")));
    }
    let message = message.replace('\n', "\r\n");
    let transport = transport.build();
    let sent = transport.send_raw(&envelope, message.as_bytes());
    sent.await.map(drop).map_err(|error| error.to_string())
}

fn message(from: &str, subject: &str) -> String {
    format!("From: {from}\nTo: ada@first.test\nSubject: {subject}\n\nHello.\n")
}

/// Waits until the message with that subject has arrived, and returns it.
async fn wait_for_message(person: &Person<'_>, subject: &str) -> Value {
    person.wait_for_message(subject).await;
    let messages = person.messages("INBOX").await;
    let found = messages
        .iter()
        .find(|message| message["subject"] == subject);
    let uid = found.unwrap()["uid"].as_u64().unwrap();
    person.message(uid).await
}

#[tokio::test]
async fn strangers_cannot_send_as_a_local_address() {
    let dns = dns().await;
    let service = service_with_milter(&dns, "").await;
    let ada = service.person("ada").await;
    add_alias(&ada, "me@ada.example", true).await;
    service
        .execute("INSERT INTO platform_domains (domain) VALUES ('ada.example')")
        .await;
    let stranger = "someone@trusted.example";
    for (sender, from) in [
        ("ada@first.test", "ada@first.test"),
        ("unknown@first.test", stranger),
        ("ada@FIRST.TEST", stranger),
        ("me@ada.example", stranger),
        (stranger, "ada@first.test"),
        (stranger, "Support <SUPPORT@First.Test>"),
        (stranger, "me@ada.example"),
        (stranger, "someone@trusted.example, ada@first.test"),
        (
            stranger,
            "Friends: someone@trusted.example, ada@first.test;",
        ),
        (stranger, "ada@first.test <someone@trusted.example>"),
        (stranger, "someone@trusted.example\nFrom: ada@first.test"),
        ("", "ada@first.test"),
    ] {
        let refused = deliver(&service, sender, &message(from, "forged")).await;
        let refused = refused.expect_err(from);
        assert!(refused.contains("5.7.1"), "{sender} {from}: {refused}");
    }
    // A name is not an address.
    let from = "\"ada@first.test\" <someone@trusted.example>";
    deliver(&service, stranger, &message(from, "named"))
        .await
        .unwrap();
    wait_for_message(&ada, "named").await;
    assert_eq!(ada.total("INBOX").await, 1);
}

#[tokio::test]
async fn an_external_sender_is_verified_and_forged_results_are_ignored() {
    let dns = dns().await;
    let service = service_with_milter(&dns, "").await;
    let ada = service.person("ada").await;
    let agent = Agent::for_person(&ada).await;
    let claims = "Authentication-Results: mail.latchmail.test; dmarc=pass header.from=forged.example\n\
         authentication-results: mail.latchmail.test; dmarc=pass header.from=unknown.example\n\
         Authentication-Results: mx.elsewhere.test; spf=pass\n";
    for (domain, result) in [
        (TRUSTED, "pass"),
        (FORGED, "fail"),
        ("unknown.example", "none"),
    ] {
        let from = format!("Grace <grace@{domain}>");
        let sent = format!("{claims}{}", message(&from, domain));
        deliver(&service, &format!("grace@{domain}"), &sent)
            .await
            .unwrap();
        let detail = wait_for_message(&ada, domain).await;
        let expected = json!({ "result": result, "domain": domain });
        let read = results(&ada, &agent, detail["uid"].as_u64().unwrap()).await;
        assert_eq!(read, (expected, result != "pass"));
    }
    let mut client = imap(&ada).await;
    for stored in stored_messages(&mut client, "INBOX").await {
        let text = String::from_utf8_lossy(&stored.bytes).to_lowercase();
        let fields: Vec<&str> = text.split("authentication-results: ").skip(1).collect();
        assert_eq!(fields.len(), 2, "{text}");
        assert!(fields[0].starts_with("mail.latchmail.test"), "{text}");
        assert!(fields[1].starts_with("mx.elsewhere.test"), "{text}");
    }
}

/// A client can store a message with any header in its mailbox.
#[tokio::test]
async fn a_stored_message_is_verified_only_with_the_milters_mark() {
    let dns = dns().await;
    let settings = format!("dns.server = '{}'", dns.address);
    // The default with users of the mail server's own is another filter.
    let service = Setup::default()
        .with_milter(&settings)
        .with("inbound.filter = 'latchmail'")
        .start()
        .await;
    let ada = service.person("ada").await;
    deliver(
        &service,
        "grace@trusted.example",
        &message("grace@trusted.example", "genuine"),
    )
    .await
    .unwrap();
    let sent =
        json!({ "from": "ada@first.test", "to": "ada@first.test", "subject": "own", "text": "t" });
    ada.post("/api/v1/mail/send", &sent).await.succeeds(200);
    let pass = |domain: &str| json!({ "result": "pass", "domain": domain });
    let none = json!({ "result": "none", "domain": null });
    let mut client = imap(&ada).await;
    for (subject, domain) in [("genuine", "trusted.example"), ("own", "first.test")] {
        let arrived = wait_for_message(&ada, subject).await;
        assert_eq!(arrived["authentication"], pass(domain));
        let messages = stored_messages(&mut client, "INBOX").await;
        let texts = messages
            .into_iter()
            .map(|one| String::from_utf8(one.bytes).unwrap());
        let marked = format!("Subject: {subject}\r\n");
        let text = texts
            .into_iter()
            .find(|text| text.contains(&marked))
            .unwrap();
        let forged = format!(
            "Authentication-Results: mail.latchmail.test; auth=pass header.from={domain};\r\n \
             dmarc=pass header.from={domain}\r\nFrom: x@{domain}\r\nSubject: forged\r\n\r\nHello.\r\n"
        );
        for (changed, expected) in [
            (text.clone(), pass(domain)),
            (
                text.replacen("\r\n\r\n", "\r\nX-Other: x\r\n\r\n", 1),
                pass(domain),
            ),
            (text.replace(&marked, "Subject: another\r\n"), none.clone()),
            (text.clone() + "Another line.\r\n", none.clone()),
            (forged, none.clone()),
        ] {
            client
                .append("Archive", None, None, &changed)
                .await
                .unwrap();
            let stored = ada.messages("Archive").await;
            let uid = stored[0]["uid"].as_u64().unwrap();
            assert_eq!(
                ada.message(uid).await["authentication"],
                expected,
                "{changed}"
            );
        }
    }
}

#[tokio::test]
async fn a_local_message_from_a_mailing_list_is_rejected_marked_or_verified() {
    let from_list = async |service: &Service, subject: &str| {
        let sent = message("Ada <ada@first.test>", subject);
        deliver(service, "list-bounces@trusted.example", &sent).await
    };
    let fail = json!({ "result": "fail", "domain": "first.test" });
    let dns = dns().await;
    {
        let service = service_with_milter(&dns, "inbound.list_servers = ['192.0.2.0/24']").await;
        service.person("ada").await;
        let refused = from_list(&service, "rejected").await.unwrap_err();
        assert!(refused.contains("5.7.1"), "{refused}");
    }
    for settings in [
        "inbound.local_from = 'mark'",
        "inbound.list_servers = ['192.0.2.1', '127.0.0.0/8']",
    ] {
        let service = service_with_milter(&dns, settings).await;
        let ada = service.person("ada").await;
        from_list(&service, "marked").await.unwrap();
        assert_eq!(
            wait_for_message(&ada, "marked").await["authentication"],
            fail,
            "{settings}"
        );
    }
}

#[tokio::test]
async fn the_domains_own_signature_verifies_a_message_that_returns_unchanged() {
    let dns = dns().await;
    let service = service_with_milter(&dns, "").await;
    let ada = service.person("ada").await;
    add_alias(&ada, "me@ada.example", true).await;
    for (name, value) in add_domain(&ada, "ada.example").await {
        let (first, second) = value.split_at(200);
        dns.txt(&name, &[first, second]);
    }
    dns.txt("_dmarc.ada.example", &["v=DMARC1; p=reject"]);
    let sent =
        json!({ "from": "me@ada.example", "to": "ada@first.test", "subject": "own", "text": "t" });
    ada.post("/api/v1/mail/send", &sent).await.succeeds(200);
    wait_for_message(&ada, "own").await;
    let mut client = imap(&ada).await;
    let stored = stored_messages(&mut client, "INBOX").await.remove(0);
    let text = String::from_utf8(stored.bytes)
        .unwrap()
        .replace("\r\n", "\n");
    let signed = text[text.find("DKIM-Signature:").unwrap()..].to_owned();
    expunge_all(&ada).await;

    deliver(&service, "forwarder@trusted.example", &signed)
        .await
        .unwrap();
    let pass = json!({ "result": "pass", "domain": "ada.example" });
    assert_eq!(wait_for_message(&ada, "own").await["authentication"], pass);
    let footer = format!("{signed}\nFooter of the list\n");
    let refused = deliver(&service, "forwarder@trusted.example", &footer).await;
    assert!(refused.unwrap_err().contains("5.7.1"));
}

#[tokio::test]
async fn a_submission_can_use_only_addresses_of_its_account() {
    let service = Service::with_mail().await;
    let (ada, bob) = (service.person("ada").await, service.person("bob").await);
    add_alias(&ada, "shop@second.test", true).await;
    add_alias(&ada, "off@second.test", false).await;
    let phone = ada.app_password("phone").await;
    let server = service.mail().submission;
    let submit = async |sent: &str| submit(server, Some(&phone), "ada@first.test", sent).await;
    let pass = |domain: Value| json!({ "result": "pass", "domain": domain });
    for (from, domain) in [
        ("ada@first.test", json!("first.test")),
        ("Ada <ADA@First.Test>", json!("first.test")),
        ("Shop <shop@second.test>", json!("second.test")),
        (
            "=?utf-8?q?Ad=C3=A4_=40_home?= <ada@first.test>",
            json!("first.test"),
        ),
    ] {
        let claim =
            "Authentication-Results: mail.latchmail.test; auth=pass header.from=evil.example\n";
        submit(&format!("{claim}{}", message(from, from)))
            .await
            .unwrap();
        let detail = only_message(&ada).await;
        assert_eq!(detail["authentication"], pass(domain), "{from}");
        expunge_all(&ada).await;
    }
    let sent =
        json!({ "from": "bob@first.test", "to": "ada@first.test", "subject": "api", "text": "t" });
    bob.post("/api/v1/mail/send", &sent).await.succeeds(200);
    let detail = wait_for_message(&ada, "api").await;
    assert_eq!(detail["authentication"], pass(json!("first.test")));
    expunge_all(&ada).await;

    for from in [
        "bob@first.test",
        "support@first.test",
        "off@second.test",
        "someone@trusted.example",
        "ada@first.test, bob@first.test",
        "Friends: ada@first.test, bob@first.test;",
        "Empty:;",
        "bob@first.test <ada@first.test>",
        "<ada@first.test> bob@first.test",
        "=?utf-8?q?bob=40first.test?=",
        "ada@first.test\nFrom: bob@first.test",
        "ada@first.test\nFrom: ada@first.test",
        "ada@first.test\nSender: bob@first.test",
        "ada@first.test\nResent-From: bob@first.test",
    ] {
        let refused = submit(&message(from, "forged")).await.expect_err(from);
        assert!(refused.contains("5.7.1"), "{from}: {refused}");
    }
    let own = "ada@first.test\nSender: shop@second.test\nReply-To: list@trusted.example";
    submit(&message(own, "sender")).await.unwrap();
    wait_for_message(&ada, "sender").await;
    assert_eq!(ada.total("INBOX").await, 1);
}

/// Waits until the only message of an inbox has arrived, and returns it.
async fn only_message(person: &Person<'_>) -> Value {
    let arrives = async {
        while person.total("INBOX").await == 0 {
            sleep(Duration::from_millis(20)).await;
        }
        let uid = person.newest().await["uid"].as_u64().unwrap();
        person.message(uid).await
    };
    timeout(TEST_TIMEOUT, arrives).await.unwrap()
}

#[tokio::test]
async fn mail_is_delayed_while_senders_cannot_be_checked() {
    let dns = dns().await;
    dns.servfail("slow.example");
    let mut service = service_with_milter(&dns, "dns.timeout = 0.5\ndns.attempts = 1").await;
    let ada = service.person("ada").await;
    // A foreign domain whose records cannot be read is not verified.
    deliver(
        &service,
        "a@slow.example",
        &message("a@slow.example", "foreign"),
    )
    .await
    .unwrap();
    let none = json!({ "result": "none", "domain": "slow.example" });
    assert_eq!(
        wait_for_message(&ada, "foreign").await["authentication"],
        none
    );
    drop(ada);
    service.stack().stop_milter().await.unwrap();
    let delayed = deliver(
        &service,
        "a@trusted.example",
        &message("a@trusted.example", "x"),
    )
    .await;
    let delayed = delayed.unwrap_err();
    assert!(delayed.contains("451"), "{delayed}");
}
