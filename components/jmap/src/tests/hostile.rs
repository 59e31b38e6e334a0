//! Requests that no client sends: every method with random arguments.

use latchmail_sdk::testing::Letter;
use proptest::prelude::*;
use serde_json::{Map, Value, json};

use super::client::{ACCOUNT, post, service};

const METHODS: [&str; 32] = [
    "Core/echo",
    "Blob/copy",
    "Mailbox/get",
    "Mailbox/changes",
    "Mailbox/query",
    "Mailbox/queryChanges",
    "Mailbox/set",
    "Thread/get",
    "Thread/changes",
    "Email/get",
    "Email/changes",
    "Email/query",
    "Email/queryChanges",
    "Email/set",
    "Email/copy",
    "Email/import",
    "Email/parse",
    "SearchSnippet/get",
    "Identity/get",
    "Identity/changes",
    "Identity/set",
    "EmailSubmission/get",
    "EmailSubmission/changes",
    "EmailSubmission/query",
    "EmailSubmission/queryChanges",
    "EmailSubmission/set",
    "VacationResponse/get",
    "VacationResponse/set",
    "Quota/get",
    "Quota/changes",
    "Quota/query",
    "Quota/queryChanges",
];
/// Names of arguments and of properties, and values that some of them have.
const NAMES: [&str; 36] = [
    "ids",
    "properties",
    "sinceState",
    "sinceQueryState",
    "maxChanges",
    "filter",
    "sort",
    "position",
    "anchor",
    "limit",
    "create",
    "update",
    "destroy",
    "emails",
    "blobIds",
    "emailIds",
    "operator",
    "conditions",
    "inMailbox",
    "text",
    "mailboxIds",
    "keywords",
    "bodyStructure",
    "bodyValues",
    "textBody",
    "subParts",
    "partId",
    "value",
    "name",
    "parentId",
    "identityId",
    "emailId",
    "envelope",
    "singleton",
    "#ids",
    "keywords/$seen",
];

fn text() -> impl Strategy<Value = String> {
    prop_oneof![
        prop::sample::select(NAMES.to_vec()).prop_map(String::from),
        prop::sample::select(vec!["1", "M1", "#a", "AND", "id of INBOX", "P0-9-b-M1"])
            .prop_map(String::from),
        ".{0,8}",
    ]
}

fn value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        (-3_i64..3).prop_map(Value::from),
        text().prop_map(Value::from),
    ];
    leaf.prop_recursive(5, 40, 6, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..5).prop_map(Value::from),
            object(inner).prop_map(Value::from),
        ]
    })
}

fn object(value: impl Strategy<Value = Value>) -> impl Strategy<Value = Map<String, Value>> {
    let members = prop::collection::vec((text(), value), 0..6);
    members.prop_map(|members| members.into_iter().collect())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn every_method_answers_any_arguments(
        args in prop::collection::vec(object(value()), METHODS.len()),
    ) {
        let service = service();
        service.host.deliver(Letter::from("bo@example.test").subject("Tea"));
        let calls = METHODS.iter().zip(args).map(|(name, mut args)| {
            args.insert("accountId".into(), ACCOUNT.into());
            json!([name, args, "c"])
        });
        let response = post(&service, calls.collect());
        prop_assert_eq!(response.status, 200);
        let response = response.json();
        let responses = response["methodResponses"].as_array().unwrap();
        prop_assert!(responses.len() >= METHODS.len());
        for response in responses {
            let is_error = response[0] == "error";
            prop_assert!(!is_error || response[1]["type"].is_string());
            // The service did not fail, so no error is its own.
            prop_assert!(response[1]["type"] != "serverFail", "{}", response);
        }
    }

    #[test]
    fn any_body_is_answered(body in any::<Vec<u8>>()) {
        let response = service().request("POST", "/jmap/api", &[], body);
        prop_assert!([200, 400].contains(&response.status));
    }
}
