//! Folds words, so that different spellings of the same word are equal.
//!
//! The steps are: removal of invisible characters, compatibility decomposition (full-width letters,
//! ligatures), full case folding, removal of combining marks from Latin and Greek letters and from
//! digits, replacement of the other Latin letters by their base letters (`ø`, `ł`, `ı`, `æ`, `ß`),
//! and composition. Marks of all other scripts stay, so Cyrillic `й` and kana with dakuten remain
//! distinct letters.

use std::collections::HashMap;
use std::sync::LazyLock;

use icu_casemap::CaseMapper;
use icu_normalizer::{ComposingNormalizerBorrowed, DecomposingNormalizerBorrowed};
use icu_properties::props::{DefaultIgnorableCodePoint, GeneralCategory, Script};
use icu_properties::{CodePointMapData, CodePointSetData};
use tantivy::tokenizer::{AsciiFoldingFilter, RawTokenizer, TextAnalyzer};

use crate::class::Class;

/// Letters with code points below this limit are folded with the table [`LETTERS`]. These are the
/// Latin, Greek and Cyrillic letters.
const TABLE: u32 = 0x0530;

/// The combining marks below [`TABLE`]. A word with a combining mark is folded without the table
/// [`LETTERS`], which folds each letter separately.
const COMBINING: std::ops::Range<u32> = 0x0300..0x0370;

/// The folded forms of the letters below [`TABLE`].
static LETTERS: LazyLock<Vec<Box<str>>> = LazyLock::new(|| {
    (0..TABLE)
        .map(|code| {
            let mut folded = String::new();
            if let Some(letter) = char::from_u32(code) {
                fold_slowly(letter.encode_utf8(&mut [0; 4]), &mut folded);
            }
            folded.into_boxed_str()
        })
        .collect()
});

/// The base letters of Latin letters that have no Unicode decomposition, for example `o` for `ø`.
/// The source is the table of tantivy's [`AsciiFoldingFilter`].
static BASE_LETTERS: LazyLock<HashMap<char, Box<str>>> = LazyLock::new(|| {
    let mut ascii = TextAnalyzer::builder(RawTokenizer::default())
        .filter(AsciiFoldingFilter)
        .build();
    let mut letters = HashMap::new();
    for range in CodePointMapData::<Script>::new().iter_ranges_for_value(Script::Latin) {
        for letter in range
            .filter_map(char::from_u32)
            .filter(|letter| !letter.is_ascii())
        {
            let text = letter.to_string();
            let mut tokens = ascii.token_stream(&text);
            if tokens.advance() && tokens.token().text != text {
                letters.insert(letter, tokens.token().text.to_lowercase().into_boxed_str());
            }
        }
    }
    letters
});

/// Appends the folded form of a word to `folded`. Appends nothing if the word has no visible
/// letters.
pub(crate) fn fold(word: &str, folded: &mut String) {
    if word.is_ascii() {
        folded.extend(
            word.bytes()
                .map(|byte| char::from(byte.to_ascii_lowercase())),
        );
    } else if word
        .chars()
        .all(|letter| u32::from(letter) < TABLE && !COMBINING.contains(&u32::from(letter)))
    {
        for letter in word.chars() {
            if let Some(letter) = LETTERS.get(letter as usize) {
                folded.push_str(letter);
            }
        }
    } else {
        fold_slowly(word, folded);
    }
}

/// Appends the folded form of a word without the table.
fn fold_slowly(word: &str, folded: &mut String) {
    let ignorable = CodePointSetData::new::<DefaultIgnorableCodePoint>();
    let category = CodePointMapData::<GeneralCategory>::new();
    let script = CodePointMapData::<Script>::new();
    let decomposing = DecomposingNormalizerBorrowed::new_nfkd();

    let visible: String = word
        .chars()
        .filter(|&letter| !ignorable.contains(letter))
        .collect();
    let decomposed = decomposing.normalize(&visible);
    let case_folded = CaseMapper::new().fold_string(&decomposed);

    let mut letters = String::with_capacity(word.len());
    let mut remove_marks = false;
    for letter in decomposing.normalize_iter(case_folded.chars()) {
        if matches!(
            category.get(letter),
            GeneralCategory::NonspacingMark | GeneralCategory::EnclosingMark
        ) {
            if !remove_marks {
                letters.push(letter);
            }
            continue;
        }
        let latin = script.get(letter) == Script::Latin;
        remove_marks = latin || letter.is_ascii_digit() || script.get(letter) == Script::Greek;
        match BASE_LETTERS.get(&letter) {
            Some(base) if latin => letters.push_str(base),
            // A compatibility decomposition can contain punctuation and spaces, which are not part
            // of words.
            _ if Class::of(letter) == Class::Separator => {}
            _ => letters.push(letter),
        }
    }
    folded.extend(ComposingNormalizerBorrowed::new_nfc().normalize_iter(letters.chars()));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folded(word: &str) -> String {
        let mut folded = String::new();
        fold(word, &mut folded);
        let mut slowly = String::new();
        fold_slowly(word, &mut slowly);
        assert_eq!(folded, slowly, "the table differs for {word:?}");
        folded
    }

    #[test]
    fn case_is_folded_in_all_scripts() {
        for (word, expected) in [
            ("Berlin", "berlin"),
            ("STRASSE", "strasse"),
            ("Straße", "strasse"),
            ("ẞ", "ss"),
            ("МОСКВА", "москва"),
            ("ΟΔΟΣ", "οδοσ"),
            ("οδος", "οδοσ"),
            ("İstanbul", "istanbul"),
            ("ISTANBUL", "istanbul"),
            ("Հայաստան", "հայաստան"),
            ("Ꭰ", "Ꭰ"),
        ] {
            assert_eq!(folded(word), expected, "{word}");
        }
    }

    #[test]
    fn latin_and_greek_letters_lose_their_marks() {
        for (word, expected) in [
            ("Müller", "muller"),
            ("Mu\u{308}ller", "muller"),
            ("Ångström", "angstrom"),
            ("Dvořák", "dvorak"),
            ("Việt", "viet"),
            ("Αθήνα", "αθηνα"),
            ("ΐ", "ι"),
            // Full case folding converts the iota subscript to a letter.
            ("ᾳ", "αι"),
        ] {
            assert_eq!(folded(word), expected, "{word}");
        }
    }

    #[test]
    fn latin_letters_become_their_base_letters() {
        for (word, expected) in [
            ("Ærø", "aero"),
            ("Łódź", "lodz"),
            ("ılık", "ilik"),
            ("đorđe", "dorde"),
            ("Þórður", "thordur"),
            ("œuvre", "oeuvre"),
            ("Ħal", "hal"),
        ] {
            assert_eq!(folded(word), expected, "{word}");
        }
    }

    #[test]
    fn letters_of_other_scripts_keep_their_marks() {
        for (word, expected) in [
            ("Йод", "йод"),
            ("Ии\u{306}", "ий"),
            ("ガ", "ガ"),
            ("カ\u{3099}", "ガ"),
            ("ｶﾞ", "ガ"),
            ("हिन्दी", "हिन्दी"),
            ("שָׁלוֹם", "שָׁלוֹם"),
            ("مَرحبا", "مَرحبا"),
        ] {
            assert_eq!(folded(word), expected, "{word}");
        }
        assert_ne!(folded("й"), folded("и"));
    }

    #[test]
    fn compatibility_forms_are_folded() {
        for (word, expected) in [
            ("Ｒｕｓｔ", "rust"),
            ("oﬃce", "office"),
            ("m²", "m2"),
            ("ﷺ", "صلىاللهعليهوسلم"),
            ("한글", "한글"),
            ("한글", "한글"),
        ] {
            assert_eq!(folded(word), expected, "{word}");
        }
    }

    #[test]
    fn invisible_characters_are_removed() {
        assert_eq!(folded("Donau\u{AD}dampf"), "donaudampf");
        assert_eq!(folded("a\u{200B}b\u{200D}c\u{FEFF}"), "abc");
    }
}
