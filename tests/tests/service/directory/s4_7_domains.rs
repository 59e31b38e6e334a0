//! Specification, section 4.7: custom domains, from a claim to mail, with a real DNS server.

use std::net::SocketAddr;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use futures_util::future::join_all;
use latchmail_tests::{Answer, Nameserver, PASSWORD, Person, Service, Setup, alias};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::TcpStream;

const DOMAINS: &str = "/api/v1/domains";
const EXAMPLE: &str = "ada.example";
const INVALID: &str = "Enter a valid domain you own (e.g. example.com)";
const NOT_INCLUDED: &str = "Custom domains aren't included in your plan";
const FULL: &str = "Your plan's custom domains are all in use";
const TAKEN: &str = "This domain has already been claimed by another user";
const MISSING: &str = "Verification TXT not found yet — DNS can take a while to propagate";
const UNKNOWN: &str = "Domain not found";
const UNREADABLE: &str = "Couldn't read DNS right now, try again shortly";
const HAS_ALIASES: &str = "Remove all aliases on this domain first";
const MEMORY: Duration = Duration::from_secs(30);

fn text<'a>(value: &'a Value, field: &str) -> &'a str {
    value[field]
        .as_str()
        .unwrap_or_else(|| panic!("no {field} in {value}"))
}

async fn claim(person: &Person<'_>, domain: &str) -> Answer {
    person.post(DOMAINS, &json!({ "domain": domain })).await
}

async fn verify(person: &Person<'_>, domain: &str) -> Answer {
    let line = format!("POST {DOMAINS}/{domain}/verify");
    person.ask(&line).await
}

async fn read(person: &Person<'_>, domain: &str) -> Answer {
    person.ask(&format!("GET {DOMAINS}/{domain}")).await
}

async fn release(person: &Person<'_>, domain: &str) -> Answer {
    person.ask(&format!("DELETE {DOMAINS}/{domain}")).await
}

async fn list(person: &Person<'_>) -> Value {
    person.ask(&format!("GET {DOMAINS}")).await.succeeds(200)
}

/// The names of a JSON object's members.
fn members(value: &Value) -> Vec<&str> {
    let members = value.as_object().unwrap().keys();
    members.map(String::as_str).collect()
}

/// `YYYY-MM-DD HH:MM:SS`.
#[track_caller]
fn is_instant(value: &Value) {
    let text = value.as_str().unwrap();
    chrono::NaiveDateTime::parse_from_str(text, "%Y-%m-%d %H:%M:%S").unwrap();
    assert_eq!(text.len(), 19, "{text}");
}

/// A service and a DNS server that share a zone.
struct World {
    service: Service,
    dns: Nameserver,
}

impl World {
    async fn start() -> Self {
        Self::with("").await
    }

    async fn with(settings: &str) -> Self {
        Self::of(Setup::default().with(settings)).await
    }

    /// Has its own mail servers, because Postfix processes remember domains.
    async fn with_own_mail() -> Self {
        Self::of(Setup::default().with_own_mail()).await
    }

    async fn of(setup: Setup) -> Self {
        let dns = Nameserver::start().await;
        let setup = setup.with(&format!("dns.server = '{}'", dns.address));
        let service = setup.start().await;
        Self { service, dns }
    }

    /// Publishes the record of a claim.
    fn proves(&self, claimed: &Value) {
        let wanted = &claimed["verification"];
        self.dns.txt(text(wanted, "host"), &[text(wanted, "value")]);
    }

    /// Claims, publishes and verifies a domain.
    async fn active(&self, person: &Person<'_>, domain: &str) -> Value {
        self.proves(&claim(person, domain).await.succeeds(201));
        verify(person, domain).await.succeeds(200)
    }
}

/// An external SMTP session with the mail server.
struct Outside(BufReader<TcpStream>);

impl Outside {
    async fn connect(service: &Service) -> Self {
        Self::connect_to(service.mail().smtp).await
    }

    async fn connect_to(port: SocketAddr) -> Self {
        let stream = TcpStream::connect(port).await.unwrap();
        let mut session = Self(BufReader::new(stream));
        assert_eq!(session.reply().await, 220);
        assert_eq!(session.say("EHLO outside.test").await, 250);
        session
    }

    async fn say(&mut self, line: &str) -> u16 {
        let line = format!("{line}\r\n");
        self.0.write_all(line.as_bytes()).await.unwrap();
        self.reply().await
    }

    async fn reply(&mut self) -> u16 {
        loop {
            let mut line = String::new();
            assert!(self.0.read_line(&mut line).await.unwrap() > 0, "hung up");
            if line.as_bytes()[3] == b' ' {
                return line[..3].parse().unwrap();
            }
        }
    }

    /// The response for a recipient.
    async fn recipient(&mut self, address: &str) -> u16 {
        assert_eq!(self.say("MAIL FROM:<sender@outside.test>").await, 250);
        let answered = self.say(&format!("RCPT TO:<{address}>")).await;
        assert_eq!(self.say("RSET").await, 250);
        answered
    }

    async fn deliver(&mut self, address: &str, subject: &str) {
        assert_eq!(self.say("MAIL FROM:<sender@outside.test>").await, 250);
        assert_eq!(self.say(&format!("RCPT TO:<{address}>")).await, 250);
        assert_eq!(self.say("DATA").await, 354);
        let message = format!("Subject: {subject}\r\n\r\nx\r\n.");
        assert_eq!(self.say(&message).await, 250);
    }
}

// Claims

#[tokio::test]
async fn a_domain_is_claimed_proved_listed_read_and_released() {
    let world = World::start().await;
    let ada = world.service.person("ada").await;
    let nothing = json!({ "domains": [], "limit": 5, "used": 0 });
    assert_eq!(list(&ada).await, nothing);

    let claimed = claim(&ada, EXAMPLE).await.succeeds(201);
    let shape = [
        "created_at",
        "domain",
        "status",
        "verification",
        "verified_at",
    ];
    assert_eq!(members(&claimed), shape);
    assert_eq!(claimed["domain"], EXAMPLE);
    assert_eq!(claimed["status"], "pending_verification");
    assert_eq!(claimed["verified_at"], Value::Null);
    is_instant(&claimed["created_at"]);
    let wanted = &claimed["verification"];
    assert_eq!(members(wanted), ["host", "type", "value"]);
    assert_eq!(wanted["type"], "TXT");
    assert_eq!(wanted["host"], "_latchmail-challenge.ada.example");
    let token = text(wanted, "value")
        .strip_prefix("latchmail-verify=")
        .unwrap();
    assert_eq!(token.len(), 43);
    assert!(token.bytes().all(|byte| byte.is_ascii_alphanumeric()));

    verify(&ada, EXAMPLE).await.fails(400, MISSING);
    world.service.clock.advance(MEMORY);
    world.proves(&claimed);
    let active = verify(&ada, EXAMPLE).await.succeeds(200);
    let shape = ["created_at", "domain", "records", "status", "verified_at"];
    assert_eq!(members(&active), shape);
    assert_eq!(active["status"], "active");
    assert_eq!(active["created_at"], claimed["created_at"]);
    is_instant(&active["verified_at"]);
    for record in active["records"].as_array().unwrap() {
        assert_eq!(members(record), ["host", "kind", "ok", "value"]);
    }
    // Verifying again does not need the record.
    world.dns.clear();
    assert_eq!(verify(&ada, EXAMPLE).await.succeeds(200), active);
    assert_eq!(read(&ada, EXAMPLE).await.succeeds(200), active);
    let entry = json!({
        "domain": EXAMPLE, "status": "active", "created_at": claimed["created_at"], "verified_at": active["verified_at"],
    });
    let all = json!({ "domains": [entry], "limit": 5, "used": 1 });
    assert_eq!(list(&ada).await, all);

    let released = release(&ada, EXAMPLE).await.succeeds(200);
    assert_eq!(released, json!({ "success": true }));
    assert_eq!(list(&ada).await, nothing);
    for answer in [
        read(&ada, EXAMPLE).await,
        verify(&ada, EXAMPLE).await,
        release(&ada, EXAMPLE).await,
    ] {
        answer.fails(404, UNKNOWN);
    }
}

#[tokio::test]
async fn to_claim_a_domain_again_answers_it_as_it_stands() {
    let world = World::start().await;
    let ada = world.service.person("ada").await;
    let claimed = claim(&ada, EXAMPLE).await.succeeds(201);
    for spelt in [EXAMPLE, "ADA.example", "ada.example.", " ada.example "] {
        assert_eq!(claim(&ada, spelt).await.succeeds(200), claimed, "{spelt}");
    }
    let pending = read(&ada, EXAMPLE).await.succeeds(200);
    assert_eq!(pending["verification"], claimed["verification"]);
    let kinds: Vec<&str> = pending["records"]
        .as_array()
        .unwrap()
        .iter()
        .map(|record| text(record, "kind"))
        .collect();
    assert_eq!(kinds, ["MX", "SPF", "DMARC"], "no key yet");
    world.proves(&claimed);
    verify(&ada, EXAMPLE).await.succeeds(200);
    let again = claim(&ada, EXAMPLE).await.succeeds(200);
    assert_eq!(again["status"], "active");
    assert!(again.get("verification").is_none());
    assert_eq!(list(&ada).await["used"], 1);
}

#[tokio::test]
async fn a_body_that_will_not_do_is_refused_and_the_field_named() {
    let world = World::start().await;
    let ada = world.service.person("ada").await;
    for (body, said) in [
        ("", "Invalid JSON body"),
        ("{", "Invalid JSON body"),
        ("{}", INVALID),
        (r#"{"domain": null}"#, INVALID),
        (r#"{"domain": ""}"#, INVALID),
        (r#"{"domain": 7}"#, "domain must be a string"),
        (r#"{"domain": ["ada.example"]}"#, "domain must be a string"),
        (r#"["ada.example"]"#, "The body must be an object"),
    ] {
        ada.post_raw(DOMAINS, body).await.fails(400, said);
    }
    assert_eq!(list(&ada).await["used"], 0);
}

#[tokio::test]
async fn a_name_is_folded_or_refused_and_nothing_fails_of_it() {
    let world = World::with("plans.default.custom_domains = 1000").await;
    let ada = world.service.person("ada").await;
    let label = "x".repeat(63);
    // The longest name that leaves space for the challenge.
    let longest = format!("{label}.{label}.{label}.{}.example", "y".repeat(32));
    assert_eq!(longest.len(), 232);
    for (typed, folded) in [
        ("ADA.Example", EXAMPLE),
        ("ada.example.", EXAMPLE),
        ("a.b.c.ada.example", "a.b.c.ada.example"),
        ("Bücher.example", "xn--bcher-kva.example"),
        ("BÜCHER.EXAMPLE", "xn--bcher-kva.example"),
        ("xn--bcher-kva.example", "xn--bcher-kva.example"),
        // The same letter in two encodings (NFC), and digits and dots of other widths.
        ("bu\u{308}cher.example", "xn--bcher-kva.example"),
        ("ａｄａ。example", EXAMPLE),
        ("пример.example", "xn--e1afmkfd.example"),
        (&format!("{label}.example"), &format!("{label}.example")),
        (&longest, &longest),
    ] {
        let answer = claim(&ada, typed).await;
        assert!(matches!(answer.status, 200 | 201), "{typed}: {answer:?}");
        assert_eq!(answer.json["domain"], *folded, "{typed}");
        // In paths too.
        let path = percent_encoded(typed);
        assert_eq!(
            read(&ada, &path).await.succeeds(200)["domain"],
            *folded,
            "{typed}"
        );
    }
    for name in [
        "example",
        "com",
        "co.uk",
        "github.io",
        "localhost",
        "192.0.2.1",
        "[192.0.2.1]",
        "2001:db8::1",
        "[IPv6:2001:db8::1]",
        "0x7f.1",
        "first.test",
        "FIRST.test.",
        "second.test",
        "ada..example",
        ".ada.example",
        "ada.example..",
        ".",
        "-ada.example",
        "ada-.example",
        "a_da.example",
        "ada@ada.example",
        "ada.example/x",
        "https://ada.example",
        "ada.example:25",
        "*.ada.example",
        "ada example.example",
        "ada\u{0}.example",
        "ada\n.example",
        "ada.example\r\nx",
        "xn--.example",
        "xn--a.example",
        "xn--zzzzzzzzzzz.example",
        "xn--\u{fc}.example",
        "xn--999999999.example",
        "\u{200b}.example",
        "\u{202e}ada.example",
        "\u{fffd}.example",
        "💌\u{fe0f}\u{200d}.example\u{0}",
        &format!("{label}x.example"),
        &format!("{label}.{label}.{label}.{}.example", "y".repeat(33)),
        &format!("{label}.{label}.{label}.{}.example", "y".repeat(54)),
        &format!("{label}.{label}.{label}.{label}.example"),
        &"ü.".repeat(100),
        &"a".repeat(16_000),
    ] {
        claim(&ada, name).await.fails(400, INVALID);
        let path = percent_encoded(name);
        // NUL is refused in every path, clients normalize dots, and heads have a size limit.
        if name.contains('\0') || name == "." || path.len() > 8000 {
            continue;
        }
        read(&ada, &path).await.fails(404, UNKNOWN);
        verify(&ada, &path).await.fails(404, UNKNOWN);
        release(&ada, &path).await.fails(404, UNKNOWN);
    }
    // A homograph is another domain, and is returned in its ASCII form.
    let (latin, mixed) = ("paypal.example", "p\u{430}ypal.example");
    claim(&ada, latin).await.succeeds(201);
    let answer = claim(&ada, mixed).await;
    match answer.status {
        201 => assert!(text(&answer.json, "domain").starts_with("xn--")),
        _ => answer.fails(400, INVALID),
    }
}

fn percent_encoded(text: &str) -> String {
    let byte = |byte: u8| match byte {
        b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'.' | b'-' => char::from(byte).to_string(),
        byte => format!("%{byte:02X}"),
    };
    text.bytes().map(byte).collect()
}

// Ownership of domains

#[tokio::test]
async fn claims_stand_side_by_side_and_the_first_to_verify_wins() {
    let world = World::start().await;
    let service = &world.service;
    let (ada, bob) = (service.person("ada").await, service.person("bob").await);
    let eve = service.person("eve").await;
    let claimed = claim(&ada, EXAMPLE).await.succeeds(201);
    let others = claim(&bob, EXAMPLE).await.succeeds(201);
    assert_ne!(claimed["verification"], others["verification"]);
    // Another account's record does not verify the claim.
    world.proves(&claimed);
    verify(&bob, EXAMPLE).await.fails(400, MISSING);
    assert_eq!(list(&bob).await["domains"][0]["domain"], EXAMPLE);
    verify(&ada, EXAMPLE).await.succeeds(200);

    // The other claimant gets 404, even if its record is published.
    world.proves(&others);
    service.clock.advance(MEMORY);
    verify(&bob, EXAMPLE).await.fails(404, UNKNOWN);
    read(&bob, EXAMPLE).await.fails(404, UNKNOWN);
    release(&bob, EXAMPLE).await.fails(404, UNKNOWN);
    assert_eq!(list(&bob).await["used"], 0);
    for person in [&bob, &eve] {
        claim(person, EXAMPLE).await.fails(409, TAKEN);
        claim(person, "ADA.example.").await.fails(409, TAKEN);
    }
    // A subdomain is another domain.
    claim(&bob, "sub.ada.example").await.succeeds(201);

    release(&ada, EXAMPLE).await.succeeds(200);
    let again = claim(&bob, EXAMPLE).await.succeeds(201);
    assert_ne!(again["verification"], others["verification"]);
    world.dns.clear();
    world.proves(&others);
    verify(&bob, EXAMPLE).await.fails(400, MISSING);
    service.clock.advance(MEMORY);
    world.proves(&again);
    verify(&bob, EXAMPLE).await.succeeds(200);
    claim(&ada, EXAMPLE).await.fails(409, TAKEN);
}

#[tokio::test]
async fn of_many_that_verify_at_the_same_moment_one_wins() {
    let world = World::start().await;
    let service = &world.service;
    let mut people = Vec::new();
    for name in ["ada", "bob", "eve", "joe"] {
        people.push(service.person(name).await);
    }
    let mut values = Vec::new();
    for person in &people {
        let claimed = claim(person, EXAMPLE).await.succeeds(201);
        values.push(text(&claimed["verification"], "value").to_owned());
    }
    let host = "_latchmail-challenge.ada.example";
    let values: Vec<&str> = values.iter().map(String::as_str).collect();
    world.dns.txts(host, &values);
    // Each account twice: a client that repeats its request competes with itself.
    let asked = people.iter().chain(&people);
    let answers = join_all(asked.map(|person| verify(person, EXAMPLE))).await;
    let mut holders = 0;
    for (number, person) in people.iter().enumerate() {
        let own = [&answers[number], &answers[number + people.len()]];
        if list(person).await["used"] == 1 {
            holders += 1;
            assert!(own.iter().all(|answer| answer.status == 200), "{own:?}");
            let keys: Vec<&Value> = own.iter().map(|a| &a.json["records"][2]["value"]).collect();
            assert_eq!(keys[0], keys[1], "one key");
        } else {
            for answer in own {
                match answer.status {
                    409 => answer.fails(409, TAKEN),
                    _ => answer.fails(404, UNKNOWN),
                }
            }
        }
    }
    assert_eq!(holders, 1);
}

#[tokio::test]
async fn a_domain_is_found_by_its_owner_alone() {
    let world = World::start().await;
    let (ada, bob) = (
        world.service.person("ada").await,
        world.service.person("bob").await,
    );
    world.active(&ada, EXAMPLE).await;
    let before = list(&ada).await;
    for answer in [
        read(&bob, EXAMPLE).await,
        verify(&bob, EXAMPLE).await,
        release(&bob, EXAMPLE).await,
    ] {
        answer.fails(404, UNKNOWN);
    }
    assert_eq!(list(&ada).await, before);
}

#[tokio::test]
async fn a_domain_on_which_somebody_has_an_address_is_the_platforms() {
    let mut world = World::with_own_mail().await;
    {
        let bob = world.service.person("bob").await;
        alias(&bob, "bob@once.example", true).await;
        let ada = world.service.person("ada").await;
        claim(&ada, "once.example").await.fails(400, INVALID);
    }
    // A domain that is no longer in the configuration.
    world
        .service
        .restart_with(|config| config.registration.domains = vec!["second.test".into()])
        .await;
    let bob = Person::sign_in(&world.service, "bob@first.test", PASSWORD).await;
    claim(&bob, "first.test").await.fails(400, INVALID);
}

// Plans

#[tokio::test]
async fn a_plan_says_how_many_domains_an_account_may_have() {
    let world = World::with("plans.default.custom_domains = 2\nplans.none.custom_domains = 0\nplans.pro.custom_domains = 50").await;
    let service = &world.service;
    let (ada, bob) = (service.person("ada").await, service.person("bob").await);
    claim(&ada, "one.example").await.succeeds(201);
    world.active(&ada, "two.example").await;
    claim(&ada, "three.example").await.fails(403, FULL);
    claim(&ada, "one.example").await.succeeds(200);
    let held = list(&ada).await;
    assert_eq!((&held["limit"], &held["used"]), (&json!(2), &json!(2)));
    let names: Vec<&str> = held["domains"]
        .as_array()
        .unwrap()
        .iter()
        .map(|domain| text(domain, "domain"))
        .collect();
    assert_eq!(names.len(), 2);
    claim(&ada, "com").await.fails(400, INVALID);
    claim(&bob, "two.example").await.fails(409, TAKEN);

    let plan = async |name: &str| {
        let verb = format!("account plan ada@first.test {name}");
        service.operator(&verb, "").await.done();
    };
    plan("none").await;
    assert_eq!(list(&ada).await["limit"], 0);
    assert_eq!(list(&ada).await["used"], 2, "existing domains stay");
    claim(&ada, "two.example").await.succeeds(200);
    for name in ["three.example", "anybodys.example"] {
        claim(&ada, name).await.fails(403, NOT_INCLUDED);
    }
    plan("pro").await;
    claim(&ada, "three.example").await.succeeds(201);
    release(&ada, "three.example").await.succeeds(200);
    plan("default").await;
    claim(&ada, "three.example").await.fails(403, FULL);
    release(&ada, "one.example").await.succeeds(200);
    claim(&ada, "three.example").await.succeeds(201);

    service
        .execute("UPDATE accounts SET plan = 'of-old' WHERE address = 'bob@first.test'")
        .await;
    assert_eq!(list(&bob).await["limit"], 2);
}

#[tokio::test]
async fn of_many_claims_at_once_no_more_are_made_than_the_plan_has_room_for() {
    let world = World::with("plans.default.custom_domains = 3").await;
    let ada = world.service.person("ada").await;
    let names: Vec<String> = (0..10).map(|n| format!("d{n}.example")).collect();
    let answers = join_all(names.iter().map(|name| claim(&ada, name))).await;
    let made = answers.iter().filter(|answer| answer.status == 201);
    assert_eq!(made.count(), 3);
    for answer in answers.iter().filter(|answer| answer.status != 201) {
        answer.fails(403, FULL);
    }
    assert_eq!(list(&ada).await["used"], 3);
}

// The DNS

#[tokio::test]
async fn a_failed_check_is_remembered_for_thirty_seconds() {
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
async fn many_checks_of_one_claim_at_once_look_once() {
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
async fn what_is_published_is_read_however_it_is_written() {
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
async fn a_proof_may_be_in_pieces_beside_others_elsewhere_or_in_quotes() {
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
async fn what_is_not_there_is_missing_and_what_cannot_be_read_is_told_apart() {
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
async fn many_checks_at_once_of_what_cannot_be_read_look_once() {
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
async fn a_domain_is_verified_where_the_dns_answers_by_tcp_only() {
    let dns = Nameserver::by_tcp_only().await;
    let setup = Setup::default().with(&format!("dns.server = '{}'\ndns.timeout = 2", dns.address));
    let service = setup.start().await;
    let world = World { service, dns };
    let ada = world.service.person("ada").await;
    let active = world.active(&ada, EXAMPLE).await;
    assert_eq!(active["status"], "active");
}

#[tokio::test]
async fn without_a_dns_server_a_domain_is_still_claimed_read_and_released() {
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

/// A domain's records by kind.
fn records(domain: &Value) -> Vec<(&str, &Value)> {
    let records = domain["records"].as_array().unwrap().iter();
    records.map(|one| (text(one, "kind"), one)).collect()
}

#[tokio::test]
async fn records_are_told_true_false_or_unknown_each_on_its_own() {
    let world = World::start().await;
    let ada = world.service.person("ada").await;
    let active = world.active(&ada, EXAMPLE).await;
    let wanted: Vec<(&str, &str, &str)> = records(&active)
        .into_iter()
        .map(|(kind, one)| (kind, text(one, "host"), text(one, "value")))
        .collect();
    let kinds: Vec<&str> = wanted.iter().map(|(kind, ..)| *kind).collect();
    assert_eq!(kinds, ["MX", "SPF", "DKIM", "DMARC"]);
    assert_eq!(wanted[0].1, EXAMPLE);
    assert_eq!(wanted[1].1, EXAMPLE);
    let selector = wanted[2].1.strip_suffix("._domainkey.ada.example").unwrap();
    assert!(!selector.is_empty());
    assert!(
        wanted[2].2.starts_with("v=DKIM1; k=rsa; p="),
        "{}",
        wanted[2].2
    );
    assert_eq!(wanted[3].1, "_dmarc.ada.example");
    assert!(
        wanted[3].2.starts_with("v=DMARC1; p=quarantine"),
        "{}",
        wanted[3].2
    );

    // MX and SPF records have the same name, and a server failure affects the whole name.
    let states = [Some(true), Some(false), None];
    for (mx, spf) in states
        .iter()
        .flat_map(|mx| states.iter().map(move |spf| (*mx, *spf)))
        .filter(|(mx, spf)| mx.is_none() == spf.is_none())
    {
        for dkim in states {
            for dmarc in states {
                let expected = [mx, spf, dkim, dmarc];
                world.dns.clear();
                // The MX record is added to the others at its name, so it comes last.
                for ((kind, host, value), state) in wanted.iter().zip(expected).rev() {
                    match state {
                        Some(true) if *kind == "MX" => world.dns.also_mx(host, value),
                        Some(true) => world.dns.txt(host, &pieces(value)),
                        Some(false) => {}
                        None => world.dns.servfail(host),
                    }
                }
                let told = read(&ada, EXAMPLE).await.succeeds(200);
                let ok: Vec<Option<bool>> = records(&told)
                    .into_iter()
                    .map(|(_, one)| one["ok"].as_bool())
                    .collect();
                assert_eq!(ok, expected, "{expected:?}");
            }
        }
    }
}

/// A text as TXT strings of at most 255 characters each.
fn pieces(value: &str) -> Vec<&str> {
    let bytes = value.as_bytes().chunks(200);
    bytes.map(|one| std::str::from_utf8(one).unwrap()).collect()
}

// Mail

#[tokio::test]
async fn an_alias_receives_within_the_session_in_which_its_domain_was_verified() {
    let world = World::with_own_mail().await;
    let service = &world.service;
    let ada = service.person("ada").await;
    let claimed = claim(&ada, EXAMPLE).await.succeeds(201);
    let info = "info@ada.example";
    let mut outside = Outside::connect(service).await;
    let refused = outside.recipient(info).await;
    assert!((500..600).contains(&refused), "{refused}");

    world.proves(&claimed);
    verify(&ada, EXAMPLE).await.succeeds(200);
    let refused = outside.recipient(info).await;
    assert!(
        (500..600).contains(&refused),
        "there is no alias yet: {refused}"
    );
    assert_eq!(outside.recipient("other@ada.example").await, 550);
    alias(&ada, info, true).await;
    outside.deliver(info, "To the alias").await;
    ada.arrives("To the alias").await;

    // A domain with an alias cannot be released; a disabled alias counts too.
    release(&ada, EXAMPLE).await.fails(409, HAS_ALIASES);
    service
        .execute("UPDATE addresses SET active = FALSE WHERE address = 'info@ada.example'")
        .await;
    let refused = outside.recipient(info).await;
    assert!((500..600).contains(&refused), "{refused}");
    release(&ada, EXAMPLE).await.fails(409, HAS_ALIASES);
    assert_eq!(list(&ada).await["domains"][0]["status"], "active");
    service
        .execute("UPDATE addresses SET live = FALSE WHERE address = 'info@ada.example'")
        .await;
    release(&ada, EXAMPLE).await.succeeds(200);
    let refused = outside.recipient(info).await;
    assert!((500..600).contains(&refused), "{refused}");
    assert_eq!(outside.recipient("ada@first.test").await, 250);

    // Its next owner can have every address on it.
    let bob = service.person("bob").await;
    world.active(&bob, EXAMPLE).await;
    alias(&bob, info, true).await;
    outside.deliver(info, "To its next owner").await;
    bob.arrives("To its next owner").await;
    assert!(ada.messages("INBOX").await.len() == 1);
}

#[tokio::test]
async fn a_mail_client_is_told_who_there_is_on_a_domain_that_was_verified_within_its_session() {
    let world = World::with_own_mail().await;
    let service = &world.service;
    let ada = service.person("ada").await;
    let claimed = claim(&ada, EXAMPLE).await.succeeds(201);
    let phone = ada.app_password("phone").await;
    let (username, password) = (text(&phone, "username"), text(&phone, "password"));
    let plain = STANDARD.encode(format!("\0{username}\0{password}"));
    let mut client = Outside::connect_to(service.mail().submission).await;
    assert_eq!(client.say(&format!("AUTH PLAIN {plain}")).await, 235);
    let to = async |client: &mut Outside, address: &str| {
        assert_eq!(client.say("MAIL FROM:<ada@first.test>").await, 250);
        let answered = client.say(&format!("RCPT TO:<{address}>")).await;
        assert_eq!(client.say("RSET").await, 250);
        answered
    };
    let info = "info@ada.example";
    assert_eq!(
        to(&mut client, info).await,
        250,
        "the recipient may exist elsewhere"
    );
    world.proves(&claimed);
    verify(&ada, EXAMPLE).await.succeeds(200);
    assert_eq!(to(&mut client, info).await, 550, "no alias yet");
    alias(&ada, info, true).await;
    assert_eq!(to(&mut client, info).await, 250);
    assert_eq!(to(&mut client, "else@outside.test").await, 250);
    assert_eq!(to(&mut client, "nobody@first.test").await, 550);
}

#[tokio::test]
async fn a_released_domain_leaves_no_key_behind_and_the_next_one_is_another() {
    let world = World::start().await;
    let service = &world.service;
    let ada = service.person("ada").await;
    let key = |domain: &Value| {
        let (_, record) = records(domain)[2];
        let (host, value) = (text(record, "host"), text(record, "value"));
        let (_, key) = value.split_once("p=").unwrap();
        (host.to_owned(), key.to_owned())
    };
    let (host, first) = key(&world.active(&ada, EXAMPLE).await);
    let kept = |rows: Vec<String>, key: &str| rows.iter().any(|row| row.contains(key));
    assert!(kept(service.dump().await, &first));
    release(&ada, EXAMPLE).await.succeeds(200);
    assert!(!kept(service.dump().await, &first));
    world.dns.clear();
    let (other_host, second) = key(&world.active(&ada, EXAMPLE).await);
    assert_ne!(first, second);
    assert_ne!(
        host, other_host,
        "what is published of the first is not mistaken for it"
    );
}

#[tokio::test]
async fn the_domains_of_a_deleted_account_are_free_at_once() {
    let world = World::with_own_mail().await;
    let service = &world.service;
    let (ada, bob) = (service.person("ada").await, service.person("bob").await);
    world.active(&ada, EXAMPLE).await;
    alias(&ada, "info@ada.example", true).await;
    claim(&bob, EXAMPLE).await.fails(409, TAKEN);
    let deleted = service.operator("account delete ada@first.test --yes", "");
    deleted.await.done();
    let mut outside = Outside::connect(service).await;
    let refused = outside.recipient("info@ada.example").await;
    assert!((500..600).contains(&refused), "{refused}");
    world.dns.clear();
    world.active(&bob, EXAMPLE).await;
    alias(&bob, "info@ada.example", true).await;
    assert_eq!(outside.recipient("info@ada.example").await, 250);
}
