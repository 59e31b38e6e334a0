//! Mailboxes, threads, emails and blobs, beside the other ways to the mailbox.

use latchmail_tests::{RICH_MESSAGE, append_message, imap, subjects};
use serde_json::{Value, json};

use super::{Jmap, email, service, text};

#[tokio::test]
async fn the_session_leads_to_the_mail() {
    let service = service().await;
    let ada = service.person("ada").await;
    ada.receive(RICH_MESSAGE).await;
    let client = Jmap::connect(&ada).await;
    let session = client.session().await;
    assert_eq!(session["username"], ada.address);
    assert_eq!(session["apiUrl"], format!("{}/jmap/api", service.base));
    let responses = client
        .calls(json!([
            ["Email/query", { "accountId": client.account, "limit": 1 }, "q"],
            ["Email/get", {
                "accountId": client.account,
                "#ids": { "resultOf": "q", "name": "Email/query", "path": "/ids" },
                "fetchAllBodyValues": true,
            }, "g"],
        ]))
        .await;
    let email = &responses[1][1]["list"][0];
    let listed = ada.newest().await;
    assert_eq!(email["id"], listed["uid"].to_string());
    assert_eq!(email["subject"], listed["subject"]);
    assert_eq!(email["threadId"], listed["threadId"]);
    let folder = ada.folder_id("INBOX").await;
    assert_eq!(email["mailboxIds"], json!({ folder: true }));
    let raw = client
        .download(email["blobId"].as_str().unwrap(), "a.eml")
        .await;
    assert_eq!(
        raw.body.len(),
        usize::try_from(email["size"].as_u64().unwrap()).unwrap()
    );
    for part in email["attachments"].as_array().unwrap() {
        let bytes = client.download(part["blobId"].as_str().unwrap(), "a").await;
        assert_eq!(part["size"], bytes.body.len(), "{part}");
    }
}

#[tokio::test]
async fn other_clients_see_what_is_created_changed_and_moved() {
    let service = service().await;
    let ada = service.person("ada").await;
    let client = Jmap::connect(&ada).await;
    let mut imap = imap(&ada).await;
    let created = client
        .call(
            "Mailbox/set",
            json!({ "create": { "m": { "name": "Plans" } } }),
        )
        .await;
    let plans = text(&created["created"]["m"]["id"]);
    assert_eq!(ada.folder_id("Plans").await, plans);
    let blob = client.upload("image/png", b"\x89PNG\r\n\x1a\n").await;
    let mut new = email(&plans, "Tea");
    new["attachments"] = json!([{ "blobId": blob, "type": "image/png", "name": "tea.png" }]);
    new["keywords"] = json!({ "$seen": true, "work": true });
    let id = client.create(&new).await;
    assert_eq!(subjects(&mut imap, "Plans").await, ["Tea"]);
    let stored = ada.message(id.parse().unwrap()).await;
    assert_eq!(stored["attachments"][0]["filename"], "tea.png");
    let args = json!({ "ids": [id], "properties": ["attachments", "keywords", "hasAttachment"] });
    let found = client.call("Email/get", args).await["list"][0].take();
    assert_eq!(found["keywords"], json!({ "$seen": true, "work": true }));
    assert_eq!(found["hasAttachment"], true);
    let part = text(&found["attachments"][0]["blobId"]);
    assert_eq!(
        client.download(&part, "tea.png").await.body,
        b"\x89PNG\r\n\x1a\n"
    );

    let archive = client.mailbox("archive").await;
    let update = json!({ id.as_str(): {
        "mailboxIds": { archive.as_str(): true },
        "keywords/$seen": null,
        "keywords/$flagged": true,
    } });
    client.call("Email/set", json!({ "update": update })).await;
    let moved = ada.message(id.parse().unwrap()).await;
    assert_eq!(moved["folder"], "Archive");
    let mut flags = moved["flags"].as_array().unwrap().clone();
    flags.sort_by_key(ToString::to_string);
    assert_eq!(json!(flags), json!(["\\Flagged", "work"]));

    append_message(&mut imap, "Archive", "Coffee").await;
    let filter = json!({ "filter": { "inMailbox": archive }, "calculateTotal": true });
    let found = client.call("Email/query", filter).await;
    assert_eq!(found["total"], 2);
    client
        .call("Email/set", json!({ "destroy": found["ids"] }))
        .await;
    assert!(subjects(&mut imap, "Archive").await.is_empty());
}

#[tokio::test]
async fn queries_find_what_the_search_finds() {
    let service = service().await;
    let ada = service.person("ada").await;
    let client = Jmap::connect(&ada).await;
    let inbox = client.mailbox("inbox").await;
    for subject in ["green tea", "black tea", "coffee"] {
        client.create(&email(&inbox, subject)).await;
    }
    let query = async |filter: Value| {
        let args = json!({ "filter": filter, "sort": [{ "property": "receivedAt" }] });
        let found = client.call("Email/query", args).await;
        let properties = json!({ "ids": found["ids"], "properties": ["subject"] });
        let emails = client.call("Email/get", properties).await;
        let emails = emails["list"].as_array().unwrap();
        emails
            .iter()
            .map(|one| text(&one["subject"]))
            .collect::<Vec<_>>()
    };
    assert_eq!(
        query(json!({ "text": "tea" })).await,
        ["green tea", "black tea"]
    );
    assert_eq!(
        query(json!({ "body": "\"black tea\"" })).await,
        ["black tea"]
    );
    let not = json!({ "operator": "NOT", "conditions": [{ "subject": "tea" }] });
    assert_eq!(query(not).await, ["coffee"]);
    let or = json!({ "operator": "OR", "conditions": [
        { "subject": "green" },
        { "operator": "AND", "conditions": [{ "subject": "coffee" }, { "minSize": 1 }] },
    ] });
    assert_eq!(query(or).await, ["green tea", "coffee"]);
    let args = json!({ "filter": { "text": "tea" }, "emailIds": ["1"] });
    client.call("SearchSnippet/get", args).await;
}

#[tokio::test]
async fn an_import_is_as_it_was_uploaded() {
    let service = service().await;
    let ada = service.person("ada").await;
    let client = Jmap::connect(&ada).await;
    let message = RICH_MESSAGE.replace('\n', "\r\n");
    let blob = client.upload("message/rfc822", message.as_bytes()).await;
    let parsed = client
        .call("Email/parse", json!({ "blobIds": [blob] }))
        .await;
    let import = json!({
        "blobId": blob,
        "mailboxIds": { client.mailbox("inbox").await: true },
        "receivedAt": "2026-01-02T03:04:05Z",
    });
    let args = json!({ "emails": { "i": import } });
    let imported = client.call("Email/import", args).await["created"]["i"].take();
    let get = json!({ "ids": [imported["id"]] });
    let stored = client.call("Email/get", get).await["list"][0].take();
    assert_eq!(stored["receivedAt"], "2026-01-02T03:04:05Z");
    let parsed = &parsed["parsed"][&blob];
    for name in [
        "subject",
        "from",
        "to",
        "messageId",
        "sentAt",
        "size",
        "hasAttachment",
    ] {
        assert_eq!(stored[name], parsed[name], "{name}");
    }
    let raw = client
        .download(imported["blobId"].as_str().unwrap(), "a.eml")
        .await;
    assert_eq!(raw.body, message.as_bytes());
}

#[tokio::test]
async fn the_vacation_response_and_the_quota_are_those_of_the_mailbox() {
    let service = service().await;
    let ada = service.person("ada").await;
    let client = Jmap::connect(&ada).await;
    let update = json!({ "singleton": { "isEnabled": true, "textBody": "Back soon" } });
    client
        .call("VacationResponse/set", json!({ "update": update }))
        .await;
    let vacation = ada.send("GET /api/v1/mail/vacation").await.succeeds(200);
    assert_eq!(vacation["isEnabled"], true);
    let quota = client.call("Quota/get", json!({})).await;
    let listed = ada.send("GET /api/v1/mail/quota").await.succeeds(200);
    let has_limit = !listed["storage"]["limit"].is_null();
    let has_quota = quota["list"].as_array().unwrap().iter();
    assert_eq!(
        has_quota.filter(|one| one["id"] == "storage").count(),
        usize::from(has_limit)
    );
}
