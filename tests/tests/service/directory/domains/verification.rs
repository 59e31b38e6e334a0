//! Verification of a claim: the TXT record in all its forms, cached results, and DNS servers that
//! fail or are slow.

use std::time::Duration;

use futures_util::future::join_all;
use latchmail_tests::{Nameserver, Service, Setup};
use serde_json::Value;

use super::{EXAMPLE, MEMORY, MISSING, TestEnv, UNKNOWN, claim, list, read, release, text, verify};

const UNREADABLE: &str = "Couldn't read DNS right now, try again shortly";

#[tokio::test]
async fn a_failed_check_is_cached_for_thirty_seconds() {
    let env = TestEnv::start().await;
    let service = &env.service;
    let (ada, bob) = (service.person("ada").await, service.person("bob").await);
    let claimed = claim(&ada, EXAMPLE).await.succeeds(201);
    let others = claim(&bob, EXAMPLE).await.succeeds(201);
    let host = text(&claimed["verification"], "host");
    verify(&ada, EXAMPLE).await.fails(400, MISSING);
    let queries_before = env.dns.queries(host);
    assert!(queries_before > 0);

    env.publish_record(&claimed);
    verify(&ada, EXAMPLE).await.fails(400, MISSING);
    verify(&ada, "ADA.Example.").await.fails(400, MISSING);
    service.clock.advance(Duration::from_millis(29_999));
    verify(&ada, EXAMPLE).await.fails(400, MISSING);
    assert_eq!(env.dns.queries(host), queries_before, "no lookup");
    // The cached result applies only to this account and this domain.
    env.dns
        .txts(host, &[text(&others["verification"], "value")]);
    let other = claim(&ada, "other.example").await.succeeds(201);
    env.publish_record(&other);
    verify(&ada, "other.example").await.succeeds(200);
    env.publish_record(&claimed);
    service.clock.advance(Duration::from_millis(1));
    verify(&ada, EXAMPLE).await.succeeds(200);
    assert!(env.dns.queries(host) > queries_before);
    verify(&bob, EXAMPLE).await.fails(404, UNKNOWN);
}

#[tokio::test]
async fn concurrent_checks_of_one_claim_cause_one_lookup() {
    let env = TestEnv::start().await;
    let ada = env.service.person("ada").await;
    let claimed = claim(&ada, EXAMPLE).await.succeeds(201);
    let host = text(&claimed["verification"], "host");
    let responses = join_all((0..8).map(|_| verify(&ada, EXAMPLE))).await;
    for response in responses {
        response.fails(400, MISSING);
    }
    let lookups = env.dns.queries(host);
    env.service.clock.advance(MEMORY);
    verify(&ada, EXAMPLE).await.fails(400, MISSING);
    assert_eq!(env.dns.queries(host), 2 * lookups);
}

#[tokio::test]
async fn a_published_value_is_accepted_in_every_notation() {
    let env = TestEnv::start().await;
    let service = &env.service;
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
    env.dns.a(host);
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
        env.dns.txts(host, &[nearly]);
        missing().await;
    }
    // A record at the domain itself does not count.
    env.dns.clear();
    env.dns.txt(EXAMPLE, &[value]);
    missing().await;
    env.dns.clear();
    env.publish_record(&claimed);
    verify(&ada, EXAMPLE).await.succeeds(200);
}

/// Publishes a value at a name.
type Publish<'a> = &'a dyn Fn(&str, &str);

#[tokio::test]
async fn a_proof_can_be_split_quoted_or_among_other_records() {
    let env = TestEnv::with("plans.default.custom_domains = 100").await;
    let ada = env.service.person("ada").await;
    let dns = &env.dns;
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
        let response = verify(&ada, &domain).await;
        assert_eq!(response.status, 200, "{how}: {}", response.json);
    }
}

#[tokio::test]
async fn a_missing_record_differs_from_one_that_cannot_be_read() {
    let env = TestEnv::start().await;
    let service = &env.service;
    let ada = service.person("ada").await;
    let claimed = claim(&ada, EXAMPLE).await.succeeds(201);
    let host = text(&claimed["verification"], "host");
    let unreadable = async |how: &str| {
        let response = verify(&ada, EXAMPLE).await;
        assert_eq!(response.status, 503, "{how}: {}", response.json);
        response.fails(503, UNREADABLE);
        assert!(response.header("retry-after").is_some());
        let read = read(&ada, EXAMPLE).await.succeeds(200);
        assert_eq!(read["status"], "pending_verification");
    };
    env.dns.servfail(host);
    unreadable("SERVFAIL").await;
    env.dns.silent(host);
    unreadable("no answer").await;
    // Neither result is cached.
    env.dns.clear();
    env.publish_record(&claimed);
    verify(&ada, EXAMPLE).await.succeeds(200);
}

#[tokio::test]
async fn concurrent_checks_of_an_unreadable_record_cause_one_lookup() {
    let env = TestEnv::with("dns.timeout = 2").await;
    let ada = env.service.person("ada").await;
    let claimed = claim(&ada, EXAMPLE).await.succeeds(201);
    let host = text(&claimed["verification"], "host");
    env.dns.silent(host);
    verify(&ada, EXAMPLE).await.fails(503, UNREADABLE);
    let lookups = env.dns.queries(host);
    for response in join_all((0..8).map(|_| verify(&ada, EXAMPLE))).await {
        response.fails(503, UNREADABLE);
    }
    // The number of queries per lookup varies: about five or six.
    let more = env.dns.queries(host) - lookups;
    assert!(
        2 * more < 3 * lookups,
        "one looked for all: {lookups}, {more}"
    );
}

#[tokio::test]
async fn waiting_for_a_slow_dns_server_does_not_delay_other_accounts() {
    let env = TestEnv::with("modules.domains.concurrency = 8\ndns.timeout = 6").await;
    let service = &env.service;
    let (ada, bob) = (service.person("ada").await, service.person("bob").await);
    claim(&bob, "bob.example").await.succeeds(201);
    claim(&ada, EXAMPLE).await.succeeds(201);
    env.dns.silent(EXAMPLE);
    let asking = join_all((0..8).map(|_| read(&ada, EXAMPLE)));
    let meanwhile = async {
        // All requests have arrived when the first lookup starts.
        while env.dns.queries(EXAMPLE) == 0 {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        list(&bob).await;
        read(&bob, "bob.example").await.succeeds(200);
    };
    let (responses, ()) = tokio::join!(asking, meanwhile);
    let count_of = |status: u16| responses.iter().filter(|one| one.status == status).count();
    assert_eq!((count_of(200), count_of(503)), (2, 6));
    for response in responses.iter().filter(|response| response.status == 503) {
        response.fails(503, UNREADABLE);
        assert!(response.header("retry-after").is_some());
    }
}

#[tokio::test]
async fn a_domain_is_verified_if_the_dns_responds_only_by_tcp() {
    let dns = Nameserver::by_tcp_only().await;
    let setup = Setup::default().with(&format!("dns.server = '{}'\ndns.timeout = 2", dns.address));
    let service = setup.start().await;
    let env = TestEnv { service, dns };
    let ada = env.service.person("ada").await;
    let active = env.active(&ada, EXAMPLE).await;
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
