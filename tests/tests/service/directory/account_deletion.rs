//! Accounts that their owners delete: the grace period, and the deletion of the mailbox.

use std::path::Path;

use latchmail_tests::{
    DOMAIN, PASSWORD, Person, Response, Service, add_alias, append_message, imap,
    message_with_subject, wait_until,
};
use serde_json::{Value, json};

use super::operator_accounts::{delivery, run_command, sign_in};

const PROFILE: &str = "DELETE /api/v1/profile";

async fn delete(person: &Person<'_>, password: &str) -> Response {
    person
        .send_json(PROFILE, &json!({ "password": password }))
        .await
}

async fn register(service: &Service, name: &str) -> Response {
    let body = json!({
        "local_part": name, "domain": DOMAIN, "password": PASSWORD,
        "first_name": "Eve", "last_name": "Moore", "dob": "1980-01-01",
    });
    service.post("/api/v1/auth/register", &body).await
}

/// Returns the types of the security events of a person.
async fn kinds(person: &Person<'_>) -> Vec<String> {
    let events = person.send("GET /api/v1/profile/events").await;
    let events = events.succeeds(200);
    let events = events["events"].as_array().unwrap().iter();
    let kinds = events.map(|event| event["type"].as_str().unwrap().to_owned());
    kinds.collect()
}

/// Waits until the account is deleted.
async fn wait_until_deleted(service: &Service, address: &str) {
    let verb = format!("account show {address}");
    wait_until("the account is deleted", async || {
        // The deletion waits for the last export, and then asks again after a second.
        service.clock.advance(std::time::Duration::from_secs(1));
        service.operator(&verb, "").await.status != 0
    })
    .await;
}

/// Returns whether a file below a folder contains the text. Ignores files that cannot be read.
fn has_text(folder: &Path, text: &[u8]) -> bool {
    let Ok(files) = std::fs::read_dir(folder) else {
        return false;
    };
    files.flatten().any(|file| {
        let path = file.path();
        if path.is_dir() {
            return has_text(&path, text);
        }
        let bytes = std::fs::read(path).unwrap_or_default();
        bytes.windows(text.len()).any(|window| window == text)
    })
}

#[tokio::test]
async fn an_account_is_disabled_during_the_grace_period_and_can_come_back() {
    let service = Service::with_mail_and("accounts.grace = 3600").await;
    let ada = service.person("ada").await;
    ada.receive_raw(b"Subject: kept\r\n\r\nx\r\n").await;
    delete(&ada, "Wrong-Horse-7")
        .await
        .fails(401, "Current password is incorrect");
    ada.send(PROFILE).await.fails(400, "Invalid JSON body");
    let token = ada.token(&["profile:read"]).await;
    let token = token["token"].as_str().unwrap();
    let response = service.with_bearer(PROFILE, token).await;
    assert_eq!(response.status, 403);
    wait_until("the use of the token is recorded", async || {
        kinds(&ada)
            .await
            .iter()
            .any(|kind| kind == "used_from_new_network")
    })
    .await;

    let closed = delete(&ada, PASSWORD).await.succeeds(200);
    assert_eq!(closed["success"], true);
    let grace = service.clock.now().plus(std::time::Duration::from_hours(1));
    assert!(closed["deletesAt"].as_str().unwrap() <= grace.to_string().as_str());
    ada.send("GET /api/v1/profile")
        .await
        .fails(401, "Mail session expired, please log in again");
    sign_in(&service, &ada.address, PASSWORD)
        .await
        .fails(401, "Invalid credentials");
    register(&service, "ada")
        .await
        .fails(409, "This email address is already taken");
    assert_eq!(delivery(&service, &ada.address).await, 550);

    run_command(&service, "account enable ada@first.test").await;
    let ada = ada.sign_in_again().await;
    assert_eq!(ada.total("INBOX").await, 1);
    let kinds = kinds(&ada).await;
    for kind in [
        "account_deletion_failed",
        "account_deletion_planned",
        "account_enabled",
        "sign_in_failed",
        "token_created",
        "used_from_new_network",
    ] {
        assert!(kinds.iter().any(|one| one == kind), "{kind}: {kinds:?}");
    }
}

#[tokio::test]
async fn after_the_grace_period_nothing_of_the_account_is_left_but_its_addresses() {
    let service = Service::with_mail_and("accounts.grace = 0").await;
    let (ada, bob) = (service.person("ada").await, service.person("bob").await);
    add_alias(&ada, "shop@first.test", true).await;
    let mut client = imap(&ada).await;
    for folder in ["Projects", "Projects/2026"] {
        client.create(folder).await.unwrap();
        append_message(&mut client, folder, "a-secret-subject").await;
    }
    service
        .deliver(&ada.address, &message_with_subject("a-secret-subject"))
        .await;
    ada.wait_for_message("a-secret-subject").await;
    bob.receive_raw(b"Subject: mine\r\n\r\nx\r\n").await;
    let show = service
        .operator("account show ada@first.test --json", "")
        .await;
    let account: Value = serde_json::from_str(&show.succeeds()).unwrap();
    let id = account["id"].as_str().unwrap();

    delete(&ada, PASSWORD).await.succeeds(200);
    wait_until_deleted(&service, &ada.address).await;
    for address in ["ada@first.test", "shop@first.test"] {
        assert_eq!(delivery(&service, address).await, 550, "{address}");
    }
    register(&service, "ada")
        .await
        .fails(409, "This email address is already taken");
    assert_eq!(bob.total("INBOX").await, 1);
    let root = service.mail().log.parent().unwrap().join("mail").join(id);
    let stored = root.join("mdbox").join("storage");
    assert!(!has_text(&stored, b"a-secret-subject"), "{stored:?}");
    let audit = run_command(&service, "audit --account ada@first.test").await;
    assert!(audit.contains("account_deleted"), "{audit}");

    // The operator can still import the last export.
    let kept = std::fs::read_dir(service.state.join("exports/kept")).unwrap();
    let kept = kept.map(|file| file.unwrap().path().display().to_string());
    let kept: Vec<String> = kept.collect();
    assert_eq!(kept.len(), 1, "{kept:?}");
    let arguments = ["mailbox", "import", &bob.address, &kept[0]];
    let imported = service.operator_with_all_settings(&arguments, &[]).await;
    let expected = "3 imported, 0 already there, 0 not imported\n";
    assert_eq!(imported.succeeds(), expected);
}
