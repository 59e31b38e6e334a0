//! `[modules.<name>]` and `[new_modules]`: the files and the policies of modules.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use serde::Deserialize;

use super::values::{list, seconds};

/// `[modules.<name>]`: the file and the policy of a module.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Module {
    /// The path of the component file. The service installs a new or changed file at the start of the service. If `None`, the operator installs the module
    /// while the service runs.
    pub source: Option<PathBuf>,
    /// The names of the interfaces of `latchmail:host` that the module may import, for example `["caller", "mailbox"]`. Every module may import `blobs`, `log`
    /// and `config`.
    #[serde(default, deserialize_with = "list")]
    pub grants: Vec<String>,
    /// The allowed path prefixes of the module's routes.
    #[serde(default = "default_paths", deserialize_with = "list")]
    pub paths: Vec<String>,
    /// The maximum memory of one sandbox, in MiB.
    #[serde(default = "default_memory")]
    pub memory: u32,
    /// The maximum CPU time of one request, in seconds.
    #[serde(default = "default_cpu", deserialize_with = "seconds")]
    pub cpu: Duration,
    /// The maximum number of host calls in one request. Each growth of the sandbox's memory counts as a host call.
    #[serde(default = "default_host_calls")]
    pub host_calls: u32,
    /// The maximum size of a response body that is not a blob, in MiB.
    #[serde(default = "default_response")]
    pub response: u32,
    /// Whether responses may have content types that can contain scripts: HTML, JavaScript, SVG and other XML.
    #[serde(default)]
    pub active_content: bool,
    /// The maximum wall-clock time of a request, in seconds. A route can have a shorter limit.
    #[serde(default = "default_deadline", deserialize_with = "seconds")]
    pub deadline: Duration,
    /// The maximum number of sandboxes of this module.
    #[serde(default = "default_concurrency")]
    pub concurrency: u32,
    /// Whether an instance can serve several requests in succession.
    #[serde(default)]
    pub reuse: bool,
    /// The action if most requests of the module fail.
    #[serde(default)]
    pub breaker: Breaker,
    /// The path of a public GET route of the module, without named segments. The service calls this route of a new version before the version serves requests.
    /// If the status is 500 or more, the new version is not used. If `probe` is empty, no route is called.
    #[serde(default)]
    pub probe: String,
    /// The maximum size of the data in `store` for one account, in KiB.
    #[serde(default = "default_store")]
    pub store: u32,
    /// The hosts to which the module may connect through `http-client`, for example `api.example.com`, `*.example.com:8443` or `http://127.0.0.1:8080`. For a
    /// host outside the public internet, the list must also contain the network, for example `10.0.0.0/8`.
    #[serde(default, deserialize_with = "list")]
    pub hosts: Vec<String>,
    /// The module's own settings. The module reads them through the interface `config`.
    #[serde(default)]
    pub config: ModuleSettings,
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

fn default_paths() -> Vec<String> {
    vec!["/api/v1/".into()]
}

fn default_memory() -> u32 {
    64
}

fn default_cpu() -> Duration {
    Duration::from_secs(2)
}

fn default_host_calls() -> u32 {
    10_000
}

fn default_response() -> u32 {
    8
}

fn default_deadline() -> Duration {
    Duration::from_secs(30)
}

fn default_store() -> u32 {
    1024
}

fn default_concurrency() -> u32 {
    64
}
