//! POST `…/messages/{uid}/flag`, POST `…/messages/{uid}/move` and DELETE `…/messages/{uid}`: change
//! one message.

use latchmail_common::changing::{bad_flags, bad_move, move_to, require_found, set_flags};
use latchmail_common::reading::{self, NO_MESSAGE};
use latchmail_common::versions;
use latchmail_sdk::capability::{Caller, FlagAction, Mailbox};
use latchmail_sdk::{Failure, Reply, Request};
use serde::Deserialize;
use utoipa::ToSchema;

/// The change to make to the flags.
#[derive(Clone, Copy, Debug, Deserialize, ToSchema)]
#[schema(as = FlagAction)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Action {
    /// Set the flags.
    Add,
    /// Remove the flags.
    Remove,
}

impl From<Action> for FlagAction {
    fn from(action: Action) -> Self {
        match action {
            Action::Add => Self::Add,
            Action::Remove => Self::Remove,
        }
    }
}

/// A system flag that clients can set, or a keyword.
#[derive(ToSchema)]
#[schema(
    value_type = String,
    max_length = 100,
    pattern = r"^(?:\\(?:[Ss][Ee][Ee][Nn]|[Aa][Nn][Ss][Ww][Ee][Rr][Ee][Dd]|[Ff][Ll][Aa][Gg][Gg][Ee][Dd]|[Dd][Rr][Aa][Ff][Tt])|[!#$&'+-\[^-z|}~]+)$"
)]
#[expect(dead_code, reason = "used only for the API description")]
pub(crate) struct FlagName(String);

/// Flags to set or remove.
#[derive(Deserialize, ToSchema)]
pub(crate) struct FlagRequest {
    /// `\Seen`, `\Answered`, `\Flagged`, `\Draft`, or keywords.
    #[schema(min_items = 1, max_items = 100, value_type = Vec<FlagName>)]
    pub(crate) flags: Vec<String>,
    /// Whether the flags are set or removed.
    pub(crate) action: Action,
    /// Not needed: the `uid` identifies the message.
    #[serde(default)]
    #[expect(dead_code, reason = "the field is ignored, but its type is checked")]
    folder: Option<String>,
}

/// The target folder of a move.
#[derive(Deserialize, ToSchema)]
pub(crate) struct MoveRequest {
    /// The path of the target folder.
    #[schema(min_length = 1)]
    pub(crate) destination: String,
    /// Not needed: the `uid` identifies the message.
    #[serde(default)]
    #[expect(dead_code, reason = "the field is ignored, but its type is checked")]
    folder: Option<String>,
}

/// Set or remove flags
///
/// Sets or removes the flags in the request. Other flags of the message stay the same. `\Deleted`
/// cannot be set: delete the message instead.
#[utoipa::path(
    post,
    path = "/api/v1/mail/messages/{uid}/flag",
    operation_id = "flagMessage",
    tag = "Mail",
    params(
        ("uid" = u64, Path, minimum = 1, exclusive_maximum = 18_446_744_073_709_551_616.0, description = "The message's number"),
        ("If-Match" = Option<String>, Header, extensions(("x-latchmail" = json!(true))), description = "Change the message only if its `ETag` is one of these")
    ),
    request_body = FlagRequest,
    responses(
        (status = 200, description = "Done", body = latchmail_sdk::Succeeded),
        (status = 400, description = "`Invalid message UID`, `Invalid flag data`", body = latchmail_sdk::Failed),
        (status = 404, description = "`Message not found`", body = latchmail_sdk::Failed),
        (status = 412, description = "`The message has changed`: the header `If-Match` does not match, and nothing was changed", body = latchmail_sdk::Failed)
    )
)]
pub(crate) fn flag_message(
    host: &(impl Mailbox + Caller),
    request: &Request,
) -> Result<Reply, Failure> {
    let uid = reading::uid(request.path_number("uid"))?;
    let body: FlagRequest = request.json().map_err(|_| bad_flags())?;
    let action = body.action.into();
    let found = set_flags(host, Some(request), &[uid], &body.flags, action)?;
    done(&found)
}

/// Move a message
///
/// Moves the message to another folder. The message keeps its `uid`.
#[utoipa::path(
    post,
    path = "/api/v1/mail/messages/{uid}/move",
    operation_id = "moveMessage",
    tag = "Mail",
    params(
        ("uid" = u64, Path, minimum = 1, exclusive_maximum = 18_446_744_073_709_551_616.0, description = "The message's number"),
        ("If-Match" = Option<String>, Header, extensions(("x-latchmail" = json!(true))), description = "Change the message only if its `ETag` is one of these")
    ),
    request_body = MoveRequest,
    responses(
        (status = 200, description = "Done", body = latchmail_sdk::Succeeded),
        (status = 400, description = "`Invalid message UID`, `Invalid move data`", body = latchmail_sdk::Failed),
        (status = 404, description = "`Message not found`, `Folder not found`", body = latchmail_sdk::Failed),
        (status = 412, description = "`The message has changed`: the header `If-Match` does not match, and nothing was changed", body = latchmail_sdk::Failed)
    )
)]
pub(crate) fn move_message(
    host: &(impl Mailbox + Caller),
    request: &Request,
) -> Result<Reply, Failure> {
    let uid = reading::uid(request.path_number("uid"))?;
    let body: MoveRequest = request.json().map_err(|_| bad_move())?;
    let found = move_to(host, Some(request), &[uid], &body.destination)?;
    done(&found)
}

/// Delete a message
///
/// Deletes the message permanently. To put the message into Trash instead, move it to that folder.
#[utoipa::path(
    delete,
    path = "/api/v1/mail/messages/{uid}",
    operation_id = "deleteMessage",
    tag = "Mail",
    params(
        ("uid" = u64, Path, minimum = 1, exclusive_maximum = 18_446_744_073_709_551_616.0, description = "The message's number"),
        ("folder" = Option<String>, Query, description = "Not needed: the `uid` identifies the message"),
        ("If-Match" = Option<String>, Header, extensions(("x-latchmail" = json!(true))), description = "Change the message only if its `ETag` is one of these")
    ),
    responses(
        (status = 200, description = "Done", body = latchmail_sdk::Succeeded),
        (status = 400, description = "`Invalid message UID`", body = latchmail_sdk::Failed),
        (status = 404, description = "`Message not found`", body = latchmail_sdk::Failed),
        (status = 412, description = "`The message has changed`: the header `If-Match` does not match, and nothing was changed", body = latchmail_sdk::Failed)
    )
)]
pub(crate) fn delete_message(
    host: &(impl Mailbox + Caller),
    request: &Request,
) -> Result<Reply, Failure> {
    let uid = reading::uid(request.path_number("uid"))?;
    let found = delete(host, Some(request), &[uid])?;
    done(&found)
}

/// Deletes messages permanently. Returns the `uid`s of the messages that existed.
pub(crate) fn delete(
    host: &(impl Mailbox + Caller),
    request: Option<&Request>,
    uids: &[u64],
) -> Result<Vec<u64>, Failure> {
    let deleted = versions::if_match(request, |version| host.delete_messages(uids, version));
    deleted.map_err(|error| versions::failure(error, NO_MESSAGE, host))
}

pub(crate) fn done(found: &[u64]) -> Result<Reply, Failure> {
    require_found(found)?;
    Reply::success()
}

#[cfg(test)]
mod tests {
    use latchmail_sdk::capability::{Error, MessageQuery, Page};
    use latchmail_sdk::codes;
    use latchmail_sdk::testing::{FakeHost, Letter, json, request};

    use super::*;

    fn posted(uid: &str, body: &str) -> Request {
        request(&[("uid", uid)], &[], body)
    }

    /// Adds the header `If-Match`.
    fn matching(mut request: Request, tags: &str) -> Request {
        request.headers.push(("if-match".into(), tags.into()));
        request
    }

    #[test]
    fn a_message_is_changed_only_if_it_has_a_required_version() {
        let host = FakeHost::new();
        host.deliver(Letter::from("grace@example.org"));
        let flag = || posted("1", r#"{"flags": ["a"], "action": "add"}"#);
        let version = || host.get_version(1).unwrap().state;
        let changed = Failure::new(412, codes::MESSAGE_CHANGED, "The message has changed");
        let weak = format!("W/\"{}\"", version());
        for stale in ["\"x\"", "\"x\", \"y\"", "", version().as_str(), &weak] {
            for refused in [
                flag_message(&host, &matching(flag(), stale)),
                move_message(
                    &host,
                    &matching(posted("1", r#"{"destination": "Sent"}"#), stale),
                ),
                delete_message(&host, &matching(posted("1", ""), stale)),
            ] {
                assert_eq!(refused.unwrap_err(), changed, "{stale}");
            }
        }
        assert!(host.get_message(1).unwrap().summary.flags.is_empty());
        let current = format!("\"x\", \"{}\", \"y\"", version());
        let success = serde_json::json!({"success": true});
        assert_eq!(
            json(flag_message(&host, &matching(flag(), &current))),
            success
        );
        assert_eq!(host.get_message(1).unwrap().summary.flags, ["a"]);
        let again = flag_message(&host, &matching(flag(), &current));
        assert_eq!(again.unwrap_err(), changed);
        assert_eq!(
            json(delete_message(&host, &matching(posted("1", ""), "*"))),
            success
        );
        // A missing message is not a changed message.
        let missing = flag_message(&host, &matching(flag(), &current)).unwrap_err();
        assert_eq!(missing.status, 404);
    }

    #[test]
    fn a_message_is_flagged_moved_and_deleted_by_its_number() {
        let host = FakeHost::new();
        let uid = host.deliver(
            Letter::from("grace@example.org")
                .flag("\\Seen")
                .flag("a")
                .flag("b"),
        );
        let success = serde_json::json!({"success": true});
        let flag = r#"{"flags": ["\\Seen", "a"], "action": "remove", "folder": "x"}"#;
        assert_eq!(json(flag_message(&host, &posted("1", flag))), success);
        assert_eq!(host.get_message(uid).unwrap().summary.flags, ["b"]);
        let r#move = r#"{"destination": "Archive"}"#;
        assert_eq!(json(move_message(&host, &posted("1", r#move))), success);
        let page = Page {
            offset: 0,
            limit: 10,
        };
        assert_eq!(
            host.list_messages(&MessageQuery::page("Archive", page))
                .unwrap()
                .total,
            1
        );
        assert_eq!(json(delete_message(&host, &posted("1", ""))), success);
        assert!(host.get_message(uid).is_err());
    }

    #[test]
    fn an_invalid_body_is_refused_before_the_mailbox_is_changed() {
        let host = FakeHost::new();
        for body in [
            "",
            "{}",
            "[]",
            r#"{"flags": [], "action": "add"}"#,
            r#"{"flags": "\\Seen", "action": "add"}"#,
            r#"{"flags": ["a"], "action": "toggle"}"#,
            r#"{"flags": ["a"]}"#,
            r#"{"flags": ["a"], "action": "add", "folder": 1}"#,
        ] {
            let refused = flag_message(&host, &posted("7", body)).unwrap_err();
            assert_eq!(
                refused,
                Failure::bad_request(codes::INVALID_FLAG_DATA, "Invalid flag data"),
                "{body}"
            );
        }
        for body in ["", "{}", r#"{"destination": ""}"#, r#"{"destination": 1}"#] {
            let refused = move_message(&host, &posted("7", body)).unwrap_err();
            assert_eq!(
                refused,
                Failure::bad_request(codes::INVALID_MOVE_DATA, "Invalid move data"),
                "{body}"
            );
        }
        assert_eq!(host.calls(), 0);
    }

    #[test]
    fn a_missing_message_a_missing_folder_and_an_invalid_flag_have_different_errors() {
        let host = FakeHost::new();
        host.deliver(Letter::from("grace@example.org"));
        let deleted = r#"{"flags": ["\\Deleted"], "action": "add"}"#;
        let bad = flag_message(&host, &posted("1", deleted));
        assert_eq!(bad.unwrap_err(), bad_flags());
        let flag = r#"{"flags": ["a"], "action": "add"}"#;
        for missing in [
            flag_message(&host, &posted("7", flag)),
            move_message(&host, &posted("7", r#"{"destination": "Archive"}"#)),
            delete_message(&host, &posted("7", "")),
        ] {
            let refused = missing.unwrap_err();
            assert_eq!(
                refused,
                Failure::not_found(codes::MESSAGE_NOT_FOUND, "Message not found")
            );
        }
        let r#move = posted("1", r#"{"destination": "x"}"#);
        let nowhere = move_message(&host, &r#move);
        assert_eq!(
            nowhere.unwrap_err(),
            Failure::not_found(codes::FOLDER_NOT_FOUND, "Folder not found")
        );
        let unknown = move_message(&FakeHost::failing(Error::OutcomeUnknown), &r#move);
        assert_eq!(unknown.unwrap_err().status, 500);
    }
}
