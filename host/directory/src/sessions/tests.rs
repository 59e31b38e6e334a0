use super::*;
use crate::testing::{DAY, Fresh, MONTH, NOW, both, session};

/// The maximum age of sessions that began at the identity provider.
const MAX_AGE: Duration = MONTH;

const PASSWORDS: &str =
    "SELECT address, app_password_id FROM mailserver_passwords ORDER BY app_password_id";

async fn rotate(directory: &Directory, presented: &str, next: &str, now: Timestamp) -> Rotation {
    directory
        .sessions
        .rotate_refresh_token(
            presented,
            next,
            now,
            now.plus(MONTH),
            MAX_AGE,
            &Origin::default(),
        )
        .await
        .unwrap()
}

async fn lives(directory: &Directory, sid: &str, now: Timestamp) -> bool {
    directory.sessions.find(sid, now).await.unwrap().is_some()
}

async fn a_session_is_read_until_it_ends(fresh: Fresh) {
    fresh.directory.with("a", "ada@example.org", &["s"]).await;
    let found = fresh
        .directory
        .sessions
        .find("s", NOW)
        .await
        .unwrap()
        .unwrap();
    assert_eq!((found.sid.as_str(), found.account_id.as_str()), ("s", "a"));
    assert_eq!(found.address, "ada@example.org");
    assert_eq!(found.app_password_id, "s-password");
    assert_eq!(found.sealed_password, b"sealed");
    assert!(!found.admin);

    let end = NOW.plus(MONTH);
    assert!(
        lives(
            &fresh.directory,
            "s",
            Timestamp::from_millis(end.millis() - 1)
        )
        .await
    );
    assert!(!lives(&fresh.directory, "s", end).await);
    assert!(!lives(&fresh.directory, "other", NOW).await);
}

async fn a_session_of_an_account_that_is_not_active_is_none(fresh: Fresh) {
    fresh.directory.with("a", "ada@example.org", &["s"]).await;
    fresh.execute("UPDATE accounts SET active = FALSE").await;
    assert!(!lives(&fresh.directory, "s", NOW).await);
    let rotation = rotate(&fresh.directory, "s-1", "s-2", NOW).await;
    assert!(matches!(rotation, Rotation::Unknown), "{rotation:?}");
    assert_eq!(fresh.as_mail_server(PASSWORDS).await, []);
}

async fn a_refresh_token_is_good_once(fresh: Fresh) {
    fresh.directory.with("a", "ada@example.org", &["s"]).await;
    let later = NOW.plus(DAY);
    let rotation = rotate(&fresh.directory, "s-1", "s-2", later).await;
    let Rotation::Rotated(session) = rotation else {
        panic!("{rotation:?}");
    };
    assert_eq!(session.sid, "s");
    assert_eq!(session.sealed_password, b"sealed");
    // The end of the session and the end of its app password were moved.
    assert!(lives(&fresh.directory, "s", NOW.plus(MONTH)).await);
    let end = fresh.number("SELECT expires_at FROM app_passwords").await;
    assert_eq!(end, later.plus(MONTH).millis());

    let again = rotate(&fresh.directory, "s-1", "s-3", later).await;
    assert!(matches!(again, Rotation::UsedJustNow), "{again:?}");
    let next = rotate(&fresh.directory, "s-2", "s-4", later).await;
    assert!(matches!(next, Rotation::Rotated(_)), "{next:?}");
}

async fn a_second_use_within_ten_seconds_leaves_the_session(fresh: Fresh) {
    fresh.directory.with("a", "ada@example.org", &["s"]).await;
    rotate(&fresh.directory, "s-1", "s-2", NOW).await;
    let again = rotate(&fresh.directory, "s-1", "s-3", NOW.plus(REUSE_GRACE)).await;
    assert!(matches!(again, Rotation::UsedJustNow), "{again:?}");
    assert!(lives(&fresh.directory, "s", NOW).await);
}

async fn a_later_second_use_ends_the_session_and_its_app_password(fresh: Fresh) {
    fresh
        .directory
        .with("a", "ada@example.org", &["s", "t"])
        .await;
    rotate(&fresh.directory, "s-1", "s-2", NOW).await;
    let later = NOW.plus(REUSE_GRACE + Duration::from_millis(1));
    let again = rotate(&fresh.directory, "s-1", "s-3", later).await;
    let Rotation::Stolen { app_password_id } = again else {
        panic!("{again:?}");
    };
    assert_eq!(app_password_id, "s-password");
    assert!(!lives(&fresh.directory, "s", NOW).await);
    assert!(lives(&fresh.directory, "t", NOW).await);
    for token in ["s-1", "s-2"] {
        let rotation = rotate(&fresh.directory, token, "s-9", later).await;
        assert!(matches!(rotation, Rotation::Unknown), "{rotation:?}");
    }
    let left = fresh.as_mail_server(PASSWORDS).await;
    assert_eq!(left, [("ada@example.org".into(), "t-password".into())]);
}

async fn a_refresh_token_of_an_ended_session_is_unknown(fresh: Fresh) {
    fresh.directory.with("a", "ada@example.org", &["s"]).await;
    for (token, now) in [("s-1", NOW.plus(MONTH)), ("never-made", NOW)] {
        let rotation = rotate(&fresh.directory, token, "s-2", now).await;
        assert!(matches!(rotation, Rotation::Unknown), "{rotation:?}");
    }
}

async fn a_used_token_past_its_own_end_no_longer_ends_the_session(fresh: Fresh) {
    fresh.directory.with("a", "ada@example.org", &["s"]).await;
    rotate(&fresh.directory, "s-1", "s-2", NOW.plus(DAY)).await;
    let rotation = rotate(&fresh.directory, "s-1", "s-3", NOW.plus(MONTH)).await;
    assert!(matches!(rotation, Rotation::Unknown), "{rotation:?}");
    assert!(lives(&fresh.directory, "s", NOW.plus(MONTH)).await);
}

async fn of_parallel_rotations_of_one_token_one_is_rotated(fresh: Fresh) {
    fresh.directory.with("a", "ada@example.org", &["s"]).await;
    let contenders: Vec<_> = (0..8)
        .map(|n| {
            let directory = fresh.directory.clone();
            tokio::spawn(async move { rotate(&directory, "s-1", &format!("next-{n}"), NOW).await })
        })
        .collect();
    let mut rotated = 0;
    for contender in contenders {
        match contender.await.unwrap() {
            Rotation::Rotated(_) => rotated += 1,
            Rotation::UsedJustNow => {}
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(rotated, 1);
    assert!(lives(&fresh.directory, "s", NOW).await);
    assert_eq!(fresh.number("SELECT COUNT(*) FROM refresh_tokens").await, 2);
}

async fn concurrent_log_outs_and_refreshes_leave_no_session_and_do_not_fail(fresh: Fresh) {
    for round in 0..10 {
        let (a, b) = (format!("r{round}-a"), format!("r{round}-b"));
        let account = format!("account-{round}");
        let address = format!("{account}@example.org");
        fresh.directory.with(&account, &address, &[&a, &b]).await;
        let refresh = |sid: &str| {
            let (directory, sid) = (fresh.directory.clone(), sid.to_owned());
            tokio::spawn(async move {
                rotate(&directory, &format!("{sid}-1"), &format!("{sid}-2"), NOW).await
            })
        };
        let logout = |sid: &str| {
            let (directory, account) = (fresh.directory.clone(), account.clone());
            let token = format!("{sid}-1");
            tokio::spawn(async move {
                directory
                    .sessions
                    .end(&account, &token, NOW, &Origin::default())
                    .await
                    .unwrap()
            })
        };
        let refreshes = [refresh(&a), refresh(&b)];
        let logouts = [logout(&b), logout(&a)];
        for refresh in refreshes {
            refresh.await.unwrap();
        }
        let mut ended = 0;
        for logout in logouts {
            ended += usize::from(logout.await.unwrap().is_some());
        }
        let alive = usize::from(lives(&fresh.directory, &a, NOW).await)
            + usize::from(lives(&fresh.directory, &b, NOW).await);
        // Either a logout preceded the refresh of its token and ended both sessions, or both tokens
        // were used first.
        assert_eq!((ended, alive), if ended == 1 { (1, 0) } else { (0, 2) });
    }
}

async fn logout_ends_every_session_of_the_account_and_no_other(fresh: Fresh) {
    fresh
        .directory
        .with("a", "ada@example.org", &["s", "t"])
        .await;
    fresh.directory.with("b", "bob@example.org", &["u"]).await;
    fresh
        .execute(
            "INSERT INTO app_passwords (id, account_id, kind, label, selector, secret_hash, created_at)
             VALUES ('phone', 'a', 'app_password', 'Phone', 'phone-selector', 'x', 0)",
        )
        .await;
    let ended = fresh
        .directory
        .sessions
        .end("a", "s-1", NOW, &Origin::default())
        .await;
    let mut ended = ended.unwrap().unwrap();
    ended.sort();
    assert_eq!(ended, ["s-password", "t-password"]);
    for (sid, expected) in [("s", false), ("t", false), ("u", true)] {
        assert_eq!(lives(&fresh.directory, sid, NOW).await, expected, "{sid}");
    }
    let left: Vec<String> = fresh
        .as_mail_server(PASSWORDS)
        .await
        .into_iter()
        .map(|row| row.1)
        .collect();
    assert_eq!(left, ["phone", "u-password"]);
}

async fn logout_takes_a_live_token_of_the_same_account_only(fresh: Fresh) {
    fresh
        .directory
        .with("a", "ada@example.org", &["s", "t"])
        .await;
    fresh.directory.with("b", "bob@example.org", &["u"]).await;
    rotate(&fresh.directory, "t-1", "t-2", NOW).await;
    for (token, now) in [
        ("u-1", NOW),
        ("t-1", NOW),
        ("never-made", NOW),
        ("s-1", NOW.plus(MONTH)),
    ] {
        let ended = fresh
            .directory
            .sessions
            .end("a", token, now, &Origin::default())
            .await;
        assert_eq!(ended.unwrap(), None, "{token}");
    }
    assert_eq!(fresh.number("SELECT COUNT(*) FROM sessions").await, 3);
}

async fn a_sweep_forgets_what_is_over_and_nothing_else(fresh: Fresh) {
    fresh
        .directory
        .with("a", "ada@example.org", &["s", "t"])
        .await;
    fresh.directory.with("b", "bob@example.org", &["u"]).await;
    rotate(&fresh.directory, "t-1", "t-2", NOW.plus(DAY)).await;
    let end = NOW.plus(MONTH);
    assert_eq!(
        fresh.directory.sweep(NOW).await.unwrap(),
        Vec::<String>::new()
    );

    let mut swept = fresh.directory.sweep(end).await.unwrap();
    swept.sort();
    assert_eq!(swept, ["s-password", "u-password"]);
    assert!(lives(&fresh.directory, "t", end).await);
    assert_eq!(fresh.number("SELECT COUNT(*) FROM sessions").await, 1);
    assert_eq!(fresh.number("SELECT COUNT(*) FROM app_passwords").await, 1);
    assert_eq!(fresh.number("SELECT COUNT(*) FROM refresh_tokens").await, 1);
    let next = rotate(&fresh.directory, "t-2", "t-3", end).await;
    assert!(matches!(next, Rotation::Rotated(_)), "{next:?}");
}

async fn an_account_has_a_hundred_sessions_and_the_longest_idle_end_first(fresh: Fresh) {
    let directory = &fresh.directory;
    directory.with("ada", "ada@example.org", &[]).await;
    directory.with("bob", "bob@example.org", &["bobs"]).await;
    fresh
        .execute(
            "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 100) \
             INSERT INTO app_passwords (id, account_id, kind, label, selector, secret_hash, created_at) \
             SELECT 'p' || i, 'ada', 'web_session', '', 'p' || i, '', 0 FROM n; \
             INSERT INTO sessions (sid, account_id, app_password_id, sealed_password, created_at, expires_at) \
             SELECT 's' || id, 'ada', id, (SELECT sealed_password FROM sessions WHERE sid = 'bobs'), 0, \
                 4070908800000 + CAST(substr(id, 2) AS BIGINT) FROM app_passwords WHERE account_id = 'ada'",
        )
        .await;
    let one_more = session("one-more", "ada", NOW);
    directory
        .sessions
        .begin(&one_more, &Origin::default())
        .await
        .unwrap();
    let lives =
        async |sid: &'static str| directory.sessions.find(sid, NOW).await.unwrap().is_some();
    assert!(!lives("sp1").await, "the longest idle");
    assert!(lives("sp2").await && lives("sp100").await && lives("one-more").await);
    assert!(lives("bobs").await);
}

async fn a_session_keeps_its_thousand_newest_used_refresh_tokens(fresh: Fresh) {
    let directory = &fresh.directory;
    directory.with("a", "ada@example.org", &["s", "t"]).await;
    fresh
        .execute(
            "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 1000) \
             INSERT INTO refresh_tokens (hash, sid, created_at, expires_at, used_at) \
             SELECT 'old' || i, 's', 0, 4102444800000, i FROM n",
        )
        .await;
    rotate(directory, "s-1", "s-2", NOW.plus(DAY)).await;
    let used = "SELECT COUNT(*) FROM refresh_tokens WHERE sid = 's' AND used_at IS NOT NULL";
    assert_eq!(fresh.number(used).await, 1000);
    let later = NOW.plus(DAY);
    let forgotten = rotate(directory, "old1", "x", later).await;
    assert!(matches!(forgotten, Rotation::Unknown), "{forgotten:?}");
    let stolen = rotate(directory, "old2", "x", later).await;
    assert!(matches!(stolen, Rotation::Stolen { .. }), "{stolen:?}");
}

both!(
    a_session_keeps_its_thousand_newest_used_refresh_tokens,
    an_account_has_a_hundred_sessions_and_the_longest_idle_end_first,
    a_session_is_read_until_it_ends,
    a_session_of_an_account_that_is_not_active_is_none,
    a_refresh_token_is_good_once,
    a_second_use_within_ten_seconds_leaves_the_session,
    a_later_second_use_ends_the_session_and_its_app_password,
    a_refresh_token_of_an_ended_session_is_unknown,
    a_used_token_past_its_own_end_no_longer_ends_the_session,
    of_parallel_rotations_of_one_token_one_is_rotated,
    concurrent_log_outs_and_refreshes_leave_no_session_and_do_not_fail,
    logout_ends_every_session_of_the_account_and_no_other,
    logout_takes_a_live_token_of_the_same_account_only,
    a_sweep_forgets_what_is_over_and_nothing_else,
);

#[test]
fn debug_output_shows_no_secret_and_no_hash_of_one() {
    let new = session("s", "a", NOW);
    let found = Session {
        sid: "s".into(),
        account_id: "a".into(),
        address: "ada@example.org".into(),
        admin: false,
        app_password_id: "s-password".into(),
        sealed_password: b"sealed".to_vec(),
    };
    let shown = format!("{new:?} {:?}", Rotation::Rotated(found));
    for secret in ["s-hash", "s-1", "sealed", "115, 101"] {
        assert!(!shown.contains(secret), "{secret} in {shown}");
    }
}
