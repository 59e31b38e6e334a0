//! The threads of a mailbox in memory.

use std::collections::HashMap;

use latchmail_search::StoredThreadKeys;
use latchmail_search::threads::Threads;

use super::document::MessageDocument;

/// The threads of a mailbox, and the arrival times of the messages.
pub(super) struct MailboxThreads {
    pub(super) threads: Threads,
    arrivals: HashMap<u64, i64>,
    /// `true` if the threads have changed since they were last stored in the database.
    pub(super) is_changed: bool,
}

impl MailboxThreads {
    pub(super) fn new(keys: Vec<StoredThreadKeys>) -> Self {
        let arrivals = keys.iter().map(|stored| (stored.uid, stored.arrival));
        Self {
            is_changed: true,
            arrivals: arrivals.collect(),
            threads: Threads::build(
                keys.into_iter()
                    .map(|stored| (stored.uid, stored.date, stored.keys)),
            ),
        }
    }

    /// Adds new messages and removes others.
    pub(super) fn update(&mut self, new: &[MessageDocument], removed: &[u64]) {
        self.is_changed |= !(new.is_empty() && removed.is_empty());
        self.threads.remove(removed);
        for uid in removed {
            self.arrivals.remove(uid);
        }
        for message in new {
            self.arrivals.insert(message.uid, message.arrival);
            self.threads
                .add(message.uid, message.date(), message.thread.clone());
        }
    }

    /// Returns the id of a message's thread. Returns an empty string for an unknown message.
    pub(super) fn id(&self, uid: u64) -> String {
        let thread = self.threads.thread_of(uid);
        thread.map(|thread| thread.to_string()).unwrap_or_default()
    }

    pub(super) fn arrival(&self, uid: u64) -> i64 {
        self.arrivals.get(&uid).copied().unwrap_or_default()
    }
}
