//! Finds the boundaries between the requests of a connection, so that the bytes of every head can be checked ([`super::framing`]), also if several requests
//! arrive together.
//!
//! hyper parses the heads and reports the length of each body. This module decodes and stores nothing.

use std::io;

/// The read position of a connection.
#[derive(Debug, Default)]
pub(crate) struct Boundary(At);

#[derive(Debug)]
enum At {
    /// In a head.
    Head {
        /// A line that is not empty was read. Empty lines before a request are ignored.
        begun: bool,
        /// The current line is empty so far.
        empty: bool,
    },
    /// In a body, with the number of remaining bytes.
    Length(u64),
    /// In a chunked body.
    Chunked(Chunked),
    /// After a request.
    End,
}

/// The position in a chunked body (RFC 9112, section 7.1). Only the ends of lines and the sizes of chunks are interpreted.
#[derive(Debug)]
enum Chunked {
    /// In the line of a chunk's size.
    Size {
        size: u64,
        /// After the digits.
        extension: bool,
        cr: bool,
    },
    /// In a chunk's data.
    Data(u64),
    /// After a chunk's data.
    DataEnd { cr: bool },
    /// In the trailer section.
    Trailer { empty: bool, cr: bool },
}

const HEAD: At = At::Head {
    begun: false,
    empty: true,
};

const SIZE: Chunked = Chunked::Size {
    size: 0,
    extension: false,
    cr: false,
};

impl Default for At {
    fn default() -> Self {
        HEAD
    }
}

impl Boundary {
    /// Starts the body of a parsed head: a body of this length, or a chunked body if there is none.
    pub(crate) fn opened(&mut self, length: Option<u64>) {
        self.0 = match length {
            Some(length) => At::Length(length),
            None => At::Chunked(SIZE),
        };
    }

    /// Returns `true` if the next byte is part of a head.
    pub(crate) fn in_head(&mut self) -> bool {
        if matches!(self.0, At::End | At::Length(0)) {
            self.0 = HEAD;
        }
        matches!(self.0, At::Head { .. })
    }

    /// Returns the number of leading bytes that belong to the current head or body. The result is at least one if `bytes` is not empty.
    ///
    /// # Errors
    /// Returns an error if a line of a chunked body does not end in CR LF, because the end of the body is then ambiguous.
    pub(crate) fn take(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.in_head() {
            return Ok(self.take_head(bytes));
        }
        match &mut self.0 {
            At::Length(left) => Ok(skip(left, bytes)),
            At::Chunked(chunked) => {
                let (taken, ended) = chunked.take(bytes)?;
                if ended {
                    self.0 = At::End;
                }
                Ok(taken)
            }
            At::Head { .. } | At::End => Ok(bytes.len()),
        }
    }

    fn take_head(&mut self, bytes: &[u8]) -> usize {
        let At::Head { begun, empty } = &mut self.0 else {
            return bytes.len();
        };
        for (at, byte) in bytes.iter().enumerate() {
            match byte {
                // hyper also accepts a bare LF as the end of a line. Such a head is rejected afterwards.
                b'\n' if *begun && *empty => {
                    self.0 = HEAD;
                    return at + 1;
                }
                b'\n' => *empty = true,
                b'\r' => {}
                _ => (*begun, *empty) = (true, false),
            }
        }
        bytes.len()
    }
}

impl Chunked {
    /// Returns the number of bytes that belong to the body, and whether they end the body.
    fn take(&mut self, bytes: &[u8]) -> io::Result<(usize, bool)> {
        let mut at = 0;
        while at < bytes.len() {
            if let Self::Data(left) = self {
                at += skip(left, &bytes[at..]);
                if *left == 0 {
                    *self = Self::DataEnd { cr: false };
                }
                continue;
            }
            let byte = bytes[at];
            at += 1;
            if byte != b'\n' {
                self.within_line(byte);
                continue;
            }
            let (Self::Size { cr, .. } | Self::DataEnd { cr } | Self::Trailer { cr, .. }) = self
            else {
                continue;
            };
            if !*cr {
                return Err(io::ErrorKind::InvalidData.into());
            }
            match self {
                Self::Size { size: 0, .. } | Self::Trailer { empty: false, .. } => {
                    *self = Self::Trailer {
                        empty: true,
                        cr: false,
                    };
                }
                Self::Size { size, .. } => *self = Self::Data(*size),
                Self::DataEnd { .. } => *self = SIZE,
                Self::Trailer { empty: true, .. } => return Ok((at, true)),
                Self::Data(_) => {}
            }
        }
        Ok((at, false))
    }

    fn within_line(&mut self, byte: u8) {
        match self {
            Self::Size {
                size,
                extension,
                cr,
            } => {
                *cr = byte == b'\r';
                match char::from(byte).to_digit(16) {
                    // hyper rejects a size that overflows.
                    Some(digit) if !*extension => {
                        *size = size.saturating_mul(16).saturating_add(digit.into());
                    }
                    _ => *extension = true,
                }
            }
            Self::DataEnd { cr } => *cr = byte == b'\r',
            Self::Trailer { empty, cr } => {
                *empty &= byte == b'\r';
                *cr = byte == b'\r';
            }
            Self::Data(_) => {}
        }
    }
}

fn skip(left: &mut u64, bytes: &[u8]) -> usize {
    let length = u64::try_from(bytes.len()).unwrap_or(u64::MAX);
    let taken = length.min(*left);
    *left -= taken;
    usize::try_from(taken).unwrap_or(bytes.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the pieces that `bytes` are split into if `step` bytes arrive at a time. A body follows every head.
    fn pieces(bytes: &str, length: Option<u64>, step: usize) -> Vec<String> {
        let mut boundary = Boundary::default();
        let mut pieces = vec![String::new()];
        let mut rest = bytes.as_bytes();
        while !rest.is_empty() {
            let head = boundary.in_head();
            let coming = &rest[..step.min(rest.len())];
            let taken = boundary.take(coming).unwrap();
            assert!((1..=coming.len()).contains(&taken));
            let piece = std::str::from_utf8(&rest[..taken]).unwrap();
            pieces.last_mut().unwrap().push_str(piece);
            rest = &rest[taken..];
            let last = pieces.last().unwrap();
            if head && (last.ends_with("\r\n\r\n") || last.ends_with("\n\n")) {
                boundary.opened(length);
                pieces.push(String::new());
            } else if !head && boundary.in_head() {
                pieces.push(String::new());
            }
        }
        pieces.retain(|piece| !piece.is_empty());
        pieces
    }

    #[test]
    fn requests_that_come_together_are_told_apart_however_they_are_cut() {
        let get = "GET / HTTP/1.1\r\nHost: a\r\n\r\n";
        let chunks = "3;x=y\r\n\n\r\n\r\nA\r\n0\r\n\r\nabc\r\nd\r\n0\r\nT: x\r\n\r\n";
        let chunks = chunks.replace("A\r\n0\r\n\r\nabc\r\nd", "A\r\n0\r\n\r\nabcde");
        for step in [1, 2, 3, 7, 1000] {
            assert_eq!(pieces(&get.repeat(3), Some(0), step), [get; 3]);
            assert_eq!(
                pieces(&format!("\r\n{get}{get}"), Some(0), step),
                [&format!("\r\n{get}"), get]
            );
            assert_eq!(
                pieces(&format!("{get}GET /{get}"), Some(5), step),
                [get, "GET /", get]
            );
            assert_eq!(
                pieces(&format!("{get}{chunks}{get}"), None, step),
                [get, &chunks, get]
            );
            let bare = "GET / HTTP/1.1\nHost: a\n\n";
            assert_eq!(pieces(&bare.repeat(2), Some(0), step), [bare; 2]);
        }
    }

    #[test]
    fn a_line_of_a_chunked_body_ends_in_cr_lf() {
        for bytes in [
            "2\nab\r\n",
            "2\r\nab\n",
            "2\r\nab\r\n0\n",
            "0\r\nX: y\n",
            "0\r\n\n",
        ] {
            let mut boundary = Boundary::default();
            boundary.opened(None);
            assert!(boundary.take(bytes.as_bytes()).is_err(), "{bytes:?}");
        }
    }
}
