//! Compares two responses of a module: status, headers and body, a JSON body by field. The
//! descriptions of differences contain no values of the body or of headers, only their types and
//! lengths.

use std::collections::BTreeMap;
use std::collections::btree_map::IntoIter;
use std::fmt;
use std::sync::Arc;

use bytes::Bytes;
use http::{HeaderMap, header};
use serde_json::Value;

use super::message::{Content, Response};

/// The maximum number of differences between two responses. Further ones are dropped.
const MAX_DIFFERENCES: usize = 100;

/// The maximum length of the name of a field that is shown, in bytes.
const MAX_FIELD: usize = 40;

/// The maximum length of an array that is searched for a different order of equal elements.
const MAX_SORTED: usize = 1000;

/// A response, with the parts that are compared.
#[derive(Debug)]
pub(crate) struct Snapshot {
    status: u16,
    headers: HeaderMap,
    body: Body,
}

#[derive(Debug, PartialEq)]
enum Body {
    Bytes(Bytes),
    /// A part of a blob that is not in memory.
    Source {
        /// The identity of the source.
        source: usize,
        start: u64,
        size: u64,
    },
    /// A stream of events, which was not recorded.
    Events,
}

impl From<Response> for Snapshot {
    fn from(response: Response) -> Self {
        let body = match response.body {
            Content::Bytes(bytes) => Body::Bytes(bytes),
            Content::Events(_) => Body::Events,
            Content::Blob(blob) => match (blob.in_memory(), blob.source()) {
                (Some(bytes), _) => Body::Bytes(bytes.clone()),
                (None, Some((source, start))) => Body::Source {
                    source: Arc::as_ptr(source).cast::<()>().addr(),
                    start: start.unwrap_or(0),
                    size: blob.size(),
                },
                (None, None) => Body::Bytes(Bytes::new()),
            },
        };
        Self {
            status: response.status.as_u16(),
            headers: response.headers,
            body,
        }
    }
}

impl Snapshot {
    /// Returns the body as JSON, or `None` if it is not JSON.
    fn json(&self) -> Option<Value> {
        let content_type = self.headers.get(header::CONTENT_TYPE)?.to_str().ok()?;
        match &self.body {
            Body::Bytes(bytes) if content_type.contains("json") => {
                serde_json::from_slice(bytes).ok()
            }
            _ => None,
        }
    }
}

/// The kind of a difference.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Kind {
    /// The new version has no such route, or other callers can use it.
    Route,
    /// The new version has no response.
    Failure,
    /// The new version makes other host calls.
    Calls,
    /// The statuses differ.
    Status,
    /// A header or a field is missing.
    Missing,
    /// A header or a field is new.
    Added,
    /// A field has another type. `null` is a type.
    Type,
    /// A header or a field has another value.
    Value,
    /// An array has another length.
    Length,
    /// An array has the same elements in another order.
    Order,
    /// The fields are equal, but not the bytes of the body.
    Encoding,
}

/// The differences between two responses, by place and kind.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Differences(BTreeMap<(String, Kind), String>);

impl Differences {
    /// Returns the differences between two responses.
    pub(crate) fn between(old: &Snapshot, new: &Snapshot) -> Self {
        let mut found = Self::default();
        if old.status != new.status {
            let text = format!("{}, now {}", old.status, new.status);
            found.add("status", Kind::Status, text);
        }
        found.compare_headers(&old.headers, &new.headers);
        found.compare_bodies(old, new);
        found
    }

    /// Adds a difference. `place` is the part of the response.
    pub(crate) fn add(&mut self, place: &str, kind: Kind, text: impl Into<String>) {
        if self.0.len() < MAX_DIFFERENCES {
            let key = (place.to_owned(), kind);
            self.0.entry(key).or_insert_with(|| text.into());
        }
    }

    /// Removes the differences with the same place and kind as one in `others`.
    pub(crate) fn remove(&mut self, others: &Self) {
        self.0.retain(|key, _| !others.0.contains_key(key));
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    fn compare_headers(&mut self, old: &HeaderMap, new: &HeaderMap) {
        for name in old.keys() {
            let place = format!("header {name}");
            if !new.contains_key(name) {
                self.add(&place, Kind::Missing, "missing");
            } else if !old.get_all(name).iter().eq(new.get_all(name)) {
                self.add(&place, Kind::Value, "another value");
            }
        }
        for name in new.keys().filter(|name| !old.contains_key(*name)) {
            self.add(&format!("header {name}"), Kind::Added, "new");
        }
    }

    fn compare_bodies(&mut self, old: &Snapshot, new: &Snapshot) {
        if old.body == new.body {
            return;
        }
        if let (Some(old), Some(new)) = (old.json(), new.json()) {
            let earlier = self.0.len();
            self.compare_values("", &old, &new);
            if self.0.len() == earlier {
                let text = "equal fields in other bytes: escapes, order of fields or white space";
                self.add("body", Kind::Encoding, text);
            }
            return;
        }
        let text = match (&old.body, &new.body) {
            (Body::Bytes(old), Body::Bytes(new)) => {
                let equal = old.iter().zip(new).take_while(|(old, new)| old == new);
                let equal = equal.count();
                let (old, new) = (old.len(), new.len());
                format!("{old} bytes, now {new} bytes, different after {equal} bytes")
            }
            (old, new) => format!("{old}, now {new}"),
        };
        self.add("body", Kind::Value, text);
    }

    fn compare_values(&mut self, path: &str, old: &Value, new: &Value) {
        match (old, new) {
            (Value::Object(old), Value::Object(new)) => {
                for (name, value) in old {
                    let path = join(path, name);
                    match new.get(name) {
                        Some(new) => self.compare_values(&path, value, new),
                        None => self.add(&path, Kind::Missing, describe_missing(value)),
                    }
                }
                for (name, value) in new.iter().filter(|(name, _)| !old.contains_key(*name)) {
                    let text = format!("new, {}", describe(value));
                    self.add(&join(path, name), Kind::Added, text);
                }
            }
            (Value::Array(old), Value::Array(new)) => self.compare_arrays(path, old, new),
            (old, new) if old == new => {}
            (old, new) => {
                let kind = if type_name(old) == type_name(new) {
                    Kind::Value
                } else {
                    Kind::Type
                };
                let (was, is) = (describe(old), describe(new));
                let text = if was == is {
                    format!("another {is}")
                } else {
                    format!("{was}, now {is}")
                };
                self.add(place(path), kind, text);
            }
        }
    }

    fn compare_arrays(&mut self, path: &str, old: &[Value], new: &[Value]) {
        if old.len() != new.len() {
            let text = format!("array of {}, now array of {}", old.len(), new.len());
            self.add(place(path), Kind::Length, text);
        } else if old != new && is_reordered(old, new) {
            self.add(place(path), Kind::Order, "equal elements in another order");
        } else {
            let path = format!("{path}[]");
            for (old, new) in old.iter().zip(new) {
                self.compare_values(&path, old, new);
            }
        }
    }
}

impl IntoIterator for Differences {
    type Item = ((String, Kind), String);
    type IntoIter = IntoIter<(String, Kind), String>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.into_iter()
    }
}

impl fmt::Display for Body {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Bytes(bytes) => write!(f, "{} bytes", bytes.len()),
            Self::Source { start, size, .. } => {
                write!(f, "{size} bytes of a blob after {start} bytes")
            }
            Self::Events => f.write_str("a stream of events"),
        }
    }
}

/// Returns whether two arrays of the same length have the same elements.
fn is_reordered(old: &[Value], new: &[Value]) -> bool {
    if old.len() > MAX_SORTED {
        return false;
    }
    let mut left: Vec<&Value> = new.iter().collect();
    old.iter().all(|value| {
        let found = left.iter().position(|other| *other == value);
        found.map(|index| left.swap_remove(index)).is_some()
    })
}

fn place(path: &str) -> &str {
    if path.is_empty() { "body" } else { path }
}

/// Adds a field to a path. The name of a field can be data, for example an address, so a name that
/// does not look like an identifier is not shown.
fn join(path: &str, name: &str) -> String {
    let is_identifier = name.len() <= MAX_FIELD
        && name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_' || c == '$')
        && name
            .chars()
            .all(|c| c.is_ascii_alphanumeric() || "_-$".contains(c));
    let name = if is_identifier { name } else { "*" };
    if path.is_empty() {
        name.to_owned()
    } else {
        format!("{path}.{name}")
    }
}

fn type_name(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

/// Returns the type and the length of a value.
fn describe(value: &Value) -> String {
    match value {
        Value::Null | Value::Bool(_) | Value::Number(_) => type_name(value).into(),
        Value::String(text) => format!("string of {}", text.chars().count()),
        Value::Array(values) => format!("array of {}", values.len()),
        Value::Object(fields) => format!("object of {}", fields.len()),
    }
}

fn describe_missing(value: &Value) -> String {
    format!("missing, was {}", describe(value))
}

#[cfg(test)]
mod tests {
    use http::{HeaderName, HeaderValue, StatusCode};
    use serde_json::json;

    use super::*;

    fn response(status: u16, headers: &[(&'static str, &'static str)], body: &str) -> Snapshot {
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            map.append(
                HeaderName::from_static(name),
                HeaderValue::from_static(value),
            );
        }
        Snapshot::from(Response {
            status: StatusCode::from_u16(status).unwrap(),
            headers: map,
            body: Content::Bytes(body.to_owned().into()),
        })
    }

    const JSON: &[(&str, &str)] = &[("content-type", "application/json")];

    /// Returns the differences of two JSON bodies as lines.
    fn of_bodies(old: &str, new: &str) -> Vec<String> {
        lines(Differences::between(
            &response(200, JSON, old),
            &response(200, JSON, new),
        ))
    }

    fn lines(found: Differences) -> Vec<String> {
        let lines = found.into_iter();
        lines
            .map(|((place, _), text)| format!("{place}: {text}"))
            .collect()
    }

    #[test]
    fn equal_responses_have_no_difference() {
        let one = || response(200, JSON, r#"{"a":[1,{"b":null}]}"#);
        assert!(Differences::between(&one(), &one()).is_empty());
    }

    #[test]
    fn statuses_and_headers_are_compared() {
        let old = response(
            200,
            &[("etag", "\"1\""), ("allow", "GET"), ("location", "/a")],
            "",
        );
        let new = response(
            304,
            &[("etag", "\"2\""), ("retry-after", "1"), ("location", "/a")],
            "",
        );
        assert_eq!(
            lines(Differences::between(&old, &new)),
            [
                "header allow: missing",
                "header etag: another value",
                "header retry-after: new",
                "status: 200, now 304",
            ]
        );
    }

    #[test]
    fn a_json_body_is_compared_by_field() {
        for (old, new, expected) in [
            (json!({"a": 1}), json!({}), "a: missing, was number"),
            (json!({}), json!({"a": "x"}), "a: new, string of 1"),
            (
                json!({"a": "xy"}),
                json!({"a": "xz"}),
                "a: another string of 2",
            ),
            (
                json!({"a": "x"}),
                json!({"a": "xyz"}),
                "a: string of 1, now string of 3",
            ),
            (
                json!({"a": {"b": 1}}),
                json!({"a": {"b": null}}),
                "a.b: number, now null",
            ),
            (
                json!({"a": [{"b": 1}]}),
                json!({"a": [{"b": "1"}]}),
                "a[].b: number, now string of 1",
            ),
            (
                json!([1, 2]),
                json!([1, 2, 3]),
                "body: array of 2, now array of 3",
            ),
            (
                json!({"a": [1, 2]}),
                json!({"a": [2, 1]}),
                "a: equal elements in another order",
            ),
            (
                json!({"a": [1, 2]}),
                json!({"a": [1, 3]}),
                "a[]: another number",
            ),
            (
                json!({"ada@example.org": 1}),
                json!({"ada@example.org": 2}),
                "*: another number",
            ),
            (json!(true), json!(false), "body: another boolean"),
        ] {
            assert_eq!(of_bodies(&old.to_string(), &new.to_string()), [expected]);
        }
    }

    #[test]
    fn equal_fields_in_other_bytes_are_a_difference() {
        for (old, new) in [
            (r#"{"a":"é"}"#, r#"{"a":"\u00e9"}"#),
            (r#"{"a":1}"#, "{\"a\":1}\n"),
            (r#"{"a":1,"b":2}"#, r#"{"b":2,"a":1}"#),
        ] {
            let [line] = &of_bodies(old, new)[..] else {
                panic!("{new}");
            };
            assert!(line.starts_with("body: equal fields"), "{line}");
        }
    }

    #[test]
    fn other_bodies_are_compared_as_bytes() {
        let text = |body| response(200, &[("content-type", "text/plain")], body);
        assert_eq!(
            lines(Differences::between(&text("abc"), &text("abd!"))),
            ["body: 3 bytes, now 4 bytes, different after 2 bytes"]
        );
    }

    #[test]
    fn differences_at_unstable_places_are_removed() {
        let body = |id: u32, name: &str| json!({"id": id, "name": name}).to_string();
        let old = response(200, JSON, &body(1, "x"));
        let unstable = Differences::between(&old, &response(200, JSON, &body(2, "x")));
        let mut found = Differences::between(&old, &response(200, JSON, &body(3, "y")));
        found.remove(&unstable);
        assert_eq!(lines(found), ["name: another string of 1"]);
    }
}
