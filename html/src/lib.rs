//! Finds the parts of a message's HTML that a person sees, and converts these parts to text.
//! Previews, the search index, the new text of replies and the texts for AI agents contain the same
//! visible elements. For quotations, removes active content from HTML.
//!
//! The tokenizer and the ends of elements follow the HTML standard. Style sheets, styles, colours
//! and positions determine the visibility of text. Time and memory grow at most linearly with the
//! size of the HTML, even for deeply nested or malformed HTML. A budget limits the cost of style
//! sheets. The start and the end of the HTML can be missing.
//!
//! ```
//! let html = "<p>Hello <b>Ada</b></p><p style='font-size:0'>hidden</p>";
//! assert_eq!(latchmail_html::visible_text(html), "Hello Ada");
//! assert!(latchmail_html::readable(html).hidden);
//! ```

mod colour;
mod css;
mod kind;
mod length;
mod link;
mod nodes;
mod position;
mod sanitize;
mod sheet;
mod stack;
mod style;
mod tag;
mod text;
mod walk;

pub use kind::Kind;
pub use sanitize::{Sanitized, Sanitizing, escaped, sanitized};
use text::Form;
use walk::walk;

/// The readable text of a document.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Readable {
    /// The visible text with the targets of links, the descriptions of images and the list markers.
    pub text: String,
    /// Whether hidden text was found.
    pub hidden: bool,
    /// Whether the visibility of some text is unknown. In this case, the output might contain
    /// hidden text.
    pub incomplete: bool,
}

/// Returns `true` if the document can contain style sheets. Then a conversion to text can take 30
/// times as long for each byte.
#[must_use]
pub fn has_style_sheets(html: &str) -> bool {
    sheet::with_style_elements(html).is_some()
}

/// Returns the visible text of a document with link targets, image descriptions and list markers.
#[must_use]
pub fn readable(html: &str) -> Readable {
    let found = walk(html, Form::Readable, usize::MAX);
    Readable {
        text: found.writer.text,
        hidden: found.hidden,
        incomplete: found.incomplete,
    }
}

/// Returns the visible text of a document. The result is plain text and can contain `<` and `&`.
/// The caller must escape the result before the result is inserted into HTML.
#[must_use]
pub fn visible_text(html: &str) -> String {
    visible_beginning(html, usize::MAX)
}

/// Returns the beginning of the [visible text](visible_text): the complete text, or at least
/// `length` bytes.
#[must_use]
pub fn visible_beginning(html: &str, length: usize) -> String {
    walk(html, Form::Words, length).writer.text
}

/// Returns the lines of the visible text, each with its [`Kind`].
#[must_use]
pub fn visible_lines(html: &str) -> Vec<(String, Kind)> {
    walk(html, Form::Lines, usize::MAX).writer.lines()
}

#[cfg(test)]
mod tests;
