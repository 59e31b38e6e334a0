//! Splits CSS in the same way as browsers: comments, escapes, strings, blocks and brackets.

use std::str::Chars;

/// Replaces characters that have a meaning in CSS. Text from strings, escapes and URLs then needs
/// no quotes. The attributes of elements have the same replacements, so that selectors match them.
pub(crate) fn neutral(c: char) -> char {
    match c {
        c if c.is_alphanumeric() || matches!(c, '-' | '_') => c,
        _ => char::REPLACEMENT_CHARACTER,
    }
}

/// Returns CSS in lower case, without comments, escapes and special characters in strings. Also
/// removes `<!--` and `-->`, which hide style sheets from very old browsers.
pub(crate) fn plain(css: &str) -> String {
    let css = css.to_ascii_lowercase();
    if !css.contains(['\\', '"', '\'', '<']) && !css.contains("/*") && !css.contains("-->") {
        return css;
    }
    let mut plain = String::with_capacity(css.len());
    let mut rest = css.chars();
    // The character that ends the current string or URL.
    let mut end = None;
    while let Some(c) = rest.next() {
        match c {
            '\\' => plain.push(escaped(&mut rest)),
            '\n' if end.is_some_and(|end| end != ')') => end = None,
            c if end == Some(c) => {
                end = None;
                plain.push(c);
            }
            c if end.is_some() && c.is_ascii_whitespace() => plain.push(' '),
            c if end.is_some() => plain.push(neutral(c)),
            '/' if rest.as_str().starts_with('*') => {
                skip_after(&mut rest, "*/");
                plain.push(' ');
            }
            '<' if rest.as_str().starts_with("!--") => skip_after(&mut rest, "!--"),
            '-' if rest.as_str().starts_with("->") => skip_after(&mut rest, "->"),
            c => {
                plain.push(c);
                let is_url = || {
                    plain.ends_with("url(") && !rest.as_str().trim_start().starts_with(['"', '\''])
                };
                end = match c {
                    '"' | '\'' => Some(c),
                    // A URL without quotes can contain the characters of a comment.
                    '(' if is_url() => Some(')'),
                    _ => None,
                };
            }
        }
    }
    plain
}

fn skip_after(rest: &mut Chars<'_>, end: &str) {
    // The `*` that begins a comment does not end it.
    let text = rest.as_str();
    let from = usize::from(text.starts_with('*'));
    let after = text[from..].split_once(end).map_or("", |(_, after)| after);
    *rest = after.chars();
}

/// Decodes an escaped character. `rest` starts after the backslash.
fn escaped(rest: &mut Chars<'_>) -> char {
    let text = rest.as_str();
    let digits = text
        .bytes()
        .take(6)
        .take_while(u8::is_ascii_hexdigit)
        .count();
    let c = if digits == 0 {
        rest.next()
    } else {
        let after = &text[digits..];
        *rest = after
            .strip_prefix(|c: char| c.is_ascii_whitespace())
            .unwrap_or(after)
            .chars();
        u32::from_str_radix(&text[..digits], 16)
            .ok()
            .and_then(char::from_u32)
            .map(|c| c.to_ascii_lowercase())
    };
    c.map_or(char::REPLACEMENT_CHARACTER, neutral)
}

/// Splits a text at the ASCII characters that `is_separator` selects, outside brackets.
pub(crate) fn split(text: &str, is_separator: impl Fn(u8) -> bool) -> impl Iterator<Item = &str> {
    let mut rest = Some(text);
    std::iter::from_fn(move || {
        let text = rest.take()?;
        let mut depth = 0_usize;
        for (at, byte) in text.bytes().enumerate() {
            match byte {
                b'(' | b'[' | b'{' => depth += 1,
                b')' | b']' | b'}' => depth = depth.saturating_sub(1),
                _ if depth == 0 && is_separator(byte) => {
                    rest = Some(&text[at + 1..]);
                    return Some(&text[..at]);
                }
                _ => {}
            }
        }
        Some(text)
    })
}

pub(crate) enum Item<'t> {
    /// A statement that ends with a semicolon.
    Statement(&'t str),
    /// The text before a block, and the content of the block.
    Block(&'t str, &'t str),
}

/// An iterator over the statements and blocks of plain CSS.
pub(crate) struct Items<'t>(pub(crate) &'t str);

impl<'t> Iterator for Items<'t> {
    type Item = Item<'t>;

    fn next(&mut self) -> Option<Item<'t>> {
        let text = self.0;
        let mut begins = None;
        let mut depth = 0_usize;
        for (at, byte) in text.bytes().enumerate() {
            match (byte, begins) {
                (b'{', None) => begins = Some(at),
                (b'{', Some(_)) => depth += 1,
                (b'}', Some(begins)) if depth == 0 => {
                    self.0 = &text[at + 1..];
                    return Some(Item::Block(&text[..begins], &text[begins + 1..at]));
                }
                (b'}', Some(_)) => depth -= 1,
                // A closing brace without an opening brace ends only the statement.
                (b';' | b'}', None) => {
                    self.0 = &text[at + 1..];
                    return Some(Item::Statement(&text[..at]));
                }
                _ => {}
            }
        }
        self.0 = "";
        match begins {
            // The end of the sheet closes all open blocks.
            Some(begins) => Some(Item::Block(&text[..begins], &text[begins + 1..])),
            None if text.trim().is_empty() => None,
            None => Some(Item::Statement(text)),
        }
    }
}
