//! GET `/api/v1/mail/folders/{folder}/messages`: returns a page of a folder, newest first.

use latchmail_common::reading::{self, MessageList};
use latchmail_sdk::capability::{Caller, Mailbox};
use latchmail_sdk::{Failure, Reply, Request};

/// List messages
///
/// Returns a page of a folder, newest first. The path of a nested folder must be URL-encoded: `Work%2FReports`. A `page` or `limit` out of range is an error; a
/// page after the last one is empty.
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
    use latchmail_sdk::capability::{Error, Listing};

    use super::*;
    use crate::testing::{FakeHost, asked, json, summary};

    #[test]
    fn a_page_is_asked_for_by_number_and_answered_with_the_folders_total() {
        let host = FakeHost {
            listing: Ok(Listing {
                messages: vec![summary(7)],
                total: 41,
            }),
            ..FakeHost::default()
        };
        let request = asked(
            &[("folder", "Work/Reports")],
            &[("page", "3"), ("limit", "20")],
        );
        let answer = json(list_messages(&host, &request));
        assert_eq!(answer["total"], 41);
        assert_eq!(answer["messages"][0]["uid"], 7);
        assert_eq!(answer["messages"][0]["date"], "2026-11-20T08:00:00.000Z");
        assert_eq!(*host.asked.borrow(), ["Work/Reports 40+20"]);
    }

    #[test]
    fn a_bad_page_is_refused_before_the_mailbox_is_asked() {
        let host = FakeHost::default();
        let request = asked(&[("folder", "INBOX")], &[("limit", "101")]);
        let refused = list_messages(&host, &request).unwrap_err();
        assert_eq!(refused, Failure::bad_request("Invalid paging parameters"));
        assert!(host.asked.borrow().is_empty());
    }

    #[test]
    fn a_folder_that_does_not_exist_is_404_and_an_absent_mail_server_503() {
        let answered = |error| {
            let host = FakeHost {
                listing: Err(error),
                ..FakeHost::default()
            };
            list_messages(&host, &asked(&[("folder", "x")], &[])).unwrap_err()
        };
        assert_eq!(
            answered(Error::NotFound),
            Failure::not_found("Folder not found")
        );
        let away = answered(Error::Unavailable);
        assert_eq!((away.status, away.retry_after), (503, Some(2)));
    }
}
