//! Checks the address rules with arbitrary input. The fuzz targets in `fuzz/` and tests call these
//! checks. A check panics if the input violates a property.
//!
//! Other crates use the helper functions of this module for similar checks.

use crate::address;
use crate::cpu;

/// The maximum CPU time for one input, in seconds. Fuzz targets are slow, because they are built
/// with sanitizers and without optimization.
const MAX_SECONDS: u64 = 2;

/// Runs `work` on one input of at most 256 KiB and checks the CPU time of `work`. The time must be
/// nearly linear in the size of the input.
///
/// # Panics
/// Panics if `work` takes too long.
pub fn cheap<T>(work: impl FnOnce() -> T) -> T {
    let before = cpu::thread_time();
    let done = work();
    let took = cpu::thread_time().saturating_sub(before);
    assert!(took.as_secs() < MAX_SECONDS, "took {took:?}");
    done
}

/// Checks the rules for addresses, user names and domains. The result of a rule must be visible
/// ASCII. If the same rule is applied to this result, the result must not change.
///
/// # Panics
/// Panics if a rule violates one of these properties for `text`.
pub fn account_address(text: &str) {
    let check = |fold: fn(&str) -> Option<String>| {
        if let Some(folded) = fold(text) {
            assert!(
                folded.bytes().all(|b| b.is_ascii_graphic()),
                "{text:?} is folded to {folded:?}"
            );
            assert_eq!(fold(&folded).as_ref(), Some(&folded), "{text:?}");
        }
    };
    check(address::fold);
    check(address::fold_domain);
    check(|name| address::username(name).ok());
}

/// Splits an input into texts. The separator is the byte 255, which UTF-8 never contains.
pub fn texts(input: &[u8]) -> impl Iterator<Item = String> {
    pieces(input).map(|piece| String::from_utf8_lossy(piece).into_owned())
}

/// Splits an input into pieces. The separator is the byte 255.
pub fn pieces(input: &[u8]) -> impl Iterator<Item = &[u8]> {
    input.split(|byte| *byte == u8::MAX)
}
