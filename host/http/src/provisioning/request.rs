//! The parts of requests and responses that several resources of the admin API use: pages with
//! cursors, conditional requests, and idempotency keys.

use std::borrow::Cow;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use bytes::Bytes;
use http::{HeaderValue, StatusCode, header};
use latchmail_core::codes;
use latchmail_core::error::Failure;
use latchmail_core::sealing::Purpose;
use latchmail_core::secrets::sha256_hex;
use latchmail_directory::operator_tokens::RequestKey;
use latchmail_shape::EntityTags;
use serde::de::{DeserializeOwned, Deserializer};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::app::App;
use crate::message::{self, Request, Response};
use crate::rejection::Rejection;

/// The number of entries on a page.
const DEFAULT_LIMIT: u32 = 100;
/// The maximum number of entries on a page.
const MAX_LIMIT: u32 = 500;

/// Maximum length of a cursor, in bytes.
const MAX_CURSOR: usize = 1024;
/// Maximum length of an idempotency key, in bytes.
const MAX_KEY: usize = 255;

/// The fields of a body that are not part of the fingerprint of the request, because the database
/// must not contain a fast hash of a password.
const SECRETS: [&str; 2] = ["password", "passwordHash"];

/// The page that a request selects.
pub(super) struct Paging {
    /// The last entry of the previous page, or an empty string for the first page.
    pub(super) after: String,
    /// The maximum number of entries.
    pub(super) limit: u32,
}

impl Paging {
    /// Reads the parameters `limit` and `cursor`. `list` is the name of the list, to which cursors
    /// are bound.
    ///
    /// # Errors
    /// Returns 400 if a parameter is invalid.
    pub(super) fn of(app: &App, request: &Request, list: &str) -> Result<Self, Rejection> {
        let limit = match request.query("limit") {
            None => DEFAULT_LIMIT,
            Some(text) => text
                .parse()
                .ok()
                .filter(|limit| (1..=MAX_LIMIT).contains(limit))
                .ok_or_else(|| invalid(format!("limit must be 1 to {MAX_LIMIT}")))?,
        };
        let after = match request.query("cursor") {
            None => String::new(),
            Some(cursor) => open_cursor(app, list, cursor)
                .ok_or_else(|| Rejection::bad_request(codes::INVALID_CURSOR, "Invalid cursor"))?,
        };
        Ok(Self { after, limit })
    }

    /// Returns the number of entries to read: one more than the page has, which shows whether there
    /// is a next page.
    pub(super) fn wanted(&self) -> u32 {
        self.limit + 1
    }

    /// Removes the additional entry, and returns the cursor of the next page. `position` returns
    /// the position of an entry.
    ///
    /// # Errors
    /// Returns 500 if the cursor cannot be sealed.
    pub(super) fn next<T>(
        &self,
        app: &App,
        list: &str,
        entries: &mut Vec<T>,
        position: impl FnOnce(&T) -> String,
    ) -> Result<Option<String>, Rejection> {
        let limit = usize::try_from(self.limit).unwrap_or(usize::MAX);
        if entries.len() <= limit {
            return Ok(None);
        }
        entries.truncate(limit);
        let Some(end) = entries.last() else {
            return Ok(None);
        };
        let keys = app.auth.keys();
        let sealed = keys.seal_repeatably(Purpose::ListCursor, list, position(end).as_bytes())?;
        Ok(Some(URL_SAFE_NO_PAD.encode(sealed)))
    }
}

fn open_cursor(app: &App, list: &str, cursor: &str) -> Option<String> {
    if cursor.len() > MAX_CURSOR {
        return None;
    }
    let sealed = URL_SAFE_NO_PAD.decode(cursor).ok()?;
    let keys = app.auth.keys();
    let position = keys.open_bytes(Purpose::ListCursor, list, &sealed)?;
    String::from_utf8(position.to_vec()).ok()
}

/// Returns 400 for an invalid field or parameter.
pub(crate) fn invalid(text: impl Into<Cow<'static, str>>) -> Rejection {
    Rejection::bad_request(codes::INVALID_FIELD, text)
}

/// Returns the value of a parameter that is `true` or `false`.
///
/// # Errors
/// Returns 400 if the parameter has another value.
pub(super) fn flag(request: &Request, name: &str) -> Result<Option<bool>, Rejection> {
    match request.query(name) {
        None => Ok(None),
        Some("true") => Ok(Some(true)),
        Some("false") => Ok(Some(false)),
        Some(_) => Err(invalid(format!("{name} must be true or false"))),
    }
}

/// Returns the value of the path's segment `name`.
pub(crate) fn segment<'r>(request: &'r Request, name: &str) -> &'r str {
    let mut segments = request.path.iter();
    let found = segments.find(|(segment, _)| segment == name);
    found.map_or("", |(_, value)| value)
}

/// Returns the URL of a listener as the client wrote it, without a trailing slash.
#[must_use]
pub fn origin_url(request: &Request, has_tls: bool) -> String {
    let scheme = if has_tls { "https" } else { "http" };
    let host = request.headers.get(header::HOST);
    let host = host.and_then(|host| host.to_str().ok()).unwrap_or_default();
    format!("{scheme}://{host}")
}

/// Returns the strong entity tags of `If-Match`. Returns `None` if the request does not depend on a
/// version.
pub(crate) fn if_match(request: &Request) -> Option<Vec<String>> {
    let tags = entity_tags(request, &header::IF_MATCH)?;
    (!tags.is_any()).then(|| tags.strong().map(ToOwned::to_owned).collect())
}

fn entity_tags(request: &Request, name: &header::HeaderName) -> Option<EntityTags> {
    let values = request.headers.get_all(name).iter();
    let values: Vec<&str> = values.filter_map(|value| value.to_str().ok()).collect();
    (!values.is_empty()).then(|| EntityTags::parse(&values.join(",")))
}

/// Returns 412 for an object that has none of the required versions. `what` is the object, for
/// example `account`.
pub(crate) fn changed(what: &str) -> Rejection {
    Rejection::new(
        StatusCode::PRECONDITION_FAILED,
        codes::RESOURCE_CHANGED,
        format!("The {what} has changed"),
    )
}

/// Checks the version of an object against `If-Match`.
///
/// # Errors
/// Returns 412 if the object has none of the required versions.
pub(super) fn check_version(request: &Request, what: &str, version: &str) -> Result<(), Rejection> {
    match if_match(request) {
        Some(versions) if !versions.iter().any(|one| one == version) => Err(changed(what)),
        _ => Ok(()),
    }
}

/// Returns the response to a read of an object: 304 if the client has this version.
///
/// # Errors
/// Returns 500 if the object cannot be serialized.
pub(super) fn found<T: Serialize>(
    request: &Request,
    value: &T,
    version: &str,
) -> Result<Response, Rejection> {
    let known = entity_tags(request, &header::IF_NONE_MATCH);
    if !known.is_some_and(|tags| tags.match_weakly(version)) {
        return object(value, version);
    }
    let mut response = message::serialized_json(StatusCode::NOT_MODIFIED, Bytes::new());
    response.headers.remove(header::CONTENT_TYPE);
    Ok(response.with(header::ETAG, entity_tag(version)?))
}

/// Returns the response with an object and its version.
///
/// # Errors
/// Returns 500 if the object cannot be serialized.
pub(super) fn object<T: Serialize>(value: &T, version: &str) -> Result<Response, Rejection> {
    let response = message::json(StatusCode::OK, value)?;
    Ok(response.with(header::ETAG, entity_tag(version)?))
}

/// Returns the 201 response with a new object at `path`.
///
/// # Errors
/// Returns 500 if the object cannot be serialized.
pub(super) fn created<T: Serialize>(
    value: &T,
    version: &str,
    path: &str,
) -> Result<Response, Rejection> {
    let location = HeaderValue::try_from(path).map_err(Failure::internal)?;
    let response = message::json(StatusCode::CREATED, value)?;
    let response = response.with(header::ETAG, entity_tag(version)?);
    Ok(response.with(header::LOCATION, location))
}

/// Returns the value of the header `ETag`.
pub(crate) fn entity_tag(version: &str) -> Result<HeaderValue, Rejection> {
    let tag = HeaderValue::try_from(format!("\"{version}\""));
    Ok(tag.map_err(Failure::internal)?)
}

/// Parses a body, without the fields that are read-only: a client can send back what it has read.
///
/// # Errors
/// Returns 400 if the body is invalid.
pub(super) fn body<T: DeserializeOwned>(
    request: &Request,
    read_only: &[&str],
) -> Result<T, Rejection> {
    let mut fields: Map<String, Value> = request.json()?;
    fields.retain(|name, _| !read_only.contains(&name.as_str()));
    let bytes = serde_json::to_vec(&fields).map_err(Failure::internal)?;
    Ok(latchmail_shape::read(&bytes)?)
}

/// The change of a value. `None` leaves it as it is, and `Some(None)` removes it.
pub(crate) type Change<T> = Option<Option<T>>;

/// Deserializes a field that can be absent. `null` is a value.
pub(super) fn present<'de, D, T>(deserializer: D) -> Result<Option<T>, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de>,
{
    T::deserialize(deserializer).map(Some)
}

/// Returns the idempotency key of a request that creates something. Returns `None` if the request
/// has no key.
///
/// # Errors
/// Returns 400 if the key is invalid.
pub(super) fn idempotency_key(request: &Request) -> Result<Option<RequestKey>, Rejection> {
    let mut values = request.headers.get_all("idempotency-key").iter();
    let Some(value) = values.next() else {
        return Ok(None);
    };
    let is_valid = |text: &&str| {
        (1..=MAX_KEY).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_graphic())
    };
    let key = value.to_str().ok().filter(is_valid);
    let (Some(key), None) = (key, values.next()) else {
        return Err(Rejection::bad_request(
            codes::INVALID_IDEMPOTENCY_KEY,
            "Idempotency-Key must be 1 to 255 visible ASCII characters",
        ));
    };
    let mut fields: Map<String, Value> = request.json()?;
    fields.retain(|name, _| !SECRETS.contains(&name.as_str()));
    let fields = Value::Object(fields).to_string();
    Ok(Some(RequestKey {
        token: request.caller()?.account.clone(),
        hash: sha256_hex(key),
        fingerprint: sha256_hex(&format!("{}\0{fields}", request.uri.path())),
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Deserialize)]
    struct Body {
        #[serde(default, deserialize_with = "present")]
        note: Change<String>,
    }

    #[test]
    fn an_absent_field_is_not_null() {
        let note = |text: &str| serde_json::from_str::<Body>(text).unwrap().note;
        assert_eq!(note("{}"), None);
        assert_eq!(note(r#"{"note": null}"#), Some(None));
        assert_eq!(note(r#"{"note": "a"}"#), Some(Some("a".into())));
    }
}
