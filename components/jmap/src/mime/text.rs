//! Decodes the text of parts: the transfer encoding (RFC 2045, section 6) and the character set.

use crate::ids::Encoding;

/// Decodes a transfer encoding. Ignores invalid characters, as the host does.
pub(crate) fn transfer(encoded: &[u8], encoding: Encoding) -> Vec<u8> {
    match encoding {
        Encoding::Identity => encoded.to_vec(),
        Encoding::Base64 => base64(encoded),
        Encoding::QuotedPrintable => quoted_printable(encoded),
    }
}

/// Returns the value of a character of base64.
pub(crate) fn base64_value(byte: u8) -> Option<u32> {
    let value = match byte {
        b'A'..=b'Z' => byte - b'A',
        b'a'..=b'z' => byte - b'a' + 26,
        b'0'..=b'9' => byte - b'0' + 52,
        b'+' => 62,
        b'/' => 63,
        _ => return None,
    };
    Some(value.into())
}

pub(crate) fn base64(encoded: &[u8]) -> Vec<u8> {
    let mut decoded = Vec::with_capacity(encoded.len() / 4 * 3 + 3);
    let (mut bits, mut count) = (0_u32, 0);
    for value in encoded.iter().copied().filter_map(base64_value) {
        bits = (bits << 6) | value;
        count += 1;
        if count == 4 {
            decoded.extend_from_slice(&bits.to_be_bytes()[1..]);
            (bits, count) = (0, 0);
        }
    }
    // The last group has two or three characters, for one or two bytes.
    if count > 1 {
        let bytes = (bits << (6 * (4 - count))).to_be_bytes();
        decoded.extend_from_slice(&bytes[1..count]);
    }
    decoded
}

fn quoted_printable(encoded: &[u8]) -> Vec<u8> {
    let mut decoded = Vec::with_capacity(encoded.len());
    let mut rest = encoded;
    while let Some((first, after)) = rest.split_first() {
        rest = after;
        if *first != b'=' {
            decoded.push(*first);
            continue;
        }
        if let Some(value) = hex_pair(after) {
            decoded.push(value);
            rest = &after[2..];
        } else if let Some(length) = soft_break(after) {
            rest = &after[length..];
        } else {
            decoded.push(*first);
        }
    }
    decoded
}

/// Returns the value of two hexadecimal digits.
pub(crate) fn hex_pair(text: &[u8]) -> Option<u8> {
    let digit = |byte: &u8| char::from(*byte).to_digit(16);
    let (high, low) = (digit(text.first()?)?, digit(text.get(1)?)?);
    u8::try_from(high * 16 + low).ok()
}

/// Returns the length of a line break after `=`, with the spaces before it.
fn soft_break(text: &[u8]) -> Option<usize> {
    let spaces = text.iter().take_while(|byte| matches!(byte, b' ' | b'\t'));
    let spaces = spaces.count();
    match &text[spaces..] {
        [b'\r', b'\n', ..] => Some(spaces + 2),
        [b'\n', ..] => Some(spaces + 1),
        [] => Some(spaces),
        _ => None,
    }
}

/// Decodes a text. Also returns whether the character set is unknown or the bytes are invalid.
pub(crate) fn charset(bytes: &[u8], name: Option<&str>) -> (String, bool) {
    let name = name.unwrap_or("us-ascii").trim();
    if name.eq_ignore_ascii_case("us-ascii") || name.eq_ignore_ascii_case("utf-8") {
        return match std::str::from_utf8(bytes) {
            Ok(text) => (text.into(), false),
            Err(_) => (String::from_utf8_lossy(bytes).into_owned(), true),
        };
    }
    match encoding_rs::Encoding::for_label(name.as_bytes()) {
        Some(encoding) => {
            let (text, has_errors) = encoding.decode_without_bom_handling(bytes);
            (text.into_owned(), has_errors)
        }
        None => (String::from_utf8_lossy(bytes).into_owned(), true),
    }
}

#[cfg(test)]
mod tests {
    use base64::Engine as _;
    use base64::engine::general_purpose::STANDARD;
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn quoted_printable_is_decoded() {
        for (encoded, decoded) in [
            ("a=3D=C3=A9", "a=\u{e9}"),
            ("a=\r\nb=  \r\nc=\nd", "abcd"),
            ("a=zz=", "a=zz"),
        ] {
            let found = transfer(encoded.as_bytes(), Encoding::QuotedPrintable);
            assert_eq!(String::from_utf8(found).unwrap(), decoded);
        }
    }

    #[test]
    fn texts_have_a_character_set() {
        assert_eq!(
            charset(b"caf\xe9", Some("ISO-8859-1")),
            ("caf\u{e9}".into(), false)
        );
        assert_eq!(charset(b"caf\xc3\xa9", None), ("caf\u{e9}".into(), false));
        assert_eq!(charset(b"a\xff", Some("utf-8")), ("a\u{fffd}".into(), true));
        assert_eq!(charset(b"a", Some("x-unknown")), ("a".into(), true));
    }

    proptest! {
        #[test]
        fn base64_is_decoded(bytes in any::<Vec<u8>>()) {
            let encoded = STANDARD.encode(&bytes).replace('A', "A\r\n ");
            prop_assert_eq!(transfer(encoded.as_bytes(), Encoding::Base64), bytes);
        }
    }
}
