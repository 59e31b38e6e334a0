//! The body of a vacation response as a MIME entity (RFC 2045, RFC 2046).

use std::fmt::Write as _;

use latchmail_shape::filters::Vacation;

/// The text of a response without plain text and HTML.
const DEFAULT_TEXT: &str = "I am away and will read your message later.";

/// Maximum length of a line that is sent without an encoding, in bytes. SMTP allows 998 bytes (RFC
/// 5321, section 4.5.3.1.6).
const MAX_LINE: usize = 900;
/// Maximum length of a line in quoted-printable (RFC 2045, section 6.7).
const MAX_ENCODED_LINE: usize = 76;

/// The separator of the parts. A text in quoted-printable never contains `=_`.
const BOUNDARY: &str = "=_latchmail";

/// The body of a response.
pub(crate) enum Body {
    /// Plain text.
    Text(String),
    /// A complete MIME entity.
    Mime(String),
}

/// Returns the body of a response, with CRLF line ends.
pub(crate) fn body(vacation: &Vacation) -> Body {
    let given = |body: &Option<String>| {
        let body = body.as_deref().filter(|body| !body.trim().is_empty());
        body.map(with_crlf)
    };
    match (given(&vacation.text), given(&vacation.html)) {
        (None, None) => Body::Text(DEFAULT_TEXT.into()),
        (Some(text), None) if text.lines().all(|line| line.len() <= MAX_LINE) => Body::Text(text),
        (Some(text), None) => Body::Mime(part("plain", &text)),
        (None, Some(html)) => Body::Mime(part("html", &html)),
        (Some(text), Some(html)) => {
            let (text, html) = (part("plain", &text), part("html", &html));
            Body::Mime(format!(
                "Content-Type: multipart/alternative; boundary=\"{BOUNDARY}\"\r\n\r\n--{BOUNDARY}\r\n{text}\r\n--{BOUNDARY}\r\n{html}\r\n--{BOUNDARY}--\r\n"
            ))
        }
    }
}

fn part(subtype: &str, text: &str) -> String {
    let encoded = quoted_printable(text);
    format!(
        "Content-Type: text/{subtype}; charset=utf-8\r\nContent-Transfer-Encoding: quoted-printable\r\n\r\n{encoded}"
    )
}

/// Returns the text with CRLF line ends.
pub(crate) fn with_crlf(text: &str) -> String {
    text.replace("\r\n", "\n")
        .replace('\r', "\n")
        .replace('\n', "\r\n")
}

/// Encodes a text with CRLF line ends. Lines do not end in white space.
fn quoted_printable(text: &str) -> String {
    let lines: Vec<String> = text.split("\r\n").map(encode_line).collect();
    lines.join("\r\n")
}

fn encode_line(line: &str) -> String {
    let mut encoded = String::with_capacity(line.len());
    let mut length = 0;
    let last = line.len().saturating_sub(1);
    for (at, byte) in line.bytes().enumerate() {
        let is_space = matches!(byte, b' ' | b'\t');
        let is_literal = (byte.is_ascii_graphic() && byte != b'=') || (is_space && at != last);
        let width = if is_literal { 1 } else { 3 };
        // A soft line break needs one character.
        if length + width > MAX_ENCODED_LINE - 1 {
            encoded.push_str("=\r\n");
            length = 0;
        }
        if is_literal {
            encoded.push(char::from(byte));
        } else {
            // Writing to a string does not fail.
            let _ = write!(encoded, "={byte:02X}");
        }
        length += width;
    }
    encoded
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mime(text: Option<&str>, html: Option<&str>) -> String {
        let vacation = Vacation {
            text: text.map(Into::into),
            html: html.map(Into::into),
            ..Vacation::default()
        };
        match body(&vacation) {
            Body::Text(text) => format!("text: {text}"),
            Body::Mime(entity) => entity,
        }
    }

    #[test]
    fn plain_text_is_not_encoded_unless_a_line_is_long() {
        assert_eq!(mime(Some("a\nb\r\nc\rd"), None), "text: a\r\nb\r\nc\r\nd");
        assert_eq!(mime(Some(" "), Some("")), format!("text: {DEFAULT_TEXT}"));
        let long = mime(Some(&"é".repeat(1000)), None);
        assert!(long.starts_with("Content-Type: text/plain; charset=utf-8\r\n"));
        assert!(long.lines().all(|line| line.len() <= MAX_ENCODED_LINE));
    }

    #[test]
    fn html_is_an_alternative_to_the_text() {
        let both = mime(Some("Away =_latchmail\u{20ac} "), Some("<p>Away</p>"));
        assert!(
            both.contains("Away =3D_latchmail=E2=82=AC=20\r\n--=_latchmail\r\n"),
            "{both}"
        );
        assert!(both.contains("Content-Type: text/html; charset=utf-8\r\n"));
        assert!(both.ends_with("<p>Away</p>\r\n--=_latchmail--\r\n"));
        assert!(mime(None, Some("<p>")).starts_with("Content-Type: text/html"));
    }
}
