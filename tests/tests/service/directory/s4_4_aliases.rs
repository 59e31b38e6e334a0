//! Specification, section 4.4: aliases in the API and at the mail servers. Sections 3 and 7 define their states and error texts.

use std::collections::BTreeSet;
use std::time::Duration;

use futures_util::future::join_all;
use latchmail_tests::dkim::domain;
use latchmail_tests::{
    Answer, DOMAIN, EVENTUALLY, PASSWORD, Person, Service, alias, imap, letter, subjects,
};
use lettre::transport::smtp::authentication::Credentials;
use lettre::{AsyncSmtpTransport, AsyncTransport as _, Message, Tokio1Executor};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::TcpStream;
use tokio::time::timeout;

const ALIASES: &str = "/api/v1/aliases";
const MISSING: &str = "Alias not found or not owned by you";
const NO_PERMISSION: &str = "You do not have permission to use this domain";
const FOREIGN: &str = "You can only send from your own address or active aliases";
const ELSEWHERE: &str = "You do not have permission to send from this domain";

/// Claims a domain without verifying it.
async fn claimed(person: &Person<'_>, domain: &str) {
    let body = json!({ "domain": domain });
    person.post("/api/v1/domains", &body).await.succeeds(201);
}

/// The response to creating the alias.
async fn create(person: &Person<'_>, address: &str) -> Answer {
    let (name, domain) = address.rsplit_once('@').unwrap();
    let body = json!({ "name": name, "domain": domain });
    person.post(ALIASES, &body).await
}

/// Creates an alias and returns its id.
async fn made(person: &Person<'_>, address: &str) -> u64 {
    let made = create(person, address).await.succeeds(201);
    assert_eq!(made["alias"], address);
    made["id"].as_u64().unwrap()
}

async fn set(person: &Person<'_>, id: u64, active: bool) -> Answer {
    let line = format!("PATCH {ALIASES}/{id}");
    person.send(&line, &json!({ "active": active })).await
}

async fn delete(person: &Person<'_>, id: u64) -> Answer {
    person.ask(&format!("DELETE {ALIASES}/{id}")).await
}

async fn listed(person: &Person<'_>) -> Vec<Value> {
    let list = person.ask(&format!("GET {ALIASES}")).await.succeeds(200);
    list["aliases"].as_array().unwrap().clone()
}

async fn addresses(person: &Person<'_>) -> Vec<String> {
    let listed = listed(person).await;
    let address = |alias: &Value| alias["address"].as_str().unwrap().to_owned();
    listed.iter().map(address).collect()
}

async fn check(person: &Person<'_>, name: &str, domain: &str) -> Answer {
    let encoded = |text: &str| {
        text.bytes()
            .fold(String::new(), |all, b| all + &format!("%{b:02X}"))
    };
    let query = format!("name={}&domain={}", encoded(name), encoded(domain));
    person.ask(&format!("GET {ALIASES}/check?{query}")).await
}

/// The reason why an alias is not available; `None` if it is.
async fn checked(person: &Person<'_>, name: &str, domain: &str) -> Option<String> {
    let answer = check(person, name, domain).await.succeeds(200);
    let error = answer.get("error");
    assert_eq!(answer["available"], error.is_none(), "{answer}");
    error.map(|error| error.as_str().unwrap().to_owned())
}

async fn send_from(person: &Person<'_>, from: &str, to: &str) -> Answer {
    let mail = json!({ "from": from, "to": to, "subject": "hello", "text": "Hello." });
    person.post("/api/v1/mail/send", &mail).await
}

/// An external SMTP client.
struct Smtp {
    stream: BufReader<TcpStream>,
}

impl Smtp {
    /// A client that has sent EHLO and MAIL FROM.
    async fn begun(service: &Service) -> Self {
        let stream = TcpStream::connect(service.mail().smtp).await.unwrap();
        let mut smtp = Self {
            stream: BufReader::new(stream),
        };
        assert_eq!(smtp.reply().await, 220);
        assert_eq!(smtp.say("EHLO outside.test").await, 250);
        assert_eq!(smtp.say("MAIL FROM:<grace@outside.test>").await, 250);
        smtp
    }

    /// The status code of the response to a command.
    async fn say(&mut self, line: &str) -> u16 {
        let line = format!("{line}\r\n");
        self.stream.write_all(line.as_bytes()).await.unwrap();
        self.reply().await
    }

    async fn to(&mut self, address: &str) -> u16 {
        self.say(&format!("RCPT TO:<{address}>")).await
    }

    async fn reply(&mut self) -> u16 {
        loop {
            let mut line = String::new();
            let read = timeout(EVENTUALLY, self.stream.read_line(&mut line));
            read.await.expect("the mail server responds").unwrap();
            if line.as_bytes().get(3) != Some(&b'-') {
                return line[..3].parse().unwrap();
            }
        }
    }
}

/// Waits until an inbox contains messages with these subjects, in any order.
async fn arrive(person: &Person<'_>, expected: &[&str]) {
    let mut client = imap(person).await;
    let expected: BTreeSet<String> = expected.iter().map(|s| (*s).to_owned()).collect();
    let come = async {
        loop {
            let found = BTreeSet::from_iter(subjects(&mut client, "INBOX").await);
            if found == expected {
                break;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    timeout(EVENTUALLY, come)
        .await
        .unwrap_or_else(|_| panic!("{expected:?} never came to {}", person.address));
}

/// Whether a person's mail client may send from an address.
async fn submits(person: &Person<'_>, password: &str, from: &str) -> bool {
    let submission = person.service.mail().submission;
    let transport =
        AsyncSmtpTransport::<Tokio1Executor>::builder_dangerous(submission.ip().to_string())
            .port(submission.port())
            .credentials(Credentials::new(person.address.clone(), password.into()))
            .build();
    let message = Message::builder()
        .from(from.parse().unwrap())
        .to("sink@outside.test".parse().unwrap())
        .body(String::from("Hello."))
        .unwrap();
    transport.send(message).await.is_ok()
}

// Responses of the routes

#[tokio::test]
async fn an_alias_is_made_listed_switched_and_deleted() {
    let service = Service::start().await;
    let ada = service.person("ada").await;
    assert_eq!(listed(&ada).await, [Value::Null; 0]);
    let id = made(&ada, "shop@first.test").await;
    let other = made(&ada, "news.letter_2-x@second.test").await;
    let at = |advanced: u64| {
        let now = service.clock.now().millis();
        let past = now - i64::try_from(advanced).unwrap() * 1000;
        let at = chrono::DateTime::from_timestamp_millis(past).unwrap();
        at.format("%Y-%m-%d %H:%M:%S").to_string()
    };
    let expected = |advanced, active, modified: &str| {
        json!([
            {
                "id": other, "address": "news.letter_2-x@second.test", "active": true,
                "created": at(advanced), "modified": at(advanced),
            },
            {
                "id": id, "address": "shop@first.test", "active": active,
                "created": at(advanced), "modified": modified,
            },
        ])
    };
    assert_eq!(json!(listed(&ada).await), expected(0, true, &at(0)));

    service.clock.advance(Duration::from_secs(100));
    let success = json!({ "success": true });
    assert_eq!(set(&ada, id, true).await.succeeds(200), success);
    assert_eq!(json!(listed(&ada).await), expected(100, true, &at(100)));
    assert_eq!(set(&ada, id, false).await.succeeds(200), success);
    assert_eq!(json!(listed(&ada).await), expected(100, false, &at(0)));
    service.clock.advance(Duration::from_secs(10));
    assert_eq!(set(&ada, id, false).await.succeeds(200), success);
    assert_eq!(json!(listed(&ada).await), expected(110, false, &at(10)));
    assert_eq!(set(&ada, id, true).await.succeeds(200), success);
    assert_eq!(json!(listed(&ada).await), expected(110, true, &at(0)));

    assert_eq!(delete(&ada, id).await.succeeds(200), success);
    assert_eq!(addresses(&ada).await, ["news.letter_2-x@second.test"]);
    delete(&ada, id).await.fails(404, MISSING);
    set(&ada, id, true).await.fails(404, MISSING);
}

#[tokio::test]
async fn invalid_requests_are_refused_in_the_words_of_the_specification() {
    let service = Service::start().await;
    let ada = service.person("ada").await;
    let id = made(&ada, "shop@first.test").await;
    for body in [
        json!({}),
        json!({ "name": "x" }),
        json!({ "domain": null }),
        json!({ "domain": "" }),
    ] {
        ada.post(ALIASES, &body)
            .await
            .fails(400, "domain is required");
    }
    let wrong = json!({ "domain": ["first.test"] });
    ada.post(ALIASES, &wrong)
        .await
        .fails(400, "domain must be a string");
    let wrong = json!({ "domain": "first.test", "name": 7 });
    ada.post(ALIASES, &wrong)
        .await
        .fails(400, "name must be a string");
    ada.post_raw(ALIASES, "{")
        .await
        .fails(400, "Invalid JSON body");
    for query in [
        "",
        "?name=x",
        "?domain=first.test",
        "?name=&domain=first.test",
        "?name=xx&domain=",
    ] {
        let line = format!("GET {ALIASES}/check{query}");
        let answer = ada.ask(&line).await;
        answer.fails(400, "name and domain query params required");
    }
    for bad in [
        "0",
        "-1",
        "1.5",
        "x",
        "7x",
        "9007199254740992",
        "99999999999999999999",
        "%00",
        "%F0%9F%8E%89",
    ] {
        let answer = ada.ask(&format!("DELETE {ALIASES}/{bad}")).await;
        if bad != "%00" {
            answer.fails(400, "Invalid alias ID");
        }
        assert_eq!(answer.status, 400, "{bad}");
        let line = format!("PATCH {ALIASES}/{bad}");
        let answer = ada.send(&line, &json!({ "active": true })).await;
        assert_eq!(answer.status, 400, "{bad}");
    }
    for body in [
        json!({}),
        json!({ "active": null }),
        json!({ "active": "true" }),
        json!({ "active": 0 }),
        json!([true]),
    ] {
        let answer = ada.send(&format!("PATCH {ALIASES}/{id}"), &body).await;
        answer.fails(400, "active (boolean) is required");
    }
    for unknown in [1, 77, (1 << 53) - 1] {
        delete(&ada, unknown).await.fails(404, MISSING);
        set(&ada, unknown, false).await.fails(404, MISSING);
    }
    // Known paths with an unsupported method.
    for line in [
        "GET /api/v1/aliases/7",
        "PUT /api/v1/aliases",
        "DELETE /api/v1/aliases",
    ] {
        assert_eq!(ada.ask(line).await.status, 405, "{line}");
    }
    assert_eq!(listed(&ada).await[0]["active"], true);
}

/// Creating the alias and the check both refuse it, with the same text.
async fn refused(person: &Person<'_>, name: &str, domain: &str) -> String {
    let body = json!({ "name": name, "domain": domain });
    let answer = person.post(ALIASES, &body).await;
    let text = answer.json["error"].as_str().unwrap_or_default();
    let told = answer.status == 400 && !text.is_empty();
    assert!(
        told,
        "{name:?} {domain:?}: {} {}",
        answer.status, answer.json
    );
    // A query with NUL is always refused.
    if !format!("{name}{domain}").contains('\0') {
        let why = checked(person, name, domain).await;
        assert_eq!(why.as_deref(), Some(text), "{name:?} {domain:?}");
    }
    text.to_owned()
}

#[tokio::test]
async fn a_name_that_will_not_do_is_refused_and_the_check_says_so_too() {
    let service = Service::start().await;
    let ada = service.person("ada").await;
    let long = format!("{}.test", ["x".repeat(61).as_str(); 3].join("."));
    domain(&ada, &long).await;
    for name in [
        "a",
        &"x".repeat(65),
        &"x".repeat(5000),
        "Shop",
        "SHOP",
        "shop ",
        "sh op",
        "shop+tag",
        "shop@first.test",
        ".shop",
        "shop.",
        "sh..op",
        "-shop",
        "shop-",
        "_shop",
        "--",
        "shop\0",
        "shop\r\nbcc: eve",
        "shop\u{7f}",
        "\"shop\"",
        "shop'; DROP TABLE addresses; --",
        "%73hop",
        // Homographs, mixed scripts, characters that convert to ASCII, invisible characters.
        "ѕһор",
        "shоp",
        "ｓｈｏｐ",
        "shop\u{200d}",
        "\u{202e}pohs",
        "ſhop",
        "jörg",
        "日本",
        "🎉🎉",
        "İstanbul",
        "postmaster",
        "abuse",
        "no-reply",
        "security",
    ] {
        let text = refused(&ada, name, DOMAIN).await;
        assert!(text.contains("name "), "{name:?}: {text}");
    }
    // 64 characters before the sign and 190 after it exceed the length of an address.
    refused(&ada, &"x".repeat(64), &long).await;
    let empty = json!({ "name": "", "domain": DOMAIN });
    ada.post(ALIASES, &empty).await.fails_about(400, "name");
    assert_eq!(addresses(&ada).await, [""; 0]);
    made(&ada, &format!("{}@{long}", "x".repeat(63))).await;
    made(&ada, &format!("{}@first.test", "x".repeat(64))).await;
    made(&ada, "4u@first.test").await;
}

#[tokio::test]
async fn a_domain_that_is_not_ones_to_use_is_refused_and_others_are_folded() {
    let service = Service::start().await;
    let ada = service.person("ada").await;
    domain(&ada, "xn--bcher-kva.test").await;
    claimed(&ada, "pending.test").await;
    for domain in [
        "elsewhere.test",
        "pending.test",
        "sub.first.test",
        "test",
        "first.test.",
        ".first.test",
        "first..test",
        "first.test\0",
        "first.test\n",
        " first.test",
        "fіrst.test",
        "first.test/../second.test",
        "[127.0.0.1]",
        "127.0.0.1",
        "eve@first.test",
        "xn--",
        "xn--a.test",
        "xn--zzzzzzzz--.test",
        "xn--bcher-kvaa.test",
        &format!("{}.test", "x".repeat(64)),
        &"x.".repeat(127),
        &"ü".repeat(4000),
        "'; DROP TABLE domains; --",
        "%",
        "_irst.test",
        "🎉",
    ] {
        assert_eq!(refused(&ada, "shop", domain).await, NO_PERMISSION);
    }
    assert_eq!(addresses(&ada).await, [""; 0]);
    // Domains are accepted in any case and script; the address has one form.
    for (domain, folded) in [
        ("First.TEST", "one@first.test"),
        ("bücher.test", "one@xn--bcher-kva.test"),
        ("BÜCHER.TEST", "two@xn--bcher-kva.test"),
        ("XN--BCHER-KVA.test", "six@xn--bcher-kva.test"),
    ] {
        let name = &folded[..3];
        assert_eq!(checked(&ada, name, domain).await, None);
        let made = create(&ada, &format!("{name}@{domain}"))
            .await
            .succeeds(201);
        assert_eq!(made["alias"], folded);
    }
}

#[tokio::test]
async fn without_a_name_an_alias_gets_one_that_can_be_said_and_not_be_guessed() {
    let service = Service::start().await;
    let ada = service.person("ada").await;
    let mut names = BTreeSet::new();
    for n in 0..20 {
        let body = match n {
            0 => json!({ "domain": DOMAIN, "name": null }),
            _ => json!({ "domain": DOMAIN }),
        };
        let made = ada.post(ALIASES, &body).await.succeeds(201);
        let alias = made["alias"].as_str().unwrap();
        let name = alias.strip_suffix("@first.test").unwrap();
        let words: Vec<&str> = name.split('-').collect();
        assert_eq!(words.len(), 4, "{alias}");
        for word in words {
            let sounds: Vec<bool> = word.chars().map(|c| "aiou".contains(c)).collect();
            assert_eq!(sounds, [false, true, false, true, false], "{alias}");
            names.insert(word.to_owned());
        }
    }
    // 80 words of 16 random bits contain few duplicates.
    assert!(names.len() > 75, "{names:?}");
    assert_eq!(listed(&ada).await.len(), 20);
}

#[tokio::test]
async fn aliases_are_on_the_platforms_domains_and_ones_own_that_are_active() {
    let service = Service::start().await;
    let (ada, bob) = (service.person("ada").await, service.person("bob").await);
    domain(&ada, "z.test").await;
    domain(&ada, "a.test").await;
    claimed(&ada, "pending.test").await;
    domain(&bob, "bob.test").await;
    let domains = async |person: &Person<'_>| {
        let line = format!("GET {ALIASES}/domains");
        person.ask(&line).await.succeeds(200)
    };
    let of = |names: &[&str]| {
        let domains: Vec<Value> = names.iter().map(|n| json!({ "domain": n })).collect();
        json!({ "domains": domains })
    };
    let expected = of(&["first.test", "second.test", "a.test", "z.test"]);
    assert_eq!(domains(&ada).await, expected);
    let expected = of(&["first.test", "second.test", "bob.test"]);
    assert_eq!(domains(&bob).await, expected);
    create(&bob, "shop@a.test").await.fails(400, NO_PERMISSION);
    // On the account's own domain no name is reserved.
    for name in ["postmaster", "abuse", "info", "admin"] {
        made(&ada, &format!("{name}@a.test")).await;
        let why = checked(&ada, name, "first.test").await;
        assert_eq!(why.as_deref(), Some("This name is reserved"));
    }
}

// Ownership of addresses

#[tokio::test]
async fn an_address_belongs_to_one_account_as_account_or_alias() {
    let service = Service::start().await;
    let (ada, bob) = (service.person("ada").await, service.person("bob").await);
    service
        .execute("INSERT INTO addresses (address, kind) VALUES ('list@first.test', 'held')")
        .await;
    let shop = made(&ada, "shop@first.test").await;
    let gone = made(&ada, "gone@first.test").await;
    delete(&ada, gone).await.succeeds(200);
    let asleep = made(&ada, "asleep@first.test").await;
    set(&ada, asleep, false).await.succeeds(200);
    for name in ["ada", "bob", "shop", "gone", "asleep", "list"] {
        let taken = format!("{name}@first.test is already taken");
        create(&bob, &format!("{name}@first.test"))
            .await
            .fails(400, &taken);
        assert_eq!(checked(&bob, name, DOMAIN).await, Some(taken));
        let body = json!({
            "local_part": name, "domain": DOMAIN, "password": PASSWORD,
            "first_name": "Eve", "last_name": "Eve", "dob": "1990-12-10",
        });
        let answer = service.post("/api/v1/auth/register", &body).await;
        answer.fails(409, "This email address is already taken");
    }
    for name in ["ada", "shop", "list"] {
        let taken = format!("{name}@first.test is already taken");
        create(&ada, &format!("{name}@first.test"))
            .await
            .fails(400, &taken);
    }
    // Its former owner can create it again, with the same id.
    assert_eq!(checked(&ada, "gone", DOMAIN).await, None);
    assert_eq!(made(&ada, "gone@first.test").await, gone);
    // The same name on another domain is another address.
    assert_ne!(made(&bob, "shop@second.test").await, shop);
    // `username-available` checks only accounts.
    let line = "GET /api/v1/auth/username-available?username=shop";
    assert_eq!(service.ask(line).await.succeeds(200)["available"], true);
}

#[tokio::test]
async fn of_many_who_want_an_address_at_once_one_gets_it() {
    let service = Service::start().await;
    let (ada, bob) = (service.person("ada").await, service.person("bob").await);
    for round in 0..5 {
        let address = format!("wanted-{round}@first.test");
        let name = format!("wanted-{round}");
        let body = json!({
            "local_part": name, "domain": DOMAIN, "password": PASSWORD,
            "first_name": "Eve", "last_name": "Eve", "dob": "1990-12-10",
        });
        let people = [&ada, &bob].repeat(3);
        let creations = join_all(people.iter().map(|person| create(person, &address)));
        let registration = service.post("/api/v1/auth/register", &body);
        let (mut answers, registered) = tokio::join!(creations, registration);
        let taken = format!("{address} is already taken");
        for answer in answers.iter().filter(|answer| answer.status != 201) {
            answer.fails(400, &taken);
        }
        if registered.status != 201 {
            registered.fails(409, "This email address is already taken");
        }
        answers.push(registered);
        let winners = answers.iter().filter(|answer| answer.status == 201);
        assert_eq!(winners.count(), 1, "{address}");
    }
}

#[tokio::test]
async fn an_id_is_the_addresss_own_and_tells_nothing_of_others() {
    let mut service = Service::with_mail().await;
    let ids = {
        let (ada, bob) = (service.person("ada").await, service.person("bob").await);
        let mut ids = Vec::new();
        for n in 0..10 {
            let id = made(&ada, &format!("shop{n}@first.test")).await;
            assert!((1..1 << 53).contains(&id));
            // The id of another account's alias looks like an unknown id.
            let (foreign, unknown) = (delete(&bob, id).await, delete(&bob, id ^ 1).await);
            assert_eq!(
                (foreign.status, &foreign.json),
                (unknown.status, &unknown.json)
            );
            foreign.fails(404, MISSING);
            for active in [true, false] {
                set(&bob, id, active).await.fails(404, MISSING);
            }
            ids.push(id);
        }
        assert!(
            listed(&ada)
                .await
                .iter()
                .all(|alias| alias["active"] == true)
        );
        ids
    };
    let ada = "ada@first.test";
    service.restart().await;
    let ada = Person::sign_in(&service, ada, PASSWORD).await;
    let again: Vec<u64> = listed(&ada)
        .await
        .iter()
        .map(|a| a["id"].as_u64().unwrap())
        .collect();
    assert_eq!(again, ids);
}

#[tokio::test]
async fn an_alias_that_the_service_never_saw_being_made_has_no_dates() {
    let service = Service::start().await;
    let ada = service.person("ada").await;
    alias(&ada, "old@first.test", true).await;
    let old = listed(&ada).await.remove(0);
    let id = old["id"].as_u64().unwrap();
    let without = json!({ "id": id, "address": "old@first.test", "active": true });
    assert_eq!(old, without);
    set(&ada, id, false).await.succeeds(200);
    let without = json!({ "id": id, "address": "old@first.test", "active": false });
    assert_eq!(listed(&ada).await, [without]);
    delete(&ada, id).await.succeeds(200);
    assert_eq!(made(&ada, "old@first.test").await, id);
    assert!(listed(&ada).await[0]["created"].is_string());
}

#[tokio::test]
async fn an_account_has_a_limit_of_aliases_on_platform_domains() {
    let service = Service::start().await;
    let (ada, bob) = (service.person("ada").await, service.person("bob").await);
    domain(&ada, "ada.test").await;
    service
        .execute(
            "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 498) \
             INSERT INTO addresses (address, kind, account_id, live) \
             SELECT 'n' || i || '@first.test', 'alias', (SELECT id FROM accounts WHERE address = 'ada@first.test'), i % 2 = 0 FROM n",
        )
        .await;
    made(&ada, "one@first.test").await;
    let answers = ["two@first.test", "two@second.test", "three@first.test"];
    let answers = join_all(answers.iter().map(|address| create(&ada, address))).await;
    let full = "You have had 500 different aliases on this service's domains; create one of them again instead";
    let refused = answers.iter().filter(|answer| answer.status != 201);
    assert_eq!(refused.map(|answer| answer.fails(409, full)).count(), 2);
    assert_eq!(checked(&ada, "four", DOMAIN).await.as_deref(), Some(full));
    ada.post(ALIASES, &json!({ "domain": DOMAIN }))
        .await
        .fails(409, full);
    made(&ada, "n1@first.test").await;
    made(&ada, "four@ada.test").await;
    made(&bob, "four@first.test").await;
}

#[tokio::test]
async fn a_credential_makes_fifty_new_aliases_a_day() {
    let service = Service::start().await;
    let ada = service.person("ada").await;
    let token = async || {
        let token = ada.token(&["aliases:write", "aliases:read"]).await;
        Person {
            access: token["token"].as_str().unwrap().into(),
            ..ada.clone()
        }
    };
    let (stolen, other) = (token().await, token().await);
    for n in 0..50 {
        made(&stolen, &format!("n{n}@first.test")).await;
        service.clock.advance(Duration::from_mins(1));
    }
    let refused = create(&stolen, "one-more@first.test").await;
    refused.fails(429, "Too many requests, please try again later");
    assert_eq!(refused.header("retry-after"), Some("83400"));
    assert_eq!(addresses(&stolen).await.len(), 50);
    // Creating an existing alias again does not count, and each credential has its own limit.
    let id = listed(&stolen).await[0]["id"].as_u64().unwrap();
    delete(&stolen, id).await.succeeds(200);
    made(&stolen, "n0@first.test").await;
    made(&other, "hers@first.test").await;
    service.clock.advance(Duration::from_hours(23));
    create(&stolen, "one-more@first.test")
        .await
        .fails(429, "Too many requests, please try again later");
    service.clock.advance(Duration::from_mins(10));
    made(&stolen, "one-more@first.test").await;
    create(&stolen, "two-more@first.test")
        .await
        .fails(429, "Too many requests, please try again later");
}

#[tokio::test]
async fn a_token_does_what_its_scope_says_and_nothing_once_it_is_revoked() {
    let service = Service::start().await;
    let ada = service.person("ada").await;
    let holder = async |scope: &str| {
        let token = ada.token(&[scope]).await;
        Person {
            access: token["token"].as_str().unwrap().into(),
            ..ada.clone()
        }
    };
    let (reader, writer) = (holder("aliases:read").await, holder("aliases:write").await);
    let id = made(&writer, "shop@first.test").await;
    assert_eq!(addresses(&reader).await, ["shop@first.test"]);
    let missing = |scope| format!("This credential is missing the \"{scope}\" scope");
    create(&reader, "two@first.test")
        .await
        .fails(403, &missing("aliases:write"));
    set(&reader, id, false)
        .await
        .fails(403, &missing("aliases:write"));
    check(&writer, "two", DOMAIN)
        .await
        .fails(403, &missing("aliases:read"));
    set(&writer, id, false).await.succeeds(200);
    delete(&writer, id).await.succeeds(200);
    let tokens = ada.ask("GET /api/v1/tokens").await.succeeds(200);
    for token in tokens["tokens"].as_array().unwrap() {
        let line = format!("DELETE /api/v1/tokens/{}", token["id"].as_str().unwrap());
        ada.ask(&line).await.succeeds(200);
    }
    let revoked = "This API token has been revoked";
    create(&writer, "two@first.test").await.fails(401, revoked);
    assert_eq!(addresses(&ada).await, [""; 0]);
}

// Aliases at the mail servers

#[tokio::test]
async fn mail_for_an_alias_is_taken_while_it_is_active_even_within_one_session() {
    let service = Service::with_mail().await;
    let ada = service.person("ada").await;
    let mut smtp = Smtp::begun(&service).await;
    assert_eq!(smtp.to("shop@first.test").await, 550);
    let id = made(&ada, "shop@first.test").await;
    assert_eq!(smtp.to("shop@first.test").await, 250);
    assert_eq!(smtp.to("Shop@First.Test").await, 250);
    set(&ada, id, false).await.succeeds(200);
    assert_eq!(smtp.to("shop@first.test").await, 550);
    set(&ada, id, true).await.succeeds(200);
    assert_eq!(smtp.say("RSET").await, 250);
    assert_eq!(smtp.say("MAIL FROM:<grace@outside.test>").await, 250);
    assert_eq!(smtp.to("shop@first.test").await, 250);
    assert_eq!(smtp.say("DATA").await, 354);
    let message = letter("to the shop");
    assert_eq!(smtp.say(&format!("{message}.")).await, 250);
    arrive(&ada, &["to the shop"]).await;
    // Delivered mail stays.
    delete(&ada, id).await.succeeds(200);
    assert_eq!(smtp.say("MAIL FROM:<grace@outside.test>").await, 250);
    assert_eq!(smtp.to("shop@first.test").await, 550);
    arrive(&ada, &["to the shop"]).await;
    let received = ada.newest().await;
    assert_eq!(received["subject"], "to the shop");
}

#[tokio::test]
async fn an_alias_of_ones_own_domain_receives_and_sends_as_any_other() {
    // A Postfix process remembers a domain for its whole life, so no other test may have used this one.
    let service = Service::with_own_mail().await;
    let (ada, bob) = (service.person("ada").await, service.person("bob").await);
    let mut smtp = Smtp::begun(&service).await;
    // Postfix remembers domains within a session and beyond it.
    assert_eq!(smtp.to("info@ada.test").await, 554);
    domain(&ada, "ada.test").await;
    for name in ["other", "info"] {
        assert_eq!(smtp.to(&format!("{name}@ada.test")).await, 550);
    }
    let id = made(&ada, "info@ada.test").await;
    assert_eq!(smtp.to("info@ada.test").await, 250);
    service.deliver("info@ada.test", &letter("to info")).await;
    arrive(&ada, &["to info"]).await;
    send_from(&ada, "info@ada.test", "bob@first.test")
        .await
        .succeeds(200);
    send_from(&bob, "bob@first.test", "info@ada.test")
        .await
        .succeeds(200);
    arrive(&ada, &["to info", "hello"]).await;
    arrive(&bob, &["hello"]).await;
    assert_eq!(bob.newest().await["from"][0]["address"], "info@ada.test");
    send_from(&bob, "info@ada.test", "ada@first.test")
        .await
        .fails(403, ELSEWHERE);
    send_from(&ada, "nobody@ada.test", "bob@first.test")
        .await
        .fails(403, FOREIGN);
    set(&ada, id, false).await.succeeds(200);
    send_from(&ada, "info@ada.test", "bob@first.test")
        .await
        .fails(403, FOREIGN);
    assert_eq!(smtp.to("info@ada.test").await, 550);
    // No other account can have the domain, so nothing is reserved.
    delete(&ada, id).await.succeeds(200);
    assert_eq!(made(&ada, "info@ada.test").await, id);
    assert_eq!(smtp.to("info@ada.test").await, 250);
    assert_eq!(smtp.say("QUIT").await, 221);
    let mut later = Smtp::begun(&service).await;
    assert_eq!(later.to("info@ada.test").await, 250);
    // A domain without aliases can be released.
    delete(&ada, id).await.succeeds(200);
    service.execute("DELETE FROM domains").await;
    assert_ne!(later.to("info@ada.test").await, 250);
}

#[tokio::test]
async fn an_alias_sends_while_it_is_active_from_the_api_and_from_mail_clients() {
    let service = Service::with_mail().await;
    let (ada, bob) = (service.person("ada").await, service.person("bob").await);
    claimed(&ada, "pending.test").await;
    let password = ada.app_password("Phone").await;
    let password = password["password"].as_str().unwrap();
    send_from(&ada, "shop@first.test", "bob@first.test")
        .await
        .fails(403, FOREIGN);
    assert!(!submits(&ada, password, "shop@first.test").await);
    let id = made(&ada, "shop@first.test").await;
    send_from(&ada, "shop@first.test", "bob@first.test")
        .await
        .succeeds(200);
    send_from(&ada, "Shop@FIRST.test", "bob@first.test")
        .await
        .succeeds(200);
    assert!(submits(&ada, password, "shop@first.test").await);
    send_from(&bob, "shop@first.test", "ada@first.test")
        .await
        .fails(403, FOREIGN);
    set(&ada, id, false).await.succeeds(200);
    send_from(&ada, "shop@first.test", "bob@first.test")
        .await
        .fails(403, FOREIGN);
    assert!(!submits(&ada, password, "shop@first.test").await);
    set(&ada, id, true).await.succeeds(200);
    assert!(submits(&ada, password, "shop@first.test").await);
    delete(&ada, id).await.succeeds(200);
    send_from(&ada, "shop@first.test", "bob@first.test")
        .await
        .fails(403, FOREIGN);
    assert!(!submits(&ada, password, "shop@first.test").await);
    for elsewhere in ["ada@pending.test", "ada@elsewhere.test"] {
        send_from(&ada, elsewhere, "bob@first.test")
            .await
            .fails(403, ELSEWHERE);
    }
}
