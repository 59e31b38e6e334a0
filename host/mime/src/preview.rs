//! Computes previews, which contain the first words of a message. A preview depends only on the
//! bytes that a listing reads. Therefore the preview is the same in a listing and in a single
//! message.

use latchmail_html::visible_beginning;
use latchmail_shape::invisible;
use memchr::memrchr;
use unicode_segmentation::UnicodeSegmentation as _;

use crate::{Beginning, Decoder, Structure, beginning, bounds, decode_leaf, split};

/// Maximum length of a grapheme cluster that is not split, in code points. The longest emoji have
/// ten code points.
const MAX_CLUSTER: usize = 32;

/// The preview of a message.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Preview {
    /// The beginning of the text, at most [`bounds::PREVIEW`] characters. Each sequence of white
    /// space is a single space.
    pub text: String,
    /// `true` if more bytes of the message would not change the preview.
    pub is_final: bool,
}

impl Preview {
    /// Computes the preview from a header and the beginning of the body. `complete` is `true` if
    /// `body` is the complete body.
    #[must_use]
    pub fn of(header: &[u8], body: &[u8], complete: bool) -> Self {
        let Some((beginning, whole)) = beginning(header, body, complete) else {
            return Self {
                text: String::new(),
                is_final: complete,
            };
        };
        let (text, full) = match beginning {
            Beginning::Text(text) => collapse(&text),
            Beginning::Html(html) => collapse_html(&html),
        };
        Self {
            // Another part can follow a blank part, so a blank preview is final only for a complete
            // body.
            is_final: full || whole && (complete || !text.is_empty()),
            text,
        }
    }

    /// Computes the preview that a listing contains. `body` must contain at least the bytes that a
    /// listing reads. This function ignores all other bytes.
    #[must_use]
    pub fn of_body(header: &[u8], body: &[u8], complete: bool) -> Self {
        let mut preview = Self::default();
        for length in [bounds::PREFIX, bounds::LONG_PREFIX] {
            let prefix = body.get(..length).unwrap_or(body);
            preview = Self::of(header, prefix, complete && prefix.len() == body.len());
            if preview.is_final {
                break;
            }
        }
        preview
    }

    /// Computes the same preview as [`Preview::of_body`], usually without parsing the body again.
    /// `structure` is the structure of the complete message. `message` is the beginning of the
    /// message, with at least the bytes that a listing reads. `complete` is `true` if `message` is
    /// the complete message.
    #[must_use]
    pub fn of_message(structure: &Structure, message: &[u8], complete: bool) -> Self {
        let (header, body) = split(message);
        let first = &message[..message.len() - body.len() + body.len().min(bounds::PREFIX)];
        let is_whole = complete && first.len() == message.len();
        Self::of_text(structure, first, is_whole)
            .unwrap_or_else(|| Self::of_body(header, body, complete))
    }

    /// Computes the preview from the plain text in the first bytes of a message. Returns `None` if
    /// the structure of the first bytes alone can have another text.
    fn of_text(structure: &Structure, first: &[u8], is_whole: bool) -> Option<Self> {
        let leaf = structure.text().filter(|leaf| !leaf.is_named())?;
        // Ignore the last line and the line break before this line. Without the following bytes,
        // the last line can look like a delimiter.
        let limit = memrchr(b'\n', first)?.checked_sub(1)?;
        let end = leaf.range.end.min(leaf.range.start + WINDOW).min(limit);
        let encoded = first.get(leaf.range.start..end)?;
        let bytes = Decoder::new(leaf.part.encoding).decode(encoded, false);
        if let Some(text) = leaf.part.charset.decode_beginning(&bytes) {
            let (text, is_final) = collapse(text);
            if is_final {
                return Some(Self { text, is_final });
            }
        }
        // The delimiter line starts at most two bytes after the content. If `first` does not
        // contain the complete delimiter line, the end of the part is not certain.
        if !leaf.complete || !(is_whole || leaf.range.end + 2 <= limit) {
            return None;
        }
        let (text, cut) = decode_leaf(leaf, first.get(leaf.range.clone())?, bounds::BODY);
        let (text, _) = collapse(&text);
        (!cut && !text.is_empty()).then_some(Self {
            text,
            is_final: true,
        })
    }
}

/// The number of bytes of text that usually fill a preview.
const WINDOW: usize = 1024;

/// Returns the first words of the visible text like [`collapse`].
fn collapse_html(html: &str) -> (String, bool) {
    let text = visible_beginning(html, WINDOW);
    let (words, full) = collapse(&text);
    if full || text.len() < WINDOW {
        return (words, full);
    }
    // The beginning contains too many invisible characters, so read the complete text.
    collapse(&visible_beginning(html, usize::MAX))
}

/// Returns the first words, and `true` if the words fill the preview. Skips words of invisible
/// characters. Newsletters add such words after the first line to fill the preview.
fn collapse(text: &str) -> (String, bool) {
    let mut collapsed = String::new();
    let mut length = 0;
    for word in text
        .split(|c: char| c.is_whitespace() || c.is_control())
        .filter(|word| !word.chars().all(|c| invisible(c).is_some()))
    {
        if length > 0 {
            collapsed.push(' ');
            length += 1;
        }
        for c in word.chars() {
            if length > bounds::PREVIEW {
                return (truncate(&collapsed).to_owned(), true);
            }
            collapsed.push(c);
            length += 1;
        }
    }
    let full = length > bounds::PREVIEW;
    if full {
        collapsed.truncate(truncate(&collapsed).len());
    }
    (collapsed, full)
}

/// Cuts a text to the length of a preview. Does not split a grapheme cluster (Unicode Standard
/// Annex 29), for example a letter with accents.
fn truncate(text: &str) -> &str {
    let limit = text
        .char_indices()
        .nth(bounds::PREVIEW)
        .map_or(text.len(), |(at, _)| at);
    // A grapheme cluster ends between two ASCII characters, because the text contains no line
    // breaks. Search from the last such position.
    let start = text.as_bytes()[..limit]
        .windows(2)
        .rposition(<[u8]>::is_ascii)
        .map_or(0, |at| at + 1);
    let whole = text[start..]
        .grapheme_indices(true)
        .map(|(at, cluster)| start + at + cluster.len())
        .take_while(|end| *end <= limit)
        .last()
        .unwrap_or(start);
    // Split a very long cluster, because such a cluster is one letter with many accents and not a
    // real character.
    let cluster_bytes = text[..limit]
        .chars()
        .rev()
        .take(MAX_CLUSTER)
        .map(char::len_utf8)
        .sum::<usize>();
    let end = if limit - whole < cluster_bytes {
        whole
    } else {
        limit
    };
    text[..end].trim_end()
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
            assert!(read.is_final, "{length}");
            let count = read.text.chars().count();
            assert!((255..=256).contains(&count), "{length}: {count}");
            assert!(text.starts_with(&read.text), "{length}");
            assert_eq!(preview("", text.as_bytes()), read.text);
        }
        // Following bytes could change only the last character of a preview, by adding an accent.
        assert!(Preview::of(b"", "x".repeat(257).as_bytes(), false).is_final);
        assert!(!Preview::of(b"", "x".repeat(256).as_bytes(), false).is_final);
    }

    #[test]
    fn what_is_one_character_to_people_is_not_cut() {
        for cluster in [
            "e\u{301}",
            "👩\u{200d}👩\u{200d}👧\u{200d}👦",
            "👍🏽",
            "🇩🇪",
            "\u{1112}\u{1161}\u{11ab}",
        ] {
            for before in 246..257 {
                let text = format!("{}{}", "x".repeat(before), cluster.repeat(5));
                let read = preview("", text.as_bytes());
                let kept = read.trim_start_matches('x');
                assert_eq!(kept, cluster.repeat(kept.len() / cluster.len()), "{before}");
                let room = 256_usize.saturating_sub(before) / cluster.chars().count();
                assert_eq!(kept.len(), room.min(5) * cluster.len(), "{before}");
            }
        }
        let heap = format!("{}x{}", "y".repeat(100), "\u{301}".repeat(10_000));
        assert_eq!(preview("", heap.as_bytes()).chars().count(), 256);
    }

    #[test]
    fn what_cannot_be_seen_is_no_word() {
        let padded = format!(
            "Hello {}world \u{feff}",
            "\u{200c}\u{a0}\u{2007}\u{34f} ".repeat(200)
        );
        assert_eq!(preview("", padded.as_bytes()), "Hello world");
    }

    #[test]
    fn an_empty_text_says_nothing_and_the_html_does() {
        let alternative = "Content-Type: multipart/alternative; boundary=b\r\n";
        let html = "--b\r\n\r\n \r\n\u{feff}\r\n--b\r\nContent-Type: text/html\r\n\r\n<p>rich</p>\r\n--b--\r\n";
        assert_eq!(preview(alternative, html.as_bytes()), "rich");
        // The text part may still get content.
        assert!(!Preview::of(alternative.as_bytes(), &html.as_bytes()[..12], false).is_final);
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
        assert_eq!((cut.text.as_str(), cut.is_final), ("Gr", false));
        let latin = "Content-Type: text/plain; charset=iso-8859-1\r\nContent-Transfer-Encoding: quoted-printable\r\n";
        assert_eq!(preview(latin, b"Gr=FC=DFe"), "Grüße");
        assert_eq!(
            preview("Content-Type: text/plain; charset=klingon\r\n", b"a\xffb"),
            "aÿb"
        );
    }

    #[test]
    fn what_is_settled_needs_no_more_bytes() {
        let mixed = b"Content-Type: multipart/mixed; boundary=b\r\n";
        let begun =
            b"--b\r\n\r\nHi, see attached.\r\n--b\r\nContent-Type: application/pdf\r\n\r\nJVBERi0";
        let preview = Preview::of(mixed, begun, false);
        assert_eq!(
            (preview.text.as_str(), preview.is_final),
            ("Hi, see attached.", true)
        );
        assert!(!Preview::of(b"", b"short", false).is_final);
        assert!(Preview::of(b"", "x".repeat(300).as_bytes(), false).is_final);
        assert!(!Preview::of(mixed, b"--b\r\nContent-Type: image/png\r\n\r\n...", false).is_final);
    }
}
