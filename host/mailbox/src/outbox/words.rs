//! Writes the values of header fields (RFC 5322, RFC 2047). A value that looks like an encoded word
//! arrives unchanged.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use mail_builder::headers::HeaderType;
use mail_builder::headers::address::Address as HeaderAddress;
use mail_builder::headers::raw::Raw;

use super::envelope::Recipient;

/// Returns the value of a field with addresses. Encodes all names of the field if a name contains
/// text like an encoded word (RFC 2047). mail-builder would write an ASCII name unchanged in
/// quotes, and many receivers decode encoded words even in quotes.
pub(crate) fn address_list(recipients: &[Recipient]) -> HeaderType<'_> {
    if recipients.iter().any(|one| one.name.contains("=?")) {
        let field: Vec<String> = recipients
            .iter()
            .map(|Recipient { name, address }| match encoded_words(name) {
                name if name.is_empty() => format!("<{address}>"),
                name => format!("{name} <{address}>"),
            })
            .collect();
        return HeaderType::Raw(Raw::new(field.join(", ")));
    }
    let with_name = |one: &Recipient| {
        let name = Some(one.name.clone()).filter(|name| !name.is_empty());
        HeaderAddress::new_address(name, one.address.to_string())
    };
    let list = recipients.iter().map(with_name).collect();
    HeaderType::Address(HeaderAddress::new_list(list))
}

/// Returns the value of the Subject field. Encodes the complete subject if an ASCII subject
/// contains text like an encoded word (RFC 2047). mail-builder would write the text unchanged, and
/// receivers would decode the text.
pub(crate) fn subject(text: &str) -> HeaderType<'_> {
    if !text.is_ascii() || !text.contains("=?") {
        return HeaderType::Text(text.into());
    }
    HeaderType::Raw(Raw::new(encoded_words(text)))
}

/// Encodes the complete text as encoded words of at most 75 characters (RFC 2047, section 2).
pub(crate) fn encoded_words(text: &str) -> String {
    let mut words = Vec::new();
    let mut rest = text;
    while !rest.is_empty() {
        let (chunk, remaining) = rest.split_at(rest.floor_char_boundary(42));
        words.push(format!("=?utf-8?B?{}?=", STANDARD.encode(chunk)));
        rest = remaining;
    }
    words.join(" ")
}

/// Returns the value of an additional header field. Encodes only the words that are not ASCII, and
/// keeps the other words, which can have a structure: for example the identifier in List-Id. In
/// fields without a structure, also encodes words that look like encoded words.
pub(crate) fn field_value<'v>(name: &str, value: &str) -> HeaderType<'v> {
    let is_unstructured = latchmail_shape::is_repeatable(name);
    let is_encoded = |word: &&str| !word.is_ascii() || (is_unstructured && word.contains("=?"));
    let words: Vec<&str> = value.split(' ').collect();
    let mut written = Vec::new();
    let mut rest = &words[..];
    while let Some(word) = rest.first() {
        let mut length = 1;
        if is_encoded(word) {
            // Readers drop the spaces between encoded words (RFC 2047, section 6.2). Therefore the
            // spaces are part of the encoded text.
            let run = rest
                .iter()
                .take_while(|word| is_encoded(word) || word.is_empty());
            length = run.count();
            while rest[length - 1].is_empty() {
                length -= 1;
            }
            written.push(encoded_words(&rest[..length].join(" ")));
        } else {
            written.push((*word).to_owned());
        }
        rest = &rest[length..];
    }
    HeaderType::Raw(Raw::new(written.join(" ")))
}
