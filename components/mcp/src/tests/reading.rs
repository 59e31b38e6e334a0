//! The tools that read: the shapes of the routes, pieces of long bodies, and the error messages of
//! the routes.

use latchmail_sdk::capability::{Error, Verdict};
use latchmail_sdk::testing::{Letter, NOW};
use serde_json::json;

use super::client::{call, endpoint, tool_error};

#[test]
fn folders_have_their_counts() {
    let service = endpoint();
    service.host.deliver(Letter::from("grace@example.org"));
    let (response, text) = call(&service, "list_folders", json!({}));
    let inbox = json!({
        "id": "id of INBOX", "path": "INBOX", "name": "INBOX", "delimiter": "/", "messages": 1, "unseen": 1, "specialUse": "\\Inbox",
    });
    assert_eq!(response["folders"][0], inbox);
    assert_eq!(
        serde_json::from_str::<serde_json::Value>(&text).unwrap(),
        response
    );
}

#[test]
fn a_page_has_20_messages_by_default() {
    let service = endpoint();
    for number in 1..=25 {
        let letter = Letter::from("Grace <grace@example.org>").subject(&format!("No. {number}"));
        service
            .host
            .deliver(letter.to("ada@example.test").text("Hi <b>").date(NOW));
    }
    let (response, text) = call(&service, "list_messages", json!({}));
    assert_eq!(response["total"], 25);
    assert_eq!(response["messages"].as_array().unwrap().len(), 20);
    let newest = json!({
        "uid": 25, "seq": 25, "from": [{ "name": "Grace", "address": "grace@example.org" }], "to": [{ "name": "", "address": "ada@example.test" }],
        "subject": "No. 25", "date": "2026-11-20T08:00:00.000Z", "flags": [], "size": 12, "preview": "Hi <b>", "threadId": "thread25",
    });
    assert_eq!(response["messages"][0], newest);
    assert_eq!(
        (&response["untrusted"], &response["warnings"]),
        (&json!(true), &json!([]))
    );
    assert!(text.contains("\"subject\":\"No. 25\""));
    // Some agents write every number with a decimal point.
    let page = json!({ "folder": "INBOX", "page": 3.0, "limit": 10.0 });
    let (response, _) = call(&service, "list_messages", page);
    assert_eq!(response["messages"].as_array().unwrap().len(), 5);
    let (found, _) = call(
        &service,
        "search_messages",
        json!({ "query": "no. 2", "limit": 3 }),
    );
    let place = (&found["total"], &found["page"], &found["limit"]);
    assert_eq!(place, (&json!(7), &json!(1), &json!(3)));
    assert_eq!(found["messages"][0]["uid"], 25);
}

#[test]
fn a_search_can_cover_all_folders_and_returns_snippets() {
    let service = endpoint();
    let letter = |subject: &str| Letter::from("grace@example.org").subject(subject);
    service.host.deliver(letter("the needle"));
    service
        .host
        .file("Work", letter("x").text("a needle").date(1));
    let search = |arguments| call(&service, "search_messages", arguments).0;
    let all = search(json!({ "query": "needle", "folder": "*", "sort": "relevance" }));
    let snippet = json!({ "text": "a needle", "matches": [{ "start": 2, "end": 8 }] });
    let best = &all["messages"][0];
    assert_eq!(
        (&best["folder"], &best["snippet"]),
        (&json!("Work"), &snippet)
    );
    assert_eq!((&all["total"], &all["index"]), (&json!(2), &json!("ready")));
    let newest = search(json!({ "query": "needle", "folder": "*", "sort": null }));
    assert_eq!(newest["messages"][0]["folder"], "INBOX");
    let text = "Invalid search query at character 0: the date must be YYYY-MM-DD";
    let arguments = json!({ "query": "before:yesterday" });
    assert_eq!(tool_error(&service, "search_messages", arguments), text);
    let arguments = json!({ "query": "x", "sort": "oldest" });
    assert_eq!(
        tool_error(&service, "search_messages", arguments),
        "sort must be \"newest\" or \"relevance\""
    );
}

#[test]
fn the_new_text_is_returned_with_the_first_piece_only() {
    let service = endpoint();
    let letter = Letter::from("grace@example.org");
    let short = letter.clone().text("Yes.\n> Really?");
    let uid = service.host.deliver(short);
    let (response, _) = call(&service, "get_message", json!({ "uid": uid }));
    assert_eq!(response["newText"], "Yes.");
    let uid = service.host.deliver(letter.text(&"x".repeat(60_000)));
    let (first, _) = call(&service, "get_message", json!({ "uid": uid }));
    assert_eq!(first["newText"].as_str().unwrap().len(), 50_000);
    let warnings = first["warnings"].as_array().unwrap();
    assert!(warnings.contains(&json!(format!("Message {uid} was cut in: newText"))));
    let second = json!({ "uid": uid, "offset": 50_000 });
    let (second, _) = call(&service, "get_message", second);
    assert!(second.get("newText").is_none() && second.get("truncated").is_none());
}

#[test]
fn a_message_has_html_only_if_it_has_no_plain_text() {
    let service = endpoint();
    let letter = || {
        Letter::from("grace@example.org").cc("bo@example.org").file(
            "a.pdf",
            "application/pdf",
            b"x",
        )
    };
    let both = service.host.deliver(letter().text("plain").html("<p>rich"));
    let rich = service.host.deliver(letter().html("<p>rich</p><p>er</p>"));
    let (response, _) = call(&service, "get_message", json!({ "uid": both }));
    assert_eq!(response["text"], "plain");
    assert!(response.get("html").is_none() && response.get("converted").is_none());
    assert_eq!(response["cc"][0]["address"], "bo@example.org");
    assert_eq!(response["attachments"][0]["filename"], "a.pdf");
    for absent in ["truncated", "nextOffset", "preview"] {
        assert!(response.get(absent).is_none(), "{absent}");
    }
    let (response, _) = call(
        &service,
        "get_message",
        json!({ "uid": rich, "folder": "Archive" }),
    );
    assert_eq!(response["html"], "<p>rich</p><p>er</p>");
    assert!(response.get("text").is_none());
    let (response, _) = call(
        &service,
        "get_message",
        json!({ "uid": rich, "format": "text" }),
    );
    assert_eq!(
        (&response["text"], &response["converted"]),
        (&json!("rich\n\ner"), &json!(true))
    );
    assert!(response.get("html").is_none());
    let (response, _) = call(
        &service,
        "get_message",
        json!({ "uid": both, "format": "text" }),
    );
    assert_eq!(response["text"], "plain");
}

#[test]
fn a_blank_text_does_not_replace_the_html() {
    let service = endpoint();
    let rich = Letter::from("grace@example.org").text(" \r\n\u{a0}");
    let blank = service.host.deliver(rich.html("<p>rich</p>"));
    let (response, _) = call(&service, "get_message", json!({ "uid": blank }));
    assert_eq!(
        (response.get("text"), &response["html"]),
        (None, &json!("<p>rich</p>"))
    );
    let (response, _) = call(
        &service,
        "get_message",
        json!({ "uid": blank, "format": "text" }),
    );
    assert_eq!(response["text"], "rich");
    let alone = service
        .host
        .deliver(Letter::from("grace@example.org").text(" "));
    let (response, _) = call(&service, "get_message", json!({ "uid": alone }));
    assert_eq!(response["text"], " ");
}

#[test]
fn a_long_body_is_returned_in_pieces() {
    let service = endpoint();
    let text = "0123456789".repeat(12_000);
    let html = format!("<p>{text}</p>");
    let plain = service
        .host
        .deliver(Letter::from("grace@example.org").text(&text));
    let rich = service
        .host
        .deliver(Letter::from("grace@example.org").html(&html));
    for (uid, field, whole) in [(plain, "text", &text), (rich, "html", &html)] {
        let (mut all, mut offset) = (String::new(), json!(0));
        for last in [false, false, true] {
            let (response, _) = call(
                &service,
                "get_message",
                json!({ "uid": uid, "offset": offset }),
            );
            let piece = response[field].as_str().unwrap();
            assert!(piece.len() <= 50_000);
            all.push_str(piece);
            assert_eq!(response.get("truncated").is_none(), last);
            assert_eq!(response.get("nextOffset").is_none(), last);
            offset = response["nextOffset"].clone();
        }
        assert_eq!(&all, whole);
        let again = json!({ "uid": uid, "offset": null, "format": null, "folder": null });
        assert_eq!(call(&service, "get_message", again).0["nextOffset"], 50_000);
        let (beyond, _) = call(
            &service,
            "get_message",
            json!({ "uid": uid, "offset": 4_000_000 }),
        );
        assert_eq!(beyond[field], "");
    }
}

#[test]
fn long_lists_and_fields_are_cut_and_reported() {
    let service = endpoint();
    let long = "x".repeat(60_000);
    let mut letter = Letter::from(&format!("{long} <grace@example.org>")).subject(&long);
    for number in 0..1_000 {
        letter = letter
            .to(&format!("to{number}@example.org"))
            .cc(&format!("cc{number}@example.org"))
            .file(&format!("{number}{long}"), "text/plain", b"x");
    }
    let uid = service.host.deliver(
        letter
            .text("Hi")
            .authenticated(Verdict::Pass, "example.org"),
    );
    let (response, text) = call(&service, "get_message", json!({ "uid": uid }));
    let many = |field: &str| response[field].as_array().unwrap().len();
    assert_eq!((many("to"), many("cc"), many("attachments")), (50, 50, 100));
    assert_eq!(response["subject"].as_str().unwrap().len(), 998);
    let name = response["attachments"][99]["filename"].as_str().unwrap();
    assert_eq!((name.len(), &name[..3]), (255, "99x"));
    assert_eq!(
        (&response["truncated"], response.get("nextOffset")),
        (&json!(true), None)
    );
    let warning =
        format!("Message {uid} was cut in: from, to, subject, cc, attachments, file names");
    assert_eq!(response["warnings"], json!([warning]));
    assert!(text.len() < 60_000, "{}", text.len());
    let warning = format!("Message {uid} was cut in: from, to, subject");
    for (tool, arguments) in [
        ("list_messages", json!({})),
        ("search_messages", json!({ "query": "x" })),
    ] {
        let (response, text) = call(&service, tool, arguments);
        assert_eq!(response["warnings"], json!([warning]));
        assert!(text.len() < 10_000, "{}", text.len());
    }
}

#[test]
fn a_sender_that_is_not_verified_causes_a_warning() {
    let service = endpoint();
    let letter = || Letter::from("grace@example.org").text("Hi");
    let read = |letter| {
        let uid = service.host.deliver(letter);
        call(&service, "get_message", json!({ "uid": uid }))
    };
    let (response, text) = read(letter());
    let none = json!({ "result": "none", "domain": null });
    assert_eq!(response["authentication"], none);
    assert!(text.contains("Warning: Message 1: sender not verified"));
    let (response, _) = read(letter().authenticated(Verdict::Fail, "example.org"));
    let fail = json!({ "result": "fail", "domain": "example.org" });
    assert_eq!(response["authentication"], fail);
    let warning = response["warnings"][0].as_str().unwrap();
    assert!(warning.contains("sender not verified"), "{warning}");
    let (response, _) = read(letter().authenticated(Verdict::Pass, "example.org"));
    let pass = json!({ "result": "pass", "domain": "example.org" });
    assert_eq!(
        (&response["authentication"], &response["warnings"]),
        (&pass, &json!([]))
    );
}

#[test]
fn invalid_arguments_have_the_error_messages_of_the_routes() {
    let service = endpoint();
    let paging = "page must be at least 1, limit 1 to 100";
    for (tool, arguments, sentence) in [
        (
            "list_messages",
            json!({ "limit": 101 }),
            format!("Invalid paging parameters: {paging}"),
        ),
        (
            "list_messages",
            json!({ "page": 0 }),
            format!("Invalid paging parameters: {paging}"),
        ),
        (
            "list_messages",
            json!({ "page": -1 }),
            "page must be an integer, at least 1".into(),
        ),
        (
            "search_messages",
            json!({ "query": "x", "limit": 5.5 }),
            "limit must be an integer from 1 to 100".into(),
        ),
        (
            "list_messages",
            json!({ "limit": 5_000_000_000_u64 }),
            "limit must be an integer from 1 to 100".into(),
        ),
        (
            "get_message",
            json!({ "uid": 1, "offset": -1.0 }),
            "offset must be an integer, at least 0".into(),
        ),
        (
            "get_message",
            json!({ "uid": null }),
            "uid must be an integer, at least 1".into(),
        ),
        (
            "list_messages",
            json!({ "folder": "Nowhere" }),
            "Folder not found".into(),
        ),
        (
            "list_messages",
            json!({ "account": "bo" }),
            "Unknown field account; the known fields are folder, page, limit".into(),
        ),
        (
            "list_folders",
            json!({ "x": 1 }),
            "Unknown field x; no fields are allowed".into(),
        ),
        ("search_messages", json!({}), "query is required".into()),
        (
            "search_messages",
            json!({ "query": " " }),
            "Missing search term".into(),
        ),
        (
            "search_messages",
            json!({ "query": "\u{7}" }),
            "Invalid search term".into(),
        ),
        (
            "search_messages",
            json!({ "query": "x", "limit": 0 }),
            format!("Invalid search parameters: {paging}"),
        ),
        ("get_message", json!({}), "uid is required".into()),
        (
            "get_message",
            json!({ "uid": 0 }),
            "Invalid message UID".into(),
        ),
        (
            "get_message",
            json!({ "uid": "7.0" }),
            "uid must be an integer, at least 1".into(),
        ),
        (
            "get_message",
            json!({ "uid": 99 }),
            "Message not found".into(),
        ),
        (
            "get_message",
            json!({ "uid": 1, "format": "html" }),
            "format must be \"text\"".into(),
        ),
    ] {
        let message = tool_error(&service, tool, arguments.clone());
        assert_eq!(message, sentence, "{tool} {arguments}");
    }
}

#[test]
fn an_integer_can_be_a_string_of_digits() {
    let service = endpoint();
    let arguments = |limit: &str| json!({ "page": "1", "limit": limit });
    call(&service, "list_messages", arguments("10"));
    let message = tool_error(&service, "list_messages", arguments("101"));
    assert!(message.starts_with("Invalid paging"), "{message}");
    let message = tool_error(&service, "get_message", json!({ "uid": "0" }));
    assert_eq!(message, "Invalid message UID");
    let not_decimal = [
        "", "10.5", "10.0", " 10", "10 ", "1e1", "+10", "-10", "0x10", "010", "１０", "ten",
    ];
    for limit in not_decimal {
        let message = tool_error(&service, "list_messages", arguments(limit));
        assert_eq!(
            message, "limit must be an integer from 1 to 100",
            "{limit:?}"
        );
    }
}

#[test]
fn a_failed_tool_returns_a_result_with_the_error() {
    let service = endpoint();
    for (error, sentence) in [
        (
            Error::Unavailable,
            "Mail server is unavailable, please try again in a moment",
        ),
        (
            Error::CredentialRefused,
            "This credential is no longer valid for mail access",
        ),
        (Error::Internal, "The operation could not be completed"),
    ] {
        service.host.fail(error);
        assert_eq!(tool_error(&service, "list_folders", json!({})), sentence);
    }
    assert_eq!(
        tool_error(&service, "search_messages", json!({ "query": "x" })),
        "Search failed"
    );
    service.host.recover();
}
