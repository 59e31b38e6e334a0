//! Bytes as digits.

use std::fmt::Write as _;

/// Two digits a byte, in lower case.
pub(crate) fn lower(bytes: &[u8]) -> String {
    let digits = String::with_capacity(2 * bytes.len());
    bytes.iter().fold(digits, |mut digits, byte| {
        // Writing to a string does not fail.
        let _ = write!(digits, "{byte:02x}");
        digits
    })
}
