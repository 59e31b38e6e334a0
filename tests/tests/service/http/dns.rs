//! DNS lookups of the service, with a server on loopback.

use std::time::{Duration, Instant};

use hickory_server::proto::op::ResponseCode;
use latchmail_core::config;
use latchmail_net::dns::{Dns, Kind};
use latchmail_tests::Nameserver;

const HOST: &str = "mail.latchmail.example";

struct World {
    server: Nameserver,
    dns: Dns,
}

/// The time limit of one lookup.
const PATIENCE: Duration = Duration::from_millis(600);

async fn world() -> World {
    World::of(Nameserver::start().await)
}

impl World {
    fn of(server: Nameserver) -> Self {
        let dns = Dns::new(&settings(&server.address.to_string()), HOST).unwrap();
        Self { server, dns }
    }

    async fn txt(&self, name: &str) -> Vec<String> {
        self.dns.txt(name).await.unwrap()
    }

    async fn state(&self, kind: Kind) -> Option<bool> {
        let states = self.dns.states("ada.example", Some(("s1", "AQID"))).await;
        states.into_iter().find(|one| one.kind == kind).unwrap().ok
    }

    async fn spf(&self, record: &str) -> Option<bool> {
        self.server.txt("ada.example", &[record]);
        self.server.also_mx("ada.example", "mx.example");
        self.server.also_a("ada.example");
        self.state(Kind::Spf).await
    }
}

fn settings(server: &str) -> config::Dns {
    config::Dns {
        server: server.into(),
        timeout: PATIENCE,
        attempts: 3,
        mail_host: String::new(),
    }
}

#[tokio::test]
async fn the_strings_of_a_record_are_joined_and_records_stay_separate() {
    let world = world().await;
    world.server.txt("one.example", &["first, ", "second"]);
    assert_eq!(world.txt("one.example").await, ["first, second"]);
    assert_eq!(world.txt("ONE.Example").await, ["first, second"]);
    world.server.txts("two.example", &["a", "b"]);
    assert_eq!(world.txt("two.example").await, ["a", "b"]);
}

#[tokio::test]
async fn a_missing_record_differs_from_a_failed_lookup() {
    let world = world().await;
    assert!(world.txt("nowhere.example").await.is_empty());
    world.server.a("other.example");
    assert!(world.txt("other.example").await.is_empty());
    world.server.servfail("failing.example");
    world.server.refused("refused.example");
    world.server.silent("silent.example");
    world.server.refers("referred.example");
    world
        .server
        .code("unknown.example", ResponseCode::Unknown(3841));
    for name in [
        "failing.example",
        "refused.example",
        "silent.example",
        "referred.example",
        "unknown.example",
    ] {
        let unreadable = world.dns.txt(name).await.unwrap_err().to_string();
        assert!(unreadable.contains(name), "{unreadable}");
    }
    assert!(
        world.server.asked("silent.example") > 1,
        "one packet may be lost"
    );
    // No server at all.
    let nobody = Dns::new(&settings("127.0.0.1:1"), HOST).unwrap();
    nobody.txt("ada.example").await.unwrap_err();
}

#[tokio::test]
async fn an_invalid_name_has_no_records() {
    let world = world().await;
    let long = ["a".repeat(63).as_str(); 4].join(".");
    for name in ["a..example", &long, &format!("{}.example", "a".repeat(64))] {
        assert!(world.txt(name).await.is_empty(), "{name}");
    }
}

#[test]
fn an_invalid_configuration_is_refused_with_the_name_of_the_key() {
    let usable = || settings("127.0.0.1:53");
    for (settings, host, key) in [
        (settings("dns.example:53"), HOST, "dns.server"),
        (settings("127.0.0.1:"), HOST, "dns.server"),
        (usable(), "mail..example", "dns.mail_host"),
        (usable(), "192.0.2.1", "dns.mail_host"),
        (
            config::Dns {
                timeout: Duration::ZERO,
                ..usable()
            },
            HOST,
            "dns.timeout",
        ),
        (
            config::Dns {
                attempts: 0,
                ..usable()
            },
            HOST,
            "dns.attempts",
        ),
    ] {
        let refused = Dns::new(&settings, host).unwrap_err().to_string();
        assert!(refused.contains(key), "{refused}");
    }
}

#[tokio::test]
async fn a_response_that_does_not_fit_a_packet_is_read_by_tcp() {
    let world = world().await;
    let long = "x".repeat(200);
    let strings = vec![long.as_str(); 40];
    world.server.txt("long.example", &strings);
    assert_eq!(world.txt("long.example").await, [strings.concat()]);
    assert!(world.server.asked_by_tcp("long.example") > 0);
}

#[tokio::test]
async fn lookups_use_tcp_if_udp_gets_no_response() {
    let world = World::of(Nameserver::by_tcp_only().await);
    world.server.txt("one.example", &["first"]);
    world.server.cname("alias.example", "one.example");
    let asked = Instant::now();
    for _ in 0..10 {
        for name in ["one.example", "alias.example"] {
            assert_eq!(world.txt(name).await, ["first"]);
        }
        assert!(world.txt("nowhere.example").await.is_empty());
    }
    // Only the first lookup waits for a response by UDP.
    assert!(asked.elapsed() < PATIENCE * 3, "{:?}", asked.elapsed());
    world.server.servfail("failing.example");
    world.dns.txt("failing.example").await.unwrap_err();
    for name in ["one.example", "alias.example", "failing.example"] {
        assert_eq!(world.server.asked_by_tcp(name), world.server.asked(name));
    }
}

#[tokio::test]
async fn cname_records_are_followed_by_the_service_or_by_the_resolver() {
    for server in [Nameserver::start().await, Nameserver::resolver().await] {
        let world = World::of(server);
        world.server.cname("a.example", "b.example");
        world.server.cname("b.example", "C.example");
        world.server.txt("c.example", &["found"]);
        assert_eq!(world.txt("a.example").await, ["found"]);
        world.server.cname("gone.example", "nowhere.example");
        assert!(world.txt("gone.example").await.is_empty());
        world.server.a("other.example");
        world.server.cname("without.example", "other.example");
        assert!(world.txt("without.example").await.is_empty());
        world.server.cname("half.example", "failing.example");
        world.server.servfail("failing.example");
        world.dns.txt("half.example").await.unwrap_err();
    }
}

#[tokio::test]
async fn cname_records_without_a_target_cannot_be_read() {
    for server in [Nameserver::start().await, Nameserver::resolver().await] {
        let world = World::of(server);
        world.server.cname("round.example", "about.example");
        world.server.cname("about.example", "round.example");
        world.server.cname("own.example", "own.example");
        for n in 0..30 {
            let next = format!("{}.long.example", n + 1);
            world.server.cname(&format!("{n}.long.example"), &next);
        }
        world.server.txt("30.long.example", &["found"]);
        for name in ["round.example", "own.example", "0.long.example"] {
            world.dns.txt(name).await.unwrap_err();
            assert!(world.server.asked(name) < 100, "{name}");
        }
    }
}

#[tokio::test]
async fn corrected_records_are_visible_at_once() {
    let world = world().await;
    assert!(world.txt("ada.example").await.is_empty());
    for text in ["before", "after"] {
        world.server.txt("ada.example", &[text]);
        assert_eq!(world.txt("ada.example").await, [text]);
    }
}

#[tokio::test]
async fn each_record_is_found_missing_or_unknown_independently() {
    let world = world().await;
    let states = world.dns.states("ada.example", Some(("s1", "AQID"))).await;
    let told: Vec<_> = states
        .iter()
        .map(|one| {
            (
                one.kind.name(),
                one.host.as_str(),
                one.value.as_str(),
                one.ok,
            )
        })
        .collect();
    let spf = format!("v=spf1 include:{HOST} ~all");
    let expected = [
        ("MX", "ada.example", HOST, Some(false)),
        ("SPF", "ada.example", spf.as_str(), Some(false)),
        (
            "DKIM",
            "s1._domainkey.ada.example",
            "v=DKIM1; k=rsa; p=AQID",
            Some(false),
        ),
        (
            "DMARC",
            "_dmarc.ada.example",
            "v=DMARC1; p=quarantine",
            Some(false),
        ),
    ];
    assert_eq!(told, expected);
    // The records count when they are published with these values.
    world.server.txt("ada.example", &[&spf]);
    world.server.also_mx("ada.example", &HOST.to_uppercase());
    world.server.txt(expected[2].1, &[expected[2].2]);
    world.server.txt(expected[3].1, &[expected[3].2]);
    for kind in [Kind::Mx, Kind::Spf, Kind::Dkim, Kind::Dmarc] {
        assert_eq!(world.state(kind).await, Some(true), "{kind:?}");
    }
    world.server.silent(expected[2].1);
    world.server.servfail(expected[3].1);
    assert_eq!(world.state(Kind::Dkim).await, None);
    assert_eq!(world.state(Kind::Dmarc).await, None);
    assert_eq!(world.state(Kind::Mx).await, Some(true));
    assert_eq!(world.dns.states("ada.example", None).await.len(), 3);
    world.server.mx("ada.example", "elsewhere.example");
    assert_eq!(world.state(Kind::Mx).await, Some(false));
    world.server.txts(
        "_dmarc.ada.example",
        &["v=DMARC1; p=none", "v=DMARC1; p=reject"],
    );
    assert_eq!(world.state(Kind::Dmarc).await, Some(false));
    world.server.cname(expected[2].1, "keys.elsewhere.example");
    let (one, other) = expected[2].2.split_at(12);
    world.server.txt("keys.elsewhere.example", &[one, other]);
    assert_eq!(world.state(Kind::Dkim).await, Some(true));
    world
        .server
        .txt("keys.elsewhere.example", &["v=DKIM1; k=rsa; p="]);
    assert_eq!(world.state(Kind::Dkim).await, Some(false), "revoked");
}

#[tokio::test]
async fn all_states_are_reported_in_time_if_the_server_does_not_respond() {
    let world = world().await;
    for name in [
        "ada.example",
        "s1._domainkey.ada.example",
        "_dmarc.ada.example",
    ] {
        world.server.silent(name);
    }
    let asked = Instant::now();
    let states = world.dns.states("ada.example", Some(("s1", "AQID"))).await;
    assert!(states.iter().all(|one| one.ok.is_none()), "{states:?}");
    assert!(asked.elapsed() < PATIENCE * 3, "{:?}", asked.elapsed());

    world.server.clear();
    let record = "v=spf1 a:silent.example include:mail.latchmail.example ~all";
    world.server.txt("ada.example", &[record]);
    world.server.silent("silent.example");
    let states = world.dns.states("ada.example", None).await;
    let told: Vec<_> = states.iter().map(|one| one.ok).collect();
    assert_eq!(told, [Some(false), None, Some(false)]);
}

#[tokio::test]
async fn an_spf_record_counts_if_it_includes_the_host() {
    let world = world().await;
    for record in [
        "v=spf1 include:mail.latchmail.example ~all",
        "V=SPF1 +INCLUDE:MAIL.latchmail.example. -all",
        "v=spf1 ip4:192.0.2.0/24 a mx include:mail.latchmail.example",
        "v=spf1 a a a a a a a a a include:mail.latchmail.example",
    ] {
        assert_eq!(world.spf(record).await, Some(true), "{record}");
    }
    for record in [
        "v=spf1 -all",
        "v=spf1 -all include:mail.latchmail.example",
        "v=spf1 -include:mail.latchmail.example ~all",
        "v=spf10 include:mail.latchmail.example",
        "include:mail.latchmail.example",
        "v=spf1 include:nothing.example include:mail.latchmail.example",
        "v=spf1 a a a a a a a a a a include:mail.latchmail.example",
        "v=spf1 includes:elsewhere.example include:mail.latchmail.example",
        "v=spf1 include:mail.latchmail.example redirect=a.example redirect=a.example",
        "v=spf1 include:mail.latchmail.example.elsewhere.example",
    ] {
        assert_eq!(world.spf(record).await, Some(false), "{record}");
    }
    world.server.txts(
        "ada.example",
        &["v=spf1 include:mail.latchmail.example", "v=spf1 -all"],
    );
    assert_eq!(world.state(Kind::Spf).await, Some(false), "two are none");
}

#[tokio::test]
async fn includes_of_an_spf_record_are_followed_within_ten_lookups() {
    let world = world().await;
    let ours = "v=spf1 include:mail.latchmail.example ~all";
    world.server.txt("further.example", &[ours]);
    for record in [
        "v=spf1 include:further.example -all",
        "v=spf1 redirect=further.example",
    ] {
        assert_eq!(world.spf(record).await, Some(true), "{record}");
    }
    for record in [
        "v=spf1 -all redirect=further.example",
        "v=spf1 ?include:further.example -all",
    ] {
        assert_eq!(world.spf(record).await, Some(false), "{record}");
    }
    // A chain of nine and the alias here make ten; one more is too many.
    let chain = |first: u32| {
        for n in first..9 {
            let next = format!("v=spf1 include:{}.chain.example", n + 1);
            world.server.txt(&format!("{n}.chain.example"), &[&next]);
        }
        world.server.txt("9.chain.example", &[ours]);
        format!("v=spf1 include:{first}.chain.example")
    };
    assert_eq!(world.spf(&chain(1)).await, Some(true));
    assert_eq!(world.spf(&chain(0)).await, Some(false));
    world
        .server
        .txt("circle.example", &["v=spf1 include:circle.example"]);
    assert_eq!(
        world.spf("v=spf1 include:circle.example").await,
        Some(false)
    );
    world.server.servfail("failing.example");
    assert_eq!(world.spf("v=spf1 include:failing.example").await, None);
    let by_sender = "v=spf1 exists:%{i}.example include:%{d}.example ~all";
    assert_eq!(world.spf(by_sender).await, None);
    assert_eq!(
        world
            .spf("v=spf1 include:%{d}.example include:mail.latchmail.example")
            .await,
        Some(true)
    );
}

#[tokio::test]
async fn an_spf_record_can_have_two_lookups_without_a_result() {
    let world = world().await;
    world.server.mx("found.example", "mx.example");
    let ours = "include:mail.latchmail.example ~all";
    for before in [
        "a:no.example mx:no.example",
        "a:no.example mx:found.example exists:no.example a",
        "a:no.example a:%{i}.example exists:%{i}.example",
    ] {
        let record = format!("v=spf1 {before} {ours}");
        assert_eq!(world.spf(&record).await, Some(true), "{record}");
    }
    for before in [
        "a:no.example a:no.example a:no.example",
        "a:no.example mx:no.example exists:no.example",
        "a:no.example mx:no.example a:found.example",
    ] {
        let record = format!("v=spf1 {before} {ours}");
        assert_eq!(world.spf(&record).await, Some(false), "{record}");
    }
    let after =
        "v=spf1 include:mail.latchmail.example a:no.example mx:no.example exists:no.example";
    assert_eq!(
        world.spf(after).await,
        Some(true),
        "later mechanisms are not evaluated"
    );
}
