//! Decides which segments of an index are merged.

use tantivy::SegmentMeta;
use tantivy::index::SegmentId;

/// The number of segments above which small segments are merged.
pub(crate) const MAX_SEGMENTS: usize = 10;

/// The number of segments above which small segments are merged while an index is built. The limit
/// is high, because [`all`] selects the segments for one final merge.
pub(crate) const MAX_SEGMENTS_OF_BUILD: usize = 64;

/// The share of deleted documents above which a segment is written again without these documents,
/// in per cent.
const MAX_DELETED: u64 = 30;

/// Returns the segments to merge into one segment, or `None` if no merge is necessary. Small
/// segments are merged only if the index has more than `max` segments.
pub(crate) fn candidates(segments: &[SegmentMeta], max: usize) -> Option<Vec<SegmentId>> {
    let deleted = |segment: &&SegmentMeta| {
        u64::from(segment.num_deleted_docs()) * 100 > u64::from(segment.max_doc()) * MAX_DELETED
    };
    if let Some(segment) = segments.iter().find(deleted) {
        return Some(vec![segment.id()]);
    }
    let mut sizes: Vec<_> = segments
        .iter()
        .map(|segment| (segment.num_docs(), segment.id()))
        .collect();
    sizes.sort_unstable_by_key(|&(documents, _)| documents);
    let documents: Vec<_> = sizes.iter().map(|&(documents, _)| documents).collect();
    let count = smallest(&documents, max);
    (count > 1).then(|| sizes[..count].iter().map(|&(_, id)| id).collect())
}

/// Returns all segments if more than a tenth of the messages are not in the largest segment.
pub(crate) fn all(segments: &[SegmentMeta]) -> Option<Vec<SegmentId>> {
    let messages: u64 = segments
        .iter()
        .map(|segment| u64::from(segment.num_docs()))
        .sum();
    let largest = segments
        .iter()
        .map(|segment| u64::from(segment.num_docs()))
        .max()?;
    (largest * 10 < messages * 9).then(|| segments.iter().map(SegmentMeta::id).collect())
}

/// Returns how many of the smallest segments are merged. `sizes` contains the number of documents
/// of each segment, ascending.
///
/// The merge includes a larger segment only if the smaller segments together have at least half the
/// size of the larger segment. So a message is copied only if its segment grows by at least half,
/// which limits how often a message is copied.
fn smallest(sizes: &[u32], max: usize) -> usize {
    if sizes.len() <= max {
        return 0;
    }
    let mut count = 2;
    let mut sum: u64 = sizes.iter().take(2).map(|&size| u64::from(size)).sum();
    for &size in &sizes[2..] {
        if sum.saturating_mul(2) < u64::from(size) {
            break;
        }
        sum += u64::from(size);
        count += 1;
    }
    count
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_segments_and_few_copies_remain() {
        // Each commit adds one message. The second number is how often messages are copied on
        // average.
        for (commit, messages) in [(1, 20_000), (1_000, 1_000_000)] {
            let mut sizes: Vec<u32> = Vec::new();
            let mut copied = 0_u64;
            for _ in 0..messages / commit {
                sizes.push(commit);
                sizes.sort_unstable();
                loop {
                    let count = smallest(&sizes, MAX_SEGMENTS);
                    if count == 0 {
                        break;
                    }
                    let merged = sizes.drain(..count).sum();
                    copied += u64::from(merged);
                    sizes.push(merged);
                    sizes.sort_unstable();
                }
                assert!(sizes.len() <= MAX_SEGMENTS);
            }
            let average = copied / u64::from(messages);
            assert!(
                average <= 6,
                "messages of {commit} are copied {average} times"
            );
        }
    }
}
