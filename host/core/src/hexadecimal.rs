//! Hexadecimal encoding.

use std::fmt::Write as _;

/// Encodes bytes as hexadecimal digits in lower case.
#[must_use]
pub fn lower(bytes: &[u8]) -> String {
    let digits = String::with_capacity(2 * bytes.len());
    bytes.iter().fold(digits, |mut digits, byte| {
        // Writing to a `String` cannot fail.
        let _ = write!(digits, "{byte:02x}");
        digits
    })
}
