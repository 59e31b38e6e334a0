//! Finds quotes, their introductions, and the beginnings of other messages.

use memchr::memchr;

use super::quote_phrases::{
    COPY, DATE, FORWARDS, FROM, INTRODUCTIONS, ORIGINAL_MESSAGE, SUBJECTS, TO, WROTE,
};
use super::{Kind, Line};

/// Maximum number of lines of the introduction of a quote.
const INTRODUCTION: usize = 4;

/// Maximum length of a line of an introduction or header, in bytes.
const MAX_LINE: usize = 400;

/// Maximum length of the name of a header field with its colon, in bytes.
const MAX_FIELD_NAME: usize = 60;

/// Maximum number of words of a name in an introduction without a date and an address.
const MAX_NAME: usize = 4;

/// Maximum number of lines of a header.
const HEADER: usize = 14;

/// Maximum number of blank lines between a quote and its introduction.
const GAP: usize = 2;

/// Minimum length of a quoted line that a client can have wrapped, in bytes.
const WRAPPED: usize = 65;

/// Maximum length of the rest of a wrapped line, in bytes.
const WRAPPED_REST: usize = 30;

/// Marks the lines of quotes.
pub(super) fn mark_quotes(lines: &mut [Line<'_>]) {
    let has_mark = |line: &Line<'_>| line.text.trim_start_matches(' ').starts_with('>');
    for at in 0..lines.len() {
        if !lines[at].is_text() || !has_mark(&lines[at]) {
            continue;
        }
        let before = at.checked_sub(1).map(|before| lines[before]);
        let is_single =
            !before.is_some_and(|line| line.is_quote()) && !lines.get(at + 1).is_some_and(has_mark);
        let is_text =
            is_single && is_prose(before, lines[at].text) || ends_address(before, lines[at].text);
        if !is_text {
            lines[at].kind = Kind::Quote;
        }
    }
    // Some clients wrap quoted lines, so that the rest of a line has no `>`.
    for at in 1..lines.len().saturating_sub(1) {
        let [before, line, after] = [lines[at - 1], lines[at], lines[at + 1]];
        let is_rest = before.text.len() >= WRAPPED
            && before.text.ends_with(char::is_alphanumeric)
            && line.text.len() <= WRAPPED_REST
            && line.text.starts_with(char::is_lowercase);
        if line.is_text() && before.is_quote() && after.is_quote() && is_rest {
            lines[at].kind = Kind::Quote;
        }
    }
}

/// Returns `true` if a single line with `>` is a comparison (`> 80 %`) within a sentence, or a line
/// that a mail server changed from `From` to `>From`.
fn is_prose(before: Option<Line<'_>>, line: &str) -> bool {
    if line.starts_with(">From ") {
        return true;
    }
    let content = line.trim_start_matches([' ', '>', '=']);
    let in_sentence = before
        .is_some_and(|before| before.is_text() && before.text.ends_with(char::is_alphanumeric));
    in_sentence && content.starts_with(|c: char| c.is_ascii_digit() || matches!(c, '€' | '$'))
}

/// Returns `true` if a line of an introduction was wrapped within an address: the line before
/// contains `<`, and this line begins with `>` and ends with a colon.
fn ends_address(before: Option<Line<'_>>, line: &str) -> bool {
    let is_open = before.is_some_and(|before| {
        before.is_text()
            && before.text.len() <= MAX_LINE
            && before.text.rfind('<') > before.text.rfind('>')
    });
    is_open && line.len() <= 40 && line.ends_with(':')
}

/// Finds other messages in the text. If the lines of a message begin with `>`, marks only the
/// header of the message. Otherwise, marks all lines from the header to the end. Returns the index
/// of the first line of the first message. This message is the text if there is no other text.
pub(super) fn mark_messages(lines: &mut [Line<'_>]) -> Option<usize> {
    let mut at = 0;
    let mut forward = None;
    while at < lines.len() {
        let Some(end) = start_of_message(lines, at) else {
            at += 1;
            continue;
        };
        let next = lines[end..].iter().find(|line| !line.is_blank());
        let is_quoted = next.is_some_and(Line::is_quote);
        let start = with_rule(lines, at);
        forward = forward.or(Some(at));
        let end = if is_quoted { end } else { lines.len() };
        for line in &mut lines[start..end] {
            line.kind = if line.is_quote() {
                Kind::Quote
            } else {
                Kind::Dropped
            };
        }
        at = end;
    }
    forward
}

/// Returns the index of the line after the header of another message that starts at `at`. Returns
/// `None` if no message starts at `at`.
fn start_of_message(lines: &[Line<'_>], at: usize) -> Option<usize> {
    if lines[at].kind == Kind::Cut {
        return Some(at + 1);
    }
    if !lines[at].is_text() || lines[at].is_blank() {
        return None;
    }
    if is_separator(lines[at].text) {
        let header = at + 1 + blank_lines(&lines[at + 1..]);
        return Some(header_end(lines, header).unwrap_or(at + 1));
    }
    if let Some(end) = header_end(lines, at) {
        return Some(end);
    }
    // If a quote with `>` follows, [`mark_introductions`] marks the introduction later.
    let end = at + introduction_at(&lines[at..])?;
    let next = end + blank_lines(&lines[end..]);
    (!lines.get(next).is_some_and(Line::is_quote)).then_some(end)
}

/// Returns the index of the line of underscores or dashes before `at`. Returns `at` if there is no
/// such line.
fn with_rule(lines: &[Line<'_>], at: usize) -> usize {
    let before = lines[..at].iter().rposition(|line| !line.is_blank());
    // The line can contain a phrase between dashes.
    let is_rule = |text: &str| {
        let text = text.trim();
        let is_mark = |c: char| matches!(c, '_' | '-' | '=' | '*');
        let inner = text.trim_matches(is_mark);
        text.starts_with(is_mark)
            && text.ends_with(is_mark)
            && inner.len() + 4 <= text.len()
            && inner.len() <= 60
    };
    before
        .filter(|before| at - before <= 1 + GAP && is_rule(lines[*before].text))
        .unwrap_or(at)
}

fn blank_lines(lines: &[Line<'_>]) -> usize {
    lines
        .iter()
        .take(GAP + 1)
        .take_while(|line| line.is_blank())
        .count()
}

/// Returns `true` for lines like `-----Original Message-----` and `Begin forwarded message:`.
fn is_separator(line: &str) -> bool {
    let line = line.trim();
    if line.len() > 150 {
        return false;
    }
    let inner = line.trim_matches('-');
    if inner.len() + 4 <= line.len() && line.starts_with("--") {
        let inner = inner.trim().trim_end_matches(':').to_lowercase();
        return ORIGINAL_MESSAGE.contains(&inner.trim_end());
    }
    let Some(phrase) = line.strip_suffix(':') else {
        return false;
    };
    FORWARDS.contains(&phrase.trim_end().to_lowercase().as_str())
}

/// Returns the kind of the header field in a line, as one bit of the bits in [`header_end`].
/// Returns `None` if the line does not begin with a known field name.
fn field(line: &str) -> Option<u8> {
    let line = line.trim_start_matches([' ', '\t', '*', '\u{a0}']);
    let start = &line[..line.floor_char_boundary(MAX_FIELD_NAME)];
    let wide = (!start.is_ascii()).then(|| start.find('：')).flatten();
    let colon = memchr(b':', start.as_bytes())
        .into_iter()
        .chain(wide)
        .min()?;
    let name = &line[..colon];
    let name = name.trim_end_matches([' ', '\u{a0}', '\u{202f}', '*', '.']);
    let name = name.to_lowercase();
    let kinds = [FROM, DATE, TO, COPY, SUBJECTS];
    let kind = kinds
        .iter()
        .position(|names| names.contains(&name.as_str()))?;
    Some(1 << kind)
}

/// Returns the index of the line after the header of a message that starts at `at`. A header has at
/// least three different fields, one of them the sender or the date. A header also has a subject or
/// an address. Long lines can be wrapped.
fn header_end(lines: &[Line<'_>], at: usize) -> Option<usize> {
    const FROM_OR_DATE: u8 = 0b11;
    const TO_OR_COPY: u8 = 0b1100;
    const SUBJECT: u8 = 0b1_0000;
    let first = field(lines.get(at)?.text).filter(|first| first & TO_OR_COPY == 0)?;
    let (mut found, mut end) = (first, at + 1);
    for (line, next) in lines[at + 1..].iter().zip(at + 2..).take(HEADER) {
        if line.is_blank() || !line.is_text() {
            break;
        }
        if let Some(kind) = field(line.text) {
            found |= kind;
            end = next;
        }
    }
    let is_complete = found & FROM_OR_DATE != 0 && found.count_ones() >= 3;
    let has_address = |line: &Line<'_>| line.text.contains('@');
    let is_mail = found & SUBJECT != 0 || lines[at..end].iter().any(has_address);
    (is_complete && is_mail).then_some(end)
}

/// Marks the introductions of quotes, for example `On Monday, Ada wrote:`.
pub(super) fn mark_introductions(lines: &mut [Line<'_>]) {
    for at in 1..lines.len() {
        if !lines[at].is_quote() || lines[at - 1].is_quote() {
            continue;
        }
        let end = at
            - lines[..at]
                .iter()
                .rev()
                .take(GAP)
                .take_while(|line| line.is_blank() && line.is_text())
                .count();
        let start = introduction_before(&lines[..end]);
        for line in &mut lines[start..end] {
            line.kind = Kind::Dropped;
        }
    }
}

/// Returns the index of the first line of the attribution (`On Monday, Ann wrote:`) at the end of
/// `lines`. Returns the length of `lines` if there is no attribution.
fn introduction_before(lines: &[Line<'_>]) -> usize {
    let paragraph = lines
        .iter()
        .rev()
        .take(INTRODUCTION)
        .take_while(|line| line.is_text() && !line.is_blank() && line.text.len() <= MAX_LINE)
        .count();
    let starts = (1..=paragraph).map(|count| lines.len() - count);
    let is_introduction = |start: &usize| is_introduction(&join(&lines[*start..]));
    let with_first_word = |start: &usize| has_first_word(lines[*start].text);
    let with_date = |start: &usize| has_date(&join(&lines[*start..]));
    let introductions = starts.filter(is_introduction);
    introductions
        .clone()
        .find(with_first_word)
        .or_else(|| introductions.clone().find(with_date))
        .or_else(|| introductions.clone().next())
        .unwrap_or_else(|| {
            let is_short = paragraph > 0 && is_name_and_verb(lines[lines.len() - 1].text);
            lines.len() - usize::from(is_short)
        })
}

/// Returns `true` for introductions without a date and an address, for example `Ada Lovelace
/// wrote:`.
fn is_name_and_verb(line: &str) -> bool {
    let Some(text) = line.trim().strip_suffix([':', '：']) else {
        return false;
    };
    let words: Vec<_> = text.split_whitespace().collect();
    let is_name = |words: &[&str]| {
        let is_lower_case = |word: &&str| word.starts_with(char::is_lowercase);
        (1..=MAX_NAME).contains(&words.len()) && !words.iter().any(is_lower_case)
    };
    WROTE.iter().any(|verb| {
        let length = verb.split_whitespace().count();
        let is_verb = |words: &[&str]| words.join(" ").to_lowercase() == *verb;
        words.len() > length && words.len() <= length + MAX_NAME && {
            let (name, last) = words.split_at(words.len() - length);
            let (first, other_name) = words.split_at(length);
            is_verb(last) && is_name(name) || is_verb(first) && is_name(other_name)
        }
    })
}

/// Returns the number of lines of an introduction at the beginning of `lines`. No `>` follows this
/// introduction, so all text after the introduction becomes the quote. Therefore the function
/// accepts only precise introductions.
fn introduction_at(lines: &[Line<'_>]) -> Option<usize> {
    let has_first_word = has_first_word(lines[0].text);
    // Without such a word, a digit of the date must be at the beginning of the line, at most after
    // the day of the week.
    let mut first = lines[0].text.trim_start().chars().take(12);
    if !has_first_word && !first.any(char::is_numeric) {
        return None;
    }
    let paragraph = lines
        .iter()
        .take(INTRODUCTION)
        .take_while(|line| line.is_text() && !line.is_blank() && line.text.len() <= MAX_LINE)
        .count();
    (1..=paragraph).find(|count| {
        let text = join(&lines[..*count]);
        if has_first_word {
            let ends = text.ends_with(':') || ends_with_verb(text.trim_end_matches([' ', '-']));
            ends && contains_verb(&text)
                && has_date(&text)
                && (text.contains('@') || has_time(&text))
        } else {
            let ends = || {
                ends_with_verb(text.trim_end_matches([':', '：']))
                    || text.ends_with(">:") && text.contains('@')
            };
            *count <= 2 && text.contains("20") && has_time(&text) && ends()
        }
    })
}

/// Joins lines, in lower case and with ASCII digits.
fn join(lines: &[Line<'_>]) -> String {
    let lines: Vec<_> = lines.iter().map(|line| line.text.trim()).collect();
    let text = lines.join(" ").to_lowercase();
    if text.is_ascii() {
        return text;
    }
    let to_ascii_digit = |c: char| {
        let zeros = ['\u{660}', '\u{6f0}'].into_iter().map(u32::from);
        let mut digits = zeros.filter_map(|zero| u32::from(c).checked_sub(zero));
        digits.find_map(|digit| char::from_digit(digit, 10))
    };
    text.chars()
        .map(|c| to_ascii_digit(c).unwrap_or(c))
        .collect()
}

/// Returns `true` if the line starts with a word like `On`, possibly after dashes.
fn has_first_word(line: &str) -> bool {
    let line = line.trim_start_matches([' ', '\t', '-', '\u{a0}']);
    let word = line.split([' ', '\u{a0}']).next().unwrap_or_default();
    word.len() <= 16 && INTRODUCTIONS.contains(&word.to_lowercase().as_str())
}

/// Returns `true` if a text in lower case introduces a quote: it ends with a colon, and contains a
/// date or an address.
fn is_introduction(text: &str) -> bool {
    let ends = text.ends_with([':', '：']) || text.starts_with("--") && text.ends_with("--");
    let has_address = text.contains('@');
    let has_digit = text.contains(|c: char| c.is_ascii_digit());
    ends && (has_digit && has_address
        || contains_verb(text) && (has_digit || has_address)
        || text.ends_with(">:") && has_address)
}

fn ends_with_verb(text: &str) -> bool {
    WROTE.iter().any(|verb| text.ends_with(verb))
}

/// Returns `true` if the text contains a year and more digits, or a date like `4/4/12`.
fn has_date(text: &str) -> bool {
    let digits = text.bytes().filter(u8::is_ascii_digit).count();
    digits >= 5 && text.contains("20") || digits >= 3 && text.contains('/')
}

fn contains_verb(text: &str) -> bool {
    WROTE.iter().any(|verb| text.contains(verb))
}

/// Returns `true` if the text contains a time like `16:12`, `4.12` or `16h12`.
fn has_time(text: &str) -> bool {
    text.as_bytes().windows(4).any(|window| {
        window[0].is_ascii_digit()
            && matches!(window[1], b':' | b'.' | b'h')
            && window[2].is_ascii_digit()
            && window[3].is_ascii_digit()
    })
}
