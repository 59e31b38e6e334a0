//! The syntax of media types.

/// Returns `true` if the text is a media type without parameters (RFC 6838, section 4.2).
pub(super) fn is_media_type(text: &str) -> bool {
    let is_name = |name: &str| {
        (1..=127).contains(&name.len())
            && name
                .bytes()
                .all(|b| b.is_ascii_alphanumeric() || b"!#$&-^_.+".contains(&b))
    };
    text.split_once('/')
        .is_some_and(|(kind, subtype)| is_name(kind) && is_name(subtype))
}
