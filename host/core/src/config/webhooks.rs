//! `[webhooks]`: the receivers of webhooks.

use super::values::{list, section};

section! {
    /// The section `[webhooks]` of the configuration.
    pub struct Webhooks {
        /// `host:port` of receivers that may have a private address and use plain HTTP. Without an
        /// entry, a receiver must use HTTPS and have a public address.
        #[serde(deserialize_with = "list")]
        pub allow: Vec<String>,
    }
}
