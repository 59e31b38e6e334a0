//! GET `/api/v1/mail/messages`: returns several messages by their numbers.

use std::collections::HashSet;

use latchmail_common::{FoundMessage, Message, reading};
use latchmail_sdk::capability::{Caller, DetailWithBlobs, Mailbox};
use latchmail_sdk::{Failure, Reply, Request, codes};
use serde::Serialize;
use utoipa::ToSchema;

/// The maximum number of messages as summaries.
const MAX_SUMMARIES: usize = 100;
/// The maximum number of messages in full.
const MAX_DETAILS: usize = 20;

/// The maximum total size of the texts of messages in full, in bytes. The host limits the size of a
/// response.
const MAX_TEXTS: u64 = 6 * 1024 * 1024;

/// The messages with the requested `uid`s.
#[derive(ToSchema)]
#[expect(dead_code, reason = "used only for the API description")]
struct MessageBatch {
    /// The messages, in the order of `uids`.
    messages: Vec<BatchMessage>,
    /// The `uid`s of messages that do not exist or that the caller cannot read.
    missing: Vec<u64>,
}

/// A message of the requested view.
#[derive(Serialize, ToSchema)]
#[serde(untagged)]
#[expect(dead_code, reason = "used only for the API description")]
enum BatchMessage {
    /// The view `detail`.
    Detail(Box<Message>),
    /// The view `summary`.
    Summary(Box<FoundMessage>),
}

/// The part of each message that is returned.
#[derive(Clone, Copy, ToSchema)]
#[schema(rename_all = "lowercase")]
enum View {
    /// The fields of a message in a list.
    Summary,
    /// The fields of a single message.
    Detail,
}

#[derive(Serialize)]
struct Missing {
    missing: Vec<u64>,
}

/// Read several messages
///
/// Returns the messages with these `uid`s from any folders, each with its `folder`. `missing` lists
/// the `uid`s without a message. The service reads the messages with few requests to the mail
/// server, so this route is faster than one request for each message.
#[utoipa::path(
    get,
    path = "/api/v1/mail/messages",
    operation_id = "getMessages",
    tag = "Mail",
    extensions(("x-latchmail" = json!(true))),
    params(
        ("uids" = String, Query, pattern = "^0*[1-9][0-9]{0,18}(?:,0*[1-9][0-9]{0,18})*$", description = "The `uid`s, separated by commas: at most 100, and at most 20 for the view `detail`. Duplicates count once.", example = "1,2,3"),
        ("view" = inline(Option<View>), Query, description = "The default is `summary`")
    ),
    responses(
        (status = 200, description = "The messages", body = inline(MessageBatch)),
        (status = 400, description = "`At least one uid is required`, `Invalid message UID`, `Too many messages (max 100 per request)`, `Too many messages (max 20 per request)`, `Invalid view`", body = latchmail_sdk::Failed),
        (status = 413, description = "`The messages are too large; request fewer messages at once`", body = latchmail_sdk::Failed)
    )
)]
pub(crate) fn get_messages(
    host: &(impl Mailbox + Caller),
    request: &Request,
) -> Result<Reply, Failure> {
    let view = match request.query("view") {
        None | Some("summary") => View::Summary,
        Some("detail") => View::Detail,
        Some(_) => return Err(Failure::bad_request(codes::INVALID_VIEW, "Invalid view")),
    };
    let uids = uids(request.query("uids").unwrap_or_default())?;
    let failed = |error| Failure::of(error, reading::NO_MESSAGE, host);
    match view {
        View::Summary => {
            check_count(&uids, MAX_SUMMARIES)?;
            let found = host.get_summaries(&uids).map_err(failed)?;
            let missing = missing(&uids, found.iter().map(|hit| hit.summary.uid));
            let found = found.into_iter().map(FoundMessage::from);
            Reply::json_list_with_texts(&missing, "messages", found.map(|message| (message, [])))
        }
        View::Detail => {
            check_count(&uids, MAX_DETAILS)?;
            let found = host.get_messages_with_blobs(&uids).map_err(failed)?;
            if found.iter().map(texts_size).sum::<u64>() > MAX_TEXTS {
                let text = "The messages are too large; request fewer messages at once";
                return Err(Failure::new(413, codes::MESSAGE_TOO_LARGE, text));
            }
            let missing = missing(&uids, found.iter().map(|one| one.detail.summary.uid));
            let found = found.into_iter().map(|message| {
                let folder = message.detail.folder.clone();
                let (mut message, texts) = Message::with_texts(message);
                message.folder = Some(folder);
                (message, texts)
            });
            Reply::json_list_with_texts(&missing, "messages", found)
        }
    }
}

fn texts_size(message: &DetailWithBlobs) -> u64 {
    let texts = [&message.text, &message.html, &message.new_text];
    texts
        .into_iter()
        .flatten()
        .map(latchmail_sdk::capability::Blob::size)
        .sum()
}

/// Returns the `uid`s in a request. Duplicates are removed, and the order stays the same.
fn uids(text: &str) -> Result<Vec<u64>, Failure> {
    if text.is_empty() {
        return Err(Failure::bad_request(
            codes::UIDS_REQUIRED,
            "At least one uid is required",
        ));
    }
    let mut seen = HashSet::new();
    let mut uids = Vec::new();
    for uid in text.split(',') {
        let digits = !uid.is_empty() && uid.bytes().all(|b| b.is_ascii_digit());
        let uid = reading::uid(uid.parse().ok().filter(|_| digits))?;
        if seen.insert(uid) {
            uids.push(uid);
        }
    }
    Ok(uids)
}

fn check_count(uids: &[u64], max: usize) -> Result<(), Failure> {
    if uids.len() > max {
        return Err(Failure::bad_request(
            codes::TOO_MANY_MESSAGES,
            format!("Too many messages (max {max} per request)"),
        ));
    }
    Ok(())
}

fn missing(uids: &[u64], found: impl Iterator<Item = u64>) -> Missing {
    let found: HashSet<u64> = found.collect();
    let missing = uids.iter().filter(|uid| !found.contains(uid));
    Missing {
        missing: missing.copied().collect(),
    }
}

#[cfg(test)]
mod tests {
    use latchmail_sdk::testing::{FakeHost, Letter, failure, json, request};
    use serde_json::json;

    use super::*;

    fn host() -> FakeHost {
        let host = FakeHost::new();
        host.deliver(Letter::from("grace@example.org").subject("One").text("1"));
        host.file(
            "Work",
            Letter::from("grace@example.org").subject("Two").text("2"),
        );
        host
    }

    fn read(host: &FakeHost, query: &[(&str, &str)]) -> Result<Reply, Failure> {
        get_messages(host, &request(&[], query, ""))
    }

    #[test]
    fn messages_of_all_folders_are_returned_in_the_requested_order() {
        let host = host();
        let response = json(read(&host, &[("uids", "2,7,1,2")]));
        let messages = response["messages"].as_array().unwrap();
        let subjects: Vec<_> = messages.iter().map(|one| &one["subject"]).collect();
        assert_eq!(subjects, ["Two", "One"]);
        assert_eq!(
            (&messages[0]["folder"], &messages[0]["preview"]),
            (&json!("Work"), &json!("2"))
        );
        assert_eq!(response["missing"], json!([7]));
        assert!(messages[0].get("text").is_none() && messages[0].get("snippet").is_none());
    }

    #[test]
    fn the_view_detail_has_the_texts() {
        let host = host();
        let response = json(read(&host, &[("uids", "1,2"), ("view", "detail")]));
        let messages = response["messages"].as_array().unwrap();
        assert_eq!(
            (&messages[1]["text"], &messages[1]["folder"]),
            (&json!("2"), &json!("Work"))
        );
        assert!(messages[0].get("preview").is_none());
        assert_eq!(response["missing"], json!([]));
    }

    #[test]
    fn invalid_parameters_are_refused() {
        let host = host();
        let many = |count: u64| {
            (1..=count)
                .map(|n| n.to_string())
                .collect::<Vec<_>>()
                .join(",")
        };
        for (uids, view, text) in [
            ("", "summary", "At least one uid is required"),
            ("1,", "summary", "Invalid message UID"),
            ("0", "summary", "Invalid message UID"),
            ("+1", "summary", "Invalid message UID"),
            ("1 ,2", "summary", "Invalid message UID"),
            ("1", "Detail", "Invalid view"),
            (
                &many(101),
                "summary",
                "Too many messages (max 100 per request)",
            ),
            (
                &many(21),
                "detail",
                "Too many messages (max 20 per request)",
            ),
        ] {
            let refused = read(&host, &[("uids", uids), ("view", view)]).unwrap_err();
            assert_eq!(refused, failure(400, text), "{uids}");
        }
        assert_eq!(host.calls(), 0);
    }

    #[test]
    fn texts_that_do_not_fit_into_a_response_are_refused() {
        let host = FakeHost::new();
        let half = "a".repeat(2 * 1024 * 1024);
        host.deliver(Letter::from("grace@example.org").text(&half));
        host.deliver(Letter::from("grace@example.org").text(&half));
        let refused = read(&host, &[("uids", "1,2"), ("view", "detail")]).unwrap_err();
        assert_eq!(refused.status, 413);
        assert!(read(&host, &[("uids", "1"), ("view", "detail")]).is_ok());
    }
}
