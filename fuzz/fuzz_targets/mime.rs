//! Messages, whole or cut.

#![no_main]

use latchmail::fuzzing;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| {
    // The first bit tells whether the message is whole.
    let Some((first, message)) = input.split_first() else {
        return;
    };
    fuzzing::cheap(|| fuzzing::message(message, first & 1 == 0));
});
