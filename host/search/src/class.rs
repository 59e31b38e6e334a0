//! The classes of characters, which decide where words begin and end.

use std::sync::LazyLock;

use icu_properties::props::{DefaultIgnorableCodePoint, GeneralCategory, Script};
use icu_properties::{CodePointMapData, CodePointSetData};

/// The role of a character in words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Class {
    /// Not part of a word.
    Separator,
    /// Part of a word.
    Letter,
    /// Part of a run that is split into pairs of letters, for example Chinese or Thai.
    Paired,
    /// Part of the word or the run before the character: a mark or an invisible character.
    Extend,
}

/// The classes of the characters of the basic multilingual plane.
static CLASSES: LazyLock<Vec<Class>> = LazyLock::new(|| {
    (0..=0xFFFF)
        .map(|code| char::from_u32(code).map_or(Class::Separator, Class::find))
        .collect()
});

impl Class {
    /// Returns the class of a character.
    pub(crate) fn of(character: char) -> Self {
        CLASSES
            .get(character as usize)
            .copied()
            .unwrap_or_else(|| Self::find(character))
    }

    fn find(character: char) -> Self {
        use GeneralCategory as G;
        if CodePointSetData::new::<DefaultIgnorableCodePoint>().contains(character) {
            return Self::Extend;
        }
        match CodePointMapData::<GeneralCategory>::new().get(character) {
            G::NonspacingMark | G::SpacingMark | G::EnclosingMark => return Self::Extend,
            G::UppercaseLetter
            | G::LowercaseLetter
            | G::TitlecaseLetter
            | G::OtherLetter
            | G::DecimalNumber
            | G::LetterNumber => {}
            // U+02BC is a modifier letter, but it is used as an apostrophe, so it separates words.
            G::ModifierLetter if character != '\u{2BC}' => {}
            // Superscripts and circled digits are part of words. Fractions are not.
            G::OtherNumber if !matches!(character, '¼'..='¾' | '\u{2150}'..='\u{215F}' | '\u{2189}') =>
                {}
            _ => return Self::Separator,
        }
        match CodePointMapData::<Script>::new().get(character) {
            Script::Han
            | Script::Hiragana
            | Script::Katakana
            | Script::Hangul
            | Script::Bopomofo
            | Script::Thai
            | Script::Lao
            | Script::Khmer
            | Script::Myanmar => Self::Paired,
            // The prolonged sound marks and the half-width voiced sound marks of Japanese have the
            // script "Common".
            _ if matches!(character, '\u{30FC}' | '\u{FF70}' | '\u{FF9E}' | '\u{FF9F}') => {
                Self::Paired
            }
            _ => Self::Letter,
        }
    }
}
