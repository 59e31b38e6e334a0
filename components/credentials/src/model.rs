//! JSON types of credentials.

use latchmail_sdk::capability::{self, Kind};
use latchmail_sdk::time::iso8601;
use serde::Serialize;
use utoipa::ToSchema;

/// A scope of API tokens. The scopes are in canonical order.
#[derive(ToSchema)]
#[expect(dead_code, reason = "used only for the API description")]
pub(crate) enum TokenScope {
    #[serde(rename = "mail:read")]
    MailRead,
    #[serde(rename = "mail:send")]
    MailSend,
    #[serde(rename = "mail:write")]
    MailWrite,
    #[serde(rename = "aliases:read")]
    AliasesRead,
    #[serde(rename = "aliases:write")]
    AliasesWrite,
    #[serde(rename = "profile:read")]
    ProfileRead,
}

/// Kind of a credential.
#[derive(ToSchema)]
#[serde(rename_all = "snake_case")]
#[expect(dead_code, reason = "used only for the API description")]
pub(crate) enum CredentialType {
    ApiToken,
    WebSession,
    AppPassword,
}

/// A personal API token.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Token {
    /// Opaque id of the token.
    id: String,
    /// Label of the token.
    label: String,
    /// Scopes of the token, in canonical order.
    #[schema(value_type = Vec<TokenScope>)]
    scopes: Vec<String>,
    /// Last four characters of the token.
    hint: String,
    /// Time of creation.
    #[schema(format = DateTime)]
    created_at: String,
    /// Time of the last use, to the minute; `null` if the token was never used.
    #[schema(format = DateTime)]
    last_used_at: Option<String>,
    /// Time of expiry, which can be in the past. `null` if the token does not expire.
    #[schema(format = DateTime)]
    expires_at: Option<String>,
}

impl From<capability::Token> for Token {
    fn from(token: capability::Token) -> Self {
        Self {
            id: token.id,
            label: token.label,
            scopes: token.scopes,
            hint: token.hint,
            created_at: iso8601(token.created_at),
            last_used_at: token.last_used_at.map(iso8601),
            expires_at: token.expires_at.map(iso8601),
        }
    }
}

/// A credential of the account.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Credential {
    /// Id of the credential. For an API token, this is the id of the token. For a web session, this
    /// is the id of the session's app password.
    id: String,
    /// Kind of the credential.
    #[schema(value_type = CredentialType)]
    r#type: &'static str,
    /// Label of the credential.
    label: String,
    /// Time of creation.
    #[schema(format = DateTime)]
    created_at: String,
    /// Time of the last use, to the minute; `null` if the credential was never used.
    #[schema(format = DateTime)]
    last_used_at: Option<String>,
    /// Time of expiry, which can be in the past. `null` if the credential does not expire.
    #[schema(format = DateTime)]
    expires_at: Option<String>,
    /// Whether this credential is the web session of the request.
    current: bool,
    /// Scopes of an API token. Absent for other credentials.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false, value_type = Option<Vec<TokenScope>>)]
    scopes: Option<Vec<String>>,
}

impl From<&capability::Credential> for Credential {
    fn from(credential: &capability::Credential) -> Self {
        let (id, r#type, scopes) = match &credential.token {
            Some(token) => (&token.id, "api_token", Some(token.scopes.clone())),
            None if Kind::of(&credential.kind) == Kind::Session => {
                (&credential.id, "web_session", None)
            }
            None => (&credential.id, "app_password", None),
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

/// An app password in the older response format, which has fewer fields.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Session {
    /// Id of the app password.
    id: String,
    /// Label of the app password.
    description: String,
    /// Time of creation.
    #[schema(format = DateTime)]
    created_at: String,
    /// Time of expiry, which can be in the past. `null` if the app password does not expire.
    #[schema(format = DateTime)]
    expires_at: Option<String>,
    /// Whether the app password belongs to the web session of the request.
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
