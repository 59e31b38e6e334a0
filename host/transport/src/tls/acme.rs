//! A certificate from a certificate authority (ACME, RFC 8555). The authority verifies the domains
//! with the challenge TLS-ALPN-01 (RFC 8737), for which the authority connects to the TLS port of
//! the service. The account key and the certificate are stored in a folder.

use std::fs::{DirBuilder, OpenOptions, Permissions};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use futures_util::StreamExt as _;
use latchmail_core::config::Config;
use latchmail_core::error::StartError;
use latchmail_net::endpoint::client_tls;
use rustls_acme::{
    AccountCache, AcmeConfig, AcmeState, CertCache, EventError, EventOk, ResolvesServerCertAcme,
};
use sha2::{Digest as _, Sha256};
use tokio::sync::Mutex;

/// The name of the protocol of the challenge (ALPN).
pub(super) const ALPN: &[u8] = b"acme-tls/1";

/// The minimum time between two orders. A certificate authority limits the number of failed orders.
const MIN_RETRY: Duration = Duration::from_mins(1);
/// rustls-acme waits one second after a failed order, and doubles this time after each further
/// failure. This is the maximum number of doublings.
const MAX_DOUBLINGS: u32 = 16;

/// The client of the certificate authority. It orders and renews the certificate.
pub(super) struct Acme {
    state: Mutex<AcmeState<io::Error>>,
    resolver: Arc<ResolvesServerCertAcme>,
    domains: Vec<String>,
}

impl Acme {
    /// Prepares the folder. [`run`](Self::run) orders the certificate.
    pub(super) fn new(config: &Config) -> Result<Self, StartError> {
        let acme = &config.acme;
        let folder = config.acme_folder();
        create_folder(&folder).map_err(|e| {
            StartError::new(format!(
                "cannot create the folder {} for certificates: {e}",
                folder.display()
            ))
        })?;
        let client = client_tls("the certificate authority")?;
        let state = AcmeConfig::new_with_client_config(&acme.domains, Arc::new(client))
            .contact(&acme.contact)
            .directory(&acme.directory)
            .cache(Folder(folder))
            .state();
        Ok(Self {
            resolver: state.resolver(),
            domains: acme.domains.clone(),
            state: Mutex::new(state),
        })
    }

    /// Returns whether the service orders a certificate with this name.
    pub(super) fn is_valid_for(&self, name: &str) -> bool {
        self.domains
            .iter()
            .any(|domain| domain.eq_ignore_ascii_case(name))
    }

    /// Returns the resolver of the current certificate. The resolver has no certificate until the
    /// first order is complete.
    pub(super) fn resolver(&self) -> Arc<ResolvesServerCertAcme> {
        Arc::clone(&self.resolver)
    }

    /// Orders a certificate, and renews the certificate when a third of its validity remains. Does
    /// not end.
    pub(super) async fn run(&self) {
        let mut state = self.state.lock().await;
        let mut failures = 0;
        while let Some(event) = state.next().await {
            match event {
                Ok(EventOk::DeployedCachedCert) => tracing::info!("loaded the TLS certificate"),
                Ok(EventOk::DeployedNewCert) => {
                    failures = 0;
                    tracing::info!("received a new TLS certificate");
                }
                Ok(EventOk::CertCacheStore | EventOk::AccountCacheStore) => {}
                Err(EventError::Order(error)) => {
                    let backoff = Duration::from_secs(1 << failures.min(MAX_DOUBLINGS));
                    failures += 1;
                    let next_attempt = backoff.max(MIN_RETRY);
                    tracing::error!(
                        %error,
                        next_attempt_seconds = next_attempt.as_secs(),
                        "cannot order a TLS certificate"
                    );
                    tokio::time::sleep(next_attempt).await;
                }
                Err(error) => tracing::error!(%error, "cannot use the folder for certificates"),
            }
        }
    }
}

/// The folder with the account keys and the certificates. The names of the files contain a hash of
/// the settings, so the service ignores old files after a change of the settings.
struct Folder(PathBuf);

impl Folder {
    /// Returns the path of a file. `settings` are the settings for which the file is valid.
    fn file(&self, kind: &str, settings: &[String], directory: &str) -> PathBuf {
        let mut digest = Sha256::new();
        for setting in settings.iter().map(String::as_str).chain([directory]) {
            digest.update(setting);
            digest.update([0]);
        }
        let digest = URL_SAFE_NO_PAD.encode(digest.finalize());
        self.0.join(format!("{kind}-{digest}"))
    }
}

/// Returns the path of the certificate that the service stores for these settings.
pub(super) fn certificate_file(config: &Config) -> PathBuf {
    let acme = &config.acme;
    Folder(config.acme_folder()).file("certificate", &acme.domains, &acme.directory)
}

#[async_trait]
impl CertCache for Folder {
    type EC = io::Error;

    async fn load_cert(&self, domains: &[String], directory: &str) -> io::Result<Option<Vec<u8>>> {
        read(&self.file("certificate", domains, directory))
    }

    async fn store_cert(&self, domains: &[String], directory: &str, pem: &[u8]) -> io::Result<()> {
        write(&self.file("certificate", domains, directory), pem)
    }
}

#[async_trait]
impl AccountCache for Folder {
    type EA = io::Error;

    async fn load_account(
        &self,
        contact: &[String],
        directory: &str,
    ) -> io::Result<Option<Vec<u8>>> {
        read(&self.file("account", contact, directory))
    }

    async fn store_account(
        &self,
        contact: &[String],
        directory: &str,
        key: &[u8],
    ) -> io::Result<()> {
        write(&self.file("account", contact, directory), key)
    }
}

/// Creates the folder, or makes an existing folder accessible for its owner only.
fn create_folder(folder: &Path) -> io::Result<()> {
    DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(folder)?;
    std::fs::set_permissions(folder, Permissions::from_mode(0o700))
}

fn read(file: &Path) -> io::Result<Option<Vec<u8>>> {
    match std::fs::read(file) {
        Ok(content) => Ok(Some(content)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// Replaces a file atomically. Only the owner can read the file.
fn write(file: &Path, content: &[u8]) -> io::Result<()> {
    let new = file.with_extension("new");
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(true).mode(0o600);
    let mut opened = options.open(&new)?;
    opened.write_all(content)?;
    opened.sync_all()?;
    std::fs::rename(new, file)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn only_the_owner_can_read_the_stored_keys() {
        let parent = tempfile::tempdir().unwrap();
        let path = parent.path().join("acme");
        create_folder(&path).unwrap();
        create_folder(&path).unwrap();
        let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode(&path), 0o700);
        let folder = Folder(path.clone());
        let domains = ["a.example".to_owned()];
        assert_eq!(
            folder.load_cert(&domains, "https://ca").await.unwrap(),
            None
        );
        folder
            .store_cert(&domains, "https://ca", b"old")
            .await
            .unwrap();
        folder
            .store_cert(&domains, "https://ca", b"new")
            .await
            .unwrap();
        folder
            .store_account(&[], "https://ca", b"key")
            .await
            .unwrap();
        let stored = folder.load_cert(&domains, "https://ca").await.unwrap();
        assert_eq!(stored.unwrap(), b"new");
        assert_eq!(
            folder.load_cert(&domains, "https://other").await.unwrap(),
            None
        );
        assert_eq!(
            folder
                .load_account(&[], "https://ca")
                .await
                .unwrap()
                .unwrap(),
            b"key"
        );
        let files: Vec<_> = std::fs::read_dir(&path).unwrap().collect();
        assert_eq!(files.len(), 2);
        for file in files {
            assert_eq!(mode(&file.unwrap().path()), 0o600);
        }
    }
}
