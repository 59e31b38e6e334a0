//! Code that the host and the modules share: the parser of JSON bodies ([`read`]), the parser of
//! addresses (`addresses`, only with the feature of this name), the error codes ([`codes`]), the
//! types of events ([`event_type`]), the table of invisible characters ([`invisible`]), the header
//! fields that clients add to messages ([`check_header_field`]), vacation responses and rules
//! ([`filters`]), the rules for manifests of modules ([`check_manifest`], [`check_route`]) and for
//! path patterns ([`check_path`]), the decoders of paths and queries ([`decode_segment`],
//! [`decode_query`]), the entity tags of conditional requests ([`EntityTags`]), and the request
//! headers of modules ([`REQUEST_HEADERS`]).
//!
//! The error text for an invalid body names the invalid field. The
//! host's own routes and the routes of modules use the same parser, so clients get the same error
//! texts.
//!
//! Clients do not get serde's own error texts. These texts contain names of Rust types and the
//! invalid value, which could be a secret.

#[cfg(feature = "addresses")]
pub mod addresses;
mod characters;
pub mod codes;
mod entity_tags;
pub mod event_type;
pub mod filters;
mod header_fields;
mod manifest;
mod named_enum;
mod path;
mod query;

use std::borrow::Cow;
use std::fmt;
use std::marker::PhantomData;

use serde::de::value::MapAccessDeserializer;
use serde::de::{Deserialize, DeserializeOwned, Deserializer, IgnoredAny, MapAccess, Visitor};
use serde_json::error::Category;
use serde_path_to_error::Path;

pub use characters::{Invisible, invisible};
pub use codes::Code;
pub use entity_tags::EntityTags;
pub use header_fields::{HeaderFieldError, MAX_HEADER_FIELDS, check_header_field, is_repeatable};
pub use manifest::{
    AGENT, API_TOKEN, APP_PASSWORD, Accepted, DeclaredRoute, METHODS, OAUTH, SCOPES, SESSION,
    check_manifest, check_route, is_module_name,
};
pub use path::check_path;
pub use query::{decode_query, decode_segment};

/// The request headers that a module receives. The host removes all other headers. These headers
/// contain no credential.
pub const REQUEST_HEADERS: [&str; 15] = [
    "accept",
    "accept-language",
    "content-type",
    "idempotency-key",
    "if-match",
    "if-none-match",
    "if-range",
    "last-event-id",
    "mcp-method",
    "mcp-name",
    "mcp-protocol-version",
    "mcp-session-id",
    "origin",
    "range",
    "user-agent",
];

/// The reason why a body is invalid.
#[derive(Debug)]
pub enum ValidationError {
    /// The body is not JSON.
    Syntax,
    /// The body is JSON but not an object, or a field is invalid. The string is the error text,
    /// which names the field.
    Shape(String),
}

impl ValidationError {
    /// Returns the error text for the client.
    #[must_use]
    pub fn message(self) -> Cow<'static, str> {
        match self {
            Self::Syntax => "Invalid JSON body".into(),
            Self::Shape(message) => message.into(),
        }
    }
}

impl ValidationError {
    /// Returns the code of the error.
    #[must_use]
    pub fn code(&self) -> Code {
        match self {
            Self::Syntax => codes::INVALID_JSON_BODY,
            Self::Shape(text) => match codes::of_text(text) {
                Some(known) => known.code.clone(),
                None if text.ends_with(" is required") => codes::FIELD_REQUIRED,
                None => codes::INVALID_FIELD,
            },
        }
    }
}

/// Parses `body` as a JSON object. Rejects arrays. Without this check, serde would also accept an
/// array with the values of the fields in order. This form of a body is not documented.
///
/// ```
/// use std::collections::BTreeMap;
///
/// type Body = BTreeMap<String, u32>;
///
/// let body: Body = latchmail_shape::read(br#"{"page": 2}"#).unwrap();
/// assert_eq!(body["page"], 2);
///
/// let error = latchmail_shape::read::<Body>(b"[2]").unwrap_err();
/// assert_eq!(error.message(), "The body must be an object");
/// ```
///
/// # Errors
/// Returns an error if the body is not a JSON object, or if a field is invalid.
pub fn read<T: DeserializeOwned>(body: &[u8]) -> Result<T, ValidationError> {
    if body.trim_ascii_start().first() != Some(&b'{') {
        let json = serde_json::from_slice::<IgnoredAny>(body);
        return Err(json.map_or(ValidationError::Syntax, |_| {
            ValidationError::Shape("The body must be an object".into())
        }));
    }
    let mut json = serde_json::Deserializer::from_slice(body);
    let value = serde_path_to_error::deserialize(&mut json).map_err(|error| {
        match error.inner().classify() {
            // A syntax error after an invalid field takes precedence over the invalid field.
            Category::Data if serde_json::from_slice::<IgnoredAny>(body).is_err() => {
                ValidationError::Syntax
            }
            Category::Data => {
                let message = error.inner().to_string();
                ValidationError::Shape(sentence(error.path(), message_of(&message)))
            }
            Category::Syntax | Category::Eof | Category::Io => ValidationError::Syntax,
        }
    })?;
    json.end().map_err(|_| ValidationError::Syntax)?;
    Ok(value)
}

/// A JSON object inside a body. Unlike a field of the type `T`, a field of this type rejects an
/// array with the object's values.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Object<T>(pub T);

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Object<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Fields<T>(PhantomData<T>);

        impl<'de, T: Deserialize<'de>> Visitor<'de> for Fields<T> {
            type Value = Object<T>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Object<T>, A::Error> {
                T::deserialize(MapAccessDeserializer::new(map)).map(Object)
            }
        }

        deserializer.deserialize_map(Fields(PhantomData))
    }
}

/// Returns serde's error text without the position in the body. Clients do not need the position.
fn message_of(message: &str) -> &str {
    message
        .rfind(" at line ")
        .map_or(message, |place| &message[..place])
}

fn sentence(path: &Path, message: &str) -> String {
    let path = path.to_string();
    let field = if path == "." { "" } else { &path };
    if let Some(name) = quoted_after(message, "missing field ") {
        return format!("{} is required", joined(field, name));
    }
    if let Some(name) = quoted_after(message, "duplicate field ") {
        return format!("{} is given twice", joined(field, name));
    }
    if let Some((name, known)) = unknown(message) {
        return match known.as_str() {
            "" => format!("Unknown field {name}; no fields are allowed"),
            known => format!("Unknown field {name}; the known fields are {known}"),
        };
    }
    let subject = if field.is_empty() { "The body" } else { field };
    let serdes_own = [
        "invalid type: ",
        "invalid value: ",
        "invalid length ",
        "unknown variant ",
    ]
    .iter()
    .any(|prefix| message.starts_with(prefix));
    match message.rfind(", expected ") {
        Some(at) if serdes_own => {
            let expected = &message[at + ", expected ".len()..];
            format!("{subject} must be {}", in_words(expected))
        }
        _ if serdes_own => format!("{subject} has a value that is not allowed"),
        _ => format!("{subject}: {message}"),
    }
}

/// Returns the name of an unknown field and a list of the known fields, if `message` is serde's
/// error for an unknown field. Truncates the name to 64 characters.
fn unknown(message: &str) -> Option<(String, String)> {
    let (name, known) = message.strip_prefix("unknown field `")?.split_once("`, ")?;
    let known: Vec<&str> = known.split('`').skip(1).step_by(2).collect();
    Some((name.chars().take(64).collect(), known.join(", ")))
}

fn quoted_after<'m>(message: &'m str, prefix: &str) -> Option<&'m str> {
    message
        .strip_prefix(prefix)?
        .strip_prefix('`')?
        .strip_suffix('`')
}

fn joined(path: &str, name: &str) -> String {
    if path.is_empty() || path == name {
        name.into()
    } else if path.ends_with(&format!(".{name}")) {
        path.into()
    } else {
        format!("{path}.{name}")
    }
}

fn in_words(expected: &str) -> String {
    match expected {
        "u8" => "an integer from 0 to 255".into(),
        "u16" => "an integer from 0 to 65535".into(),
        "u32" => "an integer from 0 to 4294967295".into(),
        "u64" | "usize" => "a non-negative integer".into(),
        "i8" | "i16" | "i32" | "i64" | "isize" => "an integer".into(),
        "f32" | "f64" => "a number".into(),
        "a sequence" => "an array".into(),
        "a map" => "an object".into(),
        _ if expected.starts_with("struct ") => "an object".into(),
        _ => expected.replace('`', "\""),
    }
}

#[cfg(test)]
mod tests {
    use serde::Deserialize;

    use super::*;

    #[derive(Debug, Deserialize)]
    #[expect(dead_code, reason = "only serde reads it")]
    struct Body {
        email: String,
        #[serde(default)]
        uids: Vec<u32>,
        #[serde(default)]
        action: Option<Action>,
        #[serde(default)]
        attachments: Vec<Object<Attachment>>,
        #[serde(default)]
        active: bool,
    }

    #[derive(Debug, Deserialize)]
    #[serde(rename_all = "lowercase")]
    enum Action {
        Add,
        Remove,
    }

    #[derive(Debug, Deserialize)]
    #[expect(dead_code, reason = "only serde reads it")]
    struct Attachment {
        content: String,
    }

    fn text(body: &str) -> String {
        let error = read::<Body>(body.as_bytes()).unwrap_err();
        error.message().into_owned()
    }

    #[test]
    fn what_is_not_json_is_said_to_be_so() {
        for body in [
            "",
            "{",
            "email=a",
            "{\"email\": \"a\"} x",
            "{\"email\": \"\\ud800\"}",
        ] {
            assert_eq!(text(body), "Invalid JSON body", "{body}");
        }
        let not_text = read::<Body>(b"{\"email\": \"\xff\"}");
        assert!(matches!(not_text, Err(ValidationError::Syntax)));
        assert_eq!(text("{\"email\": 1, \"x\": ]}"), "Invalid JSON body");
        let deep = format!("{{\"x\":{}", "[".repeat(100_000));
        assert_eq!(text(&deep), "Invalid JSON body");
    }

    #[test]
    fn a_missing_field_is_named() {
        assert_eq!(text("{}"), "email is required");
        let body = "{\"email\": \"a\", \"attachments\": [{\"content\": \"\"}, {}]}";
        assert_eq!(text(body), "attachments[1].content is required");
        assert_eq!(
            text("{\"email\": \"a\", \"email\": \"b\"}"),
            "email is given twice"
        );
    }

    #[test]
    fn a_wrong_type_is_named_without_the_value() {
        assert_eq!(text("{\"email\": 123456}"), "email must be a string");
        assert_eq!(text("{\"email\": null}"), "email must be a string");
        assert_eq!(
            text("{\"email\": \"a\", \"active\": \"secret, expected\"}"),
            "active must be a boolean"
        );
        assert_eq!(
            text("{\"email\": \"a\", \"uids\": [1, -2]}"),
            "uids[1] must be an integer from 0 to 4294967295"
        );
        assert_eq!(
            text("{\"email\": \"a\", \"uids\": 1}"),
            "uids must be an array"
        );
        assert_eq!(
            text("{\"email\": \"a\", \"action\": \"burn\"}"),
            "action must be \"add\" or \"remove\""
        );
        assert_eq!(text("\"a\""), "The body must be an object");
        assert_eq!(
            text("{\"email\": \"a\", \"attachments\": [[\"x\"]]}"),
            "attachments[0] must be an object"
        );
    }

    #[test]
    fn whatever_else_than_an_object_is_refused_even_where_its_values_would_fit() {
        for body in ["[\"a\", [], null, [], true]", " [\"a\"]", "null", "7"] {
            assert_eq!(text(body), "The body must be an object", "{body}");
        }
        assert_eq!(text("[\"a\""), "Invalid JSON body");
        assert!(read::<Body>(b"\r\n\t {\"email\": \"a\"} \n").is_ok());
    }

    #[derive(Debug, Deserialize)]
    #[serde(deny_unknown_fields)]
    #[expect(dead_code, reason = "only serde reads it")]
    struct Strict {
        #[serde(default)]
        folder: String,
        #[serde(default)]
        page: u32,
    }

    #[test]
    fn where_no_unknown_fields_are_taken_those_that_there_are_are_named() {
        #[derive(Debug, Deserialize)]
        #[serde(deny_unknown_fields)]
        struct Nothing {}

        let strict = |body: &str| match read::<Strict>(body.as_bytes()) {
            Err(error) => error.message().into_owned(),
            Ok(_) => String::new(),
        };
        let said = "Unknown field account; the known fields are folder, page";
        assert_eq!(strict("{\"account\": \"x\"}"), said);
        let long = format!("{{\"{}\": 1}}", "x".repeat(100_000));
        assert!(strict(&long).len() < 200);
        let nothing = read::<Nothing>(b"{\"x\": 1}").unwrap_err();
        assert_eq!(nothing.message(), "Unknown field x; no fields are allowed");
    }

    #[test]
    fn unknown_fields_are_ignored() {
        assert!(read::<Body>(b"{\"email\": \"a\", \"other\": [1]}").is_ok());
    }
}
