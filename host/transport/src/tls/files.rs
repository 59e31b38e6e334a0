//! A certificate and its private key in PEM files. The service reads the files again when their
//! content changes.
//!
//! The content is compared, because tools replace the files in different ways: they rename a new
//! file, change a symbolic link (certbot), or change a symbolic link to the folder (Kubernetes).

use std::fmt::Display;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use arc_swap::ArcSwap;
use latchmail_core::clock::{Clock, Timestamp};
use latchmail_core::config::{Config, Tls};
use latchmail_core::error::StartError;
use latchmail_core::{metrics, secret_file};
use latchmail_net::certificate::not_after;
use sha2::{Digest as _, Sha256};
use tokio::task::spawn_blocking;
use tokio_rustls::rustls;
use tokio_rustls::rustls::client::verify_server_name;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::PemObject as _;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use tokio_rustls::rustls::server::{ClientHello, ParsedCertificate, ResolvesServerCert};
use tokio_rustls::rustls::sign::CertifiedKey;
use zeroize::Zeroizing;

use super::acme;

/// The interval at which the files are read. A certificate and its key are replaced one after the
/// other, so a short interval shortens the time in which the files do not match.
const READ_INTERVAL: Duration = Duration::from_secs(2);

/// The files of a certificate, and the certificate that is in use.
#[derive(Debug)]
pub(super) struct CertificateFiles {
    certificate: PathBuf,
    key: PathBuf,
    current: ArcSwap<CertifiedKey>,
    last_read: Mutex<LastRead>,
}

/// The result of the last read.
#[derive(Debug)]
struct LastRead {
    /// The digest of the content of both files.
    digest: [u8; 32],
    /// The reason why the content is not in use. `None` if the content is in use.
    problem: Option<String>,
}

/// The content of the files.
struct Content {
    certificate: Vec<u8>,
    key: Zeroizing<Vec<u8>>,
}

/// The properties of a certificate that an operator must know.
#[derive(Clone, Copy, Debug)]
pub struct CertificateSummary {
    /// The time at which the certificate expires.
    pub expiry: Timestamp,
    /// Whether the certificate is valid for the name of the service.
    pub is_valid_for_name: bool,
}

/// Checks the files of a certificate. `name` is the name of the service: a host name or an IP
/// address.
///
/// # Errors
/// Returns an error if a file is unreadable or invalid. The error names the file.
pub fn check_certificate(tls: &Tls, name: &str) -> Result<CertificateSummary, StartError> {
    let content = read_now(&tls.certificate, &tls.key).map_err(StartError::new)?;
    let parsed = content.parse(&tls.certificate, &tls.key);
    let (certified_key, expiry) = parsed.map_err(StartError::new)?;
    Ok(CertificateSummary {
        expiry,
        is_valid_for_name: is_valid_for(&certified_key, name),
    })
}

fn is_valid_for(key: &CertifiedKey, name: &str) -> bool {
    let certificate = key.end_entity_cert().ok();
    let certificate = certificate.and_then(|one| ParsedCertificate::try_from(one).ok());
    certificate.is_some_and(|certificate| {
        ServerName::try_from(name).is_ok_and(|name| verify_server_name(&certificate, &name).is_ok())
    })
}

/// Works like [`check_certificate`] for the certificate that a certificate authority issued.
/// Returns `None` if there is no certificate yet.
///
/// # Errors
/// Returns an error if the certificate is unreadable or invalid.
pub fn check_issued_certificate(
    config: &Config,
    name: &str,
) -> Result<Option<CertificateSummary>, StartError> {
    let file = acme::certificate_file(config);
    if !file.exists() {
        return Ok(None);
    }
    // The file contains the key and the chain.
    let tls = Tls {
        certificate: file.clone(),
        key: file,
    };
    check_certificate(&tls, name).map(Some)
}

impl CertificateFiles {
    /// Reads the files.
    pub(super) fn load(tls: &Tls) -> Result<Self, StartError> {
        let content = read_now(&tls.certificate, &tls.key).map_err(StartError::new)?;
        warn_if_open(&tls.key);
        let parsed = content.parse(&tls.certificate, &tls.key);
        let (certified_key, expiry) = parsed.map_err(StartError::new)?;
        log_expiry(expiry);
        Ok(Self {
            certificate: tls.certificate.clone(),
            key: tls.key.clone(),
            current: ArcSwap::from_pointee(certified_key),
            last_read: Mutex::new(LastRead {
                digest: content.digest(),
                problem: None,
            }),
        })
    }

    /// Returns whether the current certificate is valid for this name.
    pub(super) fn is_valid_for(&self, name: &str) -> bool {
        is_valid_for(&self.current.load(), name)
    }

    /// Reads the files again. Does nothing if their content is the same as at the last read.
    pub(super) async fn reload(&self) {
        let content = read(&self.certificate, &self.key).await;
        let mut last_read = self
            .last_read
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let problem = match content {
            Ok(content) => {
                let digest = content.digest();
                if digest == last_read.digest {
                    return;
                }
                last_read.digest = digest;
                match content.parse(&self.certificate, &self.key) {
                    Ok((certified_key, expiry)) => {
                        self.current.store(Arc::new(certified_key));
                        last_read.problem = None;
                        log_expiry(expiry);
                        return;
                    }
                    Err(problem) => problem,
                }
            }
            Err(problem) => problem,
        };
        if last_read.problem.as_ref() != Some(&problem) {
            tracing::error!(problem, "kept the previous TLS certificate");
            last_read.problem = Some(problem);
        }
    }

    /// Reads the files periodically.
    pub(super) async fn watch(&self) {
        loop {
            tokio::time::sleep(READ_INTERVAL).await;
            self.reload().await;
        }
    }
}

impl ResolvesServerCert for CertificateFiles {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(self.current.load_full())
    }
}

impl Content {
    fn digest(&self) -> [u8; 32] {
        let mut digest = Sha256::new();
        for file in [&self.certificate, &*self.key] {
            digest.update(file.len().to_be_bytes());
            digest.update(file);
        }
        digest.finalize().into()
    }

    /// Returns the certificate with its key, and the time at which the certificate expires. On
    /// failure, returns the reason with the name of the file.
    fn parse(&self, certificate: &Path, key: &Path) -> Result<(CertifiedKey, Timestamp), String> {
        let invalid = |key: &str, path: &Path, reason: &dyn Display| {
            format!("`{key}` {} is invalid: {reason}", path.display())
        };
        let chain: Vec<_> = CertificateDer::pem_slice_iter(&self.certificate)
            .collect::<Result<_, _>>()
            .map_err(|e| invalid("tls.certificate", certificate, &e))?;
        let Some(first) = chain.first() else {
            return Err(invalid(
                "tls.certificate",
                certificate,
                &"the file contains no certificate in PEM form",
            ));
        };
        let expiry = not_after(first).map_err(|e| invalid("tls.certificate", certificate, &e))?;
        let private_key =
            PrivateKeyDer::from_pem_slice(&self.key).map_err(|e| invalid("tls.key", key, &e))?;
        let certified_key = CertifiedKey::from_der(chain, private_key, &ring::default_provider())
            .map_err(|error| match error {
            rustls::Error::InconsistentKeys(_) => format!(
                "`tls.key` {} does not belong to the first certificate in `tls.certificate` {}",
                key.display(),
                certificate.display()
            ),
            error => invalid("tls.key", key, &error),
        })?;
        Ok((certified_key, expiry))
    }
}

/// Reads the files. Blocks the thread.
fn read_now(certificate: &Path, key: &Path) -> Result<Content, String> {
    let read = |name: &str, path: &Path| {
        std::fs::read(path).map_err(|e| format!("cannot read `{name}` {}: {e}", path.display()))
    };
    Ok(Content {
        certificate: read("tls.certificate", certificate)?,
        key: read("tls.key", key)?.into(),
    })
}

/// Logs a warning if other users can read or change the private key. Does not refuse the file,
/// because other programs create the file, and some of them let other users read it.
fn warn_if_open(key: &Path) {
    let user = secret_file::current_user();
    let problem = std::fs::metadata(key)
        .ok()
        .and_then(|metadata| secret_file::check("`tls.key`", key, &metadata, user).err());
    if let Some(problem) = problem {
        tracing::warn!(%problem, "the private key is not protected");
    }
}

async fn read(certificate: &Path, key: &Path) -> Result<Content, String> {
    let (certificate, key) = (certificate.to_owned(), key.to_owned());
    let reading = spawn_blocking(move || read_now(&certificate, &key));
    reading.await.map_err(|e| e.to_string())?
}

fn log_expiry(expiry: Timestamp) {
    let expires = expiry.date();
    metrics::CERTIFICATE_EXPIRY.set([], expiry.seconds());
    if expiry < Clock::system().now() {
        tracing::warn!(%expires, "the TLS certificate is expired");
    } else {
        tracing::info!(%expires, "loaded the TLS certificate");
    }
}

#[cfg(test)]
mod tests;
