//! The functions of the interface `mailbox` that return streams.

use std::time::Duration;

use latchmail_bindings::latchmail::host::mailbox as wit;
use latchmail_bindings::latchmail::host::types::Error;
use latchmail_bindings::{ByteStream, EventStream, HostError};
use latchmail_core::caller::Scope;
use latchmail_core::codes;
use latchmail_events::{EventFilter, EventType, OpenError, StreamOwner};
use wasmtime::component::Resource;

use super::check_changes_limit;
use crate::api::call::Call;
use crate::api::convert::mailbox_error;
use crate::api::problem;

/// The maximum time for which a request waits for a change, in seconds.
const MAX_WAIT: u32 = 60;

type StreamResult = Result<Resource<EventStream>, HostError<wit::StreamError>>;

/// Opens a stream of events.
pub(super) async fn open_events(
    call: &mut Call,
    since: Option<String>,
    filter: wit::EventFilter,
) -> StreamResult {
    let (access, owner) = stream_owner(call)?;
    let filter = event_filter(filter)?;
    let streams = &call.services.streams;
    let opened = streams.open(access, &owner, since.as_deref(), filter).await;
    push_stream(call, opened)
}

/// Waits for a change.
pub(super) fn wait_for_change(
    call: &mut Call,
    since: String,
    folder: Option<String>,
    limit: u32,
    seconds: u32,
) -> StreamResult {
    let (access, owner) = stream_owner(call)?;
    check_changes_limit(limit)?;
    if !(1..=MAX_WAIT).contains(&seconds) {
        let text = format!("seconds must be between 1 and {MAX_WAIT}");
        return Err(problem::invalid(codes::INVALID_CHANGES_PARAMETERS, text).into());
    }
    let wait = Duration::from_secs(seconds.into());
    let streams = &call.services.streams;
    let opened = streams.wait(access, &owner, since, folder, limit, wait);
    push_stream(call, opened)
}

/// Returns the access to the mailbox, and the owner of a stream for the limits.
pub(in crate::api) fn stream_owner(
    call: &Call,
) -> Result<(latchmail_mailbox::Access, StreamOwner), Error> {
    let access = call.mailbox_access(Scope::MailRead)?;
    let caller = call.require_caller()?;
    let owner = StreamOwner {
        credential: caller.mail.id.clone(),
        account: caller.account.clone(),
        client: call.origin.client,
    };
    Ok((access, owner))
}

fn push_stream(call: &mut Call, opened: Result<ByteStream, OpenError>) -> StreamResult {
    let stream = opened.map_err(stream_error)?;
    let stream = call.table.push(EventStream::new(stream));
    stream.map_err(HostError::trap)
}

fn event_filter(filter: wit::EventFilter) -> Result<EventFilter, wit::StreamError> {
    let types = filter.types.into_iter().map(|name| {
        let unknown = || {
            let text = format!("unknown event type: {name}");
            wit::StreamError::Failed(problem::invalid(codes::INVALID_EVENT_TYPE, text))
        };
        EventType::named(&name).ok_or_else(unknown)
    });
    Ok(EventFilter {
        folder: filter.folder,
        types: types.collect::<Result<_, _>>()?,
    })
}

fn stream_error(error: OpenError) -> wit::StreamError {
    match error {
        OpenError::TooMany => wit::StreamError::TooManyStreams,
        OpenError::FolderNotFound => wit::StreamError::Failed(Error::NotFound),
        OpenError::Mailbox(latchmail_mailbox::Error::CursorExpired) => {
            wit::StreamError::CursorExpired
        }
        OpenError::Mailbox(error) => wit::StreamError::Failed(mailbox_error(error)),
    }
}
