//! Converts between WIT types and host types, and checks manifests and responses.
//!
//! This file checks each value of a manifest separately. The router of the HTTP server checks all
//! routes together: the routes must not conflict, and must match the API description.

use std::time::Duration;

use http::{Method, StatusCode, header};
use latchmail_bindings::Blob;
use latchmail_bindings::exports::latchmail::host::module as wit;
use latchmail_core::caller::Scope;
use latchmail_shape::{
    AGENT, API_TOKEN, APP_PASSWORD, Accepted, DeclaredRoute, OAUTH, SESSION, check_manifest,
    check_route,
};
use wasmtime::component::ResourceTable;

use super::headers;
use super::json_string;
use super::manifest::{Accepts, Access, BodyForm, Manifest, Requirement, Route};
use super::message::{Content, Request, Response};
use super::sandbox::Budget;
use crate::api::JsonString;

/// Converts and checks a manifest. The error is a phrase that follows the words "its manifest".
pub(crate) fn manifest(manifest: wit::Manifest) -> Result<Manifest, String> {
    let description = check_manifest(
        &manifest.name,
        &manifest.version,
        manifest.routes.len(),
        &manifest.description,
        &manifest.options,
    )?;
    Ok(Manifest {
        description,
        name: manifest.name,
        version: manifest.version,
        routes: manifest
            .routes
            .into_iter()
            .map(route)
            .collect::<Result<_, _>>()?,
        mount: None,
    })
}

fn route(route: wit::Route) -> Result<Route, String> {
    let accepted: Option<Vec<Accepted<'_>>> = match &route.access {
        wit::Access::Public => None,
        wit::Access::Credentials(accepted) => {
            let accepted = accepted.iter();
            let pairs = accepted.map(|one| (one.kind.as_str(), one.scope.as_deref()));
            Some(pairs.collect())
        }
    };
    check_route(&DeclaredRoute {
        method: &route.method,
        access: accepted.as_deref(),
        options: &route.options,
        path: &route.path,
        operation: &route.operation,
        blob_fields: &route.blob_fields,
        is_blob: matches!(route.body, wit::BodyForm::Blob),
        max_body: route.max_body,
        deadline: route.deadline,
    })?;
    Ok(Route {
        access: accepted.as_deref().map_or(Access::Public, access),
        method: Method::from_bytes(route.method.as_bytes()).map_err(|error| error.to_string())?,
        path: route.path,
        operation: route.operation,
        bucket: route.bucket,
        max_body: route.max_body as usize,
        body: match route.body {
            wit::BodyForm::Bytes => BodyForm::Bytes,
            wit::BodyForm::Blob => BodyForm::Blob,
        },
        blob_fields: route.blob_fields,
        deadline: Duration::from_millis(u64::from(route.deadline)),
        is_page: false,
        verifies_body: false,
    })
}

/// Returns the access of a route that accepts these credentials. The credentials were checked.
fn access(accepted: &[Accepted<'_>]) -> Access {
    let requirement = |kind: &str| {
        let found = accepted.iter().find(|(accepted, _)| *accepted == kind);
        match found {
            None => Requirement::Refused,
            Some((_, None)) => Requirement::AnyScope,
            Some((_, Some(name))) => {
                Scope::named(name).map_or(Requirement::Refused, Requirement::Scope)
            }
        }
    };
    if requirement(AGENT) != Requirement::Refused {
        return Access::OAuth;
    }
    Access::from(Accepts {
        session: requirement(SESSION) != Requirement::Refused,
        api_token: requirement(API_TOKEN),
        oauth: requirement(OAUTH),
        app_password: requirement(APP_PASSWORD),
    })
}

/// Converts a request to WIT. `table` contains the resources of the sandbox that receives the
/// request.
pub(crate) fn request(
    request: Request,
    body: BodyForm,
    table: &mut ResourceTable,
) -> wasmtime::Result<wit::Request> {
    let blobs = request
        .blobs
        .into_iter()
        .map(|bytes| Ok(table.push(Blob::new(bytes))?))
        .collect::<wasmtime::Result<_>>()?;
    Ok(wit::Request {
        id: request.id,
        path: request.path,
        query: request.query,
        headers: headers::request(&request.headers),
        body: match body {
            BodyForm::Bytes => wit::Body::Bytes(request.body.into()),
            BodyForm::Blob => wit::Body::Blob(table.push(Blob::new(request.body))?),
        },
        blobs,
    })
}

/// Converts a response from WIT, and checks it against `budget`. `json_strings` are inserted into
/// the body. `table` contains the resources of the sandbox that returned the response. The error
/// contains the name of the invalid part of the response.
pub(crate) fn response(
    response: wit::Response,
    json_strings: Vec<JsonString>,
    budget: Budget,
    table: &mut ResourceTable,
) -> Result<Response, String> {
    let status = StatusCode::from_u16(response.status)
        .ok()
        .filter(|s| (200..600).contains(&s.as_u16()))
        .ok_or_else(|| format!("status {}", response.status))?;
    let mut headers = headers::response(response.headers, budget.active_content)?;
    if status == StatusCode::NOT_MODIFIED {
        // A cache replaces the headers of the stored response with these headers (RFC 9111, section
        // 4.3.4), so the default content type would be wrong.
        headers.remove(header::CONTENT_TYPE);
    }
    let body = match response.body {
        wit::Body::Bytes(bytes) => {
            let body = with_json_strings(bytes, json_strings, budget.response)?;
            Content::Bytes(body.into())
        }
        wit::Body::Blob(_) if !json_strings.is_empty() => {
            return Err("a blob as the body, into which no text can be inserted".into());
        }
        wit::Body::Blob(blob) => Content::Blob(
            table
                .delete(blob)
                .map_err(|e| format!("an invalid blob: {e}"))?,
        ),
        wit::Body::Events(_) if !json_strings.is_empty() => {
            return Err("a stream as the body, into which no text can be inserted".into());
        }
        wit::Body::Events(stream) => Content::Events(
            table
                .delete(stream)
                .map_err(|e| format!("an invalid stream: {e}"))?,
        ),
    };
    Ok(Response {
        status,
        headers,
        body,
    })
}

/// Inserts `strings` into `body` as JSON strings. Returns an error if the result has more than
/// `max` bytes, or if the offsets of the strings are invalid.
fn with_json_strings(
    body: Vec<u8>,
    strings: Vec<JsonString>,
    max: usize,
) -> Result<Vec<u8>, String> {
    let check_size = |size: usize| {
        if size > max {
            return Err(format!(
                "a body of {size} bytes; the maximum is {max}, and larger bodies must be blobs"
            ));
        }
        Ok(())
    };
    let size = body.len()
        + strings
            .iter()
            .map(|string| string.text.len())
            .sum::<usize>();
    check_size(size)?;
    if strings.is_empty() {
        return Ok(body);
    }
    // Escapes and quotation marks need additional space. A line of 80 characters usually contains
    // one or two escapes.
    let mut result = Vec::with_capacity(size + size / 16 + 64);
    let mut copied = 0;
    for JsonString { offset, text } in strings {
        let offset = offset as usize;
        let bytes = body.get(copied..offset).ok_or_else(|| {
            format!(
                "a text at offset {offset}, which is not between {copied} and {}",
                body.len()
            )
        })?;
        result.extend_from_slice(bytes);
        copied = offset;
        json_string::append(&text, &mut result);
    }
    result.extend_from_slice(&body[copied..]);
    check_size(result.len())?;
    Ok(result)
}

#[cfg(test)]
mod tests {
    use http::{HeaderMap, HeaderValue, header};

    use super::*;

    #[test]
    fn a_module_receives_no_credential() {
        let mut headers = HeaderMap::new();
        for name in [header::AUTHORIZATION, header::COOKIE, header::ACCEPT] {
            headers.insert(name, HeaderValue::from_static("secret"));
        }
        let mut received = Request::probe();
        received.headers = headers;
        received.body = "body".into();
        let mut table = ResourceTable::new();
        let passed = request(received, BodyForm::Blob, &mut table).unwrap();
        assert_eq!(passed.headers, [("accept".into(), "secret".into())]);
        let wit::Body::Blob(blob) = passed.body else {
            panic!("bytes");
        };
        let blob = table.delete(blob).unwrap();
        assert_eq!(blob.into_bytes().unwrap(), "body");
    }

    #[test]
    fn texts_are_inserted_into_a_body_as_json_strings() {
        let insert = |body: &str, strings: &[(u32, &str)], max| {
            let strings = strings.iter().map(|(offset, text)| JsonString {
                offset: *offset,
                text: (*text).into(),
            });
            with_json_strings(body.into(), strings.collect(), max)
        };
        let body = insert("[,]", &[(1, "a\r\n\"\u{1}é"), (2, "")], 100).unwrap();
        assert_eq!(body, "[\"a\\r\\n\\\"\\u0001é\",\"\"]".as_bytes());
        assert_eq!(insert("x", &[], 1).unwrap(), b"x");
        assert_eq!(insert("", &[(0, "abc")], 5).unwrap(), b"\"abc\"");
        assert!(
            insert("", &[(0, "abc")], 4)
                .unwrap_err()
                .contains("5 bytes")
        );
        for strings in [&[(4, "")][..], &[(2, ""), (1, "")], &[(u32::MAX, "")]] {
            let error = insert("[,]", strings, 100).unwrap_err();
            assert!(error.contains("offset"), "{error}");
        }
    }

    fn a_route(path: &str, operation: &str) -> wit::Route {
        wit::Route {
            method: "GET".into(),
            path: path.into(),
            operation: operation.into(),
            access: wit::Access::Credentials(vec![wit::Accepted {
                kind: SESSION.into(),
                scope: None,
            }]),
            bucket: "mail".into(),
            max_body: 0,
            body: wit::BodyForm::Bytes,
            blob_fields: Vec::new(),
            deadline: 1000,
            options: Vec::new(),
        }
    }

    fn a_manifest(routes: Vec<wit::Route>, description: &str) -> wit::Manifest {
        wit::Manifest {
            name: "m".into(),
            version: "1.0.0".into(),
            routes,
            description: description.into(),
            options: Vec::new(),
        }
    }

    #[test]
    fn a_valid_manifest_is_accepted() {
        let manifest = manifest(a_manifest(vec![a_route("/a/{b}", "getB")], "{}")).unwrap();
        assert_eq!(manifest.routes[0].path, "/a/{b}");
    }

    #[test]
    fn the_access_of_a_route_follows_from_its_credentials() {
        let access = |accepted: &[(&str, Option<&str>)]| {
            let accepted = accepted.iter().map(|(kind, scope)| wit::Accepted {
                kind: (*kind).into(),
                scope: scope.map(Into::into),
            });
            let mut route = a_route("/a", "getA");
            route.access = wit::Access::Credentials(accepted.collect());
            manifest(a_manifest(vec![route], "{}")).map(|manifest| manifest.routes[0].access)
        };
        let scoped = |oauth| Access::Scoped {
            scope: Scope::MailRead,
            oauth,
        };
        let read = Some("mail:read");
        assert_eq!(access(&[(SESSION, None)]), Ok(Access::Session));
        assert_eq!(access(&[(AGENT, None)]), Ok(Access::OAuth));
        let tokens = [(API_TOKEN, read), (SESSION, None)];
        assert_eq!(access(&tokens), Ok(scoped(false)));
        let all = [(OAUTH, read), (API_TOKEN, read), (SESSION, None)];
        assert_eq!(access(&all), Ok(scoped(true)));
        let any = access(&[(SESSION, None), (API_TOKEN, None), (APP_PASSWORD, read)]).unwrap();
        let accepts = Accepts {
            session: true,
            api_token: Requirement::AnyScope,
            oauth: Requirement::Refused,
            app_password: Requirement::Scope(Scope::MailRead),
        };
        assert_eq!(any, Access::Any(accepts));
        assert_eq!(
            any.to_string(),
            "web sessions, all API tokens, app passwords with mail:read"
        );
        let unknown = access(&[(SESSION, None), ("passkey", None)]).unwrap_err();
        assert!(unknown.contains("does not know"), "{unknown}");
    }

    #[test]
    fn the_scopes_of_the_manifest_check_are_those_of_the_host() {
        assert_eq!(Scope::ALL.map(Scope::name), latchmail_shape::SCOPES);
    }

    #[test]
    fn an_invalid_manifest_is_rejected_with_the_reason() {
        let error = |m| manifest(m).unwrap_err();
        assert!(error(a_manifest(vec![], "{}")).contains("no routes"));
        for path in [
            "a",
            "/",
            "/a//b",
            "/a/x{b}",
            "/{b}/{b}",
            "/a/{b",
            "/a b",
            "/a/{*rest}",
        ] {
            assert!(
                error(a_manifest(vec![a_route(path, "x")], "{}")).contains("whose path"),
                "{path}"
            );
        }
        let operation = a_manifest(vec![a_route("/a", "get-a")], "{}");
        assert!(error(operation).contains("operation id"));
        let description = a_manifest(vec![a_route("/a", "getA")], "{");
        assert!(error(description).contains("not JSON"));
    }
}
