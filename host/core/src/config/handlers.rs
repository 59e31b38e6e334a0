//! `[handlers]`: the limits of calls of modules without a request.

use std::time::Duration;

use super::values::{seconds, section};

section! {
    /// The section `[handlers]` of the configuration.
    pub struct Handlers {
        /// The maximum number of concurrent calls of handlers on this host. Requests have other
        /// sandboxes, so handlers do not use the sandboxes of requests.
        pub concurrency: u32 = 4,
        /// The maximum number of concurrent calls of the handlers of one module on this host.
        pub concurrency_per_module: u32 = 2,
        /// The maximum CPU time of one call, in seconds.
        #[serde(deserialize_with = "seconds")]
        pub cpu: Duration = Duration::from_secs(2),
        /// The maximum wall-clock time of one call, in seconds.
        #[serde(deserialize_with = "seconds")]
        pub deadline: Duration = Duration::from_secs(30),
    }
}
