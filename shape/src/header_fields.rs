//! The header fields that clients can add to messages they send.

/// Maximum number of additional header fields of a message.
pub const MAX_HEADER_FIELDS: usize = 50;
/// Maximum length of the name of an additional header field, in bytes.
const MAX_NAME: usize = 70;
/// Maximum length of the value, in characters. A word of this length fits on one line with the name
/// (RFC 5322, section 2.1.1).
const MAX_VALUE: usize = 900;

/// The names that are allowed besides the ones that begin with `X-` or `List-`.
const NAMES: [&str; 3] = ["auto-submitted", "importance", "precedence"];

/// The beginnings of names with which mail servers and filters record their results. The service
/// and mail clients trust such fields.
const RESERVED: [&str; 14] = [
    "x-arc",
    "x-auth",
    "x-bogosity",
    "x-delivered-to",
    "x-dkim",
    "x-dmarc",
    "x-envelope",
    "x-ham",
    "x-latchmail",
    "x-original-to",
    "x-quarantine",
    "x-rspam",
    "x-spam",
    "x-spf",
];

/// The reason why a client cannot add a header field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HeaderFieldError {
    /// The name is not in the list of allowed names.
    NameNotAllowed,
    /// Mail servers record results of checks under this name.
    NameReserved,
    /// The value is empty or too long, or contains a control character.
    Value,
    /// The value must consist of ASCII characters.
    ValueNotAscii,
}

/// Returns `true` if the field can occur more than once.
#[must_use]
pub fn is_repeatable(name: &str) -> bool {
    has_prefix(name, "x-")
}

/// Checks a header field that a client adds to a message.
///
/// # Errors
/// Returns a [`HeaderFieldError`] if the field is not allowed.
pub fn check_header_field(name: &str, value: &str) -> Result<(), HeaderFieldError> {
    let is_name_byte = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
    let has_more = |prefix: &str| name.len() > prefix.len() && has_prefix(name, prefix);
    let is_listed = NAMES
        .iter()
        .any(|allowed| name.eq_ignore_ascii_case(allowed));
    if name.len() > MAX_NAME
        || !name.bytes().all(is_name_byte)
        || !(is_listed || has_more("x-") || has_more("list-"))
    {
        return Err(HeaderFieldError::NameNotAllowed);
    }
    // The results of virus scanners have many names.
    if RESERVED.iter().any(|reserved| has_prefix(name, reserved))
        || name.to_ascii_lowercase().contains("virus")
    {
        return Err(HeaderFieldError::NameReserved);
    }
    if value.trim().is_empty()
        || value.trim() != value
        || value.chars().count() > MAX_VALUE
        || value
            .chars()
            .any(|c| c.is_control() || matches!(c, '\u{2028}' | '\u{2029}'))
    {
        return Err(HeaderFieldError::Value);
    }
    if is_listed && !value.is_ascii() {
        return Err(HeaderFieldError::ValueNotAscii);
    }
    Ok(())
}

fn has_prefix(name: &str, prefix: &str) -> bool {
    let start = name.get(..prefix.len());
    start.is_some_and(|start| start.eq_ignore_ascii_case(prefix))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_names_of_the_list_are_allowed() {
        for name in [
            "X-A",
            "x-mailer",
            "List-Id",
            "LIST-Unsubscribe-Post",
            "importance",
        ] {
            assert_eq!(check_header_field(name, "v"), Ok(()), "{name}");
        }
        let long = format!("X-{}", "a".repeat(MAX_NAME));
        for name in [
            "",
            "X-",
            "List-",
            "Bcc",
            "From",
            "References",
            "Received",
            "X-A:",
            "X-A\r\nBcc",
            "X A",
            "Auto-Submitted-X",
            "X-\u{fc}",
            &long,
        ] {
            let error = Err(HeaderFieldError::NameNotAllowed);
            assert_eq!(check_header_field(name, "v"), error, "{name}");
        }
    }

    #[test]
    fn names_with_results_of_checks_are_reserved() {
        for name in [
            "X-Spam-Status",
            "x-spamd-result",
            "X-Authentication-Results",
            "X-Virus-Scanned",
            "X-Amavis-Virus",
            "X-Latchmail-Mark",
            "X-Rspamd-Score",
            "X-DKIM",
        ] {
            let error = Err(HeaderFieldError::NameReserved);
            assert_eq!(check_header_field(name, "v"), error, "{name}");
        }
    }

    #[test]
    fn a_value_is_on_one_line_and_bounded() {
        let longest = "\u{fc}".repeat(MAX_VALUE);
        for value in ["v", "a b", "<https://a.example/?b=?c>", &longest] {
            assert_eq!(check_header_field("X-A", value), Ok(()), "{value}");
        }
        let long = "a".repeat(MAX_VALUE + 1);
        for value in [
            "",
            " ",
            " a",
            "a ",
            "a\r\nBcc: b",
            "a\nb",
            "a\0",
            "a\tb",
            "a\u{85}",
            &long,
        ] {
            let error = Err(HeaderFieldError::Value);
            assert_eq!(check_header_field("X-A", value), error, "{value}");
        }
        let error = Err(HeaderFieldError::ValueNotAscii);
        assert_eq!(check_header_field("Precedence", "b\u{fc}lk"), error);
    }
}
