//! What a module says of itself, as the host understands it: the WIT manifest, checked and in the host's own types.
//! The host's own routes are described in the same words, so that one router and one API description serve both.

use std::fmt;
use std::time::Duration;

use http::Method;

use crate::caller::Scope;

/// Who may call a route.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Anybody.
    Public,
    /// A signed-in web session only.
    Session,
    /// A web session or an API token with the scope; with `oauth` an OAuth access token too.
    Scoped {
        /// The scope a token needs.
        scope: Scope,
        /// Whether an OAuth access token may use it.
        oauth: bool,
    },
    /// An OAuth access token only.
    OAuth,
    /// A signed-in web session of an administrator's account. For the host's own routes: no module can ask for it.
    Admin,
}

impl fmt::Display for Access {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Public => f.write_str("anybody"),
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

/// In what form a request's body is handed over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BodyForm {
    /// Copied into the sandbox.
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
    /// The operation's id.
    pub operation: String,
    /// Who may call it.
    pub access: Access,
    /// The rate-limit area, a key of `[limits]`; empty: not limited.
    pub area: String,
    /// The largest body in bytes.
    pub max_body: usize,
    /// The form of the body.
    pub body: BodyForm,
    /// JSON pointers of fields handed over as blobs.
    pub blob_fields: Vec<String>,
    /// How long a call may take.
    pub deadline: Duration,
}

/// A module's word on itself.
#[derive(Clone, Debug)]
pub struct Manifest {
    /// Its name.
    pub name: String,
    /// Its version.
    pub version: String,
    /// Its routes.
    pub routes: Vec<Route>,
    /// Its part of the API description: an object with `paths` and `components`.
    pub description: serde_json::Value,
}
