//! Commands that disable, delete and change accounts.

use latchmail_tests::{PASSWORD, Person, Response, Service, TEST_TIMEOUT, add_alias, imap, log_in};
use lettre::transport::smtp::authentication::{Credentials, Mechanism};
use lettre::{AsyncSmtpTransport, Tokio1Executor};
use serde_json::{Value, json};
use tokio::time::timeout;

use super::{FOLDERS, SESSION_ENDED, delivery, run_command, sign_in};

async fn register(service: &Service, name: &str) -> Response {
    let body = json!({
        "local_part": name, "domain": "first.test", "password": PASSWORD,
        "first_name": "Eve", "last_name": "Moore", "dob": "1980-01-01",
    });
    service.post("/api/v1/auth/register", &body).await
}

/// Returns whether the IMAP server accepts these credentials.
async fn can_log_in_to_imap(service: &Service, address: &str, password: &str) -> bool {
    log_in(service, address, password).await.is_ok()
}

/// Returns whether the submission service accepts these credentials.
async fn can_log_in_to_submission(service: &Service, address: &str, password: &str) -> bool {
    let submission = service.mail().submission;
    let transport: AsyncSmtpTransport<Tokio1Executor> =
        AsyncSmtpTransport::<Tokio1Executor>::builder_dangerous(submission.ip().to_string())
            .port(submission.port())
            .authentication(vec![Mechanism::Plain])
            .credentials(Credentials::new(address.into(), password.into()))
            .build();
    // The connection includes a login.
    transport.test_connection().await.is_ok()
}

#[tokio::test]
async fn a_disabled_account_loses_all_access_immediately() {
    let service = Service::with_mail().await;
    let (ada, bob) = (service.person("ada").await, service.person("bob").await);
    let client = ada.app_password("Phone").await;
    let client = client["password"].as_str().unwrap().to_owned();
    let token = ada.token(&["mail:read"]).await;
    let token = token["token"].as_str().unwrap();
    let mut open = log_in(&service, &ada.address, &client).await.unwrap();
    let mut bobs = imap(&bob).await;
    assert!(can_log_in_to_submission(&service, &ada.address, &client).await);
    ada.send(FOLDERS).await.succeeds(200);
    service.with_bearer(FOLDERS, token).await.succeeds(200);

    let output = run_command(&service, "account disable ada@first.test").await;
    assert!(
        output.contains("is disabled, and every credential"),
        "{output}"
    );
    ada.send(FOLDERS).await.fails(401, SESSION_ENDED);
    let refresh = json!({ "refreshToken": ada.refresh });
    let response = service.post("/api/v1/auth/refresh", &refresh).await;
    response.fails(401, "Invalid or expired refresh token");
    sign_in(&service, &ada.address, PASSWORD)
        .await
        .fails(401, "Invalid credentials");
    let refused = service.with_bearer(FOLDERS, token).await;
    refused.fails(401, "This API token has been revoked");
    let ended = async { while open.noop().await.is_ok() {} };
    timeout(TEST_TIMEOUT, ended).await.unwrap();
    assert!(!can_log_in_to_imap(&service, &ada.address, &client).await);
    assert!(!can_log_in_to_submission(&service, &ada.address, &client).await);
    bobs.noop().await.unwrap();
    assert_eq!(delivery(&service, &ada.address).await, 550);
    bob.send(FOLDERS).await.succeeds(200);
    let output = run_command(&service, "account disable ada@first.test").await;
    assert!(output.contains("already"), "{output}");

    run_command(&service, "account enable ada@first.test").await;
    ada.send(FOLDERS).await.fails(401, SESSION_ENDED);
    assert!(!can_log_in_to_imap(&service, &ada.address, &client).await);
    assert_eq!(delivery(&service, &ada.address).await, 250);
    let again = ada.sign_in_again().await;
    again.send(FOLDERS).await.succeeds(200);
    let output = run_command(&service, "account enable ada@first.test").await;
    assert!(output.contains("already"), "{output}");
}

#[tokio::test]
async fn addresses_of_a_deleted_account_stay_reserved_until_they_are_freed() {
    let service = Service::with_mail().await;
    let ada = service.person("ada").await;
    add_alias(&ada, "shop@first.test", true).await;
    let shown = run_command(&service, "account show ada@first.test --json").await;
    let shown: Value = serde_json::from_str(&shown).unwrap();
    let id = shown["id"].as_str().unwrap();

    let output = service
        .operator("account delete ada@first.test", "ada@second.test\n")
        .await;
    assert_eq!(output.status, 1);
    assert!(output.stderr.contains("nothing was deleted"), "{output:?}");
    ada.send(FOLDERS).await.succeeds(200);

    let output = service
        .operator("account delete ada@first.test", "ada@first.test\n")
        .await;
    assert_eq!(output.status, 0, "{output:?}");
    assert!(output.stdout.contains(id), "{output:?}");
    ada.send(FOLDERS).await.fails(401, SESSION_ENDED);
    sign_in(&service, &ada.address, PASSWORD)
        .await
        .fails(401, "Invalid credentials");
    for address in ["ada@first.test", "shop@first.test"] {
        assert_eq!(delivery(&service, address).await, 550, "{address}");
    }
    for name in ["ada", "shop"] {
        register(&service, name)
            .await
            .fails(409, "This email address is already taken");
    }
    service
        .operator("account create ada@first.test --generate", "")
        .await
        .fails_mentioning("account free");

    let audit = "audit --account ada@first.test";
    let record = run_command(&service, audit).await;
    assert!(record.contains("account_deleted"), "{record}");
    let output = run_command(&service, "account free ada@first.test").await;
    assert!(output.contains("any account can use it"), "{output}");
    let output = run_command(&service, "account free ada@first.test").await;
    assert!(output.contains("is not reserved"), "{output}");
    let new_account = register(&service, "ada").await.succeeds(201);
    let record = run_command(&service, audit).await;
    assert!(record.contains("account_created"), "{record}");
    assert!(!record.contains("account_deleted"), "{record}");
    register(&service, "shop")
        .await
        .fails(409, "This email address is already taken");
    service
        .operator("account free ada@first.test", "")
        .await
        .fails_mentioning("in use");
    // The new account has a new mailbox without the mail of the deleted one.
    let eve = Person {
        access: new_account["accessToken"].as_str().unwrap().into(),
        ..ada
    };
    assert_eq!(eve.total("INBOX").await, 0);
    let output = run_command(&service, "account delete ada@first.test --yes").await;
    assert!(!output.contains(id), "{output}");
}

#[tokio::test]
async fn plan_and_role_can_be_changed_and_no_change_is_reported() {
    let service = Service::with_mail().await;
    service.person("ada").await;
    for (verb, sentence) in [
        ("plan ada@first.test pro", "is on the plan pro."),
        ("plan ada@first.test pro", "is on the plan pro already."),
        ("plan ada@first.test default", "is on the plan default."),
        ("admin ada@first.test on", "is an administrator."),
        ("admin ada@first.test on", "is already an administrator."),
    ] {
        let output = run_command(&service, &format!("account {verb}")).await;
        assert!(output.trim_end().ends_with(sentence), "{output}");
    }
    let response = sign_in(&service, "ada@first.test", PASSWORD).await;
    assert_eq!(response.succeeds(200)["user"]["isAdmin"], true);
    service
        .operator("account plan ada@first.test gold", "")
        .await
        .fails_mentioning("default, none, pro");
    run_command(&service, "account admin ada@first.test off").await;
    let response = sign_in(&service, "ada@first.test", PASSWORD).await;
    assert_eq!(response.succeeds(200)["user"]["isAdmin"], false);
}

#[tokio::test]
async fn an_unknown_account_is_named_in_the_error() {
    let service = Service::start().await;
    for verb in [
        "show nobody@first.test",
        "password nobody@first.test --generate",
        "disable nobody@first.test",
        "enable nobody@first.test",
        "delete nobody@first.test --yes",
        "plan nobody@first.test pro",
        "admin nobody@first.test on",
        "two-factor nobody@first.test on",
        "two-factor nobody@first.test off",
        "two-factor nobody@first.test recovery-codes",
    ] {
        service
            .operator(&format!("account {verb}"), "")
            .await
            .fails_mentioning("there is no account nobody@first.test");
    }
    let output = run_command(&service, "account list").await;
    assert_eq!(output, "There are no accounts.\n");
    service.person("ada").await;
    let off = "account two-factor ada@first.test recovery-codes";
    service.operator(off, "").await.fails_mentioning("off");
}
