//! Selects the events of a module.

use std::collections::HashMap;

use latchmail_core::event_type::EventType;
use latchmail_events::{Event, EventFilter};
use latchmail_mailbox::{Access, Error, Mail, Role};
use latchmail_runtime::modules::EventSubscription;
use serde_json::Value;

/// The path of the inbox (RFC 9051, section 5.1).
pub(crate) const INBOX: &str = "INBOX";

/// Selects the events of a module in one mailbox.
#[derive(Debug)]
pub(crate) struct Filter<'s> {
    sets: &'s [EventSubscription],
    /// The paths of folders, by the name of their roles.
    paths: HashMap<&'static str, String>,
}

impl<'s> Filter<'s> {
    /// Creates the filter. Reads the list of folders only if a set of events needs it.
    ///
    /// # Errors
    /// Returns an error if the list of folders cannot be read.
    pub(crate) async fn new(
        sets: &'s [EventSubscription],
        mail: &Mail,
        access: &Access,
    ) -> Result<Self, Error> {
        let mut paths = HashMap::from([(Role::Inbox.name(), INBOX.to_owned())]);
        let mut roles = sets.iter().filter_map(|set| set.folder_role.as_deref());
        if roles.any(|role| role != Role::Inbox.name()) {
            for (folder, _) in mail.listing.folders(access).await? {
                if let Some(role) = folder.role {
                    paths.insert(role.name(), folder.path);
                }
            }
        }
        Ok(Self { sets, paths })
    }

    /// Returns the filter for the feed of events, which can select more events.
    pub(crate) fn of_feed(sets: &[EventSubscription]) -> EventFilter {
        let mut types: Vec<EventType> = Vec::new();
        for set in sets {
            if set.types.is_empty() {
                return EventFilter::default();
            }
            for kind in &set.types {
                if !types.contains(kind) {
                    types.push(*kind);
                }
            }
        }
        EventFilter {
            folder: None,
            types,
        }
    }

    /// Returns `true` if the module handles the event.
    pub(crate) fn accepts(&self, event: &Event) -> bool {
        self.accepts_in(event.kind, event.data.get("folder").and_then(Value::as_str))
    }

    fn accepts_in(&self, kind: EventType, folder: Option<&str>) -> bool {
        self.sets.iter().any(|set| {
            let has_type = set.types.is_empty() || set.types.contains(&kind);
            has_type
                && set.folder_role.as_deref().is_none_or(|role| {
                    let path = self.paths.get(role).map(String::as_str);
                    path.is_some() && path == folder
                })
        })
    }

    /// Returns the paths of the folders whose new messages the module handles: the inbox for a set
    /// of events of all folders.
    pub(crate) fn folders_of_new_messages(&self) -> Vec<&str> {
        let mut folders = Vec::new();
        for set in self.sets {
            let is_new = set.types.is_empty() || set.types.contains(&EventType::MessageCreated);
            let path = match &set.folder_role {
                None => Some(INBOX),
                Some(role) => self.paths.get(role.as_str()).map(String::as_str),
            };
            if let Some(path) = path.filter(|path| is_new && !folders.contains(path)) {
                folders.push(path);
            }
        }
        folders
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(types: &[EventType], role: Option<Role>) -> EventSubscription {
        EventSubscription {
            types: types.to_vec(),
            folder_role: role.map(|role| role.name().to_owned()),
        }
    }

    #[test]
    fn an_event_is_in_a_set_with_its_type_and_the_role_of_its_folder() {
        use EventType::{MessageCreated, MessageFlags, OutboxSent};
        let sets = [
            set(&[MessageCreated], Some(Role::Inbox)),
            set(&[MessageFlags, OutboxSent], None),
            set(&[], Some(Role::Junk)),
        ];
        let filter = Filter {
            sets: &sets,
            paths: HashMap::from([("\\Inbox", INBOX.to_owned()), ("\\Junk", "Spam".to_owned())]),
        };
        assert!(filter.accepts_in(MessageCreated, Some(INBOX)));
        assert!(!filter.accepts_in(MessageCreated, Some("Work")));
        assert!(filter.accepts_in(MessageFlags, Some("Work")));
        assert!(filter.accepts_in(OutboxSent, None));
        assert!(filter.accepts_in(EventType::MessageMoved, Some("Spam")));
        assert!(!filter.accepts_in(EventType::MessageMoved, None));
        assert_eq!(filter.folders_of_new_messages(), [INBOX, "Spam"]);
        assert_eq!(Filter::of_feed(&sets), EventFilter::default());
        let types = Filter::of_feed(&sets[..2]).types;
        assert_eq!(types, [MessageCreated, MessageFlags, OutboxSent]);
    }
}
