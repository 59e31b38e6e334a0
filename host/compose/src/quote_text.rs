//! Quotes plain text, and converts HTML to plain text.

use latchmail_html::{Kind, visible_lines};
use latchmail_mime::Content;

use crate::MAX_QUOTATION;

/// The separator of a signature (RFC 3676, section 4.3).
const SEPARATOR: &str = "-- ";

/// Maximum number of lines of the introduction of an older quotation.
const INTRODUCTION: usize = 3;

/// The mark at the end of a quotation that is incomplete.
const CUT: &str = "[\u{2026}]";

/// Returns the lines of the message's text. If the message has only HTML, returns the lines that a
/// person sees.
pub(crate) fn lines(content: &Content) -> Vec<String> {
    let text = content.text.as_deref();
    let text = text.filter(|text| !text.trim().is_empty() || content.html.is_none());
    let mut lines: Vec<String> = match (text, &content.html) {
        (Some(text), _) => {
            let lines = text.split('\n');
            lines
                .map(|line| line.strip_suffix('\r').unwrap_or(line).to_owned())
                .collect()
        }
        (None, Some(html)) => visible_lines(html)
            .into_iter()
            .filter(|(_, kind)| *kind != Kind::Cut)
            .map(|(line, kind)| match kind {
                Kind::Quote if line.is_empty() => ">".to_owned(),
                Kind::Quote => format!("> {line}"),
                _ => line,
            })
            .collect(),
        (None, None) => Vec::new(),
    };
    trim(&mut lines);
    lines
}

/// Removes the signature. An older quotation below the signature is kept with its introduction.
pub(crate) fn remove_signature(lines: &mut Vec<String>) {
    let Some(start) = lines.iter().position(|line| line == SEPARATOR) else {
        return;
    };
    let after = &lines[start..];
    let mut end = lines.len();
    if let Some(quote) = after.iter().position(|line| line.starts_with('>')) {
        end = start + quote;
        let is_blank = |line: &String| line.trim().is_empty();
        let above = &lines[start + 1..end];
        let last = above.iter().rposition(|line| !is_blank(line));
        if let Some(last) = last.filter(|last| above[*last].trim_end().ends_with(':')) {
            let block = above[..=last].iter().rev();
            let length = block.take(INTRODUCTION).take_while(|line| !is_blank(line));
            end = start + 1 + last + 1 - length.count();
        }
    }
    lines.drain(start..end);
    trim(lines);
}

/// Removes blank lines at the beginning and at the end.
fn trim(lines: &mut Vec<String>) {
    let is_text = |line: &String| !line.trim().is_empty();
    let end = lines.iter().rposition(is_text).map_or(0, |last| last + 1);
    lines.truncate(end);
    let start = lines.iter().position(is_text).unwrap_or_default();
    lines.drain(..start);
}

/// Appends the lines as a quotation.
pub(crate) fn quote(output: &mut String, lines: &[String]) {
    append(output, lines, |line| match line {
        "" => ">".to_owned(),
        line if line.starts_with('>') => format!(">{line}"),
        line => format!("> {line}"),
    });
}

/// Appends the lines without a change.
pub(crate) fn copy(output: &mut String, lines: &[String]) {
    append(output, lines, ToOwned::to_owned);
}

fn append(output: &mut String, lines: &[String], convert: impl Fn(&str) -> String) {
    for line in lines {
        let line = convert(line);
        let room = MAX_QUOTATION.saturating_sub(output.len());
        if line.len() > room {
            if room > 0 {
                output.push_str(&line[..line.floor_char_boundary(room)]);
                output.push('\n');
            }
            output.push_str(&convert(CUT));
            output.push('\n');
            return;
        }
        output.push_str(&line);
        output.push('\n');
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn without_signature(text: &str) -> String {
        let mut lines: Vec<String> = text.split('\n').map(ToOwned::to_owned).collect();
        remove_signature(&mut lines);
        lines.join("\n")
    }

    #[test]
    fn a_signature_is_removed() {
        for (text, expected) in [
            ("Hello\n\n-- \nAda\nTel. 1", "Hello"),
            ("Hello\n--\nAda", "Hello\n--\nAda"),
            ("> quoted\n> -- \n> Ada", "> quoted\n> -- \n> Ada"),
            ("-- \nAda", ""),
            // An answer above the quotation, with the signature between them.
            (
                "Yes\n\n-- \nAda\n\nOn Friday, Bo wrote:\n> Ok?",
                "Yes\n\nOn Friday, Bo wrote:\n> Ok?",
            ),
            (
                "Yes\n-- \nAda\n\nOn Friday,\nBo wrote:\n\n> Ok?",
                "Yes\nOn Friday,\nBo wrote:\n\n> Ok?",
            ),
            ("Yes\n-- \nAda\n> Ok?", "Yes\n> Ok?"),
        ] {
            assert_eq!(without_signature(text), expected, "{text}");
        }
    }

    #[test]
    fn a_quotation_is_limited() {
        let mut output = String::new();
        quote(&mut output, &vec![String::new(); MAX_QUOTATION]);
        assert!(output.len() < MAX_QUOTATION + 20);
        assert!(output.ends_with("\n> [\u{2026}]\n"));
    }
}
