use super::*;
use crate::credentials::{AppPasswordKind, CredentialCreation};
use crate::testing::{Fresh, NOW, both, new_app_password};
use crate::tokens::NewToken;

const HASHES: &str =
    "SELECT app_password_id, app_password_id FROM mailserver_passwords ORDER BY app_password_id";

/// Creates Ada, with two sessions, a mail client, a shared mailbox's key, an OAuth grant and an API
/// token.
async fn ada(fresh: &Fresh) {
    let directory = &fresh.directory;
    directory
        .with("ada", "ada@example.org", &["here", "there"])
        .await;
    let origin = Origin::default();
    for (id, kind) in [
        ("client", AppPasswordKind::AppPassword),
        ("key", AppPasswordKind::TeamKey),
        ("grant", AppPasswordKind::OAuthGrant),
    ] {
        let password = new_app_password(id, kind);
        directory.hold("ada", &password, NOW).await;
    }
    let token = NewToken {
        id: "t".into(),
        account_id: "ada".into(),
        label: "t".into(),
        scopes: vec![],
        selector: "t".into(),
        secret_hash: "t".into(),
        hint: "t".into(),
        app_password: new_app_password("token", AppPasswordKind::ApiToken),
        sealed_password: b"sealed".to_vec(),
        created_at: NOW,
        expires_at: None,
    };
    let made = directory.tokens.create("here", &token, 20, &origin).await;
    assert_eq!(made.unwrap(), CredentialCreation::Created);
}

async fn change(fresh: &Fresh, sid: &str, checked: &str, next: &str) -> Outcome {
    let app_password = new_app_password(&format!("next-{next}"), AppPasswordKind::WebSession);
    let change = Change {
        account_id: "ada",
        checked,
        password_hash: next,
        session: Renewed {
            sid,
            app_password: &app_password,
            sealed_password: b"resealed",
        },
        at: NOW,
    };
    let origin = Origin::default();
    let changed = fresh
        .directory
        .credentials
        .change_password(&change, &origin)
        .await;
    changed.unwrap()
}

async fn a_new_password_ends_all_but_the_asking_session_and_mail_clients(fresh: Fresh) {
    ada(&fresh).await;
    let changed = change(&fresh, "here", "$argon2id$secret", "new").await;
    let Outcome::Changed(mut ended) = changed else {
        panic!("{changed:?}");
    };
    ended.sort();
    assert_eq!(ended, ["grant", "here-password", "there-password", "token"]);
    let left = fresh.as_mail_server(HASHES).await;
    let left: Vec<&str> = left.iter().map(|(id, _)| id.as_str()).collect();
    assert_eq!(left, ["client", "key", "next-new"]);
    let session = fresh
        .directory
        .sessions
        .find("here", NOW)
        .await
        .unwrap()
        .unwrap();
    assert_eq!(session.app_password_id, "next-new");
    assert_eq!(session.sealed_password, b"resealed");
    assert!(
        fresh
            .directory
            .sessions
            .find("there", NOW)
            .await
            .unwrap()
            .is_none()
    );
    let token = fresh
        .directory
        .tokens
        .by_selector("t")
        .await
        .unwrap()
        .unwrap();
    assert!(token.revoked && token.app_password.is_none());
    let hash = fresh
        .directory
        .credentials
        .password_hash("ada")
        .await
        .unwrap();
    assert_eq!(hash.as_deref(), Some("new"));
}

async fn of_two_changes_checked_against_one_password_one_is_made(fresh: Fresh) {
    ada(&fresh).await;
    let (one, other) = tokio::join!(
        change(&fresh, "here", "$argon2id$secret", "one"),
        change(&fresh, "there", "$argon2id$secret", "other")
    );
    let made = [&one, &other].map(|outcome| matches!(outcome, Outcome::Changed(_)));
    assert!(made[0] != made[1], "{one:?} {other:?}");
}

async fn a_session_that_is_over_changes_nothing(fresh: Fresh) {
    ada(&fresh).await;
    let refused = change(&fresh, "gone", "$argon2id$secret", "new").await;
    assert_eq!(refused, Outcome::SessionOver);
    let refused = change(&fresh, "here", "another", "new").await;
    assert_eq!(refused, Outcome::AnotherPassword);
    let hash = fresh
        .directory
        .credentials
        .password_hash("ada")
        .await
        .unwrap();
    assert_eq!(hash.as_deref(), Some("$argon2id$secret"));
    assert_eq!(fresh.as_mail_server(HASHES).await.len(), 6);
}

both!(
    a_new_password_ends_all_but_the_asking_session_and_mail_clients,
    of_two_changes_checked_against_one_password_one_is_made,
    a_session_that_is_over_changes_nothing,
);
