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
    /// The file of the component. It is installed at the first start, and again at each start after the file changed. If `None`, the module is
    /// installed while the service runs.
    pub source: Option<PathBuf>,
    /// The names of the interfaces of `latchmail:host` that the module may import: `["caller", "mailbox"]`. `blobs`, `log` and `config` need no
    /// grant.
    #[serde(default, deserialize_with = "list")]
    pub grants: Vec<String>,
    /// The path prefixes that the module's routes may have.
    #[serde(default = "default_paths", deserialize_with = "list")]
    pub paths: Vec<String>,
    /// The maximum memory of one sandbox, in MiB.
    #[serde(default = "default_memory")]
    pub memory: u32,
    /// The maximum CPU time of one request, in seconds.
    #[serde(default = "default_cpu", deserialize_with = "seconds")]
    pub cpu: Duration,
    /// The maximum number of host calls in one request. Growing the memory counts as a host call.
    #[serde(default = "default_host_calls")]
    pub host_calls: u32,
    /// The maximum size of a response body that is not a blob, in MiB.
    #[serde(default = "default_response")]
    pub response: u32,
    /// Whether responses may have content that a browser runs: HTML, JavaScript, SVG and other XML.
    #[serde(default)]
    pub active_content: bool,
    /// The maximum wall-clock time of a request, in seconds. A route can set a shorter time.
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
    /// A public GET route of the module, without named segments. A new version serves only if this route returns a status below 500. If empty, no
    /// route is called.
    #[serde(default)]
    pub probe: String,
    /// The maximum size of the data in `store` for one account, in KiB.
    #[serde(default = "default_store")]
    pub store: u32,
    /// The hosts that the module may connect to through `http-client`: `api.example.com`, `*.example.com:8443`, `http://127.0.0.1:8080`. Also the
    /// networks outside the public internet that these hosts may be in: `10.0.0.0/8`.
    #[serde(default, deserialize_with = "list")]
    pub hosts: Vec<String>,
    /// The module's own settings, which it reads through `config`.
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

/// The action for a module whose requests mostly fail.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Breaker {
    /// Log the problem. The module continues to serve.
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
