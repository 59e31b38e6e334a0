//! A tour through the tools with the official clients of the protocol, in TypeScript and in Python:
//! threads, attachments by a URL, uploads, drafts, replies and changes. The clients check each
//! result against the schema of its tool.

use latchmail_tests::{
    Person, RICH_MESSAGE, Response, Sdk, Service, Setup, TokenProxy, wait_until,
};
use serde_json::{Value, json};

/// A client, and the service in which it acts.
struct Tour<'a> {
    service: &'a Service,
    client: Sdk,
}

impl Tour<'_> {
    /// Calls a tool, which must succeed, and returns the complete result.
    async fn call(&mut self, name: &str, arguments: Value) -> Value {
        let command = json!({ "call": name, "arguments": arguments });
        let answer = self.client.result_of(&command).await["answer"].clone();
        assert_ne!(answer["isError"], true, "{name}: {answer}");
        answer
    }

    /// The same. Returns only the structured part of the result.
    async fn structured(&mut self, name: &str, arguments: Value) -> Value {
        self.call(name, arguments).await["structuredContent"].clone()
    }

    fn request(&self, method: &str, url: &Value) -> reqwest::RequestBuilder {
        let path = url
            .as_str()
            .unwrap()
            .trim_start_matches("http://service.test");
        self.service.request(&format!("{method} {path}"))
    }
}

async fn tour(tour: &mut Tour<'_>, ada: &Person<'_>) {
    let listed = tour.client.result_of(&json!({})).await;
    let tools = listed["answer"]["tools"].as_array().unwrap().len();
    assert_eq!(tools, 19);
    let threads = tour
        .structured("list_threads", json!({ "folder": "*" }))
        .await;
    let id = threads["threads"][0]["id"].clone();
    let thread = tour.structured("get_thread", json!({ "id": id })).await;
    let uid = thread["messages"][0]["uid"].clone();

    let answer = tour.call("get_attachment", json!({ "uid": uid })).await;
    let link = &answer["content"][1];
    assert_eq!(link["type"], "resource_link", "{answer}");
    let file = Response::of(tour.request("GET", &link["uri"])).await;
    assert_eq!(file.status, 200);
    assert_eq!(json!(file.body.len()), link["size"]);

    let upload = tour
        .structured("create_upload", json!({ "filename": "a.csv" }))
        .await;
    let request = tour
        .request("POST", &upload["url"])
        .header("content-type", "text/csv");
    let stored = Response::of(request.body("a,b")).await.succeeds(201);
    let draft = json!({
        "mode": "reply", "uid": uid, "text": "See the table.",
        "attachments": [{ "uploadId": stored["uploadId"] }],
    });
    let draft = tour.structured("create_draft", draft).await;
    let change = json!({ "id": draft["id"], "version": draft["version"], "subject": "The table" });
    let changed = tour.structured("update_draft", change).await;
    let sent = tour
        .structured("send_draft", json!({ "id": changed["id"] }))
        .await;
    assert!(sent["messageId"].is_string(), "{sent}");
    tour.call("reply", json!({ "uid": uid, "text": "Thank you." }))
        .await;

    let flags = json!({ "uid": uid, "flags": ["\\Flagged"], "action": "add" });
    tour.call("flag", flags).await;
    tour.call("create_folder", json!({ "path": "Clients" }))
        .await;
    tour.call("move", json!({ "uid": uid, "destination": "Clients" }))
        .await;
    assert_eq!(ada.total("Clients").await, 1);
    tour.call("trash", json!({ "uid": uid })).await;
    assert_eq!(ada.total("Clients").await, 0);
}

/// Starts a service with a message, and a proxy that adds the token of an agent.
async fn start() -> Service {
    Setup::default()
        .with_mail()
        .with("mcp.send_tool = true\nmcp.tools = 'full'")
        .start()
        .await
}

async fn with_client(start_client: impl FnOnce(&str) -> Sdk) {
    let service = start().await;
    let ada = service.person("ada").await;
    ada.receive(RICH_MESSAGE).await;
    wait_until("the index has the message", async || {
        let threads = ada.send("GET /api/v1/mail/threads").await;
        threads.json["total"] == 1
    })
    .await;
    let token = ada.oauth_token().await;
    let proxy = TokenProxy::start(&service.base, &token).await;
    let mut client = start_client(&format!("http://{}/mcp", proxy.address));
    client.read_output("connected").await;
    let mut first = Tour {
        service: &service,
        client,
    };
    Box::pin(tour(&mut first, &ada)).await;
}

#[tokio::test]
async fn a_tour_with_version_one_of_the_client_in_typescript() {
    with_client(|endpoint| Sdk::start("1", endpoint)).await;
}

#[tokio::test]
async fn a_tour_with_version_two_of_the_client_in_typescript() {
    with_client(|endpoint| Sdk::start("2-newest", endpoint)).await;
}

#[tokio::test]
async fn a_tour_with_the_client_in_python() {
    with_client(Sdk::start_python).await;
}

#[tokio::test]
async fn a_client_that_opens_urls_shows_the_user_the_page_for_a_held_message() {
    let service = start().await;
    let ada = service.person("ada").await;
    let token = ada.oauth_token().await;
    let grants = ada.send("GET /api/v1/profile/grants").await.succeeds(200);
    let id = grants["grants"][0]["id"].as_str().unwrap();
    let policy = json!({
        "send": "thread", "sendTo": [], "sendPerDay": null, "recipientsPerDay": null,
        "folders": null, "attachments": true, "hideCodes": true, "delete": "trash",
        "onDenied": "hold", "aliases": false, "until": null,
    });
    let line = format!("PUT /api/v1/profile/grants/{id}/policy");
    ada.send_json(&line, &policy).await.succeeds(200);
    let proxy = TokenProxy::start(&service.base, &token).await;
    let mut client = Sdk::start_python(&format!("http://{}/mcp", proxy.address));
    client.read_output("connected").await;
    let message = json!({ "to": "eve@evil.test", "subject": "Hi", "text": "Hi" });
    let command = json!({ "call": "send_message", "arguments": message });
    client.send_command(&command).await;
    // The user opens the page, and the client tells the service that the user did.
    let asked = client.read_output("asked").await;
    let url = asked["asked"]["url"].as_str().unwrap();
    let answer = client.read_output("answer").await;
    let held = &answer["answer"]["structuredContent"];
    assert_eq!(held["status"], "pending", "{answer}");
    let id = held["holdId"].as_str().unwrap();
    assert_eq!(url, format!("http://service.test/account/holds/{id}"));
}
