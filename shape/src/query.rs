//! Decodes the segments of a path (percent-encoding) and the query string (form encoding of the URL
//! Standard).

/// Decodes the value of one segment of a path. Returns `None` if a percent escape is incomplete, if
/// the decoded bytes are not UTF-8, or if they contain NUL.
#[must_use]
pub fn decode_segment(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        if byte == b'%' {
            let digit = |byte: u8| char::from(byte).to_digit(16);
            let (high, low) = (digit(rest.next()?)?, digit(rest.next()?)?);
            bytes.push(u8::try_from(high * 16 + low).ok()?);
        } else {
            bytes.push(byte);
        }
    }
    String::from_utf8(bytes)
        .ok()
        .filter(|text| !text.contains('\0'))
}

/// Decodes the names and values of a query string, and preserves their order. `+` represents a
/// space. A name without `=` has an empty value. Returns `None` if a name or a value has an invalid
/// encoding, as in [`decode_segment`].
#[must_use]
pub fn decode_query(query: &str) -> Option<Vec<(String, String)>> {
    let field = |text: &str| decode_segment(&text.replace('+', " "));
    query
        .split('&')
        .filter(|pair| !pair.is_empty())
        .map(|pair| {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            Some((field(name)?, field(value)?))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pair(name: &str, value: &str) -> (String, String) {
        (name.into(), value.into())
    }

    #[test]
    fn a_query_is_decoded_in_its_order() {
        let query = decode_query("q=a+b%2Bc&empty=&flag&&q=%C3%A4%3D=").unwrap();
        let expected = [
            pair("q", "a b+c"),
            pair("empty", ""),
            pair("flag", ""),
            pair("q", "ä=="),
        ];
        assert_eq!(query, expected);
        assert!(decode_query("").unwrap().is_empty());
    }

    #[test]
    fn an_encoded_slash_and_a_plus_are_part_of_a_segment() {
        assert_eq!(decode_segment("A%2FB+C").unwrap(), "A/B+C");
    }

    #[test]
    fn invalid_encodings_and_nul_are_rejected() {
        for raw in ["%ff", "%zz", "%a", "a%", "%", "%00", "%C3"] {
            assert_eq!(decode_segment(raw), None, "{raw}");
            assert_eq!(decode_query(&format!("a={raw}")), None, "{raw}");
        }
    }
}
