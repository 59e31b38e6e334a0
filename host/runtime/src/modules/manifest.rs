//! The checked manifest of a module, in types of the host. The routes of the host have the same
//! types, so that one router and one API description can contain all routes.

use std::fmt;
use std::time::Duration;

use http::Method;
use latchmail_core::caller::{OperatorScope, Scope};
use serde_json::json;

use super::handlers::Subscriptions;

/// The callers that a route accepts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Any client, without a credential.
    Public,
    /// Web sessions only.
    Session,
    /// Web sessions, and API tokens with the scope. If `oauth` is true, also OAuth access tokens
    /// with the scope.
    Scoped {
        /// The scope that a token needs.
        scope: Scope,
        /// Whether OAuth access tokens are accepted.
        oauth: bool,
    },
    /// OAuth access tokens only.
    OAuth,
    /// Web sessions of administrators. Only the host's own routes can have this access.
    Admin,
    /// Operator tokens with this scope. Only the host's own routes can have this access.
    Operator(OperatorScope),
    /// Any other combination of credentials.
    Any(Accepts),
}

/// The credentials that a route accepts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Accepts {
    /// Whether web sessions are accepted.
    pub session: bool,
    /// Whether API tokens are accepted.
    pub api_token: Requirement,
    /// Whether OAuth access tokens are accepted.
    pub oauth: Requirement,
    /// Whether app passwords are accepted.
    pub app_password: Requirement,
}

/// The requirement for one kind of credential.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Requirement {
    /// The credential is not accepted.
    Refused,
    /// The credential is accepted with any scopes.
    AnyScope,
    /// The credential needs this scope.
    Scope(Scope),
}

impl Requirement {
    /// Returns the required scope, or `None` if no particular scope is required.
    #[must_use]
    pub const fn scope(self) -> Option<Scope> {
        match self {
            Self::Scope(scope) => Some(scope),
            Self::Refused | Self::AnyScope => None,
        }
    }
}

impl From<Accepts> for Access {
    fn from(accepts: Accepts) -> Self {
        use Requirement::{Refused, Scope};
        let Accepts {
            session,
            api_token,
            oauth,
            app_password,
        } = accepts;
        match (session, api_token, oauth, app_password) {
            (true, Refused, Refused, Refused) => Self::Session,
            (true, Scope(scope), Refused, Refused) => Self::Scoped {
                scope,
                oauth: false,
            },
            (true, Scope(scope), Scope(other), Refused) if scope == other => {
                Self::Scoped { scope, oauth: true }
            }
            _ => Self::Any(accepts),
        }
    }
}

impl fmt::Display for Accepts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut parts = Vec::new();
        if self.session {
            parts.push("web sessions".to_owned());
        }
        for (name, requirement) in [
            ("API tokens", self.api_token),
            ("OAuth tokens", self.oauth),
            ("app passwords", self.app_password),
        ] {
            match requirement {
                Requirement::Refused => {}
                Requirement::AnyScope => parts.push(format!("all {name}")),
                Requirement::Scope(scope) => parts.push(format!("{name} with {scope}")),
            }
        }
        f.write_str(&parts.join(", "))
    }
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
            Self::Operator(scope) => write!(f, "operator tokens with {scope}"),
            Self::Any(accepts) => accepts.fmt(f),
        }
    }
}

/// How a module receives the body of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BodyForm {
    /// The body is copied into the sandbox as bytes.
    Bytes,
    /// The module receives a handle of a blob. The bytes stay in the host.
    Blob,
}

/// One route of a module or of the host.
#[derive(Clone, Debug)]
pub struct Route {
    /// The method.
    pub method: Method,
    /// The path, with named segments: `/api/v1/mail/messages/{uid}`.
    pub path: String,
    /// The operation id in the API description.
    pub operation: String,
    /// The callers that the route accepts.
    pub access: Access,
    /// The rate-limit bucket, which is a key of `[limits]`. If the string is empty, the route has
    /// no rate limit.
    pub bucket: String,
    /// The maximum size of a request body, in bytes.
    pub max_body: usize,
    /// How the module receives the body.
    pub body: BodyForm,
    /// The JSON pointers of the fields that the module receives as blobs.
    pub blob_fields: Vec<String>,
    /// The maximum duration of a call of the route.
    pub deadline: Duration,
    /// Whether errors are HTML pages instead of JSON. Only routes of the host can be pages.
    pub is_page: bool,
    /// Whether the handler verifies a credential in the body. Before the body is read, such a
    /// request counts as a failed attempt of its client. The attempt no longer counts after the
    /// handler calls [`super::Request::set_verified`]. Only routes of the host can have this
    /// property.
    pub verifies_body: bool,
}

/// The checked manifest of a module, and its handlers.
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
    /// The events and the timers that the module handles. `None` if it has no handlers.
    pub handlers: Option<Subscriptions>,
}

impl Manifest {
    /// Creates the manifest of a component that does not export `module`. Such a component has no
    /// version, and gets its name at the installation.
    pub(super) fn unnamed(handlers: Option<Subscriptions>) -> Self {
        Self {
            name: String::new(),
            version: "0.0.0".into(),
            routes: Vec::new(),
            description: json!({ "paths": {}, "components": {} }),
            handlers,
        }
    }
}
