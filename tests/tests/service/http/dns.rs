//! DNS lookups of the service, with a server on loopback.

use std::time::{Duration, Instant};

use hickory_server::proto::op::ResponseCode;
use latchmail_core::config;
use latchmail_net::dns::{Dns, Kind};
use latchmail_tests::Nameserver;

const HOST: &str = "mail.latchmail.example";

struct TestEnv {
    server: Nameserver,
    dns: Dns,
}

/// The time limit of one lookup.
const TIMEOUT: Duration = Duration::from_millis(600);

async fn env() -> TestEnv {
    TestEnv::of(Nameserver::start().await)
}

impl TestEnv {
    fn of(server: Nameserver) -> Self {
        let dns = Dns::new(&settings(&server.address.to_string()), HOST).unwrap();
        Self { server, dns }
    }

    async fn txt(&self, name: &str) -> Vec<String> {
        self.dns.txt(name).await.unwrap()
    }

    async fn state(&self, kind: Kind) -> Option<bool> {
        let states = self
            .dns
            .check_records("ada.example", Some(("s1", "AQID")))
            .await;
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
        timeout: TIMEOUT,
        attempts: 3,
        mail_host: String::new(),
    }
}

#[tokio::test]
async fn the_strings_of_a_record_are_joined_and_records_stay_separate() {
    let env = env().await;
    env.server.txt("one.example", &["first, ", "second"]);
    assert_eq!(env.txt("one.example").await, ["first, second"]);
    assert_eq!(env.txt("ONE.Example").await, ["first, second"]);
    env.server.txts("two.example", &["a", "b"]);
    assert_eq!(env.txt("two.example").await, ["a", "b"]);
}

#[tokio::test]
async fn a_missing_record_differs_from_a_failed_lookup() {
    let env = env().await;
    assert!(env.txt("nowhere.example").await.is_empty());
    env.server.a("other.example");
    assert!(env.txt("other.example").await.is_empty());
    env.server.servfail("failing.example");
    env.server.refused("refused.example");
    env.server.silent("silent.example");
    env.server.refer("referred.example");
    env.server
        .code("unknown.example", ResponseCode::Unknown(3841));
    for name in [
        "failing.example",
        "refused.example",
        "silent.example",
        "referred.example",
        "unknown.example",
    ] {
        let unreadable = env.dns.txt(name).await.unwrap_err().to_string();
        assert!(unreadable.contains(name), "{unreadable}");
    }
    assert!(
        env.server.queries("silent.example") > 1,
        "one packet may be lost"
    );
    // No server listens there.
    let nobody = Dns::new(&settings("127.0.0.1:1"), HOST).unwrap();
    nobody.txt("ada.example").await.unwrap_err();
}

#[tokio::test]
async fn an_invalid_name_has_no_records() {
    let env = env().await;
    let long = ["a".repeat(63).as_str(); 4].join(".");
    for name in ["a..example", &long, &format!("{}.example", "a".repeat(64))] {
        assert!(env.txt(name).await.is_empty(), "{name}");
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
    let env = env().await;
    let long = "x".repeat(200);
    let strings = vec![long.as_str(); 40];
    env.server.txt("long.example", &strings);
    assert_eq!(env.txt("long.example").await, [strings.concat()]);
    assert!(env.server.tcp_queries("long.example") > 0);
}

#[tokio::test]
async fn lookups_use_tcp_if_udp_gets_no_response() {
    let env = TestEnv::of(Nameserver::by_tcp_only().await);
    env.server.txt("one.example", &["first"]);
    env.server.cname("alias.example", "one.example");
    let started = Instant::now();
    for _ in 0..10 {
        for name in ["one.example", "alias.example"] {
            assert_eq!(env.txt(name).await, ["first"]);
        }
        assert!(env.txt("nowhere.example").await.is_empty());
    }
    // Only the first lookup waits for a UDP response.
    assert!(started.elapsed() < TIMEOUT * 3, "{:?}", started.elapsed());
    env.server.servfail("failing.example");
    env.dns.txt("failing.example").await.unwrap_err();
    for name in ["one.example", "alias.example", "failing.example"] {
        assert_eq!(env.server.tcp_queries(name), env.server.queries(name));
    }
}

#[tokio::test]
async fn cname_records_are_followed_by_the_service_or_by_the_resolver() {
    for server in [Nameserver::start().await, Nameserver::resolver().await] {
        let env = TestEnv::of(server);
        env.server.cname("a.example", "b.example");
        env.server.cname("b.example", "C.example");
        env.server.txt("c.example", &["found"]);
        assert_eq!(env.txt("a.example").await, ["found"]);
        env.server.cname("gone.example", "nowhere.example");
        assert!(env.txt("gone.example").await.is_empty());
        env.server.a("other.example");
        env.server.cname("without.example", "other.example");
        assert!(env.txt("without.example").await.is_empty());
        env.server.cname("half.example", "failing.example");
        env.server.servfail("failing.example");
        env.dns.txt("half.example").await.unwrap_err();
    }
}

#[tokio::test]
async fn cname_records_without_a_target_cannot_be_read() {
    for server in [Nameserver::start().await, Nameserver::resolver().await] {
        let env = TestEnv::of(server);
        env.server.cname("round.example", "about.example");
        env.server.cname("about.example", "round.example");
        env.server.cname("own.example", "own.example");
        for n in 0..30 {
            let next = format!("{}.long.example", n + 1);
            env.server.cname(&format!("{n}.long.example"), &next);
        }
        env.server.txt("30.long.example", &["found"]);
        for name in ["round.example", "own.example", "0.long.example"] {
            env.dns.txt(name).await.unwrap_err();
            assert!(env.server.queries(name) < 100, "{name}");
        }
    }
}

#[tokio::test]
async fn corrected_records_are_visible_at_once() {
    let env = env().await;
    assert!(env.txt("ada.example").await.is_empty());
    for text in ["before", "after"] {
        env.server.txt("ada.example", &[text]);
        assert_eq!(env.txt("ada.example").await, [text]);
    }
}

#[tokio::test]
async fn each_record_is_found_missing_or_unknown_independently() {
    let env = env().await;
    let states = env
        .dns
        .check_records("ada.example", Some(("s1", "AQID")))
        .await;
    let results: Vec<_> = states
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
    assert_eq!(results, expected);
    // The records count when they are published with these values.
    env.server.txt("ada.example", &[&spf]);
    env.server.also_mx("ada.example", &HOST.to_uppercase());
    env.server.txt(expected[2].1, &[expected[2].2]);
    env.server.txt(expected[3].1, &[expected[3].2]);
    for kind in [Kind::Mx, Kind::Spf, Kind::Dkim, Kind::Dmarc] {
        assert_eq!(env.state(kind).await, Some(true), "{kind:?}");
    }
    env.server.silent(expected[2].1);
    env.server.servfail(expected[3].1);
    assert_eq!(env.state(Kind::Dkim).await, None);
    assert_eq!(env.state(Kind::Dmarc).await, None);
    assert_eq!(env.state(Kind::Mx).await, Some(true));
    assert_eq!(env.dns.check_records("ada.example", None).await.len(), 3);
    env.server.mx("ada.example", "elsewhere.example");
    assert_eq!(env.state(Kind::Mx).await, Some(false));
    env.server.txts(
        "_dmarc.ada.example",
        &["v=DMARC1; p=none", "v=DMARC1; p=reject"],
    );
    assert_eq!(env.state(Kind::Dmarc).await, Some(false));
    env.server.cname(expected[2].1, "keys.elsewhere.example");
    let (one, other) = expected[2].2.split_at(12);
    env.server.txt("keys.elsewhere.example", &[one, other]);
    assert_eq!(env.state(Kind::Dkim).await, Some(true));
    env.server
        .txt("keys.elsewhere.example", &["v=DKIM1; k=rsa; p="]);
    assert_eq!(env.state(Kind::Dkim).await, Some(false), "revoked");
}

#[tokio::test]
async fn all_states_are_reported_in_time_if_the_server_does_not_respond() {
    let env = env().await;
    for name in [
        "ada.example",
        "s1._domainkey.ada.example",
        "_dmarc.ada.example",
    ] {
        env.server.silent(name);
    }
    let started = Instant::now();
    let states = env
        .dns
        .check_records("ada.example", Some(("s1", "AQID")))
        .await;
    assert!(states.iter().all(|one| one.ok.is_none()), "{states:?}");
    assert!(started.elapsed() < TIMEOUT * 3, "{:?}", started.elapsed());

    env.server.clear();
    let record = "v=spf1 a:silent.example include:mail.latchmail.example ~all";
    env.server.txt("ada.example", &[record]);
    env.server.silent("silent.example");
    let states = env.dns.check_records("ada.example", None).await;
    let results: Vec<_> = states.iter().map(|one| one.ok).collect();
    assert_eq!(results, [Some(false), None, Some(false)]);
}

#[tokio::test]
async fn an_spf_record_counts_if_it_includes_the_host() {
    let env = env().await;
    for record in [
        "v=spf1 include:mail.latchmail.example ~all",
        "V=SPF1 +INCLUDE:MAIL.latchmail.example. -all",
        "v=spf1 ip4:192.0.2.0/24 a mx include:mail.latchmail.example",
        "v=spf1 a a a a a a a a a include:mail.latchmail.example",
    ] {
        assert_eq!(env.spf(record).await, Some(true), "{record}");
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
        assert_eq!(env.spf(record).await, Some(false), "{record}");
    }
    env.server.txts(
        "ada.example",
        &["v=spf1 include:mail.latchmail.example", "v=spf1 -all"],
    );
    assert_eq!(
        env.state(Kind::Spf).await,
        Some(false),
        "two SPF records count as none"
    );
}

#[tokio::test]
async fn includes_of_an_spf_record_are_followed_within_ten_lookups() {
    let env = env().await;
    let ours = "v=spf1 include:mail.latchmail.example ~all";
    env.server.txt("further.example", &[ours]);
    for record in [
        "v=spf1 include:further.example -all",
        "v=spf1 redirect=further.example",
    ] {
        assert_eq!(env.spf(record).await, Some(true), "{record}");
    }
    for record in [
        "v=spf1 -all redirect=further.example",
        "v=spf1 ?include:further.example -all",
    ] {
        assert_eq!(env.spf(record).await, Some(false), "{record}");
    }
    // A chain of nine and the alias here make ten; one more is too many.
    let chain = |first: u32| {
        for n in first..9 {
            let next = format!("v=spf1 include:{}.chain.example", n + 1);
            env.server.txt(&format!("{n}.chain.example"), &[&next]);
        }
        env.server.txt("9.chain.example", &[ours]);
        format!("v=spf1 include:{first}.chain.example")
    };
    assert_eq!(env.spf(&chain(1)).await, Some(true));
    assert_eq!(env.spf(&chain(0)).await, Some(false));
    env.server
        .txt("circle.example", &["v=spf1 include:circle.example"]);
    assert_eq!(env.spf("v=spf1 include:circle.example").await, Some(false));
    env.server.servfail("failing.example");
    assert_eq!(env.spf("v=spf1 include:failing.example").await, None);
    let by_sender = "v=spf1 exists:%{i}.example include:%{d}.example ~all";
    assert_eq!(env.spf(by_sender).await, None);
    assert_eq!(
        env.spf("v=spf1 include:%{d}.example include:mail.latchmail.example")
            .await,
        Some(true)
    );
}

#[tokio::test]
async fn an_spf_record_can_have_two_lookups_without_a_result() {
    let env = env().await;
    env.server.mx("found.example", "mx.example");
    let ours = "include:mail.latchmail.example ~all";
    for before in [
        "a:no.example mx:no.example",
        "a:no.example mx:found.example exists:no.example a",
        "a:no.example a:%{i}.example exists:%{i}.example",
    ] {
        let record = format!("v=spf1 {before} {ours}");
        assert_eq!(env.spf(&record).await, Some(true), "{record}");
    }
    for before in [
        "a:no.example a:no.example a:no.example",
        "a:no.example mx:no.example exists:no.example",
        "a:no.example mx:no.example a:found.example",
    ] {
        let record = format!("v=spf1 {before} {ours}");
        assert_eq!(env.spf(&record).await, Some(false), "{record}");
    }
    let after =
        "v=spf1 include:mail.latchmail.example a:no.example mx:no.example exists:no.example";
    assert_eq!(
        env.spf(after).await,
        Some(true),
        "later mechanisms are not evaluated"
    );
}
