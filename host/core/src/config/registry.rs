//! `[registry]`: the OCI registries from which operators install modules.

use std::path::PathBuf;

use super::values::{list, section};

section! {
    /// The section `[registry]` of the configuration.
    pub struct Registry {
        /// The paths of the public keys, in PEM. A module needs a signature of one of them.
        #[serde(deserialize_with = "list")]
        pub keys: Vec<String>,
        /// Whether a command can install a module without a signature.
        pub allow_unsigned: bool,
        /// The path of the file with the credentials, as `docker login` writes it. If `None`, no
        /// credentials are used.
        pub credentials: Option<PathBuf>,
        /// The path of certificates in PEM that registries can use, in addition to the system's
        /// trust store.
        pub ca: Option<PathBuf>,
        /// `host:port` of registries with which the connection is not encrypted.
        #[serde(deserialize_with = "list")]
        pub plain_http: Vec<String>,
    }
}
