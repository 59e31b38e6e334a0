use latchmail_core::caller::Scope;

use super::*;
use crate::credentials::AppPasswordKind;
use crate::hosts::host_events::HostEvent;
use crate::testing::{DAY, Fresh, NOW, both, new_app_password};
use crate::tokens::NewToken;

const CALLER: SessionCaller<'_> = SessionCaller {
    account_id: "ada",
    sid: "adas-session",
    at: NOW,
};

/// Creates ada with a token and an OAuth grant, and bob without either.
async fn two_grants(fresh: &Fresh) {
    let directory = &fresh.directory;
    directory
        .with("ada", "ada@example.org", &["adas-session"])
        .await;
    directory
        .with("bob", "bob@example.org", &["bobs-session"])
        .await;
    let token = NewToken {
        id: "t".into(),
        account_id: "ada".into(),
        label: "CI".into(),
        scopes: vec![Scope::MailRead],
        selector: "t-selector".into(),
        secret_hash: "t-hash".into(),
        hint: "wxyz".into(),
        app_password: new_app_password("t-password", AppPasswordKind::ApiToken),
        sealed_password: b"sealed".to_vec(),
        created_at: NOW,
        expires_at: None,
    };
    let made = directory
        .tokens
        .create("adas-session", &token, 20, &Origin::default())
        .await;
    made.unwrap();
    let password = new_app_password("g-password", AppPasswordKind::OAuthGrant);
    directory.hold("ada", &password, NOW).await;
    fresh
        .execute(
            "INSERT INTO oauth_grants (id, account_id, app_password_id, client_id, resource, scope, created_at) \
             VALUES ('g', 'ada', 'g-password', 'c', 'https://mail.example', 'mail:read', 1)",
        )
        .await;
    fresh
        .execute("UPDATE app_passwords SET created_at = 1, expires_at = 9000000000000 WHERE id = 'g-password'")
        .await;
    fresh
        .execute(
            "INSERT INTO oauth_tokens (token_hash, grant_id, kind, sealed_password, expires_at) \
             VALUES ('r', 'g', 'refresh', NULL, 9000000000000)",
        )
        .await;
}

async fn suspend(fresh: &Fresh, id: &str, suspended: bool) -> Suspension {
    let grants = &fresh.directory.grants;
    let origin = Origin::default();
    let changed = grants.set_suspended(CALLER, id, suspended, &origin);
    changed.await.unwrap()
}

async fn the_sessions_of_a_suspended_grant_must_end(fresh: Fresh) {
    two_grants(&fresh).await;
    let ended = async || {
        let ended = fresh.directory.credentials.ended_by(NOW, 100).await;
        let ended = ended.unwrap().into_iter();
        ended.map(|(id, _)| id).collect::<Vec<_>>()
    };
    suspend(&fresh, "t", true).await;
    assert_eq!(ended().await, ["t-password"]);
    suspend(&fresh, "t", true).await;
    suspend(&fresh, "t", false).await;
    assert!(ended().await.is_empty());
}

fn done(app_password_id: &str) -> Suspension {
    Suspension::Done {
        app_password_id: app_password_id.into(),
    }
}

async fn grants_are_listed_newest_first_and_only_to_their_owner(fresh: Fresh) {
    two_grants(&fresh).await;
    let grants = &fresh.directory.grants;
    let listed = grants.list("ada", NOW).await.unwrap();
    let shown: Vec<_> = listed
        .iter()
        .map(|one| (&*one.id, one.client_id.as_deref(), &*one.scopes))
        .collect();
    assert_eq!(
        shown,
        [("t", None, "mail:read"), ("g", Some("c"), "mail:read")]
    );
    assert!(grants.list("bob", NOW).await.unwrap().is_empty());
    let later = Timestamp::from_millis(9_000_000_000_000).plus(DAY);
    assert_eq!(grants.list("ada", later).await.unwrap().len(), 1);
}

async fn the_mail_server_refuses_a_suspended_grant_until_it_is_resumed(fresh: Fresh) {
    const ACCEPTED: &str = "SELECT app_password_id, kind FROM mailserver_passwords WHERE kind IN ('api_token', 'oauth_grant') ORDER BY 1";
    two_grants(&fresh).await;
    let mut events = fresh.directory.hosts.events().await.unwrap();
    assert_eq!(fresh.as_mail_server(ACCEPTED).await.len(), 2);
    for _ in 0..2 {
        assert_eq!(suspend(&fresh, "t", true).await, done("t-password"));
    }
    assert_eq!(suspend(&fresh, "g", true).await, done("g-password"));
    assert!(fresh.as_mail_server(ACCEPTED).await.is_empty());
    // All hosts close the connections, each once.
    let mut closed = Vec::new();
    while closed.len() < 2 {
        closed.extend(events.next().await.unwrap());
    }
    closed.sort_by_key(|event| format!("{event:?}"));
    let expected = ["g-password", "t-password"];
    assert_eq!(
        closed,
        expected.map(|id| HostEvent::CredentialEnded(id.into()))
    );
    let token = fresh.directory.tokens.by_selector("t-selector").await;
    assert!(token.unwrap().unwrap().suspended);
    let refresh = fresh.directory.oauth.refresh_token("r", NOW).await;
    assert!(refresh.unwrap().unwrap().grant.suspended);

    assert_eq!(suspend(&fresh, "t", false).await, done("t-password"));
    assert_eq!(suspend(&fresh, "g", false).await, done("g-password"));
    assert_eq!(fresh.as_mail_server(ACCEPTED).await.len(), 2);
    let refresh = fresh.directory.oauth.refresh_token("r", NOW).await;
    assert!(!refresh.unwrap().unwrap().grant.suspended);
}

async fn only_live_grants_of_the_callers_account_are_suspended(fresh: Fresh) {
    two_grants(&fresh).await;
    let grants = &fresh.directory.grants;
    let origin = Origin::default();
    let bob = SessionCaller {
        account_id: "bob",
        sid: "bobs-session",
        at: NOW,
    };
    for id in ["t", "g"] {
        let refused = grants.set_suspended(bob, id, true, &origin).await.unwrap();
        assert_eq!(refused, Suspension::Unknown);
    }
    let ended = SessionCaller {
        sid: "another session",
        ..CALLER
    };
    let refused = grants.set_suspended(ended, "t", false, &origin).await;
    assert_eq!(refused.unwrap(), Suspension::SessionOver);
    let revoked = fresh.directory.tokens.revoke("ada", "t", NOW, &origin);
    revoked.await.unwrap();
    let ended = fresh
        .directory
        .oauth
        .end_grant("ada", "g-password", NOW, &origin);
    assert!(ended.await.unwrap());
    for id in ["t", "g", "none"] {
        assert_eq!(suspend(&fresh, id, true).await, Suspension::Unknown);
    }
}

both!(
    grants_are_listed_newest_first_and_only_to_their_owner,
    the_mail_server_refuses_a_suspended_grant_until_it_is_resumed,
    only_live_grants_of_the_callers_account_are_suspended,
    the_sessions_of_a_suspended_grant_must_end,
);
