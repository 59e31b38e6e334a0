//! Replies of mail servers.

#![no_main]

use latchmail_core::fuzzing::{cheap, pieces};
use latchmail_imap::fuzzing::{imap_replies, imap_session};

use libfuzzer_sys::fuzz_target;

// The fuzzer's panic hook aborts on every panic. Only a panic that the service does not catch is a finding.
fuzz_target!(init: drop(std::panic::take_hook()), |input: &[u8]| {
    let Some((can, input)) = input.split_first() else {
        return;
    };
    let mut pieces = pieces(input);
    let name = String::from_utf8_lossy(pieces.next().unwrap_or_default());
    let replies: Vec<Vec<u8>> = pieces.map(<[u8]>::to_vec).collect();
    cheap(|| {
        imap_replies(&replies.concat());
        imap_session(*can, &name, &replies);
    });
});
