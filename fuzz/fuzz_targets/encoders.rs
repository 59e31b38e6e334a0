//! Fuzzes the encoders of clients' texts, for IMAP commands and for messages.

#![no_main]

use latchmail_core::fuzzing::{cheap, pieces, texts};
use latchmail_imap::fuzzing::encoded_name;
use latchmail_mailbox::outbox::fuzzing::draft;

use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| {
    let mut texts = texts(input);
    let mut text = || texts.next().unwrap_or_default();
    let (name, subject, filename, body) = (text(), text(), text(), text());
    let content = pieces(input).nth(4).unwrap_or_default();
    cheap(|| {
        encoded_name(&name);
        draft(&name, &subject, &filename, &body, content);
    });
});
