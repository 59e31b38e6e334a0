//! The mount of a standard component. A standard component exports `wasi:http/incoming-handler` and
//! does not know this host, so it has no manifest. The mount contains the path below which the
//! component serves requests, and the callers. The component gets its name at the installation.
//!
//! A mount is a custom section at the end of the component's bytes. So the digest of a version
//! depends on its mount, and the mount is stored, rolled back and backed up with the version.
//!
//! This file also has the names of the exports and imports of standard components.

use std::time::Duration;

use http::Method;
use latchmail_core::caller::Scope;
use latchmail_shape::check_path;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::manifest::{Access, BodyForm, Route};

/// The name of the custom section.
const SECTION: &[u8] = b"latchmail:http";

/// The size of the header of a component, in bytes. The sections follow the header.
const HEADER: usize = 8;

/// The id of custom sections.
const CUSTOM: u8 = 0;

/// The maximum size of a request body, in bytes.
const MAX_BODY: usize = 10 * 1024 * 1024;

/// The rate-limit bucket of the routes.
const BUCKET: &str = "modules";

/// The path patterns below the path of the mount, and the endings of the operation ids. The last
/// pattern matches all further segments.
const PATTERNS: [(&str, &str); 3] = [("", ""), ("/", "Root"), (REST, "Below")];
const REST: &str = "/{*rest}";

/// The export that every standard component has, without the last part of its version.
const EXPORT: &str = "wasi:http/incoming-handler@0.2.";

/// The export of components for WASI 0.3, which this host does not support.
const LATER_EXPORT: &str = "wasi:http/handler@0.3.";

/// The interfaces with which a standard component is linked, without their versions. They need no
/// grant: outgoing requests can only be sent to the hosts that the operator listed for a module
/// with the grant `http-client`.
const INTERFACES: [&str; 2] = ["wasi:http/types", "wasi:http/outgoing-handler"];

/// The mount of a standard component.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Mount {
    /// The path, without named segments: `/hello`. The component serves this path and all paths
    /// below it.
    pub path: String,
    /// The callers: `session`, `public`, or the scope that an API token needs. Sessions have all
    /// scopes.
    pub access: String,
}

impl Mount {
    /// Returns the bytes of `component` with this mount.
    #[must_use]
    pub fn add_to(&self, component: &[u8]) -> Vec<u8> {
        let json = json!({ "path": self.path, "access": self.access }).to_string();
        let content = [&*sized(SECTION), json.as_bytes()].concat();
        [component, &[CUSTOM], &sized(&content)].concat()
    }

    /// Reads the mount of a component. Returns `None` if the component has no mount, or if its
    /// bytes are malformed.
    ///
    /// # Errors
    /// Returns an error if the component has an invalid mount or several mounts. The error is a
    /// phrase that follows the name of the component.
    pub(super) fn read(component: &[u8]) -> Result<Option<Self>, String> {
        let mut rest = component.get(HEADER..).unwrap_or_default();
        let mut found = None;
        while let Some((&id, after)) = rest.split_first() {
            let Some((content, after)) = split_sized(after) else {
                break;
            };
            rest = after;
            let Some((SECTION, mount)) = split_sized(content).filter(|_| id == CUSTOM) else {
                continue;
            };
            let mount = serde_json::from_slice(mount)
                .map_err(|error| format!("it has an invalid mount: {error}"))?;
            if found.replace(mount).is_some() {
                return Err("it is mounted twice: mount the original file".into());
            }
        }
        Ok(found)
    }

    /// Creates the routes of the mounted component, and their part of the API description. `name`
    /// is the name of the module.
    ///
    /// # Errors
    /// Returns an error if a value of the mount is invalid. The error is a phrase that follows the
    /// name of the component.
    pub(super) fn routes(&self, name: &str) -> Result<(Vec<Route>, Value), String> {
        let path = &self.path;
        if path.contains('{') {
            return Err(format!(
                "its mount has the path {path:?}, which has a named segment"
            ));
        }
        check_path(path)
            .map_err(|reason| format!("its mount has the path {path:?}, which {reason}"))?;
        let access = self.access()?;
        let mut routes = Vec::new();
        let mut paths = Map::new();
        for (pattern, ending) in PATTERNS {
            let path = format!("{path}{pattern}");
            let mut item = Map::new();
            for (method, verb) in [
                (Method::GET, "Get"),
                (Method::POST, "Post"),
                (Method::PUT, "Put"),
                (Method::PATCH, "Patch"),
                (Method::DELETE, "Delete"),
            ] {
                item.insert(
                    method.as_str().to_ascii_lowercase(),
                    operation(name, &method, pattern),
                );
                routes.push(Route {
                    max_body: if method == Method::GET { 0 } else { MAX_BODY },
                    method,
                    path: path.clone(),
                    operation: format!("{}{verb}{ending}", camel_case(name)),
                    access,
                    bucket: BUCKET.into(),
                    body: BodyForm::Bytes,
                    blob_fields: Vec::new(),
                    // The policy of the module has the only deadline.
                    deadline: Duration::MAX,
                    is_page: false,
                    verifies_body: false,
                });
            }
            paths.insert(path, item.into());
        }
        Ok((routes, json!({ "paths": paths })))
    }

    fn access(&self) -> Result<Access, String> {
        match self.access.as_str() {
            "public" => Ok(Access::Public),
            "session" => Ok(Access::Session),
            scope => Scope::named(scope)
                .map(|scope| Access::Scoped {
                    scope,
                    oauth: false,
                })
                .ok_or_else(|| {
                    format!(
                        "its mount has the access {scope:?}, which is not `session`, `public` or one of {}",
                        Scope::ALL.map(Scope::name).join(", ")
                    )
                }),
        }
    }
}

/// Checks the names of the exports of a component with a mount. The error is a phrase that follows
/// the name of the component.
pub(super) fn check(exports: &[&str]) -> Result<(), String> {
    if exports
        .iter()
        .any(|name| name.starts_with("latchmail:host/module@"))
    {
        return Err("it is a module with a manifest: install it without a mount".into());
    }
    if exports.iter().any(|name| name.starts_with(EXPORT)) {
        return Ok(());
    }
    Err(format!(
        "it does not export {EXPORT}x, which a mounted component must export; it exports {}",
        exports.join(", ")
    ))
}

/// Returns whether every standard component can use an import.
pub(super) fn is_provided(import: &str) -> bool {
    let interface = import.split('@').next().unwrap_or(import);
    INTERFACES.contains(&interface)
}

/// Returns advice for a component that is not a module and has these exports.
pub(super) fn advice(exports: &[&str]) -> &'static str {
    if exports.iter().any(|name| name.starts_with(EXPORT)) {
        "; mount a component for wasi:http with `latchmail module install NAME --http PATH FILE`"
    } else {
        ""
    }
}

/// Returns advice for a component that cannot be compiled.
pub(super) fn compilation_advice(component: &[u8]) -> &'static str {
    let is_later = |bytes: &[u8]| bytes == LATER_EXPORT.as_bytes();
    if component.windows(LATER_EXPORT.len()).any(is_later) {
        "; it is a component for WASI 0.3 (wasi:http/handler@0.3), and this host supports WASI 0.2 (wasi:http/incoming-handler@0.2): build it for example with spin-sdk 5.2 or with wstd"
    } else {
        ""
    }
}

/// Returns the description of one operation.
fn operation(name: &str, method: &Method, pattern: &str) -> Value {
    let mut operation = json!({
        "summary": format!("The standard component `{name}`"),
        "responses": { "default": { "description": "The response of the component" } },
    });
    if pattern == REST {
        operation["parameters"] = json!([{
            "name": "*rest",
            "in": "path",
            "required": true,
            "description": "The rest of the path, which can contain slashes",
            "schema": { "type": "string" },
        }]);
    }
    if method != Method::GET {
        operation["requestBody"] = json!({ "content": { "*/*": {} } });
    }
    operation
}

/// Converts a module name to camel case, because operation ids contain only letters and digits.
fn camel_case(name: &str) -> String {
    let mut words = name.split('-');
    let mut result = words.next().unwrap_or_default().to_owned();
    for word in words {
        let (first, rest) = word.split_at(word.len().min(1));
        result.push_str(&first.to_ascii_uppercase());
        result.push_str(rest);
    }
    result
}

/// Returns the bytes after their length, which is an unsigned LEB128 number.
fn sized(bytes: &[u8]) -> Vec<u8> {
    let mut result = Vec::with_capacity(bytes.len() + 5);
    let mut length = bytes.len();
    while length >= 0x80 {
        result.push(length.to_le_bytes()[0] | 0x80);
        length >>= 7;
    }
    result.push(length.to_le_bytes()[0]);
    result.extend_from_slice(bytes);
    result
}

/// Splits off the bytes whose length precedes them. Returns `None` if the length is invalid.
fn split_sized(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let mut length = 0;
    for (at, byte) in bytes.iter().enumerate().take(5) {
        length |= u64::from(byte & 0x7f) << (7 * at);
        if byte & 0x80 == 0 {
            return bytes[at + 1..].split_at_checked(usize::try_from(length).ok()?);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A component with one custom section.
    const COMPONENT: &[u8] = b"\0asm\x0d\0\x01\0\0\x03\x01va";

    fn mount(access: &str) -> Mount {
        Mount {
            path: "/api/v1/notes".into(),
            access: access.into(),
        }
    }

    #[test]
    fn a_mount_is_read_from_the_bytes_to_which_it_was_added() {
        assert_eq!(Mount::read(COMPONENT), Ok(None));
        let long = Mount {
            path: "/a".repeat(10_000),
            ..mount("public")
        };
        for mount in [mount("session"), long] {
            let mounted = mount.add_to(COMPONENT);
            assert!(mounted.starts_with(COMPONENT));
            assert_eq!(Mount::read(&mounted), Ok(Some(mount.clone())));
            let error = Mount::read(&mount.add_to(&mounted)).unwrap_err();
            assert!(error.contains("mounted twice"), "{error}");
        }
    }

    #[test]
    fn malformed_bytes_have_no_mount() {
        let mounted = mount("session").add_to(COMPONENT);
        for length in 0..mounted.len() {
            assert_eq!(Mount::read(&mounted[..length]), Ok(None), "{length}");
        }
        assert_eq!(Mount::read(&[0xff; 64]), Ok(None));
    }

    #[test]
    fn the_routes_are_the_path_and_everything_below_it() {
        let (routes, _) = mount("mail:read").routes("my-notes").unwrap();
        assert_eq!(routes.len(), 15);
        let below = routes.last().unwrap();
        assert_eq!(below.path, "/api/v1/notes/{*rest}");
        assert_eq!(below.operation, "myNotesDeleteBelow");
        let expected = Access::Scoped {
            scope: Scope::MailRead,
            oauth: false,
        };
        assert!(routes.iter().all(|route| route.access == expected));
    }

    #[test]
    fn an_invalid_mount_is_rejected_with_the_reason() {
        let error = |mount: Mount| mount.routes("my-notes").unwrap_err();
        let reason = error(mount("everyone"));
        assert!(reason.contains("the access \"everyone\""), "{reason}");
        for path in ["/", "notes", "/notes/", "/{id}", "/{*rest}"] {
            let path = path.into();
            let reason = error(Mount {
                path,
                ..mount("public")
            });
            assert!(reason.contains("has the path"), "{reason}");
        }
    }

    #[test]
    fn a_component_for_wasi_0_3_is_recognized() {
        let advice = compilation_advice(b"\0asm..wasi:http/handler@0.3.0..");
        assert!(advice.contains("WASI 0.3"), "{advice}");
        assert_eq!(compilation_advice(b"wasi:http/incoming-handler@0.2.0"), "");
    }
}
