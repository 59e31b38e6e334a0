//! Parses quoted strings and comments of header fields (RFC 5322, sections 3.2.2 and 3.2.4). A
//! quoted string or a comment without an end continues to the end of the field.

/// Parses the quoted string at the beginning of `text`. Returns its content without quotes and
/// backslashes, and its length in bytes, including the quotes. The length is `None` if the quoted
/// string has no end.
pub(super) fn quoted_string(text: &str) -> (String, Option<usize>) {
    let mut content = String::new();
    let mut rest = text.get(1..).unwrap_or_default();
    while let Some(at) = memchr::memchr2(b'"', b'\\', rest.as_bytes()) {
        content.push_str(&rest[..at]);
        let (special, after) = rest[at..].split_at(1);
        if special == "\"" {
            return (content, Some(text.len() - after.len()));
        }
        let escaped = after.chars().next();
        content.extend(escaped);
        rest = &after[escaped.map_or(0, char::len_utf8)..];
    }
    content.push_str(rest);
    (content, None)
}

/// Parses the comment at the beginning of `text`. Returns its content without backslashes, and its
/// length in bytes, including the parentheses. The content includes the parentheses of nested
/// comments. The length is `None` if the comment has no end.
pub(super) fn comment(text: &str) -> (String, Option<usize>) {
    let mut content = String::new();
    let mut depth = 1_usize;
    let mut characters = text.char_indices().skip(1);
    while let Some((at, c)) = characters.next() {
        match c {
            '(' => depth += 1,
            ')' if depth == 1 => return (content, Some(at + 1)),
            ')' => depth -= 1,
            '\\' => {
                content.extend(characters.next().map(|(_, c)| c));
                continue;
            }
            _ => {}
        }
        content.push(c);
    }
    (content, None)
}

/// Replaces comments with spaces. Returns `None` if a comment has no end.
pub(super) fn without_comments(field: &str) -> Option<String> {
    let mut plain = String::with_capacity(field.len());
    let mut rest = field;
    while let Some(start) = rest.find('(') {
        plain.push_str(&rest[..start]);
        plain.push(' ');
        rest = &rest[start..];
        rest = &rest[comment(rest).1?..];
    }
    plain.push_str(rest);
    Some(plain)
}
