//! The manifest of a module in the host's own types, checked. The host's own routes use the same types, so that one router and one API description
//! serve both.

use std::fmt;
use std::time::Duration;

use http::Method;
use latchmail_core::caller::Scope;

/// Who may call a route.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Any client, without a credential.
    Public,
    /// Web sessions only.
    Session,
    /// Web sessions and API tokens with the scope. With `oauth` also OAuth access tokens.
    Scoped {
        /// The scope that a token needs.
        scope: Scope,
        /// Whether OAuth access tokens are accepted.
        oauth: bool,
    },
    /// OAuth access tokens only.
    OAuth,
    /// Web sessions of administrators. Only for the host's own routes: a module cannot request it.
    Admin,
}

impl fmt::Display for Access {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Public => f.write_str("any client"),
            Self::Session => f.write_str("web sessions"),
            Self::Scoped {
                scope,
                oauth: false,
            } => write!(f, "web sessions and tokens with {scope}"),
            Self::Scoped { scope, oauth: true } => {
                write!(f, "web sessions, tokens with {scope} and OAuth tokens")
            }
            Self::OAuth => f.write_str("OAuth tokens"),
            Self::Admin => f.write_str("administrators"),
        }
    }
}

/// How a module receives the body of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BodyForm {
    /// As bytes, copied into the sandbox.
    Bytes,
    /// As a blob.
    Blob,
}

/// One route.
#[derive(Clone, Debug)]
pub struct Route {
    /// The method.
    pub method: Method,
    /// The path, with named segments: `/api/v1/mail/messages/{uid}`.
    pub path: String,
    /// The id of the operation.
    pub operation: String,
    /// Who may call it.
    pub access: Access,
    /// The rate-limit bucket, a key of `[limits]`. If empty, the route has no rate limit.
    pub area: String,
    /// The maximum size of a request body, in bytes.
    pub max_body: usize,
    /// The form of the body.
    pub body: BodyForm,
    /// JSON pointers of fields that are passed as blobs.
    pub blob_fields: Vec<String>,
    /// The maximum duration of a call.
    pub deadline: Duration,
}

/// The checked manifest of a module.
#[derive(Clone, Debug)]
pub struct Manifest {
    /// The name.
    pub name: String,
    /// The version.
    pub version: String,
    /// The routes.
    pub routes: Vec<Route>,
    /// The module's part of the API description: an object with `paths` and `components`.
    pub description: serde_json::Value,
}
