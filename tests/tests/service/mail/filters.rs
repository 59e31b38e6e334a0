//! The vacation response and the rules, with mail that the mail server delivers. A ManageSieve
//! client stands for another mail client with a Sieve script of its own.

use latchmail_core::caller::MailCredential;
use latchmail_core::config;
use latchmail_sieve::{Connector, Session};
use latchmail_tests::{
    DOMAIN, Person, Response, Service, imap, stored_messages, subjects, wait_until,
};
use serde_json::{Value, json};

const VACATION: &str = "/api/v1/mail/vacation";
const RULES: &str = "/api/v1/mail/rules";

/// Returns another client of a person's Sieve scripts.
async fn other_client(person: &Person<'_>) -> Session {
    let made = person.app_password("another client").await;
    let password = made["password"].as_str().unwrap().into();
    let address = person.service.mail().sieve.to_string();
    let connector = Connector::new(&config::Sieve { address }, &config::Imap::default());
    let credential = MailCredential::app_password("x".into(), person.address.clone(), password);
    let connector = connector.unwrap().unwrap();
    connector.logged_in(&credential).await.unwrap()
}

async fn activate(client: &mut Session, name: &str, script: &str) {
    client.put(name, script).await.unwrap();
    client.activate(name).await.unwrap();
}

async fn get(person: &Person<'_>, path: &str) -> Value {
    person.send(&format!("GET {path}")).await.succeeds(200)
}

async fn put(person: &Person<'_>, path: &str, body: &Value) -> Response {
    person.send_json(&format!("PUT {path}"), body).await
}

#[expect(clippy::needless_pass_by_value, reason = "the callers make the values")]
fn rule(name: &str, condition: Value, actions: Value) -> Value {
    json!({ "name": name, "conditions": [condition], "actions": actions })
}

/// Delivers a message with this subject and these additional header lines, and waits until the
/// folder has it.
async fn deliver(person: &Person<'_>, subject: &str, header: &str, folder: &str) {
    let to = &person.address;
    let message = format!(
        "From: Grace <grace@outside.test>\nTo: {to}\nSubject: {subject}\n{header}\nThe text.\n"
    );
    person.service.deliver(to, &message).await;
    wait_for(person, subject, folder).await;
}

async fn wait_for(person: &Person<'_>, subject: &str, folder: &str) {
    wait_until(&format!("{subject} is in {folder}"), async || {
        let path = format!("GET /api/v1/mail/folders/{folder}/messages?limit=100");
        let found = person.send(&path).await;
        // The folder can be created by the delivery.
        let messages = found.json["messages"].as_array().cloned();
        let messages = messages.unwrap_or_default();
        messages.iter().any(|message| message["subject"] == subject)
    })
    .await;
}

const MINE: &str = "require [\"fileinto\", \"mailbox\"];\r\n\
    if header :contains \"subject\" \"foreign\" {\r\n  fileinto :create \"Foreign\";\r\n}\r\n";

#[tokio::test]
#[expect(clippy::too_many_lines, reason = "one service and many steps")]
async fn rules_apply_to_delivered_mail_and_the_script_of_another_client_still_runs() {
    let service = Service::with_mail().await;
    let ada = service.person("ada").await;
    let bob = service.person("bob").await;
    let mut client = other_client(&ada).await;
    activate(&mut client, "mine", MINE).await;
    for path in ["Work", "Gr\u{f6}\u{df}e \"$x\" \\"] {
        let body = json!({ "path": path });
        let created = ada.post("/api/v1/mail/folders", &body).await;
        created.succeeds(201);
    }
    let condition =
        |field: &str, op: &str, value: &str| json!({ "field": field, "op": op, "value": value });
    let quoted = "a \"quoted\" \\ ${x}";
    let mut rules = json!({ "rules": [
        rule("Off", json!({ "field": "size", "op": "over", "value": 0 }), json!([{ "type": "trash" }])),
        rule("Move", condition("subject", "contains", quoted), json!([{ "type": "move", "folder": "Gr\u{f6}\u{df}e \"$x\" \\" }])),
        rule("Copy", condition("from", "is", "GRACE@outside.test"), json!([{ "type": "copy", "folder": "Work" }])),
        {
            "name": "Flag", "match": "any",
            "conditions": [
                condition("to", "contains", "nobody"),
                { "field": "header", "name": "X-Kind", "op": "matches", "value": "re?ort*" },
            ],
            "actions": [{ "type": "flag", "flag": "$Later" }, { "type": "flag" }, { "type": "markRead" }],
        },
        rule("Forward", condition("subject", "is", "forward me"), json!([{ "type": "forward", "address": bob.address }])),
        rule("List", condition("listId", "is", "news.example.org"), json!([{ "type": "trash" }])),
        rule("Large", json!({ "field": "size", "op": "over", "value": 5000 }), json!([{ "type": "stop" }, { "type": "move", "folder": "Archive" }])),
        rule("After", condition("subject", "contains", "large"), json!([{ "type": "copy", "folder": "Junk" }])),
    ] });
    rules["rules"][0]["enabled"] = json!(false);
    let stored = put(&ada, RULES, &rules).await.succeeds(200);
    assert_eq!(stored["active"], true);
    assert_eq!(stored["rules"][4], {
        let mut forward = rules["rules"][4].clone();
        forward["enabled"] = json!(true);
        forward["match"] = json!("all");
        forward
    });
    assert_eq!(get(&ada, RULES).await, stored);

    deliver(&ada, quoted, "", "Gr%C3%B6%C3%9Fe%20%22$x%22%20%5C").await;
    deliver(&ada, "report", "X-Kind: report 7\n", "INBOX").await;
    deliver(&ada, "forward me", "", "INBOX").await;
    wait_for(&bob, "forward me", "INBOX").await;
    deliver(
        &ada,
        "a list",
        "List-Id: News <news.example.org>\n",
        "Trash",
    )
    .await;
    let padding = format!("X-Padding: {}\n", "x".repeat(500)).repeat(12);
    deliver(&ada, "large foreign", &padding, "Archive").await;
    deliver(&ada, "foreign", "", "Foreign").await;
    let mut mail = imap(&ada).await;
    let report = stored_messages(&mut mail, "INBOX").await;
    let report = report.iter().find(|one| one.subject() == "report").unwrap();
    let flags: Vec<_> = report.flags.iter().collect();
    assert_eq!(flags, ["$Later", "\\Flagged", "\\Seen"]);
    assert_eq!(subjects(&mut mail, "INBOX").await, ["report", "forward me"]);
    assert_eq!(subjects(&mut mail, "Work").await.len(), 6);
    assert!(subjects(&mut mail, "Junk").await.is_empty());
    assert_eq!(subjects(&mut mail, "Foreign").await, ["foreign"]);
    assert_eq!(client.get("mine").await.unwrap().unwrap(), MINE);

    // The rules follow a renamed folder.
    let line = "PATCH /api/v1/mail/folders/Work";
    let renamed = ada.send_json(line, &json!({ "path": "Play/Work" })).await;
    renamed.succeeds(200);
    let renamed = get(&ada, RULES).await;
    assert_eq!(renamed["rules"][2]["actions"][0]["folder"], "Play/Work");
    deliver(&ada, "after the rename", "", "Play%2FWork").await;
    // Without its folder, a rule leaves the message in the inbox, and the other rules apply.
    let delete = "DELETE /api/v1/mail/folders/Gr%C3%B6%C3%9Fe%20%22$x%22%20%5C?messages=delete";
    ada.send(delete).await.succeeds(200);
    deliver(&ada, quoted, "", "INBOX").await;
    wait_for(&ada, quoted, "Play%2FWork").await;

    // Another client activates its own script.
    let other = "require \"fileinto\"; if true { fileinto \"Sent\"; }\r\n";
    activate(&mut client, "other", other).await;
    let overridden = get(&ada, RULES).await;
    assert_eq!(overridden["active"], false);
    assert_eq!(overridden["rules"], renamed["rules"]);
    deliver(&ada, "overridden", "", "Sent").await;
    let rule = rule(
        "One",
        condition("subject", "contains", "one"),
        json!([{ "type": "copy", "folder": "Drafts" }]),
    );
    let stored = put(&ada, RULES, &json!({ "rules": [rule] })).await;
    assert_eq!(stored.succeeds(200)["active"], true);
    deliver(&ada, "number one", "", "Drafts").await;
    deliver(&ada, "number two", "", "Sent").await;
    let mut listed = client.list().await.unwrap();
    listed.sort_by(|a, b| a.name.cmp(&b.name));
    let listed: Vec<_> = listed
        .iter()
        .map(|one| (one.name.as_str(), one.is_active))
        .collect();
    assert_eq!(
        listed,
        [("latchmail", true), ("mine", false), ("other", false)]
    );
    assert_eq!(client.get("other").await.unwrap().unwrap(), other);

    // A script that another client has changed belongs to that client.
    let own = client.get("latchmail").await.unwrap().unwrap();
    let changed = own.replace("Drafts", "Junk");
    client.put("latchmail", &changed).await.unwrap();
    let empty = json!({ "rules": [], "active": false });
    assert_eq!(get(&ada, RULES).await, empty);
    put(&ada, RULES, &empty).await.succeeds(200);
    assert_eq!(client.get("latchmail").await.unwrap().unwrap(), changed);
    assert!(client.get("latchmail-2").await.unwrap().is_some());
    deliver(&ada, "number one again", "", "Junk").await;
}

/// Returns the vacation responses to the external sender.
fn responses(service: &Service) -> Vec<String> {
    let files = std::fs::read_dir(&service.mail().sink).unwrap();
    let mails = files.map(|file| std::fs::read_to_string(file.unwrap().path()).unwrap());
    mails
        .filter(|mail| mail.contains("X-Rcpt-Args: <sender@outside.test>"))
        .collect()
}

#[tokio::test]
async fn a_vacation_response_is_sent_once_and_not_to_lists() {
    let service = Service::with_mail().await;
    let ada = service.person("ada").await;
    let alias = json!({ "domain": DOMAIN, "name": "shop" });
    let alias = ada.post("/api/v1/aliases", &alias).await.succeeds(201);
    let alias = alias["alias"].as_str().unwrap().to_owned();
    let initial = get(&ada, VACATION).await;
    let expected = json!({
        "isEnabled": false, "fromDate": null, "toDate": null, "subject": null,
        "textBody": null, "htmlBody": null, "active": false,
    });
    assert_eq!(initial, expected);
    for (from, to) in [
        (Some("2099-01-01T00:00:00Z"), None),
        (None, Some("2020-01-01T01:00:00+01:00")),
    ] {
        let other_time = json!({ "isEnabled": true, "fromDate": from, "toDate": to });
        put(&ada, VACATION, &other_time).await.succeeds(200);
        deliver(&ada, &format!("{from:?}"), "", "INBOX").await;
    }
    let vacation = json!({
        "isEnabled": true, "fromDate": "2020-01-01T00:00:00Z", "toDate": "2099-01-01T00:00:00Z",
        "subject": "Away: \"now\"", "textBody": "I am away.\n.\n\u{e9}", "htmlBody": "<p>Away</p>",
    });
    let stored = put(&ada, VACATION, &vacation).await.succeeds(200);
    let mut expected = vacation.clone();
    expected["active"] = json!(true);
    assert_eq!(stored, expected);
    for (subject, header) in [
        ("list", "List-Id: <news.example.org>\n"),
        ("bulk", "Precedence: bulk\n"),
        ("automatic", "Auto-Submitted: auto-generated\n"),
    ] {
        deliver(&ada, subject, header, "INBOX").await;
    }
    let hidden = "From: grace@outside.test\nTo: nobody@outside.test\nSubject: hidden\n\nText.\n";
    service.deliver(&ada.address, hidden).await;
    wait_for(&ada, "hidden", "INBOX").await;
    let to_alias =
        format!("From: grace@outside.test\nTo: {alias}\nSubject: to an alias\n\nText.\n");
    service.deliver(&alias, &to_alias).await;
    wait_until("the response arrives", async || {
        !responses(&service).is_empty()
    })
    .await;
    deliver(&ada, "again", "", "INBOX").await;
    // A changed response is sent again.
    let changed = json!({ "isEnabled": true, "textBody": "Still away." });
    put(&ada, VACATION, &changed).await.succeeds(200);
    deliver(&ada, "and again", "", "INBOX").await;
    wait_until("the next response arrives", async || {
        responses(&service).len() >= 2
    })
    .await;
    let found = responses(&service);
    assert_eq!(found.len(), 2, "{found:#?}");
    let first = found
        .iter()
        .find(|mail| mail.contains("<p>Away</p>"))
        .unwrap();
    for part in [
        "Subject: Away: \"now\"",
        "multipart/alternative",
        "I am away.",
        "=C3=A9",
    ] {
        assert!(first.contains(part), "{part} in {first}");
    }
    assert!(
        first
            .to_lowercase()
            .contains("auto-submitted: auto-replied")
    );
    assert!(first.contains(&format!("From: <{alias}>")), "{first}");
    assert!(found.iter().any(|mail| mail.contains("Still away.")));

    // A message cannot cause two responses.
    let mut client = other_client(&ada).await;
    let script = "require \"vacation\"; vacation \"I am gone.\";\r\n";
    activate(&mut client, "gone", script).await;
    let refused = put(&ada, VACATION, &changed).await;
    refused.fails(
        409,
        "The script \"gone\" of another mail client has a vacation response; disable it there first",
    );
    assert_eq!(get(&ada, VACATION).await["active"], false);
    let disabled = put(&ada, VACATION, &json!({ "isEnabled": false })).await;
    assert_eq!(disabled.succeeds(200)["active"], true);
}

#[tokio::test]
#[expect(clippy::too_many_lines, reason = "one service and many steps")]
async fn invalid_filters_and_callers_without_the_right_are_refused() {
    let mut service = Service::with_mail().await;
    let ada = service.person("ada").await;
    let rules = |action: Value| json!({ "rules": [{ "name": "A", "actions": [action] }] });
    let outside = "eve@outside.test";
    for (path, body, text) in [
        (VACATION, json!({}), "isEnabled is required".to_owned()),
        (
            VACATION,
            json!({ "isEnabled": true, "fromDate": "2026-12-01" }),
            "fromDate must be a time such as 2026-11-20T08:00:00Z".into(),
        ),
        (
            VACATION,
            json!({ "isEnabled": true, "subject": "a\r\nb" }),
            "subject must have 1 to 500 characters and no control characters".into(),
        ),
        (
            RULES,
            json!({ "rules": [{}] }),
            "rules[0].name is required".into(),
        ),
        (
            RULES,
            rules(json!({ "type": "move", "folder": "Nowhere" })),
            "rules[0].actions[0].folder is not an existing folder".into(),
        ),
        (
            RULES,
            rules(json!({ "type": "forward", "address": outside })),
            format!(
                "Mail can only be forwarded to an address of this service or to a confirmed address, and {outside} is neither"
            ),
        ),
    ] {
        put(&ada, path, &body).await.fails(400, &text);
    }
    assert_eq!(
        get(&ada, RULES).await,
        json!({ "rules": [], "active": false })
    );

    let forward = rules(json!({ "type": "forward", "address": ada.address }));
    for (scopes, method, path, body, status) in [
        (&["mail:read"][..], "GET", RULES, json!(null), 200),
        (
            &["mail:read"],
            "PUT",
            VACATION,
            json!({ "isEnabled": false }),
            403,
        ),
        (&["mail:write"], "GET", VACATION, json!(null), 403),
        (
            &["mail:write"],
            "PUT",
            VACATION,
            json!({ "isEnabled": false }),
            200,
        ),
        (
            &["mail:write", "mail:read"],
            "PUT",
            RULES,
            forward.clone(),
            403,
        ),
        (
            &["mail:write", "mail:read", "mail:send"],
            "PUT",
            RULES,
            forward.clone(),
            200,
        ),
        (&["mail:send"], "PUT", RULES, forward, 403),
    ] {
        let token = ada.token(scopes).await;
        let request = service.request(&format!("{method} {path}"));
        let request = request.bearer_auth(token["token"].as_str().unwrap());
        let response = match body {
            Value::Null => Response::of(request).await,
            body => Response::of_json(request, &body).await,
        };
        assert_eq!(
            response.status, status,
            "{scopes:?} {method} {path}: {}",
            response.json
        );
    }

    // A change with an old version is refused.
    let current = ada.send(&format!("GET {RULES}")).await;
    let tag = current.headers["etag"].to_str().unwrap().to_owned();
    put(
        &ada,
        VACATION,
        &json!({ "isEnabled": false, "subject": "a" }),
    )
    .await
    .succeeds(200);
    let request = service.request(&format!("PUT {RULES}"));
    let request = request.bearer_auth(&ada.access).header("if-match", tag);
    let changed = Response::of_json(request, &json!({ "rules": [] })).await;
    changed.fails(412, "The vacation response or the rules have changed");

    let access = ada.access.clone();
    service
        .restart_with(|config| config.sieve.address.clear())
        .await;
    let unsupported = service.with_bearer(&format!("GET {RULES}"), &access).await;
    unsupported.fails(
        501,
        "This mail server does not support vacation responses and rules",
    );
}
