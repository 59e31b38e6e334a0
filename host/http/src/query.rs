//! Decodes the named segments of a path (percent-encoding) and the query string (form encoding of
//! the URL Standard). Returns an error for invalid encodings.

use percent_encoding::percent_decode_str;

use crate::rejection::Rejection;

/// Decodes the value of one named segment of a path.
///
/// # Errors
/// Returns 400 if a percent escape is incomplete, if the decoded bytes are not UTF-8, or if they
/// contain NUL.
pub fn decode_segment(raw: &str) -> Result<String, Rejection> {
    decode(raw).ok_or_else(|| Rejection::bad_request("The path is not valid percent-encoded UTF-8"))
}

/// Decodes the names and values of a query string, and preserves their order. `+` represents a
/// space. A name without `=` has an empty value.
///
/// # Errors
/// Returns 400 if a name or a value has an invalid encoding, as in [`decode_segment`].
pub fn parse(raw: &str) -> Result<Vec<(String, String)>, Rejection> {
    raw.split('&')
        .filter(|pair| !pair.is_empty())
        .map(|pair| {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            Some((decode_field(name)?, decode_field(value)?))
        })
        .collect::<Option<_>>()
        .ok_or_else(|| Rejection::bad_request("The query is not valid percent-encoded UTF-8"))
}

/// Removes a parameter from a query and returns its value.
///
/// # Errors
/// Returns 400 if the query contains the parameter several times, because a proxy and the service
/// could use different values.
pub fn take(query: &mut Vec<(String, String)>, name: &str) -> Result<Option<String>, Rejection> {
    let mut values = query.extract_if(.., |(key, _)| key == name);
    let value = values.next().map(|(_, value)| value);
    let is_repeated = values.count() > 0;
    if is_repeated {
        return Err(Rejection::bad_request(format!(
            "{name} must not be repeated"
        )));
    }
    Ok(value)
}

fn decode_field(raw: &str) -> Option<String> {
    decode(&raw.replace('+', " "))
}

fn decode(raw: &str) -> Option<String> {
    // The decoder copies `%` unchanged if two hexadecimal digits do not follow. Other programs
    // could decode such a text differently, so this function rejects the text.
    let complete = raw.split('%').skip(1).all(|rest| {
        let hex = rest.as_bytes();
        hex.len() >= 2 && hex[..2].iter().all(u8::is_ascii_hexdigit)
    });
    let text = percent_decode_str(raw).decode_utf8().ok()?;
    (complete && !text.contains('\0')).then(|| text.into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pair(name: &str, value: &str) -> (String, String) {
        (name.into(), value.into())
    }

    #[test]
    fn a_query_is_decoded_in_its_order() {
        let query = parse("q=a+b%2Bc&empty=&flag&&q=%C3%A4%3D=").unwrap();
        let expected = [
            pair("q", "a b+c"),
            pair("empty", ""),
            pair("flag", ""),
            pair("q", "ä=="),
        ];
        assert_eq!(query, expected);
        assert!(parse("").unwrap().is_empty());
    }

    #[test]
    fn a_parameter_is_removed_and_must_not_be_repeated() {
        let mut query = parse("a=1&mailbox=m&b=2").unwrap();
        assert_eq!(take(&mut query, "mailbox").unwrap().unwrap(), "m");
        assert_eq!(query, [pair("a", "1"), pair("b", "2")]);
        assert_eq!(take(&mut query, "mailbox").unwrap(), None);
        let mut twice = parse("mailbox=m&mailbox=m").unwrap();
        assert_eq!(take(&mut twice, "mailbox").unwrap_err().status, 400);
    }

    #[test]
    fn an_encoded_slash_and_a_plus_are_part_of_a_segment() {
        assert_eq!(decode_segment("A%2FB+C").unwrap(), "A/B+C");
    }

    #[test]
    fn invalid_encodings_and_nul_are_rejected() {
        for raw in ["%ff", "%zz", "%a", "a%", "%", "%00", "%C3"] {
            assert_eq!(decode_segment(raw).unwrap_err().status, 400, "{raw}");
            assert_eq!(parse(&format!("a={raw}")).unwrap_err().status, 400, "{raw}");
        }
    }
}
