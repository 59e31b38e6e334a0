//! The mount of a standard component. A standard component exports `wasi:http/incoming-handler` and
//! does not know this host, so it has no manifest. The mount contains the values that a manifest
//! would contain: the name, the path below which the component serves requests, and the callers.
//!
//! A mount is a custom section at the end of the component's bytes. So the digest of a version
//! depends on its mount, and the mount is stored, rolled back and backed up with the version.

use std::time::Duration;

use http::Method;
use latchmail_core::caller::Scope;
use latchmail_shape::{check_manifest, check_path};
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::manifest::{Access, BodyForm, Manifest, Route};

/// The name of the custom section.
const SECTION: &[u8] = b"latchmail:http";

/// The size of the header of a component, in bytes. The sections follow the header.
const HEADER: usize = 8;

/// The id of custom sections.
const CUSTOM: u8 = 0;

/// The version of all standard components. They are distinguished by their digests.
const VERSION: &str = "0.0.0";

/// The maximum size of a request body, in bytes.
const MAX_BODY: usize = 10 * 1024 * 1024;

/// The rate-limit bucket of the routes.
const BUCKET: &str = "modules";

/// The path patterns below the path of the mount, and the endings of the operation ids. The last
/// pattern matches all further segments.
const PATTERNS: [(&str, &str); 3] = [("", ""), ("/", "Root"), (REST, "Below")];
const REST: &str = "/{*rest}";

/// The mount of a standard component.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Mount {
    /// The name of the module.
    pub name: String,
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
        let Self { name, path, access } = self;
        let json = json!({ "name": name, "path": path, "access": access }).to_string();
        let content = [&sized(SECTION), json.as_bytes()].concat();
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

    /// Creates the manifest of the mounted component.
    ///
    /// # Errors
    /// Returns an error if a value of the mount is invalid. The error is a phrase that follows the
    /// name of the component.
    pub(super) fn manifest(&self) -> Result<Manifest, String> {
        let Self { name, path, .. } = self;
        check_manifest(name, VERSION, PATTERNS.len(), "{}", &[])
            .map_err(|reason| format!("its mount {reason}"))?;
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
        Ok(Manifest {
            name: name.clone(),
            version: VERSION.into(),
            routes,
            description: json!({ "paths": paths }),
            mount: Some(path.as_str().into()),
        })
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
            name: "my-notes".into(),
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
    fn the_manifest_has_the_path_and_everything_below_it() {
        let manifest = mount("mail:read").manifest().unwrap();
        assert_eq!(manifest.routes.len(), 15);
        let below = manifest.routes.last().unwrap();
        assert_eq!(below.path, "/api/v1/notes/{*rest}");
        assert_eq!(below.operation, "myNotesDeleteBelow");
        let expected = Access::Scoped {
            scope: Scope::MailRead,
            oauth: false,
        };
        assert!(manifest.routes.iter().all(|route| route.access == expected));
    }

    #[test]
    fn an_invalid_mount_is_rejected_with_the_reason() {
        let error = |mount: Mount| mount.manifest().unwrap_err();
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
        let name = "My notes".into();
        let reason = error(Mount {
            name,
            ..mount("public")
        });
        assert!(reason.contains("has the name"), "{reason}");
    }
}
