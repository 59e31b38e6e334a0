//! Fuzzes parsers with long repetitions. The time must not grow faster than the length of the
//! input.

#![no_main]

use latchmail_core::fuzzing::{cheap, pieces};
use latchmail_imap::fuzzing::imap_replies;
use latchmail_mime::fuzzing::{header, message};

use libfuzzer_sys::fuzz_target;

/// Maximum length of a message header in bytes.
const MAX_HEADER: usize = 256 * 1024;

fuzz_target!(|input: &[u8]| {
    let mut pieces = pieces(input).map(|piece| piece.get(..1024).unwrap_or(piece));
    let mut piece = || pieces.next().unwrap_or_default();
    let (kind, before, unit, after) = (piece(), piece(), piece(), piece());
    if unit.is_empty() {
        return;
    }
    let long = [before, &unit.repeat(MAX_HEADER / unit.len()), after].concat();
    cheap(|| match kind.first().map(|byte| byte % 3) {
        Some(0) => message(&long, true),
        Some(1) => header(&long),
        _ => imap_replies(&long),
    });
});
