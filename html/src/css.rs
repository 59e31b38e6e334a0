//! Splits CSS in the same way as browsers: comments, escapes, strings, blocks and brackets.

use std::str::Chars;

/// Replaces characters that have a meaning in CSS. Text from strings, escapes and URLs then needs
/// no quotes. The same characters are replaced in the attributes of elements, so that selectors
/// match the attributes.
pub(crate) fn neutral(c: char) -> char {
    match c {
        c if c.is_alphanumeric() || matches!(c, '-' | '_') => c,
        _ => char::REPLACEMENT_CHARACTER,
    }
}

/// For each byte, whether [`plain`] can change the byte or the text after the byte.
const IS_SPECIAL: [bool; 256] = {
    let mut special = [false; 256];
    let mut bytes: &[u8] = b"\\/<>(\"'";
    while let [byte, rest @ ..] = bytes {
        special[*byte as usize] = true;
        bytes = rest;
    }
    special
};

/// Returns CSS in lower case, without comments, escapes and special characters in strings. Also
/// removes `<!--` and `-->`, which hide style sheets from very old browsers.
pub(crate) fn plain(css: &str) -> String {
    let css = css.to_ascii_lowercase();
    let is_special = |byte: u8| IS_SPECIAL[usize::from(byte)];
    let Some(mut at) = css.bytes().position(is_special) else {
        return css;
    };
    let mut plain = String::with_capacity(css.len());
    let mut rest = css.chars();
    loop {
        let text = rest.as_str();
        plain.push_str(&text[..at]);
        rest = text[at..].chars();
        match rest.next() {
            None => return plain,
            Some('\\') => plain.push(escaped(&mut rest)),
            Some('/') if rest.as_str().starts_with('*') => {
                skip_after(&mut rest, "*/");
                plain.push(' ');
            }
            Some('<') if rest.as_str().starts_with("!--") => skip_after(&mut rest, "!--"),
            Some('>') if plain.ends_with("--") => plain.truncate(plain.len() - 2),
            Some(c) => {
                plain.push(c);
                let is_url = || {
                    plain.ends_with("url(") && !rest.as_str().trim_start().starts_with(['"', '\''])
                };
                match c {
                    '"' | '\'' => push_string(&mut plain, &mut rest, c),
                    // A URL without quotes can contain the characters of a comment.
                    '(' if is_url() => push_string(&mut plain, &mut rest, ')'),
                    _ => {}
                }
            }
        }
        let text = rest.as_str();
        at = text.bytes().position(is_special).unwrap_or(text.len());
    }
}

/// Adds the rest of a string or URL, up to the character `end`. A line break ends a string.
fn push_string(plain: &mut String, rest: &mut Chars<'_>, end: char) {
    while let Some(c) = rest.next() {
        match c {
            '\\' => plain.push(escaped(rest)),
            '\n' if end != ')' => return,
            c if c == end => return plain.push(c),
            c if c.is_ascii_whitespace() => plain.push(' '),
            c => plain.push(neutral(c)),
        }
    }
}

fn skip_after(rest: &mut Chars<'_>, end: &str) {
    // The `*` of the start `/*` cannot also belong to the end `*/`, so `/*/` does not end a
    // comment.
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
        let is_end = |byte| matches!(byte, b'{' | b'}' | b';');
        let Some(at) = text.bytes().position(is_end) else {
            self.0 = "";
            return (!text.trim().is_empty()).then_some(Item::Statement(text));
        };
        let (before, rest) = (&text[..at], &text[at + 1..]);
        // A closing brace without an opening brace ends the statement, as a semicolon does.
        if text.as_bytes()[at] != b'{' {
            self.0 = rest;
            return Some(Item::Statement(before));
        }
        let mut depth = 0_usize;
        for (at, byte) in rest.bytes().enumerate() {
            match byte {
                b'{' => depth += 1,
                b'}' if depth == 0 => {
                    self.0 = &rest[at + 1..];
                    return Some(Item::Block(before, &rest[..at]));
                }
                b'}' => depth -= 1,
                _ => {}
            }
        }
        // The end of the sheet closes all open blocks.
        self.0 = "";
        Some(Item::Block(before, rest))
    }
}
