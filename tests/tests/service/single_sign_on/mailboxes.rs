//! The mailbox of a person: the claim that names it, and the account.

use super::*;

#[tokio::test]
async fn a_person_without_a_mailbox_gets_a_page_that_names_the_account() {
    let (provider, service) = start_with("sign_in.domains.'second.test'.source = 'accounts'").await;
    let dan = service
        .app()
        .auth
        .registration
        .create_account("dan@second.test", latchmail_tests::PASSWORD.into());
    dan.await.unwrap();
    let verb = format!("account disable {BOB}");
    service.operator(&verb, "").await.succeeds();
    provider.add_person("carol", "carol@first.test").await;
    provider.add_person("eve", "Eve@elsewhere.test").await;
    provider.add_person("dan", "dan@second.test").await;
    provider.set_person("fay", json!({})).await;
    let unverified = json!({ "email": ADA, "email_verified": false });
    provider.set_person("gus", unverified).await;
    provider.set_person("ivy", json!({ "email": ADA })).await;
    for (person, account, problem) in [
        ("carol", "carol@first.test", "no mailbox with this address"),
        ("eve", "Eve@elsewhere.test", "no mailbox with this address"),
        // The provider must not decide about accounts with another source.
        ("dan", "dan@second.test", "no mailbox with this address"),
        ("bob", BOB, "disabled"),
        ("fay", "fay", "returned no mail address"),
        ("gus", ADA, "not verified"),
        ("ivy", ADA, "not verified"),
    ] {
        let (status, text) = page(&service, person).await;
        assert_eq!(status, 403, "{person}: {text}");
        assert!(
            text.contains(account) && text.contains(problem),
            "{person}: {text}"
        );
        assert!(text.contains("ask your administrator"), "{text}");
    }
    let recorded = events(&service, "carol@first.test").await;
    assert!(recorded.contains("subject carol"), "{recorded}");
    let accounts = service.operator("account list", "").await.succeeds();
    assert!(!accounts.contains("carol@"), "{accounts}");
}

#[tokio::test]
async fn an_address_without_email_verified_needs_a_setting() {
    let (provider, service) = start_with("sign_in.oidc.trust_missing_email_verified = true").await;
    provider.set_person("ada", json!({ "email": ADA })).await;
    assert_eq!(sign_in(&service, "ada").await.address, ADA);
    let unverified = json!({ "email": ADA, "email_verified": false });
    provider.set_person("ada", unverified).await;
    let (status, text) = page(&service, "ada").await;
    assert!(status == 403 && text.contains("not verified"), "{text}");
}

#[tokio::test]
async fn userinfo_can_report_that_the_address_is_verified() {
    let (provider, service) = start().await;
    provider
        .set_fault(json!({ "remove": ["email_verified"] }))
        .await;
    assert_eq!(sign_in(&service, "ada").await.address, ADA);
}

#[tokio::test]
async fn the_claim_can_have_another_name_and_come_from_userinfo() {
    let (provider, service) = start_with("sign_in.oidc.mailbox_claim = 'mailbox'").await;
    let claims = json!({ "email": "private@elsewhere.test", "email_verified": false, "mailbox": "ADA@first.test" });
    provider.set_person("ada", claims).await;
    assert_eq!(sign_in(&service, "ada").await.address, ADA);
    // Without the claim in the ID token, the service asks the userinfo endpoint.
    let browser = PersonBrowser::new();
    provider.set_fault(json!({ "remove": ["mailbox"] })).await;
    assert_eq!(sign_in_with(&service, &browser, "ada").await.address, ADA);
    // The userinfo response must be about the same person.
    let fault = json!({ "remove": ["mailbox"], "claims": { "sub": "bob" } });
    provider.set_fault(fault).await;
    let (status, text) = page(&service, "ada").await;
    assert_eq!(status, 400, "{text}");
}

#[tokio::test]
async fn a_changed_claim_opens_the_new_mailbox_and_ends_the_sessions_of_the_old_one() {
    let (provider, service) = start().await;
    let (laptop, phone) = (PersonBrowser::new(), PersonBrowser::new());
    let first = sign_in_with(&service, &laptop, "ada").await;
    let second = sign_in_with(&service, &phone, "ada").await;
    let bob = sign_in(&service, "bob").await;
    provider.add_person("ada", BOB).await;
    // Nothing changes before the next sign-in.
    first.send(FOLDERS).await.succeeds(200);
    let moved = sign_in_with(&service, &laptop, "ada").await;
    assert_eq!(moved.address, BOB);
    for old in [&first, &second] {
        assert_eq!(old.send(FOLDERS).await.status, 401);
    }
    for current in [&moved, &bob] {
        current.send(FOLDERS).await.succeeds(200);
    }
    let recorded = events(&service, ADA).await;
    let event = "the mailbox of the person is now bob@first.test; web sessions ended: 2";
    assert!(recorded.contains(event), "{recorded}");
}

/// The mail server has the users, and the provider verifies them.
#[tokio::test]
async fn the_first_sign_in_of_a_user_of_the_mail_server_creates_the_account() {
    let provider = Provider::start().await;
    provider.add_person("ada", ADA).await;
    provider.add_person("carol", "carol@first.test").await;
    let setup = Setup::default().with_mail_users(false);
    let mut service = setup.with(&provider.settings()).start().await;
    provider.register(&service).await;
    let users = service.mail_users();
    users.set(ADA, "Ada-Pass-1");
    users.applied().await;
    let ada = sign_in(&service, "ada").await;
    ada.send(FOLDERS).await.succeeds(200);
    let recorded = events(&service, ADA).await;
    assert_eq!(recorded.matches("account_created").count(), 1, "{recorded}");
    let (status, text) = page(&service, "carol").await;
    assert!(status == 403 && text.contains("no mailbox"), "{text}");
    // The user's password at the mail server is no sign-in.
    let login = json!({ "email": ADA, "password": "Ada-Pass-1" });
    let response = service.post("/api/v1/auth/login", &login).await;
    assert_eq!(response.status, 403);
    // An alias must not divert the mail of a user.
    service.mail_users().set("hal@first.test", "Hal-Pass-1");
    service.mail_users().applied().await;
    let ada = sign_in(&service, "ada").await;
    let alias = json!({ "domain": "first.test", "name": "hal" });
    let refused = ada.post("/api/v1/aliases", &alias).await;
    refused.fails(400, "hal@first.test is already taken");
}
