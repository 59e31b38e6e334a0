//! The credential of the search index: its protocol, its end, and a replaced key of the service.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use latchmail_core::caller::{MailCredential, Proof};
use latchmail_core::keyring::Keyring;
use latchmail_core::sealing::Purpose;
use latchmail_tests::{Service, log_in};
use secrecy::ExposeSecret as _;

use super::credentials::can_submit;

const ADA: &str = "ada@first.test";

async fn account(service: &Service) -> String {
    let found = service.app().directory.accounts.by_address(ADA).await;
    found.unwrap().unwrap().id
}

/// Returns the credential of the search index of Ada's account. The first call creates it.
async fn credential(service: &Service) -> Option<MailCredential> {
    let account = account(service).await;
    let access = service.app().mail.index.access_of(&account).await;
    access.unwrap().map(|access| access.credential)
}

fn secret(credential: &MailCredential) -> &str {
    match &credential.proof {
        Proof::AppPassword(secret) => secret.expose_secret(),
        Proof::AccessToken { .. } => panic!("the proof is an access token"),
    }
}

#[tokio::test]
async fn the_index_credential_reads_mail_and_cannot_send() {
    let service = Service::with_mail().await;
    let ada = service.person("ada").await;
    let index = credential(&service).await.unwrap();
    assert_eq!(credential(&service).await.unwrap().id, index.id);
    let mut client = log_in(&service, ADA, secret(&index)).await.unwrap();
    client.select("INBOX").await.unwrap();
    assert!(!can_submit(&service, ADA, secret(&index)).await);
    let phone = ada.app_password("Phone").await;
    let phone = phone["password"].as_str().unwrap();
    assert!(can_submit(&service, ADA, phone).await);

    let listed = ada.send("GET /api/v1/profile/sessions").await.succeeds(200);
    assert!(!listed.to_string().contains(&index.id), "{listed}");
    for route in ["app-passwords", "profile/sessions"] {
        let line = format!("DELETE /api/v1/{route}/{}", index.id);
        assert_eq!(ada.send(&line).await.status, 404);
    }
    let events = service.operator("audit", "").await.succeeds();
    assert!(!events.contains(&index.id), "{events}");
}

#[tokio::test]
async fn the_index_credential_ends_with_the_account_and_an_enabled_account_gets_a_new_one() {
    let service = Service::with_mail().await;
    service.person("ada").await;
    let first = credential(&service).await.unwrap();
    let mut client = log_in(&service, ADA, secret(&first)).await.unwrap();
    let run = async |verb: &str| {
        let arguments = ["account", verb, ADA];
        service.operator_with(&arguments, "").await.succeeds()
    };
    run("disable").await;
    assert!(credential(&service).await.is_none());
    assert!(log_in(&service, ADA, secret(&first)).await.is_err());
    assert!(client.noop().await.is_err(), "the open session has ended");
    run("enable").await;
    let second = credential(&service).await.unwrap();
    assert_ne!(second.id, first.id);
    log_in(&service, ADA, secret(&second)).await.unwrap();
    assert!(log_in(&service, ADA, secret(&first)).await.is_err());
}

#[tokio::test]
async fn the_index_credential_survives_a_new_key_of_the_service_and_is_replaced_without_its_key() {
    let mut service = Service::with_mail().await;
    service.person("ada").await;
    let first = credential(&service).await.unwrap();
    let account = account(&service).await;
    let file = service.state.join("latchmail.key");
    let old = std::fs::read_to_string(&file).unwrap();
    let new = STANDARD.encode([7; 32]);
    for keys in [format!("{new}\n{old}"), new] {
        service.stop().await;
        std::fs::write(&file, keys).unwrap();
        service.restart().await;
        let after = credential(&service).await.unwrap();
        assert_eq!(after.id, first.id);
        assert_eq!(secret(&after), secret(&first));
    }
    let stored = service
        .app()
        .directory
        .credentials
        .service_key(
            latchmail_directory::credentials::index_keys::ServiceUse::Index,
            &account,
        )
        .await;
    let sealed = stored.unwrap().unwrap().key.unwrap().sealed_password;
    let open = |keys: &Keyring, purpose, row: &str| keys.open(purpose, row, &sealed);
    let keys = Keyring::load(&file).unwrap();
    assert!(open(&keys, Purpose::IndexKey, &account).is_some());
    assert!(open(&keys, Purpose::IndexKey, "another account").is_none());
    assert!(open(&keys, Purpose::TeamKey, &account).is_none());
    let another = Keyring::load(&service.state.join("another.key")).unwrap();
    assert!(open(&another, Purpose::IndexKey, &account).is_none());

    service.stop().await;
    std::fs::write(&file, STANDARD.encode([8; 32])).unwrap();
    service.restart().await;
    let second = credential(&service).await.unwrap();
    assert_ne!(second.id, first.id);
    log_in(&service, ADA, secret(&second)).await.unwrap();
    assert!(log_in(&service, ADA, secret(&first)).await.is_err());
}
