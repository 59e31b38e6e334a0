//! POST `…/messages/{uid}/trash` and `…/restore`, `…/messages/bulk/trash` and `…/bulk/restore`:
//! move messages to Trash and back.

use latchmail_common::changing::trash;
use latchmail_common::reading::{self, NO_MESSAGE};
use latchmail_sdk::capability::{Caller, Error, Mailbox};
use latchmail_sdk::{Failure, Reply, Request};
use serde::Deserialize;
use serde_json::Value;
use utoipa::ToSchema;

use crate::bulk::{Counted, MessageNumber, counted, numbers};
use crate::change::done;

/// The messages to move.
#[derive(Deserialize, ToSchema)]
#[schema(example = json!({"uids": [41, 42]}))]
pub(crate) struct UidsRequest {
    /// The `uid`s of the messages, 1 to 200. Duplicates count once.
    #[serde(default)]
    #[schema(value_type = Vec<MessageNumber>, required, min_items = 1, max_items = 200)]
    uids: Value,
}

/// Move a message to Trash
///
/// Moves the message to the folder with the role `\Trash`. The message keeps its `uid`. A message
/// that is in this folder already stays there.
#[utoipa::path(
    post,
    path = "/api/v1/mail/messages/{uid}/trash",
    operation_id = "trashMessage",
    tag = "Mail",
    extensions(("x-latchmail" = json!(true))),
    params(
        ("uid" = u64, Path, minimum = 1, exclusive_maximum = 18_446_744_073_709_551_616.0, description = "The message's number"),
        ("If-Match" = Option<String>, Header, description = "Change the message only if its `ETag` is one of these")
    ),
    responses(
        (status = 200, description = "Done", body = latchmail_sdk::Succeeded),
        (status = 400, description = "`Invalid message UID`", body = latchmail_sdk::Failed),
        (status = 404, description = "`Message not found`", body = latchmail_sdk::Failed),
        (status = 409, description = "`There is no Trash folder`", body = latchmail_sdk::Failed),
        (status = 412, description = "`The message has changed`: the header `If-Match` does not match, and nothing was changed", body = latchmail_sdk::Failed)
    )
)]
pub(crate) fn trash_message(
    host: &(impl Mailbox + Caller),
    request: &Request,
) -> Result<Reply, Failure> {
    let uid = reading::uid(request.path_number("uid"))?;
    done(&trash(host, Some(request), &[uid])?)
}

/// Restore a message from Trash
///
/// Moves the message from Trash to the folder that contained it before, also if a mail client moved
/// it to Trash or renamed that folder. If that folder is unknown or does not exist any longer, the
/// message is moved to INBOX.
#[utoipa::path(
    post,
    path = "/api/v1/mail/messages/{uid}/restore",
    operation_id = "restoreMessage",
    tag = "Mail",
    extensions(("x-latchmail" = json!(true))),
    params(("uid" = u64, Path, minimum = 1, exclusive_maximum = 18_446_744_073_709_551_616.0, description = "The message's number")),
    responses(
        (status = 200, description = "Done", body = latchmail_sdk::Succeeded),
        (status = 400, description = "`Invalid message UID`", body = latchmail_sdk::Failed),
        (status = 404, description = "`Message not found`", body = latchmail_sdk::Failed),
        (status = 409, description = "`The message is not in Trash`, `There is no Trash folder`", body = latchmail_sdk::Failed)
    )
)]
pub(crate) fn restore_message(
    host: &(impl Mailbox + Caller),
    request: &Request,
) -> Result<Reply, Failure> {
    let uid = reading::uid(request.path_number("uid"))?;
    done(&restore(host, &[uid]).map_err(|error| Failure::of(error, NO_MESSAGE, host))?)
}

fn restore(host: &(impl Mailbox + Caller), uids: &[u64]) -> Result<Vec<u64>, Error> {
    host.restore_messages(uids)
}

/// Move messages to Trash
///
/// Moves the messages to Trash as the route for one message does. Messages that no longer exist are
/// skipped.
#[utoipa::path(
    post,
    path = "/api/v1/mail/messages/bulk/trash",
    operation_id = "bulkTrashMessages",
    tag = "Mail",
    extensions(("x-latchmail" = json!(true))),
    request_body = UidsRequest,
    responses(
        (status = 200, description = "Done", body = Counted),
        (status = 400, description = "`At least one uid is required`, `Too many messages (max 200 per request)`, `Invalid message UID`, `Invalid JSON body`", body = latchmail_sdk::Failed),
        (status = 409, description = "`There is no Trash folder`", body = latchmail_sdk::Failed)
    )
)]
pub(crate) fn bulk_trash(
    host: &(impl Mailbox + Caller),
    request: &Request,
) -> Result<Reply, Failure> {
    let body: UidsRequest = request.json()?;
    let uids = numbers(&body.uids)?;
    trash(host, None, &uids)?;
    counted(&uids)
}

/// Restore messages from Trash
///
/// Restores the messages as the route for one message does. Messages that no longer exist, and
/// messages that are not in Trash, are skipped.
#[utoipa::path(
    post,
    path = "/api/v1/mail/messages/bulk/restore",
    operation_id = "bulkRestoreMessages",
    tag = "Mail",
    extensions(("x-latchmail" = json!(true))),
    request_body = UidsRequest,
    responses(
        (status = 200, description = "Done", body = Counted),
        (status = 400, description = "`At least one uid is required`, `Too many messages (max 200 per request)`, `Invalid message UID`, `Invalid JSON body`", body = latchmail_sdk::Failed),
        (status = 409, description = "`The message is not in Trash` if none of the messages is in Trash, `There is no Trash folder`", body = latchmail_sdk::Failed)
    )
)]
pub(crate) fn bulk_restore(
    host: &(impl Mailbox + Caller),
    request: &Request,
) -> Result<Reply, Failure> {
    let body: UidsRequest = request.json()?;
    let uids = numbers(&body.uids)?;
    let restored = restore(host, &uids);
    counted(&restored.map_err(|error| Failure::of(error, NO_MESSAGE, host))?)
}

#[cfg(test)]
mod tests {
    use latchmail_sdk::capability::{MessageQuery, Page};
    use latchmail_sdk::codes;
    use latchmail_sdk::testing::{FakeHost, Letter, json, request};

    use super::*;

    fn on(uid: &str) -> Request {
        request(&[("uid", uid)], &[], "")
    }

    fn total(host: &FakeHost, folder: &str) -> u32 {
        let page = Page {
            offset: 0,
            limit: 1,
        };
        let query = MessageQuery::page(folder, page);
        host.list_messages(&query).unwrap().total
    }

    #[test]
    fn a_message_is_moved_to_trash_and_back_to_its_folder() {
        let host = FakeHost::new();
        host.file("Work", Letter::from("grace@example.org"));
        let success = serde_json::json!({"success": true});
        assert_eq!(json(trash_message(&host, &on("1"))), success);
        assert_eq!((total(&host, "Work"), total(&host, "Trash")), (0, 1));
        assert_eq!(json(trash_message(&host, &on("1"))), success);
        assert_eq!(json(restore_message(&host, &on("1"))), success);
        assert_eq!((total(&host, "Work"), total(&host, "Trash")), (1, 0));
        let refused = restore_message(&host, &on("1")).unwrap_err();
        let text = "The message is not in Trash";
        assert_eq!(
            refused,
            Failure::conflict(codes::MESSAGE_NOT_IN_TRASH, text)
        );
        for missing in [
            trash_message(&host, &on("9")),
            restore_message(&host, &on("9")),
        ] {
            assert_eq!(missing.unwrap_err().status, 404);
        }
        for invalid in [
            trash_message(&host, &on("x")),
            restore_message(&host, &on("0")),
        ] {
            assert_eq!(invalid.unwrap_err().status, 400);
        }
    }

    #[test]
    fn several_messages_are_moved_and_counted_once() {
        let host = FakeHost::new();
        for folder in ["Work", "Trash", "INBOX"] {
            host.file(folder, Letter::from("grace@example.org"));
        }
        let posted = |uids: &str| request(&[], &[], &format!("{{\"uids\": {uids}}}"));
        let count = |count| serde_json::json!({"success": true, "count": count});
        assert_eq!(json(bulk_trash(&host, &posted("[1, 1, 99]"))), count(2));
        assert_eq!(total(&host, "Trash"), 2);
        // The previous folder of message 2 is unknown. Message 3 is not in Trash.
        assert_eq!(json(bulk_restore(&host, &posted("[1, 2, 3]"))), count(2));
        assert_eq!((total(&host, "Work"), total(&host, "INBOX")), (1, 2));
        assert_eq!(
            bulk_restore(&host, &posted("[1, 2]")).unwrap_err().status,
            409
        );
        for bad in ["[]", "[0]", "1"] {
            assert_eq!(bulk_trash(&host, &posted(bad)).unwrap_err().status, 400);
            assert_eq!(bulk_restore(&host, &posted(bad)).unwrap_err().status, 400);
        }
    }
}
