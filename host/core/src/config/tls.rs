//! `[tls]`: the certificate of the service.

use std::path::PathBuf;

use serde::Deserialize;

use crate::error::StartError;

/// `[tls]`: the files of the certificate. If both paths are empty, the service does not use these
/// files.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Tls {
    /// The path of the file with the certificate chain in PEM form. The first certificate is the
    /// certificate of the service.
    pub certificate: PathBuf,
    /// The path of the file with the private key in PEM form.
    pub key: PathBuf,
}

impl Tls {
    /// Returns `true` if the files are configured.
    #[must_use]
    pub fn is_configured(&self) -> bool {
        !self.certificate.as_os_str().is_empty()
    }

    /// Checks that the certificate and the key are either both configured or both missing.
    pub(super) fn check(&self) -> Result<(), StartError> {
        if self.is_configured() == self.key.as_os_str().is_empty() {
            return Err(StartError::new(
                "`tls.certificate` and `tls.key` must be set together",
            ));
        }
        Ok(())
    }
}
