//! Addresses outside of the service to which rules forward mail after their confirmation.

use std::time::Duration;

use latchmail_tests::{Person, Response, Service, imap, subjects, wait_until};
use serde_json::{Value, json};

use super::send::sink_messages;
use crate::accounts::sharing::rules::Grant;
use crate::accounts::sharing::shared_mailbox::SharedMailbox;

const ADDRESSES: &str = "/api/v1/mail/forward-addresses";
const RULES: &str = "/api/v1/mail/rules";
const OUTSIDE: &str = "ada@elsewhere.test";
const NOT_FOUND: &str = "Forward address not found";

async fn add(person: &Person<'_>, address: &str) -> Response {
    person.post(ADDRESSES, &json!({ "address": address })).await
}

async fn confirm(person: &Person<'_>, id: &Value, code: &str) -> Response {
    let path = format!("{ADDRESSES}/{}/confirm", id.as_str().unwrap());
    person.post(&path, &json!({ "code": code })).await
}

async fn delete(person: &Person<'_>, id: &Value) -> Response {
    let line = format!("DELETE {ADDRESSES}/{}", id.as_str().unwrap());
    person.send(&line).await
}

async fn list(person: &Person<'_>) -> Value {
    let listed = person.send(&format!("GET {ADDRESSES}")).await;
    listed.succeeds(200)["forwardAddresses"].clone()
}

async fn set_rules(person: &Person<'_>, enabled: bool) -> Response {
    let actions = json!([{ "type": "forward", "address": "Ada@Elsewhere.test" }]);
    let rule = json!({ "name": "All", "enabled": enabled, "actions": actions });
    let body = json!({ "rules": [rule] });
    person.send_json(&format!("PUT {RULES}"), &body).await
}

/// Waits for mail to the address outside, and returns the last `count` messages.
async fn mail_outside(service: &Service, count: usize) -> Vec<String> {
    let mut found = Vec::new();
    wait_until("mail arrives outside", async || {
        let to = format!("X-Rcpt-Args: <{OUTSIDE}>");
        found = sink_messages(service);
        found.retain(|mail| mail.contains(&to));
        found.len() >= count
    })
    .await;
    found
}

/// Returns the code in a message.
fn code(mail: &str) -> &str {
    let line = mail.lines().find_map(|line| line.strip_prefix("    "));
    line.unwrap_or_else(|| panic!("no code: {mail}")).trim()
}

async fn deliver(person: &Person<'_>, subject: &str) {
    let to = &person.address;
    let message =
        format!("From: Grace <grace@outside.test>\nTo: {to}\nSubject: {subject}\n\nThe text.\n");
    person.service.deliver(to, &message).await;
    person.wait_for_message(subject).await;
}

#[tokio::test]
async fn rules_forward_to_a_confirmed_address_until_it_is_deleted() {
    let service = Service::with_mail().await;
    let ada = service.person("ada").await;
    let refused = "Mail can only be forwarded to an address of this service or to a confirmed \
        address, and Ada@Elsewhere.test is neither";
    set_rules(&ada, true).await.fails(400, refused);

    // The code arrives outside, and nowhere in the account.
    let added = add(&ada, "Ada@Elsewhere.test").await.succeeds(201);
    assert_eq!(
        (&added["address"], &added["status"]),
        (&json!(OUTSIDE), &json!("pending"))
    );
    assert_eq!(list(&ada).await, json!([added]));
    let mail = &mail_outside(&service, 1).await[0];
    for field in [
        "X-Mail-Args: <ada@first.test>",
        "From: <ada@first.test>",
        "Reply-To: <noreply@first.test>",
        "Auto-Submitted: auto-generated",
    ] {
        assert!(mail.contains(field), "{field}: {mail}");
    }
    let mut client = imap(&ada).await;
    assert!(subjects(&mut client, "Sent").await.is_empty());
    let outbox = ada.send("GET /api/v1/mail/outbox").await.succeeds(200);
    assert_eq!(outbox, json!({ "entries": [] }));

    let (id, code) = (&added["id"], code(mail));
    confirm(&ada, id, "wrong")
        .await
        .fails(400, "The code is wrong");
    set_rules(&ada, true).await.fails(400, refused);
    let bob = service.person("bob").await;
    confirm(&bob, id, code).await.fails(404, NOT_FOUND);
    let confirmed = confirm(&ada, id, code).await.succeeds(200);
    assert_eq!(
        (&confirmed["status"], &confirmed["expiresAt"]),
        (&json!("confirmed"), &json!(null))
    );
    confirm(&ada, id, code).await.succeeds(200);
    let again = add(&ada, OUTSIDE).await;
    again.fails(409, "The forward address is already confirmed");
    // The confirmation is valid for this account only.
    set_rules(&bob, true).await.fails(400, refused);

    set_rules(&ada, true).await.succeeds(200);
    deliver(&ada, "forwarded").await;
    let forwarded = mail_outside(&service, 2).await;
    let forwarded = forwarded
        .iter()
        .find(|mail| mail.contains("Subject: forwarded"));
    assert!(forwarded.unwrap().contains("X-Mail-Args: <ada@first.test>"));

    // A deletion disables the rule, and a disabled rule can keep the address.
    delete(&bob, id).await.fails(404, NOT_FOUND);
    delete(&ada, id).await.succeeds(200);
    assert_eq!(list(&ada).await, json!([]));
    let rules = ada.send(&format!("GET {RULES}")).await.succeeds(200);
    assert_eq!(
        (&rules["rules"][0]["enabled"], &rules["active"]),
        (&json!(false), &json!(true))
    );
    deliver(&ada, "not forwarded").await;
    confirm(&ada, id, code).await.fails(404, NOT_FOUND);
    set_rules(&ada, true).await.fails(400, refused);
    set_rules(&ada, false).await.succeeds(200);
    let sent = sink_messages(&service);
    assert!(
        !sent
            .iter()
            .any(|mail| mail.contains("Subject: not forwarded"))
    );
}

#[tokio::test]
async fn requests_expire_are_limited_and_need_the_session_of_the_owner() {
    let service = Service::with_mail().await;
    let shared = SharedMailbox::new(&service).await;
    let (ada, bob) = (&shared.ada, &shared.bob);
    add(ada, "no address")
        .await
        .fails(400, "address must be a mail address");
    let added = add(ada, OUTSIDE).await.succeeds(201);
    let first = mail_outside(&service, 1).await.remove(0);

    // Only the last code for an address is valid.
    let second = add(ada, OUTSIDE).await.succeeds(201);
    mail_outside(&service, 2).await;
    confirm(ada, &added["id"], code(&first))
        .await
        .fails(404, NOT_FOUND);
    confirm(ada, &second["id"], code(&first))
        .await
        .fails(400, "The code is wrong");
    assert_eq!(list(ada).await, json!([second]));

    // Tokens can only read the list. Members cannot use it.
    let scopes = ["mail:read", "mail:write", "mail:send"];
    let token = ada.token(&scopes).await;
    let token = token["token"].as_str().unwrap();
    let listed = service
        .with_bearer(&format!("GET {ADDRESSES}"), token)
        .await;
    listed.succeeds(200);
    let request = service.request(&format!("POST {ADDRESSES}"));
    let request = request.bearer_auth(token);
    let refused = Response::of_json(request, &json!({ "address": "b@elsewhere.test" })).await;
    assert_eq!(refused.status, 403, "{}", refused.json);
    let grant = Grant::on("mailbox", "", &scopes);
    shared.invite("bob", &grant).await.succeeds(201);
    let line = format!("GET {ADDRESSES}");
    let text = "Only the owner of a mailbox can use its forward addresses";
    shared.send(bob, &line).await.fails(403, text);
    assert_eq!(list(bob).await, json!([]));
    // A member's change never affects the shared mailbox: the route ignores `mailbox`.
    let line = format!("POST {ADDRESSES}");
    let body = json!({ "address": "b@elsewhere.test" });
    let own = shared.send_json(bob, &line, &body).await.succeeds(201);
    assert_eq!(list(bob).await, json!([own]));
    assert_eq!(list(ada).await, json!([second]));

    // Ten requests within a day, also if addresses are deleted.
    for number in 3..=10 {
        let address = format!("{number}@elsewhere.test");
        let added = add(ada, &address).await.succeeds(201);
        delete(ada, &added["id"]).await.succeeds(200);
    }
    let text = "The account has requested 10 forward addresses within 24 hours";
    add(ada, "11@elsewhere.test").await.fails(409, text);

    service.clock.advance(Duration::from_hours(24));
    let session = ada.sign_in_again().await;
    assert_eq!(list(&session).await, json!([]));
    confirm(&session, &second["id"], "code")
        .await
        .fails(404, NOT_FOUND);
    add(&session, OUTSIDE).await.succeeds(201);
}
