//! Pairs messages that arrived in a folder with messages that left their location. [`super::reconcile`] collects both.

use std::collections::{HashMap, VecDeque};

use latchmail_directory::message_index::IndexedMessage;

use super::identity::{Identity, is_inferred};

/// Pairs arrivals with messages in `gone` that have the same identity, in the order of their UIDs. `alike` are all known messages with one of the identities.
/// Without the server's ids, several messages with the same identity can be distinguished only by location, so none of these is paired. `may_be` excludes
/// pairs.
pub(crate) fn paired(
    arrived: &[(u32, Identity)],
    alike: &[IndexedMessage],
    gone: Vec<IndexedMessage>,
    may_be: impl Fn(u32, &IndexedMessage) -> bool,
) -> Vec<(u32, IndexedMessage)> {
    let mut looks: HashMap<Identity, usize> = HashMap::new();
    let arrivals = arrived.iter().map(|(_, identity)| *identity);
    for identity in alike.iter().map(IndexedMessage::identity).chain(arrivals) {
        *looks.entry(identity).or_default() += 1;
    }
    let mut homeless: HashMap<Identity, VecDeque<IndexedMessage>> = HashMap::new();
    for message in gone {
        let identity = message.identity();
        // Two are the message itself and its arrival.
        if !is_inferred(identity) || looks[&identity] <= 2 {
            homeless.entry(identity).or_default().push_back(message);
        }
    }
    let mut arrived = arrived.to_vec();
    arrived.sort_unstable();
    let pair = |(uid, identity): (u32, Identity)| {
        let messages = homeless.get_mut(&identity)?;
        let found = messages.iter().position(|message| may_be(uid, message))?;
        Some((uid, messages.remove(found)?))
    };
    arrived.into_iter().filter_map(pair).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const INFERRED: Identity = [1; 16];
    const GIVEN: Identity = [2; 16];

    fn noted(uid: i64, identity: Identity) -> IndexedMessage {
        IndexedMessage::for_tests(uid, identity)
    }

    fn pairs(
        arrived: &[(u32, Identity)],
        alike: &[IndexedMessage],
        gone: &[IndexedMessage],
    ) -> Vec<(u32, u64)> {
        let may_be = |uid, message: &IndexedMessage| uid != 10 || message.number() != 1;
        let pairs = paired(arrived, alike, gone.to_vec(), may_be);
        pairs.iter().map(|(uid, m)| (*uid, m.number())).collect()
    }

    #[test]
    fn arrivals_continue_what_is_gone_in_the_order_of_their_uids() {
        let all = [1, 2, 3].map(|uid| noted(uid, GIVEN));
        let arrived = [(9, GIVEN), (7, GIVEN), (8, INFERRED)];
        assert_eq!(pairs(&arrived, &all, &all[..1]), [(7, 1)]);
        assert_eq!(pairs(&arrived, &all, &all), [(7, 1), (9, 2)]);
        assert_eq!(pairs(&arrived, &all, &[]), []);
        // `may_be` excludes the pair of arrival 10 and message 1.
        let arrived = [(10, GIVEN), (11, GIVEN)];
        assert_eq!(pairs(&arrived, &all, &all), [(10, 2), (11, 1)]);
        assert_eq!(pairs(&arrived[..1], &all, &all[..1]), []);
    }

    #[test]
    fn what_only_looks_the_same_is_paired_if_there_is_one_of_it() {
        let all = [1, 2].map(|uid| noted(uid, INFERRED));
        let one = &all[..1];
        assert_eq!(pairs(&[(7, INFERRED)], one, one), [(7, 1)]);
        assert_eq!(pairs(&[(7, INFERRED)], &all, one), []);
        assert_eq!(pairs(&[(7, INFERRED), (8, INFERRED)], one, one), []);
    }
}
