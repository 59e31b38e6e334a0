//! Texts of clients, in commands for mail servers and in messages.

#![no_main]

use latchmail::fuzzing;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| {
    let mut texts = fuzzing::texts(input);
    let mut text = || texts.next().unwrap_or_default();
    let (name, subject, filename, body) = (text(), text(), text(), text());
    let content = fuzzing::pieces(input).nth(4).unwrap_or_default();
    fuzzing::cheap(|| {
        fuzzing::encoded_name(&name);
        fuzzing::draft(&name, &subject, &filename, &body, content);
    });
});
