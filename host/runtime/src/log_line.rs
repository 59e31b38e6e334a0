//! Converts text of modules to log lines. The conversion escapes control characters and limits the
//! length, so that a module can neither forge log lines nor flood the log.

/// The maximum length of a line, in bytes.
const MAX_BYTES: usize = 4096;

/// Escapes control characters, and cuts the text at [`MAX_BYTES`].
pub(crate) fn to_log_line(text: &str) -> String {
    let mut line = String::with_capacity(text.len().min(MAX_BYTES));
    for character in text.chars() {
        if line.len() >= MAX_BYTES {
            line.push('…');
            break;
        }
        if character.is_control() {
            line.extend(character.escape_default());
        } else {
            line.push(character);
        }
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_characters_are_escaped() {
        assert_eq!(to_log_line("a\nERROR b\u{1b}[2J"), "a\\nERROR b\\u{1b}[2J");
    }

    #[test]
    fn long_text_is_cut() {
        assert!(to_log_line(&"é".repeat(10_000)).len() <= MAX_BYTES + "é…".len());
    }
}
