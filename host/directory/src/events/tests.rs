//! Tests of the record on both databases: contents, order, limits and deletion.

use std::time::Duration;

use super::*;
use crate::testing::{DAY, Fresh, NOW, both, session};

const FOREVER: Timestamp = Timestamp::from_millis(i64::MAX);

fn wanted(address: &str, limit: u32) -> EventFilter {
    EventFilter {
        address: address.into(),
        since: Timestamp::from_millis(0),
        until: FOREVER,
        limit,
    }
}

fn origin() -> Origin {
    Origin {
        actor: "ada@example.org".into(),
        credential: Some("its-password".into()),
        client: Some([192, 0, 2, 7].into()),
        request: Some("req-1".into()),
        user_agent: None,
    }
}

async fn an_event_tells_who_did_what_to_whom_and_from_where(fresh: Fresh) {
    let directory = &fresh.directory;
    directory.with("ada", "ada@example.org", &[]).await;
    let session = session("s", "ada", NOW.plus(DAY));
    directory.sessions.begin(&session, &origin()).await.unwrap();
    let events = directory.events.list(&wanted("ada@example.org", 10)).await;
    let [signed_in, made] = &events.unwrap()[..] else {
        panic!("two events");
    };
    assert_eq!(made.kind, "account_created");
    assert_eq!(signed_in.kind, "signed_in");
    assert_eq!(signed_in.at, NOW.plus(DAY).millis());
    assert_eq!(signed_in.actor, "ada@example.org");
    assert_eq!(signed_in.credential.as_deref(), Some("its-password"));
    assert_eq!(signed_in.client.as_deref(), Some("192.0.2.7"));
    assert_eq!(signed_in.request_id.as_deref(), Some("req-1"));
    assert_eq!(signed_in.subject.as_deref(), Some("s-password"));
    assert_eq!(signed_in.detail.as_deref(), Some("Firefox"));
}

async fn an_attempt_on_nobodys_address_is_recorded_under_it(fresh: Fresh) {
    let failed = Event {
        account: None,
        address: "eve@example.org",
        ..Event::of(Kind::SignInFailed, "", NOW)
    };
    let directory = &fresh.directory;
    directory
        .events
        .record(failed, &Origin::default())
        .await
        .unwrap();
    let events = directory.events.list(&wanted("eve@example.org", 10)).await;
    assert_eq!(events.unwrap()[0].kind, "sign_in_failed");
}

async fn a_list_is_of_one_account_or_all_newest_first_and_bounded(fresh: Fresh) {
    let directory = &fresh.directory;
    directory.with("ada", "ada@example.org", &["one"]).await;
    directory.with("bob", "bob@example.org", &["two"]).await;
    let kinds = async |wanted: EventFilter| {
        let events = directory.events.list(&wanted).await.unwrap();
        let kinds = events.iter().map(|e| format!("{} {}", e.address, e.kind));
        kinds.collect::<Vec<_>>()
    };
    let (ada, bob) = ("ada@example.org", "bob@example.org");
    assert_eq!(
        kinds(wanted(ada, 9)).await,
        [format!("{ada} signed_in"), format!("{ada} account_created")]
    );
    assert_eq!(
        kinds(wanted("", 3)).await,
        [
            format!("{bob} signed_in"),
            format!("{bob} account_created"),
            format!("{ada} signed_in")
        ]
    );
    let later = EventFilter {
        since: NOW.plus(DAY),
        ..wanted("", 9)
    };
    assert!(kinds(later).await.is_empty());
    directory
        .events
        .delete_events_before(NOW.plus(DAY))
        .await
        .unwrap();
    assert!(kinds(wanted("", 9)).await.is_empty());
}

async fn failures_past_the_hundredth_of_a_day_are_counted_only(fresh: Fresh) {
    let directory = &fresh.directory;
    directory.with("eve", "eve@example.org", &[]).await;
    directory.with("bob", "bob@example.org", &[]).await;
    let before = directory.events.list(&wanted("", 9)).await.unwrap();
    fresh.execute("DELETE FROM security_events").await;
    assert_eq!(before.len(), 2);
    let fail = async |address: &str, reason: &str, at: Timestamp, request: &str| {
        let account = address.split('@').next();
        let failed = Event {
            account,
            address,
            ..Event::of(Kind::SignInFailed, "", at).detail(reason)
        };
        let origin = Origin {
            request: Some(request.into()),
            ..Origin::default()
        };
        directory.events.record(failed, &origin).await.unwrap();
    };
    let (eve, wrong) = ("eve@example.org", "wrong password");
    for n in 0..157 {
        let at = Timestamp::from_millis(NOW.millis() + n);
        fail(eve, wrong, at, &n.to_string()).await;
    }
    let events = directory.events.list(&wanted(eve, 1000)).await.unwrap();
    assert_eq!(events.len(), 100);
    assert_eq!(events[0].unlisted, 57);
    assert_eq!(events[0].request_id.as_deref(), Some("156"), "the newest");
    assert_eq!(events[0].at, NOW.millis() + 156);
    assert_eq!(events[1].request_id.as_deref(), Some("98"));
    assert!(events[1..].iter().all(|event| event.unlisted == 0));

    // Another reason, another address and another day have rows of their own.
    let later = NOW.plus(Duration::from_secs(1));
    fail(eve, "wrong two-factor code", later, "a").await;
    fail("bob@example.org", wrong, later, "b").await;
    fail(eve, wrong, NOW.plus(DAY), "c").await;
    let events = directory.events.list(&wanted("", 3)).await.unwrap();
    let requests = events.iter().map(|event| event.request_id.as_deref());
    assert_eq!(
        requests.collect::<Vec<_>>(),
        [Some("c"), Some("b"), Some("a")]
    );
    assert!(events.iter().all(|event| event.unlisted == 0));
}

async fn failures_on_addresses_of_nobody_are_counted_by_network(fresh: Fresh) {
    let directory = &fresh.directory;
    let fail = async |n: i64, from: &str| {
        let at = Timestamp::from_millis(NOW.millis() + n);
        let address = format!("n{n}@example.org");
        let failed = Event {
            account: None,
            address: &address,
            ..Event::of(Kind::SignInFailed, "", at).detail("no such account")
        };
        let origin = Origin {
            client: Some(from.parse().unwrap()),
            ..Origin::default()
        };
        directory.events.record(failed, &origin).await.unwrap();
    };
    for n in 0..150 {
        fail(n, &format!("2001:db8::{n:x}")).await;
    }
    fail(150, "2001:db8:0:1::1").await;
    let events = directory.events.list(&wanted("", 1000)).await.unwrap();
    assert_eq!(events.len(), 101);
    let told = |event: &Recorded| (event.address.clone(), event.unlisted);
    assert_eq!(told(&events[0]), ("n150@example.org".into(), 0));
    assert_eq!(told(&events[1]), ("n149@example.org".into(), 50));

    // The limit applies to all networks together.
    fresh
        .execute(
            "INSERT INTO security_events (at, kind, address, actor, network) \
             WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 9899) \
             SELECT (SELECT MIN(at) FROM security_events), 'sign_in_failed', 'x@example.org', '', 'n' || i FROM n",
        )
        .await;
    let rows = "SELECT COUNT(*) FROM security_events";
    assert_eq!(fresh.number(rows).await, 10_000);
    fail(151, "192.0.2.1").await;
    fail(152, "2001:db8:0:1::1").await;
    assert_eq!(fresh.number(rows).await, 10_000);
    let events = directory.events.list(&wanted("", 1000)).await.unwrap();
    assert_eq!(told(&events[0]), ("n152@example.org".into(), 2));
}

async fn of_failures_at_once_none_is_lost(fresh: Fresh) {
    let attempts: Vec<_> = (0..160)
        .map(|_| {
            let directory = fresh.directory.clone();
            let failed = Event {
                account: None,
                address: "eve@example.org",
                ..Event::of(Kind::SignInFailed, "", NOW).detail("no such account")
            };
            tokio::spawn(async move { directory.events.record(failed, &Origin::default()).await })
        })
        .collect();
    for attempt in attempts {
        attempt.await.unwrap().unwrap();
    }
    let told = "SELECT CAST(COUNT(*) + SUM(unlisted) AS BIGINT) FROM security_events";
    assert_eq!(fresh.number(told).await, 160);
}

async fn what_is_old_is_forgotten_however_much_it_is(fresh: Fresh) {
    fresh
        .execute(
            "INSERT INTO security_events (at, kind, address, actor) \
             WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 2500) \
             SELECT i, 'signed_out', 'ada@example.org', '' FROM n",
        )
        .await;
    let before = Timestamp::from_millis(2500);
    fresh
        .directory
        .events
        .delete_events_before(before)
        .await
        .unwrap();
    let left = "SELECT COUNT(*) FROM security_events";
    assert_eq!(fresh.number(left).await, 1);
}

async fn whoever_gets_an_address_later_has_a_record_of_their_own(fresh: Fresh) {
    let directory = &fresh.directory;
    let (address, operator) = ("ada@example.org", Origin::operator());
    let told = async || {
        let events = directory.events.list(&wanted(address, 10)).await.unwrap();
        let kinds = events.into_iter().map(|event| event.kind);
        kinds.collect::<Vec<_>>()
    };
    let deleted = ["sign_in_failed", "account_deleted", "account_created"];
    let failed = Event {
        account: None,
        address,
        ..Event::of(Kind::SignInFailed, "", NOW).detail("no such account")
    };
    directory.with("first", address, &[]).await;
    directory
        .accounts
        .delete("first", NOW, &operator)
        .await
        .unwrap();
    directory
        .events
        .record(failed, &Origin::default())
        .await
        .unwrap();
    assert_eq!(told().await, deleted, "no account has it");
    directory
        .aliases
        .free_address(address, NOW, &operator)
        .await
        .unwrap();
    directory.with("second", address, &[]).await;
    assert_eq!(told().await, ["account_created", "sign_in_failed"]);
}

both!(
    whoever_gets_an_address_later_has_a_record_of_their_own,
    failures_past_the_hundredth_of_a_day_are_counted_only,
    failures_on_addresses_of_nobody_are_counted_by_network,
    of_failures_at_once_none_is_lost,
    what_is_old_is_forgotten_however_much_it_is,
    an_event_tells_who_did_what_to_whom_and_from_where,
    an_attempt_on_nobodys_address_is_recorded_under_it,
    a_list_is_of_one_account_or_all_newest_first_and_bounded,
);
