//! Converts HTML to the lines of a text, and finds quotes and signatures by the elements of mail
//! clients.

use super::Kind;
use crate::html::{HIDDEN, Markup, VOID, after_end_tag, entity, is_hidden, parse_markup};

/// Elements that begin and end a line.
const BLOCKS: [&str; 31] = [
    "address",
    "article",
    "aside",
    "blockquote",
    "body",
    "center",
    "dd",
    "div",
    "dl",
    "dt",
    "fieldset",
    "figure",
    "footer",
    "form",
    "h1",
    "h2",
    "h3",
    "h4",
    "h5",
    "h6",
    "header",
    "hr",
    "html",
    "li",
    "main",
    "pre",
    "section",
    "table",
    "tbody",
    "tr",
    "nav",
];

/// Elements with a blank line before and after.
const PARAGRAPHS: [&str; 10] = ["p", "ul", "ol", "dl", "h1", "h2", "h3", "h4", "h5", "h6"];

/// Parts of tags that start a quoted message. The message ends with the element.
const QUOTES: [&str; 8] = [
    "yahoo_quoted",
    "protonmail_quote",
    "tutanota_quote",
    "zmail_extra",
    "front-blockquote",
    "gmail_quote_message",
    "cite=\"mid:",
    "class=\"quote\"",
];

/// Parts of tags that introduce a quote.
const INTRODUCTIONS: [&str; 3] = ["moz-cite-prefix", "reply-intro", "zmail_extra_hr"];

/// Parts of tags of signatures.
const SIGNATURES: [&str; 9] = [
    "gmail_signature",
    "moz-signature",
    "ms-outlook-mobile-signature",
    "applemailsignature",
    "protonmail_signature_block",
    "id=\"signature\"",
    "id=signature",
    "tutanota_signature",
    "mobile-signature",
];

/// Parts of tags that start another message. The message ends at the end of the text.
const MESSAGES: [&str; 7] = [
    "appendonsend",
    "divrplyfwdmsg",
    "olk_src_body_section",
    "mail-editor-reference-message-container",
    "moz-forward-container",
    "x_divrplyfwdmsg",
    "outlookmessageheader",
];

/// An element whose content is not text of the author.
#[derive(Debug)]
struct Open {
    name: String,
    /// The number of open elements with this name, within and including this element.
    depth: usize,
    /// The kind of the lines in the element.
    kind: Kind,
}

/// Converts HTML to lines.
pub(super) fn lines(html: &str) -> Vec<(String, Kind)> {
    let mut converter = Converter::default();
    let mut rest = html;
    while let Some(at) = memchr::memchr2(b'<', b'&', rest.as_bytes()) {
        converter.text(&rest[..at]);
        rest = &rest[at..];
        rest = if rest.starts_with('&') {
            let mut text = String::new();
            let after = entity(rest, &mut text);
            converter.text(&text);
            after
        } else {
            converter.markup(rest)
        };
    }
    converter.text(rest);
    converter.end_line();
    converter.finished
}

#[derive(Debug, Default)]
struct Converter {
    finished: Vec<(String, Kind)>,
    /// The current line.
    line: String,
    /// `true` if white space precedes the next word.
    space: bool,
    /// `true` if a blank line precedes the next line.
    paragraph: bool,
    /// `true` if the last paragraph has no margin.
    is_dense: bool,
    /// The number of open `pre` elements.
    preformatted: usize,
    open: Vec<Open>,
}

impl Converter {
    fn kind(&self) -> Kind {
        self.open.last().map_or(Kind::Text, |open| open.kind)
    }

    fn text(&mut self, text: &str) {
        if self.preformatted > 0 {
            for (at, line) in text.split('\n').enumerate() {
                if at > 0 {
                    self.break_line();
                }
                self.line.push_str(line.trim_end_matches('\r'));
            }
            return;
        }
        for c in text.chars() {
            if matches!(c, ' ' | '\t' | '\r' | '\n' | '\u{c}') {
                self.space = !self.line.is_empty();
            } else {
                if std::mem::take(&mut self.space) {
                    self.line.push(' ');
                }
                self.line.push(if c == '\u{a0}' { ' ' } else { c });
            }
        }
    }

    /// Ends the current line if it is not empty.
    fn end_line(&mut self) {
        if !self.line.is_empty() {
            self.break_line();
        }
    }

    /// Ends the current line.
    fn break_line(&mut self) {
        self.space = false;
        let line = std::mem::take(&mut self.line);
        if line.trim().is_empty() {
            self.paragraph = false;
            self.blank_line();
        } else {
            if std::mem::take(&mut self.paragraph) {
                self.blank_line();
            }
            self.finished.push((line, self.kind()));
        }
    }

    /// Adds a blank line, but not after another blank line.
    fn blank_line(&mut self) {
        let kind = self.kind();
        match self.finished.last() {
            Some((last, last_kind)) if last.is_empty() && *last_kind == kind => {}
            _ => self.finished.push((String::new(), kind)),
        }
    }

    /// Processes a comment, a tag or a plain `<` at the beginning of `rest`. Returns the remaining
    /// input.
    fn markup<'a>(&mut self, rest: &'a str) -> &'a str {
        let (markup, after) = parse_markup(rest);
        match markup {
            Markup::Text => self.text("<"),
            Markup::Ignored => {}
            Markup::Tag {
                name,
                closing: true,
                ..
            } => self.close(&name),
            Markup::Tag { name, .. } if HIDDEN.contains(&name.as_str()) => {
                return after_end_tag(after, &name);
            }
            Markup::Tag { name, tag, .. } => self.start(&name, tag),
        }
        after
    }

    fn start(&mut self, name: &str, tag: &str) {
        let tag = tag.to_ascii_lowercase();
        if name == "br" {
            return self.break_line();
        }
        if matches!(name, "td" | "th") {
            self.space = !self.line.is_empty();
        }
        self.separate(name, &tag);
        if contains(&tag, &MESSAGES) {
            self.end_line();
            self.finished.push((String::new(), Kind::Cut));
        }
        match kind_of(name, &tag) {
            Some(kind) => {
                self.end_line();
                self.open.push(Open {
                    name: name.to_owned(),
                    depth: 1,
                    kind: self.nested(kind),
                });
            }
            None => {
                if let Some(open) = self.open.last_mut().filter(|open| open.name == name) {
                    open.depth += 1;
                }
            }
        }
        if name == "pre" {
            self.preformatted += 1;
        }
    }

    /// Returns the kind of an element in the current element.
    fn nested(&self, kind: Kind) -> Kind {
        match self.kind() {
            Kind::Text => kind,
            outer => outer,
        }
    }

    fn close(&mut self, name: &str) {
        self.separate(name, "");
        if name == "pre" {
            self.preformatted = self.preformatted.saturating_sub(1);
        }
        let Some(open) = self.open.last_mut().filter(|open| open.name == name) else {
            return;
        };
        open.depth -= 1;
        if open.depth == 0 {
            self.end_line();
            self.open.pop();
        }
    }

    /// Ends the line before and after the content of blocks and paragraphs.
    fn separate(&mut self, name: &str, tag: &str) {
        let is_paragraph = PARAGRAPHS.contains(&name);
        if !is_paragraph && !BLOCKS.contains(&name) {
            return;
        }
        self.end_line();
        if name == "p" && !tag.is_empty() {
            // Outlook writes each line as a paragraph without a margin.
            self.is_dense = contains(tag, &["msonormal", "margin:0", "margin: 0"]);
        }
        self.paragraph |= is_paragraph && !(name == "p" && self.is_dense);
    }
}

/// Returns the kind of an element whose content is not text of the author.
fn kind_of(name: &str, tag: &str) -> Option<Kind> {
    if VOID.contains(&name) {
        return None;
    }
    if name == "blockquote" {
        // Gmail indents text with such elements.
        let is_indented = contains(tag, &["border:none", "border: none"]) && !tag.contains("cite");
        return (!is_indented).then_some(Kind::Quote);
    }
    let attributes = &tag[name.len()..];
    if is_hidden(attributes) || contains(tag, &INTRODUCTIONS) || contains(tag, &SIGNATURES) {
        return Some(Kind::Dropped);
    }
    contains(tag, &QUOTES).then_some(Kind::Quote)
}

fn contains(text: &str, parts: &[&str]) -> bool {
    parts.iter().any(|part| text.contains(part))
}
