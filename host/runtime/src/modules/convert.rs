//! Conversion between WIT types and host types. Manifests and responses are checked.

use std::collections::BTreeSet;
use std::time::Duration;

use http::{Method, StatusCode};
use latchmail_bindings::Blob;
use latchmail_bindings::exports::latchmail::host::module as wit;
use wasmtime::component::ResourceTable;

use super::sandbox::Budget;
use super::{Access, BodyForm, Content, Manifest, Request, Response, Route, headers};
use crate::api::held;

/// The maximum request body of a route, in bytes: a message of 25 MB in base64 and some reserve.
const LARGEST_BODY: u32 = 40 * 1024 * 1024;

/// The maximum number of routes of a module, and the maximum size of its API description in bytes. Loading compares every route with every other
/// route.
const MOST_ROUTES: usize = 1000;
const LARGEST_DESCRIPTION: usize = 1024 * 1024;

/// The request headers that a module receives. None of them carries credentials.
const HANDED_IN: [&str; 12] = [
    "accept",
    "accept-language",
    "content-type",
    "idempotency-key",
    "if-match",
    "if-none-match",
    "mcp-method",
    "mcp-name",
    "mcp-protocol-version",
    "mcp-session-id",
    "origin",
    "user-agent",
];

/// Converts and checks a manifest. The error is a phrase that follows "its manifest".
pub(crate) fn manifest(manifest: wit::Manifest) -> Result<Manifest, String> {
    let name = &manifest.name;
    if name.is_empty()
        || name.len() > 32
        || !name
            .bytes()
            .all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-')
    {
        return Err(format!(
            "has the name {name:?}, which is not 1 to 32 lower-case letters, digits and hyphens"
        ));
    }
    if manifest.version.split('.').count() != 3
        || !manifest
            .version
            .split('.')
            .all(|n| n.parse::<u32>().is_ok())
    {
        return Err(format!(
            "has the version {:?}, which is not major.minor.patch",
            manifest.version
        ));
    }
    if manifest.routes.is_empty() {
        return Err("has no route".into());
    }
    if manifest.routes.len() > MOST_ROUTES {
        return Err(format!(
            "has {} routes; the maximum is {MOST_ROUTES}",
            manifest.routes.len()
        ));
    }
    if manifest.description.len() > LARGEST_DESCRIPTION {
        return Err(format!(
            "has a description of {} bytes; the maximum is {LARGEST_DESCRIPTION}",
            manifest.description.len()
        ));
    }
    let routes: Vec<Route> = manifest
        .routes
        .into_iter()
        .map(route)
        .collect::<Result<_, _>>()?;
    let mut operations = BTreeSet::new();
    if let Some(twice) = routes.iter().find(|r| !operations.insert(&r.operation)) {
        return Err(format!("names the operation {:?} twice", twice.operation));
    }
    Ok(Manifest {
        description: description(&manifest.description, &routes)?,
        name: manifest.name,
        version: manifest.version,
        routes,
    })
}

fn route(route: wit::Route) -> Result<Route, String> {
    let named = format!("route {:?}", route.path);
    if !pattern(&route.path) {
        return Err(format!(
            "has the {named}, which is not an absolute path; each segment must be plain text or one {{name}}"
        ));
    }
    if route.operation.is_empty() || !route.operation.bytes().all(|b| b.is_ascii_alphanumeric()) {
        return Err(format!(
            "names the operation {:?} on {named}: letters and digits only",
            route.operation
        ));
    }
    if let Some(odd) = route
        .blob_fields
        .iter()
        .find(|field| !field.starts_with('/'))
    {
        return Err(format!(
            "requests the blob field {odd:?} on {named}, which is not a JSON pointer"
        ));
    }
    if !route.blob_fields.is_empty() && !matches!(route.body, wit::BodyForm::Bytes) {
        return Err(format!(
            "requests blob fields on {named}, whose body is a blob"
        ));
    }
    if route.max_body > LARGEST_BODY {
        return Err(format!(
            "allows a body of {} bytes on {named}; the maximum is {LARGEST_BODY}",
            route.max_body
        ));
    }
    if route.deadline == 0 {
        return Err(format!("sets a deadline of 0 on {named}"));
    }
    Ok(Route {
        method: match route.method {
            wit::Method::Get => Method::GET,
            wit::Method::Post => Method::POST,
            wit::Method::Put => Method::PUT,
            wit::Method::Patch => Method::PATCH,
            wit::Method::Delete => Method::DELETE,
        },
        path: route.path,
        operation: route.operation,
        access: match route.access {
            wit::Access::Public => Access::Public,
            wit::Access::Session => Access::Session,
            wit::Access::Scoped(scoped) => Access::Scoped {
                scope: held(scoped.scope),
                oauth: scoped.oauth,
            },
            wit::Access::Oauth => Access::OAuth,
        },
        area: route.bucket,
        max_body: route.max_body as usize,
        body: match route.body {
            wit::BodyForm::Bytes => BodyForm::Bytes,
            wit::BodyForm::Blob => BodyForm::Blob,
        },
        blob_fields: route.blob_fields,
        deadline: Duration::from_millis(u64::from(route.deadline)),
    })
}

/// Returns whether each segment of the path is either plain text or one `{name}`.
fn pattern(path: &str) -> bool {
    let Some(rest) = path.strip_prefix('/') else {
        return false;
    };
    let mut names = BTreeSet::new();
    rest.split('/').all(|segment| {
        match segment.strip_prefix('{').and_then(|s| s.strip_suffix('}')) {
            Some(name) => {
                !name.is_empty()
                    && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_')
                    && names.insert(name)
            }
            None => {
                !segment.is_empty()
                    && segment
                        .bytes()
                        .all(|b| b.is_ascii_alphanumeric() || b"-._~".contains(&b))
            }
        }
    })
}

/// Parses the module's part of the API description. It must describe exactly the routes of the module.
fn description(text: &str, routes: &[Route]) -> Result<serde_json::Value, String> {
    let value: serde_json::Value = serde_json::from_str(text)
        .map_err(|e| format!("has a description that is not JSON: {e}"))?;
    let paths = value
        .get("paths")
        .and_then(serde_json::Value::as_object)
        .ok_or("has a description without `paths`")?;
    let mut described: BTreeSet<(String, String, String)> = BTreeSet::new();
    for (path, item) in paths {
        for (method, operation) in item.as_object().into_iter().flatten() {
            if let Some(id) = operation.get("operationId").and_then(|id| id.as_str()) {
                described.insert((method.to_ascii_uppercase(), path.clone(), id.into()));
            }
        }
    }
    for route in routes {
        let key = (
            route.method.to_string(),
            route.path.clone(),
            route.operation.clone(),
        );
        if !described.remove(&key) {
            return Err(format!(
                "does not describe {} {} as operation {:?}",
                key.0, key.1, key.2
            ));
        }
    }
    match described.first() {
        Some((method, path, _)) => Err(format!(
            "describes {method} {path}, which it does not serve"
        )),
        None => Ok(value),
    }
}

/// Converts a request for the sandbox that owns `table`.
pub(crate) fn request(
    request: Request,
    body: BodyForm,
    table: &mut ResourceTable,
) -> wasmtime::Result<wit::Request> {
    let headers = HANDED_IN
        .into_iter()
        .flat_map(|name| {
            let values = request.headers.get_all(name).into_iter();
            values.filter_map(move |value| Some((name.to_owned(), value.to_str().ok()?.to_owned())))
        })
        .collect();
    let blobs = request
        .blobs
        .into_iter()
        .map(|bytes| Ok(table.push(Blob::new(bytes))?))
        .collect::<wasmtime::Result<_>>()?;
    Ok(wit::Request {
        id: request.id,
        path: request.path,
        query: request.query,
        headers,
        body: match body {
            BodyForm::Bytes => wit::Body::Bytes(request.body.into()),
            BodyForm::Blob => wit::Body::Blob(table.push(Blob::new(request.body))?),
        },
        blobs,
    })
}

/// Converts and checks a response of the sandbox that owns `table`, within `budget`. The error describes the invalid part.
pub(crate) fn response(
    response: wit::Response,
    budget: Budget,
    table: &mut ResourceTable,
) -> Result<Response, String> {
    let status = StatusCode::from_u16(response.status)
        .ok()
        .filter(|s| (200..600).contains(&s.as_u16()))
        .ok_or_else(|| format!("status {}", response.status))?;
    let headers = headers::response(response.headers, budget.active_content)?;
    let largest = budget.response;
    let body = match response.body {
        wit::Body::Bytes(bytes) if bytes.len() > largest => {
            return Err(format!(
                "a body of {} bytes; the maximum is {largest}, and larger bodies must be blobs",
                bytes.len()
            ));
        }
        wit::Body::Bytes(bytes) => Content::Bytes(bytes.into()),
        wit::Body::Blob(blob) => Content::Blob(
            table
                .delete(blob)
                .map_err(|e| format!("an invalid blob: {e}"))?,
        ),
    };
    Ok(Response {
        status,
        headers,
        body,
    })
}

#[cfg(test)]
mod tests {
    use http::{HeaderMap, HeaderValue, header};

    use super::*;

    #[test]
    fn a_module_is_handed_no_credential() {
        let mut headers = HeaderMap::new();
        for name in [header::AUTHORIZATION, header::COOKIE, header::ACCEPT] {
            headers.insert(name, HeaderValue::from_static("secret"));
        }
        let mut given = Request::probe();
        given.headers = headers;
        given.body = "body".into();
        let mut table = ResourceTable::new();
        let handed = request(given, BodyForm::Blob, &mut table).unwrap();
        assert_eq!(handed.headers, [("accept".into(), "secret".into())]);
        let wit::Body::Blob(blob) = handed.body else {
            panic!("bytes");
        };
        let blob = table.delete(blob).unwrap();
        assert_eq!(blob.into_bytes().unwrap(), "body");
    }

    fn a_route(path: &str, operation: &str) -> wit::Route {
        wit::Route {
            method: wit::Method::Get,
            path: path.into(),
            operation: operation.into(),
            access: wit::Access::Session,
            bucket: "mail".into(),
            max_body: 0,
            body: wit::BodyForm::Bytes,
            blob_fields: Vec::new(),
            deadline: 1000,
        }
    }

    fn a_manifest(routes: Vec<wit::Route>, description: &str) -> wit::Manifest {
        wit::Manifest {
            name: "m".into(),
            version: "1.0.0".into(),
            routes,
            description: description.into(),
        }
    }

    const DESCRIBED: &str =
        r#"{"paths": {"/a/{b}": {"get": {"operationId": "getB"}}}, "components": {}}"#;

    #[test]
    fn a_manifest_whose_routes_are_described_is_taken() {
        let taken = manifest(a_manifest(vec![a_route("/a/{b}", "getB")], DESCRIBED)).unwrap();
        assert_eq!(taken.routes[0].path, "/a/{b}");
    }

    #[test]
    fn a_manifest_is_refused_with_what_is_wrong_with_it() {
        let refused = |m| manifest(m).unwrap_err();
        assert!(refused(a_manifest(vec![], DESCRIBED)).contains("no route"));
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
                refused(a_manifest(vec![a_route(path, "x")], DESCRIBED)).contains("route"),
                "{path}"
            );
        }
        let twice = vec![a_route("/a/{b}", "getB"), a_route("/c", "getB")];
        assert!(refused(a_manifest(twice, DESCRIBED)).contains("twice"));
        let more = vec![a_route("/a/{b}", "getB"), a_route("/c", "getC")];
        assert!(refused(a_manifest(more, DESCRIBED)).contains("does not describe GET /c"));
        let other = vec![a_route("/c", "getC")];
        let both = DESCRIBED.replace(
            "}, \"components",
            ", \"/c\": {\"get\": {\"operationId\": \"getC\"}}}, \"components",
        );
        assert!(refused(a_manifest(other, &both)).contains("does not serve"));
    }
}
