//! Tests of the draft routes with the fake host.

use latchmail_sdk::capability::Scope;
use latchmail_sdk::testing::{Letter, Response, Service};
use serde_json::{Value, json};

const DRAFTS: &str = "/api/v1/mail/drafts";

fn service() -> Service {
    Service::of(crate::module())
}

fn put(service: &Service, draft: &Value, tag: &str, body: &Value) -> Response {
    let path = format!("{DRAFTS}/{}", draft["id"].as_str().unwrap());
    let headers = [("If-Match", tag)];
    service.request("PUT", &path, &headers, body.to_string().into())
}

fn tag(draft: &Value) -> String {
    format!("\"{}\"", draft["version"].as_str().unwrap())
}

#[test]
fn a_draft_comes_back_as_it_was_stored() {
    let service = service();
    let response = service.post(
        DRAFTS,
        &json!({
            "from": "ada@example.test", "fromName": "Ada", "to": "Bo <bo@example.org>, half@",
            "cc": ["\"Last, First\" <last@example.org>"], "bcc": "secret@example.org",
            "subject": "Plan", "text": "Text", "references": "<1@x> y",
            "headers": [{ "name": "X-Kind", "value": "note" }],
            "attachments": [{ "filename": "a.txt", "content": "YQ==" }],
        }),
    );
    assert_eq!(response.status, 201);
    let draft = response.json();
    assert_eq!(response.header("etag"), Some(tag(&draft).as_str()));
    assert_eq!(
        draft["draft"],
        json!({
            "from": "ada@example.test", "fromName": "Ada", "replyTo": [],
            "to": ["Bo <bo@example.org>", "half@"],
            "cc": ["\"Last, First\" <last@example.org>"], "bcc": ["secret@example.org"],
            "subject": "Plan", "references": ["<1@x>", "y"],
            "headers": [{ "name": "X-Kind", "value": "note" }],
            "attachments": [{
                "uid": draft["uid"], "index": 0, "filename": "a.txt",
                "contentType": "application/octet-stream", "size": 1, "inline": false,
            }],
            "text": "Text",
        })
    );
    let path = format!("{DRAFTS}/{}", draft["id"].as_str().unwrap());
    assert_eq!(service.get(&path).json(), draft);
    let headers = [("If-None-Match", tag(&draft))];
    let headers = headers.each_ref().map(|(name, tag)| (*name, tag.as_str()));
    assert_eq!(
        service.request("GET", &path, &headers, Vec::new()).status,
        304
    );
    let listed = service.get(DRAFTS).json();
    assert_eq!(listed, json!({ "drafts": [draft], "total": 1 }));
    // What a client got can be stored again.
    let replaced = put(&service, &draft, &tag(&draft), &draft["draft"]);
    assert_eq!(replaced.status, 200);
    let replaced = replaced.json();
    let mut expected = draft["draft"].clone();
    expected["attachments"][0]["uid"] = replaced["uid"].clone();
    assert_eq!(replaced["draft"], expected);
}

#[test]
fn a_draft_is_replaced_only_in_the_version_that_the_client_read() {
    let service = service();
    let draft = service.post(DRAFTS, &json!({})).json();
    assert_eq!(draft["draft"]["subject"], "");
    let path = format!("{DRAFTS}/{}", draft["id"].as_str().unwrap());
    let required = service.put(&path, &json!({}));
    required.fails(428, "The header If-Match is required");
    let new = json!({ "subject": "Two" });
    for stale in ["\"x\"", "W/\"x\"", "x", "\"x\", \"y\""] {
        put(&service, &draft, stale, &new).fails(412, "The message has changed");
    }
    let several = format!("\"x\", {}", tag(&draft));
    let second = put(&service, &draft, &several, &new);
    assert_eq!(second.status, 200);
    let third = put(&service, &draft, "*", &json!({ "subject": "Three" }));
    assert_eq!(
        (third.status, &third.json()["draft"]["subject"]),
        (200, &"Three".into())
    );
    let stale = second.json();
    let headers = [("If-Match", tag(&stale))];
    let headers = headers.each_ref().map(|(name, tag)| (*name, tag.as_str()));
    let refused = service.request("DELETE", &path, &headers, Vec::new());
    refused.fails(412, "The message has changed");
    assert_eq!(service.delete(&path).json(), json!({ "success": true }));
    service.get(&path).fails(404, "Draft not found");
    service.delete(&path).fails(404, "Draft not found");
}

#[test]
fn an_unfinished_draft_is_refused_when_it_is_sent() {
    let service = service();
    let finished = json!({ "from": "ada@example.test", "to": "bo@example.org" });
    let send = |draft: &Value| {
        let id = draft["id"].as_str().unwrap();
        service.request("POST", &format!("{DRAFTS}/{id}/send"), &[], Vec::new())
    };
    for (field, value, error) in [
        (
            "from",
            json!(null),
            "from must be one mail address without a name",
        ),
        (
            "from",
            json!("half@"),
            "from must be one mail address without a name",
        ),
        ("to", json!(""), "to must name at least one recipient"),
        ("cc", json!("half@"), "cc must contain only mail addresses"),
        ("bcc", json!(["x"]), "bcc must contain only mail addresses"),
        (
            "replyTo",
            json!("x"),
            "replyTo must contain only mail addresses",
        ),
    ] {
        let mut unfinished = finished.clone();
        unfinished[field] = value;
        let draft = service.post(DRAFTS, &unfinished);
        assert_eq!(draft.status, 201);
        send(&draft.json()).fails(400, error);
    }
    let draft = service.post(DRAFTS, &finished).json();
    let response = send(&draft);
    assert_eq!(
        (response.status, &response.json()["savedTo"]),
        (200, &"Sent".into())
    );
    send(&draft).fails(404, "Draft not found");
    assert_eq!(service.host.sent().len(), 1);
}

#[test]
fn a_message_of_a_mail_client_is_a_draft() {
    let service = service();
    let uid = service
        .host
        .file("Drafts", Letter::from("ada@example.test").subject("Hi"));
    let listed = service.get(DRAFTS).json();
    assert_eq!(
        (&listed["total"], &listed["drafts"][0]["uid"]),
        (&1.into(), &uid.into())
    );
}

#[test]
fn invalid_input_and_missing_scopes_are_refused() {
    let service = service();
    let refused = |body: Value| {
        let response = service.post(DRAFTS, &body);
        assert_eq!(response.status, 400, "{body}");
    };
    refused(json!({ "subject": "a\nb" }));
    refused(json!({ "to": 7 }));
    refused(json!({ "headers": [{ "name": "Bcc", "value": "x" }] }));
    refused(json!({ "attachments": vec![json!({ "filename": "a", "content": "" }); 21] }));
    let missing = json!({ "attachments": [{ "uploadId": "none" }] });
    service
        .post(DRAFTS, &missing)
        .fails(404, "Upload not found");
    service
        .get(&format!("{DRAFTS}?limit=0"))
        .fails(400, "Invalid paging parameters");
    for (scopes, statuses) in [
        (&[Scope::MailRead][..], [200, 403]),
        (&[Scope::MailWrite], [403, 201]),
        (&[Scope::MailSend], [403, 403]),
    ] {
        service.host.use_token(scopes);
        let responses = [service.get(DRAFTS), service.post(DRAFTS, &json!({}))];
        assert_eq!(responses.map(|response| response.status), statuses);
    }
}
