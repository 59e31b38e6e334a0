//! Groups messages into threads.
//!
//! The rules are those of the algorithm of Jamie Zawinski
//! (<https://www.jwz.org/doc/threading.html>) without its trees:
//!
//! 1. Messages are linked if one refers to the other, or if both refer to the same message, even if
//!    that message does not exist. Linked messages form a *component*.
//! 2. The *root* of a component is the first reference of its oldest message, or the oldest message
//!    if it has no references. If the root is a message with references, the first of these
//!    references is the root, and so on.
//! 3. The subject of a component is the subject of its root, or of its oldest message if the root
//!    does not exist. Components with the same subject form one thread if at least one of the
//!    subjects has a reply prefix. A reply whose subject has a tag, for example `[list] Re: Plan`,
//!    belongs to the subject `[list] Plan` if another component has this subject without a reply
//!    prefix. Otherwise it belongs to the subject `Plan`, if another component has that subject.
//! 4. The id of a thread is the root of its oldest component.
//!
//! The oldest of several messages has the smallest date, and with equal dates the smallest keys.
//! Therefore the threads depend neither on the order in which messages arrive nor on the message
//! numbers.

mod keys;
mod subject;
#[cfg(test)]
mod tests;

use std::collections::{BTreeSet, HashMap};

use latchmail_core::message_number::MessageNumber;

pub use keys::{InvalidThreadId, ThreadFields, ThreadId, ThreadKeys};
pub use subject::without_reply_prefixes;

/// The value of an index that refers to no element.
const NONE: u32 = u32::MAX;

/// Maximum number of references that are followed to the root of a component. References can form a
/// cycle.
const MAX_DEPTH: usize = 100;

/// The threads of a mailbox.
///
/// A mailbox can have at most `u32::MAX - 1` messages and Message-IDs.
#[derive(Debug, Default)]
pub struct Threads {
    messages: Vec<Message>,
    nodes: Vec<Node>,
    /// The indexes of removed elements of `messages`. `free_nodes` has the indexes of removed
    /// elements of `nodes`.
    free_messages: Vec<u32>,
    free_nodes: Vec<u32>,
    /// The indexes of the messages, by number.
    by_number: HashMap<MessageNumber, u32>,
    /// The indexes of the nodes, by the hash of the Message-ID.
    by_id: HashMap<u64, u32>,
    /// The components with a subject, ordered by subject and age.
    by_subject: BTreeSet<SubjectEntry>,
    /// The number of components whose subject has a reply prefix, by subject.
    replies: HashMap<u64, u32>,
    /// The number of components with only one possible subject, by subject. The subject of such a
    /// component does not depend on other components.
    fixed: HashMap<u64, u32>,
    /// The components with two possible subjects (with and without tags), by each of the two
    /// subjects.
    tagged_replies: BTreeSet<(u64, u32)>,
    /// The subjects whose components have changed. The value says whether `fixed` contained the
    /// subject before the change. Empty except during a change.
    changed: HashMap<u64, bool>,
    /// The components whose entries must be added to `by_subject`. Empty except during a change.
    pending: Vec<u32>,
}

#[derive(Debug)]
struct Message {
    number: MessageNumber,
    date: i64,
    keys: ThreadKeys,
    /// The index of the next message of the same component. The messages of a component form a ring
    /// (a circular list).
    next: u32,
}

/// A Message-ID that belongs to a message or that a message refers to. The nodes of a component
/// form a tree for union-find.
#[derive(Debug)]
struct Node {
    /// The index of the oldest message with this Message-ID, or `NONE` if no such message exists.
    message: u32,
    /// The parent in the tree, or the node itself.
    parent: u32,
    /// The data of the component. Only valid in the root of the tree.
    component: Component,
}

#[derive(Clone, Copy, Debug)]
struct Component {
    /// The number of nodes.
    size: u32,
    /// The index of the oldest message. `NONE` only while the first message is added.
    oldest: u32,
    root: u64,
    base_subject: u64,
    untagged_subject: u64,
    is_reply: bool,
    /// The subject of the component's entry in `by_subject`, or 0 if there is no entry.
    subject: u64,
}

/// An entry of `Threads::by_subject`: the subject of a component, the date and the Message-ID of
/// the component's oldest message, and the component's node. No two entries have the same first
/// three values.
type SubjectEntry = (u64, i64, u64, u32);

impl Threads {
    /// Groups messages into threads. Each element has the message number, the date in milliseconds
    /// since 1970, and the keys of a message. If a message number occurs twice, the second message
    /// is ignored.
    #[must_use]
    pub fn build(messages: impl IntoIterator<Item = (MessageNumber, i64, ThreadKeys)>) -> Self {
        let messages = messages.into_iter();
        let mut threads = Self::default();
        let count = messages.size_hint().0;
        threads.messages.reserve(count);
        threads.nodes.reserve(count);
        threads.by_number.reserve(count);
        threads.by_id.reserve(count);
        for (number, date, keys) in messages {
            if !threads.by_number.contains_key(&number) {
                threads.link(number, date, keys);
            }
        }
        for node in 0..threads.nodes.len() {
            if threads.nodes[node].parent as usize == node {
                threads.classify(to_index(node));
            }
        }
        threads.settle();
        threads
    }

    /// Adds a message. The result is the same as if the message had been passed to
    /// [`Threads::build`]. Does nothing if the number is known.
    pub fn add(&mut self, number: MessageNumber, date: i64, keys: ThreadKeys) {
        if !self.by_number.contains_key(&number) {
            self.insert(number, date, keys);
            self.settle();
        }
    }

    fn insert(&mut self, number: MessageNumber, date: i64, keys: ThreadKeys) {
        let ids = [keys.message_id]
            .into_iter()
            .chain(keys.references.iter().copied());
        let mut changed: Vec<u32> = ids
            .filter_map(|id| Some(self.component_of(*self.by_id.get(&id)?)))
            .collect();
        changed.sort_unstable();
        changed.dedup();
        for node in changed {
            self.unclassify(node);
        }
        let node = self.link(number, date, keys);
        self.classify(node);
    }

    /// Removes messages. The result is the same as if the messages had never been added. Unknown
    /// numbers are ignored. The time depends on the number of messages that are linked with the
    /// removed messages.
    pub fn remove(&mut self, numbers: &[MessageNumber]) {
        let removed: Vec<u32> = numbers
            .iter()
            .filter_map(|number| self.by_number.remove(number))
            .collect();
        let mut rest = Vec::new();
        for message in removed {
            if self.messages[message as usize].next == NONE {
                // This message was removed together with the component of an earlier message.
                continue;
            }
            let Some(&node) = self
                .by_id
                .get(&self.messages[message as usize].keys.message_id)
            else {
                continue;
            };
            let node = self.component_of(node);
            self.unclassify(node);
            for member in self.ring(self.nodes[node as usize].component.oldest) {
                self.messages[member as usize].next = NONE;
                let keys = std::mem::take(&mut self.messages[member as usize].keys);
                let ids = [keys.message_id]
                    .into_iter()
                    .chain(keys.references.iter().copied());
                for id in ids {
                    self.free_nodes.extend(self.by_id.remove(&id));
                }
                let Message { number, date, .. } = self.messages[member as usize];
                if self.by_number.remove(&number).is_some() {
                    rest.push((number, date, keys));
                }
                self.free_messages.push(member);
            }
        }
        for (number, date, keys) in rest {
            self.insert(number, date, keys);
        }
        self.settle();
    }

    /// Returns the thread of a message. Returns `None` if the message is unknown.
    #[must_use]
    pub fn thread_of(&self, number: MessageNumber) -> Option<ThreadId> {
        let message = &self.messages[*self.by_number.get(&number)? as usize];
        let node = *self.by_id.get(&message.keys.message_id)?;
        Some(self.thread_of_component(self.component_of(node)))
    }

    /// Returns the numbers of the messages with this Message-ID, in any order. A message can have
    /// copies.
    #[must_use]
    pub fn with_message_id(&self, message_id: &str) -> Vec<MessageNumber> {
        let node = keys::message_id_key(message_id)
            .and_then(|key| Some((key, self.component_of(*self.by_id.get(&key)?))));
        let Some((key, node)) = node else {
            return Vec::new();
        };
        let members = self
            .members_of(node)
            .map(|message| &self.messages[message as usize]);
        let found = members.filter(|message| message.keys.message_id == key);
        found.map(|message| message.number).collect()
    }

    /// Returns the id of the thread to which an id belongs. `id` can be the id that a thread had
    /// before it was merged with another thread, or the own thread id of any message
    /// ([`ThreadKeys::own_thread_id`]). Returns `None` if there is no such thread.
    #[must_use]
    pub fn find(&self, id: &str) -> Option<ThreadId> {
        let ThreadId(id) = id.parse().ok()?;
        let node = *self.by_id.get(&id)?;
        Some(self.thread_of_component(self.component_of(node)))
    }

    /// Returns the numbers of the messages of a thread, oldest first. The result is empty if
    /// `thread` is not the id of a thread.
    #[must_use]
    pub fn members(&self, thread: ThreadId) -> Vec<MessageNumber> {
        let Some(&node) = self.by_id.get(&thread.0) else {
            return Vec::new();
        };
        let first = self.component_of(node);
        if self.thread_of_component(first) != thread {
            return Vec::new();
        }
        let mut members: Vec<u32> = match self.components_with_subject_of(first) {
            Some(components) => components.flat_map(|node| self.members_of(node)).collect(),
            None => self.members_of(first).collect(),
        };
        // Copies of a message have the same age, so the message number decides their order.
        members.sort_unstable_by_key(|message| {
            (self.age(*message), self.messages[*message as usize].number)
        });
        let number = |message: u32| self.messages[message as usize].number;
        members.into_iter().map(number).collect()
    }

    /// Returns the numbers and the threads of the messages whose thread id is not their own thread
    /// id ([`ThreadKeys::own_thread_id`]), in any order.
    pub fn merged(&self) -> impl Iterator<Item = (MessageNumber, ThreadId)> {
        self.by_number.iter().filter_map(|(number, message)| {
            let thread = self.thread_of(*number)?;
            let own = self.messages[*message as usize].keys.own_thread_id();
            (thread != own).then_some((*number, thread))
        })
    }

    /// Returns the number of messages.
    #[must_use]
    pub fn len(&self) -> usize {
        self.by_number.len()
    }

    /// Returns `true` if there are no messages.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.by_number.is_empty()
    }

    fn thread_of_component(&self, node: u32) -> ThreadId {
        let oldest = self
            .components_with_subject_of(node)
            .and_then(|mut components| components.next());
        let component = &self.nodes[oldest.unwrap_or(node) as usize].component;
        ThreadId(component.root)
    }

    /// Returns the components with the same subject, oldest first. Returns `None` if none of them
    /// is a reply. Then each component is a thread of its own.
    fn components_with_subject_of(&self, node: u32) -> Option<impl Iterator<Item = u32>> {
        let subject = self.nodes[node as usize].component.subject;
        self.replies.get(&subject)?;
        let entries = self
            .by_subject
            .range((subject, i64::MIN, 0, 0)..=(subject, i64::MAX, u64::MAX, NONE));
        Some(entries.map(|(_, _, _, node)| *node))
    }

    fn members_of(&self, node: u32) -> impl Iterator<Item = u32> {
        self.ring(self.nodes[node as usize].component.oldest)
            .into_iter()
    }

    /// Returns the messages of the ring that contains `first`.
    fn ring(&self, first: u32) -> Vec<u32> {
        let mut ring = vec![first];
        let mut next = self.messages[first as usize].next;
        while next != first {
            ring.push(next);
            next = self.messages[next as usize].next;
        }
        ring
    }

    /// Returns the sort key of a message by age.
    fn age(&self, message: u32) -> (i64, &ThreadKeys) {
        let message = &self.messages[message as usize];
        (message.date, &message.keys)
    }

    /// Returns the older of two messages. Each argument can be `NONE`.
    fn older(&self, a: u32, b: u32) -> u32 {
        if a == NONE || b != NONE && self.age(b) < self.age(a) {
            b
        } else {
            a
        }
    }

    /// Adds a message to the component of its Message-ID and references, and returns this
    /// component. Does not update the subject of the component.
    fn link(&mut self, number: MessageNumber, date: i64, keys: ThreadKeys) -> u32 {
        let node = self.node(keys.message_id);
        let mut component = self.component_of(node);
        for id in &keys.references {
            let other = self.node(*id);
            component = self.unite(component, other);
        }
        let message = Message {
            number,
            date,
            keys,
            next: NONE,
        };
        let index = if let Some(free) = self.free_messages.pop() {
            self.messages[free as usize] = message;
            free
        } else {
            self.messages.push(message);
            to_index(self.messages.len() - 1)
        };
        self.by_number.insert(number, index);
        self.messages[index as usize].next = index;
        self.nodes[node as usize].message = self.older(self.nodes[node as usize].message, index);
        let oldest = self.nodes[component as usize].component.oldest;
        self.join_rings(oldest, index);
        self.nodes[component as usize].component.oldest = self.older(oldest, index);
        component
    }

    /// Returns the node of a Message-ID. Creates the node if it does not exist.
    fn node(&mut self, id: u64) -> u32 {
        if let Some(node) = self.by_id.get(&id) {
            return *node;
        }
        let index = self.free_nodes.pop().unwrap_or(to_index(self.nodes.len()));
        let component = Component {
            size: 1,
            oldest: NONE,
            root: id,
            base_subject: 0,
            untagged_subject: 0,
            is_reply: false,
            subject: 0,
        };
        let node = Node {
            message: NONE,
            parent: index,
            component,
        };
        match self.nodes.get_mut(index as usize) {
            Some(free) => *free = node,
            None => self.nodes.push(node),
        }
        self.by_id.insert(id, index);
        index
    }

    /// Returns the root of the tree that contains `node`. The height of a tree is logarithmic,
    /// because `unite` adds the smaller tree to the larger tree.
    fn component_of(&self, node: u32) -> u32 {
        let mut node = node;
        while self.nodes[node as usize].parent != node {
            node = self.nodes[node as usize].parent;
        }
        node
    }

    /// Unites the components of two nodes. Returns the united component.
    fn unite(&mut self, a: u32, b: u32) -> u32 {
        let (mut large, mut small) = (self.component_of(a), self.component_of(b));
        if large == small {
            return large;
        }
        let size = |node: u32| self.nodes[node as usize].component.size;
        if size(large) < size(small) {
            (large, small) = (small, large);
        }
        let (kept, added) = (
            self.nodes[large as usize].component,
            self.nodes[small as usize].component,
        );
        self.join_rings(kept.oldest, added.oldest);
        self.nodes[small as usize].parent = large;
        self.nodes[large as usize].component = Component {
            size: kept.size + added.size,
            oldest: self.older(kept.oldest, added.oldest),
            ..kept
        };
        large
    }

    /// Joins the rings of two messages of different rings. Does nothing if one of the messages is
    /// `NONE`.
    fn join_rings(&mut self, a: u32, b: u32) {
        if a != NONE && b != NONE {
            let (after_a, after_b) = (
                self.messages[a as usize].next,
                self.messages[b as usize].next,
            );
            self.messages[a as usize].next = after_b;
            self.messages[b as usize].next = after_a;
        }
    }

    /// Computes the root and the possible subjects of a component. [`Self::settle`] must follow.
    fn classify(&mut self, node: u32) {
        let oldest = self.nodes[node as usize].component.oldest;
        // A removed node has no messages.
        let Some(message) = self.messages.get(oldest as usize) else {
            return;
        };
        let first_of = |message: &Message| message.keys.references.first().copied();
        let mut root = message.keys.message_id;
        let mut reference = first_of(message);
        let mut with_subject = message;
        for _ in 0..MAX_DEPTH {
            let Some(id) = reference else { break };
            root = id;
            let found = self
                .by_id
                .get(&id)
                .map(|node| self.nodes[*node as usize].message);
            let found = found.and_then(|message| self.messages.get(message as usize));
            with_subject = found.unwrap_or(message);
            reference = found.and_then(first_of);
        }
        let ThreadKeys {
            base_subject,
            untagged_subject,
            is_reply,
            ..
        } = with_subject.keys;
        let component = &mut self.nodes[node as usize].component;
        component.root = root;
        component.base_subject = base_subject;
        component.untagged_subject = untagged_subject;
        component.is_reply = is_reply;
        component.subject = 0;
        if base_subject == 0 {
            return;
        }
        if untagged_subject == 0 {
            self.note_change(base_subject);
            *self.fixed.entry(base_subject).or_default() += 1;
        } else {
            self.tagged_replies
                .extend([(base_subject, node), (untagged_subject, node)]);
        }
        self.pending.push(node);
    }

    /// Reverts [`Self::classify`]. [`Self::settle`] must follow.
    fn unclassify(&mut self, node: u32) {
        self.remove_entry(node);
        let component = &mut self.nodes[node as usize].component;
        let base_subject = std::mem::take(&mut component.base_subject);
        let untagged_subject = component.untagged_subject;
        if base_subject == 0 {
            return;
        }
        if untagged_subject == 0 {
            self.note_change(base_subject);
            decrement(&mut self.fixed, base_subject);
        } else {
            self.tagged_replies.remove(&(base_subject, node));
            self.tagged_replies.remove(&(untagged_subject, node));
        }
    }

    fn note_change(&mut self, subject: u64) {
        let has_fixed = self.fixed.contains_key(&subject);
        self.changed.entry(subject).or_insert(has_fixed);
    }

    /// Updates `by_subject` after components were classified and unclassified.
    fn settle(&mut self) {
        let changed = std::mem::take(&mut self.changed);
        for (subject, had_fixed) in changed {
            if self.fixed.contains_key(&subject) == had_fixed {
                continue;
            }
            let range = (subject, 0)..=(subject, NONE);
            let replies: Vec<_> = self.tagged_replies.range(range).copied().collect();
            for (_, node) in replies {
                let component = self.nodes[node as usize].component;
                if component.subject != 0 && component.subject != self.subject_of(&component) {
                    self.remove_entry(node);
                    self.pending.push(node);
                }
            }
        }
        let mut entries = Vec::with_capacity(self.pending.len());
        for node in std::mem::take(&mut self.pending) {
            let component = self.nodes[node as usize].component;
            // After the component was added to `pending`, it can have been united with another
            // component.
            if component.base_subject == 0 || component.subject != 0 {
                continue;
            }
            let subject = self.subject_of(&component);
            self.nodes[node as usize].component.subject = subject;
            if component.is_reply {
                *self.replies.entry(subject).or_default() += 1;
            }
            entries.push(self.entry(node));
        }
        if self.by_subject.is_empty() {
            self.by_subject = entries.into_iter().collect();
        } else {
            self.by_subject.extend(entries);
        }
    }

    /// Returns the subject that decides with which other components the component is merged.
    fn subject_of(&self, component: &Component) -> u64 {
        let (base, untagged) = (component.base_subject, component.untagged_subject);
        let is_merged_without_tags =
            untagged != 0 && !self.fixed.contains_key(&base) && self.fixed.contains_key(&untagged);
        if is_merged_without_tags {
            untagged
        } else {
            base
        }
    }

    fn entry(&self, node: u32) -> SubjectEntry {
        let component = &self.nodes[node as usize].component;
        let oldest = &self.messages[component.oldest as usize];
        (component.subject, oldest.date, oldest.keys.message_id, node)
    }

    /// Removes the entry of a component from `by_subject`, if there is one.
    fn remove_entry(&mut self, node: u32) {
        let component = self.nodes[node as usize].component;
        if component.subject == 0 {
            return;
        }
        let entry = self.entry(node);
        self.by_subject.remove(&entry);
        self.nodes[node as usize].component.subject = 0;
        if component.is_reply {
            decrement(&mut self.replies, component.subject);
        }
    }
}

/// Decrements a count. Removes the entry if the count becomes zero.
fn decrement(counts: &mut HashMap<u64, u32>, key: u64) {
    if let Some(count) = counts.get_mut(&key) {
        *count -= 1;
        if *count == 0 {
            counts.remove(&key);
        }
    }
}

/// Converts the length of a list to an index.
fn to_index(length: usize) -> u32 {
    u32::try_from(length).unwrap_or(NONE)
}
