//! The rules for the manifest of a module. The host checks further rules that depend on the host
//! and on the other modules.

use serde_json::Value;

use crate::check_path;

/// The maximum size of a request body that a route can declare, in bytes. This size is sufficient
/// for an imported message of 50 MiB, and for a message of 25 MB in base64.
const MAX_BODY: u32 = 50 * 1024 * 1024;

/// The maximum number of routes of a module, and the maximum size of its API description in bytes.
/// The number of routes is limited, because the router compares each pair of routes.
const MAX_ROUTES: usize = 1000;
const MAX_DESCRIPTION: usize = 1024 * 1024;

/// The scopes of credentials, in canonical order.
pub const SCOPES: [&str; 6] = [
    "mail:read",
    "mail:send",
    "mail:write",
    "aliases:read",
    "aliases:write",
    "profile:read",
];

/// The HTTP methods of routes.
pub const METHODS: [&str; 5] = ["GET", "POST", "PUT", "PATCH", "DELETE"];

/// The kind of web sessions, which have all scopes.
pub const SESSION: &str = "session";
/// The kind of personal API tokens.
pub const API_TOKEN: &str = "api-token";
/// The kind of OAuth access tokens.
pub const OAUTH: &str = "oauth";
/// The kind of app passwords.
pub const APP_PASSWORD: &str = "app-password";
/// The kind of OAuth access tokens for the agent endpoint. A route accepts this kind alone.
pub const AGENT: &str = "agent";

/// The kinds of credentials that a route can accept.
const KINDS: [&str; 5] = [SESSION, API_TOKEN, OAUTH, APP_PASSWORD, AGENT];

/// A kind of credential that a route accepts, and the scope that the credential needs.
pub type Accepted<'a> = (&'a str, Option<&'a str>);

/// The checked properties of a route.
#[derive(Clone, Copy, Debug)]
pub struct DeclaredRoute<'a> {
    /// The HTTP method.
    pub method: &'a str,
    /// The credentials that the route accepts. `None` if the route is public.
    pub access: Option<&'a [Accepted<'a>]>,
    /// The names and values of options.
    pub options: &'a [(String, String)],
    /// The path pattern.
    pub path: &'a str,
    /// The operation id in the API description.
    pub operation: &'a str,
    /// The JSON pointers of the fields that the module receives as blobs.
    pub blob_fields: &'a [String],
    /// Whether the module receives the whole body as a blob.
    pub is_blob: bool,
    /// The maximum size of a request body, in bytes.
    pub max_body: u32,
    /// The maximum duration of a call, in milliseconds.
    pub deadline: u32,
}

/// Checks the properties of a manifest without its routes. Returns the parsed API description.
///
/// # Errors
/// Returns an error if a property is invalid. The error is a phrase that follows the words "its
/// manifest".
pub fn check_manifest(
    name: &str,
    version: &str,
    routes: usize,
    description: &str,
    options: &[(String, String)],
) -> Result<Value, String> {
    if let Some((option, _)) = options.first() {
        return Err(format!(
            "has the option {option:?}, which this host does not know"
        ));
    }
    if !is_module_name(name) {
        return Err(format!(
            "has the name {name:?}, which is not 1 to 32 lower-case letters, digits and hyphens"
        ));
    }
    let numbers: Vec<_> = version.split('.').map(str::parse::<u32>).collect();
    if numbers.len() != 3 || numbers.iter().any(Result::is_err) {
        return Err(format!(
            "has the version {version:?}, which is not of the form major.minor.patch"
        ));
    }
    if routes == 0 {
        return Err("declares no routes".into());
    }
    if routes > MAX_ROUTES {
        return Err(format!("has {routes} routes; the maximum is {MAX_ROUTES}"));
    }
    let size = description.len();
    if size > MAX_DESCRIPTION {
        return Err(format!(
            "has a description of {size} bytes; the maximum is {MAX_DESCRIPTION}"
        ));
    }
    serde_json::from_str(description)
        .map_err(|error| format!("has a description that is not JSON: {error}"))
}

/// Returns whether a module or a timer can have this name: 1 to 32 lower-case letters, digits and
/// hyphens.
#[must_use]
pub fn is_module_name(name: &str) -> bool {
    let is_word = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-';
    (1..=32).contains(&name.len()) && name.bytes().all(is_word)
}

/// Checks a route of a manifest.
///
/// # Errors
/// Returns an error if a property is invalid. The error is a phrase that follows the words "its
/// manifest".
pub fn check_route(route: &DeclaredRoute<'_>) -> Result<(), String> {
    match route_problem(route) {
        Some(problem) => Err(format!("has the route {:?}{problem}", route.path)),
        None => Ok(()),
    }
}

fn route_problem(route: &DeclaredRoute<'_>) -> Option<String> {
    if let Err(reason) = check_path(route.path) {
        return Some(format!(", whose path {reason}"));
    }
    if !METHODS.contains(&route.method) {
        return Some(format!(
            " with the method {:?}, which is not {}",
            route.method,
            METHODS.join(", ")
        ));
    }
    if let Some(problem) = route.access.and_then(access_problem) {
        return Some(problem);
    }
    if let Some((option, _)) = route.options.first() {
        return Some(format!(
            " with the option {option:?}, which this host does not know"
        ));
    }
    let operation = route.operation;
    if operation.is_empty() || !operation.bytes().all(|b| b.is_ascii_alphanumeric()) {
        return Some(format!(
            " with the operation id {operation:?}, which is not letters and digits only"
        ));
    }
    let mut fields = route.blob_fields.iter();
    if let Some(invalid) = fields.find(|field| !field.starts_with('/')) {
        return Some(format!(
            " with the blob field {invalid:?}, which is not a JSON pointer"
        ));
    }
    if !route.blob_fields.is_empty() && route.is_blob {
        return Some(" with blob fields, but its body is a blob".into());
    }
    if route.max_body > MAX_BODY {
        return Some(format!(
            " with a maximum body of {} bytes; the limit is {MAX_BODY}",
            route.max_body
        ));
    }
    (route.deadline == 0).then(|| " with a deadline of 0".into())
}

fn access_problem(accepted: &[Accepted<'_>]) -> Option<String> {
    if accepted.is_empty() {
        return Some(", which accepts no credential".into());
    }
    for (position, (kind, scope)) in accepted.iter().enumerate() {
        if !KINDS.contains(kind) {
            return Some(format!(
                " with the credential {kind:?}, which this host does not know"
            ));
        }
        if accepted[..position].iter().any(|(other, _)| other == kind) {
            return Some(format!(" with the credential {kind:?} twice"));
        }
        if *kind == AGENT && accepted.len() > 1 {
            return Some(format!(" with the credential {AGENT:?} and others"));
        }
        let Some(scope) = scope else {
            continue;
        };
        if [SESSION, AGENT].contains(kind) {
            return Some(format!(
                " with a scope for the credential {kind:?}, which needs none"
            ));
        }
        if !SCOPES.contains(scope) {
            return Some(format!(
                " with the scope {scope:?}, which this host does not know"
            ));
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    const SESSIONS: [Accepted<'static>; 1] = [(SESSION, None)];

    fn route<'a>() -> DeclaredRoute<'a> {
        DeclaredRoute {
            method: "GET",
            access: Some(&SESSIONS),
            options: &[],
            path: "/a",
            operation: "getA",
            blob_fields: &[],
            is_blob: false,
            max_body: 0,
            deadline: 1,
        }
    }

    #[test]
    fn every_form_of_access_is_valid() {
        let read = Some("mail:read");
        let forms: [Option<&[Accepted<'_>]>; 6] = [
            None,
            Some(&[(SESSION, None)]),
            Some(&[(SESSION, None), (API_TOKEN, read)]),
            Some(&[(SESSION, None), (API_TOKEN, read), (OAUTH, read)]),
            Some(&[(AGENT, None)]),
            Some(&[
                (SESSION, None),
                (API_TOKEN, None),
                (OAUTH, None),
                (APP_PASSWORD, None),
            ]),
        ];
        for access in forms {
            check_route(&DeclaredRoute { access, ..route() }).unwrap();
        }
    }

    #[test]
    fn values_of_a_later_contract_are_refused() {
        let read = Some("mail:read");
        let forms: [(&[Accepted<'_>], &str); 7] = [
            (&[], "accepts no credential"),
            (
                &[("passkey", None)],
                "\"passkey\", which this host does not know",
            ),
            (&[(SESSION, None), (SESSION, None)], "\"session\" twice"),
            (&[(AGENT, None), (SESSION, None)], "\"agent\" and others"),
            (&[(SESSION, read)], "which needs none"),
            (
                &[(API_TOKEN, Some("mail-read"))],
                "the scope \"mail-read\", which this host",
            ),
            (
                &[(OAUTH, Some("calendar:read"))],
                "the scope \"calendar:read\", which this host",
            ),
        ];
        let error = |route| check_route(&route).unwrap_err();
        for (access, text) in forms {
            let access = Some(access);
            let reason = error(DeclaredRoute { access, ..route() });
            assert!(reason.contains(text), "{reason}");
        }
        for method in ["get", "HEAD", ""] {
            let reason = error(DeclaredRoute { method, ..route() });
            assert!(reason.contains("with the method"), "{reason}");
        }
        let options = &[("etag".to_owned(), String::new())];
        let reason = error(DeclaredRoute { options, ..route() });
        assert!(
            reason.contains("the option \"etag\", which this host"),
            "{reason}"
        );
        let reason = check_manifest("a", "1.0.0", 1, "{}", options).unwrap_err();
        assert!(
            reason.contains("the option \"etag\", which this host"),
            "{reason}"
        );
    }
}
