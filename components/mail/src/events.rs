//! GET `/api/v1/mail/events`: a stream of the events of the mailbox. The host sends the stream.

use latchmail_common::changes;
use latchmail_common::reading::ALL_FOLDERS;
use latchmail_sdk::capability::{Caller, EventFilter, Mailbox};
use latchmail_sdk::{Failure, Reply, Request};

/// The header with which a client continues a stream (HTML, section 9.2).
const LAST_EVENT_ID: &str = "last-event-id";

/// Stream events
///
/// Sends the events of the mailbox as server-sent events, until the client disconnects. `id` is the
/// cursor after the event, `event` its type, and `data` the event as JSON: `{"id", "type", "time",
/// "data"}`. For a change of the mailbox, `data` is the change as in the response of `listChanges`.
/// Every 20 seconds without an event, the stream contains a comment and the current cursor. With
/// `Last-Event-ID` or `since`, the stream begins with the events since this cursor, otherwise with
/// the next event. The last event of a stream that the service ends is `end`, and its data contains
/// the reason.
#[utoipa::path(
    get,
    path = "/api/v1/mail/events",
    operation_id = "streamEvents",
    tag = "Mail",
    extensions(("x-latchmail" = json!(true))),
    params(
        ("since" = Option<String>, Query, description = "The cursor after which the stream begins: an `id` of a stream, or the `cursor` of a list of changes"),
        ("folder" = Option<String>, Query, description = "The path of the only folder whose events are sent; the default is all folders. A cursor is valid only with the folder with which it was obtained"),
        ("types" = Option<String>, Query, description = "The types of the events that are sent, separated by commas: `message.created`, `message.flags`, `message.moved`, `message.deleted`, `folder.created`, `folder.renamed`, `folder.deleted`, `outbox.sent`, `outbox.failed`, `delivery.bounced`, `hold.created`, `hold.decided`; the default is all types"),
        ("Last-Event-ID" = Option<String>, Header, description = "The last `id` of an earlier stream. Takes precedence over `since`")
    ),
    responses(
        (status = 200, description = "The stream", body = String, content_type = "text/event-stream"),
        (status = 400, description = "`unknown event type: …`", body = latchmail_sdk::Failed),
        (status = 404, description = "`Folder not found`", body = latchmail_sdk::Failed),
        (status = 410, description = "`Cursor expired`", body = latchmail_sdk::Failed),
        (status = 429, description = "`Too many open streams, please close some or try again later`", body = latchmail_sdk::Failed)
    )
)]
pub(crate) fn stream_events(
    host: &(impl Mailbox + Caller),
    request: &Request,
) -> Result<Reply, Failure> {
    let last = request.header(LAST_EVENT_ID).filter(|id| !id.is_empty());
    let since = last.or_else(|| request.query("since"));
    let folder = request
        .query("folder")
        .filter(|folder| !folder.is_empty() && *folder != ALL_FOLDERS);
    let types = request.query_all("types").flat_map(|list| list.split(','));
    let filter = EventFilter {
        folder: folder.map(Into::into),
        types: types
            .map(str::trim)
            .filter(|name| !name.is_empty())
            .map(Into::into)
            .collect(),
    };
    changes::stream(host, since, &filter)
}

#[cfg(test)]
mod tests {
    use latchmail_sdk::codes;
    use latchmail_sdk::testing::{FakeHost, Letter, Response, request};

    use super::*;

    fn stream(host: &FakeHost, query: &[(&str, &str)]) -> Result<String, Failure> {
        let reply = stream_events(host, &request(&[], query, ""))?;
        let response = Response::from(reply);
        assert_eq!(response.header("content-type"), Some("text/event-stream"));
        assert_eq!(response.header("cache-control"), Some("no-store"));
        Ok(String::from_utf8(response.body).unwrap())
    }

    #[test]
    fn a_stream_begins_with_its_cursor() {
        let host = FakeHost::new();
        host.deliver(Letter::from("grace@example.org"));
        let text = stream(&host, &[]).unwrap();
        assert_eq!(text, ": waiting\nid: 1\n\n");
        let query = [("since", "0"), ("types", "message.created, outbox.sent")];
        assert_eq!(stream(&host, &query).unwrap(), text);
    }

    #[test]
    fn the_last_event_id_takes_precedence_over_since() {
        let host = FakeHost::new();
        let mut resumed = request(&[], &[("since", "invalid")], "");
        resumed.headers.push((LAST_EVENT_ID.into(), "0".into()));
        assert!(stream_events(&host, &resumed).is_ok());
        resumed.headers.last_mut().unwrap().1 = "invalid".into();
        assert_eq!(stream_events(&host, &resumed).unwrap_err().status, 410);
    }

    #[test]
    fn invalid_parameters_are_refused() {
        let host = FakeHost::new();
        let refused = |query| stream(&host, &[query]).unwrap_err();
        let unknown = refused(("types", "message.created,mail"));
        assert_eq!(
            (unknown.status, unknown.code),
            (400, codes::INVALID_EVENT_TYPE)
        );
        assert_eq!(refused(("folder", "Nowhere")).status, 404);
        assert_eq!(refused(("since", "")).status, 410);
    }
}
