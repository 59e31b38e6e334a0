//! GET `/api/v1/mail/changes`: returns the changes of the mailbox since a cursor.

use latchmail_common::changes::{self, BAD_CHANGES, ChangeList};
use latchmail_common::reading::ALL_FOLDERS;
use latchmail_sdk::capability::{Caller, Mailbox};
use latchmail_sdk::{Failure, Reply, Request};

/// The default number of changes in a response.
const DEFAULT_LIMIT: u32 = 100;
/// The maximum time of a wait, in seconds.
const MAX_WAIT: u32 = 60;

/// List changes
///
/// Returns the changes of messages and folders since the cursor `since`, in the order in which a
/// client must apply them. Without `since`, returns the current cursor and no changes. Repeat the
/// request with the new cursor while `more` is `true`. Several changes to one message are
/// collapsed. If the cursor has expired, list all folders again. With `wait`, a request without
/// changes waits for the first change.
#[utoipa::path(
    get,
    path = "/api/v1/mail/changes",
    operation_id = "listChanges",
    tag = "Mail",
    extensions(("x-latchmail" = json!(true))),
    params(
        ("since" = Option<String>, Query, description = "The `cursor` of an earlier response"),
        ("folder" = Option<String>, Query, description = "The path of the only folder whose changes are returned; the default is all folders. A cursor is valid only with the folder with which it was obtained"),
        ("limit" = Option<u32>, Query, minimum = 1, maximum = 500, description = "The maximum number of changes; the default is 100"),
        ("wait" = Option<u32>, Query, maximum = 60, description = "The number of seconds for which the request waits if there are no changes since `since`; the default is 0. The response is sent when a change arrives")
    ),
    responses(
        (
            status = 200,
            description = "The changes and the next cursor",
            body = ChangeList,
            links(("listChanges" = (operation_id = "listChanges", parameters(("since" = "$response.body#/cursor")))))
        ),
        (status = 400, description = "`Invalid changes parameters`", body = latchmail_sdk::Failed),
        (status = 404, description = "`Folder not found`", body = latchmail_sdk::Failed),
        (status = 410, description = "`Cursor expired`", body = latchmail_sdk::Failed),
        (status = 429, description = "`Too many open streams, please close some or try again later`", body = latchmail_sdk::Failed)
    )
)]
pub(crate) fn list_changes(
    host: &(impl Mailbox + Caller),
    request: &Request,
) -> Result<Reply, Failure> {
    let limit = request.query_number("limit", DEFAULT_LIMIT, BAD_CHANGES)?;
    let folder = request
        .query("folder")
        .filter(|folder| !folder.is_empty() && *folder != ALL_FOLDERS);
    let wait = request.query_number("wait", 0, BAD_CHANGES)?;
    if wait > MAX_WAIT {
        return Err(Failure::bad_request(BAD_CHANGES.0, BAD_CHANGES.1));
    }
    match request.query("since") {
        Some(since) if wait > 0 => changes::wait(host, since, folder, limit, wait),
        since => Reply::json(&changes::list(host, since, folder, limit)?),
    }
}

#[cfg(test)]
mod tests {
    use latchmail_sdk::capability::{Error, FlagAction};
    use latchmail_sdk::codes;
    use latchmail_sdk::testing::{FakeHost, Letter, json, request};
    use serde_json::{Value, json};

    use super::*;

    fn changes(host: &FakeHost, query: &[(&str, &str)]) -> Value {
        json(list_changes(host, &request(&[], query, "")))
    }

    #[test]
    fn changes_are_returned_in_their_order_since_the_cursor() {
        let host = FakeHost::new();
        host.deliver(Letter::from("grace@example.org"));
        let start = changes(&host, &[]);
        assert_eq!(
            (&start["changes"], &start["more"]),
            (&json!([]), &json!(false))
        );
        let uid = host.file("Work", Letter::from("grace@example.org").flag("\\Seen"));
        host.set_flags(&[uid], &["\\Seen".into()], FlagAction::Remove, None)
            .unwrap();
        host.move_messages(&[uid], "Archive", None).unwrap();
        host.delete_messages(&[uid], None).unwrap();
        let cursor = start["cursor"].as_str().unwrap();
        let since = changes(&host, &[("since", cursor)]);
        let expected = json!([
            { "type": "folderCreated", "folder": "Work", "id": "id of Work" },
            { "type": "created", "uid": uid, "folder": "Work", "flags": ["\\Seen"] },
            { "type": "flags", "uid": uid, "folder": "Work", "flags": [] },
            { "type": "moved", "uid": uid, "folder": "Archive", "from": "Work", "flags": [] },
            { "type": "deleted", "uid": uid, "folder": "Archive" },
        ]);
        assert_eq!(since["changes"], expected);
        let first = changes(&host, &[("since", cursor), ("limit", "2")]);
        assert_eq!(first["more"], true);
        let cursor = first["cursor"].as_str().unwrap();
        let rest = changes(&host, &[("since", cursor), ("folder", "*")]);
        assert_eq!(rest["changes"].as_array().unwrap().len(), 3);
        assert_eq!(rest["more"], false);
    }

    #[test]
    fn a_request_waits_only_if_there_are_no_changes() {
        let host = FakeHost::new();
        let start = changes(&host, &[("wait", "30")]);
        let since = ("since", start["cursor"].as_str().unwrap());
        let waited = changes(&host, &[since, ("wait", "30")]);
        assert_eq!(waited, start);
        host.deliver(Letter::from("grace@example.org"));
        let changed = changes(&host, &[since, ("wait", "30")]);
        assert_eq!(changed["changes"].as_array().unwrap().len(), 1);
        for wait in ["61", "-1", "x"] {
            let refused = list_changes(&host, &request(&[], &[since, ("wait", wait)], ""));
            assert_eq!(refused.unwrap_err().status, 400, "{wait}");
        }
    }

    #[test]
    fn a_cursor_is_valid_only_with_its_folder() {
        let host = FakeHost::new();
        let cursor = changes(&host, &[("folder", "Archive")])["cursor"].clone();
        let uid = host.deliver(Letter::from("grace@example.org"));
        host.move_messages(&[uid], "Archive", None).unwrap();
        let since = ("since", cursor.as_str().unwrap());
        let response = changes(&host, &[since, ("folder", "Archive")]);
        let created = json!([{ "type": "created", "uid": uid, "folder": "Archive", "flags": [] }]);
        assert_eq!(response["changes"], created);
        for query in [
            &[since][..],
            &[since, ("folder", "INBOX")],
            &[("since", "")],
        ] {
            let refused = list_changes(&host, &request(&[], query, "")).unwrap_err();
            assert_eq!(
                refused,
                Failure::new(410, codes::CURSOR_EXPIRED, "Cursor expired")
            );
        }
    }

    #[test]
    fn invalid_parameters_are_refused() {
        let host = FakeHost::new();
        let refused = |query| {
            let failure = list_changes(&host, &request(&[], &[query], "")).unwrap_err();
            (failure.status, failure.text.into_owned())
        };
        for limit in ["0", "501", "-1", "", "x"] {
            let text = "Invalid changes parameters";
            assert_eq!(refused(("limit", limit)), (400, text.into()), "{limit}");
        }
        let missing = refused(("folder", "Nowhere"));
        assert_eq!(missing, (404, "Folder not found".into()));
        host.fail(Error::Unavailable);
        assert_eq!(refused(("limit", "1")).0, 503);
    }
}
