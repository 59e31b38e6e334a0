//! Encoding of folder names as modified UTF-7 (RFC 3501, section 5.1.3).

use base64::Engine as _;
use base64::alphabet;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};

use super::bounds;

/// Base64 with `,` instead of `/` and without padding.
const BASE64: GeneralPurpose = GeneralPurpose::new(
    &alphabet::IMAP_MUTF7,
    GeneralPurposeConfig::new()
        .with_encode_padding(false)
        .with_decode_padding_mode(DecodePaddingMode::RequireNone),
);

/// Returns the server's name of the folder with this path, in modified UTF-7. Returns `None` if no
/// folder can have this path.
#[must_use]
pub fn name(path: &str) -> Option<String> {
    let impossible =
        path.is_empty() || path.len() > bounds::PATH || path.contains(['\r', '\n', '\0']);
    (!impossible).then(|| encode(path))
}

/// Encodes Unicode as modified UTF-7. The result is printable ASCII.
#[must_use]
pub fn encode(path: &str) -> String {
    let mut encoded = String::with_capacity(path.len());
    let mut shifted: Vec<u8> = Vec::new();
    for c in path.chars() {
        if matches!(c, ' '..='~') {
            flush(&mut encoded, &mut shifted);
            encoded.push(c);
            if c == '&' {
                encoded.push('-');
            }
        } else {
            for unit in c.encode_utf16(&mut [0; 2]) {
                shifted.extend_from_slice(&unit.to_be_bytes());
            }
        }
    }
    flush(&mut encoded, &mut shifted);
    encoded
}

fn flush(encoded: &mut String, shifted: &mut Vec<u8>) {
    if !shifted.is_empty() {
        encoded.push('&');
        BASE64.encode_string(&shifted, encoded);
        encoded.push('-');
        shifted.clear();
    }
}

/// Decodes modified UTF-7. Does not change invalid parts, so that a folder list contains every
/// folder.
#[must_use]
pub fn decode(name: &str) -> String {
    let mut decoded = String::with_capacity(name.len());
    let mut rest = name;
    while let Some(open) = rest.find('&') {
        decoded.push_str(&rest[..open]);
        rest = &rest[open..];
        let Some(close) = rest.find('-') else { break };
        match unshift(&rest[1..close]) {
            Some(text) => decoded.push_str(&text),
            None => decoded.push_str(&rest[..=close]),
        }
        rest = &rest[close + 1..];
    }
    decoded.push_str(rest);
    decoded
}

fn unshift(base64: &str) -> Option<String> {
    if base64.is_empty() {
        return Some("&".to_owned());
    }
    let bytes = BASE64.decode(base64).ok()?;
    let (pairs, rest) = bytes.as_chunks::<2>();
    if !rest.is_empty() {
        return None;
    }
    let units: Vec<u16> = pairs.iter().map(|pair| u16::from_be_bytes(*pair)).collect();
    String::from_utf16(&units).ok()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::quoted;
    use super::*;

    #[test]
    fn the_examples_of_the_rfc_hold() {
        // RFC 3501, section 5.1.3.
        assert_eq!(
            decode("~peter/mail/&U,BTFw-/&ZeVnLIqe-"),
            "~peter/mail/台北/日本語"
        );
        assert_eq!(
            encode("~peter/mail/台北/日本語"),
            "~peter/mail/&U,BTFw-/&ZeVnLIqe-"
        );
        assert_eq!(encode("a&b"), "a&-b");
        assert_eq!(decode("a&-b"), "a&b");
        assert_eq!(encode("Entwürfe"), "Entw&APw-rfe");
    }

    #[test]
    fn every_path_comes_back_and_travels_as_printable_ascii() {
        // Paths of every length with a mixture of the kinds of characters that the encoding
        // distinguishes.
        let kinds = [
            'a', '&', '-', '/', '"', '\\', '%', 'é', '語', '🦀', '\t', '\u{7f}', '\u{ffff}',
        ];
        let mut state = 7_u32;
        for round in 0..20_000_u32 {
            let mut path = String::new();
            for _ in 0..round % 9 {
                state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                path.push(kinds[(state >> 16) as usize % kinds.len()]);
            }
            let encoded = encode(&path);
            assert!(
                encoded.bytes().all(|b| (0x20..0x7f).contains(&b)),
                "{path:?}"
            );
            assert_eq!(decode(&encoded), path);
        }
    }

    #[test]
    fn what_is_not_modified_utf7_stays_as_it_stands() {
        for name in [
            "a&", "&U,BTFw", "&A-x", "&2AA-", "&AGEA-", "&//8=-", "&!-", "Träger",
        ] {
            assert_eq!(decode(name), name, "{name}");
        }
        // Valid, although not the shortest encoding.
        assert_eq!(decode("&AGE-"), "a");
    }

    #[test]
    fn no_folder_is_called_what_no_folder_can_be_called() {
        for path in ["", "a\r\nb", "a\nb", "a\0b", &"x".repeat(bounds::PATH + 1)] {
            assert_eq!(name(path), None);
        }
        assert!(name(&"x".repeat(bounds::PATH)).is_some());
    }

    proptest! {
        #[test]
        fn any_name_comes_back_and_is_printable_ascii_on_the_wire(path: String) {
            let encoded = encode(&path);
            prop_assert!(encoded.bytes().all(|b| (0x20..0x7f).contains(&b)));
            let is_inbox = path.eq_ignore_ascii_case("INBOX");
            prop_assert!(is_inbox || decode(&encoded) == path);
            prop_assert!(quoted(&encoded).is_some());
        }

        #[test]
        fn whatever_a_server_calls_a_folder_can_be_read(name: String) {
            let _ = decode(&name);
        }
    }
}
