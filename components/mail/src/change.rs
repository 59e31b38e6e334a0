//! POST `…/messages/{uid}/flag`, POST `…/messages/{uid}/move` and DELETE `…/messages/{uid}`: change
//! one message.

use latchmail_common::reading;
use latchmail_sdk::capability::{Caller, Error, FlagAction, Mailbox};
use latchmail_sdk::{Failure, Reply, Request, codes};
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
    params(("uid" = u64, Path, minimum = 1, exclusive_maximum = 18_446_744_073_709_551_616.0, description = "The message's number")),
    request_body = FlagRequest,
    responses(
        (status = 200, description = "Done", body = latchmail_sdk::Succeeded),
        (status = 400, description = "`Invalid message UID`, `Invalid flag data`", body = latchmail_sdk::Failed),
        (status = 404, description = "`Message not found`", body = latchmail_sdk::Failed)
    )
)]
pub(crate) fn flag_message(
    host: &(impl Mailbox + Caller),
    request: &Request,
) -> Result<Reply, Failure> {
    let uid = reading::uid(request.path_number("uid"))?;
    let body: FlagRequest = request.json().map_err(|_| bad_flags())?;
    let found = set_flags(host, &[uid], &body.flags, body.action)?;
    done(&found)
}

/// Sets or removes flags. Returns the `uid`s of the messages that exist.
pub(crate) fn set_flags(
    host: &(impl Mailbox + Caller),
    uids: &[u64],
    flags: &[String],
    action: Action,
) -> Result<Vec<u64>, Failure> {
    if flags.is_empty() {
        return Err(bad_flags());
    }
    host.set_flags(uids, flags, action.into())
        .map_err(|error| match error {
            Error::Invalid(_) => bad_flags(),
            other => Failure::of(other, (codes::MESSAGE_NOT_FOUND, "Message not found"), host),
        })
}

pub(crate) fn bad_flags() -> Failure {
    Failure::bad_request(codes::INVALID_FLAG_DATA, "Invalid flag data")
}

/// Move a message
///
/// Moves the message to another folder. The message keeps its `uid`.
#[utoipa::path(
    post,
    path = "/api/v1/mail/messages/{uid}/move",
    operation_id = "moveMessage",
    tag = "Mail",
    params(("uid" = u64, Path, minimum = 1, exclusive_maximum = 18_446_744_073_709_551_616.0, description = "The message's number")),
    request_body = MoveRequest,
    responses(
        (status = 200, description = "Done", body = latchmail_sdk::Succeeded),
        (status = 400, description = "`Invalid message UID`, `Invalid move data`", body = latchmail_sdk::Failed),
        (status = 404, description = "`Message not found`, `Folder not found`", body = latchmail_sdk::Failed)
    )
)]
pub(crate) fn move_message(
    host: &(impl Mailbox + Caller),
    request: &Request,
) -> Result<Reply, Failure> {
    let uid = reading::uid(request.path_number("uid"))?;
    let body: MoveRequest = request.json().map_err(|_| bad_move())?;
    let found = move_to(host, &[uid], &body.destination)?;
    done(&found)
}

/// Moves messages. Returns the `uid`s of the messages that exist.
pub(crate) fn move_to(
    host: &(impl Mailbox + Caller),
    uids: &[u64],
    destination: &str,
) -> Result<Vec<u64>, Failure> {
    if destination.is_empty() {
        return Err(bad_move());
    }
    host.move_messages(uids, destination)
        .map_err(|error| Failure::of(error, (codes::FOLDER_NOT_FOUND, "Folder not found"), host))
}

pub(crate) fn bad_move() -> Failure {
    Failure::bad_request(codes::INVALID_MOVE_DATA, "Invalid move data")
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
        ("folder" = Option<String>, Query, description = "Not needed: the `uid` identifies the message")
    ),
    responses(
        (status = 200, description = "Done", body = latchmail_sdk::Succeeded),
        (status = 400, description = "`Invalid message UID`", body = latchmail_sdk::Failed),
        (status = 404, description = "`Message not found`", body = latchmail_sdk::Failed)
    )
)]
pub(crate) fn delete_message(
    host: &(impl Mailbox + Caller),
    request: &Request,
) -> Result<Reply, Failure> {
    let uid = reading::uid(request.path_number("uid"))?;
    let found = delete(host, &[uid])?;
    done(&found)
}

/// Deletes messages permanently. Returns the `uid`s of the messages that existed.
pub(crate) fn delete(host: &(impl Mailbox + Caller), uids: &[u64]) -> Result<Vec<u64>, Failure> {
    host.delete_messages(uids)
        .map_err(|error| Failure::of(error, (codes::MESSAGE_NOT_FOUND, "Message not found"), host))
}

fn done(found: &[u64]) -> Result<Reply, Failure> {
    if found.is_empty() {
        return Err(Failure::not_found(
            codes::MESSAGE_NOT_FOUND,
            "Message not found",
        ));
    }
    Reply::success()
}

#[cfg(test)]
mod tests {
    use latchmail_sdk::capability::{MessageQuery, Page};
    use latchmail_sdk::testing::{FakeHost, Letter, json, request};

    use super::*;

    fn posted(uid: &str, body: &str) -> Request {
        request(&[("uid", uid)], &[], body)
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
