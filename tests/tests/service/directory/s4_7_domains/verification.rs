//! Verification of a claim: the TXT record in all its forms, cached results, and DNS servers that fail or are slow.

use std::time::Duration;

use futures_util::future::join_all;
use latchmail_tests::{Nameserver, Service, Setup};
use serde_json::Value;

use super::{EXAMPLE, MEMORY, MISSING, UNKNOWN, World, claim, list, read, release, text, verify};

const UNREADABLE: &str = "Couldn't read DNS right now, try again shortly";

#[tokio::test]
async fn a_failed_check_is_cached_for_thirty_seconds() {
    let world = World::start().await;
    let service = &world.service;
    let (ada, bob) = (service.person("ada").await, service.person("bob").await);
    let claimed = claim(&ada, EXAMPLE).await.succeeds(201);
    let others = claim(&bob, EXAMPLE).await.succeeds(201);
    let host = text(&claimed["verification"], "host");
    verify(&ada, EXAMPLE).await.fails(400, MISSING);
    let asked = world.dns.asked(host);
    assert!(asked > 0);

    world.proves(&claimed);
    verify(&ada, EXAMPLE).await.fails(400, MISSING);
    verify(&ada, "ADA.Example.").await.fails(400, MISSING);
    service.clock.advance(Duration::from_millis(29_999));
    verify(&ada, EXAMPLE).await.fails(400, MISSING);
    assert_eq!(world.dns.asked(host), asked, "no lookup");
    // The cached result applies only to this account and this domain.
    world
        .dns
        .txts(host, &[text(&others["verification"], "value")]);
    let other = claim(&ada, "other.example").await.succeeds(201);
    world.proves(&other);
    verify(&ada, "other.example").await.succeeds(200);
    world.proves(&claimed);
    service.clock.advance(Duration::from_millis(1));
    verify(&ada, EXAMPLE).await.succeeds(200);
    assert!(world.dns.asked(host) > asked);
    verify(&bob, EXAMPLE).await.fails(404, UNKNOWN);
}

#[tokio::test]
async fn concurrent_checks_of_one_claim_cause_one_lookup() {
    let world = World::start().await;
    let ada = world.service.person("ada").await;
    let claimed = claim(&ada, EXAMPLE).await.succeeds(201);
    let host = text(&claimed["verification"], "host");
    let answers = join_all((0..8).map(|_| verify(&ada, EXAMPLE))).await;
    for answer in answers {
        answer.fails(400, MISSING);
    }
    let looks = world.dns.asked(host);
    world.service.clock.advance(MEMORY);
    verify(&ada, EXAMPLE).await.fails(400, MISSING);
    assert_eq!(world.dns.asked(host), 2 * looks);
}

#[tokio::test]
async fn a_published_value_is_accepted_in_every_notation() {
    let world = World::start().await;
    let service = &world.service;
    let ada = service.person("ada").await;
    let claimed = claim(&ada, EXAMPLE).await.succeeds(201);
    let (host, value) = (
        text(&claimed["verification"], "host"),
        text(&claimed["verification"], "value"),
    );
    let missing = async || {
        verify(&ada, EXAMPLE).await.fails(400, MISSING);
        service.clock.advance(MEMORY);
    };
    // The name exists without TXT records; then with similar values.
    world.dns.a(host);
    missing().await;
    for nearly in [
        "",
        "latchmail-verify=",
        &value.to_uppercase(),
        &format!("{value}x"),
        &format!("x{value}"),
        &value[..value.len() - 1],
        &value.replace("latchmail-verify=", ""),
    ] {
        world.dns.txts(host, &[nearly]);
        missing().await;
    }
    // A record at the domain itself does not count.
    world.dns.clear();
    world.dns.txt(EXAMPLE, &[value]);
    missing().await;
    world.dns.clear();
    world.proves(&claimed);
    verify(&ada, EXAMPLE).await.succeeds(200);
}

/// Publishes a value at a name.
type Publish<'a> = &'a dyn Fn(&str, &str);

#[tokio::test]
async fn a_proof_can_be_split_quoted_or_among_other_records() {
    let world = World::with("plans.default.custom_domains = 100").await;
    let ada = world.service.person("ada").await;
    let dns = &world.dns;
    let publish: [(&str, Publish<'_>); 5] = [
        ("in two strings", &|host, value| {
            let (first, second) = value.split_at(20);
            dns.txt(host, &[first, second]);
        }),
        ("beside others", &|host, value| {
            dns.txts(host, &["v=spf1 -all", value, "anything"]);
        }),
        ("in quotes", &|host, value| {
            dns.txt(host, &[&format!("\"{value}\"")]);
        }),
        ("behind an alias", &|host, value| {
            dns.cname(host, "proofs.elsewhere.example");
            dns.txt("proofs.elsewhere.example", &[value]);
        }),
        ("too long for UDP", &|host, value| {
            let noise = "x".repeat(250);
            let mut all = vec![noise.as_str(); 20];
            all.push(value);
            dns.txts(host, &all);
        }),
    ];
    for (number, (how, publish)) in publish.into_iter().enumerate() {
        let domain = format!("d{number}.example");
        let claimed = claim(&ada, &domain).await.succeeds(201);
        let wanted = &claimed["verification"];
        publish(text(wanted, "host"), text(wanted, "value"));
        let answer = verify(&ada, &domain).await;
        assert_eq!(answer.status, 200, "{how}: {}", answer.json);
    }
}

#[tokio::test]
async fn a_missing_record_differs_from_one_that_cannot_be_read() {
    let world = World::start().await;
    let service = &world.service;
    let ada = service.person("ada").await;
    let claimed = claim(&ada, EXAMPLE).await.succeeds(201);
    let host = text(&claimed["verification"], "host");
    let unreadable = async |how: &str| {
        let answer = verify(&ada, EXAMPLE).await;
        assert_eq!(answer.status, 503, "{how}: {}", answer.json);
        answer.fails(503, UNREADABLE);
        assert!(answer.header("retry-after").is_some());
        let read = read(&ada, EXAMPLE).await.succeeds(200);
        assert_eq!(read["status"], "pending_verification");
    };
    world.dns.servfail(host);
    unreadable("SERVFAIL").await;
    world.dns.silent(host);
    unreadable("no answer").await;
    // Neither result is cached.
    world.dns.clear();
    world.proves(&claimed);
    verify(&ada, EXAMPLE).await.succeeds(200);
}

#[tokio::test]
async fn concurrent_checks_of_an_unreadable_record_cause_one_lookup() {
    let world = World::with("dns.timeout = 2").await;
    let ada = world.service.person("ada").await;
    let claimed = claim(&ada, EXAMPLE).await.succeeds(201);
    let host = text(&claimed["verification"], "host");
    world.dns.silent(host);
    verify(&ada, EXAMPLE).await.fails(503, UNREADABLE);
    let looks = world.dns.asked(host);
    for answer in join_all((0..8).map(|_| verify(&ada, EXAMPLE))).await {
        answer.fails(503, UNREADABLE);
    }
    // The number of queries per lookup varies: about five or six.
    let more = world.dns.asked(host) - looks;
    assert!(2 * more < 3 * looks, "one looked for all: {looks}, {more}");
}

#[tokio::test]
async fn waiting_for_a_slow_dns_server_does_not_delay_other_accounts() {
    let world = World::with("modules.domains.concurrency = 8\ndns.timeout = 6").await;
    let service = &world.service;
    let (ada, bob) = (service.person("ada").await, service.person("bob").await);
    claim(&bob, "bob.example").await.succeeds(201);
    claim(&ada, EXAMPLE).await.succeeds(201);
    world.dns.silent(EXAMPLE);
    let asking = join_all((0..8).map(|_| read(&ada, EXAMPLE)));
    let meanwhile = async {
        // When the first lookup has started, all requests have arrived.
        while world.dns.asked(EXAMPLE) == 0 {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        list(&bob).await;
        read(&bob, "bob.example").await.succeeds(200);
    };
    let (answers, ()) = tokio::join!(asking, meanwhile);
    let told = |status: u16| answers.iter().filter(|one| one.status == status).count();
    assert_eq!((told(200), told(503)), (2, 6));
    for answer in answers.iter().filter(|answer| answer.status == 503) {
        answer.fails(503, UNREADABLE);
        assert!(answer.header("retry-after").is_some());
    }
}

#[tokio::test]
async fn a_domain_is_verified_if_the_dns_responds_only_by_tcp() {
    let dns = Nameserver::by_tcp_only().await;
    let setup = Setup::default().with(&format!("dns.server = '{}'\ndns.timeout = 2", dns.address));
    let service = setup.start().await;
    let world = World { service, dns };
    let ada = world.service.person("ada").await;
    let active = world.active(&ada, EXAMPLE).await;
    assert_eq!(active["status"], "active");
}

#[tokio::test]
async fn without_a_dns_server_domains_can_be_claimed_read_and_released() {
    let service = Service::with("dns.server = '127.0.0.1:1'").await;
    let ada = service.person("ada").await;
    claim(&ada, EXAMPLE).await.succeeds(201);
    verify(&ada, EXAMPLE).await.fails(503, UNREADABLE);
    let read = read(&ada, EXAMPLE).await.succeeds(200);
    for record in read["records"].as_array().unwrap() {
        assert_eq!(record["ok"], Value::Null, "{record}");
    }
    release(&ada, EXAMPLE).await.succeeds(200);
}
