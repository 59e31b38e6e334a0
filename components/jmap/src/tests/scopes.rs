//! Credentials without all scopes.

use latchmail_sdk::capability::{Error, Scope};
use latchmail_sdk::testing::Letter;
use serde_json::json;

use super::client::{ACCOUNT, call, error, post, service};
use crate::session::{MAIL, SUBMISSION};

#[test]
fn a_reader_has_a_read_only_account() {
    let service = service();
    service.host.deliver(Letter::from("bo@example.test"));
    service.host.use_token(&[Scope::MailRead]);
    let session = service.get("/jmap/session").succeeds(200);
    let account = &session["accounts"][ACCOUNT];
    assert_eq!(account["isReadOnly"], true);
    assert!(account["accountCapabilities"].get(SUBMISSION).is_none());
    let found = call(&service, "Email/query", json!({}));
    assert_eq!(found["ids"], json!(["1"]));
    for name in [
        "Email/set",
        "Email/import",
        "Mailbox/set",
        "VacationResponse/set",
        "Identity/set",
    ] {
        assert_eq!(
            error(&service, name, json!({})),
            "accountReadOnly",
            "{name}"
        );
    }
    assert_eq!(
        error(&service, "EmailSubmission/set", json!({})),
        "forbidden"
    );
    let rights = call(&service, "Mailbox/get", json!({}));
    assert_eq!(rights["list"][0]["myRights"]["maySetSeen"], false);
}

#[test]
fn without_reading_there_is_no_mail() {
    let service = service();
    service.host.use_token(&[Scope::AliasesRead]);
    let session = service.get("/jmap/session").succeeds(200);
    let capabilities = &session["accounts"][ACCOUNT]["accountCapabilities"];
    assert!(capabilities.get(MAIL).is_none());
    assert_eq!(error(&service, "Email/query", json!({})), "forbidden");
}

#[test]
fn mail_clients_use_app_passwords() {
    let service = service();
    service.host.use_app_password();
    let session = service.get("/jmap/session").succeeds(200);
    let capabilities = &session["accounts"][ACCOUNT]["accountCapabilities"];
    assert!(capabilities.get(SUBMISSION).is_some());
    let found = call(&service, "Identity/get", json!({}));
    assert_eq!(found["list"][0]["email"], "ada@example.test");
}

#[test]
fn the_session_state_depends_on_the_scopes() {
    let service = service();
    let all = service.get("/jmap/session").succeeds(200)["state"].take();
    let response = post(&service, json!([])).succeeds(200);
    assert_eq!(response["sessionState"], all);
    service.host.use_token(&[Scope::MailRead]);
    let reader = service.get("/jmap/session").succeeds(200)["state"].take();
    assert_ne!(reader, all);
}

#[test]
fn a_refused_credential_ends_the_request() {
    let service = service();
    service.host.fail(Error::CredentialRefused);
    let args = json!({ "accountId": ACCOUNT });
    let response = post(&service, json!([["Email/query", args, "c"]]));
    assert_eq!(response.status, 401);
    let service = super::client::service();
    service.host.fail(Error::Unavailable);
    assert_eq!(
        error(&service, "Email/query", json!({})),
        "serverUnavailable"
    );
}
