//! `[accounts]`: the deletion of accounts.

use std::time::Duration;

use super::values::{seconds, section};

section! {
    /// The section `[accounts]` of the configuration.
    pub struct Accounts {
        /// The time between the request to delete an account and its deletion, in seconds. The
        /// account is disabled during this time, and the operator can enable it again.
        #[serde(deserialize_with = "seconds")]
        pub grace: Duration = Duration::from_hours(30 * 24),
    }
}
