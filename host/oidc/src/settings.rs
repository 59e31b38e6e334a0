//! Reads and validates the section `sign_in.oidc` of the configuration at startup.

use latchmail_core::config::OidcSignIn;
use latchmail_core::error::StartError;
use latchmail_core::secret_file;
use openidconnect::{ClientId, ClientSecret, IssuerUrl, Scope};

use crate::http_client::is_safe;

/// The validated configuration.
pub(crate) struct Settings {
    pub(crate) issuer: IssuerUrl,
    pub(crate) client_id: ClientId,
    /// `None` if the service is a public client.
    pub(crate) client_secret: Option<ClientSecret>,
    pub(crate) mailbox_claim: String,
    pub(crate) trust_missing_email_verified: bool,
    /// The requested scopes, without `openid`.
    pub(crate) scopes: Vec<Scope>,
}

impl Settings {
    pub(crate) fn read(config: &OidcSignIn) -> Result<Self, StartError> {
        let required = [
            ("issuer", &config.issuer),
            ("client_id", &config.client_id),
            ("mailbox_claim", &config.mailbox_claim),
        ];
        for (key, value) in required {
            if value.is_empty() {
                return Err(wrong(key, "is missing"));
            }
        }
        let issuer = IssuerUrl::new(config.issuer.clone())
            .ok()
            .filter(|issuer| is_safe(issuer.as_str()))
            .ok_or_else(|| {
                let why =
                    "must be an absolute https URL (http is allowed only for a loopback address)";
                wrong("issuer", why)
            })?;
        Ok(Self {
            issuer,
            client_id: ClientId::new(config.client_id.clone()),
            client_secret: client_secret(config)?,
            mailbox_claim: config.mailbox_claim.clone(),
            trust_missing_email_verified: config.trust_missing_email_verified,
            scopes: config
                .scopes
                .iter()
                .filter(|scope| *scope != "openid")
                .cloned()
                .map(Scope::new)
                .collect(),
        })
    }
}

fn client_secret(config: &OidcSignIn) -> Result<Option<ClientSecret>, StartError> {
    let key = "client_secret_file";
    if config.client_secret_file.as_os_str().is_empty() {
        return Ok(None);
    }
    let text = secret_file::read_text("the file", &config.client_secret_file)
        .map_err(|error| wrong(key, &format!("cannot be used: {error}")))?;
    let secret = text.trim_end_matches(['\r', '\n']);
    if secret.is_empty() || secret.contains(char::is_control) {
        return Err(wrong(key, "must contain the secret as one line"));
    }
    Ok(Some(ClientSecret::new(secret.to_owned())))
}

fn wrong(key: &str, why: &str) -> StartError {
    StartError::new(format!("`sign_in.oidc.{key}` {why}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(issuer: &str, client_id: &str) -> Result<Settings, String> {
        let config = OidcSignIn {
            issuer: issuer.into(),
            client_id: client_id.into(),
            ..OidcSignIn::default()
        };
        Settings::read(&config).map_err(|error| error.to_string())
    }

    #[test]
    fn the_issuer_must_use_tls_or_a_loopback_address() {
        for issuer in [
            "https://id.example.org",
            "https://10.0.0.1/realms/main",
            "http://127.0.0.1:3000",
            "http://[::1]:3000",
            "http://localhost:3000",
        ] {
            assert!(settings(issuer, "latchmail").is_ok(), "{issuer}");
        }
        for issuer in ["http://id.example.org", "id.example.org", "ftp://127.0.0.1"] {
            let error = settings(issuer, "latchmail").err().unwrap();
            assert!(error.contains("`sign_in.oidc.issuer`"), "{error}");
        }
    }

    #[test]
    fn missing_settings_are_named() {
        assert!(settings("", "latchmail").err().unwrap().contains("issuer"));
        let error = settings("https://id.example.org", "").err().unwrap();
        assert_eq!(error, "`sign_in.oidc.client_id` is missing");
    }

    #[test]
    fn the_scope_openid_is_implied() {
        let scopes = settings("https://id.example.org", "latchmail")
            .unwrap()
            .scopes;
        assert_eq!(scopes, [Scope::new("email".into())]);
    }
}
