//! Random names that people can pronounce. A name has enough random bits to be unguessable.

use crate::failure::Failure;
use latchmail_shape::codes;

/// Consonants with distinct sounds, so that people can read a name aloud.
const CONSONANTS: &[u8; 16] = b"bdfghjklmnprstvz";
const VOWELS: &[u8; 4] = b"aiou";

/// Number of words in a name. Each word has 16 random bits.
const WORDS: u32 = 4;

/// Returns a name of lower-case letters and hyphens with 64 random bits, for example
/// `lusab-babad-gutih-tugad`.
///
/// # Errors
/// Returns 500 if no random bytes are available.
pub fn pronounceable() -> Result<String, Failure> {
    let random = getrandom::u64().map_err(|_| {
        Failure::new(
            500,
            codes::INTERNAL_ERROR,
            "The operation could not be completed",
        )
    })?;
    Ok(spelt(random))
}

/// Converts a number to a name. Different numbers result in different names.
fn spelt(number: u64) -> String {
    let mut name = String::with_capacity(24);
    for word in 0..WORDS {
        if word > 0 {
            name.push('-');
        }
        let mut bits = (number >> (16 * (WORDS - 1 - word))) & 0xffff;
        let mut take = |letters: &[u8]| {
            let count = letters.len() as u64;
            let letter = usize::try_from(bits % count).unwrap_or_default();
            bits /= count;
            letters.get(letter).copied().map_or('a', char::from)
        };
        for letters in [&CONSONANTS[..], VOWELS, CONSONANTS, VOWELS, CONSONANTS] {
            name.push(take(letters));
        }
    }
    name
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn a_name_alternates_consonants_and_vowels() {
        let name = pronounceable().unwrap();
        assert_eq!(name.len(), 23);
        for word in name.split('-') {
            assert_eq!(word.len(), 5, "{name}");
            for (n, letter) in word.bytes().enumerate() {
                let letters: &[u8] = if n % 2 == 0 { CONSONANTS } else { VOWELS };
                assert!(letters.contains(&letter), "{name}");
            }
        }
        assert_ne!(name, pronounceable().unwrap());
    }

    #[test]
    fn different_numbers_have_different_names() {
        let words: BTreeSet<String> = (0..=0xffff).map(spelt).collect();
        assert_eq!(words.len(), 0x1_0000);
        let shifted = |n: u64| spelt(1 << n);
        let powers: BTreeSet<String> = (0..64).map(shifted).collect();
        assert_eq!(powers.len(), 64);
        assert_eq!(spelt(0), "babab-babab-babab-babab");
        assert_eq!(spelt(u64::MAX), "zuzuz-zuzuz-zuzuz-zuzuz");
    }
}
