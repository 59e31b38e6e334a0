//! The threads of a mailbox in memory.

use std::collections::HashMap;

use latchmail_core::message_number::MessageNumber;
use latchmail_search::StoredThreadKeys;
use latchmail_search::threads::Threads;

use super::document::MessageDocument;

/// The threads of a mailbox, and the arrival times of the messages in milliseconds since 1970.
pub(super) struct MailboxThreads {
    pub(super) threads: Threads,
    arrivals: HashMap<MessageNumber, i64>,
    /// `true` if the threads have changed since they were stored.
    pub(super) is_changed: bool,
}

impl MailboxThreads {
    pub(super) fn new(keys: Vec<StoredThreadKeys>) -> Self {
        let arrivals = keys.iter().map(|stored| (stored.number, stored.arrival));
        Self {
            is_changed: true,
            arrivals: arrivals.collect(),
            threads: Threads::build(
                keys.into_iter()
                    .map(|stored| (stored.number, stored.date, stored.keys)),
            ),
        }
    }

    /// Adds the messages in `new`, and removes the messages in `removed`.
    pub(super) fn update(&mut self, new: &[MessageDocument], removed: &[MessageNumber]) {
        self.is_changed |= !(new.is_empty() && removed.is_empty());
        self.threads.remove(removed);
        for number in removed {
            self.arrivals.remove(number);
        }
        for message in new {
            self.arrivals.insert(message.number, message.arrival);
            self.threads
                .add(message.number, message.date(), message.thread.clone());
        }
    }

    /// Returns the id of a message's thread. Returns an empty string for an unknown message.
    pub(super) fn id(&self, number: MessageNumber) -> String {
        let thread = self.threads.thread_of(number);
        thread.map(|thread| thread.to_string()).unwrap_or_default()
    }

    pub(super) fn arrival(&self, number: MessageNumber) -> i64 {
        self.arrivals.get(&number).copied().unwrap_or_default()
    }
}
