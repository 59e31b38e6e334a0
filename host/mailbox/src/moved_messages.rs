//! Recognizes moved messages. Compares arrivals in a folder with messages that are missing at their stored locations.

use std::collections::{HashMap, VecDeque};

use latchmail_directory::message_index::IndexedMessage;

use crate::identity::{Identity, is_inferred};

/// Matches arrivals with `missing` messages of the same identity, in the order of the UIDs. An arrival consists of its IMAP UID and its identity.
/// `same_identity` contains all indexed messages with the identity of an arrival. A pair matches only if `can_match` returns `true`.
///
/// Without the server's ids, messages with the same identity differ only in their locations. Therefore this function matches none of these messages.
pub(crate) fn find_moved(
    arrived: &[(u32, Identity)],
    same_identity: &[IndexedMessage],
    missing: Vec<IndexedMessage>,
    can_match: impl Fn(u32, &IndexedMessage) -> bool,
) -> Vec<(u32, IndexedMessage)> {
    let mut counts: HashMap<Identity, usize> = HashMap::new();
    let indexed = same_identity.iter().map(IndexedMessage::identity);
    for identity in indexed.chain(arrived.iter().map(|(_, identity)| *identity)) {
        *counts.entry(identity).or_default() += 1;
    }
    let mut candidates: HashMap<Identity, VecDeque<IndexedMessage>> = HashMap::new();
    for message in missing {
        let identity = message.identity();
        // If an identity belongs to exactly one indexed message and one arrival, its count is two.
        if !is_inferred(identity) || counts[&identity] <= 2 {
            candidates.entry(identity).or_default().push_back(message);
        }
    }
    let mut arrived = arrived.to_vec();
    arrived.sort_unstable();
    let find = |(uid, identity): (u32, Identity)| {
        let messages = candidates.get_mut(&identity)?;
        let found = messages
            .iter()
            .position(|message| can_match(uid, message))?;
        Some((uid, messages.remove(found)?))
    };
    arrived.into_iter().filter_map(find).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const INFERRED: Identity = [1; 16];
    const FROM_SERVER: Identity = [2; 16];

    fn indexed(number: i64, identity: Identity) -> IndexedMessage {
        IndexedMessage::for_tests(number, identity)
    }

    fn moved(
        arrived: &[(u32, Identity)],
        same_identity: &[IndexedMessage],
        missing: &[IndexedMessage],
    ) -> Vec<(u32, u64)> {
        let can_match = |uid, message: &IndexedMessage| uid != 10 || message.number() != 1;
        let pairs = find_moved(arrived, same_identity, missing.to_vec(), can_match);
        pairs.iter().map(|(uid, m)| (*uid, m.number())).collect()
    }

    #[test]
    fn arrivals_match_missing_messages_in_the_order_of_uids() {
        let all = [1, 2, 3].map(|number| indexed(number, FROM_SERVER));
        let arrived = [(9, FROM_SERVER), (7, FROM_SERVER), (8, INFERRED)];
        assert_eq!(moved(&arrived, &all, &all[..1]), [(7, 1)]);
        assert_eq!(moved(&arrived, &all, &all), [(7, 1), (9, 2)]);
        assert_eq!(moved(&arrived, &all, &[]), []);
        // `can_match` excludes the pair of arrival 10 and message 1.
        let arrived = [(10, FROM_SERVER), (11, FROM_SERVER)];
        assert_eq!(moved(&arrived, &all, &all), [(10, 2), (11, 1)]);
        assert_eq!(moved(&arrived[..1], &all, &all[..1]), []);
    }

    #[test]
    fn an_inferred_identity_matches_only_if_it_is_unique() {
        let all = [1, 2].map(|number| indexed(number, INFERRED));
        let one = &all[..1];
        assert_eq!(moved(&[(7, INFERRED)], one, one), [(7, 1)]);
        assert_eq!(moved(&[(7, INFERRED)], &all, one), []);
        assert_eq!(moved(&[(7, INFERRED), (8, INFERRED)], one, one), []);
    }
}
