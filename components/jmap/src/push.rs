//! `GET /jmap/eventsource`: tells a client that the mailbox has changed (RFC 8620, section 7.3).
//! The host sends the stream.

use latchmail_sdk::capability::{CursorFormat, Error, QueryError};
use latchmail_sdk::{Failure, Reply, Request, codes};
use serde_json::json;

use crate::Capabilities;
use crate::context::Context;

/// The types whose state is the cursor of the change log.
const TYPES: [&str; 3] = ["Email", "Mailbox", "Thread"];
/// The minimum and the maximum interval of pings, in seconds.
const MIN_PING: u32 = 5;
const MAX_PING: u32 = 30;

/// Open an event source
///
/// Returns server-sent events with the states of emails, mailboxes and threads after each change.
/// Other types have no events. The interval of `ping` is 5 to 30 seconds.
#[utoipa::path(
    get,
    path = "/jmap/eventsource",
    operation_id = "openJmapEventSource",
    tag = "JMAP",
    extensions(("x-latchmail" = json!(true))),
    params(
        ("types" = Option<String>, Query, description = "`*`, or names of types, separated by commas"),
        ("closeafter" = Option<String>, Query, description = "`state` ends the stream after the first event; `no`"),
        ("ping" = Option<String>, Query, description = "The interval of `ping` events in seconds; 0 for none"),
        ("Last-Event-ID" = Option<String>, Header, description = "The id of the last event")
    ),
    responses(
        (status = 200, description = "`StateChange` events", body = String, content_type = "text/event-stream"),
        (status = 400, description = "An invalid parameter", body = latchmail_sdk::Failed),
        (status = 429, description = "Too many open streams", body = latchmail_sdk::Failed)
    )
)]
pub(crate) fn event_source(host: &impl Capabilities, request: &Request) -> Result<Reply, Failure> {
    let ctx = Context::new(host, &request.id);
    let types = request.query("types").unwrap_or("*");
    let is_wanted = |name: &&str| types == "*" || types.split(',').any(|one| one == *name);
    let changed = TYPES.iter().copied().filter(is_wanted);
    let states: serde_json::Map<_, _> = changed
        .map(|name| (name.to_owned(), json!("{cursor}")))
        .collect();
    let invalid = |text: &'static str| Failure::bad_request(codes::INVALID_FIELD, text);
    let once = match request.query("closeafter").unwrap_or("no") {
        "state" => true,
        "no" => false,
        _ => return Err(invalid("closeafter must be state or no")),
    };
    let no_number = (codes::INVALID_FIELD, "ping must be a number");
    let ping = request.query_number("ping", 0, no_number)?;
    let ping = (ping > 0).then(|| ping.clamp(MIN_PING, MAX_PING));
    let data = json!({ "@type": "StateChange", "changed": { (ctx.account.clone()): states } });
    let format = CursorFormat {
        event_type: "state".into(),
        data: data.to_string(),
        ping,
        ping_data: json!({ "interval": ping.unwrap_or_default() }).to_string(),
        once,
    };
    let since = request.header("last-event-id").filter(|id| !id.is_empty());
    let events = host.stream_cursors(since, &format).map_err(|error| {
        let error = match error {
            QueryError::TooManyStreams => {
                let text = "There are too many open streams";
                return Failure::new(429, codes::TOO_MANY_STREAMS, text);
            }
            QueryError::Failed(error) => error,
            _ => Error::Internal,
        };
        Failure::of(error, (codes::NOT_FOUND, "Not found"), host)
    })?;
    Ok(Reply::stream("text/event-stream", events))
}
