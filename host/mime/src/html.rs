//! Converts HTML to text for previews. The result is plain text and can contain `<` and `&`. It must be escaped before it is inserted into HTML.

use mail_parser::decoders::charsets::map::charset_decoder;
use mail_parser::decoders::html::add_html_token;

/// Elements whose content is invisible.
const HIDDEN: [&str; 4] = ["script", "style", "title", "template"];

/// Elements that can begin and end within a word.
const INLINE: [&str; 22] = [
    "a", "abbr", "b", "bdi", "bdo", "big", "cite", "code", "em", "font", "i", "ins", "mark", "s",
    "small", "span", "strong", "sub", "sup", "tt", "u", "wbr",
];

/// Entities that senders often write without a semicolon.
const BARE: [&str; 5] = ["amp", "gt", "lt", "nbsp", "quot"];

/// Maximum length of an entity, in bytes.
const MAX_ENTITY: usize = 40;

/// Returns the text of a document. The document can be cut off at the start and at the end. Time and memory are linear in its length.
#[must_use]
pub fn to_text(html: &str) -> String {
    let mut text = String::with_capacity(html.len() / 2);
    let mut rest = html;
    while let Some(at) = memchr::memchr2(b'<', b'&', rest.as_bytes()) {
        text.push_str(&rest[..at]);
        rest = &rest[at..];
        rest = if rest.starts_with('&') {
            entity(rest, &mut text)
        } else {
            markup(rest, &mut text)
        };
    }
    text.push_str(rest);
    text
}

/// Converts an entity or a plain `&` at the beginning of `rest` and appends the result to `text`. Returns the remaining input.
fn entity<'a>(rest: &'a str, text: &mut String) -> &'a str {
    let length = rest
        .bytes()
        .take(MAX_ENTITY)
        .skip(1)
        .take_while(|b| b.is_ascii_alphanumeric() || *b == b'#')
        .count();
    let (name, after) = rest[1..].split_at(length);
    if let Some(after) = after.strip_prefix(';').filter(|_| length > 0) {
        match windows_1252(name) {
            Some(c) => text.push(c),
            None => add_html_token(text, &rest.as_bytes()[..length + 2], false),
        }
        return after;
    }
    if BARE.contains(&name) {
        add_html_token(text, format!("&{name};").as_bytes(), false);
        return after;
    }
    text.push('&');
    &rest[1..]
}

/// Returns the Windows-1252 character for a numeric entity from 128 to 159, as browsers do.
fn windows_1252(name: &str) -> Option<char> {
    let number = name.strip_prefix('#')?;
    let code = match number.strip_prefix(['x', 'X']) {
        Some(digits) => u32::from_str_radix(digits, 16),
        None => number.parse(),
    };
    let byte = u8::try_from(code.ok()?)
        .ok()
        .filter(|byte| (128..160).contains(byte))?;
    charset_decoder(b"windows-1252")?(&[byte]).chars().next()
}

/// Skips a comment or a tag at the beginning of `rest`, or appends a plain `<` to `text`. Returns the remaining input.
fn markup<'a>(rest: &'a str, text: &mut String) -> &'a str {
    if let Some(comment) = rest.strip_prefix("<!--") {
        return comment.find("-->").map_or("", |end| &comment[end + 3..]);
    }
    let inner = &rest[1..];
    let closing = inner.starts_with('/');
    let inner = inner.strip_prefix('/').unwrap_or(inner);
    if !inner.starts_with(|c: char| c.is_ascii_alphabetic() || matches!(c, '!' | '?')) {
        text.push('<');
        return &rest[1..];
    }
    let name_ends = inner
        .find(|c: char| !c.is_ascii_alphanumeric())
        .unwrap_or(inner.len());
    let name = inner[..name_ends].to_ascii_lowercase();
    let Some(after) = tag_end(inner) else {
        return "";
    };
    if !INLINE.contains(&name.as_str()) {
        text.push(' ');
    }
    if !closing && HIDDEN.contains(&name.as_str()) {
        return after_end_tag(after, &name);
    }
    after
}

/// Returns the text after the `>` of a tag. A `>` in quotes does not end the tag.
fn tag_end(inner: &str) -> Option<&str> {
    let mut quote = None;
    for (at, byte) in inner.bytes().enumerate() {
        match (quote, byte) {
            (None, b'>') => return Some(&inner[at + 1..]),
            (None, b'"' | b'\'') => quote = Some(byte),
            (Some(open), _) if open == byte => quote = None,
            _ => {}
        }
    }
    // An unclosed quotation mark does not start a quoted value.
    inner.find('>').map(|end| &inner[end + 1..])
}

/// Returns the text after the end tag of `name`, or an empty string if the end tag is missing.
fn after_end_tag<'a>(rest: &'a str, name: &str) -> &'a str {
    let mut from = 0;
    while let Some(found) = rest[from..].find("</") {
        let tag = from + found + 2;
        let ends = rest
            .get(tag..tag + name.len())
            .is_some_and(|word| word.eq_ignore_ascii_case(name));
        if ends {
            return rest[tag..]
                .find('>')
                .map_or("", |end| &rest[tag + end + 1..]);
        }
        from = tag;
    }
    ""
}

#[cfg(test)]
mod tests {
    use super::*;

    fn collapsed(html: &str) -> String {
        to_text(html)
            .split_whitespace()
            .collect::<Vec<_>>()
            .join(" ")
    }

    #[test]
    fn what_is_shown_is_kept_and_what_is_not_is_left_out() {
        assert_eq!(
            collapsed(
                "<!DOCTYPE html><html><head><title>t</title><style>p{a:b}</style></head><body><p>Hello</p><p>w<b>or</b>ld</p>"
            ),
            "Hello world"
        );
        assert_eq!(
            collapsed("<td>a</td><td>b</td><br>c<!-- <p>no</p> -->d"),
            "a b cd"
        );
        assert_eq!(collapsed("a<script>if (a < b) x('</p>')</SCRIPT >b"), "a b");
        assert_eq!(collapsed("<p it's>yes"), "yes");
        assert_eq!(collapsed("<a title='>' href=\"x>y\">link</a>"), "link");
        assert_eq!(
            collapsed("1 < 2 &amp;&lt;&nbsp;&#8364;&#x20ac; &bogus; R&D &"),
            "1 < 2 &< €€ &bogus; R&D &"
        );
        assert_eq!(
            collapsed("it&#146;s &#x80;5&#129;, AT&amp T&nbsp x &amplitude &#99999999999; &;"),
            "it’s €5\u{fffd}, AT& T x &amplitude &#99999999999; &;"
        );
    }

    #[test]
    fn a_document_may_be_cut_anywhere() {
        let html = "<p>Grüße &amp; <b title=\"x>y\">mehr</b><style>a{}</style><!-- c -->ende";
        for (at, _) in html.char_indices() {
            let _ = to_text(&html[..at]);
            let _ = to_text(&html[at..]);
        }
        assert_eq!(collapsed("text <img src="), "text");
        assert_eq!(collapsed("text <style>a{"), "text");
    }
}
