//! GET `/api/v1/mail/threads`: returns a page of threads. GET `/api/v1/mail/threads/{id}`: returns
//! a page of the messages of a thread.

use latchmail_common::reading;
use latchmail_common::threads::{self, ThreadList, ThreadMessages};
use latchmail_sdk::capability::{Caller, Mailbox};
use latchmail_sdk::{Failure, Reply, Request};

/// List threads
///
/// Returns a page of the threads that have a message in a folder. The thread with the newest
/// message is first. The counts of a thread include its messages in all folders.
#[utoipa::path(
    get,
    path = "/api/v1/mail/threads",
    operation_id = "listThreads",
    tag = "Mail",
    extensions(("x-latchmail" = json!(true))),
    params(
        ("folder" = Option<String>, Query, description = "The folder's path; the default is `INBOX`. `*` returns the threads of all folders"),
        ("page" = Option<u32>, Query, minimum = 1, description = "The number of the page, from 1; the default is 1"),
        ("limit" = Option<u32>, Query, minimum = 1, maximum = 100, description = "The number of threads per page; the default is 50")
    ),
    responses(
        (
            status = 200,
            description = "The page",
            body = ThreadList,
            links(
                ("getThread" = (operation_id = "getThread", parameters(("id" = "$response.body#/threads/0/id")))),
                ("getMessage" = (operation_id = "getMessage", parameters(("uid" = "$response.body#/threads/0/newest/uid"))))
            )
        ),
        (status = 400, description = "`Invalid paging parameters`", body = latchmail_sdk::Failed),
        (status = 404, description = "`Folder not found`", body = latchmail_sdk::Failed)
    )
)]
pub(crate) fn list_threads(
    host: &(impl Mailbox + Caller),
    request: &Request,
) -> Result<Reply, Failure> {
    let paging = request.paging(50, reading::BAD_PAGING)?;
    let folder = reading::folder(request.query("folder"));
    Reply::json(&threads::list(host, folder, paging)?)
}

/// Read a thread
///
/// Returns a page of the messages of a thread from all folders. Pages count from the newest
/// message: page 1 has the newest messages, and the last page has the oldest. The messages on a
/// page are oldest first. Without `page` and `limit`, the response has the newest 100 messages.
#[utoipa::path(
    get,
    path = "/api/v1/mail/threads/{id}",
    operation_id = "getThread",
    tag = "Mail",
    extensions(("x-latchmail" = json!(true))),
    params(
        ("id" = String, Path, description = "The thread's id: the `threadId` of its messages"),
        ("page" = Option<u32>, Query, minimum = 1, description = "The number of the page, from 1; \
        the default is 1. Page 1 has the newest messages"),
        ("limit" = Option<u32>, Query, minimum = 1, maximum = 100, description = "The number of \
        messages per page; the default is 50")
    ),
    responses(
        (
            status = 200,
            description = "The messages on the page",
            body = ThreadMessages,
            links(("getMessage" = (operation_id = "getMessage", parameters(("uid" = "$response.body#/messages/0/uid")))))
        ),
        (status = 400, description = "`Invalid paging parameters`", body = latchmail_sdk::Failed),
        (status = 404, description = "`Thread not found`", body = latchmail_sdk::Failed)
    )
)]
pub(crate) fn get_thread(
    host: &(impl Mailbox + Caller),
    request: &Request,
) -> Result<Reply, Failure> {
    let is_paged = request.query("page").is_some() || request.query("limit").is_some();
    let paging = is_paged.then(|| request.paging(50, reading::BAD_PAGING));
    Reply::json(&threads::get(
        host,
        request.path("id"),
        paging.transpose()?,
    )?)
}

#[cfg(test)]
mod tests {
    use latchmail_sdk::capability::IndexState;
    use latchmail_sdk::codes;
    use latchmail_sdk::testing::{FakeHost, Letter, json, request};
    use serde_json::{Value, json};

    use super::*;

    /// Returns a host with a thread of two messages in two folders, and an older message.
    fn host() -> FakeHost {
        let host = FakeHost::new();
        let letter = |sender: &str| Letter::from(sender).subject("Plan");
        host.deliver(letter("Bo <bo@example.org>").date(1));
        let first = letter("Grace <grace@example.org>").message_id("<1@x>");
        host.deliver(first.flag("\\Seen").date(2));
        let reply = Letter::from("Ada <ada@example.test>").subject("Re: Plan");
        host.file("Archive", reply.in_reply_to("<1@x>").date(3));
        host
    }

    fn list(host: &FakeHost, query: &[(&str, &str)]) -> Value {
        json(list_threads(host, &request(&[], query, "")))
    }

    #[test]
    fn a_thread_has_the_counts_of_all_its_messages() {
        let host = host();
        let response = list(&host, &[]);
        let place = (&response["total"], &response["page"], &response["limit"]);
        assert_eq!(place, (&2.into(), &1.into(), &50.into()));
        let thread = &response["threads"][0];
        let participants = json!([
            { "name": "Grace", "address": "grace@example.org" },
            { "name": "Ada", "address": "ada@example.test" },
        ]);
        assert_eq!(thread["participants"], participants);
        assert_eq!(
            (&thread["subject"], &thread["count"], &thread["unread"]),
            (&"Plan".into(), &2.into(), &1.into())
        );
        let newest = &thread["newest"];
        assert_eq!(
            (&newest["subject"], &newest["folder"], &newest["threadId"]),
            (&"Re: Plan".into(), &"Archive".into(), &thread["id"])
        );
        assert_eq!(list(&host, &[("folder", "Archive")])["total"], 1);
        assert_eq!(
            list(&host, &[("folder", "*"), ("page", "2"), ("limit", "1")])["total"],
            2
        );
    }

    #[test]
    fn the_messages_of_a_thread_are_returned_oldest_first() {
        let host = host();
        let id = list(&host, &[])["threads"][0]["id"].clone();
        let get = |id: &str| get_thread(&host, &request(&[("id", id)], &[], ""));
        let response = json(get(id.as_str().unwrap()));
        assert_eq!(response["id"], id);
        let messages = response["messages"].as_array().unwrap().iter();
        let uids: Vec<_> = messages.map(|message| &message["uid"]).collect();
        assert_eq!(uids, [2, 3]);
        let fields: Vec<_> = response.as_object().unwrap().keys().collect();
        assert_eq!(fields, ["id", "messages", "total"]);
        let missing = get("none").unwrap_err();
        assert_eq!(
            missing,
            Failure::not_found(codes::THREAD_NOT_FOUND, "Thread not found")
        );
    }

    #[test]
    fn pages_of_a_thread_count_from_the_newest_message() {
        let host = FakeHost::new();
        for number in 1..=130 {
            let letter = Letter::from("Bo <bo@example.org>").subject("Plan");
            let letter = letter.date(number).message_id(&format!("<{number}@x>"));
            host.deliver(match number {
                1 => letter,
                _ => letter.in_reply_to(&format!("<{}@x>", number - 1)),
            });
        }
        let id = list(&host, &[])["threads"][0]["id"].clone();
        let id = id.as_str().unwrap();
        let get = |query: &[(&str, &str)]| get_thread(&host, &request(&[("id", id)], query, ""));
        let uids = |query: &[(&str, &str)]| -> Vec<u64> {
            let response = json(get(query));
            assert_eq!(
                (&response["id"], &response["total"]),
                (&id.into(), &130.into())
            );
            let messages = response["messages"].as_array().unwrap().iter();
            messages
                .map(|message| message["uid"].as_u64().unwrap())
                .collect()
        };
        let range = |range: std::ops::RangeInclusive<u64>| range.collect::<Vec<_>>();
        assert_eq!(uids(&[]), range(31..=130));
        assert_eq!(uids(&[("page", "1")]), range(81..=130));
        assert_eq!(uids(&[("page", "3")]), range(1..=30));
        assert_eq!(uids(&[("limit", "100")]), range(31..=130));
        assert_eq!(uids(&[("page", "2"), ("limit", "100")]), range(1..=30));
        assert_eq!(uids(&[("page", "4")]), [0; 0]);
        assert_eq!(uids(&[("page", "99999999999")]), [0; 0]);
        let response = json(get(&[("limit", "7")]));
        assert_eq!(
            (&response["page"], &response["limit"]),
            (&1.into(), &7.into())
        );
        for invalid in [
            ("page", "0"),
            ("page", ""),
            ("limit", "0"),
            ("limit", "101"),
            ("limit", "x"),
        ] {
            let failure = Failure::bad_request(
                codes::INVALID_PAGING_PARAMETERS,
                "Invalid paging parameters",
            );
            assert_eq!(get(&[invalid]).unwrap_err(), failure);
        }
    }

    #[test]
    fn threads_are_refused_without_an_index() {
        let host = host();
        for state in [IndexState::Building, IndexState::Off] {
            host.set_index(state);
            for refused in [
                list_threads(&host, &Request::default()),
                get_thread(&host, &request(&[("id", "x")], &[], "")),
            ] {
                let refused = refused.unwrap_err();
                assert_eq!((refused.status, refused.retry_after), (503, Some(10)));
            }
        }
    }

    #[test]
    fn invalid_parameters_are_refused() {
        let host = host();
        let refused = |query| list_threads(&host, &request(&[], &[query], "")).unwrap_err();
        for invalid in [("page", "0"), ("limit", "101"), ("limit", "x")] {
            let failure = Failure::bad_request(
                codes::INVALID_PAGING_PARAMETERS,
                "Invalid paging parameters",
            );
            assert_eq!(refused(invalid), failure);
        }
        let missing = refused(("folder", "Nowhere"));
        assert_eq!(
            missing,
            Failure::not_found(codes::FOLDER_NOT_FOUND, "Folder not found")
        );
    }
}
