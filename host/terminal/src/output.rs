//! Writes lines and tables to standard output, and formats single values.

use std::io::{ErrorKind, Write as _};

use anyhow::{Context as _, bail};
use latchmail_core::clock::Timestamp;

/// Prints one line and flushes standard output.
///
/// # Errors
/// Returns an error if standard output cannot be written.
pub fn print_line(line: &str) -> anyhow::Result<()> {
    let mut out = std::io::stdout();
    writeln!(out, "{line}")
        .and_then(|()| out.flush())
        .context("cannot write to standard output")
}

/// Prints lines. Does not return an error if the reader closes the pipe, as `head` does.
///
/// # Errors
/// Returns an error if standard output cannot be written.
pub fn print_lines(lines: impl IntoIterator<Item = String>) -> anyhow::Result<()> {
    let mut out = std::io::stdout().lock();
    for line in lines {
        match writeln!(out, "{line}") {
            Ok(()) => {}
            Err(error) if error.kind() == ErrorKind::BrokenPipe => return Ok(()),
            Err(error) => bail!("cannot write to standard output: {error}"),
        }
    }
    Ok(())
}

/// Returns a table as lines with aligned columns. The first line is the heading.
#[must_use]
pub fn table<const N: usize>(
    heading: [&str; N],
    rows: impl IntoIterator<Item = [String; N]>,
) -> Vec<String> {
    let rows: Vec<[String; N]> = std::iter::once(heading.map(Into::into))
        .chain(rows)
        .collect();
    aligned(&rows)
}

/// Returns a line for each row, with aligned columns.
#[must_use]
pub fn aligned<const N: usize>(rows: &[[String; N]]) -> Vec<String> {
    let width = |column: usize| {
        let widths = rows.iter().map(|row| row[column].chars().count());
        widths.max().unwrap_or_default()
    };
    let widths: [usize; N] = std::array::from_fn(width);
    rows.iter()
        .map(|row| {
            let line = row
                .iter()
                .zip(widths)
                .fold(String::new(), |line, (cell, width)| {
                    line + &format!("{cell:width$}  ")
                });
            line.trim_end().to_owned()
        })
        .collect()
}

/// Escapes control characters and invisible characters. Escaped text from other people cannot move
/// the cursor or start a new line.
#[must_use]
pub fn escape(text: &str) -> String {
    text.chars().fold(String::new(), |mut escaped, c| {
        let separator = matches!(c, '\u{2028}' | '\u{2029}');
        if c.is_control() || separator || latchmail_shape::invisible(c).is_some() {
            escaped.extend(c.escape_unicode());
        } else {
            escaped.push(c);
        }
        escaped
    })
}

/// Formats a Unix time in milliseconds.
#[must_use]
pub fn format_time(millis: i64) -> String {
    Timestamp::from_millis(millis).to_string()
}

/// Returns `yes` or `no`.
#[must_use]
pub const fn yes_or_no(value: bool) -> &'static str {
    if value { "yes" } else { "no" }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_and_format_characters_are_escaped() {
        assert_eq!(escape("Ada's laptop, é"), "Ada's laptop, é");
        assert_eq!(escape("a\u{1b}[2Jb\nc"), "a\\u{1b}[2Jb\\u{a}c");
        assert_eq!(escape("\u{9b}x\u{202e}"), "\\u{9b}x\\u{202e}");
    }

    #[test]
    fn columns_are_as_wide_as_their_widest_cell() {
        let row = ["long", "c"].map(String::from);
        assert_eq!(table(["a", "b"], [row]), ["a     b", "long  c"]);
    }
}
