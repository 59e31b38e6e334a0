//! IMAP commands with literals (RFC 3501, section 4.3). A literal can contain any bytes, for
//! example a search term or a complete message.

use bytes::Bytes;

use super::quoted;

/// A command that consists of text and literals.
#[derive(Debug)]
pub(crate) struct Command {
    /// Each literal with the text before it.
    pub(crate) literals: Vec<(String, Bytes)>,
    /// The text after the last literal.
    pub(crate) end: String,
}

impl Command {
    /// Creates a command that begins with `text`. `text` must not contain client input.
    pub(crate) fn new(text: impl Into<String>) -> Self {
        Self {
            literals: Vec::new(),
            end: text.into(),
        }
    }

    pub(crate) fn text(mut self, text: &str) -> Self {
        self.end.push_str(text);
        self
    }

    pub(crate) fn literal(mut self, bytes: Bytes) -> Self {
        self.literals.push((std::mem::take(&mut self.end), bytes));
        self
    }

    /// Appends a string (RFC 3501, section 4.3). Uses a literal if the text cannot be quoted or is
    /// too long.
    pub(crate) fn string(self, text: &str) -> Self {
        match quoted(text) {
            Some(quoted) if text.len() <= MAX_QUOTED => self.text(&quoted),
            _ => self.literal(Bytes::copy_from_slice(text.as_bytes())),
        }
    }
}

/// Maximum length of a quoted string, in bytes. Servers limit the length of a line. RFC 7162,
/// section 4, requires support of only 8192 bytes.
const MAX_QUOTED: usize = 1000;

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
