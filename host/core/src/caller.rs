//! The authenticated caller of a request. The authentication module creates the caller from the
//! request's credential. This module makes no access decisions.

use std::net::IpAddr;
use std::sync::Arc;

use latchmail_shape::named;
use secrecy::SecretString;
use tokio::time::Instant;

use crate::permissions::Grants;
use crate::policy::{ActingGrant, Policy};

named! {
    /// A permission of a credential. The variants are in canonical order. Their names are those in
    /// requests and responses.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
    pub enum Scope {
        /// `mail:read`
        MailRead = "mail:read",
        /// `mail:send`
        MailSend = "mail:send",
        /// `mail:write`
        MailWrite = "mail:write",
        /// `aliases:read`
        AliasesRead = "aliases:read",
        /// `aliases:write`
        AliasesWrite = "aliases:write",
        /// `profile:read`
        ProfileRead = "profile:read",
    }
}

impl Scope {
    /// Joins the names of `scopes` with spaces (RFC 6749, section 3.3).
    #[must_use]
    pub fn list(scopes: &[Self]) -> String {
        let names: Vec<&str> = scopes.iter().map(|scope| scope.name()).collect();
        names.join(" ")
    }

    /// Parses a list of scope names, separated by spaces. Returns the scopes in canonical order and
    /// without duplicates. Ignores unknown names.
    #[must_use]
    pub fn read_list(list: &str) -> Vec<Self> {
        let listed = |scope: &Self| list.split(' ').any(|name| name == scope.name());
        Self::ALL.into_iter().filter(listed).collect()
    }

    /// Returns `true` if OAuth access tokens can have this scope. `send` is `true` if the operator
    /// allows `mail:send` for OAuth access tokens. `aliases:write` is valid only at the agent
    /// endpoint.
    #[must_use]
    pub const fn allowed_for_oauth(self, send: bool) -> bool {
        match self {
            Self::MailRead | Self::MailWrite | Self::AliasesRead | Self::AliasesWrite => true,
            Self::MailSend => send,
            Self::ProfileRead => false,
        }
    }

    /// Returns `true` if a member can use this scope in a shared mailbox.
    #[must_use]
    pub const fn allowed_in_shared_mailbox(self) -> bool {
        !matches!(self, Self::ProfileRead)
    }

    /// Returns `true` if app passwords have this scope.
    #[must_use]
    pub const fn allowed_for_app_passwords(self) -> bool {
        matches!(self, Self::MailRead | Self::MailSend | Self::MailWrite)
    }

    /// Returns the text that the OpenAPI document contains for this scope.
    #[must_use]
    pub const fn description(self) -> &'static str {
        match self {
            Self::MailRead => "List folders and messages, read, search and download",
            Self::MailSend => "Send mail",
            Self::MailWrite => "Flag, move and delete messages",
            Self::AliasesRead => "List aliases and the domains they may use",
            Self::AliasesWrite => "Create, enable, disable and delete aliases",
            Self::ProfileRead => "Read the account's profile",
        }
    }
}

named! {
    /// A permission of an operator token. The variants are in canonical order. No scope gives
    /// access to mail.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
    pub enum OperatorScope {
        /// `accounts:read`
        AccountsRead = "accounts:read",
        /// `accounts:write`
        AccountsWrite = "accounts:write",
        /// `domains:read`
        DomainsRead = "domains:read",
        /// `domains:write`
        DomainsWrite = "domains:write",
        /// `aliases:read`
        AliasesRead = "aliases:read",
        /// `aliases:write`
        AliasesWrite = "aliases:write",
        /// `modules:read`
        ModulesRead = "modules:read",
        /// `modules:write`
        ModulesWrite = "modules:write",
        /// `grants:read`
        GrantsRead = "grants:read",
        /// `grants:write`
        GrantsWrite = "grants:write",
        /// `scim`
        Scim = "scim",
    }
}

impl OperatorScope {
    /// Joins the names of `scopes` with spaces.
    #[must_use]
    pub fn list(scopes: &[Self]) -> String {
        let names: Vec<&str> = scopes.iter().map(|scope| scope.name()).collect();
        names.join(" ")
    }

    /// Parses a list of scope names, separated by spaces. Returns the scopes in canonical order and
    /// without duplicates. Ignores unknown names.
    #[must_use]
    pub fn read_list(list: &str) -> Vec<Self> {
        let listed = |scope: &Self| list.split(' ').any(|name| name == scope.name());
        Self::ALL.into_iter().filter(listed).collect()
    }
}

/// The error text for a request with an API or OAuth token on a route that requires a web session.
pub const SESSION_ONLY: &str =
    "This endpoint is only available to a signed-in session, not to API or OAuth tokens";

/// Returns the error text for a token without the required scope.
#[must_use]
pub fn missing(scope: Scope) -> String {
    missing_scope(scope.name())
}

/// Returns the error text for a token without the scope with this name.
#[must_use]
pub fn missing_scope(name: &str) -> String {
    format!("This credential is missing the \"{name}\" scope")
}

/// The credential of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Credential {
    /// A web session, which permits all actions of the account.
    Session {
        /// The session's id. The session's tokens contain the id as `sid`.
        sid: String,
    },
    /// A personal API token.
    ApiToken {
        /// The token's id.
        id: String,
        /// The token's scopes, in canonical order.
        scopes: Vec<Scope>,
    },
    /// An OAuth access token.
    OAuth {
        /// The grant's id.
        id: String,
        /// The part of the service for which the token was issued.
        audience: Audience,
        /// The token's scopes, in canonical order.
        scopes: Vec<Scope>,
    },
    /// An app password of a mail client, which has the scopes of mail.
    AppPassword {
        /// The app password's id.
        id: String,
    },
    /// A handler of a module, which acts for the owner of the mailbox without a request.
    Handler {
        /// The name of the module.
        module: String,
        /// The scopes that the operator granted, in canonical order.
        scopes: Vec<Scope>,
    },
    /// An operator token, which belongs to no account. It has no scope of a mailbox.
    Operator {
        /// The token's id.
        id: String,
        /// The token's scopes, in canonical order.
        scopes: Vec<OperatorScope>,
    },
}

/// The audience of an OAuth access token (RFC 8707).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Audience {
    /// The whole service, including the agent endpoint.
    Service,
    /// Only the API, without the agent endpoint.
    Api,
}

/// The credential with which the service logs in to the mail server.
#[derive(Clone, Debug)]
pub struct MailCredential {
    /// The id of the app password, or the hash of the access token. Connections to the mail server
    /// are pooled by this id. The connections are closed when the credential is revoked.
    pub id: String,
    /// The account's address, which is the log-in name.
    pub username: String,
    /// The secret.
    pub proof: Proof,
}

/// The secret that the mail server checks at log-in.
#[derive(Clone, Debug)]
pub enum Proof {
    /// An app password from the directory.
    AppPassword(SecretString),
    /// An access token of an external authorization server. The mail server validates the token
    /// (RFC 7628).
    AccessToken {
        /// The token.
        token: SecretString,
        /// The time at which the token expires, or `None` if the time is unknown. Connections are
        /// not reused after this time.
        until: Option<Instant>,
    },
}

impl MailCredential {
    /// Creates the credential of an app password.
    #[must_use]
    pub fn app_password(id: String, username: String, password: SecretString) -> Self {
        Self {
            id,
            username,
            proof: Proof::AppPassword(password),
        }
    }

    /// Returns the id of the app password, or `None` for an access token.
    #[must_use]
    pub fn app_password_id(&self) -> Option<&str> {
        match self.proof {
            Proof::AppPassword(_) => Some(&self.id),
            Proof::AccessToken { .. } => None,
        }
    }

    /// Returns the time at which an access token expires. Returns `None` for an app password, or if
    /// the time is unknown.
    #[must_use]
    pub fn until(&self) -> Option<Instant> {
        match self.proof {
            Proof::AppPassword(_) => None,
            Proof::AccessToken { until, .. } => until,
        }
    }
}

/// The caller of an authenticated request.
#[derive(Clone, Debug)]
pub struct Caller {
    /// The account's opaque id. For an operator token, the id of the token.
    pub account: String,
    /// The account's address, in lower case. For an operator token, the name of the actor in the
    /// audit log.
    pub address: String,
    /// `true` if the account is an administrator.
    pub admin: bool,
    /// The credential of the request.
    pub credential: Credential,
    /// The credential with which the service logs in to the caller's own mailbox.
    pub mail: MailCredential,
    /// The API token or the OAuth grant of the request, with its policy. `None` for other
    /// credentials, and for tokens of an external authorization server.
    pub grant: Option<Arc<ActingGrant>>,
    /// The shared mailbox that the caller uses, or `None` for the caller's own mailbox.
    pub shared: Option<Box<Shared>>,
}

/// A mailbox that its owner shares with the caller.
#[derive(Clone, Debug)]
pub struct Shared {
    /// The id of the owner's account. The mailbox has the same id.
    pub account: String,
    /// The credential with which the service logs in to this mailbox.
    pub mail: MailCredential,
    /// The caller's grants in this mailbox at the time of authentication.
    pub grants: Arc<Grants>,
}

/// The origin of an action, for the audit log.
#[derive(Clone, Debug, Default)]
pub struct Origin {
    /// The address of the caller's account, the word `operator` or `service`, `module NAME` for a
    /// handler of a module, or `operator token NAME`. The string is empty if the client is not
    /// authenticated.
    pub actor: String,
    /// The [`MailCredential::id`] of the actor, or `None` if the actor has no credential.
    pub credential: Option<String>,
    /// The client's IP address.
    pub client: Option<IpAddr>,
    /// The request's id.
    pub request: Option<String>,
    /// The client's `User-Agent` header.
    pub user_agent: Option<String>,
}

impl Origin {
    /// Creates the origin of a request. `caller` is `None` if the client is not authenticated.
    #[must_use]
    pub fn new(
        request: &str,
        client: IpAddr,
        caller: Option<&Caller>,
        user_agent: Option<&str>,
    ) -> Self {
        Self {
            actor: caller
                .map(|caller| caller.address.clone())
                .unwrap_or_default(),
            credential: caller.map(|caller| caller.mail.id.clone()),
            client: Some(client),
            request: Some(request.to_owned()),
            user_agent: user_agent.map(ToOwned::to_owned),
        }
    }

    /// Returns the origin of a call of a handler. `call` is the id of the call, in place of a
    /// request's id.
    #[must_use]
    pub fn handler(module: &str, call: &str, caller: &Caller) -> Self {
        Self {
            actor: format!("module {module}"),
            credential: Some(caller.mail.id.clone()),
            request: Some(call.to_owned()),
            ..Self::default()
        }
    }

    /// Returns the origin of the service's own actions.
    #[must_use]
    pub fn service() -> Self {
        Self {
            actor: "service".into(),
            ..Self::default()
        }
    }

    /// Returns the origin of actions that the operator starts at the command line.
    #[must_use]
    pub fn operator() -> Self {
        Self {
            actor: "operator".into(),
            ..Self::default()
        }
    }
}

impl Caller {
    /// Removes the scope `aliases:write` if the credential is an OAuth token. The agent endpoint is
    /// the only endpoint where OAuth tokens can create aliases.
    #[must_use]
    pub fn outside_agent_endpoint(mut self) -> Self {
        if let Credential::OAuth { scopes, .. } = &mut self.credential {
            scopes.retain(|scope| *scope != Scope::AliasesWrite);
        }
        self
    }

    /// Returns the policy of the caller's grant. Returns `None` if nothing but the scopes limits
    /// the caller.
    #[must_use]
    pub fn policy(&self) -> Option<&Policy> {
        self.grant.as_ref()?.policy.as_ref()
    }

    /// Returns `true` if a person sends with the credential: with a session or with a mail client.
    #[must_use]
    pub fn is_person(&self) -> bool {
        matches!(
            self.credential,
            Credential::Session { .. } | Credential::AppPassword { .. }
        )
    }

    /// Removes the scope `mail:send` if the credential is an OAuth token and the operator does not
    /// allow agents to send mail. The client for the command line can have the scope anyway, and
    /// another program could use its token at the agent endpoint.
    #[must_use]
    pub fn at_agent_endpoint(mut self, agents_send: bool) -> Self {
        if let Credential::OAuth { scopes, .. } = &mut self.credential
            && !agents_send
        {
            scopes.retain(|scope| *scope != Scope::MailSend);
        }
        self
    }

    /// Returns `true` if the caller's credential has `scope`. A session has every scope.
    #[must_use]
    pub fn holds(&self, scope: Scope) -> bool {
        match &self.credential {
            Credential::Session { .. } => true,
            Credential::ApiToken { scopes, .. }
            | Credential::OAuth { scopes, .. }
            | Credential::Handler { scopes, .. } => scopes.contains(&scope),
            Credential::AppPassword { .. } => scope.allowed_for_app_passwords(),
            Credential::Operator { .. } => false,
        }
    }

    /// Returns `true` if the caller has an operator token with `scope`.
    #[must_use]
    pub fn operates(&self, scope: OperatorScope) -> bool {
        matches!(&self.credential, Credential::Operator { scopes, .. } if scopes.contains(&scope))
    }
}
