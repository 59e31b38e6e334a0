//! Who is asking: the value that `auth` makes of a request's credential and that every room below reads.
//! It decides nothing; it carries what was decided.

use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;

use secrecy::SecretString;
use tokio::time::Instant;

use crate::teams::rights::Grants;

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

    /// Whether an OAuth access token reaches what it opens (specification, section 5). Where the operator lets agents send, it reaches that too.
    #[must_use]
    pub const fn opens_to_oauth(self, send: bool) -> bool {
        match self {
            Self::MailRead | Self::MailWrite | Self::AliasesRead => true,
            Self::MailSend => send,
            Self::AliasesWrite | Self::ProfileRead => false,
        }
    }

    /// Whether what it opens can be done in a mailbox that is shared with the caller.
    #[must_use]
    pub const fn opens_shared(self) -> bool {
        !matches!(self, Self::ProfileRead)
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
        /// What it is for.
        audience: Audience,
        /// The scopes it holds, in canonical order.
        scopes: Vec<Scope>,
    },
}

/// What an OAuth access token is for (RFC 8707).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Audience {
    /// The whole service, the agent endpoint included.
    Service,
    /// The API alone.
    Api,
}

/// What the mail server is shown on the caller's behalf.
#[derive(Clone, Debug)]
pub struct MailCredential {
    /// The app password's id, or the access token's hash: connections are pooled by it and closed when what it names is revoked.
    pub id: String,
    /// The log-in name: the account's address.
    pub username: String,
    /// What proves it.
    pub proof: Proof,
}

/// What proves to the mail server that somebody may log in.
#[derive(Clone, Debug)]
pub enum Proof {
    /// An app password of the directory's.
    AppPassword(SecretString),
    /// An access token of an authorization server elsewhere, which the mail server asks about itself (RFC 7628).
    AccessToken {
        /// The token.
        token: SecretString,
        /// When it ends, where that is known: no connection is kept longer.
        until: Option<Instant>,
    },
}

impl MailCredential {
    /// The app password that has this id.
    #[must_use]
    pub fn app_password(id: String, username: String, password: SecretString) -> Self {
        Self {
            id,
            username,
            proof: Proof::AppPassword(password),
        }
    }

    /// The id of the app password, where it is one: what the directory knows it by.
    #[must_use]
    pub fn app_password_id(&self) -> Option<&str> {
        match self.proof {
            Proof::AppPassword(_) => Some(&self.id),
            Proof::AccessToken { .. } => None,
        }
    }

    /// When it ends, where that is known beforehand.
    #[must_use]
    pub(crate) fn until(&self) -> Option<Instant> {
        match self.proof {
            Proof::AppPassword(_) => None,
            Proof::AccessToken { until, .. } => until,
        }
    }
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
    /// The mailbox of somebody else that it acts in; none where it acts in its own.
    pub shared: Option<Box<Shared>>,
}

/// A mailbox that its owner shares with the caller.
#[derive(Clone, Debug)]
pub struct Shared {
    /// The owner's account: the mailbox's id.
    pub account: String,
    /// What acts for guests at the mail server.
    pub mail: MailCredential,
    /// What the caller was granted, as it stood when the request was let in.
    pub grants: Arc<Grants>,
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
    /// The same at the agent endpoint, where alone an OAuth token may make an alias (specification, section 4.9).
    #[must_use]
    pub fn at_agent_endpoint(mut self) -> Self {
        if let Credential::OAuth { scopes, .. } = &mut self.credential
            && !scopes.contains(&Scope::AliasesWrite)
        {
            scopes.push(Scope::AliasesWrite);
            scopes.sort_unstable();
        }
        self
    }

    /// Whether the caller's credential reaches what `scope` opens. A session reaches all of it.
    #[must_use]
    pub fn holds(&self, scope: Scope) -> bool {
        match &self.credential {
            Credential::Session { .. } => true,
            Credential::ApiToken { scopes, .. } | Credential::OAuth { scopes, .. } => {
                scopes.contains(&scope)
            }
        }
    }
}
