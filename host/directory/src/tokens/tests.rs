use futures_util::future::join_all;

use super::*;
use crate::credentials::AppPasswordKind;
use crate::testing::{DAY, Fresh, NOW, both, new_app_password};

fn token(id: &str, account_id: &str, at: Timestamp) -> NewToken {
    NewToken {
        id: id.into(),
        account_id: account_id.into(),
        label: format!("label of {id}"),
        scopes: vec![Scope::MailRead, Scope::ProfileRead],
        selector: format!("{id}-selector"),
        secret_hash: format!("{id}-hash"),
        hint: "wxyz".into(),
        app_password: new_app_password(&format!("{id}-password"), AppPasswordKind::ApiToken),
        sealed_password: b"sealed".to_vec(),
        created_at: at,
        expires_at: Some(at.plus(DAY)),
    }
}

async fn kept(fresh: &Fresh, tokens: &[NewToken]) {
    for token in tokens {
        let origin = Origin::default();
        let sid = format!("{}s-session", token.account_id);
        let made = fresh
            .directory
            .tokens
            .create(&sid, token, 20, &origin)
            .await;
        assert_eq!(made.unwrap(), CredentialCreation::Created);
    }
}

async fn a_token_is_found_by_its_selector_with_what_it_may_do(fresh: Fresh) {
    fresh
        .directory
        .with("ada", "ada@example.org", &["adas-session"])
        .await;
    kept(&fresh, &[token("t", "ada", NOW)]).await;
    let found = fresh.directory.tokens.by_selector("t-selector").await;
    let found = found.unwrap().unwrap();
    assert_eq!((&*found.id, &*found.address), ("t", "ada@example.org"));
    assert_eq!(found.scopes, [Scope::MailRead, Scope::ProfileRead]);
    assert_eq!(
        found.app_password,
        Some(("t-password".into(), b"sealed".to_vec()))
    );
    assert_eq!(found.expires_at, Some(NOW.plus(DAY)));
    assert!(!found.revoked);
    let unknown = fresh.directory.tokens.by_selector("x-selector").await;
    assert!(unknown.unwrap().is_none());
}

async fn tokens_are_listed_newest_first_and_only_to_their_owner(fresh: Fresh) {
    fresh
        .directory
        .with("ada", "ada@example.org", &["adas-session"])
        .await;
    fresh
        .directory
        .with("bob", "bob@example.org", &["bobs-session"])
        .await;
    let tokens = [
        token("first", "ada", NOW),
        token("second", "ada", NOW.plus(DAY)),
        token("bobs", "bob", NOW),
    ];
    kept(&fresh, &tokens).await;
    let listed = fresh.directory.tokens.list("ada").await.unwrap();
    let ids: Vec<&str> = listed.iter().map(|token| token.id.as_str()).collect();
    assert_eq!(ids, ["second", "first"]);
    assert_eq!(listed[0].label, "label of second");
    assert_eq!(listed[0].last_used_at, None);
}

async fn revoking_ends_a_token_and_its_app_password_and_may_be_repeated(fresh: Fresh) {
    let directory = &fresh.directory;
    directory
        .with("ada", "ada@example.org", &["adas-session"])
        .await;
    directory
        .with("bob", "bob@example.org", &["bobs-session"])
        .await;
    kept(&fresh, &[token("t", "ada", NOW)]).await;
    let origin = Origin::default();
    let revoke = async |account: &'static str| {
        directory
            .tokens
            .revoke(account, "t", NOW, &origin)
            .await
            .unwrap()
    };
    assert_eq!(revoke("bob").await, Revocation::Unknown);
    let app_password_id = Some("t-password".to_owned());
    assert_eq!(revoke("ada").await, Revocation::Revoked { app_password_id });
    assert_eq!(revoke("ada").await, Revocation::Already);
    let found = directory.tokens.by_selector("t-selector").await;
    let found = found.unwrap().unwrap();
    assert!(found.revoked && found.app_password.is_none());
    assert!(directory.tokens.list("ada").await.unwrap().is_empty());
    let left = "SELECT COUNT(*) FROM app_passwords WHERE kind = 'api_token'";
    assert_eq!(fresh.number(left).await, 0);
    let sealed = "SELECT COUNT(*) FROM api_tokens WHERE sealed_password IS NOT NULL";
    assert_eq!(fresh.number(sealed).await, 0);
}

async fn of_many_made_at_once_no_more_are_kept_than_there_is_room_for(fresh: Fresh) {
    fresh
        .directory
        .with("ada", "ada@example.org", &["adas-session"])
        .await;
    let tokens: Vec<NewToken> = (0..8)
        .map(|n| token(&format!("t{n}"), "ada", NOW))
        .collect();
    let origin = Origin::default();
    let made = tokens.iter().map(|token| {
        fresh
            .directory
            .tokens
            .create("adas-session", token, 3, &origin)
    });
    let made = join_all(made).await;
    let kept = made
        .into_iter()
        .filter(|made| *made.as_ref().unwrap() == CredentialCreation::Created);
    assert_eq!(kept.count(), 3);
    assert_eq!(fresh.directory.tokens.list("ada").await.unwrap().len(), 3);
}

async fn of_revoked_tokens_the_newest_are_remembered(fresh: Fresh) {
    fresh
        .directory
        .with("ada", "ada@example.org", &["adas-session"])
        .await;
    fresh
        .execute(
            "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 1000) \
             INSERT INTO api_tokens (id, account_id, label, scopes, selector, secret_hash, hint, created_at, revoked_at) \
             SELECT 'old' || i, 'ada', '', '', 'old' || i, '', '', 0, i FROM n",
        )
        .await;
    kept(&fresh, &[token("t", "ada", NOW)]).await;
    let origin = Origin::default();
    let revoked = fresh
        .directory
        .tokens
        .revoke("ada", "t", NOW, &origin)
        .await;
    revoked.unwrap();
    let found = async |selector: &'static str| {
        let found = fresh.directory.tokens.by_selector(selector).await;
        found.unwrap().is_some()
    };
    assert!(!found("old1").await);
    assert!(found("old2").await && found("t-selector").await);
}

async fn a_session_that_is_over_makes_none(fresh: Fresh) {
    let directory = &fresh.directory;
    directory
        .with("ada", "ada@example.org", &["adas-session"])
        .await;
    directory
        .with("bob", "bob@example.org", &["bobs-session"])
        .await;
    let token = token("t", "ada", NOW);
    for sid in ["over", "bobs-session"] {
        let made = directory
            .tokens
            .create(sid, &token, 20, &Origin::default())
            .await;
        assert_eq!(made.unwrap(), CredentialCreation::SessionOver);
    }
    fresh.execute("UPDATE accounts SET active = FALSE").await;
    let origin = Origin::default();
    let made = directory
        .tokens
        .create("adas-session", &token, 20, &origin)
        .await;
    assert_eq!(made.unwrap(), CredentialCreation::SessionOver);
}

both!(
    a_session_that_is_over_makes_none,
    a_token_is_found_by_its_selector_with_what_it_may_do,
    tokens_are_listed_newest_first_and_only_to_their_owner,
    revoking_ends_a_token_and_its_app_password_and_may_be_repeated,
    of_many_made_at_once_no_more_are_kept_than_there_is_room_for,
    of_revoked_tokens_the_newest_are_remembered,
);
