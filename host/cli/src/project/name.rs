//! Names of modules. A valid name can be used as the name of a crate and of a component.

use std::fmt;
use std::str::FromStr;

/// Names that conflict with a keyword or with a dependency of every module.
const RESERVED: [&str; 67] = [
    "abstract",
    "alloc",
    "as",
    "async",
    "await",
    "become",
    "box",
    "break",
    "build",
    "chrono",
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
];

/// The name of a module. The name has 1 to 32 lower-case letters, digits and hyphens. The name
/// starts with a letter, does not end with a hyphen, and is not reserved (see
/// [`NameError::Reserved`]).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Name(String);

/// The reason why a name is invalid. The text is for the person who typed the name.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum NameError {
    /// The name is empty or too long, or has invalid characters.
    #[error(
        "a module name has 1 to 32 lower-case letters, digits and hyphens, starts with a letter and does not end with a hyphen"
    )]
    Malformed,
    /// The name is reserved, because it is a keyword or the name of a crate that every module uses.
    #[error(
        "`{0}` is reserved: it is a keyword or the name of a crate that every module uses; choose another name"
    )]
    Reserved(String),
}

impl Name {
    /// Returns the name.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns the name of the component file that the compiler writes.
    #[must_use]
    pub fn file_name(&self) -> String {
        format!("{}.wasm", self.0.replace('-', "_"))
    }

    /// Returns the name in camel case, for example `MyNotes`.
    pub(super) fn to_camel_case(&self) -> String {
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
        let valid = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-';
        let letter_first = text.starts_with(|c: char| c.is_ascii_lowercase());
        if !letter_first || text.len() > 32 || !text.bytes().all(valid) || text.ends_with('-') {
            return Err(NameError::Malformed);
        }
        if RESERVED.contains(&text) {
            return Err(NameError::Reserved(text.into()));
        }
        Ok(Self(text.into()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_valid_for_a_crate_a_file_and_an_operation() {
        let name: Name = "my-2nd-notes".parse().unwrap();
        assert_eq!(name.file_name(), "my_2nd_notes.wasm");
        assert_eq!(name.to_camel_case(), "My2ndNotes");
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
        for reserved in ["type", "serde", "latchmail-sdk", "core", "test"] {
            assert_eq!(
                reserved.parse::<Name>(),
                Err(NameError::Reserved(reserved.into()))
            );
        }
        assert!("a".repeat(32).parse::<Name>().is_ok());
    }
}
