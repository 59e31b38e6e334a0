//! The provider's metadata and keys (OpenID Connect Discovery 1.0). The service requests both when a sign-in begins, so that a sign-in does not begin while the
//! provider is unavailable. A sign-in ends with the metadata of the latest request.

use std::error::Error as StdError;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use openidconnect::core::{
    CoreAuthDisplay, CoreClaimName, CoreClaimType, CoreClientAuthMethod, CoreGrantType,
    CoreJsonWebKey, CoreJweContentEncryptionAlgorithm, CoreJweKeyManagementAlgorithm,
    CoreResponseMode, CoreResponseType, CoreSubjectIdentifierType,
};
use openidconnect::{AdditionalProviderMetadata, ProviderMetadata};
use serde::{Deserialize, Serialize};
use tokio::time::Instant;

use crate::{Error, Provider};

/// The minimum interval between two requests for new keys because of an unknown key. Any client can send a token that names an unknown key.
const MIN_REFRESH_INTERVAL: Duration = Duration::from_secs(5);

/// The provider's metadata and keys.
pub(crate) type Metadata = ProviderMetadata<
    AdditionalMetadata,
    CoreAuthDisplay,
    CoreClientAuthMethod,
    CoreClaimName,
    CoreClaimType,
    CoreGrantType,
    CoreJweContentEncryptionAlgorithm,
    CoreJweKeyManagementAlgorithm,
    CoreJsonWebKey,
    CoreResponseMode,
    CoreResponseType,
    CoreSubjectIdentifierType,
>;

/// Metadata that OpenID Connect Discovery 1.0 does not define.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub(crate) struct AdditionalMetadata {
    /// Whether every response of the authorization endpoint contains `iss` (RFC 9207).
    #[serde(default)]
    pub(crate) authorization_response_iss_parameter_supported: bool,
}

impl AdditionalProviderMetadata for AdditionalMetadata {}

impl Provider {
    /// Requests the metadata and the keys, to check that the provider serves them.
    ///
    /// # Errors
    /// Returns [`Error::Unavailable`] if the provider does not respond, or if the metadata or the keys are unusable.
    pub async fn check(&self) -> Result<(), Error> {
        self.discover().await.map(drop)
    }

    /// Requests the metadata and the keys.
    pub(crate) async fn discover(&self) -> Result<Arc<Metadata>, Error> {
        let issuer = self.settings.issuer.clone();
        let metadata = Metadata::discover_async(issuer, &self.http)
            .await
            .map_err(|error| unavailable(&error))?;
        let metadata = Arc::new(metadata);
        let mut cached = self.metadata.lock().unwrap_or_else(PoisonError::into_inner);
        *cached = Some(Arc::clone(&metadata));
        Ok(metadata)
    }

    /// Returns the latest metadata and keys. Requests them if there are none.
    pub(crate) async fn metadata(&self) -> Result<Arc<Metadata>, Error> {
        let cached = {
            let cached = self.metadata.lock().unwrap_or_else(PoisonError::into_inner);
            cached.clone()
        };
        match cached {
            Some(metadata) => Ok(metadata),
            None => self.discover().await,
        }
    }

    /// Requests the metadata and the keys, because a token names an unknown key. Returns `None` if the previous request is too recent.
    pub(crate) async fn refresh(&self) -> Result<Option<Arc<Metadata>>, Error> {
        {
            let mut refreshed_at = self
                .refreshed_at
                .lock()
                .unwrap_or_else(PoisonError::into_inner);
            if refreshed_at.is_some_and(|at| at.elapsed() < MIN_REFRESH_INTERVAL) {
                return Ok(None);
            }
            *refreshed_at = Some(Instant::now());
        }
        self.discover().await.map(Some)
    }
}

/// Creates an error with the texts of an error and of all its sources.
pub(crate) fn unavailable(error: &dyn StdError) -> Error {
    Error::Unavailable(chain(error))
}

/// Returns the texts of an error and of all its sources.
pub(crate) fn chain(error: &dyn StdError) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(error) = source {
        text = format!("{text}: {error}");
        source = error.source();
    }
    text
}
