//! Allowed names and domains, and generated names.

use std::collections::BTreeSet;

use latchmail_tests::dkim::add_domain;
use latchmail_tests::{DOMAIN, Person, Service};
use serde_json::{Value, json};

use super::{ALIASES, addresses, checked, claimed, create, created_id, listed};

const NO_PERMISSION: &str = "You do not have permission to use this domain";

/// Asserts that creating the alias and checking it fail with the same text, and returns that text.
async fn refused(person: &Person<'_>, name: &str, domain: &str) -> String {
    let body = json!({ "name": name, "domain": domain });
    let response = person.post(ALIASES, &body).await;
    let text = response.json["error"].as_str().unwrap_or_default();
    let is_refusal = response.status == 400 && !text.is_empty();
    assert!(
        is_refusal,
        "{name:?} {domain:?}: {} {}",
        response.status, response.json
    );
    // A query with NUL is always refused.
    if !format!("{name}{domain}").contains('\0') {
        let why = checked(person, name, domain).await;
        assert_eq!(why.as_deref(), Some(text), "{name:?} {domain:?}");
    }
    text.to_owned()
}

#[tokio::test]
async fn an_invalid_name_is_refused_by_the_creation_and_by_the_check() {
    let service = Service::start().await;
    let ada = service.person("ada").await;
    let long = format!("{}.test", ["x".repeat(61).as_str(); 3].join("."));
    add_domain(&ada, &long).await;
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
    ada.post(ALIASES, &empty)
        .await
        .fails_mentioning(400, "name");
    assert_eq!(addresses(&ada).await, [""; 0]);
    created_id(&ada, &format!("{}@{long}", "x".repeat(63))).await;
    created_id(&ada, &format!("{}@first.test", "x".repeat(64))).await;
    created_id(&ada, "4u@first.test").await;
}

#[tokio::test]
async fn an_unavailable_domain_is_refused_and_others_are_normalized() {
    let service = Service::start().await;
    let ada = service.person("ada").await;
    add_domain(&ada, "xn--bcher-kva.test").await;
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
async fn a_generated_alias_name_is_pronounceable_and_cannot_be_guessed() {
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
async fn aliases_can_be_on_platform_domains_and_the_accounts_active_domains() {
    let service = Service::start().await;
    let (ada, bob) = (service.person("ada").await, service.person("bob").await);
    add_domain(&ada, "z.test").await;
    add_domain(&ada, "a.test").await;
    claimed(&ada, "pending.test").await;
    add_domain(&bob, "bob.test").await;
    let domains = async |person: &Person<'_>| {
        let line = format!("GET {ALIASES}/domains");
        person.send(&line).await.succeeds(200)
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
        created_id(&ada, &format!("{name}@a.test")).await;
        let why = checked(&ada, name, "first.test").await;
        assert_eq!(why.as_deref(), Some("This name is reserved"));
    }
}
