//! A table of invisible characters: characters that users cannot see, or that change how other text
//! is displayed.

/// The kind of an invisible character.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Invisible {
    /// A bidirectional control character. Such a character changes the display order of the
    /// following text.
    Direction,
    /// A character that displays nothing and that no script needs.
    Blank,
    /// An invisible character that scripts or emoji need: a joiner, a direction mark, the soft
    /// hyphen, a variation selector, or a control character for the shapes of digits and letters.
    Joiner,
    /// A tag character: an invisible copy of an ASCII character.
    Tag,
}

/// Returns the kind of an invisible character, or `None` for any other character. White space and
/// control characters (category Cc) are not in the table.
#[must_use]
pub const fn invisible(c: char) -> Option<Invisible> {
    match c {
        '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => Some(Invisible::Direction),
        '\u{34f}'
        | '\u{115f}'
        | '\u{1160}'
        | '\u{180e}'
        | '\u{200b}'
        | '\u{2060}'..='\u{2065}'
        | '\u{3164}'
        | '\u{feff}'
        | '\u{ffa0}'
        | '\u{fff9}'..='\u{fffb}'
        | '\u{e0100}'..='\u{e01ef}' => Some(Invisible::Blank),
        '\u{ad}'
        | '\u{61c}'
        | '\u{200c}'..='\u{200f}'
        | '\u{206a}'..='\u{206f}'
        | '\u{fe00}'..='\u{fe0f}' => Some(Invisible::Joiner),
        '\u{e0000}'..='\u{e007f}' => Some(Invisible::Tag),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_has_its_characters() {
        for (characters, kind) in [
            ("\u{202e}\u{2066}", Some(Invisible::Direction)),
            ("\u{200b}\u{feff}\u{3164}", Some(Invisible::Blank)),
            ("\u{ad}\u{200d}\u{fe0f}", Some(Invisible::Joiner)),
            ("\u{e0041}", Some(Invisible::Tag)),
            ("aé日 \n\u{2028}", None),
        ] {
            assert!(characters.chars().all(|c| invisible(c) == kind), "{kind:?}");
        }
    }
}
