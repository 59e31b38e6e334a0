//! Counts the messages that each recipient received, and writes the counts to the directory, which
//! stores those of aliases.
//!
//! A message does not wait for the directory: the counts are collected in memory and written every
//! few seconds. If the milter crashes, the counts of these seconds are lost. No log line contains
//! an address.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use latchmail_core::clock::Clock;
use latchmail_directory::mailserver::{MailServerView, Receipts};
use tokio::time::{MissedTickBehavior, interval};

/// The interval between two writes.
const INTERVAL: Duration = Duration::from_secs(5);
/// Maximum number of addresses in memory. The receipts of further addresses are discarded until the
/// next write.
const MAX_ADDRESSES: usize = 10_000;
/// Maximum length of an address in bytes (RFC 5321, section 4.5.3.1).
const MAX_ADDRESS_LENGTH: usize = 320;

/// The receipts that are not in the directory yet.
#[derive(Debug)]
pub(crate) struct Counter {
    clock: Clock,
    counts: Mutex<HashMap<String, Receipts>>,
}

impl Counter {
    pub(crate) fn new(clock: Clock) -> Self {
        Self {
            clock,
            counts: Mutex::default(),
        }
    }

    /// Counts one message for each of its recipients.
    pub(crate) fn count(&self, recipients: &[String]) {
        let last = self.clock.now().seconds();
        let mut counts = self.lock();
        for recipient in recipients {
            if recipient.len() <= MAX_ADDRESS_LENGTH {
                add(
                    &mut counts,
                    recipient.to_lowercase(),
                    Receipts { count: 1, last },
                );
            }
        }
    }

    /// Writes the receipts to the directory until the future is dropped.
    pub(crate) async fn write(&self, directory: &MailServerView) {
        let mut ticks = interval(INTERVAL);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            ticks.tick().await;
            self.write_now(directory).await;
        }
    }

    async fn write_now(&self, directory: &MailServerView) {
        let mut taken = std::mem::take(&mut *self.lock());
        if taken.is_empty() {
            return;
        }
        if let Err(error) = directory.add_receipts(&mut taken).await {
            tracing::warn!(%error, "failed to record the mail of aliases; it will be recorded later");
            let mut counts = self.lock();
            for (address, receipts) in taken {
                add(&mut counts, address, receipts);
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, Receipts>> {
        // The map is consistent even if a thread panicked while it had locked the map.
        self.counts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn add(counts: &mut HashMap<String, Receipts>, address: String, added: Receipts) {
    if let Some(known) = counts.get_mut(&address) {
        known.count = known.count.saturating_add(added.count);
        known.last = known.last.max(added.last);
    } else if counts.len() < MAX_ADDRESSES {
        counts.insert(address, added);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_messages_of_an_address_are_counted_in_lower_case() {
        let counter = Counter::new(Clock::system());
        counter.count(&["Shop@example.org".into(), "ada@example.org".into()]);
        counter.count(&[
            "shop@example.org".into(),
            "x".repeat(MAX_ADDRESS_LENGTH + 1),
        ]);
        let counts = counter.lock();
        assert_eq!(counts.len(), 2);
        assert_eq!(counts["shop@example.org"].count, 2);
        assert_eq!(counts["ada@example.org"].count, 1);
    }

    #[test]
    fn the_number_of_addresses_is_limited() {
        let counter = Counter::new(Clock::system());
        let all: Vec<String> = (0..MAX_ADDRESSES + 5).map(|n| n.to_string()).collect();
        counter.count(&all);
        counter.count(&["0".into()]);
        let counts = counter.lock();
        assert_eq!((counts.len(), counts["0"].count), (MAX_ADDRESSES, 2));
    }
}
