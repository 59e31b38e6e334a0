//! Tests of sign-in, refresh and sign-out.

use super::*;

#[tokio::test]
async fn whoever_is_not_the_active_owner_of_the_password_gets_one_answer() {
    let stage = Stage::new().await;
    stage.register("ada").await;
    assert!(stage.sign_in("ada@a.example", PASSWORD).await.is_ok());
    let invalid = answer(Kind::Unauthorized, "Invalid credentials");
    assert_eq!(
        refused(stage.sign_in("ada@a.example", "correct1").await),
        invalid
    );
    assert_eq!(
        refused(stage.sign_in("eve@a.example", PASSWORD).await),
        invalid
    );
    stage.execute("UPDATE accounts SET active = FALSE").await;
    assert_eq!(
        refused(stage.sign_in("ada@a.example", PASSWORD).await),
        invalid
    );
}

#[tokio::test]
async fn without_a_mail_server_the_right_password_is_told_to_wait_and_nothing_begins() {
    let down = FakeMailServer {
        down: true,
        ..FakeMailServer::default()
    };
    let stage = Stage::with(down).await;
    stage.register("ada").await;
    let (status, text) = refused(stage.sign_in("ada@a.example", PASSWORD).await);
    assert_eq!(
        (status, text.as_str()),
        (
            Kind::Unavailable,
            "Mail server is initializing, please try again in a moment"
        )
    );
    let invalid = answer(Kind::Unauthorized, "Invalid credentials");
    assert_eq!(
        refused(stage.sign_in("ada@a.example", "Wrong111").await),
        invalid
    );
    assert_eq!(stage.texts("SELECT sid FROM sessions").await.len(), 1);
}

#[tokio::test]
async fn refreshing_keeps_the_session_and_its_app_password() {
    let stage = Stage::new().await;
    let first = stage.register("ada").await.tokens;
    let before = stage.caller(&first).await.unwrap();
    let second = stage.refresh(&first.refresh).await.unwrap();
    let after = stage.caller(&second).await.unwrap();
    assert_eq!(after.credential, before.credential);
    assert_eq!(after.mail.id, before.mail.id);
    assert!(
        stage.caller(&first).await.is_ok(),
        "the first access token lives out its time"
    );
}

#[tokio::test]
async fn a_refresh_token_is_good_once() {
    let stage = Stage::new().await;
    let first = stage.register("ada").await.tokens;
    let second = stage.refresh(&first.refresh).await.unwrap();
    let bad = answer(Kind::Unauthorized, "Invalid or expired refresh token");
    stage.clock.advance(Duration::from_secs(10));
    assert_eq!(refused(stage.refresh(&first.refresh).await), bad);
    assert!(stage.caller(&second).await.is_ok(), "a retry does no harm");
    stage.clock.advance(Duration::from_secs(1));
    assert_eq!(refused(stage.refresh(&first.refresh).await), bad);
    let ended = answer(
        Kind::Unauthorized,
        "Mail session expired, please log in again",
    );
    assert_eq!(
        refused(stage.caller(&second).await),
        ended,
        "a thief's use ends the session"
    );
    assert_eq!(refused(stage.refresh(&second.refresh).await), bad);
    assert_eq!(refused(stage.refresh(&"unknown".into()).await), bad);
}

#[tokio::test(flavor = "multi_thread")]
async fn of_two_refreshes_at_once_one_wins_and_the_session_lives() {
    let stage = Stage::new().await;
    let tokens = stage.register("ada").await.tokens;
    let origin = Origin::default();
    let (one, other) = tokio::join!(
        stage.auth.sessions.refresh(&tokens.refresh, &origin),
        stage.auth.sessions.refresh(&tokens.refresh, &origin)
    );
    let (winner, loser) = if one.is_ok() {
        (one, other)
    } else {
        (other, one)
    };
    assert_eq!(
        refused(loser),
        answer(Kind::Unauthorized, "Invalid or expired refresh token")
    );
    let winner = winner.unwrap();
    assert!(stage.caller(&winner).await.is_ok());
    assert!(stage.refresh(&winner.refresh).await.is_ok());
}

#[tokio::test]
async fn a_session_lives_for_30_days_after_its_last_refresh() {
    let stage = Stage::new().await;
    let tokens = stage.register("ada").await.tokens;
    stage.clock.advance(days(29));
    let tokens = stage.refresh(&tokens.refresh).await.unwrap();
    stage.clock.advance(days(29));
    let tokens = stage.refresh(&tokens.refresh).await.unwrap();
    stage.clock.advance(days(30));
    let bad = answer(Kind::Unauthorized, "Invalid or expired refresh token");
    assert_eq!(refused(stage.refresh(&tokens.refresh).await), bad);
}

#[tokio::test]
async fn signing_out_ends_every_web_session_of_the_account_and_no_other() {
    let stage = Stage::new().await;
    let ada = stage.register("ada").await.tokens;
    let elsewhere = stage
        .sign_in("ada@a.example", PASSWORD)
        .await
        .unwrap()
        .tokens;
    let eve = stage.register("eve").await.tokens;
    let account = stage.caller(&ada).await.unwrap().account;
    let bad = answer(Kind::Unauthorized, "Invalid or expired refresh token");
    for foreign in [&eve.refresh, &"unknown".into()] {
        assert_eq!(
            refused(
                stage
                    .auth
                    .sessions
                    .sign_out(&account, foreign, Origin::default())
                    .await
            ),
            bad
        );
    }
    assert!(stage.caller(&ada).await.is_ok());
    stage
        .auth
        .sessions
        .sign_out(&account, &elsewhere.refresh, Origin::default())
        .await
        .unwrap();
    let ended = answer(
        Kind::Unauthorized,
        "Mail session expired, please log in again",
    );
    assert_eq!(refused(stage.caller(&ada).await), ended);
    assert_eq!(refused(stage.caller(&elsewhere).await), ended);
    assert_eq!(refused(stage.refresh(&ada.refresh).await), bad);
    assert!(stage.caller(&eve).await.is_ok());
    assert_eq!(stage.texts("SELECT id FROM app_passwords").await.len(), 1);
    assert_eq!(
        stage.mail_server.ended().len(),
        2,
        "the sessions at the mail server end too"
    );
}
