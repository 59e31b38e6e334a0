//! The states of deliveries, with the real Postfix.

use latchmail_tests::{Person, Service, add_alias, wait_until};
use serde_json::{Value, json};

use super::{SEND, mail, send_mail, with};
use crate::accounts::sharing::rules::Grant;
use crate::accounts::sharing::shared_mailbox::{SharedMailbox, from};

/// Also with users of the mail server, where the default is not to request reports.
const REPORTS: &str = "inbound.delivery_reports = true";

const NOT_FOUND: &str = "Message not found";

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
