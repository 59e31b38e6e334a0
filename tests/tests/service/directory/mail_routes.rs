//! Where mail goes, as Postfix and Dovecot deliver it: catch-alls, addresses with extensions,
//! forwarding, and the previous address of a renamed account.

use latchmail_tests::{PASSWORD, Person, Service, add_alias, message_with_subject, wait_until};
use serde_json::{Value, json};

use super::operator_accounts::{delivery, run_command, sign_in};
use crate::mail::quota::rcpt;

/// Returns the subjects in the inbox of a person, sorted.
async fn inbox(person: &Person<'_>) -> Vec<String> {
    let messages = person.messages("INBOX").await;
    let subjects = messages.iter().map(|one| one["subject"].as_str().unwrap());
    let mut subjects: Vec<String> = subjects.map(ToOwned::to_owned).collect();
    subjects.sort();
    subjects
}

/// Delivers a message, and waits until the inboxes have exactly these messages in total.
async fn deliver(service: &Service, to: &str, subject: &str, expected: &[(&Person<'_>, &[&str])]) {
    service.deliver(to, &message_with_subject(subject)).await;
    for (person, subjects) in expected {
        let what = format!("{} has {subjects:?} after mail to {to}", person.address);
        wait_until(&what, async || inbox(person).await == *subjects).await;
    }
}

async fn fails(service: &Service, verb: &str, mention: &str) {
    service.operator(verb, "").await.fails_mentioning(mention);
}

#[tokio::test]
async fn mail_for_unknown_and_extended_addresses_is_delivered() {
    let service = Service::with_mail().await;
    let (ada, bob) = (service.person("ada").await, service.person("bob").await);
    add_alias(&bob, "shop@first.test", true).await;
    assert_eq!(delivery(&service, "any@first.test").await, 550);
    assert_eq!(delivery(&service, "ada+x@first.test").await, 550);

    let routes = "domain routes first.test --catch-all bob@first.test --separator +";
    run_command(&service, routes).await;
    deliver(&service, "ada+news@first.test", "1", &[(&ada, &["1"])]).await;
    deliver(&service, "shop+x+y@first.test", "2", &[(&bob, &["2"])]).await;
    deliver(&service, "any@first.test", "3", &[(&bob, &["2", "3"])]).await;
    assert_eq!(delivery(&service, "any@second.test").await, 550);

    // No catch-all receives mail that was meant for a former or a disabled account.
    run_command(&service, "account disable ada@first.test").await;
    service.create_account("eve@first.test").await;
    run_command(&service, "account delete eve@first.test --yes").await;
    run_command(&service, "domain hold list@first.test").await;
    for address in [
        "ada@first.test",
        "ada+x@first.test",
        "eve@first.test",
        "list@first.test",
    ] {
        assert_eq!(delivery(&service, address).await, 550, "{address}");
    }
    run_command(&service, "account disable bob@first.test").await;
    assert_eq!(delivery(&service, "any@first.test").await, 550);
    let disabled = "domain routes first.test --catch-all ada@first.test";
    fails(&service, disabled, "an active account").await;
}

#[tokio::test]
async fn a_full_mailbox_refuses_mail_for_extended_and_unknown_addresses() {
    let settings = format!("[plans.default]\nstorage = {}\n", 20 * 1024);
    let service = Service::with_mail_and(&settings).await;
    service.create_account("ada@first.test").await;
    let routes = "domain routes first.test --catch-all ada@first.test --separator +";
    run_command(&service, routes).await;
    for to in ["ada+x@first.test", "any@first.test"] {
        let refused = rcpt(&service, to, 60 * 1024).await;
        assert!(refused.starts_with("552 5.2.2"), "{to}: {refused}");
        let accepted = rcpt(&service, to, 1024).await;
        assert!(accepted.starts_with("250"), "{to}: {accepted}");
    }
}

#[tokio::test]
async fn forwarded_mail_also_stays_and_never_returns() {
    let service = Service::with_mail().await;
    let (ada, bob) = (service.person("ada").await, service.person("bob").await);
    add_alias(&bob, "shop@first.test", true).await;
    run_command(&service, "account forward ada@first.test shop@first.test").await;
    let both: [(&Person<'_>, &[&str]); 2] = [(&ada, &["1"]), (&bob, &["1"])];
    deliver(&service, "ada@first.test", "1", &both).await;
    for (to, mention) in [
        ("bob@first.test", "forwarded back"),
        ("ada@first.test", "forwarded back"),
        ("nobody@first.test", "receives mail"),
    ] {
        let verb = format!("account forward bob@first.test {to}");
        fails(&service, &verb, mention).await;
    }
    run_command(
        &service,
        "account forward bob@first.test grace@outside.test",
    )
    .await;
    let both: [(&Person<'_>, &[&str]); 2] = [(&ada, &["1", "2"]), (&bob, &["1", "2"])];
    deliver(&service, "ada@first.test", "2", &both).await;
    let sink = service.mail().sink.clone();
    wait_until("the mail leaves for the other server", async || {
        std::fs::read_dir(&sink).unwrap().any(|file| {
            let text = std::fs::read_to_string(file.unwrap().path()).unwrap_or_default();
            text.contains("grace@outside.test") && text.contains("Subject: 2")
        })
    })
    .await;
    let events = bob.send("GET /api/v1/profile/events?limit=1").await;
    let event = events.succeeds(200)["events"][0].clone();
    assert_eq!(
        (&event["type"], &event["actor"]),
        (&json!("account_changed"), &json!("operator"))
    );
    run_command(&service, "account forward ada@first.test off").await;
    deliver(&service, "ada@first.test", "3", &[(&ada, &["1", "2", "3"])]).await;
    assert_eq!(inbox(&bob).await, ["1", "2"]);
}

#[tokio::test]
async fn a_renamed_account_receives_mail_for_both_addresses() {
    let service = Service::with_mail().await;
    let (ada, bob) = (service.person("ada").await, service.person("bob").await);
    deliver(&service, "ada@first.test", "before", &[(&ada, &["before"])]).await;
    for (new, mention) in [
        ("bob@first.test", "already taken"),
        ("ada@outside.test", "not a platform domain"),
    ] {
        let verb = format!("account rename ada@first.test {new}");
        fails(&service, &verb, mention).await;
    }
    run_command(&service, "account rename ada@first.test augusta@first.test").await;
    let profile = ada.send("GET /api/v1/profile").await.succeeds(200);
    assert_eq!(profile["email"], "augusta@first.test");
    assert_eq!(ada.total("INBOX").await, 1, "the mailbox is the same");
    for (address, count) in [("ada@first.test", 2), ("augusta@first.test", 3)] {
        assert_eq!(delivery(&service, address).await, 250);
        wait_until("the mail arrives", async || {
            ada.total("INBOX").await == count
        })
        .await;
    }
    sign_in(&service, "ada@first.test", PASSWORD)
        .await
        .fails(401, "Invalid credentials");
    sign_in(&service, "augusta@first.test", PASSWORD)
        .await
        .succeeds(200);
    let aliases = ada.send("GET /api/v1/aliases").await.succeeds(200);
    assert_eq!(aliases["aliases"][0]["address"], "ada@first.test");
    let mail = json!({
        "from": "ada@first.test", "to": "bob@first.test", "subject": "from both", "text": "x",
    });
    ada.post("/api/v1/mail/send", &mail).await.succeeds(200);
    bob.wait_for_message("from both").await;
    let taken: Value = json!({
        "local_part": "ada", "domain": "first.test", "password": PASSWORD,
        "first_name": "Eve", "last_name": "Moore", "dob": "1980-01-01",
    });
    let response = service.post("/api/v1/auth/register", &taken).await;
    response.fails(409, "This email address is already taken");
}
