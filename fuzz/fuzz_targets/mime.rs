//! Fuzzes the parser of messages, complete or truncated.

#![no_main]

use latchmail_core::fuzzing::cheap;
use latchmail_mime::fuzzing::message;

use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| {
    // The first bit selects whether the message is complete.
    let Some((first, bytes)) = input.split_first() else {
        return;
    };
    cheap(|| message(bytes, first & 1 == 0));
});
