//! Range requests (RFC 9110, section 14), with one range.

/// The bytes that a request asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wanted {
    /// All bytes. Also if the header is malformed, or contains several ranges.
    All,
    /// The offset of the first byte, and the length.
    Part(u64, u64),
    /// The range begins after the last byte.
    Nothing,
}

/// Parses the value of the header `Range` of a request for `size` bytes.
pub(super) fn wanted(range: &str, size: u64) -> Wanted {
    let Some((unit, set)) = range.split_once('=') else {
        return Wanted::All;
    };
    let Some((first, last)) = set.trim().split_once('-') else {
        return Wanted::All;
    };
    if !unit.trim().eq_ignore_ascii_case("bytes") {
        return Wanted::All;
    }
    let (start, end) = match (first.trim(), last.trim()) {
        ("", suffix) => match number(suffix) {
            Some(0) => return Wanted::Nothing,
            Some(suffix) => (size.saturating_sub(suffix), size),
            None => return Wanted::All,
        },
        (first, "") => match number(first) {
            Some(first) => (first, size),
            None => return Wanted::All,
        },
        (first, last) => match (number(first), number(last)) {
            (Some(first), Some(last)) if first <= last => (first, last.saturating_add(1).min(size)),
            _ => return Wanted::All,
        },
    };
    if start >= size {
        return Wanted::Nothing;
    }
    Wanted::Part(start, end - start)
}

/// Parses a number. A number that is too large is after the last byte.
fn number(text: &str) -> Option<u64> {
    let is_number = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    is_number.then(|| text.parse().unwrap_or(u64::MAX))
}
