//! Labels of tokens and app passwords.

use latchmail_sdk::{Failure, codes};

const MAX_LABEL: usize = 64;

/// Removes the white space around a label. Returns 400 if the label is empty, has more than 64
/// characters or contains control characters.
pub(crate) fn label(given: Option<&str>) -> Result<&str, Failure> {
    let label = given.map(str::trim).unwrap_or_default();
    if label.is_empty() {
        return Err(Failure::bad_request(
            codes::LABEL_REQUIRED,
            "label is required",
        ));
    }
    if label.chars().count() > MAX_LABEL {
        return Err(Failure::bad_request(
            codes::INVALID_LABEL,
            "label must be 1 to 64 characters",
        ));
    }
    if label.chars().any(char::is_control) {
        return Err(Failure::bad_request(
            codes::INVALID_LABEL,
            "label must not contain control characters",
        ));
    }
    Ok(label)
}

#[cfg(test)]
mod tests {
    use latchmail_sdk::testing::failure;

    use super::*;

    #[test]
    fn a_label_is_trimmed_and_has_1_to_64_characters_on_one_line() {
        assert_eq!(label(Some("  My phone ")).unwrap(), "My phone");
        assert!(label(Some(&"é".repeat(64))).is_ok());
        for (given, text) in [
            (None, "label is required"),
            (Some(""), "label is required"),
            (Some(" \n "), "label is required"),
            (Some(&*"é".repeat(65)), "label must be 1 to 64 characters"),
            (Some("a\nb"), "label must not contain control characters"),
            (Some("a\0"), "label must not contain control characters"),
        ] {
            assert_eq!(label(given), Err(failure(400, text)), "{given:?}");
        }
    }
}
