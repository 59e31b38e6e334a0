//! Requests that no client sends.

use latchmail_tests::{RICH_MESSAGE, Random};
use serde_json::{Map, Value, json};

use super::{Jmap, service};

/// The number of requests, each with a call of every method in [`METHODS`].
const REQUESTS: usize = 60;

const METHODS: [&str; 20] = [
    "Mailbox/get",
    "Mailbox/changes",
    "Mailbox/query",
    "Mailbox/set",
    "Thread/get",
    "Thread/changes",
    "Email/get",
    "Email/changes",
    "Email/query",
    "Email/queryChanges",
    "Email/set",
    "Email/import",
    "Email/parse",
    "SearchSnippet/get",
    "Identity/get",
    "EmailSubmission/get",
    "EmailSubmission/query",
    "VacationResponse/set",
    "Quota/get",
    "Quota/query",
];
const NAMES: [&str; 22] = [
    "ids",
    "properties",
    "sinceState",
    "maxChanges",
    "filter",
    "sort",
    "position",
    "anchor",
    "limit",
    "create",
    "update",
    "destroy",
    "blobIds",
    "operator",
    "conditions",
    "text",
    "mailboxIds",
    "keywords",
    "name",
    "1",
    "M1",
    "\u{0}\u{fffd}\u{1f600}",
];

fn value(random: &mut Random, depth: usize) -> Value {
    match random.below(if depth > 3 { 5 } else { 8 }) {
        0 => Value::Null,
        1 => random.one_in(2).into(),
        2 => (i64::try_from(random.below(1_000)).unwrap() - 500).into(),
        3 => i64::MIN.into(),
        4 => (*random.pick(&NAMES)).into(),
        5 => (0..random.below(4))
            .map(|_| value(random, depth + 1))
            .collect(),
        _ => object(random, depth + 1).into(),
    }
}

fn object(random: &mut Random, depth: usize) -> Map<String, Value> {
    let mut object = Map::new();
    for _ in 0..random.below(5) {
        let name = (*random.pick(&NAMES)).to_owned();
        object.insert(name, value(random, depth));
    }
    object
}

#[tokio::test(flavor = "multi_thread")]
async fn every_method_answers_any_arguments() {
    let service = service().await;
    let ada = service.person("ada").await;
    ada.receive(RICH_MESSAGE).await;
    let client = Jmap::connect(&ada).await;
    let mut random = Random::new(7);
    for _ in 0..REQUESTS {
        let mut call = |name: &&str| {
            let mut args = object(&mut random, 0);
            args.insert("accountId".into(), client.account.as_str().into());
            json!([name, args, "c"])
        };
        let calls: Value = METHODS.iter().map(&mut call).collect();
        let responses = client.calls(calls.clone()).await;
        assert!(responses.len() >= METHODS.len());
        for response in responses {
            let kind = &response[1]["type"];
            assert!(response[0] != "error" || kind.is_string(), "{response}");
            assert_ne!(*kind, "serverFail", "{calls}");
        }
    }
    // No change of a random request has broken the mailbox.
    client.call("Mailbox/get", json!({})).await;
    assert!(!ada.content().await.is_empty());
}

#[tokio::test]
async fn requests_that_are_too_large_are_refused() {
    let service = service().await;
    let ada = service.person("ada").await;
    let client = Jmap::connect(&ada).await;
    let call = json!(["Core/echo", {}, "c"]);
    let request = json!({ "using": [], "methodCalls": vec![call; 33] });
    let response = client.post(&request).await;
    assert_eq!(response.status, 400);
    assert_eq!(response.json["type"], "urn:ietf:params:jmap:error:limit");
    assert_eq!(response.json["limit"], "maxCallsInRequest");
    let ids = vec!["1"; 501];
    let kind = client.error("Email/get", json!({ "ids": ids })).await;
    assert_eq!(kind, "requestTooLarge");
    let depth = "[".repeat(100_000);
    let response = ada.post_raw("/jmap/api", depth).await;
    assert_eq!(response.json["type"], "urn:ietf:params:jmap:error:notJSON");
    let session = client.session().await;
    let core = &session["capabilities"]["urn:ietf:params:jmap:core"];
    let max = usize::try_from(core["maxSizeRequest"].as_u64().unwrap()).unwrap();
    let response = ada.post_raw("/jmap/api", " ".repeat(max + 1)).await;
    assert_eq!(response.status, 413);
}
