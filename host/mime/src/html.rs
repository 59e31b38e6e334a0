//! Converts HTML to text for previews and for the search index. The result is plain text and can
//! contain `<` and `&`. It must be escaped before it is inserted into HTML.

use encoding_rs::WINDOWS_1252;
use mail_parser::decoders::html::add_html_token;

/// Elements whose content is invisible.
pub(super) const HIDDEN: [&str; 4] = ["script", "style", "title", "template"];

/// Elements that can begin and end within a word.
const INLINE: [&str; 22] = [
    "a", "abbr", "b", "bdi", "bdo", "big", "cite", "code", "em", "font", "i", "ins", "mark", "s",
    "small", "span", "strong", "sub", "sup", "tt", "u", "wbr",
];

/// Elements without content and end tag.
pub(super) const VOID: [&str; 14] = [
    "area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "param", "source",
    "track", "wbr",
];

/// Declarations in a `style` attribute that hide an element, without spaces.
const HIDING: [&str; 6] = [
    "display:none",
    "visibility:hidden",
    "mso-hide:all",
    "font-size:0;",
    "font-size:0\"",
    "font-size:0px",
];

/// Limit for the search of the ends of hidden elements, as a multiple of the document's length.
const SEARCH_FACTOR: usize = 8;

/// Entities that senders often write without a semicolon.
const BARE: [&str; 5] = ["amp", "gt", "lt", "nbsp", "quot"];

/// Maximum length of an entity, in bytes.
const MAX_ENTITY: usize = 40;

/// Returns the text of a document. The document can be cut off at the start and at the end. Time
/// and memory are linear in its length.
#[must_use]
pub fn to_text(html: &str) -> String {
    convert(html, 0)
}

/// Returns the text of a document like [`to_text`], but without the content of hidden elements. An
/// element is hidden if it has the attribute `hidden`, or if its attribute `style` hides it. Style
/// sheets are ignored. Time and memory are linear in the length of the document.
#[must_use]
pub fn to_visible_text(html: &str) -> String {
    convert(html, html.len().saturating_mul(SEARCH_FACTOR))
}

/// Returns the text of a document. `search_limit` is the total number of bytes in which the ends of
/// hidden elements are searched. After that, hidden elements are not skipped.
fn convert(html: &str, mut search_limit: usize) -> String {
    let mut text = String::with_capacity(html.len() / 2);
    let mut rest = html;
    while let Some(at) = memchr::memchr2(b'<', b'&', rest.as_bytes()) {
        text.push_str(&rest[..at]);
        rest = &rest[at..];
        rest = if rest.starts_with('&') {
            entity(rest, &mut text)
        } else {
            markup(rest, &mut text, &mut search_limit)
        };
    }
    text.push_str(rest);
    text
}

/// Converts an entity or a plain `&` at the beginning of `rest` and appends the result to `text`.
/// Returns the remaining input.
pub(super) fn entity<'a>(rest: &'a str, text: &mut String) -> &'a str {
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
    let bytes = [byte];
    let (text, _) = WINDOWS_1252.decode_without_bom_handling(&bytes);
    // The web leaves some of the numbers undefined.
    let defined = text.chars().next().filter(|c| !c.is_control());
    Some(defined.unwrap_or(char::REPLACEMENT_CHARACTER))
}

/// The markup at the beginning of a text.
pub(super) enum Markup<'a> {
    /// A plain `<`.
    Text,
    /// A comment, or a tag that does not end.
    Ignored,
    /// A tag.
    Tag {
        /// The name in lower case.
        name: String,
        /// `true` for an end tag.
        closing: bool,
        /// The name and the attributes.
        tag: &'a str,
    },
}

/// Parses the `<` at the beginning of `rest`. Returns the markup and the remaining input.
pub(super) fn parse_markup(rest: &str) -> (Markup<'_>, &str) {
    if let Some(comment) = rest.strip_prefix("<!--") {
        let after = comment.find("-->").map_or("", |end| &comment[end + 3..]);
        return (Markup::Ignored, after);
    }
    let inner = &rest[1..];
    let closing = inner.starts_with('/');
    let inner = inner.strip_prefix('/').unwrap_or(inner);
    if !inner.starts_with(|c: char| c.is_ascii_alphabetic() || matches!(c, '!' | '?')) {
        return (Markup::Text, &rest[1..]);
    }
    let Some(after) = tag_end(inner) else {
        return (Markup::Ignored, "");
    };
    let tag = &inner[..inner.len() - after.len()];
    let name_ends = tag
        .find(|c: char| !c.is_ascii_alphanumeric())
        .unwrap_or(tag.len());
    let markup = Markup::Tag {
        name: tag[..name_ends].to_ascii_lowercase(),
        closing,
        tag,
    };
    (markup, after)
}

/// Skips a comment or a tag at the beginning of `rest`, or appends a plain `<` to `text`. Returns
/// the remaining input.
fn markup<'a>(rest: &'a str, text: &mut String, search_limit: &mut usize) -> &'a str {
    let (markup, after) = parse_markup(rest);
    let (name, closing, tag) = match markup {
        Markup::Text => {
            text.push('<');
            return after;
        }
        Markup::Ignored => return after,
        Markup::Tag { name, closing, tag } => (name, closing, tag),
    };
    if !INLINE.contains(&name.as_str()) {
        text.push(' ');
    }
    if !closing && HIDDEN.contains(&name.as_str()) {
        return after_end_tag(after, &name);
    }
    if !closing
        && *search_limit > 0
        && !VOID.contains(&name.as_str())
        && is_hidden(&tag[name.len()..])
    {
        return after_element(after, &name, search_limit).unwrap_or(after);
    }
    after
}

/// Returns `true` if the attributes of a tag hide its element.
pub(super) fn is_hidden(attributes: &str) -> bool {
    let attributes = attributes.to_ascii_lowercase();
    let compact: String = attributes
        .chars()
        .filter(|c| !c.is_ascii_whitespace())
        .collect();
    let has_hidden_style =
        compact.contains("style=") && HIDING.iter().any(|hiding| compact.contains(hiding));
    let is_end = |c: char| c.is_ascii_whitespace() || matches!(c, '=' | '>' | '/');
    let (mut quotes, mut counted) = (0_usize, 0);
    has_hidden_style
        || attributes.match_indices("hidden").any(|(at, name)| {
            quotes += attributes[counted..at].matches('"').count();
            counted = at;
            attributes[..at].ends_with(|c: char| c.is_ascii_whitespace())
                && quotes.is_multiple_of(2)
                && attributes[at + name.len()..].starts_with(is_end)
        })
}

/// Returns the text after the end tag of the element `name` that begins before `rest`. Returns
/// `None` if the end tag is missing, or if `search_limit` is exceeded.
fn after_element<'a>(rest: &'a str, name: &str, search_limit: &mut usize) -> Option<&'a str> {
    let (mut depth, mut at) = (1_u32, 0);
    while let Some(found) = rest[at..].find('<') {
        let from = at + found + 1;
        if from > *search_limit {
            *search_limit = 0;
            return None;
        }
        let closing = rest[from..].starts_with('/');
        let tag = from + usize::from(closing);
        at = tag;
        let is_same = rest
            .get(tag..tag + name.len())
            .is_some_and(|word| word.eq_ignore_ascii_case(name))
            && !rest[tag + name.len()..].starts_with(|c: char| c.is_ascii_alphanumeric());
        if !is_same {
            continue;
        }
        let after = tag_end(&rest[tag..])?;
        at = rest.len() - after.len();
        depth = if closing { depth - 1 } else { depth + 1 };
        if depth == 0 {
            *search_limit -= at.min(*search_limit);
            return Some(after);
        }
    }
    *search_limit -= rest.len().min(*search_limit);
    None
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
pub(super) fn after_end_tag<'a>(rest: &'a str, name: &str) -> &'a str {
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
    fn the_visible_text_omits_hidden_elements() {
        let visible = |html: &str| {
            let text = to_visible_text(html);
            text.split_whitespace().collect::<Vec<_>>().join(" ")
        };
        assert_eq!(
            visible("a<div style=\"color:red; display: none\">b<div>c</div>d</div>e"),
            "a e"
        );
        assert_eq!(visible("a<span hidden>b</span><p hidden=''>c</P>d"), "a d");
        assert_eq!(visible("<p STYLE='Display:None !important'>a</p>b"), "b");
        assert_eq!(visible("<span style=\"font-size:0px\">a</span>b"), "b");
        // These elements are visible.
        assert_eq!(visible("<p title=\"a hidden thing\">a</p>"), "a");
        assert_eq!(visible("<p data-hidden>a</p><p class=hidden>b</p>"), "a b");
        assert_eq!(visible("<p style=\"font-size:0.9em\">a</p>"), "a");
        // The end tag of a hidden element is missing.
        assert_eq!(visible("<b hidden>a<i>b</i>"), "ab");
        assert_eq!(visible("<img style=\"display:none\">a</img>"), "a");
        assert_eq!(visible("M&uuml;ller in <b>Ber</b>lin"), "Müller in Berlin");
    }

    #[test]
    fn many_hidden_elements_without_end_tags_take_linear_time() {
        let html = "<b hidden>x".repeat(200_000);
        assert_eq!(to_visible_text(&html).len(), 200_000);
    }

    #[test]
    fn a_document_may_be_cut_anywhere() {
        let html = "<p>Grüße &amp; <b title=\"x>y\">mehr</b><style>a{}</style><!-- c -->ende";
        for (at, _) in html.char_indices() {
            let _ = (to_text(&html[..at]), to_visible_text(&html[..at]));
            let _ = (to_text(&html[at..]), to_visible_text(&html[at..]));
        }
        assert_eq!(collapsed("text <img src="), "text");
        assert_eq!(collapsed("text <style>a{"), "text");
    }

    /// The limit is generous, because tests run without optimization and next to other programs.
    #[test]
    fn the_attributes_of_a_long_tag_are_searched_in_linear_time() {
        let started = std::time::Instant::now();
        let tag = format!("<p \" {}>text", "hidden ".repeat(100_000));
        assert_eq!(to_visible_text(&tag).trim(), "text");
        assert!(started.elapsed() < std::time::Duration::from_secs(5));
    }
}
