//! Users who are removed from the mail server or change their password there.

use latchmail_tests::{Person, log_in, wait_until};
use serde_json::Value;

use super::*;

const SESSION_ENDED: &str = "Mail session expired, please log in again";

fn text(value: &Value) -> String {
    value.as_str().unwrap().to_owned()
}

#[tokio::test]
async fn a_changed_password_ends_sessions_and_keeps_mail_clients() {
    let mut service = start().await;
    let (access, token, phone) = {
        let alice = Person::sign_in(&service, ALICE, SECRET).await;
        let token = text(&alice.token(&["mail:read"]).await["token"]);
        let phone = text(&alice.app_password("phone").await["password"]);
        (alice.access, token, phone)
    };
    let bob = Person::sign_in(&service, "bob@first.test", "Bob-Pass-1")
        .await
        .access;
    service
        .app()
        .auth
        .mail_server_accounts
        .recheck_mail_server_users()
        .await
        .unwrap();
    service.with_bearer(FOLDERS, &access).await.succeeds(200);

    service.mail_users().set(ALICE, "Alice-Pass-02");
    wait_until("the session ends", async || {
        service.with_bearer(FOLDERS, &access).await.status == 401
    })
    .await;
    service
        .with_bearer(FOLDERS, &access)
        .await
        .fails(401, SESSION_ENDED);
    assert_eq!(service.with_bearer(FOLDERS, &token).await.status, 401);
    log_in(&service, ALICE, &phone).await.unwrap();
    service.with_bearer(FOLDERS, &bob).await.succeeds(200);
    sign_in(&service, ALICE, SECRET).await.fails(401, INVALID);
    let events = events(&service, ALICE).await;
    assert!(events.contains("changed at the mail server"), "{events}");
}

#[tokio::test]
async fn a_sign_in_with_a_changed_password_ends_the_other_sessions() {
    let mut service = start_with("sign_in.mailserver.recheck = 3600").await;
    let old = Person::sign_in(&service, ALICE, SECRET).await.access;
    let users = service.mail_users();
    users.set(ALICE, "Alice-Pass-02");
    users.applied().await;
    service.with_bearer(FOLDERS, &old).await.succeeds(200);
    let new = Person::sign_in(&service, ALICE, "Alice-Pass-02")
        .await
        .access;
    service.with_bearer(FOLDERS, &new).await.succeeds(200);
    service
        .with_bearer(FOLDERS, &old)
        .await
        .fails(401, SESSION_ENDED);
}

#[tokio::test]
async fn a_removed_or_disabled_user_loses_every_credential() {
    let mut service = start().await;
    service.mail_users().set("carl@first.test", "Carl-Pass-1");
    let mut people = Vec::new();
    for (address, password) in [(ALICE, SECRET), ("carl@first.test", "Carl-Pass-1")] {
        let person = Person::sign_in(&service, address, password).await;
        let phone = text(&person.app_password("phone").await["password"]);
        people.push((address, person.access, phone));
    }
    let bob = Person::sign_in(&service, "bob@first.test", "Bob-Pass-1").await;
    let (bob, bobs_phone) = (
        bob.access.clone(),
        text(&bob.app_password("phone").await["password"]),
    );
    service.mail_users().remove(ALICE);
    service.mail_users().deny(&["carl@first.test"]);
    for (address, access, phone) in &people {
        wait_until("the credentials are revoked", async || {
            service.with_bearer(FOLDERS, access).await.status == 401
        })
        .await;
        log_in(&service, address, phone).await.unwrap_err();
        let events = events(&service, address).await;
        assert!(events.contains("credentials_revoked"), "{events}");
        assert!(!events.contains("account_disabled"), "{events}");
    }
    service.with_bearer(FOLDERS, &bob).await.succeeds(200);
    log_in(&service, "bob@first.test", &bobs_phone)
        .await
        .unwrap();
    // A user who comes back can sign in again.
    let users = service.mail_users();
    users.deny(&[]);
    users.set(ALICE, SECRET);
    users.applied().await;
    sign_in(&service, ALICE, SECRET).await.succeeds(200);
}

/// PAM and similar sources report no version of a password.
#[tokio::test]
async fn without_a_version_a_changed_password_ends_nothing() {
    let mut service = start().await;
    let users = service.mail_users();
    users.set_with("dora@first.test", "Dora-Pass-1", "");
    let dora = Person::sign_in(&service, "dora@first.test", "Dora-Pass-1")
        .await
        .access;
    service
        .mail_users()
        .set_with("dora@first.test", "Dora-Pass-02", "");
    service.mail_users().applied().await;
    service
        .app()
        .auth
        .mail_server_accounts
        .recheck_mail_server_users()
        .await
        .unwrap();
    service.with_bearer(FOLDERS, &dora).await.succeeds(200);
    let verb = "account end-sessions dora@first.test";
    let printed = service.operator(verb, "").await.succeeds();
    assert!(
        printed.contains("web sessions ended: 1, OAuth grants ended: 0, API tokens revoked: 0")
    );
    service
        .with_bearer(FOLDERS, &dora)
        .await
        .fails(401, SESSION_ENDED);
}

/// The mail server's sessions have the names of users (`imap.session_names`).
#[tokio::test]
async fn the_sessions_of_a_user_are_ended_by_the_users_name() {
    let service = start().await;
    let alice = Person::sign_in(&service, ALICE, SECRET).await;
    let phone = alice.app_password("phone").await;
    let password = phone["password"].as_str().unwrap();
    let bobs_session = log_in(&service, "bob@first.test", "Bob-Pass-1").await;
    let mut bobs_session = bobs_session.unwrap();
    let mut session = log_in(&service, ALICE, password).await.unwrap();
    session.noop().await.unwrap();
    let line = format!(
        "DELETE /api/v1/app-passwords/{}",
        phone["id"].as_str().unwrap()
    );
    alice.send(&line).await.succeeds(200);
    wait_until("the session ends", async || session.noop().await.is_err()).await;
    bobs_session.noop().await.unwrap();
    alice.send(FOLDERS).await.succeeds(200);
    let mut session = log_in(&service, ALICE, SECRET).await.unwrap();
    let verb = format!("account disable {ALICE}");
    service.operator(&verb, "").await.succeeds();
    session.noop().await.unwrap_err();
}
