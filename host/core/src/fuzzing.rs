//! Properties of the rules for addresses, and what the properties of other crates share. They hold for any input; the fuzz targets in `fuzz/` and tests check them.
//!
//! Every function panics if its property does not hold for the input.

use crate::address;
use crate::cpu;

/// CPU seconds that any input of the size of one header may take, with sanitizers and without optimization.
const COST: u64 = 2;

/// Checks that work on one input of at most 256 KiB is not far from linear in its size.
///
/// # Panics
/// If it took too long.
pub fn cheap<T>(work: impl FnOnce() -> T) -> T {
    let before = cpu::thread_time();
    let done = work();
    let took = cpu::thread_time().saturating_sub(before);
    assert!(took.as_secs() < COST, "took {took:?}");
    done
}

/// Checks the rules for addresses, user names and domains: what they accept is plain ASCII and is accepted again, unchanged.
///
/// # Panics
/// If they accept anything else.
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

/// The texts of an input, which are separated by bytes that UTF-8 does not contain.
pub fn texts(input: &[u8]) -> impl Iterator<Item = String> {
    pieces(input).map(|piece| String::from_utf8_lossy(piece).into_owned())
}

/// The pieces of an input, separated by the byte 255.
pub fn pieces(input: &[u8]) -> impl Iterator<Item = &[u8]> {
    input.split(|byte| *byte == u8::MAX)
}
