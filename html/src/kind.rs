//! Finds quotes and signatures by the HTML attributes that mail clients write.

use crate::tag::{Tag, VOID};

/// The meaning of a line.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Kind {
    /// Text of the author, or text whose kind is not known.
    #[default]
    Text,
    /// A line of a quote.
    Quote,
    /// A line that is neither text of the author nor a quote, for example a signature or the
    /// introduction of a quote.
    Dropped,
    /// The start of another message, for example of a forwarded message. This message extends to
    /// the end of the text. The line contains no text.
    Cut,
}

/// Substrings of attribute values. An element with such a value contains a quoted message.
const QUOTES: [&str; 6] = [
    "yahoo_quoted",
    "protonmail_quote",
    "tutanota_quote",
    "zmail_extra",
    "front-blockquote",
    "gmail_quote_message",
];

/// Substrings of attribute values. An element with such a value introduces a quote.
const INTRODUCTIONS: [&str; 3] = ["moz-cite-prefix", "reply-intro", "zmail_extra_hr"];

/// Substrings of attribute values. An element with such a value contains a signature.
const SIGNATURES: [&str; 7] = [
    "gmail_signature",
    "moz-signature",
    "ms-outlook-mobile-signature",
    "applemailsignature",
    "protonmail_signature_block",
    "tutanota_signature",
    "mobile-signature",
];

/// Substrings of attribute values. Another message starts at an element with such a value, and
/// extends to the end of the text.
const MESSAGES: [&str; 6] = [
    "appendonsend",
    "divrplyfwdmsg",
    "olk_src_body_section",
    "mail-editor-reference-message-container",
    "moz-forward-container",
    "outlookmessageheader",
];

/// Returns the kind of the lines in an element. Returns `None` if the element does not change the
/// kind. [`Kind::Cut`] means that another message starts before the element.
pub(crate) fn kind_of(tag: &Tag) -> Option<Kind> {
    let values: Vec<&str> = tag.attributes().map(|(_, value)| value).collect();
    let values = values.join("\n").to_ascii_lowercase();
    let contains = |parts: &[&str]| parts.iter().any(|part| values.contains(part));
    let is = |name: &str, value: &str| tag.attribute(name).eq_ignore_ascii_case(value);
    if contains(&MESSAGES) {
        return Some(Kind::Cut);
    }
    if VOID.contains(&tag.name()) {
        return None;
    }
    if tag.name() == "blockquote" {
        // Gmail indents text with `blockquote` elements without a border. Such text is not a quote.
        let is_indented = contains(&["border:none", "border: none"])
            && !tag.has("cite")
            && !values.contains("cite");
        return (!is_indented).then_some(Kind::Quote);
    }
    if contains(&INTRODUCTIONS) || contains(&SIGNATURES) || is("id", "signature") {
        return Some(Kind::Dropped);
    }
    let is_quote =
        contains(&QUOTES) || is("class", "quote") || tag.attribute("cite").starts_with("mid:");
    is_quote.then_some(Kind::Quote)
}

/// Returns whether an element contains a signature.
pub(crate) fn is_signature(tag: &Tag) -> bool {
    let marks = [tag.attribute("class"), tag.attribute("id")].join("\n");
    let marks = marks.to_ascii_lowercase();
    let is_marked = SIGNATURES.iter().any(|part| marks.contains(part));
    is_marked || tag.attribute("id").eq_ignore_ascii_case("signature")
}

/// Returns whether a paragraph has no margin. Outlook writes each line as such a paragraph.
pub(crate) fn is_dense(tag: &Tag) -> bool {
    let style = tag.attribute("style").to_ascii_lowercase();
    let class = tag.attribute("class").to_ascii_lowercase();
    class.contains("msonormal") || style.contains("margin:0") || style.contains("margin: 0")
}
