use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::LazyLock;
use std::time::Duration;

use futures_util::future::join_all;
use latchmail_core::caller::Origin;
use latchmail_core::clock::Timestamp;

use super::*;
use crate::Directory;
use crate::credentials::AppPasswordKind;
use crate::testing::{DAY, Fresh, NOW, both, new_app_password};
use crate::two_factor::{Factor, Person};

/// The IP address from which clients register.
const CLIENT: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);
const HOUR: Duration = Duration::from_hours(1);
const MINUTE: Duration = Duration::from_mins(1);

static ORIGIN: LazyLock<Origin> = LazyLock::new(Origin::default);

fn client(id: &str, secret_hash: Option<&str>) -> Client {
    Client {
        id: id.into(),
        name: format!("name of {id}"),
        redirect_uris: vec!["http://127.0.0.1/a".into(), "app:/b".into()],
        grant_types: vec!["authorization_code".into(), "refresh_token".into()],
        secret_hash: secret_hash.map(Into::into),
    }
}

fn code(hash: &str) -> NewCode {
    NewCode {
        hash: hash.into(),
        client_id: "c".into(),
        client_name: "name of c".into(),
        redirect_uri: "app:/b".into(),
        challenge: "challenge".into(),
        resource: "https://mail.example".into(),
        scope: "mail:read".into(),
        expires_at: NOW.plus(MINUTE),
    }
}

fn tokens(id: &str, at: Timestamp) -> NewTokens {
    let token = |kind: &str, lifetime| NewToken {
        hash: format!("{id}-{kind}"),
        sealed_password: format!("{id}-{kind}-sealed").into_bytes(),
        expires_at: at.plus(lifetime),
    };
    NewTokens {
        access: token("access", HOUR),
        refresh: token("refresh", 30 * DAY),
        narrowed: None,
    }
}

fn grant(id: &str, account: &str, at: Timestamp) -> NewGrant {
    NewGrant {
        id: id.into(),
        account_id: account.into(),
        client_id: "c".into(),
        resource: "https://mail.example".into(),
        scope: "mail:read mail:write".into(),
        app_password: new_app_password(&format!("{id}-password"), AppPasswordKind::OAuthGrant),
        tokens: tokens(id, at),
        at,
    }
}

/// Returns the password hash of an account, as `Fresh` creates it.
async fn password_hash(directory: &Directory, account: &str) -> String {
    directory
        .credentials
        .password_hash(account)
        .await
        .unwrap()
        .unwrap()
}

async fn approve(fresh: &Fresh, account: &str, approval: Approval<'_>) -> ApprovalOutcome {
    let hash = password_hash(&fresh.directory, account).await;
    let person = Person {
        account_id: account,
        password_hash: &hash,
        factor: &Factor::None,
        at: NOW,
    };
    let agreed = fresh
        .directory
        .oauth
        .approve(person, approval, &ORIGIN)
        .await;
    agreed.unwrap()
}

/// Creates a grant of ada's from a code.
async fn granted(fresh: &Fresh, id: &str) -> Exchange {
    let code = code(&format!("{id}-code"));
    let agreed = approve(fresh, "ada", Approval::Code(&code)).await;
    assert_eq!(agreed, ApprovalOutcome::Approved);
    let grant = grant(id, "ada", NOW);
    let exchanged = fresh
        .directory
        .oauth
        .exchange_code(&code.hash, &grant, &ORIGIN);
    exchanged.await.unwrap()
}

async fn lives(fresh: &Fresh, id: &str) -> bool {
    let hash = format!("{id}-access");
    let token = fresh.directory.oauth.access_token(&hash, NOW).await;
    token.unwrap().is_some()
}

async fn a_code_makes_one_grant_and_coming_again_ends_it(fresh: Fresh) {
    fresh.directory.with("ada", "ada@example.org", &[]).await;
    let made = granted(&fresh, "g").await;
    assert_eq!(made, Exchange::Granted { ended: vec![] });
    let found = fresh
        .directory
        .oauth
        .access_token("g-access", NOW)
        .await
        .unwrap();
    let found = found.unwrap();
    assert_eq!(
        found.sealed_password.as_deref(),
        Some(&b"g-access-sealed"[..])
    );
    assert_eq!(
        (&*found.grant.address, &*found.grant.app_password_id),
        ("ada@example.org", "g-password")
    );
    let over = fresh
        .directory
        .oauth
        .access_token("g-access", NOW.plus(HOUR));
    assert!(over.await.unwrap().is_none());
    // A refresh token is not an access token, and an access token is not a refresh token.
    let refresh = fresh.directory.oauth.access_token("g-refresh", NOW).await;
    assert!(refresh.unwrap().is_none());
    let again = grant("h", "ada", NOW);
    let replayed = fresh
        .directory
        .oauth
        .exchange_code("g-code", &again, &ORIGIN)
        .await
        .unwrap();
    let ended = "g-password".to_owned();
    assert_eq!(replayed, Exchange::Replayed { ended });
    assert!(!lives(&fresh, "g").await && !lives(&fresh, "h").await);
    let count = "SELECT COUNT(*) FROM app_passwords WHERE kind = 'oauth_grant'";
    assert_eq!(fresh.number(count).await, 0);
}

async fn of_many_that_exchange_a_code_at_once_none_keeps_a_grant(fresh: Fresh) {
    fresh.directory.with("ada", "ada@example.org", &[]).await;
    let code = code("code");
    approve(&fresh, "ada", Approval::Code(&code)).await;
    let grants: Vec<NewGrant> = (0..8)
        .map(|n| grant(&format!("g{n}"), "ada", NOW))
        .collect();
    let all = grants
        .iter()
        .map(|grant| fresh.directory.oauth.exchange_code("code", grant, &ORIGIN));
    let all: Vec<Exchange> = join_all(all)
        .await
        .into_iter()
        .map(Result::unwrap)
        .collect();
    let made = all.iter().filter(|e| matches!(e, Exchange::Granted { .. }));
    assert_eq!(made.count(), 1, "{all:?}");
    assert_eq!(fresh.number("SELECT COUNT(*) FROM oauth_grants").await, 0);
}

async fn a_code_is_nobodys_after_its_minute_or_once_the_password_is_another(fresh: Fresh) {
    fresh.directory.with("ada", "ada@example.org", &[]).await;
    fresh.directory.with("bob", "bob@example.org", &[]).await;
    for hash in ["late", "changed", "disabled"] {
        approve(&fresh, "ada", Approval::Code(&code(hash))).await;
    }
    let gone = async |hash: &str, account: &str, at| {
        let grant = grant("g", account, at);
        let exchanged = fresh
            .directory
            .oauth
            .exchange_code(hash, &grant, &ORIGIN)
            .await;
        exchanged.unwrap() == Exchange::Gone
    };
    assert!(gone("late", "ada", NOW.plus(MINUTE)).await);
    assert!(gone("late", "bob", NOW).await);
    assert!(gone("unknown", "ada", NOW).await);
    let directory = &fresh.directory;
    let set = directory
        .credentials
        .set_password("ada", "another", NOW, &ORIGIN)
        .await;
    set.unwrap().unwrap();
    assert!(gone("changed", "ada", NOW).await);
    approve(&fresh, "ada", Approval::Code(&code("disabled"))).await;
    directory
        .accounts
        .disable("ada", NOW, &ORIGIN)
        .await
        .unwrap();
    assert!(gone("disabled", "ada", NOW).await);
}

async fn nobody_agrees_with_a_password_that_is_another_by_now(fresh: Fresh) {
    fresh.directory.with("ada", "ada@example.org", &[]).await;
    let person = Person {
        account_id: "ada",
        password_hash: "another",
        factor: &Factor::None,
        at: NOW,
    };
    let code = code("code");
    let agreed = fresh
        .directory
        .oauth
        .approve(person, Approval::Code(&code), &ORIGIN);
    assert_eq!(agreed.await.unwrap(), ApprovalOutcome::AccountChanged);
    assert!(
        fresh
            .directory
            .oauth
            .authorization_code("code")
            .await
            .unwrap()
            .is_none()
    );
}

async fn refresh_tokens_rotate_and_one_that_comes_again_ends_the_grant(fresh: Fresh) {
    fresh.directory.with("ada", "ada@example.org", &[]).await;
    granted(&fresh, "g").await;
    let directory = &fresh.directory;
    let first = directory
        .oauth
        .refresh_token("g-refresh", NOW)
        .await
        .unwrap();
    let found = first.unwrap().grant;
    let rotated = async |hash: &str, next: &NewTokens, at| {
        let rotation = directory
            .oauth
            .rotate_grant(hash, &found, next, at, &ORIGIN);
        rotation.await.unwrap()
    };
    let later = NOW.plus(DAY);
    assert_eq!(
        rotated("g-refresh", &tokens("h", later), later).await,
        Rotation::Rotated
    );
    let used = directory
        .oauth
        .refresh_token("g-refresh", later)
        .await
        .unwrap();
    assert_eq!(used.unwrap().sealed_password, None);
    // The app password lives as long as the newest refresh token, and the expired access token is
    // deleted.
    let end = "SELECT expires_at FROM app_passwords WHERE id = 'g-password'";
    assert_eq!(fresh.number(end).await, later.plus(30 * DAY).millis());
    let access = "SELECT COUNT(*) FROM oauth_tokens WHERE kind = 'access'";
    assert_eq!(fresh.number(access).await, 1);
    assert_eq!(
        rotated("g-refresh", &tokens("i", later), later).await,
        Rotation::Reused
    );
    assert_eq!(
        rotated("h-refresh", &tokens("j", later), later).await,
        Rotation::Unknown
    );
    assert_eq!(fresh.number("SELECT COUNT(*) FROM oauth_tokens").await, 0);
}

async fn scopes_belong_to_the_grant_and_a_refresh_can_narrow_an_access_token(fresh: Fresh) {
    fresh.directory.with("ada", "ada@example.org", &[]).await;
    let directory = &fresh.directory;
    let code = code("g-code");
    approve(&fresh, "ada", Approval::Code(&code)).await;
    let agreed = directory
        .oauth
        .authorization_code(&code.hash)
        .await
        .unwrap()
        .unwrap();
    assert_eq!(agreed.scope, "mail:read");
    let grant = grant("g", "ada", NOW);
    let made = directory.oauth.exchange_code(&code.hash, &grant, &ORIGIN);
    made.await.unwrap();
    let access = async |hash: &str| directory.oauth.access_token(hash, NOW).await.unwrap();
    let refresh = async |hash: &str| directory.oauth.refresh_token(hash, NOW).await.unwrap();
    let whole = "mail:read mail:write";
    assert_eq!(access("g-access").await.unwrap().grant.scope, whole);
    let mut found = refresh("g-refresh").await.unwrap().grant;
    assert_eq!(found.scope, whole);
    for (before, next, narrowed) in [("g", "h", Some("mail:read")), ("h", "i", None)] {
        let tokens = NewTokens {
            narrowed: narrowed.map(Into::into),
            ..tokens(next, NOW)
        };
        let hash = format!("{before}-refresh");
        let rotated = directory
            .oauth
            .rotate_grant(&hash, &found, &tokens, NOW, &ORIGIN);
        assert_eq!(rotated.await.unwrap(), Rotation::Rotated);
        let token = access(&format!("{next}-access")).await.unwrap();
        assert_eq!(token.grant.scope, narrowed.unwrap_or(whole));
        found = refresh(&format!("{next}-refresh")).await.unwrap().grant;
        assert_eq!(found.scope, whole);
    }
}

async fn of_two_that_use_a_refresh_token_at_once_neither_keeps_the_grant(fresh: Fresh) {
    fresh.directory.with("ada", "ada@example.org", &[]).await;
    granted(&fresh, "g").await;
    let directory = &fresh.directory;
    let found = directory
        .oauth
        .refresh_token("g-refresh", NOW)
        .await
        .unwrap();
    let found = found.unwrap().grant;
    let (one, two) = (tokens("h", NOW), tokens("i", NOW));
    let rotate = |next| {
        directory
            .oauth
            .rotate_grant("g-refresh", &found, next, NOW, &ORIGIN)
    };
    let (one, two) = tokio::join!(rotate(&one), rotate(&two));
    let mut both = [one.unwrap(), two.unwrap()];
    both.sort_by_key(|rotation| *rotation == Rotation::Reused);
    assert_eq!(both, [Rotation::Rotated, Rotation::Reused]);
    assert_eq!(fresh.number("SELECT COUNT(*) FROM oauth_grants").await, 0);
}

fn device(name: &str) -> NewDevice {
    NewDevice {
        hash: format!("{name}-hash"),
        user_code: name.into(),
        client_id: "c".into(),
        client_name: "name of c".into(),
        resource: "https://mail.example".into(),
        scope: "mail:read".into(),
        patience: Duration::from_secs(5),
        expires_at: NOW.plus(10 * MINUTE),
    }
}

async fn a_flood_displaces_only_the_devices_of_its_own_network(fresh: Fresh) {
    // These devices expire later than the oldest one.
    const FILL: &str = "WITH RECURSIVE n(i) AS \
        (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 9997) \
        INSERT INTO oauth_devices (device_hash, user_code, client_id, client_name, resource, scope, denied, patience, expires_at, network, region) \
        SELECT 'flood-' || i, 'flood-' || i, 'c', 'c', 'r', 's', FALSE, 5000, 4070910000000 + i, '2001:db8::' || i, '2001:db8::' FROM n";
    let add = async |name: &str, minutes: u32, from| {
        let device = NewDevice {
            expires_at: NOW.plus(minutes * MINUTE),
            ..device(name)
        };
        let added = fresh.directory.oauth.add_device(&device, from);
        added.await.unwrap();
    };
    add("oldest", 10, CLIENT).await;
    fresh.execute(FILL).await;
    for last in 1..=5 {
        let attacker = Ipv6Addr::new(0x2001, 0xdb8, 0, last, 0, 0, 0, 1);
        add(&format!("attack-{last}"), 30, attacker.into()).await;
    }
    let total = fresh.number("SELECT COUNT(*) FROM oauth_devices").await;
    assert_eq!(total, crate::crowd::MAX_ROWS);
    let oldest =
        fresh.number("SELECT COUNT(*) FROM oauth_devices WHERE device_hash = 'oldest-hash'");
    assert_eq!(oldest.await, 1);
}

async fn a_device_is_told_how_it_stands_and_gets_its_grant_once(fresh: Fresh) {
    let directory = &fresh.directory;
    directory.with("ada", "ada@example.org", &[]).await;
    for name in ["one", "two", "three"] {
        directory
            .oauth
            .add_device(&device(name), CLIENT)
            .await
            .unwrap();
    }
    let poll = async |name: &str, after: u64| {
        let at = NOW.plus(Duration::from_secs(after));
        let hash = format!("{name}-hash");
        directory.oauth.poll_device(&hash, "c", at).await.unwrap()
    };
    assert_eq!(poll("one", 0).await, Poll::Pending);
    assert_eq!(poll("one", 4).await, Poll::SlowDown);
    // The device must now wait ten seconds.
    assert_eq!(poll("one", 12).await, Poll::SlowDown);
    assert_eq!(poll("one", 27).await, Poll::Pending);
    let other = directory
        .oauth
        .poll_device("one-hash", "d", NOW)
        .await
        .unwrap();
    assert_eq!(other, Poll::Unknown);
    assert!(directory.oauth.has_device("one-hash", "c").await.unwrap());
    assert!(!directory.oauth.has_device("one-hash", "d").await.unwrap());
    assert_eq!(poll("one", 600).await, Poll::Expired);
    assert!(directory.oauth.deny_device("two", NOW).await.unwrap());
    assert_eq!(poll("two", 0).await, Poll::Denied);
    assert_eq!(
        approve(&fresh, "ada", Approval::Device("two")).await,
        ApprovalOutcome::NoDevice
    );
    assert_eq!(
        approve(&fresh, "ada", Approval::Device("three")).await,
        ApprovalOutcome::Approved
    );
    assert_eq!(
        approve(&fresh, "ada", Approval::Device("three")).await,
        ApprovalOutcome::NoDevice
    );
    assert!(
        matches!(poll("three", 0).await, Poll::Approved { account_id, .. } if account_id == "ada")
    );
    let (one, two) = (grant("g", "ada", NOW), grant("h", "ada", NOW));
    let exchange = |grant| {
        directory
            .oauth
            .exchange_device("three-hash", grant, &ORIGIN)
    };
    let (one, two) = tokio::join!(exchange(&one), exchange(&two));
    let made = [one.unwrap(), two.unwrap()].into_iter().flatten();
    assert_eq!(made.count(), 1);
    assert!(!directory.oauth.deny_device("three", NOW).await.unwrap());
    // A person can deny an approved device until the device fetches its grant.
    directory
        .oauth
        .add_device(&device("four"), CLIENT)
        .await
        .unwrap();
    assert_eq!(
        approve(&fresh, "ada", Approval::Device("four")).await,
        ApprovalOutcome::Approved
    );
    assert!(directory.oauth.deny_device("four", NOW).await.unwrap());
    assert_eq!(poll("four", 0).await, Poll::Denied);
    let late = grant("i", "ada", NOW);
    let refused = directory
        .oauth
        .exchange_device("four-hash", &late, &ORIGIN)
        .await;
    assert_eq!(refused.unwrap(), None);
}

async fn the_operator_ends_a_grant_and_nothing_else_by_its_id(fresh: Fresh) {
    let directory = &fresh.directory;
    directory.with("ada", "ada@example.org", &["s"]).await;
    directory.with("bob", "bob@example.org", &[]).await;
    granted(&fresh, "g").await;
    let ended = async |account: &str, id: &str| {
        let ended = directory.oauth.end_grant(account, id, NOW, &ORIGIN);
        ended.await.unwrap()
    };
    assert!(!ended("bob", "g-password").await);
    assert!(!ended("ada", "s-password").await);
    assert!(lives(&fresh, "g").await);
    assert!(ended("ada", "g-password").await);
    assert!(!lives(&fresh, "g").await);
}

async fn an_account_has_a_hundred_grants_and_the_oldest_make_room(fresh: Fresh) {
    fresh.directory.with("ada", "ada@example.org", &[]).await;
    for n in 0..100 {
        granted(&fresh, &format!("g{n:03}")).await;
    }
    // Grants that were created at one instant are ordered by their ids.
    let made = granted(&fresh, "h").await;
    let ended = vec!["g000-password".to_owned()];
    assert_eq!(made, Exchange::Granted { ended });
    assert!(!lives(&fresh, "g000").await && lives(&fresh, "g001").await);
}

async fn what_nobody_uses_is_forgotten(fresh: Fresh) {
    let directory = &fresh.directory;
    directory.with("ada", "ada@example.org", &[]).await;
    for (id, secret) in [("c", None), ("unused", None), ("made", Some("hash"))] {
        directory
            .oauth
            .register_client(&client(id, secret), CLIENT, NOW)
            .await
            .unwrap();
    }
    granted(&fresh, "g").await;
    let kept = async |at| {
        directory.sweep(at).await.unwrap();
        let clients = directory.oauth.clients().await.unwrap();
        let mut ids: Vec<String> = clients.into_iter().map(|row| row.client.id).collect();
        ids.sort();
        ids
    };
    assert_eq!(kept(NOW).await, ["c", "made", "unused"]);
    assert_eq!(kept(NOW.plus(DAY)).await, ["c", "made"]);
    assert!(lives(&fresh, "g").await);
    assert_eq!(kept(NOW.plus(30 * DAY)).await, ["c", "made"]);
    assert_eq!(fresh.number("SELECT COUNT(*) FROM oauth_grants").await, 0);
    assert_eq!(kept(NOW.plus(91 * DAY)).await, ["made"]);
    assert_eq!(fresh.number("SELECT COUNT(*) FROM oauth_codes").await, 0);
}

async fn a_client_is_removed_with_everything_that_was_granted_to_it(fresh: Fresh) {
    let directory = &fresh.directory;
    directory.with("ada", "ada@example.org", &[]).await;
    let registered = client("c", None);
    directory
        .oauth
        .register_client(&registered, CLIENT, NOW)
        .await
        .unwrap();
    assert_eq!(directory.oauth.client("c").await.unwrap(), Some(registered));
    granted(&fresh, "g").await;
    approve(&fresh, "ada", Approval::Code(&code("late"))).await;
    let removed = async || {
        directory
            .oauth
            .remove_client("c", NOW, &ORIGIN)
            .await
            .unwrap()
    };
    assert_eq!(removed().await, Some(vec!["g-password".to_owned()]));
    assert!(!lives(&fresh, "g").await);
    assert_eq!(removed().await, None);
    let late = grant("h", "ada", NOW);
    let late = directory.oauth.exchange_code("late", &late, &ORIGIN).await;
    assert_eq!(late.unwrap(), Exchange::Gone);
}

both!(
    a_code_makes_one_grant_and_coming_again_ends_it,
    of_many_that_exchange_a_code_at_once_none_keeps_a_grant,
    a_code_is_nobodys_after_its_minute_or_once_the_password_is_another,
    nobody_agrees_with_a_password_that_is_another_by_now,
    refresh_tokens_rotate_and_one_that_comes_again_ends_the_grant,
    scopes_belong_to_the_grant_and_a_refresh_can_narrow_an_access_token,
    of_two_that_use_a_refresh_token_at_once_neither_keeps_the_grant,
    a_flood_displaces_only_the_devices_of_its_own_network,
    a_device_is_told_how_it_stands_and_gets_its_grant_once,
    the_operator_ends_a_grant_and_nothing_else_by_its_id,
    an_account_has_a_hundred_grants_and_the_oldest_make_room,
    what_nobody_uses_is_forgotten,
    a_client_is_removed_with_everything_that_was_granted_to_it,
);
