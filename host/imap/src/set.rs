//! Sets of UIDs (sequence-set in RFC 3501, section 9). A set is sorted and has no duplicates.
//! Consecutive UIDs form a range.

use std::fmt::Write as _;

use imap_proto::rfc4315::UidSetMember;
use latchmail_core::message_number::Uid;

/// Formats UIDs as a set. The UIDs can be in any order.
pub(crate) fn set(uids: &[Uid]) -> String {
    let mut uids = uids.to_vec();
    uids.sort_unstable();
    uids.dedup();
    let mut set = String::new();
    for run in uids.chunk_by(|a, b| a.0 + 1 == b.0) {
        if !set.is_empty() {
            set.push(',');
        }
        // Writing to a `String` cannot fail.
        let _ = match run {
            [one] => write!(set, "{one}"),
            [first, .., last] => write!(set, "{first}:{last}"),
            [] => Ok(()),
        };
    }
    set
}

/// Returns the UIDs of a set from the server (RFC 4315, section 4), in the order of the set.
/// Returns `None` if the set contains more than `limit` UIDs.
pub(crate) fn members(set: &[UidSetMember], limit: usize) -> Option<Vec<Uid>> {
    let mut uids = Vec::new();
    for member in set {
        match member {
            UidSetMember::Uid(uid) => uids.push(Uid(*uid)),
            UidSetMember::UidRange(range) => {
                let more = range.clone().take(limit.saturating_sub(uids.len()) + 1);
                uids.extend(more.map(Uid));
            }
        }
        if uids.len() > limit {
            return None;
        }
    }
    Some(uids)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neighbours_are_a_range() {
        assert_eq!(set(&[5, 3, 4, 9, 9, 11, 12].map(Uid)), "3:5,9,11:12");
        assert_eq!(set(&[Uid(u32::MAX)]), "4294967295");
        assert_eq!(set(&[]), "");
    }

    #[test]
    fn a_set_of_more_than_was_asked_for_is_none() {
        let set = [UidSetMember::Uid(7), UidSetMember::UidRange(3..=5)];
        assert_eq!(members(&set, 4).unwrap(), [7, 3, 4, 5].map(Uid));
        assert_eq!(members(&set, 3), None);
        assert_eq!(members(&[UidSetMember::UidRange(1..=u32::MAX)], 200), None);
    }
}
