//! Parses the parameters of a Content-Type or Content-Disposition field (RFC 2045, RFC 2231).

use std::borrow::Cow;

use percent_encoding::percent_decode_str;

use super::charset::Charset;
use super::lexical::{quoted_string, without_comments};
use super::words;

/// Returns the value before the parameters, without comments and quotes.
pub(super) fn main_value(field: &str) -> String {
    let value = field.split(';').next().unwrap_or_default();
    let value = without_comments(value)
        .unwrap_or_else(|| value.split('(').next().unwrap_or_default().to_owned());
    value.trim().trim_matches('"').to_owned()
}

/// Returns the value of a parameter that is a token or a quoted string, such as `charset`. A
/// comment can follow the token.
pub(super) fn token(field: &str, name: &str) -> Option<String> {
    find(field, name, |value| match value.split_once(" (") {
        Some((token, _)) if !value.starts_with('"') => token.trim_end(),
        _ => value,
    })
}

/// Returns the value of a parameter that is a file name. Without quotes, the name ends at a
/// semicolon or at the end of the field, because many senders write spaces and parentheses without
/// quotes.
pub(super) fn file_name(field: &str, name: &str) -> Option<String> {
    find(field, name, |value| value)
}

/// Returns the first of these values that is not empty: the extended value, the joined pieces of a
/// continued value, the plain value (RFC 2231, sections 3 and 4). `plain` removes text after the
/// plain value, for example a comment.
fn find(field: &str, name: &str, plain: impl Fn(&str) -> &str) -> Option<String> {
    let (mut extended, mut simple) = (None, None);
    let mut pieces = Vec::new();
    for (key, value) in parameters(field) {
        let Some((beginning, suffix)) = key.split_at_checked(name.len()) else {
            continue;
        };
        if !beginning.eq_ignore_ascii_case(name) {
            continue;
        }
        let encoded = suffix.ends_with('*');
        match suffix.strip_prefix('*') {
            None if suffix.is_empty() => simple = simple.or(Some(value)),
            Some("") => extended = extended.or(Some([(0, true, value)])),
            Some(number) => {
                if let Ok(number) = number.trim_end_matches('*').parse::<u32>() {
                    pieces.push((number, encoded, value));
                }
            }
            None => {}
        }
    }
    pieces.sort_by_key(|piece| piece.0);
    pieces.dedup_by_key(|piece| piece.0);
    let plain = || Some(words::decode(&unquoted(plain(simple?))).into_owned());
    let is_present = |value: &String| !value.is_empty();
    extended
        .map(|piece| join(&piece))
        .filter(is_present)
        .or_else(|| Some(join(&pieces)).filter(is_present))
        .or_else(|| plain().filter(is_present))
}

/// Joins the consecutive pieces of a value. Decodes the value afterwards, because an escape
/// sequence or a character can be split between two pieces.
fn join(pieces: &[(u32, bool, &str)]) -> String {
    let is_extended = matches!(pieces, [(_, true, _), ..]);
    let mut charset = Charset::default();
    let mut bytes = Vec::new();
    let mut escaped = String::new();
    for ((number, encoded, value), expected) in pieces.iter().zip(0..) {
        if *number != expected {
            break;
        }
        let value = unquoted(value);
        let mut value = &*value;
        if expected == 0
            && is_extended
            && let Some((label, rest)) = value.split_once('\'')
            && let Some((_language, rest)) = rest.split_once('\'')
        {
            charset = Charset::named(Some(label));
            value = rest;
        }
        if *encoded {
            escaped.push_str(value);
        } else {
            bytes.extend(percent_decode_str(&escaped));
            bytes.extend(value.bytes());
            escaped.clear();
        }
    }
    bytes.extend(percent_decode_str(&escaped));
    let value = charset.decode(bytes, false);
    if is_extended {
        return value;
    }
    // RFC 2231 does not allow encoded words in a continued parameter, but some senders use them
    // there.
    words::decode(&value).into_owned()
}

/// Iterates over the names and values of the parameters. A value includes its quotes.
fn parameters(field: &str) -> impl Iterator<Item = (&str, &str)> {
    let (_, mut rest) = field.split_once(';').unwrap_or_default();
    std::iter::from_fn(move || {
        while !rest.is_empty() {
            let end = rest.find(['=', ';']).unwrap_or(rest.len());
            let (name, after) = rest.split_at(end);
            if let Some(after) = after.strip_prefix('=') {
                let value = after.trim_start();
                let (value, after) = value.split_at(value_length(value));
                rest = after.split_once(';').map_or("", |(_, rest)| rest);
                return Some((name.trim(), value.trim_end()));
            }
            rest = after.strip_prefix(';').unwrap_or_default();
        }
        None
    })
}

/// Returns the length of the value at the beginning of `text`, in bytes.
fn value_length(text: &str) -> usize {
    if text.starts_with('"') {
        return quoted_string(text).1.unwrap_or(text.len());
    }
    let mut at = 0;
    while let Some(found) = text[at..].find(['=', ';']) {
        at += found;
        if text[at..].starts_with(';') {
            return at;
        }
        // An encoded word can contain a semicolon.
        at += words::decode_first(&text[at..]).map_or(1, |(_, length)| length);
    }
    text.len()
}

/// Returns the content of a quoted string, or an unquoted value unchanged.
fn unquoted(value: &str) -> Cow<'_, str> {
    if value.starts_with('"') {
        quoted_string(value).0.into()
    } else {
        value.into()
    }
}

#[cfg(test)]
mod tests;
