//! The operators of a query, text that looks like an operator, and invalid queries.

use latchmail_tests::{Person, Service, imap, store_flags};

use super::{TEXT, append, assert_found, indexed_texts};

/// Fills the inbox with messages for all operators, and waits for the index.
async fn fill(ada: &Person<'_>) {
    let mut client = imap(ada).await;
    let fields = |from: &str, to: &str, cc: &str, date: &str| {
        format!("From: {from}\nTo: {to}\nCc: {cc}\nDate: {date}\n{TEXT}")
    };
    let grace = "Grace Hopper <grace@navy.test>";
    let ada_address = "Ada <ada@first.test>";
    let file = "\n--b\nContent-Type: text/plain\n\nbudget\n--b\nContent-Type: text/csv\nContent-Disposition: attachment; filename=list.csv\n\n1\n--b--";
    let mixed = "MIME-Version: 1.0\nContent-Type: multipart/mixed; boundary=b\n";
    for (subject, fields, body) in [
        (
            "budget plan",
            fields(
                grace,
                ada_address,
                "bob@third.test",
                "Wed, 18 Nov 2026 12:00:00 +0000",
            ),
            "The plan for spring.".to_owned(),
        ),
        (
            "late",
            // In UTC it is still the eighteenth.
            fields(
                "Linus <linus@kernel.test>",
                "Grace <grace@navy.test>",
                "",
                "Thu, 19 Nov 2026 00:30:00 +0100",
            ),
            "The budget of grace and mercy.".to_owned(),
        ),
        (
            "large",
            fields(
                grace,
                "list@third.test",
                ada_address,
                "Thu, 19 Nov 2026 00:00:00 +0000",
            ),
            "budget ".repeat(3_000),
        ),
        (
            "file",
            format!(
                "From: {ada_address}\nTo: {ada_address}\nDate: Fri, 20 Nov 2026 10:00:00 +0000\n{mixed}"
            ),
            file.to_owned(),
        ),
    ] {
        append(&mut client, "INBOX", subject, &fields, &body).await;
    }
    store_flags(&mut client, "INBOX", 1, "+FLAGS (\\Seen $Work)").await;
    store_flags(&mut client, "INBOX", 2, "+FLAGS (private)").await;
    ada.wait_for_index().await;
}

#[tokio::test]
async fn each_operator_restricts_the_result() {
    let service = Service::with_mail().await;
    let ada = service.person("ada").await;
    fill(&ada).await;
    for (query, expected) in [
        ("from:grace", &["budget plan", "large"][..]),
        ("from:GRACE", &["budget plan", "large"]),
        ("FROM:grace", &["budget plan", "large"]),
        ("from:\"grace hopper\"", &["budget plan", "large"]),
        ("from:\"hopper grace\"", &[]),
        ("from:grace@navy.test", &["budget plan", "large"]),
        ("from:navy.test", &["budget plan", "large"]),
        // The value of an operator is not a prefix.
        ("from:gra", &[]),
        ("from:spring", &[]),
        ("to:grace", &["late"]),
        ("to:ada", &["budget plan", "file", "large"]),
        ("to:bob@third.test", &["budget plan"]),
        ("to:third.test", &["budget plan", "large"]),
        ("subject:budget", &["budget plan"]),
        ("subject:\"budget plan\"", &["budget plan"]),
        ("subject:\"plan budget\"", &[]),
        ("subject:spring", &[]),
        ("has:attachment", &["file"]),
        ("is:unread", &["file", "large", "late"]),
        ("label:$Work", &["budget plan"]),
        ("label:$work", &["budget plan"]),
        ("label:Private", &["late"]),
        ("label:none", &[]),
        // A bare word does not search labels.
        ("private", &[]),
        ("before:2026-11-19", &["budget plan", "late"]),
        ("after:2026-11-19", &["file", "large"]),
        ("before:2026-11-18", &[]),
        (
            "after:2026-11-18 before:2026-11-20",
            &["budget plan", "large", "late"],
        ),
        ("larger:10K", &["large"]),
        ("larger:10000", &["large"]),
        ("larger:1", &["budget plan", "file", "large", "late"]),
        ("larger:1M", &[]),
        ("in:INBOX budget", &["budget plan", "file", "large", "late"]),
        ("in:inbox from:grace", &["budget plan", "large"]),
        ("in:Archive", &[]),
    ] {
        assert_found(&ada, query, expected).await;
    }
}

#[tokio::test]
async fn terms_are_combined_and_negated() {
    let service = Service::with_mail().await;
    let ada = service.person("ada").await;
    fill(&ada).await;
    for (query, expected) in [
        ("budget from:grace", &["budget plan", "large"][..]),
        ("budget -from:grace", &["file", "late"]),
        ("budget -spring", &["file", "large", "late"]),
        ("-budget", &[]),
        ("-spring", &["file", "large", "late"]),
        // A negated word is not a prefix.
        ("-spri", &["budget plan", "file", "large", "late"]),
        ("-is:unread", &["budget plan"]),
        ("-has:attachment -larger:10K", &["budget plan", "late"]),
        ("-\"grace and mercy\" from:linus", &[]),
        ("-in:INBOX", &[]),
        ("spring OR mercy", &["budget plan", "late"]),
        ("from:linus OR has:attachment", &["file", "late"]),
        (
            "from:linus OR has:attachment OR larger:10K",
            &["file", "large", "late"],
        ),
        // OR binds tighter than the implicit AND.
        ("spring OR mercy from:linus", &["late"]),
        ("from:linus spring OR mercy", &["late"]),
        ("spring OR -budget", &["budget plan"]),
        ("mercy OR -is:unread", &["budget plan", "late"]),
        ("from:grace subject:budget is:unread", &[]),
        (
            "from:grace after:2026-11-19 larger:10K is:unread",
            &["large"],
        ),
        // Only in capitals OR is an operator.
        ("spring or mercy", &[]),
    ] {
        assert_found(&ada, query, expected).await;
    }
}

#[tokio::test]
async fn text_that_only_looks_like_an_operator_is_literal() {
    let service = Service::with_mail().await;
    let ada = service.person("ada").await;
    let texts = [
        "re: x marks the spot",
        "he said \"maybe\" later",
        "a - b",
        "OR else",
        "http://x.test:8080 and c:\\temp",
        "from grace to ada",
    ];
    indexed_texts(&ada, TEXT, &texts).await;
    for (query, expected) in [
        ("re: x", &["0"][..]),
        ("re:x", &["0"]),
        ("unknown:value", &[]),
        ("http://x.test:8080", &["4"]),
        ("c:\\temp", &["4"]),
        ("\"maybe", &["1"]),
        ("\"maybe\" later", &["1"]),
        ("said \"maybe later", &["1"]),
        ("a - b", &["2"]),
        ("marks - spot", &["0"]),
        ("spot -", &["0"]),
        ("- spot", &["0"]),
        ("OR else", &["3"]),
        ("else OR", &["3"]),
        ("\"or\" else", &["3"]),
        ("maybe -\"", &["1"]),
    ] {
        assert_found(&ada, query, expected).await;
    }
    // A query without any word must not fail.
    for query in ["-", "\"", "\"\"", "--", ":", "()", "OR", "*", "🥳"] {
        ada.search(query, "").await.succeeds(200);
        ada.search(query, "&folder=*").await.succeeds(200);
    }
}

#[tokio::test]
async fn plain_syntax_has_no_operators() {
    let service = Service::with_mail().await;
    let ada = service.person("ada").await;
    let texts = [
        "from grace to ada",
        "spring or mercy",
        "before: yesterday",
        "a spring without",
    ];
    indexed_texts(&ada, TEXT, &texts).await;
    for (query, expected) in [
        ("from:grace", &["0"][..]),
        ("spring OR mercy", &["1"]),
        ("before:yesterday", &["2"]),
        ("-spring", &["1", "3"]),
        ("spring -without", &["3"]),
        ("has:attachment", &[]),
        ("spri", &["1", "3"]),
    ] {
        let mut found = ada.found(query, "&syntax=plain").await;
        found.sort();
        assert_eq!(found, expected, "{query}");
    }
}

#[tokio::test]
async fn an_invalid_value_of_a_known_operator_is_refused_with_its_position() {
    let service = Service::with_mail().await;
    let ada = service.person("ada").await;
    let refused = async |query: &str, position: usize| {
        for folder in ["", "&folder=*"] {
            let response = ada.search(query, folder).await;
            let error = response.json["error"].as_str().unwrap_or_default();
            let text = format!("Invalid search query at character {position}: ");
            assert!(
                response.status == 400 && error.len() > text.len() && error.starts_with(&text),
                "{query}: {} {}",
                response.status,
                response.json
            );
        }
    };
    for is_ready in [false, true] {
        for (query, position) in [
            ("before:yesterday", 0),
            ("after:2026-13-01", 0),
            ("after:2026-02-30", 0),
            ("before:26-11-19", 0),
            ("larger:big", 0),
            ("larger:10X", 0),
            ("larger:-1", 0),
            ("is:odd", 0),
            ("has:feet", 0),
            ("budget before:soon", 7),
            ("é before:yesterday", 2),
            ("😀😀 larger:x from:grace", 3),
            ("\"日本 語\" is:odd", 7),
            ("a OR before:soon", 5),
        ] {
            refused(query, position).await;
        }
        // The positions count from the term's beginning, and a valid query with the same words is
        // accepted.
        ada.search("before:2026-11-19 larger:10K", "")
            .await
            .succeeds(200);
        ada.search("before:yesterday", "&syntax=plain")
            .await
            .succeeds(200);
        if !is_ready {
            ada.wait_for_index().await;
        }
    }
    for rest in [
        "&sort=oldest",
        "&sort=",
        "&syntax=operators",
        "&syntax=",
        "&limit=0",
        "&page=0&folder=*",
        "&sort=Newest",
    ] {
        let response = ada.search("x", rest).await;
        response.fails(400, "Invalid search parameters");
    }
}
