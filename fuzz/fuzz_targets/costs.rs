//! Long repetitions, whose cost must not grow faster than their length.

#![no_main]

use latchmail_core::fuzzing::{cheap, pieces};
use latchmail_imap::fuzzing::imap_replies;
use latchmail_mime::fuzzing::{header, message};

use libfuzzer_sys::fuzz_target;

/// The bytes of the longest header that is read.
const LONGEST: usize = 256 * 1024;

fuzz_target!(|input: &[u8]| {
    let mut pieces = pieces(input).map(|piece| piece.get(..1024).unwrap_or(piece));
    let mut piece = || pieces.next().unwrap_or_default();
    let (kind, before, unit, after) = (piece(), piece(), piece(), piece());
    if unit.is_empty() {
        return;
    }
    let long = [before, &unit.repeat(LONGEST / unit.len()), after].concat();
    cheap(|| match kind.first().map(|byte| byte % 3) {
        Some(0) => message(&long, true),
        Some(1) => header(&long),
        _ => imap_replies(&long),
    });
});
