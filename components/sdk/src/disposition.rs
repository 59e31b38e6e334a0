//! The `Content-Disposition` header (RFC 6266) with the file name of a download.

use std::fmt::Write as _;

/// Returns the header value for a file name. The value contains an ASCII form for old clients, and
/// the full name (RFC 8187).
pub(crate) fn attachment(filename: &str) -> String {
    let plain: String = filename
        .chars()
        // A quote would end the quoted string, and a backslash would escape the next character.
        // Some clients interpret a percent sign as an escape character.
        .map(|c| match c {
            '"' | '\\' | '%' => '_',
            ' '..='~' => c,
            _ => '_',
        })
        .collect();
    let mut value = format!("attachment; filename=\"{plain}\"; filename*=UTF-8''");
    for byte in filename.bytes() {
        if byte.is_ascii_alphanumeric() || b"!#$&+-.^_`|~".contains(&byte) {
            value.push(char::from(byte));
        } else {
            let _ = write!(value, "%{byte:02X}");
        }
    }
    value
}

#[cfg(test)]
mod tests {
    use super::attachment;

    #[test]
    fn a_plain_name_is_quoted() {
        assert_eq!(
            attachment("report 1.pdf"),
            "attachment; filename=\"report 1.pdf\"; filename*=UTF-8''report%201.pdf"
        );
    }

    #[test]
    fn other_names_have_an_ascii_form_and_an_encoded_form() {
        assert_eq!(
            attachment("résumé.pdf"),
            "attachment; filename=\"r_sum_.pdf\"; filename*=UTF-8''r%C3%A9sum%C3%A9.pdf"
        );
    }

    #[test]
    fn a_name_cannot_add_parameters() {
        let value = attachment("a\"; filename=b\\\r\nSet-Cookie: c'*%41\u{202e}");
        assert_eq!(
            value,
            "attachment; filename=\"a_; filename=b___Set-Cookie: c'*_41_\"; \
             filename*=UTF-8''a%22%3B%20filename%3Db%5C%0D%0ASet-Cookie%3A%20c%27%2A%2541%E2%80%AE"
        );
    }
}
