//! Recognizes moved messages. Compares arrivals in a folder with messages that are missing at their
//! stored locations.

use std::collections::{BTreeSet, HashMap, VecDeque};

use latchmail_core::message_number::Uid;
use latchmail_directory::message_index::IndexedMessage;

use crate::message::identity::{Identity, is_inferred};

/// The messages that are missing at their stored locations and have the identity of an arrival.
#[derive(Default)]
pub(crate) struct Candidates {
    /// The count of messages with the identity in the message index, including the messages that
    /// are at their stored locations.
    pub(crate) indexed: usize,
    pub(crate) missing: VecDeque<IndexedMessage>,
    /// The missing messages that this service has expunged.
    pub(crate) expunged: VecDeque<IndexedMessage>,
}

/// Matches arrivals with missing messages of the same identity, in the order of the UIDs. An
/// arrival consists of its IMAP UID and its identity. Removes the matched messages from
/// `candidates`.
///
/// Another client might have moved a message after this service set the flag `\Deleted` and before
/// this service expunged the message. The moved message also has the flag at its new location. An
/// older copy does not have the flag. Therefore only the arrivals in `deleted` match expunged
/// messages.
///
/// Without the server's message ids, messages with the same identity differ only in their
/// locations. Therefore, if several messages have the same identity, this function matches none of
/// these messages.
pub(crate) fn find_moved(
    arrived: &[(Uid, Identity)],
    deleted: &BTreeSet<Uid>,
    candidates: &mut HashMap<Identity, Candidates>,
) -> Vec<(Uid, IndexedMessage)> {
    let mut counts: HashMap<Identity, usize> = HashMap::new();
    for (_, identity) in arrived {
        *counts.entry(*identity).or_default() += 1;
    }
    let mut arrived = arrived.to_vec();
    arrived.sort_unstable();
    let find = |(uid, identity): (Uid, Identity)| {
        let candidates = candidates.get_mut(&identity)?;
        // The sum is 2 if exactly one indexed message and exactly one arrival have the identity.
        if is_inferred(identity) && counts[&identity] + candidates.indexed > 2 {
            return None;
        }
        let message = candidates.missing.pop_front().or_else(|| {
            let expunged = &mut candidates.expunged;
            deleted.contains(&uid).then(|| expunged.pop_front())?
        })?;
        Some((uid, message))
    };
    arrived.into_iter().filter_map(find).collect()
}

#[cfg(test)]
mod tests {
    use latchmail_core::message_number::MessageNumber;

    use super::*;

    const INFERRED: Identity = [1; 16];
    const FROM_SERVER: Identity = [2; 16];

    fn indexed(number: i64, identity: Identity) -> IndexedMessage {
        IndexedMessage::for_tests(number, identity)
    }

    /// Message 1 is an expunged message. Arrival 10 does not have the flag `\Deleted`.
    fn moved(
        arrived: &[(Uid, Identity)],
        indexed: usize,
        missing: &[IndexedMessage],
    ) -> Vec<(u32, u64)> {
        let mut candidates: HashMap<Identity, Candidates> = HashMap::new();
        for message in missing.iter().cloned() {
            let candidates = candidates.entry(message.identity()).or_default();
            candidates.indexed = indexed;
            let is_expunged = message.number() == MessageNumber(1);
            let queue = if is_expunged {
                &mut candidates.expunged
            } else {
                &mut candidates.missing
            };
            queue.push_back(message);
        }
        let deleted = arrived.iter().map(|(uid, _)| *uid);
        let deleted = deleted.filter(|uid| *uid != Uid(10)).collect();
        let pairs = find_moved(arrived, &deleted, &mut candidates);
        pairs.iter().map(|(uid, m)| (uid.0, m.number().0)).collect()
    }

    #[test]
    fn arrivals_match_missing_messages_in_the_order_of_uids() {
        let all = [2, 3, 4].map(|number| indexed(number, FROM_SERVER));
        let arrived = [
            (Uid(9), FROM_SERVER),
            (Uid(7), FROM_SERVER),
            (Uid(8), INFERRED),
        ];
        assert_eq!(moved(&arrived, 3, &all[..1]), [(7, 2)]);
        assert_eq!(moved(&arrived, 3, &all), [(7, 2), (9, 3)]);
        assert_eq!(moved(&arrived, 3, &[]), []);
    }

    #[test]
    fn only_an_arrival_with_the_flag_deleted_matches_an_expunged_message() {
        let all = [1, 2].map(|number| indexed(number, FROM_SERVER));
        let arrived = [(Uid(10), FROM_SERVER), (Uid(11), FROM_SERVER)];
        assert_eq!(moved(&arrived, 2, &all), [(10, 2), (11, 1)]);
        assert_eq!(moved(&arrived[..1], 2, &all[..1]), []);
        // A message that was not expunged is preferred.
        assert_eq!(moved(&arrived[1..], 2, &all), [(11, 2)]);
    }

    #[test]
    fn an_inferred_identity_matches_only_if_it_is_unique() {
        let missing = [indexed(2, INFERRED)];
        assert_eq!(moved(&[(Uid(7), INFERRED)], 1, &missing), [(7, 2)]);
        assert_eq!(moved(&[(Uid(7), INFERRED)], 2, &missing), []);
        assert_eq!(
            moved(&[(Uid(7), INFERRED), (Uid(8), INFERRED)], 1, &missing),
            []
        );
    }
}
