//! Splits a long text into pieces. A tool result contains one piece and the offset of the next
//! piece.

use crate::hidden;

/// The maximum length of a piece, in characters.
pub(crate) const MAX_PIECE: usize = 50_000;
/// The maximum size of a piece with JSON escapes, in bytes. An escape is longer than the escaped
/// character.
const MAX_ESCAPED: usize = 4 * MAX_PIECE;

/// A piece of a text.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Piece {
    pub(crate) text: String,
    /// The offset of the next piece, in characters, or `None` if this is the last piece.
    pub(crate) next: Option<usize>,
}

/// Returns the piece of `text` that begins at `offset`, in characters.
pub(crate) fn piece(text: String, offset: usize) -> Piece {
    let begins = text.char_indices().nth(offset);
    let rest = begins.map_or("", |(at, _)| &text[at..]);
    let mut written = 0;
    let end = rest.char_indices().enumerate().find(|(count, (_, c))| {
        written += hidden::escaped_size(*c);
        *count == MAX_PIECE || written > MAX_ESCAPED
    });
    match end {
        Some((count, (end, _))) => Piece {
            text: rest[..end].to_owned(),
            next: Some(offset + count),
        },
        None if offset == 0 => Piece { text, next: None },
        None => Piece {
            text: rest.to_owned(),
            next: None,
        },
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_short_text_is_not_split() {
        let longest = "é".repeat(MAX_PIECE);
        assert_eq!(piece(longest.clone(), 0).text, longest);
        assert_eq!(piece(longest.clone(), 0).next, None);
        assert_eq!(piece(longest, usize::MAX).text, "");
        let faces = "👩".repeat(MAX_PIECE);
        assert_eq!(piece(faces, 0).next, None);
    }

    #[test]
    fn a_piece_with_escapes_has_fewer_characters() {
        for (c, longest) in [("\u{e0041}", 16_666), ("\u{1}", 33_333), ("\n", MAX_PIECE)] {
            let piece = piece(c.repeat(60_000), 0);
            assert_eq!(piece.text.chars().count(), longest, "{c:?}");
            assert_eq!(piece.next, Some(longest), "{c:?}");
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(16))]
        #[test]
        fn the_pieces_together_are_the_text(word in "[a-zé日👩\u{1}\u{e0041}]{1,9}", times in 1_usize..40_000) {
            let text = word.repeat(times);
            let (mut all, mut at) = (String::new(), Some(0));
            while let Some(offset) = at {
                let piece = piece(text.clone(), offset);
                prop_assert!(piece.text.chars().count() <= MAX_PIECE);
                all.push_str(&piece.text);
                at = piece.next;
            }
            prop_assert_eq!(all, text);
        }
    }
}
