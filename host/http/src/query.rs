//! Percent-decoding of the values of a path's named segments and of the query string (the form encoding of the URL Standard). Invalid encodings are rejected.

use percent_encoding::percent_decode_str;

use crate::rejection::Rejection;

/// Decodes the value of one segment of a path.
///
/// # Errors
/// Returns 400 if an escape is incomplete, the bytes are not UTF-8, or one of them is NUL.
pub fn segment(raw: &str) -> Result<String, Rejection> {
    decoded(raw)
        .ok_or_else(|| Rejection::bad_request("The path is not valid percent-encoded UTF-8"))
}

/// Decodes the names and values of a query string, in their order. `+` is a space. A name without `=` has an empty value.
///
/// # Errors
/// Returns the errors of [`segment`].
pub fn pairs(raw: &str) -> Result<Vec<(String, String)>, Rejection> {
    raw.split('&')
        .filter(|pair| !pair.is_empty())
        .map(|pair| {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            Some((field(name)?, field(value)?))
        })
        .collect::<Option<_>>()
        .ok_or_else(|| Rejection::bad_request("The query is not valid percent-encoded UTF-8"))
}

/// Removes a parameter from a query and returns its value.
///
/// # Errors
/// Returns 400 if the parameter is repeated, because two programs could use different values of it.
pub fn taken(query: &mut Vec<(String, String)>, name: &str) -> Result<Option<String>, Rejection> {
    let mut values = query.extract_if(.., |(key, _)| key == name);
    let value = values.next().map(|(_, value)| value);
    let again = values.count() > 0;
    if again {
        return Err(Rejection::bad_request(format!(
            "{name} must not be repeated"
        )));
    }
    Ok(value)
}

fn field(raw: &str) -> Option<String> {
    decoded(&raw.replace('+', " "))
}

fn decoded(raw: &str) -> Option<String> {
    // The decoder does not change an incomplete escape, which two programs could interpret differently.
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
    fn a_query_is_decoded_in_the_order_given() {
        let read = pairs("q=a+b%2Bc&empty=&flag&&q=%C3%A4%3D=").unwrap();
        let expected = [
            pair("q", "a b+c"),
            pair("empty", ""),
            pair("flag", ""),
            pair("q", "ä=="),
        ];
        assert_eq!(read, expected);
        assert!(pairs("").unwrap().is_empty());
    }

    #[test]
    fn a_parameter_is_taken_out_and_may_not_be_there_twice() {
        let mut query = pairs("a=1&mailbox=m&b=2").unwrap();
        assert_eq!(taken(&mut query, "mailbox").unwrap().unwrap(), "m");
        assert_eq!(query, [pair("a", "1"), pair("b", "2")]);
        assert_eq!(taken(&mut query, "mailbox").unwrap(), None);
        let mut twice = pairs("mailbox=m&mailbox=m").unwrap();
        assert_eq!(taken(&mut twice, "mailbox").unwrap_err().status, 400);
    }

    #[test]
    fn an_encoded_slash_and_a_plus_are_part_of_a_segment() {
        assert_eq!(segment("A%2FB+C").unwrap(), "A/B+C");
    }

    #[test]
    fn what_is_not_text_is_refused() {
        for raw in ["%ff", "%zz", "%a", "a%", "%", "%00", "%C3"] {
            assert_eq!(segment(raw).unwrap_err().status, 400, "{raw}");
            assert_eq!(pairs(&format!("a={raw}")).unwrap_err().status, 400, "{raw}");
        }
    }
}
