//! Compares threads with a simple implementation of the same rules.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::time::{Duration, Instant};

use super::*;

type Input = (MessageNumber, i64, ThreadKeys);

/// A deterministic random number generator (xorshift, by Marsaglia).
struct Chance(u64);

impl Chance {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 16) % limit.max(1)
    }

    fn shuffle<T>(&mut self, items: &mut [T]) {
        for at in (1..items.len()).rev() {
            items.swap(at, usize::try_from(self.below(at as u64 + 1)).unwrap());
        }
    }
}

fn keys(message_id: u64, references: &[u64], base_subject: u64, is_reply: bool) -> ThreadKeys {
    ThreadKeys {
        message_id,
        references: references.to_vec(),
        base_subject,
        untagged_subject: 0,
        is_reply,
    }
}

fn with_untagged(untagged_subject: u64, keys: ThreadKeys) -> ThreadKeys {
    ThreadKeys {
        untagged_subject,
        ..keys
    }
}

/// Returns the members and the id of each thread, without union-find.
fn reference(messages: &[Input]) -> BTreeMap<ThreadId, BTreeSet<MessageNumber>> {
    let mut by_id: HashMap<u64, Vec<usize>> = HashMap::new();
    for (at, (_, _, keys)) in messages.iter().enumerate() {
        for id in keys.references.iter().chain([&keys.message_id]) {
            by_id.entry(*id).or_default().push(at);
        }
    }
    let age = |at: &usize| (messages[*at].1, &messages[*at].2);
    let with_id = |id: u64| {
        let candidates = by_id.get(&id).into_iter().flatten().copied();
        candidates
            .filter(|at| messages[*at].2.message_id == id)
            .min_by_key(age)
    };
    let mut visited = vec![false; messages.len()];
    let mut with_subject: Vec<(Vec<usize>, u64, &ThreadKeys)> = Vec::new();
    let mut threads = BTreeMap::new();
    let mut insert = |root: u64, members: &[usize]| {
        let members = members.iter().map(|at| messages[*at].0).collect();
        assert!(threads.insert(ThreadId(root), members).is_none());
    };
    for start in 0..messages.len() {
        if std::mem::replace(&mut visited[start], true) {
            continue;
        }
        let (mut component, mut next) = (vec![start], 0);
        while let Some(at) = component.get(next) {
            next += 1;
            let keys = &messages[*at].2;
            for id in keys.references.iter().chain([&keys.message_id]) {
                for other in by_id.get(id).into_iter().flatten() {
                    if !std::mem::replace(&mut visited[*other], true) {
                        component.push(*other);
                    }
                }
            }
        }
        component.sort_by_key(age);
        let oldest = component[0];
        let (mut root, mut message) = (messages[oldest].2.message_id, Some(oldest));
        for _ in 0..MAX_DEPTH {
            let Some(first) = message.and_then(|at| messages[at].2.references.first()) else {
                break;
            };
            root = *first;
            message = with_id(root);
        }
        let subject = &messages[message.unwrap_or(oldest)].2;
        if subject.base_subject == 0 {
            insert(root, &component);
        } else {
            with_subject.push((component, root, subject));
        }
    }
    let fixed: BTreeSet<_> = with_subject
        .iter()
        .filter(|(_, _, subject)| subject.untagged_subject == 0)
        .map(|(_, _, subject)| subject.base_subject)
        .collect();
    let mut by_subject: BTreeMap<u64, Vec<(Vec<usize>, u64, bool)>> = BTreeMap::new();
    for (component, root, subject) in with_subject {
        let (base, untagged) = (subject.base_subject, subject.untagged_subject);
        let is_untagged = untagged != 0 && fixed.contains(&untagged) && !fixed.contains(&base);
        let same = by_subject.entry(if is_untagged { untagged } else { base });
        same.or_default().push((component, root, subject.is_reply));
    }
    for mut components in by_subject.into_values() {
        components.sort_by_key(|(members, _, _)| age(&members[0]));
        if components.iter().any(|(_, _, is_reply)| *is_reply) {
            let members: Vec<_> = components.iter().flat_map(|(m, _, _)| m.clone()).collect();
            insert(components[0].1, &members);
        } else {
            for (members, root, _) in components {
                insert(root, &members);
            }
        }
    }
    threads
}

fn grouped(threads: &Threads, messages: &[Input]) -> BTreeMap<ThreadId, BTreeSet<MessageNumber>> {
    let mut grouped: BTreeMap<_, BTreeSet<MessageNumber>> = BTreeMap::new();
    for (number, _, _) in messages {
        let thread = threads.thread_of(*number).unwrap();
        grouped.entry(thread).or_default().insert(*number);
    }
    for (thread, numbers) in &grouped {
        let members = threads.members(*thread);
        assert_eq!(members.len(), numbers.len());
        assert_eq!(&members.into_iter().collect::<BTreeSet<_>>(), numbers);
    }
    for (number, _, keys) in messages {
        let own = keys.own_thread_id().to_string();
        assert_eq!(threads.find(&own), threads.thread_of(*number), "{own}");
    }
    grouped
}

/// Returns conversations like those of a mailbox: replies with full, shortened and missing
/// references, equal dates, wrong clocks, missing messages, duplicates and repeated subjects.
fn mailbox(count: u64, chance: &mut Chance) -> Vec<Input> {
    let mut messages: Vec<Input> = Vec::new();
    let mut recent: Vec<(u64, Vec<u64>, u64)> = Vec::new();
    for number in 0..count {
        let id = chance.below(u64::MAX) | 1;
        let (mut references, mut subject, mut is_reply) = (Vec::new(), 0, false);
        if chance.below(3) > 0 && !recent.is_empty() {
            let parent = usize::try_from(chance.below(recent.len() as u64)).unwrap();
            let (parent_id, ancestors, parent_subject) = &recent[parent];
            match chance.below(8) {
                0 => references.push(*parent_id),
                1 => {}
                2 if ancestors.len() > 2 => references.extend([ancestors[0], *parent_id]),
                _ => references.extend(ancestors.iter().chain([parent_id])),
            }
            (subject, is_reply) = (*parent_subject, chance.below(10) > 0);
        } else if chance.below(5) > 0 {
            // Some subjects are frequent.
            let subjects = if chance.below(4) == 0 { 20 } else { count };
            subject = 1 + chance.below(subjects);
        }
        let clock_error = if chance.below(20) == 0 {
            chance.below(50)
        } else {
            0
        };
        let date = i64::try_from(number / 3).unwrap() - i64::try_from(clock_error).unwrap();
        recent.push((id, references.clone(), subject));
        if recent.len() > 50 {
            recent.swap_remove(usize::try_from(chance.below(50)).unwrap());
        }
        let mut keys = keys(id, &references, subject, is_reply);
        if is_reply && subject % 3 == 0 {
            keys = with_untagged(1 + subject / 2, keys);
        }
        match chance.below(20) {
            0 => {}
            1 => messages.extend([
                (MessageNumber(2 * number), date, keys.clone()),
                (MessageNumber(2 * number + 1), date, keys),
            ]),
            _ => messages.push((MessageNumber(2 * number), date, keys)),
        }
    }
    messages
}

/// Returns messages with few Message-IDs, subjects and dates, and with many cycles and self
/// references.
fn tangle(count: u64, ids: u64, chance: &mut Chance) -> Vec<Input> {
    (0..count)
        .map(|number| {
            let references: Vec<_> = (0..chance.below(3))
                .map(|_| 1 + chance.below(ids))
                .collect();
            let keys = keys(
                1 + chance.below(ids),
                &references,
                chance.below(6),
                chance.below(3) == 0,
            );
            let untagged = if keys.is_reply && keys.base_subject > 3 {
                chance.below(3)
            } else {
                0
            };
            let keys = with_untagged(untagged, keys);
            (
                MessageNumber(number),
                i64::try_from(chance.below(5)).unwrap(),
                keys,
            )
        })
        .collect()
}

#[test]
fn fifty_thousand_messages_in_random_order_equal_the_reference() {
    let mut chance = Chance(0x0f1e_2d3c_4b5a_6978);
    let mut messages = mailbox(51_000, &mut chance);
    assert!(messages.len() >= 50_000);
    let expected = reference(&messages);
    assert!(expected.len() > 5_000 && expected.values().any(|members| members.len() > 20));
    for _ in 0..3 {
        chance.shuffle(&mut messages);
        let threads = Threads::build(messages.iter().cloned());
        assert_eq!(threads.len(), messages.len());
        assert_eq!(grouped(&threads, &messages), expected);
    }
    let mut threads = Threads::default();
    for (number, date, keys) in messages.iter().cloned() {
        threads.add(number, date, keys);
    }
    assert_eq!(grouped(&threads, &messages), expected);
}

#[test]
fn adding_and_removing_messages_equals_building_from_the_rest() {
    let mut chance = Chance(0x1234_5678_9abc_def1);
    for round in 0..400 {
        let count = 1 + chance.below(60);
        let mut messages = if round % 4 == 0 {
            mailbox(count, &mut chance)
        } else {
            let ids = 2 + chance.below(80);
            tangle(count, ids, &mut chance)
        };
        let half = messages.len() / 2;
        let mut threads = Threads::build(messages[..half].iter().cloned());
        for (number, date, keys) in messages[half..].iter().cloned() {
            threads.add(number, date, keys);
        }
        assert_eq!(
            grouped(&threads, &messages),
            reference(&messages),
            "{messages:?}"
        );
        for _ in 0..4 {
            chance.shuffle(&mut messages);
            let kept = usize::try_from(chance.below(messages.len() as u64 + 1)).unwrap();
            let removed = messages.split_off(kept);
            let mut numbers: Vec<_> = removed.iter().map(|(number, _, _)| *number).collect();
            numbers.extend([MessageNumber(u64::MAX); 2]);
            threads.remove(&numbers);
            assert_eq!(threads.len(), messages.len());
            assert_eq!(
                grouped(&threads, &messages),
                reference(&messages),
                "{messages:?}"
            );
            assert!(
                numbers
                    .iter()
                    .all(|number| threads.thread_of(*number).is_none())
            );
            // No Message-ID of a removed message remains.
            let rebuilt = Threads::build(messages.iter().cloned());
            assert_eq!(threads.by_id.len(), rebuilt.by_id.len());
            assert_eq!(threads.replies, rebuilt.replies);
            assert_eq!(threads.by_subject.len(), rebuilt.by_subject.len());
            for (number, date, keys) in removed.into_iter().take(5) {
                threads.add(number, date, keys.clone());
                messages.push((number, date, keys));
            }
        }
    }
}

#[test]
fn every_order_of_arrival_has_the_same_result() {
    let messages = [
        (MessageNumber(1), 10, keys(100, &[], 1, false)),
        (MessageNumber(2), 20, keys(101, &[100], 1, true)),
        (MessageNumber(3), 20, keys(102, &[100, 101], 1, true)),
        (MessageNumber(4), 20, keys(103, &[99], 1, true)),
        (MessageNumber(5), 5, keys(104, &[105], 2, true)),
        (MessageNumber(6), 30, keys(105, &[], 2, false)),
    ];
    let expected = reference(&messages);
    assert_eq!(expected.len(), 2);
    let mut orders = vec![vec![]];
    for _ in 0..messages.len() {
        let longer = |order: &Vec<usize>| {
            let order = order.clone();
            (0..messages.len())
                .filter(|at| !order.contains(at))
                .map(|at| [order.clone(), vec![at]].concat())
                .collect::<Vec<_>>()
        };
        orders = orders.iter().flat_map(longer).collect();
    }
    assert_eq!(orders.len(), 720);
    for order in orders {
        let mut threads = Threads::default();
        for at in order {
            let (number, date, keys) = messages[at].clone();
            threads.add(number, date, keys);
        }
        assert_eq!(grouped(&threads, &messages), expected);
    }
}

#[test]
fn components_are_merged_by_subject_only_if_one_has_a_reply_prefix() {
    let plain = |number| (MessageNumber(number), 0, keys(number, &[], 7, false));
    let mut threads = Threads::build([plain(1), plain(2), plain(3)]);
    assert_ne!(
        threads.thread_of(MessageNumber(1)),
        threads.thread_of(MessageNumber(2))
    );
    threads.add(MessageNumber(4), 1, keys(4, &[], 7, true));
    assert_eq!(
        threads.members(threads.thread_of(MessageNumber(4)).unwrap()),
        [1, 2, 3, 4].map(MessageNumber)
    );
    threads.remove(&[MessageNumber(4)]);
    assert_ne!(
        threads.thread_of(MessageNumber(1)),
        threads.thread_of(MessageNumber(2))
    );
    // An empty subject is not the subject of a thread.
    let empty = |number, is_reply| (MessageNumber(number), 0, keys(number, &[], 0, is_reply));
    let threads = Threads::build([empty(1, true), empty(2, true), empty(3, false)]);
    assert_ne!(
        threads.thread_of(MessageNumber(1)),
        threads.thread_of(MessageNumber(2))
    );
    assert_ne!(
        threads.thread_of(MessageNumber(1)),
        threads.thread_of(MessageNumber(3))
    );
}

#[test]
fn a_reply_with_a_tag_joins_the_subject_with_the_tag_or_without() {
    let message = |number: u64, subject: &str| {
        let fields = ThreadFields {
            subject,
            ..ThreadFields::default()
        };
        let number = MessageNumber(number);
        (number, i64::try_from(number).unwrap(), fields.keys(number))
    };
    let grouped = |subjects: &[&str]| {
        let messages = (1..).zip(subjects);
        let messages = messages.map(|(number, subject)| message(number, subject));
        let mut threads = Threads::default();
        for (number, date, keys) in messages {
            threads.add(number, date, keys);
        }
        let mut groups: BTreeMap<ThreadId, Vec<u64>> = BTreeMap::new();
        for number in 1..=subjects.len() as u64 {
            groups
                .entry(threads.thread_of(MessageNumber(number)).unwrap())
                .or_default()
                .push(number);
        }
        groups.into_values().collect::<BTreeSet<_>>()
    };
    let sets = |sets: &[&[u64]]| sets.iter().map(|set| set.to_vec()).collect::<BTreeSet<_>>();
    assert_eq!(grouped(&["x", "[List] Re: x"]), sets(&[&[1, 2]]));
    assert_eq!(
        grouped(&["[List] Re: x", "x", "Re: [List] x"]),
        sets(&[&[1, 2, 3]])
    );
    assert_eq!(grouped(&["[List] x", "[List] Re: x"]), sets(&[&[1, 2]]));
    assert_eq!(
        grouped(&["x", "[List] Re: x", "[List] x"]),
        sets(&[&[1], &[2, 3]])
    );
    assert_eq!(grouped(&["[A] x", "[B] x"]), sets(&[&[1], &[2]]));
    assert_eq!(grouped(&["[A] Re: x", "[B] Re: x"]), sets(&[&[1], &[2]]));
    assert_eq!(
        grouped(&["[A] x", "[B] x", "[A] Re: x", "Re: [B] x"]),
        sets(&[&[1, 3], &[2, 4]])
    );
}

/// The limit is generous, because tests run without optimization and next to other programs.
#[test]
fn many_tags_of_one_subject_take_little_time() {
    let started = Instant::now();
    let reply = |number: u64| {
        let keys = keys(number, &[], 1000 + number, true);
        (MessageNumber(number), 0, with_untagged(1, keys))
    };
    let mut threads = Threads::build((1..5_000).map(reply));
    for number in 5_000..10_000 {
        threads.add(MessageNumber(number), 1, keys(number, &[], 1, false));
        threads.add(
            MessageNumber(2 * number),
            1,
            keys(2 * number, &[number], 1, true),
        );
    }
    assert_eq!(threads.merged().count(), 4_999 + 2 * 5_000 - 1);
    assert!(started.elapsed() < Duration::from_secs(10));
}

#[test]
fn only_the_subject_of_the_root_counts() {
    // The second message changes the subject of its thread.
    let threads = Threads::build([
        (MessageNumber(1), 0, keys(1, &[], 7, false)),
        (MessageNumber(2), 1, keys(2, &[1], 8, true)),
        (MessageNumber(3), 2, keys(3, &[], 8, false)),
    ]);
    assert_ne!(
        threads.thread_of(MessageNumber(2)),
        threads.thread_of(MessageNumber(3))
    );
    // Without its root, the subject of the oldest message counts.
    let threads = Threads::build([
        (MessageNumber(2), 1, keys(2, &[1], 8, true)),
        (MessageNumber(3), 2, keys(3, &[], 8, false)),
    ]);
    assert_eq!(
        threads.thread_of(MessageNumber(2)),
        threads.thread_of(MessageNumber(3))
    );
}

#[test]
fn the_id_stays_when_replies_arrive_and_when_the_root_arrives_late_or_is_deleted() {
    let mut threads = Threads::build([(MessageNumber(2), 20, keys(102, &[101], 7, true))]);
    let id = threads.thread_of(MessageNumber(2)).unwrap();
    assert_eq!(id, keys(102, &[101], 7, true).own_thread_id());
    threads.add(MessageNumber(3), 30, keys(103, &[101, 102], 7, true));
    assert_eq!(threads.thread_of(MessageNumber(3)), Some(id));
    threads.add(MessageNumber(1), 10, keys(101, &[], 7, false));
    assert_eq!(threads.thread_of(MessageNumber(2)), Some(id));
    assert_eq!(threads.members(id), [1, 2, 3].map(MessageNumber));
    threads.remove(&[MessageNumber(1)]);
    assert_eq!(threads.thread_of(MessageNumber(3)), Some(id));
    threads.remove(&[MessageNumber(2)]);
    assert_eq!(threads.thread_of(MessageNumber(3)), Some(id));
}

#[test]
fn the_old_id_of_a_merged_thread_is_found() {
    let mut threads = Threads::build([
        (MessageNumber(1), 10, keys(101, &[], 1, false)),
        (MessageNumber(2), 20, keys(102, &[], 2, false)),
    ]);
    let [first, second] = [1, 2].map(|number| threads.thread_of(MessageNumber(number)).unwrap());
    threads.add(MessageNumber(3), 30, keys(103, &[101, 102], 1, true));
    assert_eq!(threads.find(&second.to_string()), Some(first));
    assert_eq!(threads.members(first), [1, 2, 3].map(MessageNumber));
    assert!(threads.members(second).is_empty());
    for unknown in ["", "0000000000000001", "x"] {
        assert_eq!(threads.find(unknown), None);
    }
}

/// The limit is generous, because tests run without optimization and next to other programs.
#[test]
fn a_hundred_thousand_hostile_messages_take_little_time() {
    const COUNT: u64 = 100_000;
    let chain = |number: u64| {
        (
            MessageNumber(number),
            -i64::try_from(number).unwrap(),
            keys(number + 1, &[number], 1, true),
        )
    };
    let star = |number: u64| {
        (
            MessageNumber(number),
            0,
            keys(number + 1, &[COUNT * 2], number, true),
        )
    };
    let same_subject = |number: u64| {
        (
            MessageNumber(number),
            0,
            keys(number + 1, &[], 1, number == 0),
        )
    };
    let inputs: [&dyn Fn(u64) -> Input; 3] = [&chain, &star, &same_subject];
    for input in inputs {
        let started = Instant::now();
        let mut threads = Threads::build((0..COUNT).map(input));
        assert_eq!(
            threads
                .members(threads.thread_of(MessageNumber(0)).unwrap())
                .len(),
            100_000
        );
        for number in COUNT..COUNT + 1000 {
            let (number, date, keys) = input(number);
            threads.add(number, date, keys);
            assert!(threads.thread_of(number).is_some());
        }
        assert!(started.elapsed() < Duration::from_secs(20));
    }
}
