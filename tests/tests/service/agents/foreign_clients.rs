//! An unmodified client by other authors connects and works in a
//! mailbox, and knows only the endpoint's URL. It opens a real browser.

use std::time::Duration;

use latchmail_tests::{Browser, BrowserOptions, PASSWORD, Sdk, Setup};
use serde_json::{Value, json};

async fn connects_and_stays_connected(major: &str, revision: &str) {
    let service = Setup::default()
        .with_mail()
        .with("base_url = ''")
        .start()
        .await;
    let ada = service.person("ada").await;
    ada.receive(
        "From: Grace <grace@outside.test>\nTo: ada@first.test\nSubject: Compilers\n\nHello.\n",
    )
    .await;
    let mut agent = Sdk::start(major, &format!("{}/mcp", service.base));

    let open = agent.read_output("open").await;
    let browser = Browser::open(&service.state, &BrowserOptions::DESKTOP).await;
    browser.go(open["open"].as_str().unwrap()).await;
    browser
        .wait_for_text(&format!("An agent of major {major}"))
        .await;
    browser.sign_in(&ada.address, PASSWORD).await;
    browser.wait_for_text("You can close this page").await;

    let connected = agent.read_output("connected").await;
    assert_eq!(connected["connected"]["revision"], revision);
    let listed = agent.result_of(&json!({})).await;
    let tools = listed["answer"]["tools"].as_array().unwrap().iter();
    let mut names: Vec<&str> = tools.map(|tool| tool["name"].as_str().unwrap()).collect();
    names.sort_unstable();
    let expected = [
        "create_alias",
        "get_message",
        "list_aliases",
        "list_folders",
        "list_messages",
        "search_messages",
    ];
    assert_eq!(names, expected);
    let found = agent.result_of(&json!({ "call": "list_messages" })).await;
    let message = &found["answer"]["structuredContent"]["messages"][0];
    assert_eq!(message["subject"], "Compilers", "{found}");
    let wish = json!({ "call": "get_message", "arguments": { "uid": message["uid"] } });
    let whole = agent.result_of(&wish).await;
    let text = &whole["answer"]["structuredContent"]["text"];
    assert!(text.as_str().unwrap().contains("Hello."), "{whole}");
    let kept = |output: &Value| output["kept"].clone();
    assert_eq!(kept(&whole), json!({ "registrations": 1, "tokens": 1 }));

    // The access token expires. The client refreshes it without a browser.
    for renewed in [2, 3] {
        service.clock.advance(Duration::from_mins(61));
        let folders = agent.result_of(&json!({ "call": "list_folders" })).await;
        assert_ne!(folders["answer"]["isError"], true, "{folders}");
        let expected = json!({ "registrations": 1, "tokens": renewed });
        assert_eq!(kept(&folders), expected, "{folders}");
    }

    // The grant ends, so the client needs a new sign-in.
    if service.stores_passwords() {
        let change = json!({ "current_password": PASSWORD, "new_password": "Another-Horse-8" });
        let ada = ada.sign_in_again().await;
        ada.post("/api/v1/profile/password", &change)
            .await
            .succeeds(200);
    } else {
        let verb = format!("account end-sessions {}", ada.address);
        service.operator(&verb, "").await.succeeds();
    }
    agent.send_command(&json!({ "call": "list_folders" })).await;
    let open = agent.read_output("open").await;
    browser.go(open["open"].as_str().unwrap()).await;
    browser
        .wait_for_text("Sign in to give an application access to your mailbox")
        .await;
    agent.read_output("failed").await;
}

#[tokio::test]
async fn version_one_of_the_sdk_connects_and_stays_connected() {
    connects_and_stays_connected("1", "2025-11-25").await;
}

#[tokio::test]
async fn version_two_of_the_sdk_connects_and_stays_connected() {
    connects_and_stays_connected("2", "2025-11-25").await;
}

#[tokio::test]
async fn version_two_of_the_sdk_connects_with_the_newest_revision() {
    connects_and_stays_connected("2-newest", "2026-07-28").await;
}
