//! The provider's metadata and keys (OpenID Connect Discovery 1.0). The service caches the metadata
//! and the keys for a short time, so that many sign-ins cause few requests. After a failed request
//! to the provider, the next sign-in requests the metadata again, so that a sign-in does not begin
//! while the provider is unavailable.

use std::error::Error as StdError;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use openidconnect::core::{
    CoreAuthDisplay, CoreClaimName, CoreClaimType, CoreClient, CoreClientAuthMethod, CoreGrantType,
    CoreJsonWebKey, CoreJweContentEncryptionAlgorithm, CoreJweKeyManagementAlgorithm,
    CoreResponseMode, CoreResponseType, CoreSubjectIdentifierType,
};
use openidconnect::{
    AdditionalProviderMetadata, EndpointMaybeSet, EndpointNotSet, EndpointSet, ProviderMetadata,
};
use serde::{Deserialize, Serialize};
use tokio::time::Instant;

use crate::{Error, Provider};

/// The time for which cached metadata and keys are used to finish a sign-in.
const MAX_AGE: Duration = Duration::from_mins(1);

/// The time for which cached metadata and keys are used to begin a sign-in. It is short, so that a
/// sign-in does not begin while the provider is unavailable.
const MAX_AGE_AT_START: Duration = Duration::from_millis(250);

/// The maximum number of requests for new keys in [`REFRESH_WINDOW`] because tokens name unknown
/// keys.
const MAX_REFRESHES: u32 = 5;
const REFRESH_WINDOW: Duration = Duration::from_secs(30);

/// The protocol's client with the endpoints from the metadata.
pub(crate) type Client = CoreClient<
    EndpointSet,
    EndpointNotSet,
    EndpointNotSet,
    EndpointNotSet,
    EndpointMaybeSet,
    EndpointMaybeSet,
>;

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

/// The cached metadata and keys.
#[derive(Default)]
pub(crate) struct Cache {
    /// The latest metadata, with the time of the request. `None` before the first request.
    latest: Option<(Arc<Metadata>, Instant)>,
    /// The latest failed request: the time at which it ended, and the error.
    failed: Option<(Instant, String)>,
    /// The counts of requests for new keys because tokens name unknown keys. The first element is
    /// for ID tokens, the second for logout tokens. Any client can send logout tokens, so they must
    /// not use up the requests for ID tokens.
    refreshes: [Refreshes; 2],
}

/// Counts the requests for new keys in the current [`REFRESH_WINDOW`].
#[derive(Default)]
struct Refreshes {
    begun: Option<Instant>,
    count: u32,
}

impl Refreshes {
    /// Counts a request. Returns `false` if there were too many requests.
    fn allow(&mut self) -> bool {
        if self
            .begun
            .is_none_or(|begun| begun.elapsed() >= REFRESH_WINDOW)
        {
            *self = Self {
                begun: Some(Instant::now()),
                count: 0,
            };
        }
        self.count += 1;
        self.count <= MAX_REFRESHES
    }
}

/// The kind of a token that names an unknown key.
#[derive(Clone, Copy)]
pub(crate) enum TokenKind {
    /// An ID token, which the provider sent in response to a request of the service.
    Id,
    /// A logout token, which any client can have sent.
    Logout,
}

impl Cache {
    fn fresh(&self, max_age: Duration) -> Option<Arc<Metadata>> {
        let (metadata, at) = self.latest.as_ref()?;
        (at.elapsed() < max_age).then(|| Arc::clone(metadata))
    }

    /// Returns the error of a request that ended after `begun`.
    fn failure_since(&self, begun: Instant) -> Option<Error> {
        let (at, why) = self.failed.as_ref()?;
        (*at >= begun).then(|| Error::Unavailable(why.clone()))
    }
}

impl Provider {
    /// Requests the metadata and the keys, to check that the provider returns them.
    ///
    /// # Errors
    /// Returns [`Error::Unavailable`] if the provider does not respond, or if the metadata or the
    /// keys are unusable.
    pub async fn check(&self) -> Result<(), Error> {
        let mut cache = self.cache.lock().await;
        self.discover(&mut cache).await.map(drop)
    }

    /// Returns metadata and keys that are at most [`MAX_AGE_AT_START`] old.
    ///
    /// # Errors
    /// Returns [`Error::Unavailable`] under the same conditions as [`Self::check`].
    pub(crate) async fn current_metadata(&self) -> Result<Arc<Metadata>, Error> {
        self.metadata_within(MAX_AGE_AT_START).await
    }

    /// Returns metadata and keys that are at most `max_age` old. If several callers wait for new
    /// metadata, they share the result of one request.
    async fn metadata_within(&self, max_age: Duration) -> Result<Arc<Metadata>, Error> {
        let begun = Instant::now();
        let mut cache = self.cache.lock().await;
        let is_doubtful = self.is_doubtful.load(Ordering::Relaxed);
        if let Some(metadata) = cache.fresh(max_age).filter(|_| !is_doubtful) {
            return Ok(metadata);
        }
        if let Some(failure) = cache.failure_since(begun) {
            return Err(failure);
        }
        self.discover(&mut cache).await
    }

    /// Returns metadata and keys that are at most [`MAX_AGE`] old. If the provider does not
    /// respond, returns the latest metadata and keys.
    pub(crate) async fn metadata(&self) -> Result<Arc<Metadata>, Error> {
        match self.metadata_within(MAX_AGE).await {
            Ok(metadata) => Ok(metadata),
            Err(error) => {
                let cache = self.cache.lock().await;
                let latest = cache.latest.as_ref().ok_or(error)?;
                Ok(Arc::clone(&latest.0))
            }
        }
    }

    /// Checks that the provider can be reached, at most once in [`MAX_AGE_AT_START`].
    ///
    /// # Errors
    /// Returns [`Error::Unavailable`] under the same conditions as [`Self::check`].
    pub async fn require_available(&self) -> Result<(), Error> {
        self.current_metadata().await.map(drop)
    }

    /// Requests the metadata and the keys, because a token names an unknown key. Returns `None` if
    /// there were too many such requests.
    pub(crate) async fn refresh(&self, token: TokenKind) -> Result<Option<Arc<Metadata>>, Error> {
        let mut cache = self.cache.lock().await;
        let [id, logout] = &mut cache.refreshes;
        let refreshes = match token {
            TokenKind::Id => id,
            TokenKind::Logout => logout,
        };
        if !refreshes.allow() {
            return Ok(None);
        }
        self.discover(&mut cache).await.map(Some)
    }

    /// Requests the metadata and the keys. The caller holds the lock of the cache, so there is one
    /// request at a time.
    async fn discover(&self, cache: &mut Cache) -> Result<Arc<Metadata>, Error> {
        let issuer = self.settings.issuer.clone();
        match Metadata::discover_async(issuer, &self.http).await {
            Ok(metadata) => {
                let metadata = Arc::new(metadata);
                cache.latest = Some((Arc::clone(&metadata), Instant::now()));
                self.is_doubtful.store(false, Ordering::Relaxed);
                Ok(metadata)
            }
            Err(error) => {
                let why = chain(&error);
                cache.failed = Some((Instant::now(), why.clone()));
                Err(Error::Unavailable(why))
            }
        }
    }

    /// Creates the error of a failed request. Also makes the next sign-in request the metadata, so
    /// that the sign-in does not begin while the provider is unavailable.
    pub(crate) fn unavailable(&self, error: &dyn StdError) -> Error {
        self.is_doubtful.store(true, Ordering::Relaxed);
        unavailable(error)
    }
}

pub(crate) fn rejected(why: &str) -> Error {
    Error::Rejected(why.to_owned())
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
