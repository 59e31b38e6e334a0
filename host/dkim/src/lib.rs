//! DKIM (RFC 6376): the signing keys of domains, and signing.
//!
//! This crate uses neither HTTP nor DNS. Callers must check whether a sender is authorized for a
//! domain before signing.
//!
//! | file | purpose |
//! |---|---|
//! | `key_pair` | generates keys and encrypts them for the directory |
//! | `configured` | reads the keys in the configuration |
//! | `keys` | selects the key of a domain |
//! | `signer` | signs a message |
//! | `canonical` | canonicalizes the signed parts of a message |
//! | `error` | the error type of this crate |

mod canonical;
mod configured;
mod error;
mod key_pair;
mod keys;
mod signer;

pub use configured::public_keys;
pub use error::Error;
pub use key_pair::KeyPair;
pub use keys::Keys;
pub use signer::Signer;
