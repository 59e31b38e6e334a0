//! GET `/api/v1/mail/folders/{folder}/messages`: returns a page of the messages in a folder, newest
//! first.

use latchmail_common::reading::{self, MessageList};
use latchmail_sdk::capability::{Caller, Mailbox};
use latchmail_sdk::{Failure, Reply, Request};

/// List messages
///
/// Returns a page of the messages in a folder, newest first. The path of a nested folder must be
/// URL-encoded: `Work%2FReports`. A `page` or `limit` that is out of range is an error. A page
/// after the last page is empty.
#[utoipa::path(
    get,
    path = "/api/v1/mail/folders/{folder}/messages",
    operation_id = "listMessages",
    tag = "Mail",
    params(
        ("folder" = String, Path, description = "The folder's path, URL-encoded"),
        ("page" = Option<u32>, Query, minimum = 1, description = "The number of the page, from 1; the default is 1"),
        ("limit" = Option<u32>, Query, minimum = 1, maximum = 100, description = "The number of messages per page; the default is 50")
    ),
    responses(
        (
            status = 200,
            description = "The page",
            body = MessageList,
            links(
                ("getMessage" = (operation_id = "getMessage", parameters(("uid" = "$response.body#/messages/0/uid")))),
                ("getThread" = (operation_id = "getThread", parameters(("id" = "$response.body#/messages/0/threadId")))),
                ("flagMessage" = (operation_id = "flagMessage", parameters(("uid" = "$response.body#/messages/0/uid")))),
                ("moveMessage" = (operation_id = "moveMessage", parameters(("uid" = "$response.body#/messages/0/uid")))),
                ("deleteMessage" = (operation_id = "deleteMessage", parameters(("uid" = "$response.body#/messages/0/uid"))))
            )
        ),
        (status = 400, description = "`Invalid paging parameters`", body = latchmail_sdk::Failed),
        (status = 404, description = "`Folder not found`", body = latchmail_sdk::Failed)
    )
)]
pub(crate) fn list_messages(
    host: &(impl Mailbox + Caller),
    request: &Request,
) -> Result<Reply, Failure> {
    let paging = request.paging(50, reading::BAD_PAGING)?;
    Reply::json(&reading::messages(host, request.path("folder"), paging)?)
}

#[cfg(test)]
mod tests {
    use latchmail_sdk::capability::Error;
    use latchmail_sdk::codes;
    use latchmail_sdk::testing::{FakeHost, Letter, json, request};

    use super::*;

    #[test]
    fn a_page_is_returned_with_the_number_of_messages_in_the_folder() {
        let host = FakeHost::new();
        for _ in 0..41 {
            host.file("Work/Reports", Letter::from("grace@example.org"));
        }
        let request = request(
            &[("folder", "Work/Reports")],
            &[("page", "3"), ("limit", "20")],
            "",
        );
        let response = json(list_messages(&host, &request));
        assert_eq!(response["total"], 41);
        assert_eq!(response["messages"].as_array().unwrap().len(), 1);
        assert_eq!(response["messages"][0]["uid"], 1);
        assert_eq!(response["messages"][0]["date"], "2026-11-20T08:00:00.000Z");
    }

    #[test]
    fn an_invalid_page_is_refused_before_the_mailbox_is_read() {
        let host = FakeHost::new();
        let request = request(&[("folder", "INBOX")], &[("limit", "101")], "");
        let refused = list_messages(&host, &request).unwrap_err();
        assert_eq!(
            refused,
            Failure::bad_request(
                codes::INVALID_PAGING_PARAMETERS,
                "Invalid paging parameters"
            )
        );
        assert_eq!(host.calls(), 0);
    }

    #[test]
    fn a_missing_folder_is_404_and_an_unavailable_mail_server_is_503() {
        let host = FakeHost::new();
        let refused = || list_messages(&host, &request(&[("folder", "x")], &[], "")).unwrap_err();
        assert_eq!(
            refused(),
            Failure::not_found(codes::FOLDER_NOT_FOUND, "Folder not found")
        );
        host.fail(Error::Unavailable);
        let away = refused();
        assert_eq!((away.status, away.retry_after), (503, Some(2)));
    }
}
