//! Decodes the named segments of a path and the query string. Returns an error for invalid
//! encodings.

use crate::rejection::Rejection;
use latchmail_core::codes;

/// Decodes the value of one named segment of a path.
///
/// # Errors
/// Returns 400 if the value has an invalid encoding (see [`latchmail_shape::decode_segment`]).
pub fn decode_segment(raw: &str) -> Result<String, Rejection> {
    latchmail_shape::decode_segment(raw).ok_or_else(|| {
        Rejection::bad_request(
            codes::INVALID_PATH_ENCODING,
            "The path is not valid percent-encoded UTF-8",
        )
    })
}

/// Decodes the names and values of a query string (see [`latchmail_shape::decode_query`]).
///
/// # Errors
/// Returns 400 if a name or a value has an invalid encoding.
pub fn parse(raw: &str) -> Result<Vec<(String, String)>, Rejection> {
    latchmail_shape::decode_query(raw).ok_or_else(|| {
        Rejection::bad_request(
            codes::INVALID_QUERY_ENCODING,
            "The query is not valid percent-encoded UTF-8",
        )
    })
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
        return Err(Rejection::bad_request(
            codes::PARAMETER_REPEATED,
            format!("{name} must not be repeated"),
        ));
    }
    Ok(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pair(name: &str, value: &str) -> (String, String) {
        (name.into(), value.into())
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
    fn invalid_encodings_and_nul_are_rejected() {
        for raw in ["%ff", "%zz", "%a", "a%", "%", "%00", "%C3"] {
            assert_eq!(decode_segment(raw).unwrap_err().status, 400, "{raw}");
            assert_eq!(parse(&format!("a={raw}")).unwrap_err().status, 400, "{raw}");
        }
    }
}
