//! Long repetitions, whose cost must not grow faster than their length.

#![no_main]

use latchmail::fuzzing;
use libfuzzer_sys::fuzz_target;

/// The bytes of the longest header that is read.
const LONGEST: usize = 256 * 1024;

fuzz_target!(|input: &[u8]| {
    let mut pieces = fuzzing::pieces(input).map(|piece| piece.get(..1024).unwrap_or(piece));
    let mut piece = || pieces.next().unwrap_or_default();
    let (kind, before, unit, after) = (piece(), piece(), piece(), piece());
    if unit.is_empty() {
        return;
    }
    let long = [before, &unit.repeat(LONGEST / unit.len()), after].concat();
    fuzzing::cheap(|| match kind.first().map(|byte| byte % 3) {
        Some(0) => fuzzing::message(&long, true),
        Some(1) => fuzzing::header(&long),
        _ => fuzzing::imap_replies(&long),
    });
});
