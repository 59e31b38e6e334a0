//! Removes signatures, disclaimers and the lines that mail clients add.

use super::disclaimer_phrases::{DISCLAIMER_WORDS, DISCLAIMERS};
use super::signature_phrases::{
    CLIENT_ENDS, CLIENT_LINES, CLIENTS, CLOSINGS, ENVIRONMENT, MESSAGE, OUTSIDE, PHONE_LABELS,
    PRINT, WARNINGS,
};
use super::{Line, trim};

/// Maximum number of parts that are removed from the end of a text, for example the line of a mail
/// client and a disclaimer.
const PARTS: usize = 20;

/// Maximum number of lines of a signature after its separator.
const SIGNATURE: usize = 15;

/// Maximum number of lines of a signature after a separator without the final space.
const SHORT_SIGNATURE: usize = 8;

/// Maximum number of lines that a line of a mail client can be wrapped to.
const CLIENT: usize = 3;

/// Maximum number of lines from the closing phrase to the end of the contact block.
const CONTACT: usize = 20;

/// Maximum number of paragraphs that follow the first paragraph of a disclaimer.
const DISCLAIMER_PARAGRAPHS: usize = 3;

/// Maximum length of a line of a signature, in bytes.
const MAX_LINE: usize = 160;

/// Maximum length of a paragraph of a disclaimer that is searched for words, in bytes.
const MAX_PARAGRAPH: usize = 8000;

/// Returns the lines of a text without its signature.
pub(super) fn without_signature<'l, 'a>(lines: &'l [Line<'a>]) -> &'l [Line<'a>] {
    let mut rest = trim(without_warning(trim(lines)));
    rest = trim(&rest[..separator(rest).unwrap_or(rest.len())]);
    for _ in 0..PARTS {
        let parts = [client_line, disclaimer, contact, list_footer];
        let Some(end) = parts.iter().find_map(|find| find(rest)) else {
            break;
        };
        rest = trim(&rest[..end]);
    }
    rest
}

/// Removes the warning of the recipient's mail server at the beginning.
fn without_warning<'l, 'a>(lines: &'l [Line<'a>]) -> &'l [Line<'a>] {
    let end = lines.iter().position(Line::is_blank).unwrap_or(lines.len());
    let text = lower(&lines[..end]);
    let is_warning =
        starts_with(&text, WARNINGS) && contains(&text, OUTSIDE) && text.contains("mail");
    if is_warning { &lines[end..] } else { lines }
}

/// Returns the index of the separator of the signature. A separator without the final space counts
/// only if a blank line precedes the separator, and a few short lines without sentences follow.
fn separator(lines: &[Line<'_>]) -> Option<usize> {
    let mut following = 0;
    let mut is_near_end = |line: &Line<'_>| {
        following += usize::from(!line.is_blank());
        following <= SIGNATURE + 1
    };
    let near_end = lines
        .iter()
        .rev()
        .take_while(|line| is_near_end(line))
        .count();
    let near_end = lines.len() - near_end;
    if let Some(at) = lines[near_end..].iter().position(|line| line.is_separator) {
        return Some(near_end + at);
    }
    let mut candidates = lines
        .iter()
        .enumerate()
        .filter(|(_, line)| matches!(line.text, "--" | "—" | "---" | "–"));
    let (at, _) = candidates.next()?;
    let rest = &lines[at + 1..];
    let is_sentence =
        |line: &Line<'_>| line.text.len() > 80 || line.text.ends_with(['.', '!', '?', ':']);
    let is_signature = candidates.next().is_none()
        && (at == 0 || lines[at - 1].is_blank() || rest.is_empty())
        && count_text(rest) <= SHORT_SIGNATURE
        && !rest.iter().any(is_sentence);
    is_signature.then_some(at)
}

/// Returns the index of the last line if a mail client added the line, for example `Sent from my
/// iPhone`. Other such lines are a separator without a signature, and a request not to print the
/// message.
fn client_line(lines: &[Line<'_>]) -> Option<usize> {
    let (last, _) = lines.split_last()?;
    if matches!(last.text, "--" | "—") {
        return Some(lines.len() - 1);
    }
    // A line with a long link can be wrapped.
    let paragraph = lines
        .iter()
        .rev()
        .take(CLIENT)
        .take_while(|line| !line.is_blank());
    (1..=paragraph.count())
        .map(|count| lines.len() - count)
        .find(|start| is_client_line(&lines[*start..]))
}

fn is_client_line(lines: &[Line<'_>]) -> bool {
    let text = without_links(&lower(lines));
    let text = text.trim().trim_end_matches('.');
    if text.len() > 2 * MAX_LINE {
        return false;
    }
    let text = text.trim_start_matches([' ', '\u{a0}', '*', '_', '-', '[', '(']);
    let words = text.split_whitespace().count();
    let is_client = words <= 12
        && (starts_with(text, CLIENT_LINES) || ends_with(text, CLIENT_ENDS))
        && contains(text, CLIENTS)
        && (!text.starts_with("von mein") || text.contains("gesendet"))
        && !text.contains([',', '?', '!']) | text.contains("proton");
    let is_request =
        contains(text, PRINT) && contains(text, ENVIRONMENT) && contains(text, MESSAGE);
    is_client || lines.len() == 1 && is_request
}

/// Removes the targets of links, for example in `Sent from Mail<https://example.org> for Windows`.
fn without_links(text: &str) -> String {
    let mut kept = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find("http") {
        let (before, link) = rest.split_at(at);
        if !(link.starts_with("http://") || link.starts_with("https://")) {
            kept.push_str(before);
            kept.push_str("http");
            rest = &link["http".len()..];
            continue;
        }
        kept.push_str(before.trim_end_matches(['<', '(', '[']));
        kept.push(' ');
        let is_end = |c: char| c.is_whitespace() || matches!(c, '<' | '>' | ')' | ']');
        rest = &link[link.find(is_end).unwrap_or(link.len())..];
        rest = rest.strip_prefix(['>', ')', ']']).unwrap_or(rest);
    }
    kept.push_str(rest);
    kept
}

/// Returns the index of the first line of the disclaimer at the end.
fn disclaimer(lines: &[Line<'_>]) -> Option<usize> {
    let mut end = lines.len();
    let mut found = None;
    for _ in 0..=DISCLAIMER_PARAGRAPHS {
        let before = trim_end(&lines[..end]);
        if before.is_empty() {
            break;
        }
        let start = before
            .iter()
            .rposition(Line::is_blank)
            .map_or(0, |at| at + 1);
        if is_disclaimer(&before[start..]) {
            found = Some(start);
        }
        end = start;
    }
    // A disclaimer can follow the signature without a blank line.
    found.or_else(|| {
        let last = lines.len().checked_sub(1)?;
        is_disclaimer(&lines[last..]).then_some(last)
    })
}

fn trim_end<'l, 'a>(lines: &'l [Line<'a>]) -> &'l [Line<'a>] {
    let end = lines.iter().rposition(|line| !line.is_blank());
    &lines[..end.map_or(0, |end| end + 1)]
}

fn is_disclaimer(lines: &[Line<'_>]) -> bool {
    let length: usize = lines.iter().map(|line| line.text.len()).sum();
    if !(40..=MAX_PARAGRAPH).contains(&length) {
        return false;
    }
    let text = lower(lines);
    let text = text.trim_start_matches(['*', '_', ' ', '-', '=', '[', '(']);
    let words = DISCLAIMER_WORDS.iter().filter(|word| text.contains(**word));
    starts_with(text, DISCLAIMERS) && words.take(2).count() == 2
}

/// Returns the index of the first line of the contact block after a closing phrase and a name.
fn contact(lines: &[Line<'_>]) -> Option<usize> {
    let first = lines.len().saturating_sub(CONTACT);
    let closing = (first..lines.len())
        .rev()
        .find(|at| is_closing(lines[*at].text))?;
    let after = |at: usize| (at + 1..lines.len()).find(|next| !lines[*next].is_blank());
    let name = after(closing)?;
    let start = if is_contact(lines[name].text) || lines[name].text.len() > 60 {
        name
    } else {
        after(name)?
    };
    let rest = &lines[start..];
    let is_sentence = |line: &Line<'_>| {
        // In some languages, a full stop follows a house number, so a digit with a full stop does
        // not end a sentence.
        let end = line.text.trim_end_matches('.');
        line.text.ends_with(['.', '!', '?'])
            && !end.ends_with(|c: char| c.is_ascii_digit())
            && line.text.split_whitespace().count() >= 5
    };
    let is_postscript = |line: &Line<'_>| {
        let first = line.text.split_whitespace().next().unwrap_or_default();
        let mut letters = first.to_lowercase();
        letters.retain(char::is_alphabetic);
        matches!(letters.as_str(), "ps" | "pps" | "pd" | "nb")
    };
    let is_block = rest.iter().any(|line| is_contact(line.text))
        && !rest
            .iter()
            .any(|line| line.text.len() > MAX_LINE || is_sentence(line) || is_postscript(line));
    is_block.then_some(start)
}

/// Returns the index of the first line that a mailing list added at the end.
fn list_footer(lines: &[Line<'_>]) -> Option<usize> {
    let first = lines.len().saturating_sub(SIGNATURE);
    let is_rule = |line: &Line<'_>| line.text.len() >= 2 && line.text.bytes().all(|b| b == b'_');
    let rule = (first..lines.len()).find(|at| is_rule(&lines[*at]))?;
    let text = lower(&lines[rule..]);
    (rule + 1 == lines.len() || text.contains("mailing list") || text.contains("unsubscribe"))
        .then_some(rule)
}

/// Returns `true` for a closing phrase, possibly with a name or a place.
fn is_closing(line: &str) -> bool {
    if line.is_empty() || line.len() > 60 {
        return false;
    }
    let text = line.to_lowercase();
    let text = text.trim_matches(|c: char| !c.is_alphanumeric());
    CLOSINGS.iter().any(|closing| {
        text.strip_prefix(closing).is_some_and(|rest| {
            rest.is_empty()
                || rest.starts_with([' ', ',', '/', '!']) && rest.split_whitespace().count() <= 4
        })
    })
}

/// Returns `true` if the line contains an address, a link or a phone number.
fn is_contact(line: &str) -> bool {
    let text = line.trim_start().to_lowercase();
    let has_label = PHONE_LABELS.iter().any(|label| {
        text.strip_prefix(label).is_some_and(|rest| {
            rest.starts_with(|c: char| !c.is_alphabetic())
                && rest.contains(|c: char| c.is_ascii_digit())
        })
    });
    has_label
        || ["@", "www.", "http:", "https:"]
            .iter()
            .any(|mark| text.contains(mark))
        || has_phone_number(&text)
}

/// Returns `true` if the text contains at least seven digits that only characters of phone numbers
/// separate.
fn has_phone_number(text: &str) -> bool {
    let mut digits = 0;
    text.bytes().any(|b| {
        match b {
            b'0'..=b'9' => digits += 1,
            b' ' | b'+' | b'-' | b'(' | b')' | b'/' | b'.' => {}
            _ => digits = 0,
        }
        digits >= 7
    })
}

fn count_text(lines: &[Line<'_>]) -> usize {
    lines.iter().filter(|line| !line.is_blank()).count()
}

/// Returns the lines in lower case, joined with spaces, up to about [`MAX_PARAGRAPH`] bytes.
fn lower(lines: &[Line<'_>]) -> String {
    let mut text = String::new();
    for line in lines {
        if text.len() + line.text.len() > MAX_PARAGRAPH {
            break;
        }
        text.push_str(&line.text.trim_start().to_lowercase());
        text.push(' ');
    }
    text
}

fn starts_with(text: &str, phrases: &[&str]) -> bool {
    phrases.iter().any(|phrase| text.starts_with(phrase))
}

fn ends_with(text: &str, phrases: &[&str]) -> bool {
    phrases.iter().any(|phrase| text.ends_with(phrase))
}

fn contains(text: &str, phrases: &[&str]) -> bool {
    phrases.iter().any(|phrase| text.contains(phrase))
}
