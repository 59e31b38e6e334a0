//! The session, requests, and references between calls.

use latchmail_sdk::testing::Letter;
use serde_json::json;

use super::client::{ACCOUNT, calls, post, service};
use crate::session::{CORE, MAIL, SUBMISSION};

#[test]
fn both_addresses_return_the_session() {
    let service = service();
    let session = service.get("/jmap/session").succeeds(200);
    assert_eq!(service.get("/.well-known/jmap").succeeds(200), session);
    assert_eq!(session["username"], "ada@example.test");
    assert_eq!(session["primaryAccounts"][MAIL], ACCOUNT);
    assert_eq!(session["accounts"][ACCOUNT]["isReadOnly"], false);
    assert_eq!(session["apiUrl"], "/jmap/api");
    assert_eq!(session["capabilities"][CORE]["maxCallsInRequest"], 32);
    let mail = &session["accounts"][ACCOUNT]["accountCapabilities"][MAIL];
    assert_eq!(mail["maxMailboxesPerEmail"], 1);
    for (name, parts) in [
        (
            "downloadUrl",
            &["{accountId}", "{blobId}", "{name}", "{type}"][..],
        ),
        ("uploadUrl", &["{accountId}"][..]),
        ("eventSourceUrl", &["{types}", "{closeafter}", "{ping}"][..]),
    ] {
        let url = session[name].as_str().unwrap();
        assert!(parts.iter().all(|part| url.contains(part)), "{url}");
    }
    service.host.set("base_url", "https://mail.example");
    let session = service.get("/jmap/session").succeeds(200);
    assert_eq!(session["apiUrl"], "https://mail.example/jmap/api");
}

#[test]
fn calls_are_answered_in_their_order() {
    let service = service();
    let responses = calls(
        &service,
        json!([
            ["Core/echo", { "a": [1] }, "1"],
            ["Foo/get", {}, "2"],
            ["Core/echo", { "#b": { "resultOf": "1", "name": "Core/echo", "path": "/a/0" } }, "3"],
            ["Core/echo", { "#b": { "resultOf": "1", "name": "Core/echo", "path": "/c" } }, "4"],
        ]),
    );
    assert_eq!(
        json!(responses),
        json!([
            ["Core/echo", { "a": [1] }, "1"],
            ["error", { "type": "unknownMethod" }, "2"],
            ["Core/echo", { "b": 1 }, "3"],
            ["error", { "type": "invalidResultReference" }, "4"],
        ])
    );
}

#[test]
fn a_method_needs_its_capability() {
    let service = service();
    let request = json!({
        "using": [CORE],
        "methodCalls": [["Mailbox/get", { "accountId": ACCOUNT }, "c"]],
    });
    let response = service.post("/jmap/api", &request).succeeds(200);
    let unknown = json!([["error", { "type": "unknownMethod" }, "c"]]);
    assert_eq!(response["methodResponses"], unknown);
    let request = json!({ "using": [CORE], "methodCalls": [] });
    let headers = [("content-type", "text/plain")];
    let body = request.to_string().into_bytes();
    let problem = service.request("POST", "/jmap/api", &headers, body);
    assert_eq!(problem.json()["type"], "urn:ietf:params:jmap:error:notJSON");
    let request = json!({ "using": ["urn:x"], "methodCalls": [] });
    let problem = service.post("/jmap/api", &request);
    assert_eq!(problem.status, 400);
    assert_eq!(
        problem.header("content-type"),
        Some("application/problem+json")
    );
    let problem = problem.json();
    assert_eq!(
        problem["type"],
        "urn:ietf:params:jmap:error:unknownCapability"
    );
    assert_eq!(problem["code"], "invalid_jmap_request");
}

#[test]
fn one_request_finds_and_reads_emails() {
    let service = service();
    service
        .host
        .deliver(Letter::from("Bo <bo@example.test>").subject("Tea"));
    let reference =
        |path: &str, of: &str, name: &str| json!({ "resultOf": of, "name": name, "path": path });
    let responses = calls(
        &service,
        json!([
            ["Email/query", { "accountId": ACCOUNT }, "q"],
            ["Email/get", {
                "accountId": ACCOUNT,
                "#ids": reference("/ids", "q", "Email/query"),
                "properties": ["threadId", "subject", "from"],
            }, "g"],
            ["Thread/get", {
                "accountId": ACCOUNT,
                "#ids": reference("/list/*/threadId", "g", "Email/get"),
            }, "t"],
        ]),
    );
    let email = &responses[1][1]["list"][0];
    assert_eq!(email["subject"], "Tea");
    assert_eq!(
        email["from"],
        json!([{ "name": "Bo", "email": "bo@example.test" }])
    );
    let thread = &responses[2][1]["list"][0];
    assert_eq!(thread["emailIds"], json!([email["id"]]));
}

#[test]
fn creation_ids_are_known_to_later_requests() {
    let service = service();
    let request = json!({
        "using": [CORE, MAIL, SUBMISSION],
        "methodCalls": [["Mailbox/set", {
            "accountId": ACCOUNT,
            "create": { "a": { "name": "Plans" }, "b": { "name": "2027", "parentId": "#a" } },
        }, "c"]],
        "createdIds": {},
    });
    let response = service.post("/jmap/api", &request).succeeds(200);
    let created = &response["methodResponses"][0][1]["created"];
    assert_eq!(response["createdIds"]["b"], created["b"]["id"]);
    let request = json!({
        "using": [CORE, MAIL],
        "methodCalls": [["Mailbox/get", { "accountId": ACCOUNT, "ids": ["#b"] }, "c"]],
        "createdIds": response["createdIds"],
    });
    let response = service.post("/jmap/api", &request).succeeds(200);
    let found = &response["methodResponses"][0][1]["list"][0];
    assert_eq!(found["name"], "2027");
    assert_eq!(found["parentId"], created["a"]["id"]);
}

#[test]
fn arguments_are_checked() {
    let service = service();
    for (args, kind) in [
        (json!({}), "invalidArguments"),
        (json!({ "accountId": "x" }), "accountNotFound"),
        (
            json!({ "accountId": ACCOUNT, "unknown": 1 }),
            "invalidArguments",
        ),
        (
            json!({ "accountId": ACCOUNT, "ids": 7 }),
            "invalidArguments",
        ),
        (
            json!({ "accountId": ACCOUNT, "ids": vec!["1"; 501] }),
            "requestTooLarge",
        ),
        (
            json!({ "accountId": ACCOUNT, "ids": [], "properties": ["x"] }),
            "invalidArguments",
        ),
    ] {
        let responses = calls(&service, json!([["Email/get", args, "c"]]));
        assert_eq!(responses[0][1]["type"], kind, "{args}");
    }
    let many = json!(vec![json!(["Core/echo", {}, "c"]); 33]);
    assert_eq!(post(&service, many).json()["limit"], "maxCallsInRequest");
}
