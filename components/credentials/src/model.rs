//! Credentials as JSON (specification, section 2).

use latchmail_sdk::capability::{self, CredentialKind};
use latchmail_sdk::scope;
use latchmail_sdk::time::iso8601;
use serde::Serialize;
use utoipa::ToSchema;

/// A personal API token.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Token {
    /// Opaque.
    id: String,
    /// What it is called.
    label: String,
    /// What it may do: `mail:read`, `mail:send`, `mail:write`, `aliases:read`, `aliases:write`, `profile:read`, in this order.
    scopes: Vec<&'static str>,
    /// The token's last four characters.
    hint: String,
    /// When it was made.
    #[schema(format = DateTime)]
    created_at: String,
    /// When it was last used, to the minute; `null` where it never was.
    #[schema(format = DateTime)]
    last_used_at: Option<String>,
    /// When it stops or stopped working; `null` where it does not expire.
    #[schema(format = DateTime)]
    expires_at: Option<String>,
}

impl From<capability::Token> for Token {
    fn from(token: capability::Token) -> Self {
        Self {
            id: token.id,
            label: token.label,
            scopes: token.scopes.into_iter().map(scope::name).collect(),
            hint: token.hint,
            created_at: iso8601(token.created_at),
            last_used_at: token.last_used_at.map(iso8601),
            expires_at: token.expires_at.map(iso8601),
        }
    }
}

/// Something that can reach the account.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Credential {
    /// An API token's own id; of anything else the id of its app password.
    id: String,
    /// `api_token`, `web_session` or `app_password`.
    r#type: &'static str,
    /// What it is called.
    label: String,
    /// When it was made.
    #[schema(format = DateTime)]
    created_at: String,
    /// When it was last used, to the minute; `null` where it never was.
    #[schema(format = DateTime)]
    last_used_at: Option<String>,
    /// When it stops or stopped working; `null` where it does not expire.
    #[schema(format = DateTime)]
    expires_at: Option<String>,
    /// Whether it is the web session of this very request.
    current: bool,
    /// What an API token may do; absent for anything else.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    scopes: Option<Vec<&'static str>>,
}

impl From<&capability::Credential> for Credential {
    fn from(credential: &capability::Credential) -> Self {
        let (id, r#type, scopes) = match &credential.kind {
            CredentialKind::ApiToken(token) => {
                let scopes = token.scopes.iter().copied().map(scope::name).collect();
                (&token.id, "api_token", Some(scopes))
            }
            CredentialKind::WebSession => (&credential.id, "web_session", None),
            CredentialKind::AppPassword => (&credential.id, "app_password", None),
        };
        Self {
            id: id.clone(),
            r#type,
            label: credential.label.clone(),
            created_at: iso8601(credential.created_at),
            last_used_at: credential.last_used_at.map(iso8601),
            expires_at: credential.expires_at.map(iso8601),
            current: credential.current,
            scopes,
        }
    }
}

/// An app password in the older, narrower view.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Session {
    /// The app password's id.
    id: String,
    /// What it is called.
    description: String,
    /// When it was made.
    #[schema(format = DateTime)]
    created_at: String,
    /// When it stops or stopped working; `null` where it does not expire.
    #[schema(format = DateTime)]
    expires_at: Option<String>,
    /// Whether this very request's web session runs on it.
    current: bool,
}

impl From<&capability::Credential> for Session {
    fn from(credential: &capability::Credential) -> Self {
        Self {
            id: credential.id.clone(),
            description: credential.label.clone(),
            created_at: iso8601(credential.created_at),
            expires_at: credential.expires_at.map(iso8601),
            current: credential.current,
        }
    }
}
