//! Generates random identifiers.

use latchmail_core::hexadecimal;

/// Returns 96 random bits in hexadecimal.
pub(crate) fn random_hex() -> Result<String, getrandom::Error> {
    let mut bytes = [0; 12];
    getrandom::fill(&mut bytes)?;
    Ok(hexadecimal::lower(&bytes))
}
