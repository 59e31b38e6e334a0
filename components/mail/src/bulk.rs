//! POST `…/messages/bulk/flag`, `…/bulk/move` and `…/bulk/delete`: change up to 200 messages in one
//! request.

use std::collections::HashSet;

use latchmail_common::changing::{bad_flags, bad_move, move_to, set_flags};
use latchmail_common::reading;
use latchmail_sdk::capability::{Caller, Mailbox};
use latchmail_sdk::{Failure, Reply, Request, codes};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;

use crate::change::{self, Action, FlagName};

/// The maximum number of messages in a request.
const MAX_MESSAGES: usize = 200;

/// A message's `uid`.
#[derive(ToSchema)]
#[schema(value_type = u64, minimum = 1, exclusive_maximum = 18_446_744_073_709_551_616.0)]
#[expect(dead_code, reason = "used only for the API description")]
pub(crate) struct MessageNumber(u64);

/// The messages to change, and the flags to set or remove.
#[derive(Deserialize, ToSchema)]
pub(crate) struct BulkFlagRequest {
    /// The `uid`s of the messages, 1 to 200. Duplicates count once.
    #[serde(default)]
    #[schema(value_type = Vec<MessageNumber>, required, min_items = 1, max_items = 200)]
    uids: Value,
    /// `\Seen`, `\Answered`, `\Flagged`, `\Draft`, or keywords.
    #[serde(default)]
    #[schema(value_type = Vec<FlagName>, required, min_items = 1, max_items = 100)]
    flags: Value,
    /// Whether the flags are set or removed.
    #[serde(default)]
    #[schema(value_type = Action, required)]
    action: Value,
}

/// The messages to move, and their target folder.
#[derive(Deserialize, ToSchema)]
pub(crate) struct BulkMoveRequest {
    /// The `uid`s of the messages, 1 to 200. Duplicates count once.
    #[serde(default)]
    #[schema(value_type = Vec<MessageNumber>, required, min_items = 1, max_items = 200)]
    uids: Value,
    /// The path of the target folder.
    #[serde(default)]
    #[schema(value_type = String, required, min_length = 1)]
    destination: Value,
    /// Not needed: a `uid` identifies a message in any folder.
    #[serde(default)]
    #[schema(value_type = Option<String>)]
    folder: Value,
}

/// The messages to delete.
#[derive(Deserialize, ToSchema)]
pub(crate) struct BulkDeleteRequest {
    /// The `uid`s of the messages, 1 to 200. Duplicates count once.
    #[serde(default)]
    #[schema(value_type = Vec<MessageNumber>, required, min_items = 1, max_items = 200)]
    uids: Value,
    /// Not needed: a `uid` identifies a message in any folder.
    #[serde(default)]
    #[expect(dead_code, reason = "the field is ignored, but its type is checked")]
    folder: Option<String>,
}

/// The result of a change of several messages.
#[derive(Serialize, ToSchema)]
pub(crate) struct Counted {
    success: bool,
    /// The number of distinct `uid`s in the request, including those of messages that no longer
    /// exist.
    count: usize,
}

/// Flag messages
///
/// Sets or removes flags as the route for one message does, with one request to the mail server per
/// folder. Messages that no longer exist are skipped.
#[utoipa::path(
    post,
    path = "/api/v1/mail/messages/bulk/flag",
    operation_id = "bulkFlagMessages",
    tag = "Mail",
    request_body = BulkFlagRequest,
    responses(
        (status = 200, description = "Done", body = Counted),
        (status = 400, description = "`At least one uid is required`, `Too many messages (max 200 per request)`, `Invalid message UID`, `Invalid flag data`", body = latchmail_sdk::Failed)
    )
)]
pub(crate) fn bulk_flag(
    host: &(impl Mailbox + Caller),
    request: &Request,
) -> Result<Reply, Failure> {
    let body: BulkFlagRequest = request.json().map_err(|_| bad_flags())?;
    let uids = numbers(&body.uids)?;
    let flags = Vec::<String>::deserialize(body.flags).map_err(|_| bad_flags())?;
    let action = Action::deserialize(body.action).map_err(|_| bad_flags())?;
    set_flags(host, None, &uids, &flags, action.into())?;
    counted(&uids)
}

/// Move messages
///
/// Moves the messages as the route for one message does, with one request to the mail server per
/// folder. Messages that no longer exist are skipped.
#[utoipa::path(
    post,
    path = "/api/v1/mail/messages/bulk/move",
    operation_id = "bulkMoveMessages",
    tag = "Mail",
    request_body = BulkMoveRequest,
    responses(
        (status = 200, description = "Done", body = Counted),
        (status = 400, description = "`At least one uid is required`, `Too many messages (max 200 per request)`, `Invalid message UID`, `Invalid move data`", body = latchmail_sdk::Failed),
        (status = 404, description = "`Folder not found`", body = latchmail_sdk::Failed)
    )
)]
pub(crate) fn bulk_move(
    host: &(impl Mailbox + Caller),
    request: &Request,
) -> Result<Reply, Failure> {
    let body: BulkMoveRequest = request.json().map_err(|_| bad_move())?;
    let uids = numbers(&body.uids)?;
    let destination = body.destination.as_str().ok_or_else(bad_move)?;
    if !(body.folder.is_null() || body.folder.is_string()) {
        return Err(bad_move());
    }
    move_to(host, None, &uids, destination)?;
    counted(&uids)
}

/// Delete messages
///
/// Deletes the messages as the route for one message does, with one request to the mail server per
/// folder. Messages that no longer exist are skipped.
#[utoipa::path(
    post,
    path = "/api/v1/mail/messages/bulk/delete",
    operation_id = "bulkDeleteMessages",
    tag = "Mail",
    request_body = BulkDeleteRequest,
    responses(
        (status = 200, description = "Done", body = Counted),
        (status = 400, description = "`At least one uid is required`, `Too many messages (max 200 per request)`, `Invalid message UID`, `Invalid JSON body`", body = latchmail_sdk::Failed)
    )
)]
pub(crate) fn bulk_delete(
    host: &(impl Mailbox + Caller),
    request: &Request,
) -> Result<Reply, Failure> {
    let body: BulkDeleteRequest = request.json()?;
    let uids = numbers(&body.uids)?;
    change::delete(host, None, &uids)?;
    counted(&uids)
}

/// Returns the `uid`s in a request. Duplicates are removed, and the order stays the same.
pub(crate) fn numbers(uids: &Value) -> Result<Vec<u64>, Failure> {
    let uids = match uids {
        Value::Null => &[][..],
        Value::Array(uids) => uids,
        _ => {
            return Err(Failure::bad_request(
                codes::INVALID_FIELD,
                "uids must be an array of integers",
            ));
        }
    };
    if uids.is_empty() {
        return Err(Failure::bad_request(
            codes::UIDS_REQUIRED,
            "At least one uid is required",
        ));
    }
    let mut seen = HashSet::new();
    let mut numbers = Vec::new();
    for uid in uids {
        let uid = reading::uid(integer(uid))?;
        if seen.insert(uid) {
            numbers.push(uid);
        }
    }
    if numbers.len() > MAX_MESSAGES {
        return Err(Failure::bad_request(
            codes::TOO_MANY_MESSAGES,
            "Too many messages (max 200 per request)",
        ));
    }
    Ok(numbers)
}

/// Converts a JSON number to an integer. Returns `None` if the number is negative or has a
/// fraction. Accepts `1.0`, because JSON Schema treats `1.0` as an integer.
fn integer(number: &Value) -> Option<u64> {
    let shortest = || number.as_f64()?.to_string().parse().ok();
    number.as_u64().or_else(shortest)
}

pub(crate) fn counted(uids: &[u64]) -> Result<Reply, Failure> {
    Reply::json(&Counted {
        success: true,
        count: uids.len(),
    })
}

#[cfg(test)]
mod tests {
    use latchmail_sdk::capability::{MessageQuery, Page};
    use latchmail_sdk::testing::{FakeHost, Letter, json, request};

    use super::*;

    fn posted(body: &str) -> Request {
        request(&[], &[], body)
    }

    fn refusal(response: Result<Reply, Failure>) -> String {
        let failure = response.unwrap_err();
        assert_eq!(failure.status, 400);
        failure.text.into_owned()
    }

    #[test]
    fn duplicate_numbers_are_processed_and_counted_once() {
        let host = FakeHost::new();
        for _ in 0..3 {
            host.deliver(Letter::from("grace@example.org"));
        }
        let done = serde_json::json!({"success": true, "count": 2});
        let flag = r#"{"uids": [3, 1, 3], "flags": ["a"], "action": "add"}"#;
        assert_eq!(json(bulk_flag(&host, &posted(flag))), done);
        let flags = |uid| host.get_message(uid).unwrap().summary.flags;
        assert_eq!(flags(1), ["a"]);
        assert!(flags(2).is_empty());
        assert_eq!(flags(3), ["a"]);
        let r#move = r#"{"uids": [3, 1.0, 3.0], "destination": "Archive", "folder": "y"}"#;
        assert_eq!(json(bulk_move(&host, &posted(r#move))), done);
        let page = Page {
            offset: 0,
            limit: 10,
        };
        assert_eq!(
            host.list_messages(&MessageQuery::page("Archive", page))
                .unwrap()
                .total,
            2
        );
        let delete = r#"{"uids": [3, 1, 3]}"#;
        assert_eq!(json(bulk_delete(&host, &posted(delete))), done);
        assert_eq!(
            host.list_messages(&MessageQuery::page("Archive", page))
                .unwrap()
                .total,
            0
        );
        assert_eq!(
            host.list_messages(&MessageQuery::page("INBOX", page))
                .unwrap()
                .total,
            1
        );
    }

    #[test]
    fn numbers_are_checked_first_and_limited_to_200() {
        let host = FakeHost::new();
        let delete = |uids: &str| bulk_delete(&host, &posted(&format!("{{\"uids\": {uids}}}")));
        for none in ["[]", "null"] {
            assert_eq!(refusal(delete(none)), "At least one uid is required");
        }
        for bad in [
            "[0]",
            "[-1]",
            "[1.5]",
            "[\"1\"]",
            "[null]",
            "[18446744073709551616]",
        ] {
            assert_eq!(refusal(delete(bad)), "Invalid message UID", "{bad}");
        }
        let many = |n: u64| serde_json::to_string(&(1..=n).collect::<Vec<_>>()).unwrap();
        let too_many = "Too many messages (max 200 per request)";
        assert_eq!(refusal(delete(&many(201))), too_many);
        assert_eq!(json(delete(&many(200)))["count"], 200);
        let without = |body| refusal(bulk_flag(&host, &posted(body)));
        assert_eq!(without("{}"), "At least one uid is required");
        assert_eq!(without(r#"{"uids": [1]}"#), "Invalid flag data");
        assert_eq!(
            without(r#"{"uids": [1], "flags": [], "action": "add"}"#),
            "Invalid flag data"
        );
        assert_eq!(without("x"), "Invalid flag data");
        let moved = |body| refusal(bulk_move(&host, &posted(body)));
        assert_eq!(
            moved(r#"{"destination": "x"}"#),
            "At least one uid is required"
        );
        assert_eq!(
            moved(r#"{"uids": [1], "destination": ""}"#),
            "Invalid move data"
        );
        assert_eq!(
            moved(r#"{"uids": [1], "destination": "x", "folder": 1}"#),
            "Invalid move data"
        );
        assert_eq!(
            refusal(bulk_delete(&host, &posted("x"))),
            "Invalid JSON body"
        );
    }
}
