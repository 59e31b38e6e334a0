//! Formats events as server-sent events (HTML, section 9.2).

use bytes::Bytes;

use crate::event::Event;

/// Formats events.
pub(crate) fn events(events: &[Event]) -> Bytes {
    let mut text = String::new();
    for event in events {
        let json = event.to_json();
        for part in [
            "id: ",
            &event.id,
            "\nevent: ",
            event.kind.name(),
            "\ndata: ",
            &json,
            "\n\n",
        ] {
            text.push_str(part);
        }
    }
    text.into()
}

/// Returns a comment, and the cursor of the stream. A client stores the cursor without an event.
pub(crate) fn heartbeat(cursor: &str) -> Bytes {
    format!(": waiting\nid: {cursor}\n\n").into()
}

/// Returns the last event of a stream. The event has no id, so the client keeps its cursor.
pub(crate) fn end(reason: &str) -> Bytes {
    format!("event: end\ndata: {{\"reason\":\"{reason}\"}}\n\n").into()
}
