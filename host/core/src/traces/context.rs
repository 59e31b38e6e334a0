//! The ids of traces and spans, and the header `traceparent` (W3C Trace Context, version 00). The
//! header `tracestate` is not used.

use std::fmt;
use std::sync::LazyLock;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::hexadecimal;

/// The id of a trace. At least one byte is not zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct TraceId(pub [u8; 16]);

/// The id of a span. At least one byte is not zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SpanId(pub [u8; 8]);

impl TraceId {
    /// Creates the id of a new trace.
    #[must_use]
    pub fn random() -> Self {
        Self(random())
    }

    /// Returns a number from 0 (inclusive) to 1 (exclusive) that depends only on this id. It is
    /// evenly distributed for random ids.
    pub(super) fn fraction(self) -> f64 {
        let [.., a, b, c, d] = self.0;
        f64::from(u32::from_be_bytes([a, b, c, d])) / (f64::from(u32::MAX) + 1.0)
    }
}

impl SpanId {
    /// Creates the id of a new span. The first id of the process is random. The ids after it differ
    /// by an odd constant, so an id is repeated only after 2⁶⁴ spans.
    pub(super) fn next() -> Self {
        static NEXT: LazyLock<AtomicU64> =
            LazyLock::new(|| AtomicU64::new(u64::from_ne_bytes(random())));
        // 2⁶⁴ divided by the golden ratio distributes the ids evenly (Knuth, "The Art of Computer
        // Programming", volume 3, section 6.4).
        const STEP: u64 = 0x9e37_79b9_7f4a_7c15;
        let id = NEXT.fetch_add(STEP, Ordering::Relaxed);
        Self(id.max(1).to_be_bytes())
    }
}

/// Returns random bytes, of which at least one is not zero. An id is not a secret, so an error of
/// the random generator is ignored.
fn random<const N: usize>() -> [u8; N] {
    let mut bytes = [0; N];
    let _ = getrandom::fill(&mut bytes);
    bytes[0] |= 1;
    bytes
}

impl fmt::Display for TraceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&hexadecimal::lower(&self.0))
    }
}

impl fmt::Display for SpanId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&hexadecimal::lower(&self.0))
    }
}

/// A position in a trace: the trace, the current span, and whether the trace is sampled. The text
/// form is the value of the header `traceparent`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TraceContext {
    /// The trace.
    pub trace_id: TraceId,
    /// The current span, which is the parent of the next span.
    pub span_id: SpanId,
    /// Whether spans of this trace are recorded.
    pub is_sampled: bool,
}

impl TraceContext {
    /// Parses the value of the header `traceparent`. Returns `None` if the value is invalid. In a
    /// value of a later version, only the fields of version 00 are used (W3C Trace Context, section
    /// 4.1).
    #[must_use]
    pub fn parse(value: &str) -> Option<Self> {
        let mut fields = value.split('-');
        let [version] = decode(fields.next()?)?;
        let trace_id: [u8; 16] = decode(fields.next()?)?;
        let span_id: [u8; 8] = decode(fields.next()?)?;
        let [flags] = decode(fields.next()?)?;
        let has_more = fields.next().is_some();
        let is_valid = match version {
            0 => !has_more,
            0xff => false,
            _ => true,
        };
        let are_set =
            trace_id.iter().any(|byte| *byte != 0) && span_id.iter().any(|byte| *byte != 0);
        (is_valid && are_set).then_some(Self {
            trace_id: TraceId(trace_id),
            span_id: SpanId(span_id),
            is_sampled: flags & 1 == 1,
        })
    }
}

/// Decodes exactly `N` bytes of hexadecimal digits in lower case.
fn decode<const N: usize>(digits: &str) -> Option<[u8; N]> {
    let mut bytes = [0; N];
    let (pairs, rest) = digits.as_bytes().as_chunks::<2>();
    if pairs.len() != N || !rest.is_empty() {
        return None;
    }
    for (byte, [high, low]) in bytes.iter_mut().zip(pairs) {
        *byte = digit(*high)? << 4 | digit(*low)?;
    }
    Some(bytes)
}

fn digit(character: u8) -> Option<u8> {
    match character {
        b'0'..=b'9' => Some(character - b'0'),
        b'a'..=b'f' => Some(character - b'a' + 10),
        _ => None,
    }
}

impl fmt::Display for TraceContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let flags = u8::from(self.is_sampled);
        write!(f, "00-{}-{}-{flags:02x}", self.trace_id, self.span_id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_valid_header_is_parsed_and_written() {
        for value in [
            "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-00",
        ] {
            let context = TraceContext::parse(value).unwrap();
            assert_eq!(context.to_string(), value);
        }
        let later = "cc-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-09-more";
        assert!(TraceContext::parse(later).unwrap().is_sampled);
    }

    #[test]
    fn an_invalid_header_is_ignored() {
        for value in [
            "",
            "00",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01-more",
            "ff-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
            "00-00000000000000000000000000000000-00f067aa0ba902b7-01",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-0000000000000000-01",
            "00-4BF92F3577B34DA6A3CE929D0E0E4736-00f067aa0ba902b7-01",
            "00-4bf92f3577b34da6a3ce929d0e0e473-00f067aa0ba902b7-01",
            "00-4bf92f3577b34da6a3ce929d0e0e47é6-00f067aa0ba902b7-01",
            " 00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
        ] {
            assert_eq!(TraceContext::parse(value), None, "{value}");
        }
    }
}
