//! Fuzzes the IMAP client with responses of mail servers.

#![no_main]

use latchmail_core::fuzzing::{cheap, pieces};
use latchmail_imap::fuzzing::{imap_replies, imap_session};

use libfuzzer_sys::fuzz_target;

// Removes the fuzzer's panic hook, which aborts on every panic: only a panic that the service does
// not catch is a finding.
fuzz_target!(init: drop(std::panic::take_hook()), |input: &[u8]| {
    let Some((capabilities, input)) = input.split_first() else {
        return;
    };
    let mut pieces = pieces(input);
    let name = String::from_utf8_lossy(pieces.next().unwrap_or_default());
    let responses: Vec<Vec<u8>> = pieces.map(<[u8]>::to_vec).collect();
    cheap(|| {
        imap_replies(&responses.concat());
        imap_session(*capabilities, &name, &responses);
    });
});
