//! The first words of a message, from the first bytes of it. The same bytes give the same words, in a listing as in the message
//! itself.

use super::bounds;
use super::mime::{self, Beginning};

/// A preview.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Preview {
    /// The beginning of the text, white space folded to single blanks, at most [`bounds::PREVIEW`] characters.
    pub(super) text: String,
    /// Whether more bytes would not change it.
    pub(super) settled: bool,
}

impl Preview {
    /// From a message's header and the first bytes of what follows it; `complete` says whether those are all.
    pub(super) fn of(header: &[u8], body: &[u8], complete: bool) -> Self {
        let Some((beginning, whole)) = mime::beginning(header, body, complete) else {
            return Self {
                text: String::new(),
                settled: complete,
            };
        };
        let (text, full) = match beginning {
            Beginning::Text(text) => folded(&text),
            Beginning::Html(html) => folded(&mime::html_to_text(&html)),
        };
        Self {
            settled: whole || full,
            text,
        }
    }

    /// Of as much of a message as a listing reads, or of more: what a listing says, which reads as little as does.
    pub(super) fn of_body(header: &[u8], body: &[u8], complete: bool) -> Self {
        let mut preview = Self::default();
        for length in [bounds::PREFIX, bounds::LONG_PREFIX] {
            let prefix = body.get(..length).unwrap_or(body);
            preview = Self::of(header, prefix, complete && prefix.len() == body.len());
            if preview.settled {
                break;
            }
        }
        preview
    }
}

/// The first words, and whether they fill what a preview may hold.
fn folded(text: &str) -> (String, bool) {
    let mut folded = String::new();
    let mut length = 0;
    for word in text
        .split(|c: char| c.is_whitespace() || c.is_control())
        .filter(|word| !word.is_empty())
    {
        if length > 0 && length < bounds::PREVIEW {
            folded.push(' ');
            length += 1;
        }
        for c in word.chars() {
            if length >= bounds::PREVIEW {
                folded.truncate(folded.trim_end().len());
                return (folded, true);
            }
            folded.push(c);
            length += 1;
        }
    }
    (folded, length >= bounds::PREVIEW)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn preview(header: &str, body: &[u8]) -> String {
        Preview::of_body(header.as_bytes(), body, true).text
    }

    #[test]
    fn white_space_is_folded_and_the_length_counted_in_characters() {
        assert_eq!(preview("", b"  Hello,\r\n\r\n\tworld \r\n"), "Hello, world");
        let long = preview("", "é ".repeat(1000).as_bytes());
        assert_eq!(long.chars().count(), 255);
        assert_eq!(
            preview("", "é".repeat(1000).as_bytes()).chars().count(),
            256
        );
        assert_eq!(preview("", b"<b>&amp;</b>"), "<b>&amp;</b>");
        assert_eq!(preview("", b""), "");
    }

    #[test]
    fn a_word_may_end_anywhere() {
        for length in 250..=260 {
            let text = format!("{} {}", "x".repeat(length), "word ".repeat(20_000));
            let read = Preview::of(b"", text.as_bytes(), false);
            assert!(read.settled, "{length}");
            let count = read.text.chars().count();
            assert!((255..=256).contains(&count), "{length}: {count}");
            assert!(text.starts_with(&read.text), "{length}");
            assert_eq!(preview("", text.as_bytes()), read.text);
        }
        // Nothing that could follow would change it.
        assert!(Preview::of(b"", "x".repeat(256).as_bytes(), false).settled);
        assert!(!Preview::of(b"", "x".repeat(255).as_bytes(), false).settled);
    }

    #[test]
    fn plain_text_is_preferred_and_html_is_stripped() {
        let alternative = "Content-Type: multipart/alternative; boundary=b\r\n";
        let both =
            b"--b\r\nContent-Type: text/html\r\n\r\n<p>rich</p>\r\n--b\r\n\r\nplain\r\n--b--\r\n";
        assert_eq!(preview(alternative, both), "plain");
        assert_eq!(
            preview(
                "Content-Type: text/html\r\n",
                b"<style>x</style><p>a</p><p>b"
            ),
            "a b"
        );
    }

    #[test]
    fn encodings_and_character_sets_are_decoded_even_where_they_are_cut() {
        let header =
            "Content-Type: text/plain; charset=utf-8\r\nContent-Transfer-Encoding: base64\r\n";
        assert_eq!(preview(header, b"R3LDvMOfZQ=="), "Grüße");
        // A two-byte character, cut after its first byte.
        let cut = Preview::of(header.as_bytes(), b"R3LD", false);
        assert_eq!((cut.text.as_str(), cut.settled), ("Gr", false));
        let latin = "Content-Type: text/plain; charset=iso-8859-1\r\nContent-Transfer-Encoding: quoted-printable\r\n";
        assert_eq!(preview(latin, b"Gr=FC=DFe"), "Grüße");
        assert_eq!(
            preview("Content-Type: text/plain; charset=klingon\r\n", b"a\xffb"),
            "a\u{fffd}b"
        );
    }

    #[test]
    fn what_is_settled_needs_no_more_bytes() {
        let mixed = b"Content-Type: multipart/mixed; boundary=b\r\n";
        let begun =
            b"--b\r\n\r\nHi, see attached.\r\n--b\r\nContent-Type: application/pdf\r\n\r\nJVBERi0";
        let preview = Preview::of(mixed, begun, false);
        assert_eq!(
            (preview.text.as_str(), preview.settled),
            ("Hi, see attached.", true)
        );
        assert!(!Preview::of(b"", b"short", false).settled);
        assert!(Preview::of(b"", "x".repeat(300).as_bytes(), false).settled);
        assert!(!Preview::of(mixed, b"--b\r\nContent-Type: image/png\r\n\r\n...", false).settled);
    }
}
