//! Addresses, in header fields and as clients give them.

#![no_main]

use latchmail::fuzzing;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| {
    let field = |name: &str| [name.as_bytes(), b": ", input, b"\r\n"].concat();
    fuzzing::cheap(|| {
        fuzzing::header(&[field("From"), field("To")].concat());
        fuzzing::header(&field("References"));
        let text = String::from_utf8_lossy(input);
        fuzzing::recipient(&text);
        fuzzing::account_address(&text);
    });
});
