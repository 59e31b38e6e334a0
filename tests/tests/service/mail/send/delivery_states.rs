//! The states of deliveries, with the real Postfix and a next mail server with chosen replies.

use latchmail_tests::{NextServer, Person, Service, Setup, add_alias, wait_until};
use serde_json::{Value, json};

use super::{SEND, mail, send_mail, with};
use crate::accounts::sharing::rules::Grant;
use crate::accounts::sharing::shared_mailbox::{SharedMailbox, from};

/// Also with users of the mail server, where the default is not to request reports.
const REPORTS: &str = "inbound.delivery_reports = true";

const NOT_FOUND: &str = "Message not found";

/// Postfix settings with short times.
const QUICK: [&str; 4] = [
    "queue_run_delay = 1s",
    "minimal_backoff_time = 1s",
    "maximal_backoff_time = 1s",
    "delay_warning_time = 1s",
];

fn line(id: &str) -> String {
    let id = id
        .replace('<', "%3C")
        .replace('>', "%3E")
        .replace('@', "%40");
    format!("GET /api/v1/mail/sent/{id}")
}

/// Sends a mail of Ada and returns its Message-ID.
async fn send(ada: &Person<'_>, to: &[&str]) -> String {
    let sent = send_mail(ada, &with(mail(&to.join(" ")), "to", to.to_vec())).await;
    sent["messageId"].as_str().unwrap().to_owned()
}

/// Returns the recipients of a sent mail.
async fn recipients(person: &Person<'_>, id: &str) -> Vec<Value> {
    let delivery = person.send(&line(id)).await.succeeds(200);
    assert_eq!(delivery["messageId"], id);
    delivery["recipients"].as_array().unwrap().clone()
}

/// Waits until the recipients have these states. Returns the recipients.
async fn wait_for(person: &Person<'_>, id: &str, states: &[&str]) -> Vec<Value> {
    wait_until(&format!("the states are {states:?}"), async || {
        let all = recipients(person, id).await;
        all.iter().map(|one| &one["status"]).eq(states)
    })
    .await;
    recipients(person, id).await
}

/// Delivers a message to Ada from another server.
async fn deliver(service: &Service, sender: Option<&str>, message: &str) {
    let message = message.replace('\n', "\r\n");
    let to = "ada@first.test";
    service.deliver_from(sender, to, message.as_bytes()).await;
}

/// Returns a report as another server writes it.
fn report(subject: &str, envelope_id: &str, recipient: &str, action: &str) -> String {
    let id = match envelope_id {
        "" => String::new(),
        id => format!("Original-Envelope-Id: {id}\n"),
    };
    format!(
        "From: Mail Delivery System <MAILER-DAEMON@next.test>\nTo: ada@first.test\n\
         Subject: {subject}\nMIME-Version: 1.0\n\
         Content-Type: multipart/report; report-type=delivery-status; boundary=b\n\n\
         --b\nContent-Type: text/plain\n\nA report.\n\n\
         --b\nContent-Type: message/delivery-status\n\nReporting-MTA: dns; next.test\n{id}\n\
         Final-Recipient: rfc822; {recipient}\nAction: {action}\nStatus: 5.2.2\n\
         Diagnostic-Code: smtp; 552 5.2.2 The mailbox is full\n\n--b--\n"
    )
}

/// Returns the envelope id that the next server received last.
fn envelope_id(next: &NextServer) -> String {
    let commands = next.commands();
    let id = commands
        .iter()
        .rev()
        .find_map(|command| command.split_once("ENVID="));
    let id = id.unwrap().1.split(' ').next().unwrap();
    id.to_owned()
}

#[tokio::test]
#[expect(clippy::too_many_lines, reason = "one service and many steps")]
async fn each_recipient_has_the_state_that_mail_servers_report() {
    let setup = Setup::default().with_own_mail().with(REPORTS);
    let mut service = setup.start().await;
    let next = NextServer::start().await;
    let transport = format!("smtp:[127.0.0.1]:{}", next.address.port());
    let transports =
        ["default_transport", "relay_transport"].map(|name| format!("{name} = {transport}"));
    let settings: Vec<&str> = QUICK
        .into_iter()
        .chain(transports.iter().map(String::as_str))
        .collect();
    service.stack().configure_postfix(&settings).await.unwrap();
    let (ada, bob) = (service.person("ada").await, service.person("bob").await);
    let outside = "eve@outside.test";

    // Accepted. A local mailbox has the message, and another server has no reports.
    let id = send(&ada, &["bob@first.test", outside]).await;
    let found = wait_for(&ada, &id, &["delivered", "sent"]).await;
    assert_eq!(found[0]["address"], "bob@first.test");
    assert_eq!(found[1]["address"], outside);
    assert!(found.iter().all(|one| one["detail"].is_null()));
    let mut fields: Vec<_> = found[0].as_object().unwrap().keys().collect();
    fields.sort();
    assert_eq!(fields, ["address", "at", "detail", "status"]);
    assert!(chrono::DateTime::parse_from_rfc3339(found[0]["at"].as_str().unwrap()).is_ok());

    // Refused at RCPT by the next server.
    next.reply("bad", "550 5.1.1 no such user");
    let id = send(&ada, &[outside, "bad@outside.test"]).await;
    let found = wait_for(&ada, &id, &["sent", "bounced"]).await;
    let detail = found[1]["detail"].as_str().unwrap();
    assert!(detail.contains("550 5.1.1 no such user"), "{detail}");

    // Deferred, then accepted.
    next.reply("late", "450 4.2.0 come later");
    let id = send(&ada, &["late@outside.test"]).await;
    let found = wait_for(&ada, &id, &["delayed"]).await;
    let detail = found[0]["detail"].as_str().unwrap();
    assert!(detail.contains("450 4.2.0 come later"), "{detail}");
    next.reply("late", "250 2.1.5 accepted");
    wait_for(&ada, &id, &["sent"]).await;

    // Bounced by the next server, which offers reports. Forged reports change nothing.
    next.offer_reports(true);
    let id = send(&ada, &[outside, "full@outside.test"]).await;
    wait_until("the next server has the message", async || {
        let commands = next.commands();
        commands
            .iter()
            .any(|command| command.contains("RCPT TO:<full@"))
    })
    .await;
    let secret = envelope_id(&next);
    let wrong = "0".repeat(64);
    let full = "full@outside.test";
    deliver(&service, None, &report("no id", "", full, "failed")).await;
    deliver(&service, None, &report("wrong id", &wrong, full, "failed")).await;
    let swapped: String = secret.chars().rev().collect();
    deliver(
        &service,
        None,
        &report("swapped id", &swapped, full, "failed"),
    )
    .await;
    let sender = Some("eve@outside.test");
    deliver(
        &service,
        sender,
        &report("a sender", &secret, full, "failed"),
    )
    .await;
    ada.wait_for_message("a sender").await;
    ada.wait_for_message("swapped id").await;
    wait_for(&ada, &id, &["queued", "queued"]).await;
    deliver(&service, None, &report("real", &secret, full, "failed")).await;
    deliver(
        &service,
        None,
        &report("success", &secret, outside, "delivered"),
    )
    .await;
    let found = wait_for(&ada, &id, &["delivered", "bounced"]).await;
    assert_eq!(found[1]["detail"], "552 5.2.2 The mailbox is full");
    // A report of success after a failure changes nothing.
    deliver(
        &service,
        None,
        &report("late success", &secret, full, "relayed"),
    )
    .await;
    wait_for(&ada, &id, &["delivered", "bounced"]).await;
    ada.wait_for_message("real").await;
    next.offer_reports(false);

    // Deferred, then bounced.
    next.reply("never", "450 4.2.0 come later");
    let id = send(&ada, &["never@outside.test"]).await;
    wait_for(&ada, &id, &["delayed"]).await;
    let sessions = [ada, bob].map(|one| (one.address, one.access, one.refresh));
    let settings = ["maximal_queue_lifetime = 1s", "bounce_queue_lifetime = 1s"];
    service.stack().configure_postfix(&settings).await.unwrap();
    let [ada, bob] = sessions.map(|(address, access, refresh)| Person {
        service: &service,
        address,
        access,
        refresh,
    });
    wait_for(&ada, &id, &["bounced"]).await;

    // Reports of failures and delays arrive, reports of success do not.
    wait_until("all reports have arrived", async || {
        ada.messages("INBOX").await.len() >= 9
    })
    .await;
    let messages = ada.messages("INBOX").await;
    let mut subjects: Vec<_> = messages
        .iter()
        .map(|message| message["subject"].as_str().unwrap())
        .collect();
    subjects.sort_unstable();
    assert_eq!(
        subjects,
        [
            "Delayed Mail (still being retried)",
            "Delayed Mail (still being retried)",
            "Undelivered Mail Returned to Sender",
            "Undelivered Mail Returned to Sender",
            "a sender",
            "no id",
            "real",
            "swapped id",
            "wrong id",
        ]
    );
    // The secret is not in the log.
    let log = std::fs::read_to_string(service.mail().log.join("postfix.log")).unwrap();
    assert!(!log.contains(&secret));

    // Other accounts, unknown messages and other credentials.
    bob.send(&line(&id)).await.fails(404, NOT_FOUND);
    for unknown in ["<none@first.test>", "x", &"y".repeat(2000)] {
        ada.send(&line(unknown)).await.fails(404, NOT_FOUND);
    }
    for invalid in ["%00", "%ff%fe"] {
        let response = ada.send(&line(invalid)).await;
        response.fails(400, "The path is not valid percent-encoded UTF-8");
    }
    let bare = id.trim_matches(['<', '>']);
    let found = ada.send(&line(bare)).await.succeeds(200);
    assert_eq!(found["messageId"], id);
    for (scope, status) in [("mail:read", 200), ("mail:send", 403)] {
        let token = ada.token(&[scope]).await;
        let token = token["token"].as_str().unwrap();
        let request = service.request(&line(&id)).bearer_auth(token);
        assert_eq!(request.send().await.unwrap().status(), status, "{scope}");
    }
}

#[tokio::test]
async fn a_message_belongs_to_its_mailbox_and_a_member_sees_its_own_messages() {
    let service = Service::with_mail_and(REPORTS).await;
    let shared = SharedMailbox::new(&service).await;
    let grant = Grant::on("mailbox", "", &["mail:send"]);
    shared.invite("bob", &grant).await.succeeds(201);
    let (ada, bob) = (&shared.ada, &shared.bob);
    let sending = async |person: &Person<'_>, body: &Value| {
        let request = service.request(&shared.within(&format!("POST {SEND}")));
        let request = request
            .bearer_auth(&person.access)
            .header("idempotency-key", "one")
            .json(body);
        let sent: Value = request.send().await.unwrap().json().await.unwrap();
        sent["messageId"].as_str().unwrap().to_owned()
    };
    let by_bob = sending(bob, &from(&ada.address)).await;
    assert_eq!(sending(bob, &from(&ada.address)).await, by_bob);
    wait_for(ada, &by_bob, &["delivered"]).await;
    shared.send(bob, &line(&by_bob)).await.succeeds(200);
    bob.send(&line(&by_bob)).await.fails(404, NOT_FOUND);
    let by_ada = send(ada, &["bob@first.test"]).await;
    shared.send(bob, &line(&by_ada)).await.fails(404, NOT_FOUND);
    shared
        .grant(&Grant::on("mailbox", "", &["mail:read"]))
        .await;
    shared.send(bob, &line(&by_ada)).await.succeeds(200);

    // A message of an alias, to an alias.
    add_alias(ada, "shop@second.test", true).await;
    add_alias(bob, "desk@second.test", true).await;
    let mail = json!({
        "from": "shop@second.test", "to": "bob@first.test", "bcc": "desk@second.test",
        "subject": "Alias", "text": "Hello.",
    });
    let sent = send_mail(ada, &mail).await;
    let id = sent["messageId"].as_str().unwrap();
    wait_for(ada, id, &["delivered", "sent"]).await;
}

#[tokio::test]
async fn without_the_milter_the_state_is_unknown() {
    let service = Service::with_mail_and("inbound.delivery_reports = false").await;
    let ada = service.person("ada").await;
    service.person("bob").await;
    let id = send(&ada, &["bob@first.test"]).await;
    let found = recipients(&ada, &id).await;
    assert_eq!(found[0]["status"], "unknown");
    assert_eq!(
        found[0]["detail"],
        "The mail server does not report deliveries"
    );
    // A message that the mail server refuses was not sent.
    let refused = with(mail("refused"), "to", "nobody@first.test");
    let response = ada.post(SEND, &refused).await;
    assert_ne!(response.status, 200);
}
