use futures_util::future::join_all;

use super::*;
use crate::testing::{DAY, Fresh, NOW, both};

const EXAMPLE: &str = "ada.example";
const DOMAINS: &str = "SELECT domain, domain FROM mailserver_domains ORDER BY domain";
const ALIASES: &str = "SELECT address, destination FROM mailserver_aliases ORDER BY address";

fn by(account_id: &str) -> DomainCaller<'_> {
    DomainCaller {
        account_id,
        sid: None,
        at: NOW,
    }
}

fn keys(selector: &str) -> NewKeys {
    NewKeys {
        public: PublicKey {
            selector: selector.into(),
            key: "public".into(),
        },
        sealed_private_key: b"sealed".to_vec(),
    }
}

/// Creates the accounts `ada` and `bob`.
async fn two(fresh: &Fresh) {
    for name in ["ada", "bob"] {
        let address = format!("{name}@example.org");
        fresh.directory.with(name, &address, &[]).await;
    }
}

async fn claim(fresh: &Fresh, account: &str, name: &str, at_most: u32) -> Claimed {
    let challenge = format!("{account}s-challenge");
    let origin = Origin::default();
    let claimed = fresh
        .directory
        .domains
        .claim(by(account), name, &challenge, at_most, &origin);
    claimed.await.unwrap()
}

async fn verify(fresh: &Fresh, account: &str, name: &str) -> Verified {
    let challenge = format!("{account}s-challenge");
    let (keys, origin) = (keys(account), Origin::default());
    let verified = fresh
        .directory
        .domains
        .activate(by(account), name, &challenge, &keys, &origin);
    verified.await.unwrap()
}

async fn release(fresh: &Fresh, account: &str, name: &str) -> Released {
    let origin = Origin::default();
    let directory = &fresh.directory;
    let released = directory
        .domains
        .release(by(account), name, Remaining::Keep, &origin);
    released.await.unwrap()
}

async fn events(fresh: &Fresh, address: &str) -> Vec<String> {
    let wanted = events::EventFilter {
        address: address.into(),
        since: Timestamp::from_millis(0),
        until: Timestamp::from_millis(i64::MAX),
        limit: 100,
    };
    let events = fresh.directory.events.list(&wanted).await.unwrap();
    let told = events.into_iter().rev().map(|event| event.kind);
    told.filter(|kind| kind.starts_with("domain")).collect()
}

async fn a_claim_is_pending_and_stands_when_it_is_repeated(fresh: Fresh) {
    two(&fresh).await;
    let Claimed::New(domain) = claim(&fresh, "ada", EXAMPLE, 5).await else {
        panic!("a fresh claim");
    };
    assert_eq!(domain.challenge, "adas-challenge");
    assert_eq!((domain.verified_at, &domain.dkim), (None, &None));
    // The plan's limit may have changed since the claim.
    for at_most in [5, 1, 0] {
        let again = claim(&fresh, "ada", EXAMPLE, at_most).await;
        assert_eq!(again, Claimed::Existing(domain.clone()));
    }
    assert_eq!(
        fresh.directory.domains.find("ada", EXAMPLE).await.unwrap(),
        Some(domain)
    );
    assert_eq!(
        fresh.directory.domains.find("bob", EXAMPLE).await.unwrap(),
        None
    );
    assert!(fresh.as_mail_server(DOMAINS).await.is_empty());
    assert_eq!(events(&fresh, "ada@example.org").await, ["domain_claimed"]);
}

async fn of_claims_side_by_side_the_first_to_be_verified_wins(fresh: Fresh) {
    two(&fresh).await;
    for account in ["ada", "bob"] {
        assert!(matches!(
            claim(&fresh, account, EXAMPLE, 5).await,
            Claimed::New(_)
        ));
    }
    let Verified::Active(domain) = verify(&fresh, "bob", EXAMPLE).await else {
        panic!("bob was first");
    };
    assert_eq!(domain.verified_at, Some(NOW));
    assert_eq!(domain.dkim.as_ref().unwrap().selector, "bob");
    assert_eq!(
        fresh.directory.domains.find("bob", EXAMPLE).await.unwrap(),
        Some(domain.clone())
    );
    assert_eq!(
        fresh.directory.domains.find("ada", EXAMPLE).await.unwrap(),
        None
    );
    assert_eq!(verify(&fresh, "ada", EXAMPLE).await, Verified::Taken);
    let claims = fresh.directory.domains.claims(EXAMPLE).await.unwrap();
    let owners: Vec<&str> = claims.iter().map(|claim| claim.owner.as_str()).collect();
    assert_eq!(owners, ["bob@example.org"]);
    assert_eq!(claim(&fresh, "ada", EXAMPLE, 5).await, Claimed::Taken);
    // A second verification changes nothing, in particular not the keys.
    assert_eq!(
        verify(&fresh, "bob", EXAMPLE).await,
        Verified::Active(domain)
    );
    assert_eq!(fresh.as_mail_server(DOMAINS).await.len(), 1);
    assert_eq!(
        events(&fresh, "ada@example.org").await,
        ["domain_claimed", "domain_claim_voided"]
    );
    assert_eq!(
        events(&fresh, "bob@example.org").await,
        ["domain_claimed", "domain_verified"]
    );
}

async fn of_many_that_verify_at_once_one_wins(fresh: Fresh) {
    let accounts: Vec<String> = (0..8).map(|n| format!("a{n}")).collect();
    for account in &accounts {
        let address = format!("{account}@example.org");
        fresh.directory.with(account, &address, &[]).await;
        claim(&fresh, account, EXAMPLE, 5).await;
    }
    let verified = join_all(accounts.iter().map(|a| verify(&fresh, a, EXAMPLE))).await;
    let won = |v: &&Verified| matches!(v, Verified::Active(_));
    assert_eq!(verified.iter().filter(won).count(), 1);
    assert!(verified.iter().all(|v| won(&v) || *v == Verified::Taken));
    let rows = "SELECT COUNT(*) FROM domains";
    assert_eq!(fresh.number(rows).await, 1);
}

async fn a_claim_that_was_made_anew_is_not_verified_by_the_old_challenge(fresh: Fresh) {
    two(&fresh).await;
    claim(&fresh, "ada", EXAMPLE, 5).await;
    let (keys, origin) = (keys("s"), Origin::default());
    let stale = fresh
        .directory
        .domains
        .activate(by("ada"), EXAMPLE, "another", &keys, &origin);
    assert_eq!(stale.await.unwrap(), Verified::Gone);
    release(&fresh, "ada", EXAMPLE).await;
    assert_eq!(verify(&fresh, "ada", EXAMPLE).await, Verified::Gone);
}

async fn a_plan_counts_what_is_pending_too_also_at_once(fresh: Fresh) {
    two(&fresh).await;
    let names: Vec<String> = (0..12).map(|n| format!("d{n}.example")).collect();
    let claimed = join_all(names.iter().map(|name| claim(&fresh, "ada", name, 3))).await;
    let fresh_ones = claimed.iter().filter(|c| matches!(c, Claimed::New(_)));
    assert_eq!(fresh_ones.count(), 3);
    assert_eq!(
        claimed.iter().filter(|c| **c == Claimed::Full).count(),
        names.len() - 3
    );
    let held = fresh.directory.domains.list("ada").await.unwrap();
    assert_eq!(held.len(), 3);
    verify(&fresh, "ada", &held[0].name).await;
    assert_eq!(claim(&fresh, "ada", EXAMPLE, 3).await, Claimed::Full);
    release(&fresh, "ada", &held[1].name).await;
    assert!(matches!(
        claim(&fresh, "ada", EXAMPLE, 3).await,
        Claimed::New(_)
    ));
    assert!(matches!(
        claim(&fresh, "bob", EXAMPLE, 3).await,
        Claimed::New(_)
    ));
}

async fn domains_are_listed_newest_first_and_only_to_their_owner(fresh: Fresh) {
    two(&fresh).await;
    let origin = Origin::default();
    for (day, name) in ["first.example", "second.example"].iter().enumerate() {
        let by = DomainCaller {
            at: NOW.plus(DAY * u32::try_from(day).unwrap()),
            ..by("ada")
        };
        let claimed = fresh.directory.domains.claim(by, name, "c", 5, &origin);
        claimed.await.unwrap();
    }
    claim(&fresh, "bob", "bobs.example", 5).await;
    let listed = fresh.directory.domains.list("ada").await.unwrap();
    let names: Vec<&str> = listed.iter().map(|domain| domain.name.as_str()).collect();
    assert_eq!(names, ["second.example", "first.example"]);
}

async fn the_platforms_domains_cannot_be_claimed_whatever_the_configuration_says(fresh: Fresh) {
    two(&fresh).await;
    fresh
        .execute(
            "INSERT INTO platform_domains (domain) VALUES ('platform.example');
             INSERT INTO addresses (address, kind, account_id) VALUES ('bob@once.example', 'alias', 'bob');
             INSERT INTO addresses (address, kind, account_id) VALUES ('ada@own.example', 'alias', 'ada')",
        )
        .await;
    for name in ["platform.example", "example.org", "once.example"] {
        assert_eq!(
            claim(&fresh, "ada", name, 0).await,
            Claimed::Platform,
            "{name}"
        );
    }
    assert!(matches!(
        claim(&fresh, "ada", "own.example", 5).await,
        Claimed::New(_)
    ));
    // The domain becomes a platform domain while the claim is pending.
    claim(&fresh, "ada", EXAMPLE, 5).await;
    fresh
        .execute("INSERT INTO platform_domains (domain) VALUES ('ada.example')")
        .await;
    assert_eq!(verify(&fresh, "ada", EXAMPLE).await, Verified::Platform);
}

async fn what_others_had_on_a_domain_is_free_for_whoever_verifies_it(fresh: Fresh) {
    two(&fresh).await;
    fresh
        .execute(
            "INSERT INTO addresses (address, kind, account_id, live) VALUES \
             ('info@ada.example', 'alias', 'bob', FALSE), ('x@ada.example', 'alias', 'deleted', FALSE), \
             ('mine@ada.example', 'alias', 'ada', FALSE), ('list@ada.example', 'held', NULL, TRUE), \
             ('was@ada.example', 'account', 'deleted', FALSE), ('info@other.example', 'alias', 'bob', FALSE)",
        )
        .await;
    claim(&fresh, "ada", EXAMPLE, 5).await;
    let rows = "SELECT COUNT(*) FROM addresses WHERE domain LIKE '%.example'";
    assert_eq!(fresh.number(rows).await, 6, "a claim alone changes nothing");
    verify(&fresh, "ada", EXAMPLE).await;
    let kept = "SELECT COUNT(*) FROM addresses WHERE address IN \
        ('mine@ada.example', 'list@ada.example', 'was@ada.example', 'info@other.example')";
    assert_eq!((fresh.number(rows).await, fresh.number(kept).await), (4, 4));
}

async fn aliases_on_a_domain_go_with_it_where_that_is_wanted(fresh: Fresh) {
    two(&fresh).await;
    fresh.domain("ada", EXAMPLE, true).await;
    fresh
        .execute(
            "INSERT INTO addresses (address, kind, account_id, live, active) VALUES \
             ('off@ada.example', 'alias', 'ada', TRUE, FALSE), ('gone@ada.example', 'alias', 'ada', FALSE, TRUE), \
             ('on@ada.example', 'alias', 'ada', TRUE, TRUE), ('list@ada.example', 'held', NULL, TRUE, FALSE), \
             ('else@else.example', 'alias', 'ada', TRUE, TRUE)",
        )
        .await;
    let operator = Origin::operator();
    let released =
        fresh
            .directory
            .domains
            .release(by("ada"), EXAMPLE, Remaining::Delete, &operator);
    assert_eq!(released.await.unwrap(), Released::Released);
    let rows = "SELECT COUNT(*) FROM addresses WHERE domain = 'ada.example'";
    assert_eq!(fresh.number(rows).await, 1, "what the operator holds");
    assert_eq!(fresh.number("SELECT COUNT(*) FROM domains").await, 0);
    let read = fresh.as_mail_server(ALIASES).await;
    assert!(
        read.iter()
            .all(|(address, _)| !address.ends_with("@ada.example"))
    );
    let other = "SELECT COUNT(*) FROM addresses WHERE address = 'else@else.example' AND live";
    assert_eq!(fresh.number(other).await, 1);
    let recorded = "SELECT COUNT(*) FROM security_events WHERE kind = 'alias_deleted' AND actor = 'operator' \
        AND subject IN ('on@ada.example', 'off@ada.example')";
    assert_eq!(fresh.number(recorded).await, 2);
    assert_eq!(events(&fresh, "ada@example.org").await, ["domain_released"]);
}

async fn whoever_has_verified_a_domain_keeps_it_whatever_is_claimed_beside(fresh: Fresh) {
    two(&fresh).await;
    claim(&fresh, "ada", EXAMPLE, 5).await;
    fresh.domain("bob", EXAMPLE, true).await;
    assert_eq!(verify(&fresh, "ada", EXAMPLE).await, Verified::Taken);
    let active = fresh.directory.domains.find("bob", EXAMPLE).await.unwrap();
    assert!(active.unwrap().verified_at.is_some());
}

async fn what_others_had_on_the_platforms_domain_is_kept_whoever_releases_it(fresh: Fresh) {
    two(&fresh).await;
    fresh.domain("ada", EXAMPLE, true).await;
    fresh
        .execute(
            "INSERT INTO platform_domains (domain) VALUES ('ada.example');
             INSERT INTO addresses (address, kind, account_id, live) VALUES \
             ('info@ada.example', 'alias', 'bob', FALSE), ('x@ada.example', 'alias', 'deleted', FALSE), \
             ('mine@ada.example', 'alias', 'ada', FALSE)",
        )
        .await;
    assert_eq!(release(&fresh, "ada", EXAMPLE).await, Released::Released);
    let rows = "SELECT COUNT(*) FROM addresses WHERE domain = 'ada.example'";
    assert_eq!(fresh.number(rows).await, 3);

    // The same applies to a domain that belongs only to an account.
    fresh.domain("ada", "other.example", true).await;
    fresh
        .execute(
            "INSERT INTO addresses (address, kind, account_id, live) VALUES \
             ('info@other.example', 'alias', 'bob', FALSE), ('mine@other.example', 'alias', 'ada', FALSE)",
        )
        .await;
    assert_eq!(
        release(&fresh, "ada", "other.example").await,
        Released::Released
    );
    let rows = "SELECT COUNT(*) FROM addresses WHERE address = 'info@other.example'";
    assert_eq!(fresh.number(rows).await, 1);
    let rows = "SELECT COUNT(*) FROM addresses WHERE domain = 'other.example'";
    assert_eq!(fresh.number(rows).await, 1);
}

async fn a_domain_with_aliases_stays_and_a_released_one_leaves_nothing(fresh: Fresh) {
    two(&fresh).await;
    claim(&fresh, "ada", EXAMPLE, 5).await;
    verify(&fresh, "ada", EXAMPLE).await;
    fresh
        .execute(
            "INSERT INTO addresses (address, kind, account_id, live, active) VALUES \
             ('off@ada.example', 'alias', 'ada', TRUE, FALSE), ('gone@ada.example', 'alias', 'ada', FALSE, TRUE), \
             ('on@ada.example', 'alias', 'ada', TRUE, TRUE), ('list@ada.example', 'held', NULL, TRUE, FALSE), \
             ('else@else.example', 'alias', 'ada', TRUE, TRUE)",
        )
        .await;
    assert_eq!(fresh.as_mail_server(ALIASES).await.len(), 1);
    assert_eq!(release(&fresh, "ada", EXAMPLE).await, Released::HasAliases);
    fresh
        .execute("UPDATE addresses SET live = FALSE WHERE address = 'on@ada.example'")
        .await;
    // A disabled alias is still an alias.
    assert_eq!(release(&fresh, "ada", EXAMPLE).await, Released::HasAliases);
    fresh
        .execute("UPDATE addresses SET live = FALSE WHERE address = 'off@ada.example'")
        .await;
    assert_eq!(release(&fresh, "bob", EXAMPLE).await, Released::Unknown);
    assert_eq!(release(&fresh, "ada", EXAMPLE).await, Released::Released);
    assert_eq!(release(&fresh, "ada", EXAMPLE).await, Released::Unknown);
    let rows = "SELECT COUNT(*) FROM addresses WHERE domain = 'ada.example'";
    assert_eq!(fresh.number(rows).await, 1, "what the operator holds");
    assert!(fresh.as_mail_server(DOMAINS).await.is_empty());
    assert_eq!(fresh.number("SELECT COUNT(*) FROM domains").await, 0);
    assert_eq!(
        events(&fresh, "ada@example.org").await,
        ["domain_claimed", "domain_verified", "domain_released"]
    );
    claim(&fresh, "bob", EXAMPLE, 5).await;
    assert!(matches!(
        verify(&fresh, "bob", EXAMPLE).await,
        Verified::Active(_)
    ));
}

async fn a_claim_that_is_given_up_leaves_addresses_as_they_are(fresh: Fresh) {
    two(&fresh).await;
    fresh
        .execute(
            "INSERT INTO addresses (address, kind, account_id, live) VALUES ('info@ada.example', 'alias', 'bob', FALSE)",
        )
        .await;
    claim(&fresh, "ada", EXAMPLE, 5).await;
    assert_eq!(release(&fresh, "ada", EXAMPLE).await, Released::Released);
    let rows = "SELECT COUNT(*) FROM addresses WHERE domain = 'ada.example'";
    assert_eq!(fresh.number(rows).await, 1);
}

async fn nothing_is_done_for_a_session_that_ended(fresh: Fresh) {
    two(&fresh).await;
    let origin = Origin::default();
    let over = DomainCaller {
        sid: Some("over"),
        ..by("ada")
    };
    let directory = &fresh.directory;
    let claimed = directory
        .domains
        .claim(over, EXAMPLE, "c", 5, &origin)
        .await;
    assert_eq!(claimed.unwrap(), Claimed::SessionOver);
    claim(&fresh, "ada", EXAMPLE, 5).await;
    let keys = keys("s");
    let verified = directory
        .domains
        .activate(over, EXAMPLE, "adas-challenge", &keys, &origin);
    assert_eq!(verified.await.unwrap(), Verified::SessionOver);
    let released = directory
        .domains
        .release(over, EXAMPLE, Remaining::Delete, &origin);
    assert_eq!(released.await.unwrap(), Released::SessionOver);
}

async fn the_domains_of_a_deleted_account_are_free(fresh: Fresh) {
    two(&fresh).await;
    claim(&fresh, "ada", EXAMPLE, 5).await;
    verify(&fresh, "ada", EXAMPLE).await;
    let operator = Origin::operator();
    let deleted = fresh.directory.accounts.delete("ada", NOW, &operator).await;
    assert!(deleted.unwrap());
    assert!(fresh.as_mail_server(DOMAINS).await.is_empty());
    claim(&fresh, "bob", EXAMPLE, 5).await;
    assert!(matches!(
        verify(&fresh, "bob", EXAMPLE).await,
        Verified::Active(_)
    ));
}

#[test]
fn sealed_keys_are_not_shown() {
    assert!(!format!("{:?}", keys("s")).contains("115"));
}

both!(
    a_claim_is_pending_and_stands_when_it_is_repeated,
    of_claims_side_by_side_the_first_to_be_verified_wins,
    of_many_that_verify_at_once_one_wins,
    a_claim_that_was_made_anew_is_not_verified_by_the_old_challenge,
    a_plan_counts_what_is_pending_too_also_at_once,
    domains_are_listed_newest_first_and_only_to_their_owner,
    the_platforms_domains_cannot_be_claimed_whatever_the_configuration_says,
    what_others_had_on_a_domain_is_free_for_whoever_verifies_it,
    aliases_on_a_domain_go_with_it_where_that_is_wanted,
    whoever_has_verified_a_domain_keeps_it_whatever_is_claimed_beside,
    what_others_had_on_the_platforms_domain_is_kept_whoever_releases_it,
    a_domain_with_aliases_stays_and_a_released_one_leaves_nothing,
    a_claim_that_is_given_up_leaves_addresses_as_they_are,
    nothing_is_done_for_a_session_that_ended,
    the_domains_of_a_deleted_account_are_free,
);
