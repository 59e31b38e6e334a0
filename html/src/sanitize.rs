//! Removes active content from the HTML of a message, so that another message can contain the HTML.
//!
//! The output is written from tokens: every text is escaped, every element and attribute is in a
//! list, and every element is closed. Scripts, style sheets, forms and frames are removed with
//! their content. Time is linear in the size of the HTML. A tree of elements as browsers build it
//! can grow with the square of the size, because browsers repeat formatting elements.

mod permitted;

use std::fmt::Write as _;
use std::ops::ControlFlow;

use crate::kind::is_signature;
use crate::tag::{Tag, Token, VOID, tokenize};
use permitted::{ATTRIBUTES, DATA_IMAGES, ELEMENTS, LINKS, PROPERTIES, REMOVED};

/// Maximum nesting depth of the output. The tags of deeper elements are removed.
const MAX_DEPTH: usize = 256;

/// Settings of [`sanitized`].
pub struct Sanitizing<'s> {
    /// Returns the new Content-ID of an image whose URL is `cid:` with this Content-ID (RFC 2392).
    /// The image is removed if the function returns `None`.
    pub content_id: &'s mut dyn FnMut(&str) -> Option<String>,
    /// Whether elements that mail clients mark as the signature are removed.
    pub without_signatures: bool,
    /// Maximum size of the output in bytes. Content beyond the limit is removed.
    pub limit: usize,
}

/// HTML without active content.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Sanitized {
    /// The HTML: elements without `html`, `head` and `body`. Every element is closed.
    pub html: String,
    /// Whether content was removed because of the limit.
    pub truncated: bool,
}

/// Returns HTML without active content: no scripts, style sheets, forms, frames, and no URLs except
/// links and images.
#[must_use]
pub fn sanitized(html: &str, settings: Sanitizing<'_>) -> Sanitized {
    let mut sanitizer = Sanitizer {
        settings,
        output: String::new(),
        open: Vec::new(),
        removing: None,
        truncated: false,
    };
    tokenize(html, |token| {
        match token {
            Token::Open(tag) => sanitizer.open(tag),
            Token::Close(name) => sanitizer.close(name),
            Token::Text(text) => sanitizer.text(text),
        }
        if sanitizer.truncated {
            ControlFlow::Break(())
        } else {
            ControlFlow::Continue(())
        }
    });
    sanitizer.close_from(0);
    Sanitized {
        html: sanitizer.output,
        truncated: sanitizer.truncated,
    }
}

/// An element that is removed with its content.
struct Removing {
    name: String,
    /// The number of open elements with this name.
    depth: usize,
}

struct Sanitizer<'s> {
    settings: Sanitizing<'s>,
    output: String,
    /// The open elements of the output, the outermost first.
    open: Vec<&'static str>,
    removing: Option<Removing>,
    truncated: bool,
}

impl Sanitizer<'_> {
    fn open(&mut self, tag: &Tag) {
        let name = tag.name();
        if let Some(removing) = &mut self.removing {
            removing.depth += usize::from(removing.name == name);
            return;
        }
        let is_void = VOID.contains(&name);
        let is_dropped = REMOVED.contains(&name)
            || (self.settings.without_signatures && is_signature(tag))
            || is_hidden(tag.attribute("style"));
        if is_dropped {
            self.removing = (!is_void).then(|| Removing {
                name: name.to_owned(),
                depth: 1,
            });
            return;
        }
        let Some(element) = ELEMENTS.iter().find(|element| **element == name).copied() else {
            return;
        };
        self.close_implied(element);
        if !is_void && self.open.len() >= MAX_DEPTH {
            return;
        }
        let mut written = String::new();
        let source = match element {
            "img" => match self.image(tag.attribute("src")) {
                Some(source) => Some(source),
                None => return self.text(tag.attribute("alt")),
            },
            _ => None,
        };
        written.push('<');
        written.push_str(element);
        if let Some(source) = source {
            attribute(&mut written, "src", &source);
        }
        for (name, value) in tag.attributes() {
            write_attribute(&mut written, element, name, value);
        }
        written.push('>');
        self.write(&written);
        if !is_void && !self.truncated {
            self.open.push(element);
        }
    }

    /// Returns the URL of an image. Returns `None` if the image is removed.
    fn image(&mut self, source: &str) -> Option<String> {
        if let Some(url) = url(source, &["http:", "https:"]) {
            return Some(url);
        }
        let source = source.trim();
        if let Some(data) = DATA_IMAGES.into_iter().find(|data| starts(source, data)) {
            let encoded = &source[data.len()..];
            let is_base64 =
                |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'+' | b'/' | b'=' | b'%');
            let encoded: String = encoded.split_ascii_whitespace().collect();
            return encoded
                .bytes()
                .all(is_base64)
                .then(|| format!("{data}{encoded}"));
        }
        let id = source.get(4..).filter(|_| starts(source, "cid:"))?;
        let id = percent_decoded(id);
        Some(format!("cid:{}", (self.settings.content_id)(&id)?))
    }

    /// Closes the elements that end at the start tag of this element.
    fn close_implied(&mut self, element: &str) {
        let Some(top) = self.open.last() else { return };
        let ends = match *top {
            "p" => is_block(element),
            "li" => element == "li",
            "dt" | "dd" => matches!(element, "dt" | "dd"),
            "td" | "th" => matches!(element, "td" | "th" | "tr" | "tbody" | "tfoot" | "thead"),
            "tr" => matches!(element, "tr" | "tbody" | "tfoot" | "thead"),
            "tbody" | "thead" | "tfoot" => matches!(element, "tbody" | "tfoot" | "thead"),
            "a" => element == "a",
            _ => false,
        };
        if ends {
            self.close_from(self.open.len() - 1);
            self.close_implied(element);
        }
    }

    fn close(&mut self, name: &str) {
        if let Some(removing) = &mut self.removing {
            removing.depth -= usize::from(removing.name == name);
            if removing.depth == 0 {
                self.removing = None;
            }
            return;
        }
        // The end tag of an element outside of a table cell does not end the cell.
        let is_table = matches!(
            name,
            "table" | "tbody" | "thead" | "tfoot" | "tr" | "td" | "th"
        );
        let is_border = |open: &&str| matches!(*open, "table" | "td" | "th" | "caption");
        for (at, open) in self.open.iter().enumerate().rev() {
            if *open == name {
                return self.close_from(at);
            }
            if (is_border(open) && !is_table) || *open == "table" {
                return;
            }
        }
    }

    fn close_from(&mut self, at: usize) {
        for element in self.open.drain(at..).rev() {
            let _ = write!(self.output, "</{element}>");
        }
    }

    fn text(&mut self, text: &str) {
        if self.removing.is_some() {
            return;
        }
        let mut written = String::with_capacity(text.len());
        escape(&mut written, text);
        let room = self.settings.limit.saturating_sub(self.output.len());
        if written.len() > room {
            // Each character needs at most six bytes.
            let beginning = &text[..text.floor_char_boundary(room / 6)];
            escape(&mut self.output, beginning);
            self.truncated = true;
        } else {
            self.output.push_str(&written);
        }
    }

    fn write(&mut self, text: &str) {
        if self.output.len() + text.len() > self.settings.limit {
            self.truncated = true;
        } else {
            self.output.push_str(text);
        }
    }
}

/// Returns whether a paragraph ends at the start tag of this element.
fn is_block(element: &str) -> bool {
    matches!(
        element,
        "address"
            | "article"
            | "aside"
            | "blockquote"
            | "center"
            | "details"
            | "dir"
            | "div"
            | "dl"
            | "fieldset"
            | "figcaption"
            | "figure"
            | "footer"
            | "h1"
            | "h2"
            | "h3"
            | "h4"
            | "h5"
            | "h6"
            | "header"
            | "hr"
            | "main"
            | "menu"
            | "nav"
            | "ol"
            | "p"
            | "pre"
            | "section"
            | "summary"
            | "table"
            | "ul"
    )
}

/// Returns whether a style hides an element. Such content stays hidden for people who do not see
/// the style, so the content is removed.
fn is_hidden(style: &str) -> bool {
    declarations(style).any(|(name, value)| {
        let value = value.trim_end_matches("!important").trim_end();
        (name == "display" && value == "none")
            || (name == "visibility" && matches!(value, "hidden" | "collapse"))
    })
}

/// Returns the permitted declarations of a style.
fn style(style: &str) -> String {
    let mut written = String::new();
    for (name, value) in declarations(style) {
        // No value with these characters can be a URL, a function of old browsers, an escape or a
        // comment.
        let is_plain = |c: char| c.is_alphanumeric() || " #%.,-+!'\"".contains(c);
        let is_colour = ["rgb(", "rgba(", "hsl(", "hsla("]
            .iter()
            .any(|function| value.starts_with(function))
            && value.ends_with(')')
            && value.matches(['(', ')']).count() == 2;
        let is_permitted = value
            .chars()
            .all(|c| is_plain(c) || (is_colour && "()/".contains(c)));
        if PROPERTIES.contains(&name.as_str()) && is_permitted && !value.is_empty() {
            if !written.is_empty() {
                written.push(';');
            }
            let _ = write!(written, "{name}:{value}");
        }
    }
    written
}

/// Returns the names and values of a style's declarations, in lower case.
fn declarations(style: &str) -> impl Iterator<Item = (String, String)> {
    style.split(';').filter_map(|declaration| {
        let (name, value) = declaration.split_once(':')?;
        let lower = |text: &str| text.trim().to_ascii_lowercase();
        Some((lower(name), lower(value)))
    })
}

/// Returns a URL if it has one of these schemes. Browsers ignore line breaks and tabs in URLs.
fn url(value: &str, schemes: &[&str]) -> Option<String> {
    let url: String = value.chars().filter(|c| !c.is_control()).collect();
    let url = url.trim();
    let is_permitted = schemes.iter().any(|scheme| starts(url, scheme));
    is_permitted.then(|| url.replace(' ', "%20"))
}

fn starts(text: &str, start: &str) -> bool {
    text.get(..start.len())
        .is_some_and(|found| found.eq_ignore_ascii_case(start))
}

fn percent_decoded(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let [first, after @ ..] = rest {
        let digit = |at: usize| char::from(*after.get(at)?).to_digit(16);
        let escaped = (*first == b'%')
            .then(|| Some(digit(0)? * 16 + digit(1)?))
            .flatten();
        if let Some(byte) = escaped.and_then(|byte| u8::try_from(byte).ok()) {
            bytes.push(byte);
            rest = &after[2..];
        } else {
            bytes.push(*first);
            rest = after;
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Writes an attribute if it is permitted.
fn write_attribute(written: &mut String, element: &str, name: &str, value: &str) {
    match name {
        "style" => {
            let style = style(value);
            if !style.is_empty() {
                attribute(written, "style", &style);
            }
        }
        "href" if element == "a" => {
            if let Some(url) = url(value, &LINKS) {
                attribute(written, "href", &url);
            }
        }
        "cite" if element == "blockquote" => {
            if let Some(url) = url(value, &["mid:"]) {
                attribute(written, "cite", &url);
            }
        }
        name if ATTRIBUTES.contains(&name) => attribute(written, name, value),
        _ => {}
    }
}

fn attribute(written: &mut String, name: &str, value: &str) {
    let _ = write!(written, " {name}=\"");
    escape(written, value);
    written.push('"');
}

/// Appends a text with the characters that have a meaning in HTML as references.
fn escape(written: &mut String, text: &str) {
    let mut rest = text;
    while let Some(at) = rest.find(['&', '<', '>', '"', '\0']) {
        written.push_str(&rest[..at]);
        written.push_str(match rest.as_bytes()[at] {
            b'&' => "&amp;",
            b'<' => "&lt;",
            b'>' => "&gt;",
            b'"' => "&quot;",
            _ => "\u{fffd}",
        });
        rest = &rest[at + 1..];
    }
    written.push_str(rest);
}

/// Returns a text for the inside of an element or of an attribute in double quotes.
#[must_use]
pub fn escaped(text: &str) -> String {
    let mut written = String::with_capacity(text.len());
    escape(&mut written, text);
    written
}

#[cfg(test)]
mod tests;
