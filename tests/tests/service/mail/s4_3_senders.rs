//! Specification, section 4.3: whether the sender of a message is who it says.

use latchmail_tests::{Agent, Person, Service};
use serde_json::{Value, json};

/// The warning of an agent's result about an unverified sender.
const NOT_VERIFIED: &str = "sender not verified";

/// A message to `person`, with these header fields above those of the sender.
async fn arrives(person: &Person<'_>, fields: &str, from: &str) -> u64 {
    let message = format!(
        "{fields}From: {from}\nTo: {}\nSubject: Hello\n\nHello.\n",
        person.address
    );
    person.receives(&message).await;
    person.newest().await["uid"].as_u64().unwrap()
}

/// Both results of a message: the route's, and an agent's with whether it warns.
async fn results(person: &Person<'_>, agent: &Agent<'_>, uid: u64) -> (Value, bool) {
    let detail = person.message(uid).await;
    let read = agent.call("get_message", json!({ "uid": uid })).await;
    assert_eq!(read["authentication"], detail["authentication"]);
    let warnings = read["warnings"].as_array().unwrap();
    let about_sender = |warning: &Value| warning.as_str().unwrap().contains(NOT_VERIFIED);
    (
        detail["authentication"].clone(),
        warnings.iter().any(about_sender),
    )
}

#[tokio::test]
async fn the_result_of_the_mail_servers_own_filter_is_in_messages() {
    let service = Service::with_mail_and("inbound.authserv_id = 'mx.filter.test'").await;
    let ada = service.person("ada").await;
    let agent = Agent::of(&ada).await;
    let from = "Grace <grace@outside.test>";
    for (results_of, result, domain) in [
        (
            "mx.filter.test; dmarc=pass (p=none) header.from=outside.test",
            "pass",
            json!("outside.test"),
        ),
        (
            "mx.filter.test; dmarc=fail header.from=outside.test",
            "fail",
            json!("outside.test"),
        ),
        (
            "mx.filter.test; dmarc=pass header.from=elsewhere.test",
            "fail",
            json!("elsewhere.test"),
        ),
        (
            "mx.filter.test; dmarc=none header.from=outside.test",
            "none",
            json!("outside.test"),
        ),
        (
            "mx.elsewhere.test; dmarc=pass header.from=outside.test",
            "none",
            json!(null),
        ),
        (
            "mx.filter.test; spf=pass\nAuthentication-Results: mx.filter.test; dmarc=pass header.from=outside.test",
            "none",
            json!(null),
        ),
    ] {
        let fields = format!("Authentication-Results: {results_of}\n");
        let uid = arrives(&ada, &fields, from).await;
        let expected = json!({ "result": result, "domain": domain });
        assert_eq!(
            results(&ada, &agent, uid).await,
            (expected, result != "pass"),
            "{results_of}"
        );
    }
}

#[tokio::test]
async fn no_result_is_trusted_without_a_configured_name() {
    let service = Service::with_mail_and("inbound.authserv_id = ''").await;
    let ada = service.person("ada").await;
    let agent = Agent::of(&ada).await;
    let fields = "Authentication-Results: mx.filter.test; dmarc=pass header.from=outside.test\n";
    let uid = arrives(&ada, fields, "grace@outside.test").await;
    let none = json!({ "result": "none", "domain": null });
    assert_eq!(results(&ada, &agent, uid).await, (none, true));
}
