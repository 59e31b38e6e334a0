//! `latchmail:host/caller`: the caller of a request.

use latchmail_shape::{API_TOKEN, APP_PASSWORD, OAUTH, SESSION};

use super::{Host, Scope};
use crate::bindings::latchmail::host::caller;
pub use crate::bindings::latchmail::host::caller::Identity;
use crate::scope;

/// The kind of a caller without a credential.
pub(crate) const ANONYMOUS: &str = "anonymous";

/// The kind of a credential. In the contract, a kind is a string.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// There is no credential, because the route is public.
    Anonymous,
    /// A web session, which has all rights of the account's owner, or a handler with the scopes
    /// that the operator granted ([`Caller::is_handler`]).
    Session,
    /// A personal API token.
    ApiToken,
    /// An OAuth access token.
    Oauth,
    /// An app password, with which mail clients sign in.
    AppPassword,
    /// A kind of a later host. Such a credential has only the rights of its scopes.
    Other,
}

impl Kind {
    /// Returns the kind with this name in the contract.
    #[must_use]
    pub fn of(name: &str) -> Self {
        match name {
            ANONYMOUS => Self::Anonymous,
            SESSION => Self::Session,
            API_TOKEN => Self::ApiToken,
            OAUTH => Self::Oauth,
            APP_PASSWORD => Self::AppPassword,
            _ => Self::Other,
        }
    }

    /// Returns the name of the kind in the contract. Returns `other` for [`Kind::Other`].
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Anonymous => ANONYMOUS,
            Self::Session => SESSION,
            Self::ApiToken => API_TOKEN,
            Self::Oauth => OAUTH,
            Self::AppPassword => APP_PASSWORD,
            Self::Other => "other",
        }
    }
}

impl Identity {
    /// Returns the kind of the caller's credential.
    #[must_use]
    pub fn kind(&self) -> Kind {
        Kind::of(&self.kind)
    }

    /// Returns `true` if the caller's credential has this scope.
    #[must_use]
    pub fn holds(&self, scope: Scope) -> bool {
        let name = scope::name(scope);
        self.scopes.iter().any(|held| held == name)
    }
}

/// The caller of the current request or of the current call of a handler.
pub trait Caller {
    /// Returns the caller of the current request. For a handler, the caller is the owner of the
    /// mailbox, with the kind [`Kind::Session`] and the scopes that the operator granted.
    fn current(&self) -> Identity;

    /// Returns whether the scopes and the policy of the credential allow an action at all.
    /// `wit/caller.wit` lists the actions. The default implementation returns `true`.
    fn allows(&self, _action: &str) -> bool {
        true
    }

    /// Returns whether this is a call of a handler. The default implementation returns `false`.
    fn is_handler(&self) -> bool {
        false
    }

    /// Passes the two-factor code of the request to the host. The host checks the code when the
    /// handler calls a function that has a password argument. The default implementation does
    /// nothing.
    fn present_code(&self, _code: &str) {}
}

impl Caller for Host {
    fn current(&self) -> Identity {
        caller::current()
    }

    fn allows(&self, action: &str) -> bool {
        caller::allows(action)
    }

    fn is_handler(&self) -> bool {
        caller::is_handler()
    }

    fn present_code(&self, code: &str) {
        caller::present_code(code);
    }
}
