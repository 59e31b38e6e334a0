//! What a module can be called, so that a crate and a component can be called the same.

use std::fmt;
use std::str::FromStr;

/// Names that the compiler, or one of the crates that a module is made with, has already.
const TAKEN: [&str; 54] = [
    "abstract",
    "alloc",
    "as",
    "async",
    "await",
    "become",
    "box",
    "break",
    "build",
    "const",
    "continue",
    "core",
    "crate",
    "deps",
    "do",
    "dyn",
    "else",
    "enum",
    "examples",
    "extern",
    "false",
    "final",
    "fn",
    "for",
    "gen",
    "if",
    "impl",
    "in",
    "incremental",
    "latchmail-sdk",
    "latchmail-shape",
    "let",
    "loop",
    "macro",
    "match",
    "mod",
    "move",
    "mut",
    "override",
    "priv",
    "proc-macro",
    "pub",
    "ref",
    "return",
    "self",
    "serde",
    "serde-json",
    "static",
    "std",
    "struct",
    "super",
    "test",
    "trait",
    "true",
];
const TAKEN_TOO: [&str; 13] = [
    "try",
    "type",
    "typeof",
    "unsafe",
    "unsized",
    "use",
    "utoipa",
    "virtual",
    "where",
    "while",
    "wit-bindgen",
    "yield",
    "chrono",
];

/// A module's name: lower-case letters, digits and hyphens, a letter first, 1 to 32 of them, and no word that a crate cannot be called.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Name(String);

/// Why something is no name of a module. A sentence for whoever typed it.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum NameError {
    /// It has other characters, or too many.
    #[error(
        "a module's name is 1 to 32 lower-case letters, digits and hyphens, with a letter first and no hyphen last"
    )]
    Malformed,
    /// It is somebody else's.
    #[error(
        "`{0}` is a word of the language or the name of a crate that every module uses: take another"
    )]
    Taken(String),
}

impl Name {
    /// As it was given.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The component's file, as the compiler calls it.
    #[must_use]
    pub fn file(&self) -> String {
        format!("{}.wasm", self.0.replace('-', "_"))
    }

    /// With capitals instead of hyphens: `MyNotes`.
    pub(super) fn in_capitals(&self) -> String {
        let words = self.0.split('-').filter_map(|word| {
            let first = word.chars().next()?.to_ascii_uppercase();
            Some(format!("{first}{}", &word[1..]))
        });
        words.collect()
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl FromStr for Name {
    type Err = NameError;

    fn from_str(text: &str) -> Result<Self, NameError> {
        let word = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-';
        let letter_first = text.starts_with(|c: char| c.is_ascii_lowercase());
        if !letter_first || text.len() > 32 || !text.bytes().all(word) || text.ends_with('-') {
            return Err(NameError::Malformed);
        }
        if TAKEN.contains(&text) || TAKEN_TOO.contains(&text) {
            return Err(NameError::Taken(text.into()));
        }
        Ok(Self(text.into()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_does_for_a_crate_a_file_and_an_operation() {
        let name: Name = "my-2nd-notes".parse().unwrap();
        assert_eq!(name.file(), "my_2nd_notes.wasm");
        assert_eq!(name.in_capitals(), "My2ndNotes");
        for bad in [
            "",
            "2nd",
            "-a",
            "a-",
            "Notes",
            "a_b",
            "a b",
            "../a",
            "é",
            &"a".repeat(33),
        ] {
            assert_eq!(bad.parse::<Name>(), Err(NameError::Malformed), "{bad}");
        }
        for taken in ["type", "serde", "latchmail-sdk", "core", "test"] {
            assert_eq!(taken.parse::<Name>(), Err(NameError::Taken(taken.into())));
        }
        assert!("a".repeat(32).parse::<Name>().is_ok());
    }
}
