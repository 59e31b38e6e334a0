//! URLs that an agent passes on: a download of an attachment, and an upload. A URL works once, and
//! only as long as the grant that created it.

use std::time::Duration;

use latchmail_tests::{Agent, RICH_MESSAGE, Response, Service, Setup};
use serde_json::{Value, json};

const SPENT: &str = "This link is invalid, expired or was used";

async fn start() -> Service {
    Setup::default()
        .with_mail()
        .with("mcp.send_tool = true\nmcp.tools = 'full'")
        .start()
        .await
}

/// Returns the method's line for a URL of the service.
fn line(method: &str, url: &Value) -> String {
    let path = url.as_str().unwrap().strip_prefix("http://service.test");
    format!("{method} {}", path.unwrap())
}

/// Returns an agent with a message with attachments, and the arguments for its first attachment.
async fn with_attachment<'a>(ada: &latchmail_tests::Person<'a>) -> (Agent<'a>, Value) {
    ada.receive(RICH_MESSAGE).await;
    let uid = ada.newest().await["uid"].clone();
    (
        Agent::for_person(ada).await,
        json!({ "uid": uid, "index": 0 }),
    )
}

#[tokio::test]
async fn the_url_of_an_attachment_works_once_and_for_nothing_else() {
    let service = start().await;
    let ada = service.person("ada").await;
    let (agent, first) = with_attachment(&ada).await;
    let link = agent.call("get_attachment", first.clone()).await;
    let route = format!("GET /api/v1/mail/messages/{}/attachments/0", first["uid"]);
    let expected = ada.send(&route).await;
    let (_, ticket) = link["url"].as_str().unwrap().split_once("ticket=").unwrap();
    // Another route, another method and another attachment do not use up the ticket.
    for other in [
        "GET /api/v1/mail/folders".to_owned(),
        "POST /api/v1/mail/uploads".to_owned(),
        route.replace("attachments/0", "attachments/1"),
        route.replace("GET", "HEAD"),
    ] {
        let refused = service.send(&format!("{other}?ticket={ticket}")).await;
        assert_eq!(refused.status, 401, "{other}");
        assert_eq!(refused.header("www-authenticate"), Some("Bearer"));
    }
    let got = service.send(&line("GET", &link["url"])).await;
    assert_eq!((got.status, &got.body), (200, &expected.body));
    assert_eq!(got.body.len() as u64, link["size"].as_u64().unwrap());
    for name in [
        "content-disposition",
        "x-content-type-options",
        "cache-control",
    ] {
        assert_eq!(got.header(name), expected.header(name), "{name}");
    }
    service
        .send(&line("GET", &link["url"]))
        .await
        .fails(401, SPENT);
    // Of several concurrent requests, one succeeds.
    let link = agent.call("get_attachment", first).await;
    let request = line("GET", &link["url"]);
    let requests = (0..8).map(|_| service.send(&request));
    let responses = futures_util::future::join_all(requests).await;
    let succeeded = responses.iter().filter(|response| response.status == 200);
    assert_eq!(succeeded.count(), 1);
}

#[tokio::test]
async fn a_url_ends_after_five_minutes_and_with_its_grant() {
    let service = start().await;
    let ada = service.person("ada").await;
    let (agent, first) = with_attachment(&ada).await;
    let link = agent.call("get_attachment", first.clone()).await;
    service.clock.advance(Duration::from_mins(5));
    service
        .send(&line("GET", &link["url"]))
        .await
        .fails(401, SPENT);

    let grants = ada.send("GET /api/v1/profile/grants").await.succeeds(200);
    let grant = format!(
        "/api/v1/profile/grants/{}",
        grants["grants"][0]["id"].as_str().unwrap()
    );
    let link = agent.call("get_attachment", first.clone()).await;
    ada.send(&format!("POST {grant}/suspend"))
        .await
        .succeeds(200);
    let refused = service.send(&line("GET", &link["url"])).await;
    assert_eq!(refused.json["code"], "grant_suspended");
    ada.send(&format!("POST {grant}/resume"))
        .await
        .succeeds(200);
    let link = agent.call("get_attachment", first).await;
    ada.send(&format!("DELETE {grant}")).await.succeeds(200);
    let refused = service.send(&line("GET", &link["url"])).await;
    assert_eq!(refused.status, 401);
    // An invalid ticket counts towards the limit of the client, like any invalid credential.
    service
        .send("GET /api/v1/mail/folders?ticket=lmu_x")
        .await
        .fails(401, SPENT);
}

#[tokio::test]
async fn a_file_is_uploaded_with_a_url_and_attached_by_the_agent() {
    let service = start().await;
    let (ada, bob) = (service.person("ada").await, service.person("bob").await);
    let agent = Agent::for_person(&ada).await;
    let upload = agent
        .call("create_upload", json!({ "filename": "täble 1.csv" }))
        .await;
    assert_eq!(upload["method"], "POST");
    let post = || {
        let request = service.request(&line("POST", &upload["url"]));
        request.header("content-type", "text/csv").body("a,b\n")
    };
    let stored = Response::of(post()).await.succeeds(201);
    assert_eq!(
        (&stored["filename"], &stored["size"]),
        (&json!("täble 1.csv"), &json!(4))
    );
    Response::of(post()).await.fails(401, SPENT);
    let new = json!({
        "to": bob.address, "subject": "The table", "text": "Here it is.",
        "attachments": [{ "uploadId": stored["uploadId"] }],
    });
    let draft = agent.call("create_draft", new).await;
    assert_eq!(draft["draft"]["attachments"][0]["filename"], "täble 1.csv");
    let change = json!({ "id": draft["id"], "version": draft["version"], "text": "Here." });
    let draft = agent.call("update_draft", change).await;
    assert_eq!(draft["draft"]["attachments"][0]["size"], 4);
    agent.call("send_draft", json!({ "id": draft["id"] })).await;
    bob.wait_for_message("The table").await;
    let received = bob.newest().await;
    assert!(received["text"].as_str().unwrap().starts_with("Here."));
    assert_eq!(received["attachments"][0]["contentType"], "text/csv");
}
