//! Held messages: what the page shows, and the decisions.

use latchmail_tests::administrator::{FormBrowser, PageForm, text};
use latchmail_tests::{Person, Response, Service};
use serde_json::{Value, json};

use super::{assert_done, service, string, use_preset};

/// A link, a remote image and a claim to be from the service.
const HTML: &str = "<p>Latchmail: confirm <a href='https://evil.test/confirm'>here</a></p>\
    <img src='https://tracker.test/pixel.gif'>";

/// Sends a message with a token. The policy of the token must hold it. Returns the hold's id.
async fn held(service: &Service, secret: &str, subject: &str) -> String {
    let mail = json!({
        "from": "ada@first.test", "to": "bob@first.test", "bcc": "grace@first.test",
        "subject": subject, "html": HTML, "text": "Latchmail: confirm \u{202e}now",
        "attachments": [{ "filename": "plan.txt", "content": "cGxhbg==" }],
    });
    let request = service
        .request("POST /api/v1/mail/send")
        .bearer_auth(secret);
    let response = Response::of_json(request, &mail).await.succeeds(202);
    assert_eq!(response["status"], "pending");
    string(&response, "holdId").to_owned()
}

async fn status(person: &Person<'_>, id: &str) -> Value {
    let listed = person.send("GET /api/v1/profile/holds").await.succeeds(200);
    let holds = listed["holds"].as_array().unwrap();
    let hold = holds.iter().find(|hold| hold["id"] == id);
    hold.unwrap()["status"].clone()
}

#[tokio::test]
async fn a_held_message_is_shown_exactly_and_decided_with_a_form() {
    let service = service().await;
    let (ada, bob) = (service.person("ada").await, service.person("bob").await);
    service.create_account("grace@first.test").await;
    let token = ada.token(&["mail:read", "mail:send"]).await;
    let browser = FormBrowser::of_owner(&service, &ada.address).await;
    use_preset(&browser, string(&token, "id"), "assistant").await;
    let secret = string(&token, "token");
    let approved = held(&service, secret, "Plan A").await;
    let rejected = held(&service, secret, "Other plan").await;
    let overview = browser.page("/account").await;
    assert!(overview.contains("2 messages wait"), "{overview}");

    let path = format!("/account/holds/{approved}");
    let page = browser.page(&path).await;
    for shown in [
        "bob@first.test",
        "grace@first.test",
        "confirm \u{fffd}now",
        "plan.txt",
        "https://evil.test/confirm",
        "This message names Latchmail. It is not from Latchmail.",
        "Latchmail did not write what follows",
    ] {
        assert!(page.contains(shown), "{shown}: {page}");
    }
    for absent in ["<img", "<script", "href=\"https://evil", "src="] {
        assert!(!page.contains(absent), "{absent}: {page}");
    }
    // Requests that change nothing: GET, also of the paths of the forms, and another hash.
    for line in [&path, &format!("{path}/approve"), &format!("{path}/reject")] {
        browser.get(line).await;
    }
    let mut form = PageForm::of_action(&page, "Send the message", &approved);
    let hash = form.fields.insert("hash".into(), "0".repeat(64)).unwrap();
    let changed = browser.submit(&form).await;
    assert_eq!(changed.status, 409, "{}", text(&changed));
    assert_eq!(status(&ada, &approved).await, "pending");

    form.fields.insert("hash".into(), hash);
    let done = browser.submit(&form).await;
    assert_done(&browser, &done, "The message is approved").await;
    bob.wait_for_message("Plan A").await;
    // A second decision has no effect.
    assert_eq!(browser.submit(&form).await.status, 404);
    let other = format!("/account/holds/{rejected}");
    let done = browser
        .press(&other, ("Reject", rejected.as_str()), &[])
        .await;
    assert_done(&browser, &done, "The message is rejected").await;
    assert_eq!(status(&ada, &rejected).await, "rejected");
    let list = browser.page("/account/holds").await;
    assert!(
        list.contains("No message waits") && list.contains("Approved"),
        "{list}"
    );
    assert_eq!(bob.total("INBOX").await, 1);
}

#[tokio::test]
async fn another_account_neither_sees_nor_decides_a_hold() {
    let service = service().await;
    let ada = service.person("ada").await;
    service.create_account("bob@first.test").await;
    let token = ada.token(&["mail:send"]).await;
    let browser = FormBrowser::of_owner(&service, &ada.address).await;
    use_preset(&browser, string(&token, "id"), "assistant").await;
    let id = held(&service, string(&token, "token"), "Plan").await;
    let path = format!("/account/holds/{id}");
    let page = browser.page(&path).await;
    let bob = FormBrowser::of_owner(&service, "bob@first.test").await;
    assert_eq!(bob.get(&path).await.status, 404);
    assert!(!bob.page("/account/holds").await.contains("Plan"));
    let own = PageForm::named(&bob.page("/account").await, "Sign out");
    for button in ["Send the message", "Reject"] {
        let mut form = PageForm::named(&page, button);
        let csrf = own.fields["csrf"].clone();
        form.fields.insert("csrf".into(), csrf);
        assert_eq!(bob.submit(&form).await.status, 404, "{button}");
    }
    assert_eq!(status(&ada, &id).await, "pending");
}
