use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::time::Duration;

use super::*;
use crate::sessions::ProviderSession;
use crate::testing::{Fresh, NOW, account, both, session};
use crate::two_factor::{Factor, SignIn};

const CLIENT: IpAddr = IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1));

const ISSUER: &str = "https://id.example.org";
const PASSWORDS: &str =
    "SELECT address, app_password_id FROM mailserver_passwords ORDER BY app_password_id";

const ROWS: &str = "SELECT (SELECT COUNT(*) FROM sign_in_codes) + (SELECT COUNT(*) FROM logout_tokens) \
    + (SELECT COUNT(*) FROM provider_sign_ins)";

/// Links a person to the account `account_id`.
async fn link(fresh: &Fresh, subject: &str, account_id: &str) -> Linked {
    let new = NewIdentity {
        id: &format!("{subject}-identity"),
        issuer: ISSUER,
        subject,
        account_id,
        address: "new@example.org",
        at: NOW,
    };
    let origin = Origin::default();
    let linked = fresh.directory.single_sign_on.link_identity(new, &origin);
    linked.await.unwrap()
}

/// Begins a session of a linked person.
async fn begin(fresh: &Fresh, sid: &str, account_id: &str, identity: &str, provider_sid: &str) {
    let mut new = session(sid, account_id, NOW);
    new.provider = Some(ProviderSession {
        identity_id: identity.into(),
        sid: Some(provider_sid.into()),
        sealed_token: Some(format!("{sid} at the provider").into()),
    });
    let origin = Origin::default();
    let begun = fresh.directory.sessions.begin(&new, &origin);
    begun.await.unwrap();
}

async fn logout(
    fresh: &Fresh,
    token: &str,
    subject: Option<&str>,
    sid: Option<&str>,
) -> Option<Vec<String>> {
    let logout = ProviderLogout {
        token_hash: token,
        expires_at: NOW.plus(Duration::from_mins(2)),
        issuer: ISSUER,
        subject,
        sid,
        at: NOW,
    };
    let origin = Origin::default();
    let ended = fresh
        .directory
        .single_sign_on
        .end_provider_sessions(logout, &origin);
    ended.await.unwrap()
}

async fn people(fresh: &Fresh) {
    fresh.directory.with("a", "ada@example.org", &["p"]).await;
    fresh.directory.with("b", "bob@example.org", &[]).await;
    link(fresh, "ada", "a").await;
    link(fresh, "bob", "b").await;
    begin(fresh, "s", "a", "ada-identity", "laptop").await;
    begin(fresh, "t", "a", "ada-identity", "phone").await;
    begin(fresh, "u", "b", "bob-identity", "laptop").await;
}

async fn an_unfinished_sign_in_is_taken_once_and_before_it_expires(fresh: Fresh) {
    let directory = &fresh.directory;
    let end = NOW.plus(Duration::from_mins(10));
    for state in ["one", "two"] {
        let sealed = format!("{state}-sealed");
        let added = directory
            .single_sign_on
            .add_provider_sign_in(state, &sealed, end, CLIENT);
        added.await.unwrap();
    }
    let take = async |state, at| {
        directory
            .single_sign_on
            .take_provider_sign_in(state, at)
            .await
            .unwrap()
    };
    assert_eq!(take("one", NOW).await.as_deref(), Some("one-sealed"));
    assert_eq!(take("one", NOW).await, None);
    assert_eq!(take("two", end).await, None);
    assert_eq!(take("three", NOW).await, None);
}

async fn a_flood_displaces_only_the_sign_ins_of_its_own_network(fresh: Fresh) {
    // These sign-ins end later than the oldest one.
    const FILL: &str = "WITH RECURSIVE n(i) AS \
        (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 9997) \
        INSERT INTO provider_sign_ins (state_hash, sealed, expires_at, network, region) \
        SELECT 'flood-' || i, 's', 4070908810000 + i, '2001:db8::' || i, '2001:db8::' FROM n";
    let directory = &fresh.directory;
    let add = async |state: &str, seconds, from| {
        let end = NOW.plus(Duration::from_secs(seconds));
        let added = directory
            .single_sign_on
            .add_provider_sign_in(state, "s", end, from);
        added.await.unwrap();
    };
    // The oldest sign-in, and another one in the same small network.
    add("victim", 1, CLIENT).await;
    add("neighbor", 2, CLIENT).await;
    fresh.execute(FILL).await;
    let attacker = |last| Ipv6Addr::new(0x2001, 0xdb8, 0, last, 0, 0, 0, 1).into();
    for last in 1..=5 {
        add(&format!("attack-{last}"), 30, attacker(last)).await;
    }
    let total = fresh.number("SELECT COUNT(*) FROM provider_sign_ins").await;
    assert_eq!(total, crate::crowd::MAX_ROWS);
    let taken = directory
        .single_sign_on
        .take_provider_sign_in("victim", NOW)
        .await
        .unwrap();
    assert!(taken.is_some());
    let later =
        fresh.number("SELECT COUNT(*) FROM provider_sign_ins WHERE state_hash = 'neighbor'");
    assert_eq!(later.await, 1);
}

async fn sessions_of_the_provider_have_a_maximum_age(fresh: Fresh) {
    people(&fresh).await;
    let directory = &fresh.directory;
    let hour = Duration::from_hours(1);
    let (token, origin) = (session("s", "a", NOW).refresh_hash, Origin::service());
    let day = NOW.plus(hour * 24);
    let rotated = directory
        .sessions
        .rotate_refresh_token(&token, "next", NOW, day, hour, &origin);
    rotated.await.unwrap();
    let lives = async |sid, at| directory.sessions.find(sid, at).await.unwrap().is_some();
    assert!(lives("s", NOW).await);
    assert!(!lives("s", NOW.plus(hour)).await);
    let end = async |until| {
        let ended = directory
            .single_sign_on
            .end_old_provider_sessions(until, NOW, &origin);
        ended.await.unwrap()
    };
    assert!(end(NOW.minus(hour)).await.is_empty());
    let mut ended = end(NOW).await;
    ended.sort();
    assert_eq!(ended, ["s-password", "t-password", "u-password"]);
    assert!(lives("p", NOW).await);
}

async fn one_host_uses_the_token_of_a_session(fresh: Fresh) {
    people(&fresh).await;
    let directory = &fresh.directory;
    let due = async |until| {
        directory
            .single_sign_on
            .due_provider_sessions(until, NOW, 10)
            .await
            .unwrap()
    };
    assert!(due(NOW.minus(Duration::from_mins(1))).await.is_empty());
    let sessions = due(NOW).await;
    let ids: Vec<_> = sessions.iter().map(|session| &*session.sid).collect();
    assert_eq!(ids, ["s", "t", "u"]);
    assert_eq!(sessions[0].sealed_provider_token, b"s at the provider");
    let later = NOW.plus(Duration::from_mins(1));
    let claim = async || {
        directory
            .single_sign_on
            .claim_provider_session("s", NOW, later)
            .await
            .unwrap()
    };
    assert!(claim().await);
    assert!(!claim().await);
    directory
        .single_sign_on
        .set_provider_token("s", b"next")
        .await
        .unwrap();
    let sessions = due(later).await;
    let ids: Vec<_> = sessions.iter().map(|session| &*session.sid).collect();
    assert_eq!(ids, ["t", "u", "s"]);
    assert_eq!(sessions[2].sealed_provider_token, b"next");
    let origin = Origin::service();
    let ended = directory
        .single_sign_on
        .end_refused_provider_session("s", NOW, &origin);
    assert_eq!(ended.await.unwrap(), ["s-password"]);
    assert!(directory.sessions.find("s", NOW).await.unwrap().is_none());
}

async fn a_person_keeps_one_identity(fresh: Fresh) {
    people(&fresh).await;
    let again = link(&fresh, "ada", "a").await;
    assert_eq!(again.identity_id, "ada-identity");
    assert!(again.ended.is_empty());
    let count = fresh.number("SELECT COUNT(*) FROM identities").await;
    assert_eq!(count, 2);
}

async fn a_person_with_another_mailbox_loses_the_sessions_of_the_first_one(fresh: Fresh) {
    people(&fresh).await;
    let mut moved = link(&fresh, "ada", "b").await;
    moved.ended.sort();
    assert_eq!(moved.ended, ["s-password", "t-password"]);
    let left: Vec<String> = fresh
        .as_mail_server(PASSWORDS)
        .await
        .into_iter()
        .map(|row| row.1)
        .collect();
    assert_eq!(left, ["p-password", "u-password"]);
    let back = link(&fresh, "ada", "a").await;
    assert!(back.ended.is_empty());
}

async fn a_logout_ends_the_named_sessions_once(fresh: Fresh) {
    people(&fresh).await;
    let ended = logout(&fresh, "1", Some("ada"), Some("laptop")).await;
    assert_eq!(ended.unwrap(), ["s-password"]);
    assert_eq!(logout(&fresh, "1", Some("ada"), None).await, None);
    let ended = logout(&fresh, "2", Some("ada"), None).await;
    assert_eq!(ended.unwrap(), ["t-password"]);
    let ended = logout(&fresh, "3", None, Some("laptop")).await;
    assert_eq!(ended.unwrap(), ["u-password"]);
    let without_sessions = logout(&fresh, "4", Some("carol"), None).await;
    assert_eq!(without_sessions.unwrap(), Vec::<String>::new());
    // A session that began with a password remains.
    assert_eq!(fresh.number("SELECT COUNT(*) FROM sessions").await, 1);
}

/// Stores the code `hash` of Ada, which is valid for a minute.
async fn add_code(fresh: &Fresh, hash: &str) {
    let code = NewSignInCode {
        hash: hash.into(),
        expires_at: NOW.plus(Duration::from_mins(1)),
        content: SignInCode {
            account_id: "a".into(),
            identity_id: "ada-identity".into(),
            provider_sid: Some("laptop".into()),
            challenge: "c".into(),
            sealed_provider_token: Some(b"sealed".to_vec()),
        },
    };
    fresh
        .directory
        .single_sign_on
        .add_sign_in_code(&code)
        .await
        .unwrap();
}

async fn exchange(fresh: &Fresh, code: &str, sid: &str) -> SignIn {
    let factor = Factor::Provider {
        code: Some(code.into()),
    };
    let new = session(sid, "a", NOW);
    let hash = account("a", "").password_hash;
    let origin = Origin::default();
    let exchanged = fresh
        .directory
        .second_factors
        .sign_in(&new, &hash, &factor, &origin);
    exchanged.await.unwrap()
}

async fn a_code_begins_one_session(fresh: Fresh) {
    people(&fresh).await;
    add_code(&fresh, "code").await;
    let found = fresh
        .directory
        .single_sign_on
        .sign_in_code("code", NOW)
        .await
        .unwrap();
    let found = found.unwrap();
    assert_eq!(found.challenge, "c");
    assert_eq!(found.sealed_provider_token.as_deref(), Some(&b"sealed"[..]));
    let late = NOW.plus(Duration::from_mins(1));
    let expired = fresh
        .directory
        .single_sign_on
        .sign_in_code("code", late)
        .await
        .unwrap();
    assert_eq!(expired, None);
    assert_eq!(exchange(&fresh, "code", "x").await, SignIn::Begun);
    assert_eq!(exchange(&fresh, "code", "y").await, SignIn::CodeUsed);
    add_code(&fresh, "wrong").await;
    fresh
        .directory
        .single_sign_on
        .delete_sign_in_code("wrong")
        .await
        .unwrap();
    assert_eq!(exchange(&fresh, "wrong", "y").await, SignIn::CodeUsed);
}

async fn a_logout_and_a_disabled_account_invalidate_codes(fresh: Fresh) {
    people(&fresh).await;
    add_code(&fresh, "one").await;
    logout(&fresh, "1", None, Some("phone")).await.unwrap();
    assert!(
        fresh
            .directory
            .single_sign_on
            .sign_in_code("one", NOW)
            .await
            .unwrap()
            .is_some()
    );
    logout(&fresh, "2", None, Some("laptop")).await.unwrap();
    assert_eq!(exchange(&fresh, "one", "x").await, SignIn::CodeUsed);
    add_code(&fresh, "two").await;
    fresh
        .execute("UPDATE accounts SET active = FALSE WHERE id = 'a'")
        .await;
    assert_eq!(exchange(&fresh, "two", "x").await, SignIn::AccountChanged);
}

async fn the_time_of_the_sign_in_is_known_for_sessions_of_the_provider(fresh: Fresh) {
    people(&fresh).await;
    let at = async |sid| {
        fresh
            .directory
            .single_sign_on
            .signed_in_at_provider("a", sid)
            .await
            .unwrap()
    };
    assert_eq!(at("s").await, Some(NOW));
    assert_eq!(at("p").await, None);
    assert_eq!(at("u").await, None);
}

async fn expired_rows_are_swept(fresh: Fresh) {
    people(&fresh).await;
    add_code(&fresh, "code").await;
    logout(&fresh, "1", Some("carol"), None).await.unwrap();
    let added = fresh
        .directory
        .single_sign_on
        .add_provider_sign_in("state", "sealed", NOW, CLIENT);
    added.await.unwrap();
    assert_eq!(fresh.number(ROWS).await, 3);
    fresh.directory.sweep(NOW).await.unwrap();
    assert_eq!(fresh.number(ROWS).await, 2);
    let later = NOW.plus(Duration::from_mins(2));
    fresh.directory.sweep(later).await.unwrap();
    assert_eq!(fresh.number(ROWS).await, 0);
}

both!(
    an_unfinished_sign_in_is_taken_once_and_before_it_expires,
    a_flood_displaces_only_the_sign_ins_of_its_own_network,
    sessions_of_the_provider_have_a_maximum_age,
    one_host_uses_the_token_of_a_session,
    a_person_keeps_one_identity,
    a_person_with_another_mailbox_loses_the_sessions_of_the_first_one,
    a_logout_ends_the_named_sessions_once,
    a_code_begins_one_session,
    a_logout_and_a_disabled_account_invalidate_codes,
    the_time_of_the_sign_in_is_known_for_sessions_of_the_provider,
    expired_rows_are_swept,
);
