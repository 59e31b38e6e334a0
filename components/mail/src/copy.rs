//! POST `…/messages/{uid}/copy` and `…/messages/bulk/copy`: copy messages to a folder.

use latchmail_common::reading::{self, NO_FOLDER};
use latchmail_sdk::capability::{Caller, CopiedMessage, Mailbox};
use latchmail_sdk::{Failure, Reply, Request, codes};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;

use crate::bulk::{Counted, MessageNumber, counted, numbers};

/// The target folder of a copy.
#[derive(Deserialize, ToSchema)]
#[schema(example = json!({"destination": "Archive"}))]
pub(crate) struct CopyRequest {
    /// The path of the target folder.
    #[schema(min_length = 1)]
    destination: String,
}

/// The messages to copy, and their target folder.
#[derive(Deserialize, ToSchema)]
#[schema(example = json!({"uids": [41, 42], "destination": "Archive"}))]
pub(crate) struct BulkCopyRequest {
    /// The `uid`s of the messages, 1 to 200. Duplicates count once.
    #[serde(default)]
    #[schema(value_type = Vec<MessageNumber>, required, min_items = 1, max_items = 200)]
    uids: Value,
    /// The path of the target folder.
    #[serde(default)]
    #[schema(value_type = String, required, min_length = 1)]
    destination: Value,
}

/// The copy of a message.
#[derive(Serialize, ToSchema)]
#[schema(example = json!({"uid": 43}))]
pub(crate) struct MessageCopy {
    /// The number of the copy.
    uid: u64,
}

/// Copy a message
///
/// Copies the message with its flags to a folder. The copy is a separate message with a `uid` of
/// its own.
#[utoipa::path(
    post,
    path = "/api/v1/mail/messages/{uid}/copy",
    operation_id = "copyMessage",
    tag = "Mail",
    extensions(("x-latchmail" = json!(true))),
    params(("uid" = u64, Path, minimum = 1, exclusive_maximum = 18_446_744_073_709_551_616.0, description = "The message's number")),
    request_body = CopyRequest,
    responses(
        (
            status = 201,
            description = "The copy",
            body = MessageCopy,
            links(("getMessage" = (operation_id = "getMessage", parameters(("uid" = "$response.body#/uid")))))
        ),
        (status = 400, description = "`Invalid message UID`, `Invalid copy data`", body = latchmail_sdk::Failed),
        (status = 404, description = "`Message not found`, `Folder not found`", body = latchmail_sdk::Failed),
        (status = 507, description = "`The mailbox is full`", body = latchmail_sdk::Failed)
    )
)]
pub(crate) fn copy_message(
    host: &(impl Mailbox + Caller),
    request: &Request,
) -> Result<Reply, Failure> {
    let uid = reading::uid(request.path_number("uid"))?;
    let body: CopyRequest = request.json().map_err(|_| bad_copy())?;
    let copies = copy_to(host, &[uid], &body.destination)?;
    let copy = copies.first().ok_or(Failure::not_found(
        codes::MESSAGE_NOT_FOUND,
        "Message not found",
    ))?;
    Reply::with_status(201, &MessageCopy { uid: copy.copy })
}

/// Copy messages
///
/// Copies the messages as the route for one message does, with one request to the mail server per
/// folder. Messages that no longer exist are skipped.
#[utoipa::path(
    post,
    path = "/api/v1/mail/messages/bulk/copy",
    operation_id = "bulkCopyMessages",
    tag = "Mail",
    extensions(("x-latchmail" = json!(true))),
    request_body = BulkCopyRequest,
    responses(
        (status = 200, description = "Done", body = Counted),
        (status = 400, description = "`At least one uid is required`, `Too many messages (max 200 per request)`, `Invalid message UID`, `Invalid copy data`", body = latchmail_sdk::Failed),
        (status = 404, description = "`Folder not found`", body = latchmail_sdk::Failed),
        (status = 507, description = "`The mailbox is full`", body = latchmail_sdk::Failed)
    )
)]
pub(crate) fn bulk_copy(
    host: &(impl Mailbox + Caller),
    request: &Request,
) -> Result<Reply, Failure> {
    let body: BulkCopyRequest = request.json().map_err(|_| bad_copy())?;
    let uids = numbers(&body.uids)?;
    let destination = body.destination.as_str().ok_or_else(bad_copy)?;
    let copies = copy_to(host, &uids, destination)?;
    let originals: Vec<u64> = copies.iter().map(|one| one.uid).collect();
    counted(&originals)
}

fn copy_to(
    host: &(impl Mailbox + Caller),
    uids: &[u64],
    destination: &str,
) -> Result<Vec<CopiedMessage>, Failure> {
    if destination.is_empty() {
        return Err(bad_copy());
    }
    host.copy_messages(uids, destination)
        .map_err(|error| Failure::of(error, NO_FOLDER, host))
}

fn bad_copy() -> Failure {
    Failure::bad_request(codes::INVALID_COPY_DATA, "Invalid copy data")
}

#[cfg(test)]
mod tests {
    use latchmail_sdk::testing::{FakeHost, Letter, json, request};

    use super::*;

    #[test]
    fn a_copy_has_a_number_of_its_own() {
        let host = FakeHost::new();
        host.deliver(Letter::from("grace@example.org").subject("a").flag("b"));
        let to = |uid, body: &str| copy_message(&host, &request(&[("uid", uid)], &[], body));
        let reply = to("1", r#"{"destination": "Archive"}"#).unwrap();
        assert_eq!(reply.status, 201);
        assert_eq!(json(Ok(reply)), serde_json::json!({"uid": 2}));
        let copy = host.get_message(2).unwrap().summary;
        assert_eq!(
            (copy.subject.as_str(), copy.flags),
            ("a", vec!["b".to_owned()])
        );
        let nowhere = to("1", r#"{"destination": "x"}"#).unwrap_err();
        assert_eq!((nowhere.status, &*nowhere.text), (404, "Folder not found"));
        let missing = to("9", r#"{"destination": "Archive"}"#).unwrap_err();
        assert_eq!((missing.status, &*missing.text), (404, "Message not found"));
        for bad in ["", "{}", r#"{"destination": ""}"#, r#"{"destination": 1}"#] {
            assert_eq!(to("1", bad).unwrap_err(), bad_copy(), "{bad}");
        }
    }

    #[test]
    fn several_messages_are_copied_once_each() {
        let host = FakeHost::new();
        for _ in 0..2 {
            host.deliver(Letter::from("grace@example.org"));
        }
        let copy = |body: &str| bulk_copy(&host, &request(&[], &[], body));
        let body = r#"{"uids": [2, 1, 2, 9], "destination": "Archive"}"#;
        assert_eq!(
            json(copy(body)),
            serde_json::json!({"success": true, "count": 2})
        );
        assert!(host.get_message(4).is_ok() && host.get_message(5).is_err());
        assert_eq!(copy(r#"{"uids": [1]}"#).unwrap_err(), bad_copy());
        assert_eq!(copy("x").unwrap_err(), bad_copy());
        let none = copy(r#"{"uids": [], "destination": "Archive"}"#).unwrap_err();
        assert_eq!(&*none.text, "At least one uid is required");
    }
}
