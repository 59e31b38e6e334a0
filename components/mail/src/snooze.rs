//! POST, DELETE and GET `/api/v1/mail/messages/{uid}/snooze`: a message leaves its folder and comes
//! back at a time that the client chooses.

use latchmail_common::reading::{self, NO_MESSAGE};
use latchmail_sdk::capability::{Caller, Mailbox};
use latchmail_sdk::{Failure, Reply, Request, codes, time};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// The time at which a message comes back.
#[derive(Deserialize, ToSchema)]
#[schema(example = json!({"until": "2026-12-01T08:00:00Z"}))]
pub(crate) struct SnoozeRequest {
    /// A time in the future, at most a year ahead (RFC 3339).
    #[schema(format = DateTime)]
    until: String,
}

/// The time at which a message comes back.
#[derive(Serialize, ToSchema)]
#[schema(example = json!({"until": "2026-12-01T08:00:00.000Z"}))]
pub(crate) struct Snoozed {
    /// The time, or `null` if the message is not snoozed.
    #[schema(required, format = DateTime)]
    until: Option<String>,
}

/// Snooze a message
///
/// Moves the message to the folder `Snoozed`, which is created if needed. At the time `until`, the
/// message comes back to its previous folder as an unread message, within 15 seconds. The message
/// keeps its `uid`. If the message is snoozed already, only the time changes. If a mail client
/// moves the message out of `Snoozed`, the message stays where it is.
#[utoipa::path(
    post,
    path = "/api/v1/mail/messages/{uid}/snooze",
    operation_id = "snoozeMessage",
    tag = "Mail",
    extensions(("x-latchmail" = json!(true))),
    params(("uid" = u64, Path, minimum = 1, exclusive_maximum = 18_446_744_073_709_551_616.0, description = "The message's number")),
    request_body = SnoozeRequest,
    responses(
        (status = 200, description = "Done", body = latchmail_sdk::Succeeded),
        (status = 400, description = "`Invalid message UID`, `Invalid snooze data`, `until must be in the future and at most a year ahead`", body = latchmail_sdk::Failed),
        (status = 404, description = "`Message not found`", body = latchmail_sdk::Failed),
        (status = 413, description = "1,000 messages of the mailbox are snoozed", body = latchmail_sdk::Failed)
    )
)]
pub(crate) fn snooze_message(
    host: &(impl Mailbox + Caller),
    request: &Request,
) -> Result<Reply, Failure> {
    let uid = reading::uid(request.path_number("uid"))?;
    let bad = || Failure::bad_request(codes::INVALID_SNOOZE_DATA, "Invalid snooze data");
    let body: SnoozeRequest = request.json().map_err(|_| bad())?;
    let until = time::rfc3339(&body.until).ok_or_else(bad)?;
    host.snooze_message(uid, until)
        .map_err(|error| Failure::of(error, NO_MESSAGE, host))?;
    Reply::success()
}

/// End the snooze of a message
///
/// Moves the message back to its previous folder at once. Its flags do not change.
#[utoipa::path(
    delete,
    path = "/api/v1/mail/messages/{uid}/snooze",
    operation_id = "unsnoozeMessage",
    tag = "Mail",
    extensions(("x-latchmail" = json!(true))),
    params(("uid" = u64, Path, minimum = 1, exclusive_maximum = 18_446_744_073_709_551_616.0, description = "The message's number")),
    responses(
        (status = 200, description = "Done", body = latchmail_sdk::Succeeded),
        (status = 400, description = "`Invalid message UID`", body = latchmail_sdk::Failed),
        (status = 404, description = "`Message not found`", body = latchmail_sdk::Failed),
        (status = 409, description = "`The message is not snoozed`", body = latchmail_sdk::Failed)
    )
)]
pub(crate) fn unsnooze_message(
    host: &(impl Mailbox + Caller),
    request: &Request,
) -> Result<Reply, Failure> {
    let uid = reading::uid(request.path_number("uid"))?;
    host.unsnooze_message(uid)
        .map_err(|error| Failure::of(error, NO_MESSAGE, host))?;
    Reply::success()
}

/// Get the time of a snooze
///
/// Returns the time at which the message comes back, or `null` if the message is not snoozed.
#[utoipa::path(
    get,
    path = "/api/v1/mail/messages/{uid}/snooze",
    operation_id = "getSnooze",
    tag = "Mail",
    extensions(("x-latchmail" = json!(true))),
    params(("uid" = u64, Path, minimum = 1, exclusive_maximum = 18_446_744_073_709_551_616.0, description = "The message's number")),
    responses(
        (status = 200, description = "The time", body = Snoozed),
        (status = 400, description = "`Invalid message UID`", body = latchmail_sdk::Failed),
        (status = 404, description = "`Message not found`", body = latchmail_sdk::Failed)
    )
)]
pub(crate) fn get_snooze(
    host: &(impl Mailbox + Caller),
    request: &Request,
) -> Result<Reply, Failure> {
    let uid = reading::uid(request.path_number("uid"))?;
    let until = host
        .get_snooze(uid)
        .map_err(|error| Failure::of(error, NO_MESSAGE, host))?;
    Reply::json(&Snoozed {
        until: until.map(time::iso8601),
    })
}

#[cfg(test)]
mod tests {
    use latchmail_sdk::testing::{FakeHost, Letter, json, request};

    use super::*;

    fn snooze(host: &FakeHost, uid: &str, until: &str) -> Result<Reply, Failure> {
        let body = format!(r#"{{"until": "{until}"}}"#);
        snooze_message(host, &request(&[("uid", uid)], &[], &body))
    }

    fn until(host: &FakeHost, uid: &str) -> serde_json::Value {
        json(get_snooze(host, &request(&[("uid", uid)], &[], "")))["until"].clone()
    }

    #[test]
    fn a_message_waits_in_a_folder_and_can_come_back_at_once() {
        let host = FakeHost::new();
        host.deliver(Letter::from("grace@example.org"));
        assert_eq!(until(&host, "1"), serde_json::Value::Null);
        for days in [3, 1] {
            let at = time::iso8601(host.now() + days * 86_400_000);
            snooze(&host, "1", &at).unwrap();
            assert_eq!(until(&host, "1"), at);
            assert_eq!(host.get_message(1).unwrap().folder, "Snoozed");
        }
        let end = || unsnooze_message(&host, &request(&[("uid", "1")], &[], ""));
        end().unwrap();
        let message = host.get_message(1).unwrap();
        assert_eq!(message.folder, "INBOX");
        assert!(message.summary.flags.is_empty());
        assert_eq!(end().unwrap_err().status, 409);
    }

    #[test]
    fn an_invalid_time_and_an_unknown_message_are_refused() {
        let host = FakeHost::new();
        host.deliver(Letter::from("grace@example.org"));
        let past = time::iso8601(host.now());
        let far = time::iso8601(host.now() + 367 * 86_400_000);
        for (until, text) in [
            ("tomorrow", "Invalid snooze data"),
            ("2026-12-01", "Invalid snooze data"),
            (
                &past,
                "until must be in the future and at most a year ahead",
            ),
            (&far, "until must be in the future and at most a year ahead"),
        ] {
            let refused = snooze(&host, "1", until).unwrap_err();
            assert_eq!((refused.status, &*refused.text), (400, text), "{until}");
        }
        let soon = time::iso8601(host.now() + 1000);
        assert_eq!(snooze(&host, "2", &soon).unwrap_err().status, 404);
        assert_eq!(snooze(&host, "0", &soon).unwrap_err().status, 400);
        let folders = host.list_folders().unwrap();
        assert!(folders.iter().all(|folder| folder.path != "Snoozed"));
    }
}
