//! Tests of access tokens, other credentials, and the keys that protect stored secrets.

use super::*;
use crate::service_credentials::ServiceCredentials;

#[tokio::test]
async fn nothing_secret_is_kept_in_the_clear() {
    let stage = Stage::new().await;
    let signed_in = stage.register("ada").await;
    let caller = stage.caller(&signed_in.tokens).await.unwrap();
    let auth = &stage.auth;
    let index = ServiceCredentials::new(
        latchmail_directory::credentials::index_keys::ServiceUse::Index,
        auth.directory.credentials.clone(),
        auth.keys(),
        stage.clock.clone(),
    );
    let mail = index.credential(&caller.account).await.unwrap().unwrap();
    let index = Caller {
        mail,
        ..caller.clone()
    };
    let file = stage.folder.join("copy.db");
    // The pool of the service cannot write.
    let url = format!("sqlite:{}/latchmail.db", stage.folder.display());
    let pool = SqlitePool::connect(&url).await.unwrap();
    sqlx::query("VACUUM INTO $1")
        .bind(file.to_str().unwrap())
        .execute(&pool)
        .await
        .unwrap();
    pool.close().await;
    let bytes = std::fs::read(file).unwrap();
    for secret in [
        PASSWORD,
        password(&caller),
        password(&index),
        signed_in.tokens.refresh.expose_secret(),
        signed_in.tokens.access.expose_secret(),
    ] {
        let found = bytes.windows(secret.len()).any(|w| w == secret.as_bytes());
        assert!(!found);
    }
    assert!(!format!("{signed_in:?} {:?} {caller:?}", stage.auth).contains("Correct1"));
}

#[tokio::test]
async fn an_access_token_is_good_for_15_minutes() {
    let stage = Stage::new().await;
    let tokens = stage.register("ada").await.tokens;
    stage.clock.advance(Duration::from_millis(15 * 60_000 - 1));
    assert!(stage.caller(&tokens).await.is_ok());
    stage.clock.advance(Duration::from_millis(1));
    let expired = answer(Kind::Unauthorized, "Invalid or expired access token");
    assert_eq!(refused(stage.caller(&tokens).await), expired);
}

#[tokio::test]
async fn a_sealed_password_moved_to_another_session_opens_nothing() {
    let stage = Stage::new().await;
    let (ada, eve) = (stage.register("ada").await, stage.register("eve").await);
    stage
        .execute(
            "UPDATE sessions SET sealed_password = (SELECT sealed_password FROM sessions s \
             JOIN accounts a ON a.id = s.account_id WHERE a.address = 'ada@a.example')",
        )
        .await;
    assert!(stage.caller(&ada.tokens).await.is_ok());
    let ended = answer(
        Kind::Unauthorized,
        "Mail session expired, please log in again",
    );
    assert_eq!(refused(stage.caller(&eve.tokens).await), ended);
}

#[tokio::test]
async fn a_new_key_on_top_keeps_sessions_and_a_lost_key_ends_them() {
    let mut stage = Stage::new().await;
    let tokens = stage.register("ada").await.tokens;
    let file = stage.folder.join("key");
    let old = std::fs::read_to_string(&file).unwrap();
    std::fs::remove_file(&file).unwrap();
    stage.again("").await;
    let new = std::fs::read_to_string(&file).unwrap();
    let invalid = answer(Kind::Unauthorized, "Invalid or expired access token");
    assert_eq!(refused(stage.caller(&tokens).await), invalid);
    std::fs::write(&file, format!("{new}{old}")).unwrap();
    stage.again("").await;
    assert!(stage.caller(&tokens).await.is_ok());
    let refreshed = stage.refresh(&tokens.refresh).await.unwrap();
    assert!(stage.caller(&refreshed).await.is_ok());
    std::fs::write(&file, new).unwrap();
    stage.again("").await;
    let ended = answer(
        Kind::Unauthorized,
        "Mail session expired, please log in again",
    );
    assert_eq!(
        refused(stage.caller(&refreshed).await),
        ended,
        "its password was sealed with the old key"
    );
}

#[tokio::test]
async fn a_credential_of_another_kind_gets_the_answer_of_its_kind() {
    let stage = Stage::new().await;
    for (header, text) in [
        ("Bearer lmk_abc", "Invalid API token"),
        ("Bearer opaque", "Invalid or expired access token"),
        (
            "Bearer eyJhbGciOiJub25lIn0.e30.",
            "Invalid or expired access token",
        ),
        ("Basic YTpi", "Missing or invalid Authorization header"),
    ] {
        assert_eq!(
            refused(stage.authenticate(header).await),
            answer(Kind::Unauthorized, text),
            "{header}"
        );
    }
}
