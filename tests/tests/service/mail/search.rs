//! Searching a folder, and the rate limit of section 8.

use std::fmt::Write as _;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use latchmail_tests::{Imap, Person, Response, Service, Setup, append_message, imap};
use serde_json::{Value, json};

const NONE: [&str; 0] = [];

/// Returns the request line of a search for a term.
fn path(term: &str, rest: &str) -> String {
    format!("/api/v1/mail/search?q={}{rest}", encoded(term))
}

fn encoded(text: &str) -> String {
    text.bytes().fold(String::new(), |mut encoded, byte| {
        write!(encoded, "%{byte:02X}").unwrap();
        encoded
    })
}

async fn search(person: &Person<'_>, term: &str, rest: &str) -> Response {
    person.send(&format!("GET {}", path(term, rest))).await
}

/// Returns the subjects of a search in the inbox, in the order of the response.
async fn found(person: &Person<'_>, term: &str) -> Vec<String> {
    let response = search(person, term, "").await.succeeds(200);
    let subjects = subjects(&response);
    assert_eq!(response["total"], subjects.len(), "{term}");
    subjects
}

fn subjects(response: &Value) -> Vec<String> {
    let messages = response["messages"].as_array().unwrap().iter();
    messages
        .map(|m| m["subject"].as_str().unwrap().to_owned())
        .collect()
}

/// Puts a message with this subject, these other fields and this body into the inbox.
async fn append_message_with(client: &mut Imap, subject: &str, fields: &str, body: &str) {
    let message = format!("Subject: {subject}\n{fields}\n{body}\n").replace('\n', "\r\n");
    client.append("INBOX", None, None, message).await.unwrap();
}

#[tokio::test]
async fn a_term_is_found_in_the_subject_the_addresses_and_the_text() {
    let service = Service::with_mail().await;
    let ada = service.person("ada").await;
    let mut client = imap(&ada).await;
    let utf8 = "MIME-Version: 1.0\nContent-Type: text/plain; charset=utf-8\n";
    let body = STANDARD.encode("Und hier steht: Zaunkönig, versteckt.");
    for (subject, fields, body) in [
        ("the needle itself", String::new(), "nothing"),
        (
            "by name",
            "From: Needle Point <p@outside.test>\n".into(),
            "x",
        ),
        (
            "by sender",
            "From: P <the.needle@outside.test>\n".into(),
            "x",
        ),
        (
            "by recipient",
            "To: a@first.test, Needle <n@outside.test>\n".into(),
            "x",
        ),
        ("by copy", "Cc: x@first.test, c@needle.test\n".into(), "x"),
        (
            "by text",
            String::new(),
            "In a haystack\nthere is a needle.\n",
        ),
        (
            "quoted printable",
            format!("{utf8}Content-Transfer-Encoding: quoted-printable\n"),
            "A long line with the nee=\ndle, and a Zaunk=C3=B6nig.",
        ),
        (
            "base64",
            format!("{utf8}Content-Transfer-Encoding: base64\n"),
            &body,
        ),
        (
            "many parts",
            "MIME-Version: 1.0\nContent-Type: multipart/alternative; boundary=b\n".into(),
            "--b\nContent-Type: text/plain; charset=iso-8859-1\nContent-Transfer-Encoding: quoted-printable\n\n\
             Der Zaunk=F6nig.\n--b\nContent-Type: text/html; charset=utf-8\n\n<p>Only here: marginalia</p>\n--b--",
        ),
        ("none of it", "X-Other: nothing of note\n".into(), "Hay."),
    ] {
        append_message_with(&mut client, subject, &fields, body).await;
    }
    for (term, expected) in [
        (
            "needle",
            &[
                "quoted printable",
                "by text",
                "by copy",
                "by recipient",
                "by sender",
                "by name",
                "the needle itself",
            ][..],
        ),
        ("the.needle@outside", &["by sender"]),
        ("Needle Point", &["by name"]),
        ("c@needle.test", &["by copy"]),
        ("n@outside.test", &["by recipient"]),
        ("Zaunkönig", &["many parts", "base64", "quoted printable"]),
        ("steht: Zaunkönig", &["base64"]),
        ("marginalia", &["many parts"]),
        ("there is a needle", &["by text"]),
        ("needles", &[]),
    ] {
        assert_eq!(found(&ada, term).await, expected, "{term}");
    }
}

#[tokio::test]
async fn terms_in_any_script_are_found_in_upper_and_lower_case() {
    let service = Service::with_mail().await;
    let ada = service.person("ada").await;
    let mut client = imap(&ada).await;
    let word = |text: &str| format!("=?utf-8?B?{}?=", STANDARD.encode(text));
    let from = |name: &str| format!("From: {} <x@outside.test>\n", word(name));
    let text = |charset: &str| {
        format!(
            "MIME-Version: 1.0\nContent-Type: text/plain; charset={charset}\nContent-Transfer-Encoding: base64\n"
        )
    };
    append_message_with(&mut client, &word("Grüße aus Österreich"), "", "x").await;
    append_message_with(&mut client, "Привет", &from("Лев Толстой"), "x").await;
    let body = STANDARD.encode("ἐν ἀρχῇ ἦν ὁ λόγος, в начале было слово");
    append_message_with(&mut client, "slovo", &text("utf-8"), &body).await;
    let latin = STANDARD.encode(b"\xc4rger und \xdcbermut");
    append_message_with(&mut client, "latin", &text("iso-8859-1"), &latin).await;
    let koi8 = STANDARD.encode(b"\xf0\xd2\xc9\xd7\xc5\xd4"); // "Привет"
    append_message_with(&mut client, "koi8", &text("koi8-r"), &koi8).await;
    append_message_with(&mut client, &word("これは日本語の件名です"), "", "x").await;
    let chinese = STANDARD.encode("你好，世界。");
    append_message_with(&mut client, "chinese", &text("utf-8"), &chinese).await;
    append_message_with(&mut client, &word("party 🎉🥳 tonight"), "", "x").await;
    for (term, expected) in [
        ("grüße", &["Grüße aus Österreich"][..]),
        ("GRÜßE", &["Grüße aus Österreich"]),
        ("österREICH", &["Grüße aus Österreich"]),
        ("толстой", &["Привет"]),
        ("ТОЛСТОЙ", &["Привет"]),
        ("привет", &["koi8", "Привет"]),
        ("НАЧАЛЕ", &["slovo"]),
        ("ΛΌΓΟΣ,", &["slovo"]),
        ("ärger", &["latin"]),
        ("ÜBERMUT", &["latin"]),
        ("日本語", &["これは日本語の件名です"]),
        ("世界", &["chinese"]),
        ("🥳", &["party 🎉🥳 tonight"]),
        ("SLOVO", &["slovo"]),
    ] {
        assert_eq!(found(&ada, term).await, expected, "{term}");
    }
}

#[tokio::test]
async fn special_characters_of_imap_are_searched_literally() {
    // The mail server searches, because the index contains only words.
    let service = Service::with_mail_and("index.enabled = false").await;
    let ada = service.person("ada").await;
    let mut client = imap(&ada).await;
    let literal = [
        "she said \"maybe\" twice",
        "C:\\temp\\file",
        "a {3} brace",
        "{3+}",
        "100% sure",
        "a*b is not ab",
        "50_000",
        "(in brackets)",
        "[in others]",
        "NOT all OR some",
        "1:* and 2,4",
        "\\Seen",
        "'single'",
        "&amp; & &AOQ-",
        "=?utf-8?Q?=22?= apart",
        "semi; colon",
        "a  b, two blanks",
    ];
    for (number, text) in literal.iter().enumerate() {
        let subject = format!("number {number}");
        append_message_with(&mut client, &subject, "", &format!("Says {text}.")).await;
    }
    append_message(&mut client, "INBOX", "unlike axb 100 xx").await;
    for (number, text) in literal.iter().enumerate() {
        // Servers may treat several spaces as one.
        if !text.contains("  ") {
            let expected = [format!("number {number}")];
            assert_eq!(found(&ada, text).await, expected, "{text}");
        }
    }
    for (term, expected) in [
        ("\"maybe\"", &["number 0"][..]),
        ("p\\f", &["number 1"]),
        ("{3}", &["number 2"]),
        ("0% s", &["number 4"]),
        ("a*b", &["number 5"]),
        ("a%b", &NONE),
        ("100*", &NONE),
        ("1:*", &["number 10"]),
        // The name of a search key of IMAP is a word.
        ("\" ALL \"", &["number 9"]),
        ("x\" OR ALL SUBJECT \"", &NONE),
        (") ALL (", &["number 9"]),
        ("' OR '1'='1", &NONE),
        (".*", &NONE),
    ] {
        assert_eq!(found(&ada, term).await, expected, "{term}");
    }
    // A plus sign in a query may mean itself or a space; neither causes a failure.
    let response = ada.send("GET /api/v1/mail/search?q=100%25+sure").await;
    response.succeeds(200);
}

#[tokio::test]
async fn results_come_newest_first_in_pages_with_their_exact_total() {
    let service = Service::with_mail().await;
    let ada = service.person("ada").await;
    let mut client = imap(&ada).await;
    for number in 1..=12 {
        let subject = if number % 3 == 0 { "other" } else { "wanted" };
        append_message(&mut client, "INBOX", &format!("{subject} {number}")).await;
    }
    let page = async |rest: &str, page: u64, limit: u64| {
        let response = search(&ada, "wanted", rest).await.succeeds(200);
        let fields: Vec<_> = response.as_object().unwrap().keys().collect();
        assert_eq!(fields, ["index", "limit", "messages", "page", "total"]);
        assert_eq!(response["total"], 8, "{rest}");
        assert_eq!(response["page"], page, "{rest}");
        assert_eq!(response["limit"], limit, "{rest}");
        let messages = response["messages"].as_array().unwrap().iter();
        messages
            .map(|m| m["seq"].as_u64().unwrap())
            .collect::<Vec<_>>()
    };
    let none: [u64; 0] = [];
    assert_eq!(page("", 1, 50).await, [11, 10, 8, 7, 5, 4, 2, 1]);
    assert_eq!(page("&limit=3", 1, 3).await, [11, 10, 8]);
    assert_eq!(page("&limit=3&page=2", 2, 3).await, [7, 5, 4]);
    assert_eq!(page("&page=3&limit=3", 3, 3).await, [2, 1]);
    assert_eq!(page("&limit=3&page=4", 4, 3).await, none);
    assert_eq!(page("&limit=8&page=2", 2, 8).await, none);
    assert_eq!(
        page("&limit=100&page=4000000000", 4_000_000_000, 100).await,
        none
    );
    // Each result has the members of the entry in the listing.
    let listed = ada.messages("INBOX").await;
    let response = search(&ada, "wanted", "&limit=2").await.succeeds(200);
    let mut messages = response["messages"].clone();
    for message in messages.as_array_mut().unwrap() {
        let message = message.as_object_mut().unwrap();
        assert_eq!(message.remove("folder"), Some(json!("INBOX")));
        message.remove("snippet");
    }
    assert_eq!(messages, json!([listed[1], listed[2]]));
    let mut nothing = search(&ada, "in vain", "").await.succeeds(200);
    nothing.as_object_mut().unwrap().remove("index");
    assert_eq!(
        nothing,
        json!({ "messages": [], "total": 0, "page": 1, "limit": 50 })
    );
}

#[tokio::test]
async fn a_search_covers_one_folder_by_default_the_inbox() {
    let service = Service::with_mail().await;
    let ada = service.person("ada").await;
    let mut client = imap(&ada).await;
    // "Projekte/Übersicht & Pläne" in modified UTF-7.
    let nested = "Projekte/&ANw-bersicht &- Pl&AOQ-ne";
    for folder in ["Projekte", nested] {
        client.create(folder).await.unwrap();
    }
    for (folder, subject) in [
        ("INBOX", "needle in the inbox"),
        ("Trash", "needle in the trash"),
        (nested, "needle in the plans"),
    ] {
        append_message(&mut client, folder, subject).await;
    }
    for (folder, expected) in [
        ("", "needle in the inbox"),
        ("&folder=INBOX", "needle in the inbox"),
        ("&folder=inbox", "needle in the inbox"),
        ("&folder=Trash", "needle in the trash"),
        (
            "&folder=Projekte%2F%C3%9Cbersicht%20%26%20Pl%C3%A4ne",
            "needle in the plans",
        ),
    ] {
        let response = search(&ada, "needle", folder).await.succeeds(200);
        assert_eq!(response["total"], 1, "{folder}");
        assert_eq!(subjects(&response), [expected], "{folder}");
    }
    let empty = search(&ada, "needle", "&folder=Projekte")
        .await
        .succeeds(200);
    assert_eq!(empty["total"], 0);
    // The result has the message's own number.
    let response = search(&ada, "needle", "&folder=Trash").await.succeeds(200);
    assert_eq!(
        response["messages"][0]["uid"],
        ada.uid_of("Trash", "needle in the trash").await
    );
}

#[tokio::test]
async fn an_invalid_search_is_refused_with_the_specified_text() {
    let service = Service::with_mail().await;
    let ada = service.person("ada").await;
    append_message(&mut imap(&ada).await, "INBOX", "one").await;
    for line in [
        "GET /api/v1/mail/search",
        "GET /api/v1/mail/search?q=",
        "GET /api/v1/mail/search?folder=INBOX",
        "GET /api/v1/mail/search?q=&folder=INBOX&page=1",
    ] {
        ada.send(line).await.fails(400, "Missing search term");
    }
    for paging in [
        "page=0",
        "page=-1",
        "page=x",
        "page=1.5",
        "page=",
        "limit=0",
        "limit=101",
        "limit=abc",
        "limit=-5",
        "limit=",
    ] {
        let response = search(&ada, "one", &format!("&{paging}")).await;
        response.fails(400, "Invalid search parameters");
    }
    for folder in [
        "Nowhere",
        "INBOX%2FNowhere",
        "**",
        "%25",
        "%22",
        "%5C",
        "%7B5%7D",
        "%0d%0aA1%20LOGOUT",
        "%F0%9F%93%AC",
    ] {
        let response = search(&ada, "one", &format!("&folder={folder}")).await;
        response.fails(404, "Folder not found");
    }
    for unknown in ["sort=oldest", "sort=", "syntax=operators", "syntax="] {
        let response = search(&ada, "one", &format!("&{unknown}")).await;
        response.fails(400, "Invalid search parameters");
    }
    for term in [
        "\r\nA1 LOGOUT",
        "one\r",
        "one\n",
        "o\0ne",
        "one\ttwo",
        "\u{1}",
        "one\u{1b}[2J",
        "one\u{7f}",
        "one\u{85}",
    ] {
        let response = search(&ada, term, "").await;
        let text = response.json["error"].as_str().unwrap_or_default();
        assert!(
            response.status == 400 && !text.is_empty(),
            "{term:?}: {} {}",
            response.status,
            response.json
        );
    }
    let nobody = service.send("GET /api/v1/mail/search?q=one").await;
    nobody.fails(401, "Missing or invalid Authorization header");
    assert_eq!(found(&ada, "one").await, ["one"]);
    let post = ada.post("/api/v1/mail/search?q=one", &json!({})).await;
    assert_eq!(post.status, 405);
}

#[tokio::test]
async fn a_long_term_is_searched_or_refused() {
    let service = Service::with_mail().await;
    let ada = service.person("ada").await;
    let mut client = imap(&ada).await;
    let long = "needle ".repeat(20) + "end";
    append_message_with(&mut client, "long", "", &long).await;
    assert_eq!(found(&ada, &long).await, ["long"]);
    for term in ["x".repeat(10_000), "ü".repeat(10_000), "{".repeat(15_000)] {
        let response = search(&ada, &term, "").await;
        assert!(
            response.status == 400 || response.json["total"] == 0,
            "{} {}",
            response.status,
            response.json
        );
    }
    assert_eq!(found(&ada, "needle").await, ["long"]);
}

#[tokio::test]
async fn while_the_mail_server_is_down_a_search_returns_503() {
    let mut service = Service::with_own_mail().await;
    let access = {
        let ada = service.person("ada").await;
        append_message(&mut imap(&ada).await, "INBOX", "one").await;
        assert_eq!(found(&ada, "one").await, ["one"]);
        ada.access
    };
    let search = async |service: &Service| {
        let line = "GET /api/v1/mail/search?q=one";
        Response::of(service.request(line).bearer_auth(&access)).await
    };
    service.stack().stop_imap().await.unwrap();
    let response = search(&service).await;
    response.fails(
        503,
        "Mail server is unavailable, please try again in a moment",
    );
    assert!(response.header("retry-after").is_some());
    service.stack().start_imap().await.unwrap();
    assert_eq!(search(&service).await.succeeds(200)["total"], 1);
}

#[tokio::test]
async fn searches_have_their_own_budget() {
    let service = Setup::default()
        .with_mail()
        .with_default_limits()
        .start()
        .await;
    let ada = service.person("ada").await;
    let header = |response: &Response, name: &str| -> i64 {
        let value = response.header(&format!("x-ratelimit-{name}"));
        value.expect("a limited answer").parse().unwrap()
    };
    for left in (0..20).rev() {
        // Requests that are refused for another reason count too.
        let term = if left % 2 == 0 { "one" } else { "" };
        let response = search(&ada, term, "").await;
        assert_eq!(response.status, if left % 2 == 0 { 200 } else { 400 });
        assert_eq!(header(&response, "limit"), 20);
        assert_eq!(header(&response, "remaining"), left);
    }
    let refused = search(&ada, "one", "").await;
    refused.fails(429, "Too many requests, please try again later");
    assert_eq!(header(&refused, "limit"), 20);
    assert_eq!(header(&refused, "remaining"), 0);
    let wait: u64 = refused.header("retry-after").unwrap().parse().unwrap();
    // The other mail routes have a separate budget.
    let folders = ada.send("GET /api/v1/mail/folders").await;
    assert_eq!(header(&folders, "limit"), 60);
    assert_eq!(header(&folders, "remaining"), 59);
    service.clock.advance(std::time::Duration::from_secs(wait));
    search(&ada, "one", "").await.succeeds(200);
}
