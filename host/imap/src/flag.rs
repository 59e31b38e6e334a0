//! The flags that an API client can set (RFC 3501, section 2.3.2): four system flags, and keywords.
//! The mail server never receives an invalid flag name.

/// A valid flag.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Flag(String);

/// The system flags that a client can set. `\Deleted` is excluded because the API deletes messages
/// immediately.
const SYSTEM: [&str; 4] = ["\\Seen", "\\Answered", "\\Flagged", "\\Draft"];

/// The flag of messages that the next EXPUNGE removes.
const DELETED: &str = "\\Deleted";

/// Maximum length of a keyword, in bytes.
const MAX_KEYWORD: usize = 100;

impl Flag {
    /// Returns the flag with this name. Returns `None` if clients must not set the flag. Also
    /// returns `None` if the name is not an atom (RFC 3501, section 9).
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        if name.starts_with('\\') {
            let known = SYSTEM.iter().find(|flag| flag.eq_ignore_ascii_case(name))?;
            return Some(Self((*known).to_owned()));
        }
        let atom = !name.is_empty() && name.len() <= MAX_KEYWORD && name.bytes().all(is_atom);
        atom.then(|| Self(name.to_owned()))
    }

    /// Works like [`Flag::named`], and also accepts `\Deleted`. For messages that are stored again
    /// with all their flags.
    #[must_use]
    pub fn restored(name: &str) -> Option<Self> {
        if name.eq_ignore_ascii_case(DELETED) {
            return Some(Self(DELETED.to_owned()));
        }
        Self::named(name)
    }

    /// Returns the flag's name in IMAP.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns `true` for a keyword and `false` for a system flag.
    #[must_use]
    pub fn is_keyword(&self) -> bool {
        !self.0.starts_with('\\')
    }
}

impl AsRef<str> for Flag {
    fn as_ref(&self) -> &str {
        &self.0
    }
}

/// Returns `true` for every character except atom-specials.
fn is_atom(byte: u8) -> bool {
    (0x21..0x7f).contains(&byte) && !b"(){%*\"\\]".contains(&byte)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_are_those_that_a_client_may_set_and_atoms() {
        for (name, wire) in [
            ("\\Seen", "\\Seen"),
            ("\\fLAGGED", "\\Flagged"),
            ("$Forwarded", "$Forwarded"),
            ("a.b-c_d+e[f}", "a.b-c_d+e[f}"),
        ] {
            assert_eq!(Flag::named(name).unwrap().as_str(), wire);
        }
    }

    #[test]
    fn what_is_no_flag_never_becomes_one() {
        for name in [
            "",
            "\\Deleted",
            "\\Recent",
            "\\*",
            "\\",
            "\\Unknown",
            "a b",
            "a\r\nb",
            "a\0",
            "a(b",
            "a)b",
            "{3}",
            "a%",
            "a*",
            "a\"b",
            "a\\b",
            "a]b",
            "ü",
            "\x7f",
            &"x".repeat(101),
        ] {
            assert_eq!(Flag::named(name), None, "{name:?}");
        }
    }
}
