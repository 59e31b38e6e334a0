//! Modules in OCI registries: finds, downloads, verifies and uploads components, in the format of
//! `wkg`.
//!
//! A tag is resolved to the digest of its manifest once, and everything else is requested by digest
//! and compared with it. The signature (cosign's format, with configured keys) is verified before
//! the component is downloaded. This crate does not compile or install components.
//!
//! | file | purpose |
//! |---|---|
//! | `registry` | the [`Registry`] with its settings |
//! | `pull`, `signature`, `tags`, `push` | the operations |
//! | `client` | requests with limits, credentials and redirects |
//! | `challenge`, `credentials` | authentication |
//! | `keys` | the keys that verify signatures |
//! | `manifest`, `reference`, `digest` | the formats |

mod challenge;
mod client;
mod credentials;
mod digest;
mod error;
mod keys;
mod manifest;
mod pull;
mod push;
mod reference;
mod registry;
mod signature;
mod tags;

pub use digest::Digest;
pub use error::Error;
pub use reference::{InvalidReference, Reference};
pub use registry::{Registry, Resolved};
pub use tags::version;
