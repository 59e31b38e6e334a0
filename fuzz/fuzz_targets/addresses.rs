//! Fuzzes the parsers of addresses, in header fields and in requests of clients.

#![no_main]

use latchmail_core::fuzzing::{account_address, cheap};
use latchmail_mailbox::outbox::fuzzing::recipient;
use latchmail_mime::fuzzing::header;

use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| {
    let field = |name: &str| [name.as_bytes(), b": ", input, b"\r\n"].concat();
    cheap(|| {
        header(&[field("From"), field("To")].concat());
        header(&field("References"));
        let text = String::from_utf8_lossy(input);
        recipient(&text);
        account_address(&text);
    });
});
