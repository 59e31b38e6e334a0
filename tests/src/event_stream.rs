//! A client of a stream of server-sent events.

use latchmail_net::event_stream::EventParser;
use serde_json::Value;
use tokio::time::timeout;

use crate::wait::TEST_TIMEOUT;
use crate::{Person, Response};

/// An open stream.
#[derive(Debug)]
pub struct EventStream {
    response: reqwest::Response,
    parser: EventParser,
    /// The last id of the stream.
    pub cursor: String,
}

/// An event of a stream.
#[derive(Clone, Debug)]
pub struct StreamedEvent {
    /// The field `id`. Empty for the last event.
    pub id: String,
    /// The field `event`.
    pub kind: String,
    /// The field `data`.
    pub data: Value,
}

impl EventStream {
    /// Opens a stream, for example with `?types=message.created`, and reads its first cursor.
    pub async fn open(person: &Person<'_>, query: &str) -> Self {
        let line = format!("GET /api/v1/mail/events{query}");
        let request = person.service.request(&line).bearer_auth(&person.access);
        Self::of(request).await
    }

    /// Opens a stream with a request.
    pub async fn of(request: reqwest::RequestBuilder) -> Self {
        let response = request.send().await.unwrap();
        assert_eq!(response.status(), 200);
        assert_eq!(response.headers()["content-type"], "text/event-stream");
        let mut stream = Self {
            response,
            parser: EventParser::default(),
            cursor: String::new(),
        };
        while stream.cursor.is_empty() {
            stream.block().await.unwrap();
        }
        stream
    }

    /// Returns the next event. Skips comments and cursors.
    pub async fn next(&mut self) -> StreamedEvent {
        let event = async {
            loop {
                let block = self.block().await;
                if let Some(event) = block.expect("the stream has ended") {
                    return event;
                }
            }
        };
        let event = timeout(TEST_TIMEOUT, event).await;
        event.expect("no event arrived")
    }

    /// Returns the reason with which the service ends the stream. The stream must contain no other
    /// event before.
    pub async fn end(&mut self) -> String {
        let event = self.next().await;
        assert_eq!(event.kind, "end", "{event:?}");
        assert!(self.block().await.is_none(), "the stream continues");
        event.data["reason"].as_str().unwrap().to_owned()
    }

    /// Reads one block. Returns `None` at the end of the stream, and `Some(None)` for a block
    /// without an event.
    async fn block(&mut self) -> Option<Option<StreamedEvent>> {
        let block = loop {
            if let Some(block) = self.parser.pop() {
                break block;
            }
            let chunk = timeout(TEST_TIMEOUT, self.response.chunk()).await;
            let chunk = chunk.expect("no data arrived").unwrap()?;
            self.parser.push(&chunk).unwrap();
        };
        let id = block.id.unwrap_or_default();
        if !id.is_empty() {
            self.cursor.clone_from(&id);
        }
        let event = (!block.kind.is_empty()).then(|| StreamedEvent {
            id,
            kind: block.kind,
            data: serde_json::from_str(&block.data).unwrap(),
        });
        Some(event)
    }
}

/// Returns the response to a request for a stream that is refused.
pub async fn refused_stream(person: &Person<'_>, query: &str) -> Response {
    person
        .send(&format!("GET /api/v1/mail/events{query}"))
        .await
}
