//! `[modules.<name>]` and `[new_modules]`: the files and the policies of modules.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use serde::Deserialize;

use super::built_in::EmbeddedModule;
use super::values::{list, seconds, section};

section! {
    /// `[modules.<name>]`: the file and the policy of a module.
    pub struct Module {
        /// The path of the component file. The service installs a new or changed file at the start
        /// of the service. If `None`, the component is `embedded`, or the operator installs the
        /// module while the service runs.
        pub source: Option<PathBuf>,
        /// The component in the program ([`Config::with_embedded`](super::Config::with_embedded)).
        #[serde(skip)]
        pub embedded: Option<EmbeddedModule>,
        /// The names of the interfaces of `latchmail:host` that the module may import, for example
        /// `["caller", "mailbox"]`. Every module may import `blobs`, `log` and `config`.
        #[serde(deserialize_with = "list")]
        pub grants: Vec<String>,
        /// The scopes of the caller of the module's handlers, for example
        /// `["mail:read", "mail:write"]`. Requests have the scopes of their own callers.
        #[serde(deserialize_with = "list")]
        pub scopes: Vec<String>,
        /// The allowed path prefixes of the module's routes.
        #[serde(deserialize_with = "list")]
        pub paths: Vec<String> = vec!["/api/v1/".into()],
        /// The maximum memory of one sandbox, in MiB.
        pub memory: u32 = 64,
        /// The maximum CPU time of one request, in seconds.
        #[serde(deserialize_with = "seconds")]
        pub cpu: Duration = Duration::from_secs(2),
        /// The maximum number of host calls in one request. Each growth of the sandbox's memory
        /// counts as a host call.
        pub host_calls: u32 = 10_000,
        /// The maximum size of a response body that is not a blob, in MiB.
        pub response: u32 = 8,
        /// Whether responses may have content types that can contain scripts: HTML, JavaScript, SVG
        /// and other XML.
        pub active_content: bool,
        /// The maximum wall-clock time of a request, in seconds. A route can have a shorter limit.
        #[serde(deserialize_with = "seconds")]
        pub deadline: Duration = Duration::from_secs(30),
        /// The maximum number of sandboxes of this module that exist at the same time.
        pub concurrency: u32 = 64,
        /// Whether an instance can serve several requests in succession.
        pub reuse: bool,
        /// The action if most requests of the module fail.
        pub breaker: Breaker = Breaker::Report,
        /// The path of a public GET route of the module, without named segments. The service calls
        /// this route of a new version before the version serves requests. If the status is 500 or
        /// more, the new version is not used. If `probe` is empty, no route is called.
        pub probe: String,
        /// The maximum size of the data in `store` for one account, in KiB.
        pub store: u32 = 1024,
        /// The hosts to which the module may connect through `http-client`, for example
        /// `api.example.com`, `*.example.com:8443` or `http://127.0.0.1:8080`. For a host outside
        /// the public internet, the list must also contain the network, for example `10.0.0.0/8`.
        #[serde(deserialize_with = "list")]
        pub hosts: Vec<String>,
        /// The module's own settings. The module reads them through the interface `config`.
        pub config: ModuleSettings,
    }
}

impl Module {
    /// Returns whether the configuration or the program determines the component of the module.
    #[must_use]
    pub fn has_component(&self) -> bool {
        self.source.is_some() || self.embedded.is_some()
    }

    /// Returns `true` if this policy has a right that `current` does not have.
    #[must_use]
    pub fn has_lost_rights(&self, current: &Self) -> bool {
        let lost = |before: &[String], now: &[String]| before.iter().any(|one| !now.contains(one));
        lost(&self.grants, &current.grants)
            || lost(&self.scopes, &current.scopes)
            || lost(&self.paths, &current.paths)
            || lost(&self.hosts, &current.hosts)
            || (self.active_content && !current.active_content)
    }
}

/// A module's own settings, by key. The values may be secrets, so `Debug` shows only the keys.
#[derive(Clone, Default, Deserialize)]
#[serde(transparent)]
pub struct ModuleSettings(pub BTreeMap<String, String>);

impl fmt::Debug for ModuleSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.0.keys()).finish()
    }
}

/// The action if most requests of a module fail.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Breaker {
    /// Log the problem. The module stays in use.
    #[default]
    Report,
    /// Roll back to the previous version.
    RollBack,
}
