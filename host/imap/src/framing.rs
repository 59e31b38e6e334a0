//! Finds the end of a reply of the mail server. A reply has at least one line. If a line announces
//! a literal, the reply continues with the literal and another line (RFC 3501, sections 2.2 and
//! 4.3).

use memchr::memmem;

use super::Error;
use super::bounds;

/// A search for the end of the first reply in a growing buffer.
#[derive(Default)]
pub(super) struct Framing {
    /// The byte offset of the current line in the buffer.
    line: usize,
    /// The byte offset at which the next search for a line end starts.
    searched: usize,
}

impl Framing {
    /// Returns the byte offset at which the reply ends, or `None` if the reply is not complete yet.
    pub(super) fn end(&mut self, buffer: &[u8]) -> Result<Option<usize>, Error> {
        loop {
            if self.line > bounds::REPLY {
                return Err(too_large());
            }
            let from = self.searched.max(self.line);
            let Some(found) = buffer.get(from..).and_then(|b| memmem::find(b, b"\r\n")) else {
                if buffer.len().saturating_sub(self.line) > bounds::REPLY_LINE {
                    return Err(Error::Protocol(
                        "a reply line exceeds the maximum length".into(),
                    ));
                }
                self.searched = buffer.len().saturating_sub(1).max(self.line);
                return Ok(None);
            };
            let end = from + found;
            match literal(buffer, &buffer[self.line..end])? {
                Some(length) => {
                    self.line = length.checked_add(end + 2).ok_or_else(too_large)?;
                    self.searched = self.line;
                }
                None => return Ok(Some(end + 2)),
            }
        }
    }

    /// Returns the number of bytes to reserve in the buffer for the rest of the reply.
    pub(super) fn missing(&self, buffer: &[u8]) -> usize {
        self.line.saturating_sub(buffer.len()).max(4096)
    }
}

/// Returns the length of the literal that a line announces. Returns an error if the length exceeds
/// 32 bits (RFC 3501, section 9). Without this error, the bytes of the literal would be parsed as
/// the next reply.
pub(super) fn literal(reply: &[u8], line: &[u8]) -> Result<Option<usize>, Error> {
    let Some(digits) = announced(reply, line) else {
        return Ok(None);
    };
    let length: u32 = digits.parse().map_err(|_| too_large())?;
    Ok(Some(usize::try_from(length).map_err(|_| too_large())?))
}

/// Returns the digits in braces at the end of a line (RFC 3501, section 4.3). Returns `None` for a
/// status reply, because its free text never announces a literal.
fn announced<'l>(reply: &[u8], line: &'l [u8]) -> Option<&'l str> {
    let data = reply.strip_prefix(b"* ")?;
    let word = data.split(|b| matches!(b, b' ' | b'\r')).next()?;
    if ["OK", "NO", "BAD", "BYE", "PREAUTH"]
        .iter()
        .any(|status| word.eq_ignore_ascii_case(status.as_bytes()))
    {
        return None;
    }
    let open = memchr::memrchr(b'{', line)?;
    let digits = line.get(open + 1..)?.strip_suffix(b"}")?;
    let all_digits = !digits.is_empty() && digits.iter().all(u8::is_ascii_digit);
    std::str::from_utf8(digits).ok().filter(|_| all_digits)
}

pub(super) fn too_large() -> Error {
    Error::Protocol("a reply exceeds the maximum size".into())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn whole(reply: &[u8]) -> Option<usize> {
        // Byte by byte, because the end must be found for any fragmentation of the data.
        let mut framing = Framing::default();
        for length in 0..=reply.len() {
            if let Some(end) = framing.end(&reply[..length]).unwrap() {
                assert_eq!(length, end);
                return Some(end);
            }
        }
        None
    }

    #[test]
    fn a_reply_ends_after_its_literals() {
        let reply = b"* 1 FETCH (BODY[TEXT] {90}\r\n\r\n{9}\r\n BODY[] {0}\r\n)\r\n";
        assert_eq!(whole(&reply[..]), None);
        let reply = b"* 1 FETCH (BODY[TEXT] {7}\r\n\r\n{9}\r\n BODY[] {0}\r\n)\r\n";
        assert_eq!(whole(&reply[..]), Some(reply.len()));
        assert_eq!(whole(b"* OK what ends in {5}\r\n"), Some(23));
        assert_eq!(whole(b"L1 NO No such mailbox {5}\r\n"), Some(27));
    }

    #[test]
    fn a_literal_larger_than_asked_for_is_refused_before_it_is_read() {
        let mut framing = Framing::default();
        assert!(framing.end(b"* 1 FETCH (BODY[] {4000000000}\r\n").is_err());
        assert!(framing.end(&vec![b'x'; bounds::REPLY_LINE + 2]).is_err());
    }

    #[test]
    fn a_length_that_is_no_number_of_the_protocol_ends_the_connection() {
        for length in [
            "4294967295",
            "4294967296",
            "18446744073709551614",
            "18446744073709551615",
            "99999999999999999999999",
        ] {
            let reply = format!("* 1 FETCH (BODY[] {{{length}}}\r\n");
            let refused = Framing::default().end(reply.as_bytes());
            assert!(matches!(refused, Err(Error::Protocol(_))), "{length}");
        }
        for text in ["{}", "{+1}", "{-1}", "{a}"] {
            let reply = format!("* LIST () \"/\" {text}\r\n");
            assert_eq!(whole(reply.as_bytes()), Some(reply.len()), "{text}");
        }
    }

    #[test]
    fn many_literals_together_are_not_larger_than_one_reply() {
        let literal = b"BODY[] {1000000}\r\n";
        let mut reply = b"* 1 FETCH (".to_vec();
        let mut framing = Framing::default();
        let refused = loop {
            reply.extend_from_slice(literal);
            reply.resize(reply.len() + 1_000_000, b'x');
            match framing.end(&reply) {
                Ok(ended) => assert_eq!(ended, None),
                Err(_) => break reply.len(),
            }
        };
        assert!(refused <= bounds::REPLY + 2 * 1_000_000);
    }
}
