//! The types of events, and their JSON.

use latchmail_core::clock::Timestamp;
use latchmail_core::event_type::EventType;
use latchmail_core::message_number::MessageNumber;
use latchmail_mailbox::changelog::Change;
use serde::Serialize;
use serde_json::Value;

/// Selects events.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EventFilter {
    /// The path of the only folder whose events are selected. `None` for all folders, and for
    /// events without a folder.
    pub folder: Option<String>,
    /// The selected types. An empty list selects all types.
    pub types: Vec<EventType>,
}

impl EventFilter {
    /// Returns `true` if the filter selects this type.
    #[must_use]
    pub fn accepts(&self, kind: EventType) -> bool {
        self.types.is_empty() || self.types.contains(&kind)
    }
}

/// An event.
#[derive(Clone, Debug, PartialEq)]
pub struct Event {
    /// The cursor after the event. A client that continues there gets the events that follow.
    pub id: String,
    /// The type.
    pub kind: EventType,
    /// The time at which the service learned of the change.
    pub time: Timestamp,
    /// The number of the message. `None` for events of folders, of the outbox and of deliveries.
    pub message: Option<MessageNumber>,
    /// The data. For a change of the mailbox, a change as in the response of `GET /mail/changes`.
    pub data: Value,
}

#[derive(Serialize)]
struct EventJson<'e> {
    id: &'e str,
    r#type: &'static str,
    time: String,
    data: &'e Value,
}

impl Event {
    /// Creates the event of a change. `id` is the cursor after the change.
    #[must_use]
    pub fn of_change(id: String, time: Timestamp, change: &Change) -> Self {
        let (kind, message) = classify(change);
        Self {
            id,
            kind,
            time,
            message,
            data: change_json(change),
        }
    }

    /// Returns the event as a JSON object.
    #[must_use]
    pub fn to_json(&self) -> String {
        let json = EventJson {
            id: &self.id,
            r#type: self.kind.name(),
            time: self.time.to_string(),
            data: &self.data,
        };
        // The serialization of texts and JSON values does not fail.
        serde_json::to_string(&json).unwrap_or_default()
    }
}

/// A change as in the response of `GET /mail/changes`.
#[derive(Serialize)]
#[serde(tag = "type", rename_all = "camelCase")]
enum ChangeJson<'c> {
    Created {
        uid: u64,
        folder: &'c str,
        flags: &'c [String],
    },
    Flags {
        uid: u64,
        folder: &'c str,
        flags: &'c [String],
    },
    Moved {
        uid: u64,
        folder: &'c str,
        from: &'c str,
        flags: &'c [String],
    },
    Deleted {
        uid: u64,
        folder: &'c str,
    },
    FolderCreated {
        folder: &'c str,
        id: &'c str,
    },
    FolderRenamed {
        folder: &'c str,
        from: &'c str,
        id: &'c str,
    },
    FolderDeleted {
        folder: &'c str,
        id: &'c str,
    },
}

/// Returns the type of the event of a change, and the number of the changed message.
pub(crate) fn classify(change: &Change) -> (EventType, Option<MessageNumber>) {
    match change {
        Change::Created { number, .. } => (EventType::MessageCreated, Some(*number)),
        Change::Flags { number, .. } => (EventType::MessageFlags, Some(*number)),
        Change::Moved { number, .. } => (EventType::MessageMoved, Some(*number)),
        Change::Deleted { number, .. } => (EventType::MessageDeleted, Some(*number)),
        Change::FolderCreated { .. } => (EventType::FolderCreated, None),
        Change::FolderRenamed { .. } => (EventType::FolderRenamed, None),
        Change::FolderDeleted { .. } => (EventType::FolderDeleted, None),
    }
}

/// Returns a change as in the response of `GET /mail/changes`.
pub(crate) fn change_json(change: &Change) -> Value {
    let uid = |number: &MessageNumber| number.0;
    let json = match change {
        Change::Created {
            number,
            folder,
            flags,
        } => ChangeJson::Created {
            uid: uid(number),
            folder,
            flags,
        },
        Change::Flags {
            number,
            folder,
            flags,
        } => ChangeJson::Flags {
            uid: uid(number),
            folder,
            flags,
        },
        Change::Moved {
            number,
            folder,
            from,
            flags,
        } => ChangeJson::Moved {
            uid: uid(number),
            folder,
            from,
            flags,
        },
        Change::Deleted { number, folder } => ChangeJson::Deleted {
            uid: uid(number),
            folder,
        },
        Change::FolderCreated { folder, id } => ChangeJson::FolderCreated { folder, id },
        Change::FolderRenamed { folder, from, id } => {
            ChangeJson::FolderRenamed { folder, from, id }
        }
        Change::FolderDeleted { folder, id } => ChangeJson::FolderDeleted { folder, id },
    };
    // The serialization of texts and numbers does not fail.
    serde_json::to_value(json).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_data_of_a_change_is_that_of_the_list_of_changes() {
        let moved = Change::Moved {
            number: MessageNumber(17),
            folder: "Archive".into(),
            from: "INBOX".into(),
            flags: vec!["\\Seen".into()],
        };
        let expected = json!({
            "type": "moved", "uid": 17, "folder": "Archive", "from": "INBOX", "flags": ["\\Seen"]
        });
        assert_eq!(change_json(&moved), expected);
        let renamed = Change::FolderRenamed {
            folder: "b".into(),
            from: "a".into(),
            id: "x".into(),
        };
        let expected = json!({ "type": "folderRenamed", "folder": "b", "from": "a", "id": "x" });
        assert_eq!(change_json(&renamed), expected);
        assert_eq!(classify(&renamed), (EventType::FolderRenamed, None));
    }

    #[test]
    fn an_event_has_an_id_a_type_a_time_and_data() {
        let event = Event {
            id: "c".into(),
            kind: EventType::OutboxSent,
            time: Timestamp::from_millis(1_795_161_600_123),
            message: None,
            data: json!({ "outboxId": "o" }),
        };
        let expected = r#"{"id":"c","type":"outbox.sent","time":"2026-11-20T08:00:00.123Z","data":{"outboxId":"o"}}"#;
        assert_eq!(event.to_json(), expected);
    }

    #[test]
    fn an_empty_filter_accepts_all_types() {
        let filter = EventFilter::default();
        assert!(EventType::ALL.into_iter().all(|kind| filter.accepts(kind)));
        let filter = EventFilter {
            types: vec![EventType::MessageCreated],
            ..filter
        };
        let accepted = EventType::ALL
            .into_iter()
            .filter(|kind| filter.accepts(*kind));
        assert_eq!(accepted.collect::<Vec<_>>(), [EventType::MessageCreated]);
        assert_eq!(
            EventType::named("message.moved"),
            Some(EventType::MessageMoved)
        );
    }
}
