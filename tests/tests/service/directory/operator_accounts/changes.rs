//! Commands that disable, delete and change accounts.

use latchmail_tests::{Answer, EVENTUALLY, PASSWORD, Person, Service, alias, imap, log_in};
use lettre::transport::smtp::authentication::{Credentials, Mechanism};
use lettre::{AsyncSmtpTransport, Tokio1Executor};
use serde_json::{Value, json};
use tokio::time::timeout;

use super::{ENDED, FOLDERS, delivery, done, sign_in};

async fn register(service: &Service, name: &str) -> Answer {
    let body = json!({
        "local_part": name, "domain": "first.test", "password": PASSWORD,
        "first_name": "Eve", "last_name": "Moore", "dob": "1980-01-01",
    });
    service.post("/api/v1/auth/register", &body).await
}

/// Whether the IMAP server accepts these credentials.
async fn opens_imap(service: &Service, address: &str, password: &str) -> bool {
    log_in(service, address, password).await.is_ok()
}

/// Whether the submission service accepts them.
async fn opens_submission(service: &Service, address: &str, password: &str) -> bool {
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
    assert!(opens_submission(&service, &ada.address, &client).await);
    ada.ask(FOLDERS).await.succeeds(200);
    service.with_bearer(FOLDERS, token).await.succeeds(200);

    let said = done(&service, "account disable ada@first.test").await;
    assert!(said.contains("is disabled, and every credential"), "{said}");
    ada.ask(FOLDERS).await.fails(401, ENDED);
    let refresh = json!({ "refreshToken": ada.refresh });
    let answer = service.post("/api/v1/auth/refresh", &refresh).await;
    answer.fails(401, "Invalid or expired refresh token");
    sign_in(&service, &ada.address, PASSWORD)
        .await
        .fails(401, "Invalid credentials");
    let refused = service.with_bearer(FOLDERS, token).await;
    refused.fails(401, "This API token has been revoked");
    let ended = async { while open.noop().await.is_ok() {} };
    timeout(EVENTUALLY, ended).await.unwrap();
    assert!(!opens_imap(&service, &ada.address, &client).await);
    assert!(!opens_submission(&service, &ada.address, &client).await);
    bobs.noop().await.unwrap();
    assert_eq!(delivery(&service, &ada.address).await, 550);
    bob.ask(FOLDERS).await.succeeds(200);
    let said = done(&service, "account disable ada@first.test").await;
    assert!(said.contains("already"), "{said}");

    done(&service, "account enable ada@first.test").await;
    ada.ask(FOLDERS).await.fails(401, ENDED);
    assert!(!opens_imap(&service, &ada.address, &client).await);
    assert_eq!(delivery(&service, &ada.address).await, 250);
    let again = ada.again().await;
    again.ask(FOLDERS).await.succeeds(200);
    let said = done(&service, "account enable ada@first.test").await;
    assert!(said.contains("already"), "{said}");
}

#[tokio::test]
async fn addresses_of_a_deleted_account_stay_reserved_until_they_are_freed() {
    let service = Service::with_mail().await;
    let ada = service.person("ada").await;
    alias(&ada, "shop@first.test", true).await;
    let shown = done(&service, "account show ada@first.test --json").await;
    let shown: Value = serde_json::from_str(&shown).unwrap();
    let id = shown["id"].as_str().unwrap();

    let said = service
        .operator("account delete ada@first.test", "ada@second.test\n")
        .await;
    assert_eq!(said.status, 1);
    assert!(said.err.contains("nothing was deleted"), "{said:?}");
    ada.ask(FOLDERS).await.succeeds(200);

    let said = service
        .operator("account delete ada@first.test", "ada@first.test\n")
        .await;
    assert_eq!(said.status, 0, "{said:?}");
    assert!(said.out.contains(id), "{said:?}");
    ada.ask(FOLDERS).await.fails(401, ENDED);
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
        .fails_about("account free");

    let audit = "audit --account ada@first.test";
    let record = done(&service, audit).await;
    assert!(record.contains("account_deleted"), "{record}");
    let said = done(&service, "account free ada@first.test").await;
    assert!(said.contains("any account can use it"), "{said}");
    let said = done(&service, "account free ada@first.test").await;
    assert!(said.contains("is not reserved"), "{said}");
    let anew = register(&service, "ada").await.succeeds(201);
    let record = done(&service, audit).await;
    assert!(record.contains("account_created"), "{record}");
    assert!(!record.contains("account_deleted"), "{record}");
    register(&service, "shop")
        .await
        .fails(409, "This email address is already taken");
    service
        .operator("account free ada@first.test", "")
        .await
        .fails_about("in use");
    // Another person's mailbox, without any mail of the first one's.
    let eve = Person {
        access: anew["accessToken"].as_str().unwrap().into(),
        ..ada
    };
    assert_eq!(eve.total("INBOX").await, 0);
    let said = done(&service, "account delete ada@first.test --yes").await;
    assert!(!said.contains(id), "{said}");
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
        let said = done(&service, &format!("account {verb}")).await;
        assert!(said.trim_end().ends_with(sentence), "{said}");
    }
    let answer = sign_in(&service, "ada@first.test", PASSWORD).await;
    assert_eq!(answer.succeeds(200)["user"]["isAdmin"], true);
    service
        .operator("account plan ada@first.test gold", "")
        .await
        .fails_about("default, none, pro");
    done(&service, "account admin ada@first.test off").await;
    let answer = sign_in(&service, "ada@first.test", PASSWORD).await;
    assert_eq!(answer.succeeds(200)["user"]["isAdmin"], false);
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
            .fails_about("there is no account nobody@first.test");
    }
    let said = done(&service, "account list").await;
    assert_eq!(said, "There are no accounts.\n");
    service.person("ada").await;
    let off = "account two-factor ada@first.test recovery-codes";
    service.operator(off, "").await.fails_about("off");
}
