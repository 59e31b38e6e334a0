//! A command with literals (RFC 3501, section 4.3): what holds any bytes, a term that is searched for or a whole message.

use bytes::Bytes;

use super::quoted;

/// A command: text, and literals between its texts.
#[derive(Debug)]
pub(super) struct Command {
    /// Each literal with the text before it.
    pub(super) literals: Vec<(String, Bytes)>,
    /// What follows the last one.
    pub(super) end: String,
}

impl Command {
    /// A command that begins with `text`, which is protocol and nothing that came from a client.
    pub(super) fn new(text: impl Into<String>) -> Self {
        Self {
            literals: Vec::new(),
            end: text.into(),
        }
    }

    /// The same with more text.
    pub(super) fn text(mut self, text: &str) -> Self {
        self.end.push_str(text);
        self
    }

    /// The same with any bytes.
    pub(super) fn literal(mut self, bytes: Bytes) -> Self {
        self.literals.push((std::mem::take(&mut self.end), bytes));
        self
    }

    /// The same with a string (RFC 3501, section 4.3): quoted where that will do.
    pub(super) fn string(self, text: &str) -> Self {
        match quoted(text) {
            Some(quoted) if text.len() <= LONGEST_QUOTED => self.text(&quoted),
            _ => self.literal(Bytes::copy_from_slice(text.as_bytes())),
        }
    }
}

/// Servers bound a line; RFC 7162, section 4 asks for 8192 bytes at least.
const LONGEST_QUOTED: usize = 1000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_string_is_quoted_or_a_literal() {
        let command = Command::new("A ").string(r#"a"b"#).text(" B ").string("é");
        assert_eq!(command.literals.len(), 1);
        assert_eq!(command.literals[0].0, r#"A "a\"b" B "#);
        assert_eq!(&command.literals[0].1[..], "é".as_bytes());
        for hostile in ["a\r\nb", "a\0b", &"x".repeat(1001)] {
            assert_eq!(Command::new("A ").string(hostile).end, "");
        }
    }
}
