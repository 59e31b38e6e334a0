//! PUT `…/messages/{uid}/flags`: replaces the flags of one message.

use latchmail_common::changing::{bad_flags, set_flags};
use latchmail_common::reading;
use latchmail_sdk::capability::{Caller, FlagAction, Mailbox};
use latchmail_sdk::{Failure, Reply, Request};
use serde::Deserialize;
use utoipa::ToSchema;

use crate::change::{FlagName, done};

/// All flags of a message.
#[derive(Deserialize, ToSchema)]
#[schema(example = json!({"flags": ["\\Seen", "$Important"]}))]
pub(crate) struct ReplaceFlagsRequest {
    /// `\Seen`, `\Answered`, `\Flagged`, `\Draft`, or keywords. `\Recent` is ignored.
    #[schema(max_items = 100, value_type = Vec<FlagName>)]
    flags: Vec<String>,
}

/// Replace the flags
///
/// Sets the flags in the request, and removes all other flags of the message. Only `\Deleted` stays
/// if a mail client has set it: `\Deleted` cannot be set or removed.
#[utoipa::path(
    put,
    path = "/api/v1/mail/messages/{uid}/flags",
    operation_id = "replaceFlags",
    tag = "Mail",
    extensions(("x-latchmail" = json!(true))),
    params(
        ("uid" = u64, Path, minimum = 1, exclusive_maximum = 18_446_744_073_709_551_616.0, description = "The message's number"),
        ("If-Match" = Option<String>, Header, description = "Change the message only if its `ETag` is one of these")
    ),
    request_body = ReplaceFlagsRequest,
    responses(
        (status = 200, description = "Done", body = latchmail_sdk::Succeeded),
        (status = 400, description = "`Invalid message UID`, `Invalid flag data`", body = latchmail_sdk::Failed),
        (status = 404, description = "`Message not found`", body = latchmail_sdk::Failed),
        (status = 412, description = "`The message has changed`: the header `If-Match` does not match, and nothing was changed", body = latchmail_sdk::Failed)
    )
)]
pub(crate) fn replace_flags(
    host: &(impl Mailbox + Caller),
    request: &Request,
) -> Result<Reply, Failure> {
    let uid = reading::uid(request.path_number("uid"))?;
    let body: ReplaceFlagsRequest = request.json().map_err(|_| bad_flags())?;
    let mut flags = body.flags;
    flags.retain(|flag| !flag.eq_ignore_ascii_case("\\Recent"));
    let found = set_flags(host, Some(request), &[uid], &flags, FlagAction::Replace)?;
    done(&found)
}

#[cfg(test)]
mod tests {
    use latchmail_sdk::testing::{FakeHost, Letter, json, request};

    use super::*;

    fn put(host: &FakeHost, uid: &str, body: &str) -> Result<Reply, Failure> {
        replace_flags(host, &request(&[("uid", uid)], &[], body))
    }

    #[test]
    fn the_flags_of_the_request_replace_all_flags_but_deleted() {
        let host = FakeHost::new();
        let letter = Letter::from("grace@example.org").flag("a").flag("b");
        let uid = host.deliver(letter.flag("\\Deleted"));
        let flags = |body: &str| {
            assert_eq!(json(put(&host, "1", body))["success"], true, "{body}");
            let mut flags = host.get_message(uid).unwrap().summary.flags;
            flags.sort();
            flags
        };
        let body = r#"{"flags": ["b", "\\seen", "\\Recent"]}"#;
        assert_eq!(flags(body), ["\\Deleted", "\\Seen", "b"]);
        assert_eq!(flags(r#"{"flags": []}"#), ["\\Deleted"]);
    }

    #[test]
    fn invalid_flags_are_refused_and_a_missing_message_is_404() {
        let host = FakeHost::new();
        host.deliver(Letter::from("grace@example.org"));
        for body in [
            "",
            "{}",
            r#"{"flags": "a"}"#,
            r#"{"flags": [1]}"#,
            r#"{"flags": ["a b"]}"#,
            r#"{"flags": ["\\Deleted"]}"#,
        ] {
            assert_eq!(put(&host, "1", body).unwrap_err(), bad_flags(), "{body}");
        }
        for (uid, status) in [("0", 400), ("x", 400), ("7", 404)] {
            let refused = put(&host, uid, r#"{"flags": ["a"]}"#).unwrap_err();
            assert_eq!(refused.status, status, "{uid}");
        }
    }
}
