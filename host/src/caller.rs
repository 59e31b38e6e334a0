//! Who is asking: the value that `auth` makes of a request's credential and that every room below reads.
//! It decides nothing; it carries what was decided.

use std::fmt;
use std::net::IpAddr;

use secrecy::SecretString;

/// What a credential may be allowed to do (specification, section 5), in canonical order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Scope {
    /// `mail:read`
    MailRead,
    /// `mail:send`
    MailSend,
    /// `mail:write`
    MailWrite,
    /// `aliases:read`
    AliasesRead,
    /// `aliases:write`
    AliasesWrite,
    /// `profile:read`
    ProfileRead,
}

impl Scope {
    /// All scopes, in canonical order.
    pub const ALL: [Self; 6] = [
        Self::MailRead,
        Self::MailSend,
        Self::MailWrite,
        Self::AliasesRead,
        Self::AliasesWrite,
        Self::ProfileRead,
    ];

    /// Its name on the wire.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::MailRead => "mail:read",
            Self::MailSend => "mail:send",
            Self::MailWrite => "mail:write",
            Self::AliasesRead => "aliases:read",
            Self::AliasesWrite => "aliases:write",
            Self::ProfileRead => "profile:read",
        }
    }

    /// Whether an OAuth access token reaches what it opens (specification, section 5).
    #[must_use]
    pub const fn opens_to_oauth(self) -> bool {
        matches!(self, Self::MailRead | Self::MailWrite | Self::AliasesRead)
    }

    /// What it lets a token do, for the API description.
    #[must_use]
    pub const fn description(self) -> &'static str {
        match self {
            Self::MailRead => "List folders and messages, read, search and download",
            Self::MailSend => "Send mail",
            Self::MailWrite => "Flag, move and delete messages",
            Self::AliasesRead => "List aliases and the domains they may use",
            Self::AliasesWrite => "Create, switch and delete aliases",
            Self::ProfileRead => "Read the account's profile",
        }
    }
}

impl fmt::Display for Scope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// What an API or OAuth token is told where a web session is needed (specification, section 7).
pub const SESSION_ONLY: &str =
    "This endpoint is only available to a signed-in session, not to API or OAuth tokens";

/// What a token is told that lacks a scope (specification, section 7).
#[must_use]
pub fn missing(scope: Scope) -> String {
    format!("This credential is missing the \"{scope}\" scope")
}

/// The kind of credential that a request came with, and which one it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Credential {
    /// A web session. It carries no scopes: it reaches what its owner may reach.
    Session {
        /// The session's id, the `sid` of its tokens.
        sid: String,
    },
    /// A personal API token.
    ApiToken {
        /// The token's id.
        id: String,
        /// The scopes it holds, in canonical order.
        scopes: Vec<Scope>,
    },
    /// An OAuth access token.
    OAuth {
        /// The grant's id.
        id: String,
    },
}

/// What the mail server is shown on the caller's behalf.
#[derive(Clone, Debug)]
pub struct MailCredential {
    /// The app password's id: connections are pooled by it and closed when it is revoked.
    pub id: String,
    /// The log-in name: the account's address.
    pub username: String,
    /// The app password itself.
    pub password: SecretString,
}

/// Whoever made an authenticated request.
#[derive(Clone, Debug)]
pub struct Caller {
    /// The account's opaque id.
    pub account: String,
    /// The account's address, lower case.
    pub address: String,
    /// Whether the account is an administrator's.
    pub admin: bool,
    /// The credential presented.
    pub credential: Credential,
    /// What acts for it at the mail server.
    pub mail: MailCredential,
}

/// Where something comes from, for the record of security events.
#[derive(Clone, Debug, Default)]
pub struct Origin {
    /// Who acts: the address of the caller's account, `operator` or `service`; empty for a stranger.
    pub actor: String,
    /// The id of the credential that the actor came with: an app password's, for each credential has one.
    pub credential: Option<String>,
    /// The client's address.
    pub client: Option<IpAddr>,
    /// The request's id.
    pub request: Option<String>,
    /// What the client calls itself.
    pub user_agent: Option<String>,
}

impl Origin {
    /// A request of this id from a client, on behalf of its caller where it has one.
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

    /// The service, of its own accord.
    #[must_use]
    pub fn service() -> Self {
        Self {
            actor: "service".into(),
            ..Self::default()
        }
    }

    /// The operator, at the command line.
    #[must_use]
    pub fn operator() -> Self {
        Self {
            actor: "operator".into(),
            ..Self::default()
        }
    }
}

impl Caller {
    /// Whether the caller's credential reaches what `scope` opens. A session reaches all of it; an OAuth token reaches
    /// `mail:read`, `mail:write` and `aliases:read` (specification, section 5).
    #[must_use]
    pub fn holds(&self, scope: Scope) -> bool {
        match &self.credential {
            Credential::Session { .. } => true,
            Credential::ApiToken { scopes, .. } => scopes.contains(&scope),
            Credential::OAuth { .. } => scope.opens_to_oauth(),
        }
    }
}
