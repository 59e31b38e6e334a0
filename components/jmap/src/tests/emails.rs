//! Emails and threads.

use latchmail_sdk::capability::IndexState;
use latchmail_sdk::testing::Letter;
use serde_json::{Value, json};

use super::client::{call, create, error, mailbox, service, state};

/// Returns an email that can be created.
fn email(mailbox: &str) -> Value {
    json!({
        "mailboxIds": { mailbox: true },
        "keywords": { "$draft": true, "$seen": true },
        "from": [{ "name": "Ada", "email": "ada@example.test" }],
        "to": [{ "email": "bo@example.test" }],
        "subject": "caf\u{e9}",
        "bodyValues": { "t": { "value": "Hello" }, "h": { "value": "<p>Hello</p>" } },
        "textBody": [{ "partId": "t", "type": "text/plain" }],
        "htmlBody": [{ "partId": "h", "type": "text/html" }],
    })
}

#[test]
fn a_created_email_is_read_again() {
    let service = service();
    let drafts = mailbox(&service, "drafts");
    let created = create(&service, email(&drafts));
    let id = created["created"]["e"]["id"].as_str().unwrap();
    assert_ne!(created["oldState"], created["newState"]);
    let args = json!({
        "ids": [id],
        "properties": [
            "mailboxIds", "keywords", "subject", "to", "bodyStructure", "bodyValues",
            "textBody", "htmlBody", "header:Subject:asText", "header:X-None",
        ],
        "fetchAllBodyValues": true,
        "bodyProperties": ["partId", "type"],
    });
    let found = call(&service, "Email/get", args)["list"][0].take();
    let expected = json!({
        "id": id,
        "mailboxIds": { drafts: true },
        "keywords": { "$draft": true, "$seen": true },
        "subject": "caf\u{e9}",
        "to": [{ "name": null, "email": "bo@example.test" }],
        "bodyStructure": {
            "partId": null,
            "type": "multipart/alternative",
            "subParts": [
                { "partId": "1", "type": "text/plain" },
                { "partId": "2", "type": "text/html" },
            ],
        },
        "bodyValues": {
            "1": { "value": "Hello", "isEncodingProblem": false, "isTruncated": false },
            "2": { "value": "<p>Hello</p>", "isEncodingProblem": false, "isTruncated": false },
        },
        "textBody": [{ "partId": "1", "type": "text/plain" }],
        "htmlBody": [{ "partId": "2", "type": "text/html" }],
        "header:Subject:asText": "caf\u{e9}",
        "header:X-None": null,
    });
    assert_eq!(found, expected);
    let limited = json!({
        "ids": [id],
        "properties": ["bodyValues"],
        "fetchTextBodyValues": true,
        "maxBodyValueBytes": 3,
    });
    let found = call(&service, "Email/get", limited)["list"][0].take();
    let value = json!({ "value": "Hel", "isEncodingProblem": false, "isTruncated": true });
    assert_eq!(found["bodyValues"], json!({ "1": value }));
}

#[test]
fn an_invalid_email_is_not_created() {
    let service = service();
    let drafts = mailbox(&service, "drafts");
    let with = |name: &str, value: Value| {
        let mut email = email(&drafts);
        email[name] = value;
        email
    };
    let two = json!({ drafts.as_str(): true, mailbox(&service, "inbox"): true });
    let blob = json!([{ "blobId": "Unone", "type": "image/png" }]);
    for (name, value, kind) in [
        ("mailboxIds", json!({}), "invalidProperties"),
        ("mailboxIds", json!({ "none": true }), "invalidProperties"),
        ("mailboxIds", two, "tooManyMailboxes"),
        ("keywords", json!({ "a b": true }), "invalidProperties"),
        ("keywords", json!({ "a": false }), "invalidProperties"),
        ("size", json!(7), "invalidProperties"),
        ("subject", json!("a\r\nBcc: b"), "invalidProperties"),
        ("header:Subject", json!(" x"), "invalidProperties"),
        (
            "bodyStructure",
            json!({ "partId": "t" }),
            "invalidProperties",
        ),
        (
            "textBody",
            json!([{ "partId": "none" }]),
            "invalidProperties",
        ),
        ("attachments", blob, "blobNotFound"),
        ("unknown", json!(1), "invalidProperties"),
    ] {
        let response = create(&service, with(name, value));
        let error = &response["notCreated"]["e"];
        assert_eq!(error["type"], kind, "{name}: {response}");
        if kind == "invalidProperties" {
            assert!(!error["properties"].as_array().unwrap().is_empty());
        }
    }
    assert!(service.host.sent().is_empty());
}

#[test]
fn emails_are_changed_moved_and_destroyed() {
    let service = service();
    let uids = [1, 2, 3].map(|_| service.host.deliver(Letter::from("bo@example.test")));
    let [one, two, three] = uids.map(|uid| uid.to_string());
    let archive = mailbox(&service, "archive");
    let old = state(&service);
    let update = json!({
        one.as_str(): { "keywords/$seen": true, "keywords/$flagged": true },
        two.as_str(): { "mailboxIds": { archive.as_str(): true } },
        three.as_str(): { "keywords/$seen": true },
        "99": { "keywords/$seen": true },
    });
    let args = json!({ "ifInState": old, "update": update, "destroy": [three, "98"] });
    let response = call(&service, "Email/set", args);
    let updated = response["updated"].as_object().unwrap();
    assert_eq!(updated.keys().collect::<Vec<_>>(), [&one, &two]);
    assert_eq!(response["notUpdated"]["99"]["type"], "notFound");
    assert_eq!(response["notUpdated"][&three]["type"], "willDestroy");
    assert_eq!(response["destroyed"], json!([three]));
    assert_eq!(response["notDestroyed"]["98"]["type"], "notFound");

    let changes = call(&service, "Email/changes", json!({ "sinceState": old }));
    assert_eq!(changes["created"], json!([]));
    assert_eq!(changes["updated"], json!([one, two]));
    assert_eq!(changes["destroyed"], json!([three]));
    assert_eq!(changes["newState"], response["newState"]);
    let found = call(
        &service,
        "Email/get",
        json!({ "ids": [one, two, three], "properties": ["keywords", "mailboxIds"] }),
    );
    assert_eq!(
        found["list"][0]["keywords"],
        json!({ "$seen": true, "$flagged": true })
    );
    assert_eq!(found["list"][1]["mailboxIds"], json!({ archive: true }));
    assert_eq!(found["notFound"], json!([three]));

    let args = json!({ "ifInState": old, "destroy": [one] });
    assert_eq!(error(&service, "Email/set", args), "stateMismatch");
    let args = json!({ "sinceState": "x" });
    assert_eq!(
        error(&service, "Email/changes", args),
        "cannotCalculateChanges"
    );
}

#[test]
fn a_query_filters_sorts_and_pages() {
    let service = service();
    for (number, subject) in ["green tea", "black tea", "coffee"].iter().enumerate() {
        let letter = Letter::from("bo@example.test")
            .subject(subject)
            .date(1_000 * i64::try_from(number + 1).unwrap());
        service.host.deliver(letter);
    }
    let ids = |args: Value| call(&service, "Email/query", args)["ids"].clone();
    assert_eq!(ids(json!({})), json!(["3", "2", "1"]));
    let ascending = json!([{ "property": "receivedAt" }]);
    assert_eq!(ids(json!({ "sort": ascending })), json!(["1", "2", "3"]));
    let filter = json!({ "operator": "AND", "conditions": [
        { "subject": "tea" },
        { "operator": "NOT", "conditions": [{ "subject": "black" }] },
    ] });
    assert_eq!(ids(json!({ "filter": filter })), json!(["1"]));
    let inbox = mailbox(&service, "inbox");
    let filter = json!({ "inMailbox": inbox, "notKeyword": "$seen" });
    let args = json!({
        "filter": filter, "anchor": "2", "anchorOffset": -1, "limit": 2, "calculateTotal": true,
    });
    let page = call(&service, "Email/query", args);
    assert_eq!(page["ids"], json!(["3", "2"]));
    assert_eq!((&page["position"], &page["total"]), (&json!(0), &json!(3)));
    let too_many = call(&service, "Email/query", json!({ "limit": 5_000 }));
    assert_eq!(too_many["limit"], 1_000);
    for (args, kind) in [
        (json!({ "filter": { "to": "bo" } }), "unsupportedFilter"),
        (
            json!({ "filter": { "header": ["X"] } }),
            "unsupportedFilter",
        ),
        (
            json!({ "sort": [{ "property": "subject" }] }),
            "unsupportedSort",
        ),
        (json!({ "anchor": "99" }), "anchorNotFound"),
        (json!({ "limit": -1 }), "invalidArguments"),
        (json!({ "filter": { "minSize": "x" } }), "invalidArguments"),
    ] {
        assert_eq!(error(&service, "Email/query", args.clone()), kind, "{args}");
    }
}

#[test]
fn the_changes_of_a_query_lead_to_its_new_result() {
    let service = service();
    for _ in 0..4 {
        service.host.deliver(Letter::from("bo@example.test"));
    }
    let query = |more: Value| {
        let mut args = json!({ "filter": { "notKeyword": "$flagged" } });
        for (name, value) in more.as_object().unwrap() {
            args[name] = value.clone();
        }
        args
    };
    let before = call(&service, "Email/query", query(json!({})));
    assert_eq!(before["canCalculateChanges"], true);
    let update = json!({ "2": { "keywords/$flagged": true }, "3": { "keywords/$seen": true } });
    call(
        &service,
        "Email/set",
        json!({ "update": update, "destroy": ["1"] }),
    );
    service.host.deliver(Letter::from("bo@example.test"));
    let since = json!({ "sinceQueryState": before["queryState"], "calculateTotal": true });
    let changes = call(&service, "Email/queryChanges", query(since));
    let removed: Vec<&str> = changes["removed"]
        .as_array()
        .unwrap()
        .iter()
        .map(|id| id.as_str().unwrap())
        .collect();
    let mut ids: Vec<String> = before["ids"]
        .as_array()
        .unwrap()
        .iter()
        .map(|id| id.as_str().unwrap().to_owned())
        .collect();
    ids.retain(|id| !removed.contains(&id.as_str()));
    for added in changes["added"].as_array().unwrap() {
        let index = usize::try_from(added["index"].as_u64().unwrap()).unwrap();
        ids.insert(index, added["id"].as_str().unwrap().to_owned());
    }
    let after = call(&service, "Email/query", query(json!({})));
    assert_eq!(json!(ids), after["ids"]);
    assert_eq!(changes["total"], 3);
    assert_eq!(changes["newQueryState"], after["queryState"]);
    let collapsed = json!({ "sinceQueryState": before["queryState"], "collapseThreads": true });
    let kind = error(&service, "Email/queryChanges", collapsed);
    assert_eq!(kind, "cannotCalculateChanges");
    let few = query(json!({ "sinceQueryState": before["queryState"], "maxChanges": 1 }));
    assert_eq!(error(&service, "Email/queryChanges", few), "tooManyChanges");
}

#[test]
fn new_emails_change_threads() {
    let service = service();
    let first = Letter::from("bo@example.test").message_id("<a@b>");
    service.host.deliver(first);
    let old = state(&service);
    service.host.deliver(Letter::from("cy@example.test"));
    let changes = call(&service, "Thread/changes", json!({ "sinceState": old }));
    assert_eq!(changes["created"].as_array().unwrap().len(), 1);
    call(&service, "Email/set", json!({ "destroy": ["1"] }));
    let kind = error(&service, "Thread/changes", json!({ "sinceState": old }));
    assert_eq!(kind, "cannotCalculateChanges");
    let found = call(&service, "Thread/get", json!({ "ids": ["none"] }));
    assert_eq!(found["notFound"], json!(["none"]));
}

#[test]
fn while_the_index_is_built_queries_are_unavailable() {
    let service = service();
    service.host.set_index(IndexState::Building);
    let kind = error(&service, "Email/query", json!({}));
    assert_eq!(kind, "serverUnavailable");
}
