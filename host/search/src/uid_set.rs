//! A sorted set of IMAP UIDs with fast insertion and fast positions.

use latchmail_core::message_number::Uid;

/// The maximum number of UIDs in a chunk.
const CHUNK: usize = 1024;

/// A sorted set of IMAP UIDs.
///
/// The UIDs are stored in sorted chunks of limited size. Therefore an insertion moves few UIDs. The
/// position of a UID in the set is computed from the lengths of the earlier chunks.
#[derive(Debug, Default)]
pub(crate) struct UidSet {
    /// The chunks, ascending. No chunk is empty.
    chunks: Vec<Vec<Uid>>,
    len: u32,
}

impl UidSet {
    /// Returns the index of the chunk that contains `uid`, or to which `uid` must be added.
    fn chunk(&self, uid: Uid) -> usize {
        self.chunks
            .partition_point(|chunk| chunk[0] <= uid)
            .saturating_sub(1)
    }

    /// Adds a UID.
    pub(crate) fn insert(&mut self, uid: Uid) {
        let index = self.chunk(uid);
        let Some(chunk) = self.chunks.get_mut(index) else {
            self.chunks.push(vec![uid]);
            self.len = 1;
            return;
        };
        let Err(position) = chunk.binary_search(&uid) else {
            return;
        };
        self.len += 1;
        if chunk.len() < CHUNK {
            chunk.insert(position, uid);
        } else if position == CHUNK {
            self.chunks.insert(index + 1, vec![uid]);
        } else {
            let upper = chunk.split_off(CHUNK / 2);
            self.chunks.insert(index + 1, upper);
            let (chunk, position) = if position <= CHUNK / 2 {
                (index, position)
            } else {
                (index + 1, position - CHUNK / 2)
            };
            self.chunks[chunk].insert(position, uid);
        }
    }

    /// Removes a UID.
    pub(crate) fn remove(&mut self, uid: Uid) {
        let index = self.chunk(uid);
        let Some(chunk) = self.chunks.get_mut(index) else {
            return;
        };
        if let Ok(position) = chunk.binary_search(&uid) {
            chunk.remove(position);
            self.len -= 1;
            if chunk.is_empty() {
                self.chunks.remove(index);
            }
        }
    }

    /// Returns the number of UIDs in the set that are lower than `uid`. Returns `None` if the set
    /// does not contain `uid`.
    pub(crate) fn position(&self, uid: Uid) -> Option<u32> {
        let index = self.chunk(uid);
        let position = self.chunks.get(index)?.binary_search(&uid).ok()?;
        let before: usize = self.chunks[..index].iter().map(Vec::len).sum();
        u32::try_from(before + position).ok()
    }

    /// Returns the number of UIDs.
    pub(crate) fn len(&self) -> u32 {
        self.len
    }

    /// Returns the memory that the set uses, in bytes.
    pub(crate) fn memory(&self) -> usize {
        self.chunks
            .iter()
            .map(|chunk| size_of::<Vec<Uid>>() + chunk.capacity() * size_of::<Uid>())
            .sum()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn positions_equal_those_of_a_sorted_list() {
        let mut set = UidSet::default();
        let mut expected = BTreeSet::new();
        let mut random = 1_u32;
        for step in 0..20_000 {
            random = random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            let uid = Uid(random >> 17);
            if step % 3 == 2 {
                set.remove(uid);
                expected.remove(&uid);
            } else {
                set.insert(uid);
                expected.insert(uid);
            }
        }
        for uid in (50_000..60_000).map(Uid) {
            set.insert(uid);
            expected.insert(uid);
        }
        assert_eq!(set.len() as usize, expected.len());
        for (position, &uid) in (0..).zip(&expected) {
            assert_eq!(set.position(uid), Some(position), "{uid}");
        }
        assert_eq!(set.position(Uid(60_001)), None);
        for uid in expected {
            set.remove(uid);
        }
        assert_eq!(
            (set.len(), set.chunks.len(), set.position(Uid(1))),
            (0, 0, None)
        );
    }
}
