//! The error codes of the API: the type [`Code`], and the codes of the host and of the bundled
//! modules with their statuses and texts.
//!
//! Clients distinguish errors by the code, so a code never changes its meaning. `docs/errors.md`
//! has the meaning of each code; a test compares the page with [`ALL`]. A module of another author
//! defines its own codes as constants:
//!
//! ```
//! use latchmail_shape::Code;
//!
//! const LABEL_EXISTS: Code = Code::new("label_exists");
//! ```

mod list;

use std::borrow::Cow;
use std::fmt;

pub use list::*;

/// The maximum number of characters of a code.
pub const MAX_LENGTH: usize = 64;

/// An error code: lower-case words of ASCII letters and digits, joined by `_` ("snake case"), for
/// example `folder_not_found`. A code starts with a letter and has at most 64 characters.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Code(Cow<'static, str>);

impl Code {
    /// Creates a code.
    ///
    /// # Panics
    /// Panics if the text is not a valid code. The compiler reports the error if the code is a
    /// constant, so define codes as constants.
    #[must_use]
    pub const fn new(text: &'static str) -> Self {
        assert!(
            is_valid(text),
            "a code consists of lower-case words, joined by _"
        );
        Self(Cow::Borrowed(text))
    }

    /// Parses a code that is known only at run time, for example a code from the host. Returns
    /// `None` if the text is not a valid code.
    #[must_use]
    pub fn parse(text: impl Into<Cow<'static, str>>) -> Option<Self> {
        let text = text.into();
        is_valid(&text).then_some(Self(text))
    }

    /// Returns the text of the code.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl From<Code> for String {
    fn from(code: Code) -> Self {
        code.0.into_owned()
    }
}

const fn is_valid(text: &str) -> bool {
    let bytes = text.as_bytes();
    if bytes.is_empty() || bytes.len() > MAX_LENGTH || !bytes[0].is_ascii_lowercase() {
        return false;
    }
    let mut at = 1;
    while at < bytes.len() {
        let is_separator = bytes[at] == b'_';
        let follows_separator = bytes[at - 1] == b'_';
        let is_word = bytes[at].is_ascii_lowercase() || bytes[at].is_ascii_digit();
        if !is_word && (!is_separator || follows_separator) {
            return false;
        }
        at += 1;
    }
    bytes[bytes.len() - 1] != b'_'
}

/// A code of the host or of a bundled module.
#[derive(Clone, Debug)]
pub struct KnownCode {
    /// The code.
    pub code: Code,
    /// The statuses of responses with this code.
    pub statuses: &'static [u16],
    /// The error texts. `{}` stands for any text.
    pub texts: &'static [&'static str],
}

impl KnownCode {
    /// Returns whether an error with this code can have the status `status` and the text `text`.
    #[must_use]
    pub fn allows(&self, status: u16, text: &str) -> bool {
        self.statuses.contains(&status) && self.texts.iter().any(|one| matches(one, text))
    }
}

/// Returns the entry of [`ALL`] with this code.
#[must_use]
pub fn known(code: &str) -> Option<&'static KnownCode> {
    ALL.iter().find(|one| one.code.as_str() == code)
}

/// Returns the entry of [`ALL`] that lists exactly this text.
#[must_use]
pub fn of_text(text: &str) -> Option<&'static KnownCode> {
    ALL.iter().find(|one| one.texts.contains(&text))
}

/// The ends of the texts with which the parser of JSON bodies reports the wrong type of any field.
const WRONG_TYPE: [&str; 6] = [
    " must be a string",
    " must be a boolean",
    " must be a number",
    " must be an integer",
    " must be an array",
    " must be an object",
];

/// Returns the entry of [`ALL`] with the status and the text of a response. If several entries
/// match, the entry with the longest pattern is returned.
#[must_use]
pub fn of_response(status: u16, text: &str) -> Option<&'static KnownCode> {
    if status == 400 && WRONG_TYPE.iter().any(|end| text.ends_with(end)) {
        return known(INVALID_FIELD.as_str());
    }
    let length = |one: &&KnownCode| {
        let fitting = one.texts.iter().filter(|pattern| matches(pattern, text));
        fitting.map(|pattern| pattern.len()).max()
    };
    ALL.iter()
        .filter(|one| one.allows(status, text))
        .max_by_key(length)
}

/// Returns whether `text` has the form of `pattern`, in which `{}` stands for any text.
fn matches(pattern: &str, text: &str) -> bool {
    let mut parts = pattern.split("{}");
    let Some(mut rest) = parts.next().and_then(|first| text.strip_prefix(first)) else {
        return false;
    };
    let parts: Vec<_> = parts.collect();
    let Some((last, middle)) = parts.split_last() else {
        return rest.is_empty();
    };
    for part in middle {
        let Some(at) = rest.find(part) else {
            return false;
        };
        rest = &rest[at + part.len()..];
    }
    rest.ends_with(last)
}

/// Defines a constant for each code, and the list [`ALL`].
macro_rules! codes {
    ($($name:ident = $code:literal, [$($status:literal),+], [$($text:literal),+ $(,)?];)+) => {
        $(
            #[doc = concat!("The code `", $code, "`.")]
            pub const $name: Code = Code::new($code);
        )+

        /// All codes of the host and of the bundled modules.
        pub const ALL: &[KnownCode] = &[
            $(KnownCode { code: $name, statuses: &[$($status),+], texts: &[$($text),+] },)+
        ];

        #[cfg(test)]
        pub(super) const NAMES: &[&str] = &[$(stringify!($name)),+];
    };
}
use codes;

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn a_code_consists_of_lower_case_words() {
        for text in ["a", "folder_not_found", "two_factor_2", &"a".repeat(64)] {
            assert!(Code::parse(text.to_owned()).is_some(), "{text}");
        }
        for text in [
            "",
            "_a",
            "a_",
            "a__b",
            "A",
            "a-b",
            "a b",
            "1a",
            "é",
            &"a".repeat(65),
        ] {
            assert!(Code::parse(text.to_owned()).is_none(), "{text}");
        }
    }

    #[test]
    fn each_code_is_the_name_of_its_constant() {
        assert_eq!(list::NAMES.len(), ALL.len());
        for (name, known) in list::NAMES.iter().zip(ALL) {
            assert_eq!(name.to_lowercase(), known.code.as_str());
        }
    }

    #[test]
    fn codes_and_fixed_texts_are_unique() {
        let (mut codes, mut texts) = (HashSet::new(), HashSet::new());
        for known in ALL {
            assert!(codes.insert(known.code.as_str()), "{}", known.code);
            for text in known.texts {
                assert!(texts.insert(text), "{text}");
            }
        }
    }

    #[test]
    fn the_documentation_lists_each_code_with_its_statuses_and_texts() {
        let row = |known: &KnownCode| {
            let statuses: Vec<_> = known.statuses.iter().map(u16::to_string).collect();
            let texts = known.texts.iter().map(|text| match *text {
                "{}" => "any".to_owned(),
                text => format!("`{}`", text.replace("{}", "…")),
            });
            let texts: Vec<String> = texts.collect();
            let (statuses, texts) = (statuses.join(", "), texts.join("; "));
            format!("| `{}` | {statuses} | {texts} |", known.code)
        };
        let page = include_str!("../../docs/errors.md");
        let documented: Vec<_> = page
            .lines()
            .filter(|line| line.starts_with("| `"))
            .collect();
        for known in ALL {
            let row = row(known);
            let found = documented.iter().any(|line| line.starts_with(&row));
            assert!(found, "docs/errors.md has no row that starts with {row}");
        }
        assert_eq!(documented.len(), ALL.len());
    }

    #[test]
    fn a_pattern_matches_any_text_in_its_place() {
        assert!(matches("This {} is {}", "This name is \"is \""));
        assert!(matches("{}", ""));
        assert!(!matches("Folder not found", "Folder not found."));
        assert!(!matches("{} must not be repeated", "page must be repeated"));
        assert!(!matches("a {} b", "a b"));
    }
}
