//! The standing key of a shared mailbox: its creation, its revocation, and a replaced key of the
//! service.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use latchmail_core::keyring::Keyring;
use latchmail_core::sealing::Purpose;
use latchmail_directory::Directory;
use latchmail_directory::keys::sealed::SealedColumn;
use latchmail_tests::{PASSWORD, Service, log_in};
use secrecy::{ExposeSecret as _, SecretString};
use serde_json::json;

use super::{NO_TEAM, WRONG, invite, keys, members, remove, team_of, teams, text};

#[tokio::test]
async fn the_key_is_deleted_with_the_last_member_and_the_next_member_gets_a_new_one() {
    let service = Service::with_mail().await;
    let (ada, bob) = (service.person("ada").await, service.person("bob").await);
    let team = team_of(&ada).await;
    invite(&ada, &team, "bob", &["mail:read"])
        .await
        .succeeds(201);
    let first = keys(&ada).await;
    remove(&bob, &team, &team_of(&bob).await)
        .await
        .succeeds(200);
    assert!(keys(&ada).await.is_empty());
    let alone = members(&ada, &team).await.succeeds(200);
    assert_eq!(alone["shared"], false);
    invite(&ada, &team, "bob", &["mail:read"])
        .await
        .succeeds(201);
    let second = keys(&ada).await;
    assert_eq!(second.len(), 1);
    assert_ne!(first[0]["id"], second[0]["id"]);
}

#[tokio::test]
async fn a_revoked_key_locks_members_out_until_the_owner_invites_again() {
    let service = Service::with_mail().await;
    let (ada, bob) = (service.person("ada").await, service.person("bob").await);
    service.person("cyd").await;
    service.person("dan").await;
    let team = team_of(&ada).await;
    invite(&ada, &team, "bob", &["members:manage", "mail:read"])
        .await
        .succeeds(201);
    for (route, guest) in [("app-passwords", "cyd"), ("profile/sessions", "dan")] {
        let key = text(&keys(&ada).await[0]["id"]);
        let line = format!("DELETE /api/v1/{route}/{key}");
        assert_eq!(bob.send(&line).await.status, 404);
        ada.send(&line).await.succeeds(200);
        let listed = members(&ada, &team).await.succeeds(200);
        assert_eq!(listed["shared"], false);
        assert!(listed["limits"]["guests"].as_u64().unwrap() > 0);
        assert_eq!(teams(&bob).await.len(), 1);
        members(&bob, &team).await.fails(404, NO_TEAM);
        // A manager's invitation does not create a new key.
        let refused = invite(&bob, &team, guest, &["mail:read"]).await;
        refused.fails(404, NO_TEAM);
        invite(&ada, &team, guest, &["mail:read"])
            .await
            .succeeds(201);
        members(&bob, &team).await.succeeds(200);
    }
}

#[tokio::test]
async fn a_team_survives_a_password_change_but_not_the_deletion_of_the_owner() {
    let service = Service::with_mail().await;
    let (ada, bob) = (service.person("ada").await, service.person("bob").await);
    let team = team_of(&ada).await;
    invite(&ada, &team, "bob", &["mail:read"])
        .await
        .succeeds(201);
    let key = keys(&ada).await;
    let change = json!({ "current_password": PASSWORD, "new_password": "Other-Horse-8" });
    let changed = ada.post("/api/v1/profile/password", &change).await;
    changed.succeeds(200);
    assert_eq!(keys(&ada).await, key);
    members(&bob, &team).await.succeeds(200);
    // An invitation needs the new password.
    service.person("cyd").await;
    invite(&ada, &team, "cyd", &["mail:read"])
        .await
        .fails(403, WRONG);

    service
        .execute("UPDATE accounts SET active = FALSE WHERE address = 'ada@first.test'")
        .await;
    assert_eq!(teams(&bob).await.len(), 1);
    members(&bob, &team).await.fails(404, NO_TEAM);
    // The member can still leave.
    remove(&bob, &team, &team_of(&bob).await)
        .await
        .succeeds(200);
}

/// Returns the standing key of the only shared mailbox, opened with the service's key.
async fn key(service: &Service) -> SecretString {
    let directory = Directory::open_beside_service(&service.database())
        .await
        .unwrap();
    let sealed = directory
        .keys
        .sealed(SealedColumn::TeamKey, b"", "", 10)
        .await;
    let [(mailbox, sealed)] = &sealed.unwrap()[..] else {
        panic!("one key");
    };
    let keys = Keyring::load(&service.state.join("latchmail.key")).unwrap();
    keys.open(Purpose::TeamKey, mailbox, sealed).unwrap()
}

#[tokio::test]
async fn the_key_opens_the_mailbox_until_the_last_member_is_removed() {
    let service = Service::with_mail().await;
    let (ada, bob) = (service.person("ada").await, service.person("bob").await);
    let team = team_of(&ada).await;
    invite(&ada, &team, "bob", &["mail:read"])
        .await
        .succeeds(201);
    let key = key(&service).await;
    let opens = async || log_in(&service, &ada.address, key.expose_secret()).await;
    let mut client = opens().await.unwrap();
    client.select("INBOX").await.unwrap();
    remove(&ada, &team, &team_of(&bob).await)
        .await
        .succeeds(200);
    assert!(opens().await.is_err());
    // The IMAP session with it has ended too.
    assert!(client.noop().await.is_err());
}

#[tokio::test]
async fn the_key_survives_a_new_key_of_the_service() {
    let mut service = Service::with_mail().await;
    {
        let (ada, _) = (service.person("ada").await, service.person("bob").await);
        let team = team_of(&ada).await;
        invite(&ada, &team, "bob", &["mail:read"])
            .await
            .succeeds(201);
    }
    let before = key(&service).await;
    let file = service.state.join("latchmail.key");
    let old = std::fs::read_to_string(&file).unwrap();
    let new = STANDARD.encode([7; 32]);
    for keys in [format!("{new}\n{old}"), new] {
        service.stop().await;
        std::fs::write(&file, keys).unwrap();
        service.restart().await;
        let after = key(&service).await;
        assert_eq!(after.expose_secret(), before.expose_secret());
    }
    log_in(&service, "ada@first.test", before.expose_secret())
        .await
        .unwrap();
}
