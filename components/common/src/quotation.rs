//! Puts the text of a new message above a quotation.
//!
//! A message has HTML if the quotation or the request has HTML. Its plain text and its HTML then
//! have the same content, because a mail client shows only one of them.

use std::fmt::Write as _;

use latchmail_html::{escaped, readable};

/// Returns the plain text and the HTML of a message. `text` and `html` come from the request. The
/// quotation has plain text and HTML.
#[must_use]
pub fn above(
    text: Option<String>,
    html: Option<String>,
    quotation: (Option<String>, Option<String>),
) -> (Option<String>, Option<String>) {
    let (quoted_text, quoted_html) = quotation;
    if quoted_text.is_none() && quoted_html.is_none() {
        return (text, html);
    }
    let has_html = html.is_some() || quoted_html.is_some();
    let new_html = has_html.then(|| {
        let above = match (&html, &text) {
            (Some(html), _) => html.clone(),
            (None, Some(text)) => html_of_text(text),
            (None, None) => String::new(),
        };
        let quoted = quoted_html
            .or_else(|| quoted_text.as_deref().map(html_of_quotation))
            .unwrap_or_default();
        joined_html(above, &quoted)
    });
    let above = text.or_else(|| html.map(|html| readable(&html).text));
    (joined_text(above, quoted_text), new_html)
}

fn joined_text(above: Option<String>, quoted: Option<String>) -> Option<String> {
    match (above, quoted) {
        (Some(above), Some(quoted)) if !above.trim().is_empty() => {
            Some(format!("{}\n\n{quoted}", above.trim_end()))
        }
        (_, Some(quoted)) => Some(quoted),
        (above, None) => above,
    }
}

/// Inserts the quotation at the end of the body.
fn joined_html(mut above: String, quoted: &str) -> String {
    let end = above.to_ascii_lowercase().rfind("</body");
    above.insert_str(end.unwrap_or(above.len()), quoted);
    above
}

/// Returns a paragraph with the lines of a text.
fn html_of_text(text: &str) -> String {
    if text.trim().is_empty() {
        return String::new();
    }
    let text = escaped(&text.trim_end().replace("\r\n", "\n"));
    format!("<p style=\"white-space:pre-wrap\">{text}</p>")
}

/// Returns a quotation in plain text as HTML. Lines that begin with `>` become quotations.
fn html_of_quotation(text: &str) -> String {
    let mut html = String::with_capacity(text.len() * 2);
    let mut depth = 0;
    let mut is_first = true;
    for line in text.trim_end().lines() {
        let content = line.trim_start_matches('>');
        let levels = (line.len() - content.len()).min(MAX_DEPTH);
        while depth < levels {
            html.push_str("<blockquote type=\"cite\">");
            (depth, is_first) = (depth + 1, true);
        }
        while depth > levels {
            html.push_str("</blockquote>");
            (depth, is_first) = (depth - 1, true);
        }
        if !is_first {
            html.push_str("<br>");
        }
        let content = if levels > 0 {
            content.strip_prefix(' ').unwrap_or(content)
        } else {
            content
        };
        html.push_str(&escaped(content));
        is_first = false;
    }
    for _ in 0..depth {
        html.push_str("</blockquote>");
    }
    let mut wrapped = String::with_capacity(html.len() + 50);
    let _ = write!(wrapped, "<div style=\"white-space:pre-wrap\">{html}</div>");
    wrapped
}

/// Maximum depth of quotations in HTML. Deeper quotations have the same depth.
const MAX_DEPTH: usize = 20;

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "Bo wrote:\n> a < b\n>> c\n> d\n";
    const HTML: &str = "<p>Bo wrote:</p><blockquote>a</blockquote>";

    fn merged(
        text: Option<&str>,
        html: Option<&str>,
        quotation: (Option<&str>, Option<&str>),
    ) -> (Option<String>, Option<String>) {
        let own = |text: Option<&str>| text.map(ToOwned::to_owned);
        above(own(text), own(html), (own(quotation.0), own(quotation.1)))
    }

    #[test]
    fn a_text_is_above_a_quotation_without_html() {
        let (text, html) = merged(Some("Yes\n"), None, (Some(TEXT), None));
        assert_eq!(text.unwrap(), format!("Yes\n\n{TEXT}"));
        assert_eq!(html, None);
        let (text, _) = merged(None, None, (Some(TEXT), None));
        assert_eq!(text.as_deref(), Some(TEXT));
    }

    #[test]
    fn a_message_with_html_has_the_answer_in_both_forms() {
        let (text, html) = merged(Some("1 < 2"), None, (Some(TEXT), Some(HTML)));
        assert_eq!(text.unwrap(), format!("1 < 2\n\n{TEXT}"));
        let above = "<p style=\"white-space:pre-wrap\">1 &lt; 2</p>";
        assert_eq!(html.unwrap(), format!("{above}{HTML}"));

        let (text, html) = merged(None, Some("<p>Yes <b>!</b></p>"), (Some(TEXT), None));
        assert_eq!(text.unwrap(), format!("Yes !\n\n{TEXT}"));
        assert_eq!(
            html.unwrap(),
            "<p>Yes <b>!</b></p><div style=\"white-space:pre-wrap\">Bo wrote:\
             <blockquote type=\"cite\">a &lt; b<blockquote type=\"cite\">c</blockquote>d\
             </blockquote></div>"
        );

        let (text, html) = merged(Some("T"), Some("<i>H</i>"), (Some(TEXT), Some(HTML)));
        assert_eq!(text.unwrap(), format!("T\n\n{TEXT}"));
        assert_eq!(html.unwrap(), format!("<i>H</i>{HTML}"));
    }

    #[test]
    fn a_quotation_is_inside_of_the_body() {
        let (_, html) = merged(None, Some("<BODY>Yes</BODY></html>"), (None, Some(HTML)));
        assert_eq!(html.unwrap(), format!("<BODY>Yes{HTML}</BODY></html>"));
    }

    #[test]
    fn without_a_quotation_the_texts_stay() {
        let texts = (Some("T".to_owned()), None);
        assert_eq!(merged(Some("T"), None, (None, None)), texts);
    }
}
