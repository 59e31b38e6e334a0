//! DKIM (RFC 6376): the signing keys of domains, and signing.
//!
//! This crate knows neither HTTP nor DNS. Callers check who may send from a domain before they sign.
//!
//! | file | purpose |
//! |---|---|
//! | `key_pair` | generates keys and seals them for the directory |
//! | `configured` | reads the keys in the configuration |
//! | `keys` | selects the key of a domain |
//! | `signer` | signs a message |
//! | `canonical` | canonicalizes the signed parts of a message |

mod canonical;
mod configured;
mod key_pair;
mod keys;
mod signer;

pub use key_pair::KeyPair;
pub use keys::Keys;
pub use signer::Signer;

/// The reason why there is no key or no signature. The message is for the log.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A key could not be generated.
    #[error("failed to generate a DKIM key: {0}")]
    Generation(String),
    /// The domain has a key that cannot be used.
    #[error("the DKIM key of {domain} cannot be used: {why}")]
    Unusable {
        /// The domain.
        domain: String,
        /// The reason.
        why: String,
    },
    /// The directory failed.
    #[error(transparent)]
    Directory(#[from] latchmail_directory::Error),
}
