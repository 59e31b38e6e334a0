//! The values and parameters of `Content-Type` and `Content-Disposition` (RFC 2045, section 5; RFC
//! 2231).

use super::text;
use super::words;

/// The maximum number of parameters of a field.
const MAX_PARAMETERS: usize = 50;

/// A value with parameters.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Value {
    /// The value in lower case.
    pub(crate) value: String,
    /// The names in lower case, and the values.
    parameters: Vec<(String, String)>,
}

impl Value {
    /// Parses a field.
    pub(crate) fn parse(raw: &[u8]) -> Self {
        let text = words::unfold(raw);
        let (value, rest) = match text.find(';') {
            Some(at) => text.split_at(at),
            None => (text.as_str(), ""),
        };
        let mut parsed = Self {
            value: value.trim().to_ascii_lowercase(),
            parameters: Vec::new(),
        };
        let mut chars = rest.chars().peekable();
        while parsed.parameters.len() < MAX_PARAMETERS {
            while chars.next_if(|c| c.is_whitespace() || *c == ';').is_some() {}
            let mut name = String::new();
            while let Some(c) = chars.next_if(|c| *c != '=' && *c != ';') {
                name.push(c);
            }
            if chars.peek().is_none() && name.is_empty() {
                break;
            }
            if chars.next_if_eq(&'=').is_none() {
                continue;
            }
            while chars.next_if(|c| c.is_whitespace()).is_some() {}
            let mut value = String::new();
            if chars.next_if_eq(&'"').is_some() {
                while let Some(c) = chars.next() {
                    match c {
                        '"' => break,
                        '\\' => value.extend(chars.next()),
                        c => value.push(c),
                    }
                }
                while chars.next_if(|c| *c != ';').is_some() {}
            } else {
                while let Some(c) = chars.next_if(|c| *c != ';') {
                    value.push(c);
                }
                value.truncate(value.trim_end().len());
            }
            parsed
                .parameters
                .push((name.trim().to_ascii_lowercase(), value));
        }
        parsed
    }

    /// Returns a parameter as it is.
    pub(crate) fn plain(&self, name: &str) -> Option<&str> {
        let mut found = self.parameters.iter();
        let found = found.find(|(known, _)| known == name);
        found.map(|(_, value)| value.as_str())
    }

    /// Returns a parameter with its character set and its continuations.
    pub(crate) fn decoded(&self, name: &str) -> Option<String> {
        if let Some(value) = self.plain(&format!("{name}*")) {
            return Some(extended(value.as_bytes()));
        }
        let mut parts: Vec<(usize, bool, &str)> = Vec::new();
        for (known, value) in &self.parameters {
            let rest = known
                .strip_prefix(name)
                .and_then(|rest| rest.strip_prefix('*'));
            let Some(rest) = rest else { continue };
            let (number, is_extended) = match rest.strip_suffix('*') {
                Some(number) => (number, true),
                None => (rest, false),
            };
            if let Ok(number) = number.parse() {
                parts.push((number, is_extended, value));
            }
        }
        if parts.is_empty() {
            return self.plain(name).map(words::decode);
        }
        parts.sort_by_key(|(number, _, _)| *number);
        let is_extended = parts.iter().any(|(_, extended, _)| *extended);
        let mut joined = Vec::new();
        for (_, extended, value) in parts {
            if extended || !is_extended {
                joined.extend_from_slice(value.as_bytes());
            } else {
                // The bytes of a part without an encoding are literal.
                joined.extend(value.replace('%', "%25").into_bytes());
            }
        }
        Some(if is_extended {
            extended(&joined)
        } else {
            words::decode(&String::from_utf8_lossy(&joined))
        })
    }
}

/// Decodes `charset'language'text` with percent signs.
fn extended(value: &[u8]) -> String {
    let mut fields = value.splitn(3, |byte| *byte == b'\'');
    let (charset, encoded) = match (fields.next(), fields.next(), fields.next()) {
        (Some(charset), Some(_), Some(encoded)) => (charset, encoded),
        _ => (&b"utf-8"[..], value),
    };
    let mut decoded = Vec::with_capacity(encoded.len());
    let mut rest = encoded;
    while let Some((first, after)) = rest.split_first() {
        rest = after;
        match text::hex_pair(after).filter(|_| *first == b'%') {
            Some(value) => {
                decoded.push(value);
                rest = &after[2..];
            }
            None => decoded.push(*first),
        }
    }
    let charset = String::from_utf8_lossy(charset);
    text::charset(&decoded, Some(&charset)).0
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn parameters_are_parsed_in_all_forms() {
        let value = Value::parse(b" Text/HTML; charset=UTF-8 ;\r\n name=\"a \\\"b\\\".txt\"; x");
        assert_eq!(value.value, "text/html");
        assert_eq!(value.plain("charset"), Some("UTF-8"));
        assert_eq!(value.decoded("name").as_deref(), Some("a \"b\".txt"));
        assert_eq!(value.decoded("x"), None);
        for (field, name) in [
            ("a; filename*=utf-8''na%C3%AFve.txt", "na\u{ef}ve.txt"),
            ("a; filename*=iso-8859-1'en'caf%E9", "caf\u{e9}"),
            ("a; filename*1=b; filename*0=a", "ab"),
            (
                "a; filename*0*=utf-8''%C3%A9; filename*1=\"50%25\"",
                "\u{e9}50%25",
            ),
            ("a; filename==?utf-8?Q?=C3=A9?=", "\u{e9}"),
        ] {
            let decoded = Value::parse(field.as_bytes()).decoded("filename");
            assert_eq!(decoded.as_deref(), Some(name), "{field}");
        }
    }

    proptest! {
        #[test]
        fn any_field_is_parsed(raw in any::<Vec<u8>>()) {
            Value::parse(&raw).decoded("name");
        }
    }
}
