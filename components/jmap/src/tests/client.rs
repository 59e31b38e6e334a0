//! A client of the API.

use latchmail_sdk::testing::{FakeHost, Response, Service};
use serde_json::{Value, json};

use crate::session::{CORE, MAIL, QUOTA, SUBMISSION, VACATION};

/// The id of the account of `ada@example.test`.
pub(super) const ACCOUNT: &str = "AYWRhQGV4YW1wbGUudGVzdA";

/// Returns the service for `ada@example.test`.
pub(super) fn service() -> Service {
    Service::of(crate::module::<FakeHost>())
}

/// Posts a request with these method calls.
#[expect(clippy::needless_pass_by_value, reason = "as tests write it")]
pub(super) fn post(service: &Service, calls: Value) -> Response {
    let request = json!({
        "using": [CORE, MAIL, SUBMISSION, VACATION, QUOTA],
        "methodCalls": calls,
    });
    service.post("/jmap/api", &request)
}

/// Returns the responses to method calls.
#[track_caller]
pub(super) fn calls(service: &Service, calls: Value) -> Vec<Value> {
    let response = post(service, calls).succeeds(200);
    response["methodResponses"].as_array().unwrap().clone()
}

/// Calls one method. Returns the name and the arguments of the first response.
#[track_caller]
fn call_any(service: &Service, name: &str, mut args: Value) -> (String, Value) {
    args["accountId"] = ACCOUNT.into();
    let response = calls(service, json!([[name, args, "c"]])).remove(0);
    (
        response[0].as_str().unwrap().to_owned(),
        response[1].clone(),
    )
}

/// Calls a method in this account. Returns the arguments of its response.
#[track_caller]
pub(super) fn call(service: &Service, name: &str, args: Value) -> Value {
    let (found, response) = call_any(service, name, args);
    assert_eq!(found, name, "{response}");
    response
}

/// Calls a method that fails. Returns the type of the error.
#[track_caller]
pub(super) fn error(service: &Service, name: &str, args: Value) -> String {
    let (found, response) = call_any(service, name, args);
    assert_eq!(found, "error", "{response}");
    response["type"].as_str().unwrap().to_owned()
}

/// Returns the current state of emails.
#[track_caller]
pub(super) fn state(service: &Service) -> String {
    let response = call(service, "Email/get", json!({ "ids": [] }));
    response["state"].as_str().unwrap().to_owned()
}

/// Returns the id of the mailbox with a role.
#[track_caller]
pub(super) fn mailbox(service: &Service, role: &str) -> String {
    let found = call(
        service,
        "Mailbox/query",
        json!({ "filter": { "role": role } }),
    );
    found["ids"][0].as_str().unwrap().to_owned()
}

/// Creates an email. Returns the response of `Email/set`.
#[expect(clippy::needless_pass_by_value, reason = "as tests write it")]
#[track_caller]
pub(super) fn create(service: &Service, email: Value) -> Value {
    call(service, "Email/set", json!({ "create": { "e": email } }))
}
