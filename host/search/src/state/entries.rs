//! The states of messages by message number.
//!
//! The message numbers of a mailbox are dense, except for a large gap after the restore of a
//! backup. Therefore the entries are in blocks of consecutive message numbers.

use super::Entry;

/// A message number extends the preceding block if fewer than `GAP` unused message numbers are
/// between the end of the block and the message number. Otherwise the message number begins a new
/// block. The first message number of a block is a multiple of `GAP`.
const GAP: u64 = 1 << 12;

/// Maximum number of blocks. The limit bounds the memory if message numbers are wrong.
const MAX_BLOCKS: usize = 1 << 12;

/// Maximum number of entries in a block. The limit bounds the memory if message numbers are wrong.
const MAX_LENGTH: u64 = 1 << 31;

/// The states of messages by message number.
#[derive(Debug, Default)]
pub(super) struct Entries {
    /// The blocks, ascending. Blocks do not overlap.
    blocks: Vec<Block>,
}

#[derive(Debug)]
struct Block {
    /// The message number of the first entry.
    first: u64,
    entries: Vec<Entry>,
}

impl Block {
    fn end(&self) -> u64 {
        self.first + self.entries.len() as u64
    }
}

impl Entries {
    /// Returns the entry of a message.
    #[inline]
    pub(super) fn get(&self, number: u64) -> Option<Entry> {
        let block = self.blocks.get(self.block(number)?)?;
        let entry = block
            .entries
            .get(usize::try_from(number - block.first).ok()?);
        entry.copied().filter(Entry::is_used)
    }

    /// Sets the entry of a message. Returns `false` if the entry would exceed `MAX_BLOCKS` or
    /// `MAX_LENGTH`.
    pub(super) fn set(&mut self, number: u64, entry: Entry) -> bool {
        let Some(index) = self.block_for(number) else {
            return false;
        };
        let block = &mut self.blocks[index];
        let Ok(position) = usize::try_from(number - block.first) else {
            return false;
        };
        if block.entries.len() <= position {
            block.entries.resize(position + 1, Entry::UNUSED);
        }
        block.entries[position] = entry;
        true
    }

    /// Removes the entry of a message, and returns it.
    pub(super) fn remove(&mut self, number: u64) -> Option<Entry> {
        let index = self.block(number)?;
        let block = &mut self.blocks[index];
        let position = usize::try_from(number - block.first).ok()?;
        let entry = std::mem::replace(block.entries.get_mut(position)?, Entry::UNUSED);
        entry.is_used().then_some(entry)
    }

    /// Returns the used entries, ascending by number.
    pub(super) fn iter(&self) -> impl Iterator<Item = (u64, &Entry)> {
        let all = self
            .blocks
            .iter()
            .flat_map(|block| (block.first..).zip(&block.entries));
        all.filter(|(_, entry)| entry.is_used())
    }

    /// Returns the memory of the entries, in bytes.
    pub(super) fn memory(&self) -> usize {
        let entries = self.blocks.iter().map(|block| block.entries.capacity());
        entries.sum::<usize>() * size_of::<Entry>()
    }

    /// Returns the index of the last block that begins at or before a message number.
    #[inline]
    fn block(&self, number: u64) -> Option<usize> {
        let after = self.blocks.partition_point(|block| block.first <= number);
        after.checked_sub(1)
    }

    /// Returns the index of the block that can contain a message number. Creates the block if it is
    /// missing. Returns `None` if a limit is reached.
    fn block_for(&mut self, number: u64) -> Option<usize> {
        let before = self.block(number);
        if let Some(index) = before {
            let block = &self.blocks[index];
            if number < block.end().saturating_add(GAP) {
                return (number - block.first < MAX_LENGTH).then_some(index);
            }
        }
        if self.blocks.len() >= MAX_BLOCKS {
            return None;
        }
        let index = before.map_or(0, |index| index + 1);
        // The previous block ends at least `GAP` numbers before `number`. The new block begins less
        // than `GAP` numbers before `number`. Therefore the blocks do not overlap.
        let new = Block {
            first: number - number % GAP,
            entries: Vec::new(),
        };
        self.blocks.insert(index, new);
        Some(index)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use latchmail_core::message_number::Uid;

    use super::*;

    fn entry(imap_uid: u32) -> Entry {
        Entry {
            folder: 0,
            imap_uid: Uid(imap_uid),
            flags: 0,
        }
    }

    #[test]
    fn entries_in_any_order_are_found_by_their_numbers() {
        let mut entries = Entries::default();
        let mut expected = BTreeMap::new();
        let mut random = 1_u32;
        for step in 0..60_000_u32 {
            random = random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            let start = [0, 10_000, 1_800_000_000_000_000][(random >> 8) as usize % 3];
            let number = start + u64::from(random >> 17);
            if step % 5 == 4 {
                let removed = entries.remove(number).map(|entry| entry.imap_uid.0);
                assert_eq!(removed, expected.remove(&number));
            } else {
                assert!(entries.set(number, entry(random)));
                expected.insert(number, random);
            }
        }
        let found: Vec<(u64, u32)> = entries
            .iter()
            .map(|(number, e)| (number, e.imap_uid.0))
            .collect();
        assert_eq!(found, expected.clone().into_iter().collect::<Vec<_>>());
        for (number, imap_uid) in expected {
            assert_eq!(entries.get(number).map(|e| e.imap_uid.0), Some(imap_uid));
        }
        let ends: Vec<u64> = entries.blocks.iter().map(Block::end).collect();
        let starts = entries.blocks.iter().skip(1).map(|block| block.first);
        assert!(ends.iter().zip(starts).all(|(end, start)| *end <= start));
    }

    #[test]
    fn a_large_gap_needs_no_memory() {
        let mut entries = Entries::default();
        for number in 1..=1000 {
            entries.set(number, entry(1));
            entries.set(1_800_000_000_000_000 + number, entry(2));
        }
        assert!(entries.memory() < 200_000, "{}", entries.memory());
        assert_eq!(entries.get(1001).map(|e| e.imap_uid.0), None);
        assert_eq!(entries.get(u64::MAX).map(|e| e.imap_uid.0), None);
    }

    #[test]
    fn the_number_of_blocks_is_limited() {
        let mut entries = Entries::default();
        let set = |block: u64| entries.set(block * 10 * GAP, entry(1));
        assert_eq!(
            (1..=MAX_BLOCKS as u64 + 9)
                .map(set)
                .filter(|set| !set)
                .count(),
            9
        );
    }
}
