//! Parses a stream of server-sent events (HTML, section 9.2). Does not connect.
//!
//! Lines end with LF or CRLF. A line that ends with CR alone is not recognized: the service does
//! not write such lines.

use std::collections::VecDeque;

/// Maximum size of a block, in bytes.
const MAX_BLOCK: usize = 1024 * 1024;

/// The fields between two empty lines: an event, or only a cursor.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Block {
    /// The field `id`: the cursor after the event. `None` if the block has no such field.
    pub id: Option<String>,
    /// The field `event`: the type of the event. Empty if the block has no such field.
    pub kind: String,
    /// The fields `data`, one line for each field.
    pub data: String,
}

/// A block is larger than the limit.
#[derive(Debug, thiserror::Error)]
#[error("an event of the stream is larger than {MAX_BLOCK} bytes")]
pub struct TooLarge;

/// A parser of a stream.
#[derive(Debug, Default)]
pub struct EventParser {
    /// The line that is not complete.
    line: Vec<u8>,
    /// The block that is not complete.
    block: Block,
    complete: VecDeque<Block>,
}

impl EventParser {
    /// Adds bytes of the stream. They can end at any position.
    ///
    /// # Errors
    /// Returns an error if a block is too large. The stream cannot be continued.
    pub fn push(&mut self, bytes: &[u8]) -> Result<(), TooLarge> {
        let mut rest = bytes;
        while let Some(end) = rest.iter().position(|byte| *byte == b'\n') {
            self.line.extend_from_slice(&rest[..end]);
            rest = &rest[end + 1..];
            let line = std::mem::take(&mut self.line);
            self.add_line(line.strip_suffix(b"\r").unwrap_or(&line));
            self.check_size()?;
        }
        self.line.extend_from_slice(rest);
        self.check_size()
    }

    /// Returns the next complete block. Returns `None` if more bytes are needed.
    pub fn pop(&mut self) -> Option<Block> {
        self.complete.pop_front()
    }

    fn check_size(&self) -> Result<(), TooLarge> {
        let size = self.line.len() + self.block.data.len();
        if size > MAX_BLOCK {
            return Err(TooLarge);
        }
        Ok(())
    }

    fn add_line(&mut self, line: &[u8]) {
        if line.is_empty() {
            let block = std::mem::take(&mut self.block);
            // A block of comments has no fields.
            if block != Block::default() {
                self.complete.push_back(block);
            }
            return;
        }
        let line = String::from_utf8_lossy(line);
        let (name, value) = line.split_once(':').unwrap_or((&*line, ""));
        let value = value.strip_prefix(' ').unwrap_or(value);
        match name {
            "id" => self.block.id = Some(value.to_owned()),
            "event" => value.clone_into(&mut self.block.kind),
            "data" => {
                if !self.block.data.is_empty() {
                    self.block.data.push('\n');
                }
                self.block.data.push_str(value);
            }
            // A comment has an empty name. Unknown fields are ignored.
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STREAM: &str = ": waiting\nid: a\n\n: only a comment\n\nid: b\nevent: message.created\n\
        data: {\"x\":\"é: y\"}\n\nid:c\r\nevent: x\r\nretry: 5\r\ndata: 1\r\ndata: 2\r\n\r\n\
        event: end\ndata: {}\n\nid: incomplete\n";

    fn block(id: Option<&str>, kind: &str, data: &str) -> Block {
        Block {
            id: id.map(ToOwned::to_owned),
            kind: kind.into(),
            data: data.into(),
        }
    }

    #[test]
    fn a_stream_is_parsed_wherever_its_pieces_end() {
        let expected = [
            block(Some("a"), "", ""),
            block(Some("b"), "message.created", r#"{"x":"é: y"}"#),
            block(Some("c"), "x", "1\n2"),
            block(None, "end", "{}"),
        ];
        for size in 1..=STREAM.len() {
            let mut parser = EventParser::default();
            let mut parsed = Vec::new();
            for piece in STREAM.as_bytes().chunks(size) {
                parser.push(piece).unwrap();
                parsed.extend(std::iter::from_fn(|| parser.pop()));
            }
            assert_eq!(parsed, expected, "pieces of {size} bytes");
        }
    }

    #[test]
    fn a_block_has_a_limit() {
        let piece = vec![b'x'; MAX_BLOCK / 2];
        let mut parser = EventParser::default();
        parser.push(b"data: ").unwrap();
        parser.push(&piece).unwrap();
        parser.push(b"\ndata: ").unwrap();
        assert!(parser.push(&piece).is_err());
    }
}
