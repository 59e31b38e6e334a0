use std::pin::pin;
use std::task::{Context, Poll, Waker};

use super::*;
use crate::clock::Timestamp;
use crate::error::Kind;

const START: i64 = 1_795_161_600_000;

/// Returns the output of a future that never waits.
pub(super) fn done<T>(future: impl Future<Output = T>) -> T {
    let mut context = Context::from_waker(Waker::noop());
    match pin!(future).poll(&mut context) {
        Poll::Ready(output) => output,
        Poll::Pending => panic!("the future waits"),
    }
}

fn limits() -> (Limits, Clock) {
    let clock = Clock::manual(Timestamp::from_millis(START));
    let limits = Limits::new(&config::Limits::default(), clock.clone()).unwrap();
    (limits, clock)
}

fn session(sid: &str) -> Key {
    Key::Session(sid.into())
}

#[test]
fn a_whole_minutes_budget_may_be_spent_at_once_and_no_more() {
    let (limits, _) = limits();
    for left in (0..60).rev() {
        let status = done(limits.check(Bucket::Mail, &session("a")));
        assert_eq!((status.remaining, status.retry_after), (left, None));
    }
    let status = done(limits.check(Bucket::Mail, &session("a")));
    assert_eq!(
        status,
        RateLimitStatus {
            limit: 60,
            remaining: 0,
            reset: START / 1000 + 60,
            retry_after: Some(1),
        }
    );
}

#[test]
fn a_client_that_waits_as_long_as_it_was_told_is_served() {
    let (limits, clock) = limits();
    for _ in 0..5 {
        assert!(
            done(limits.check(Bucket::SignIn, &session("a")))
                .admit()
                .is_ok()
        );
    }
    let refused = done(limits.check(Bucket::SignIn, &session("a")));
    assert_eq!(refused.retry_after, Some(12));
    clock.advance(Duration::from_secs(12));
    assert!(
        done(limits.check(Bucket::SignIn, &session("a")))
            .admit()
            .is_ok()
    );
    assert!(
        done(limits.check(Bucket::SignIn, &session("a")))
            .admit()
            .is_err()
    );
    clock.advance(Duration::from_mins(1));
    assert_eq!(
        done(limits.check(Bucket::SignIn, &session("a"))).remaining,
        4
    );
}

#[test]
fn nobody_is_told_to_come_back_at_once() {
    let (limits, clock) = limits();
    for _ in 0..120 {
        let _ = done(limits.check(Bucket::Mcp, &session("a")));
    }
    // The next request is accepted after half a second, but the header has whole seconds.
    assert_eq!(
        done(limits.check(Bucket::Mcp, &session("a"))).retry_after,
        Some(1)
    );
    clock.advance(Duration::from_secs(1));
    assert_eq!(
        done(limits.check(Bucket::Mcp, &session("a"))).retry_after,
        None
    );
}

#[test]
fn one_credential_cannot_spend_anothers_budget_nor_one_bucket_anothers() {
    let (limits, _) = limits();
    for _ in 0..20 {
        let _ = done(limits.check(Bucket::Search, &session("a")));
    }
    assert!(
        done(limits.check(Bucket::Search, &session("a")))
            .admit()
            .is_err()
    );
    assert!(
        done(limits.check(Bucket::Search, &session("b")))
            .admit()
            .is_ok()
    );
    let token = Key::ApiToken("a".into());
    assert!(done(limits.check(Bucket::Search, &token)).admit().is_ok());
    assert!(
        done(limits.check(Bucket::Mail, &session("a")))
            .admit()
            .is_ok()
    );
}

#[test]
fn a_client_is_an_ipv4_address_or_a_network_of_ipv6() {
    let key = |text: &str| Key::client(text.parse().unwrap());
    assert!(key("2001:db8:1:2::1") == key("2001:db8:1:2:ffff::9"));
    assert!(key("2001:db8:1:2::1") != key("2001:db8:1:3::1"));
    assert!(key("192.0.2.1") == key("::ffff:192.0.2.1"));
    assert!(key("192.0.2.1") != key("192.0.2.2"));
}

#[test]
fn strangers_use_up_their_own_attempts_on_an_address_and_not_the_owners() {
    let (limits, _) = limits();
    let attempt = |network: u8, known| {
        done(limits.sign_in_attempt("A@example.org", [192, 0, 2, network].into(), known))
    };
    for _ in 0..5 {
        drop(attempt(1, false).ok().unwrap());
    }
    let failure = attempt(1, false).err().unwrap();
    assert!(matches!(failure.kind, Kind::RateLimited(_)));
    done(attempt(2, false).ok().unwrap().succeeded());
    for network in 10..29 {
        for _ in 0..5 {
            drop(attempt(network, false).ok().unwrap());
        }
    }
    assert!(attempt(2, false).is_err(), "100 from all networks");
    assert!(attempt(2, true).is_ok());
    assert!(attempt(1, true).is_err());
}

#[test]
fn the_networks_of_one_site_do_not_lock_out_other_networks() {
    let (limits, _) = limits();
    let attempt = |client: &str| {
        done(limits.sign_in_attempt("a@example.org", client.parse().unwrap(), false))
    };
    let mut started = 0;
    for network in 0..100 {
        for _ in 0..5 {
            let client = format!("2001:db8:1:{network:x}::1");
            started += usize::from(attempt(&client).map(drop).is_ok());
        }
    }
    assert_eq!(started, 20);
    assert!(attempt("2001:db8:2::1").is_ok());
    assert!(attempt("192.0.2.1").is_ok());
}

#[test]
fn keys_whose_budget_is_whole_again_are_forgotten() {
    let (limits, clock) = limits();
    for client in 0..1000_u32 {
        let _ = done(limits.check(
            Bucket::Public,
            &Key::client(IpAddr::from(client.to_be_bytes())),
        ));
    }
    assert_eq!(limits.remembered(), 1000);
    clock.advance(Duration::from_secs(61));
    let _ = done(limits.check(Bucket::Public, &session("a")));
    assert_eq!(limits.remembered(), 1);
}

#[test]
fn a_flood_of_clients_shares_what_is_left_and_takes_no_more_memory() {
    let (limits, clock) = limits();
    let client = |n: u32| Key::client(IpAddr::from((0x0a00_0000 + n).to_be_bytes()));
    let flood = u32::try_from(MAX_KEYS).unwrap();
    for n in 0..flood + 1000 {
        let _ = done(limits.check(Bucket::SignIn, &client(n)));
    }
    assert!(
        limits.remembered() <= MAX_KEYS + 10,
        "{}",
        limits.remembered()
    );
    let neighbours = done(limits.check(Bucket::SignIn, &client(flood + 2000)));
    assert!(neighbours.admit().is_err(), "its region's budget is spent");
    let elsewhere = Key::client([192, 0, 2, 1].into());
    assert!(
        done(limits.check(Bucket::SignIn, &elsewhere))
            .admit()
            .is_ok()
    );
    let known = done(limits.check(Bucket::SignIn, &session("a")));
    assert_eq!(
        known.remaining, 4,
        "a credential has its own, however many come"
    );
    clock.advance(Duration::from_mins(1));
    assert_eq!(done(limits.check(Bucket::SignIn, &client(1))).remaining, 4);
}

#[test]
fn a_limit_of_nothing_is_refused_by_name() {
    let config = config::Limits {
        search: 0,
        ..config::Limits::default()
    };
    let error = Limits::new(&config, Clock::system()).unwrap_err();
    assert!(error.to_string().contains("limits.search"));
}

#[test]
fn a_reload_changes_limits_and_keeps_the_budgets_of_other_buckets() {
    let (limits, _) = limits();
    let _ = done(limits.check(Bucket::Mail, &session("a")));
    let _ = done(limits.check(Bucket::Search, &session("a")));
    let changed = config::Limits {
        search: 7,
        sign_in_address: 1,
        ..config::Limits::default()
    };
    limits.reload(&changed).unwrap();
    assert_eq!(
        done(limits.check(Bucket::Mail, &session("a"))).remaining,
        58
    );
    assert_eq!(done(limits.check(Bucket::Search, &session("a"))).limit, 7);
    let attempt = || done(limits.sign_in_attempt("a@example.org", [192, 0, 2, 1].into(), false));
    drop(attempt().ok().unwrap());
    assert!(attempt().is_err());
    let invalid = config::Limits {
        mail: 5,
        admin: 0,
        ..config::Limits::default()
    };
    limits.reload(&invalid).unwrap_err();
    assert_eq!(done(limits.check(Bucket::Mail, &session("a"))).limit, 60);
}

#[test]
fn buckets_are_the_configurations_keys() {
    assert_eq!(Bucket::named("app_passwords"), Some(Bucket::AppPasswords));
    assert_eq!(Bucket::named("mial"), None);
}

#[test]
fn rejected_requests_are_counted_for_each_bucket() {
    // No other test of this crate reaches the limit of this bucket.
    let name = Bucket::Registration.name();
    let before = rejections(name);
    let (limits, clock) = limits();
    clock.advance(Duration::from_secs(7));
    for _ in 0..6 {
        done(limits.check(Bucket::Registration, &session("a")));
    }
    let expected = Rejections {
        count: before.count + 3.0,
        last_at: Some(Timestamp::from_millis(START + 7000)),
    };
    assert_eq!(rejections(name), expected);
    let none = Rejections {
        count: 0.0,
        last_at: None,
    };
    assert_eq!(rejections(Bucket::Readiness.name()), none);
    assert_eq!(limits.per_minute(Bucket::SignIn), 5);
    assert_eq!(limits.sign_in_address_per_minute(), 5);
}
