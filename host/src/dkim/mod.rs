//! DKIM (RFC 6376): the keys that domains sign with, and signing.
//!
//! Knows neither HTTP nor DNS. Who may send from a domain is asked elsewhere, before anything is signed here.
//!
//! | file | what it is for |
//! |---|---|
//! | `key_pair` | keys made, and sealed for the directory |
//! | `configured` | keys that the configuration names |
//! | `keys` | which key signs for a domain |
//! | `signer` | a message signed |
//! | `canonical` | what of a message is signed |

mod canonical;
mod configured;
mod key_pair;
mod keys;
mod signer;

pub use key_pair::KeyPair;
pub use keys::Keys;
pub use signer::Signer;

/// Why there is no key, or no signature. For the log.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// No key could be made.
    #[error("no DKIM key can be made: {0}")]
    Generation(String),
    /// There is a key, and it cannot be used.
    #[error("the DKIM key of {domain} cannot be used: {why}")]
    Unusable {
        /// Whose it is.
        domain: String,
        /// A clause.
        why: String,
    },
    /// It cannot be told whether there is one.
    #[error(transparent)]
    Directory(#[from] crate::directory::Error),
}
