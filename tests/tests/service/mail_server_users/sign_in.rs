//! Verification of passwords, and the accounts that the first sign-in creates.

use latchmail_core::config::PasswordSource;
use latchmail_tests::{Client, MASTER_PASSWORD, Person, Setup, log_in};
use serde_json::json;

use super::*;

#[tokio::test]
async fn the_first_sign_in_creates_an_account_that_can_do_what_every_account_can() {
    let service = start().await;
    // Both sign-ins are the first one.
    let (one, two) = tokio::join!(
        sign_in(&service, "Alice@first.test", SECRET),
        sign_in(&service, ALICE, SECRET)
    );
    for response in [one, two] {
        assert_eq!(response.succeeds(200)["user"]["email"], ALICE);
    }
    let alice = Person::sign_in(&service, ALICE, SECRET).await;
    let message = "From: a@outside.test\nTo: alice@first.test\nSubject: one\n\nbody\n";
    alice.receive(message).await;
    assert_eq!(alice.messages("INBOX").await[0]["subject"], "one");
    alice
        .send("GET /api/v1/profile")
        .await
        .fails_mentioning(404, "");
    let token = alice.token(&["mail:read"]).await;
    let token = token["token"].as_str().unwrap();
    service.with_bearer(FOLDERS, token).await.succeeds(200);
    let phone = alice.app_password("phone").await;
    let phone = phone["password"].as_str().unwrap();
    log_in(&service, ALICE, phone).await.unwrap();
    // The user's own password stays valid for mail clients.
    log_in(&service, ALICE, SECRET).await.unwrap();
    let events = events(&service, ALICE).await;
    assert_eq!(events.matches("account_created").count(), 1, "{events}");
    let stored = service.dump().await.join("\n");
    assert!(stored.contains("fingerprint:"));
    assert!(!stored.contains(SECRET));
}

#[tokio::test]
async fn only_the_users_own_password_is_accepted() {
    let mut service = start().await;
    let alice = Person::sign_in(&service, ALICE, SECRET).await;
    let phone = alice.app_password("phone").await;
    let phone = phone["password"].as_str().unwrap().to_owned();
    let users = service.mail_users();
    users.set_with("closed@first.test", "Closed-Pass-1", "nologin");
    users.set("denied@first.test", "Denied-Pass-1");
    users.set("eve@elsewhere.test", "Eve-Pass-1");
    users.set_with(
        "renamed@first.test",
        "Renamed-Pass-1",
        "user=carol@elsewhere.test",
    );
    users.deny(&["denied@first.test"]);
    users.applied().await;
    for (email, password) in [
        (ALICE, "wrong"),
        (ALICE, phone.as_str()),
        ("unknown@first.test", SECRET),
        ("bob@first.test", phone.as_str()),
        ("alice*master@first.test", MASTER_PASSWORD),
        ("master@first.test", MASTER_PASSWORD),
        ("closed@first.test", "Closed-Pass-1"),
        ("denied@first.test", "Denied-Pass-1"),
        ("eve@elsewhere.test", "Eve-Pass-1"),
        ("renamed@first.test", "Renamed-Pass-1"),
    ] {
        sign_in(&service, email, password).await.fails(401, INVALID);
    }
    sign_in(&service, "alice*master", MASTER_PASSWORD)
        .await
        .fails(400, "Invalid email or password format");
    for (address, reason) in [
        (ALICE, "wrong password"),
        (ALICE, "the password is an app password"),
        ("alice*master@first.test", "the separator of master users"),
        ("closed@first.test", "nologin"),
        ("denied@first.test", "user_disabled"),
        ("eve@elsewhere.test", "not a platform domain"),
    ] {
        let events = events(&service, address).await;
        assert!(events.contains(reason), "{address}: {events}");
    }
    let accounts = service.operator("account list", "").await.succeeds();
    assert!(!accounts.contains("closed@") && !accounts.contains("carol@"));
    service
        .operator(&format!("account disable {ALICE}"), "")
        .await;
    sign_in(&service, ALICE, SECRET).await.fails(401, INVALID);
}

/// Even a separator that the service does not know gives a master user no access.
#[tokio::test]
async fn a_master_user_can_never_sign_in() {
    let settings = "sign_in.mailserver.master_user_separator = ''\nsign_in.mailserver.default_domain = 'first.test'";
    let service = start_with(settings).await;
    for email in ["alice*master@first.test", "alice*master"] {
        sign_in(&service, email, MASTER_PASSWORD)
            .await
            .fails(401, INVALID);
    }
}

#[tokio::test]
async fn the_mail_server_manages_registration_and_passwords() {
    let mut service = start_with("sign_in.mailserver.password_url = 'https://pw.test/'").await;
    let form = json!({
        "local_part": "carol", "domain": "first.test", "password": "Correct-Horse-7",
        "first_name": "Carol", "last_name": "C", "dob": "1990-12-10",
    });
    let closed = "Registration is currently disabled";
    service
        .post("/api/v1/auth/register", &form)
        .await
        .fails(403, closed);
    let availability = service
        .send("GET /api/v1/auth/username-available?username=carol")
        .await
        .succeeds(200);
    assert_eq!(
        availability,
        json!({ "available": false, "reason": closed })
    );
    let alice = Person::sign_in(&service, ALICE, SECRET).await;
    let change = json!({ "current_password": SECRET, "new_password": "Another-Pass-2" });
    alice.post("/api/v1/profile/password", &change).await.fails(
        403,
        "The mail server manages this password. Change it at https://pw.test/.",
    );
    for verb in [
        format!("account password {ALICE} --generate"),
        "account create carol@first.test --generate".into(),
    ] {
        let output = service.operator(&verb, "").await;
        output.fails_mentioning("the mail server stores the password of");
    }
    // The stored text is no password of the account on a domain with its own passwords.
    service
        .restart_with(|config| config.sign_in.source = PasswordSource::Accounts)
        .await;
    for password in [SECRET, ""] {
        let status = sign_in(&service, ALICE, password).await.status;
        assert!([400, 401].contains(&status), "{status}");
    }
}

#[tokio::test]
async fn names_without_a_domain_belong_to_the_default_domain() {
    let mut service = Setup::default().with_mail_users(true).start().await;
    service.mail_users().set("alice", SECRET);
    sign_in(&service, "alice", SECRET)
        .await
        .fails(400, "Invalid email or password format");
    // The mail server's name has no domain, and the service knows none.
    sign_in(&service, ALICE, SECRET).await.fails(401, INVALID);
    service
        .restart_with(|config| {
            config.sign_in.mailserver.default_domain = "first.test".into();
        })
        .await;
    // The mail server removes every domain. One mailbox never has two accounts.
    for email in ["alice", "Alice", ALICE, "alice@second.test"] {
        let signed_in = sign_in(&service, email, SECRET).await.succeeds(200);
        assert_eq!(signed_in["user"]["email"], ALICE);
    }
    let alice = Person::sign_in(&service, "alice", SECRET).await;
    alice.send(FOLDERS).await.succeeds(200);
    sign_in(&service, "alice*master", MASTER_PASSWORD)
        .await
        .fails(401, INVALID);
    let accounts = service.operator("account list", "").await.succeeds();
    assert_eq!(accounts.matches("alice@").count(), 1, "{accounts}");
}

#[tokio::test]
async fn two_factor_sign_in_works() {
    let service = start().await;
    sign_in(&service, ALICE, SECRET).await.succeeds(200);
    let verb = format!("account two-factor {ALICE} on");
    let shown = service.operator(&verb, "").await.succeeds();
    sign_in(&service, ALICE, "wrong").await.fails(401, INVALID);
    sign_in(&service, ALICE, SECRET)
        .await
        .fails(401, "Two-factor code required");
    let code = shown.lines().last().unwrap();
    let body = json!({ "email": ALICE, "password": SECRET, "code": code });
    service.post(LOGIN, &body).await.succeeds(200);
    service.post(LOGIN, &body).await.fails(401, INVALID);
}

#[tokio::test]
async fn the_page_for_oauth_clients_accepts_the_mail_servers_password() {
    let service = start().await;
    let client = Client::register(&service).await;
    let page = client.login_page(&[]).await;
    let refused = client.sign_in(&page, ALICE, "wrong").await;
    assert_eq!(refused.response.status, 403);
    let agreed = client.sign_in(&page, ALICE, SECRET).await;
    assert_eq!(agreed.response.status, 303);
    let events = events(&service, ALICE).await;
    assert!(events.contains("account_created") && events.contains("client_agreed_to"));
}

/// An invitation must be confirmed with the password.
#[tokio::test]
async fn a_confirmation_verifies_the_mail_servers_password() {
    let mut service = start().await;
    sign_in(&service, "bob@first.test", "Bob-Pass-1")
        .await
        .succeeds(200);
    let access = Person::sign_in(&service, ALICE, SECRET).await.access;
    let listed = service.with_bearer("GET /api/v1/teams", &access).await;
    let team = listed.succeeds(200)["teams"][0]["id"].clone();
    let line = format!("POST /api/v1/teams/{}/invitations", team.as_str().unwrap());
    let invite = async |service: &Service, password: &str| {
        let body = json!({
            "username": "bob", "password": password, "resource_kind": "mailbox", "rights": ["mail:read"],
        });
        let request = service.request(&line).bearer_auth(&access);
        Response::of_json(request, &body).await
    };
    invite(&service, "wrong")
        .await
        .fails_mentioning(403, "Wrong password");
    service.stack().stop_imap().await.unwrap();
    assert_eq!(invite(&service, SECRET).await.status, 503);
    service.stack().start_imap().await.unwrap();
    assert_eq!(invite(&service, SECRET).await.status, 201);
}
