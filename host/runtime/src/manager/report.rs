//! The state of modules, as the API for administrators returns it in JSON.

use latchmail_core::clock::Timestamp;
use latchmail_core::config::{self, Breaker};
use latchmail_directory::modules::Version;
use serde::Serialize;
use utoipa::ToSchema;

use super::error::Error;
use super::state::{ModuleEntry, ModuleManager};
use crate::modules::{Counts, Examined, Manifest, Module, Route, is_granted};

/// The state of a module.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum State {
    /// A version of the module serves requests.
    Serving,
    /// An administrator disabled the module.
    Disabled,
    /// No version serves, because the module cannot be loaded. `problem` contains the reason.
    Failed,
}

/// A module, as an entry of the list of modules.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = ModuleSummary)]
pub struct Summary {
    /// The name of the module.
    pub name: String,
    /// Whether the module serves requests.
    pub state: State,
    /// The serving version of the module, as its manifest names it.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub version: Option<String>,
    /// The SHA-256 digest of the serving component, in hexadecimal. If no version serves, this is
    /// the digest of the version that should serve.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub digest: Option<String>,
    /// The reason why the version that should serve does not serve.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub problem: Option<String>,
    /// The numbers of successful and failed requests to the module.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub health: Option<Health>,
}

/// The results of the requests of a module since its serving version was loaded.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = ModuleHealth)]
pub struct Health {
    /// The number of finished requests.
    pub requests: u64,
    /// The number of requests in which the module trapped.
    pub trapped: u64,
    /// The number of requests for which the module returned an invalid response.
    pub wrong: u64,
    /// The number of requests that exceeded their deadline.
    pub late: u64,
    /// The number of requests that failed because no sandbox became free within the timeout.
    pub busy: u64,
    /// Whether the module trapped or returned an invalid response in most of its latest requests.
    pub failing: bool,
    /// The text of the last error.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub last_problem: Option<String>,
    /// The time of the last error.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub last_problem_at: Option<String>,
}

/// A module with all its details.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Report {
    /// The module's entry in the list of modules.
    #[serde(flatten)]
    pub summary: Summary,
    /// The policy of the module: its permissions and limits. Absent if no version serves.
    #[serde(rename = "ceiling", skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub policy: Option<Policy>,
    /// The interfaces that the serving version imports.
    pub imports: Vec<Import>,
    /// The routes of the serving version.
    pub routes: Vec<RouteReport>,
    /// The events and the timers that the serving version handles, as phrases such as `the events
    /// message.created` or `the timer daily at 0 7 * * * (UTC)`.
    pub handlers: Vec<String>,
    /// The stored versions. The most recently installed version is the first.
    pub versions: Vec<VersionReport>,
}

/// The permissions and limits of a module, from the configuration.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = ModulePolicy)]
pub struct Policy {
    /// The interfaces that the module may import.
    pub grants: Vec<String>,
    /// The scopes of the caller of the module's handlers.
    pub scopes: Vec<String>,
    /// The path prefixes that the module's routes may have.
    pub paths: Vec<String>,
    /// The maximum memory of one sandbox, in MiB.
    pub memory: u32,
    /// The maximum CPU time of one call, in seconds.
    pub cpu: f64,
    /// The maximum duration of a call, in seconds.
    pub deadline: f64,
    /// The maximum number of sandboxes that run concurrently.
    pub concurrency: u32,
    /// Whether a sandbox can serve several requests, one after another.
    pub reuse: bool,
    /// The maximum number of host calls of one request.
    pub host_calls: u32,
    /// The maximum size of a response body that is not a blob, in MiB.
    pub response: u32,
    /// Whether responses may contain content that a browser can run, for example HTML or scripts.
    pub active_content: bool,
    /// The maximum size of the stored data of one account, in KiB.
    pub store: u32,
    /// The hosts that the module may connect to.
    pub hosts: Vec<String>,
    /// Whether the service rolls the module back to the previous version if most of its requests
    /// fail.
    pub rolls_back: bool,
}

/// An interface that a component imports.
#[derive(Debug, Serialize, ToSchema)]
pub struct Import {
    /// The name of the interface, with its version.
    pub interface: String,
    /// Whether the import is available. An import is available if the policy grants it, or if every
    /// module can use it.
    pub granted: bool,
}

/// A route of a module.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = ModuleRoute)]
pub struct RouteReport {
    /// The HTTP method.
    pub method: String,
    /// The path, with named segments.
    pub path: String,
    /// The callers that can use the route, as a phrase such as `web sessions`.
    pub access: String,
}

/// A stored version of a module.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = ModuleVersion)]
pub struct VersionReport {
    /// The version, as its manifest names it.
    pub version: String,
    /// The SHA-256 digest of the component, hexadecimal.
    pub digest: String,
    /// The size of the component, in bytes.
    pub size: i64,
    /// The time at which the version was last installed.
    pub installed_at: String,
    /// Whether this version serves.
    pub serving: bool,
    /// The artifact of a registry that contained the component. Absent if the version was not
    /// installed from a registry.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub source: Option<Source>,
}

/// The artifact of a registry that contained a component.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = ModuleSource)]
pub struct Source {
    /// The reference of the artifact: `oci://HOST/REPOSITORY:TAG`, without a digest.
    pub reference: String,
    /// The digest of the artifact's manifest, to which the reference resolved: `sha256:` and 64
    /// hexadecimal digits.
    pub digest: String,
}

/// The result of an inspection. It describes what the installation of a component would do.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Inspection {
    /// The name of the module, from its manifest.
    pub name: String,
    /// The version, from its manifest.
    pub version: String,
    /// The SHA-256 digest of the component, hexadecimal.
    pub digest: String,
    /// The interfaces that the component imports, and whether each of them is granted.
    pub imports: Vec<Import>,
    /// The routes of the component.
    pub routes: Vec<RouteReport>,
    /// The events and the timers that the component handles, as phrases.
    pub handlers: Vec<String>,
    /// The policy of the module. Absent if the configuration does not allow the module.
    #[serde(rename = "ceiling", skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub policy: Option<Policy>,
    /// The permissions that need the operator's consent, because the current version does not have
    /// them.
    pub needs: Vec<String>,
    /// The reasons why the module cannot be installed. Empty if the module can be installed.
    pub problems: Vec<String>,
}

impl ModuleManager {
    /// Returns all modules, sorted by name.
    #[must_use]
    pub fn list(&self) -> Vec<Summary> {
        let entries = self.entries.current();
        entries
            .iter()
            .map(|(name, entry)| Summary::of(name, entry))
            .collect()
    }

    /// Returns the details of one module.
    ///
    /// # Errors
    /// Returns [`Error::NotFound`] if the module does not exist, and [`Error::Directory`] if the
    /// database fails.
    pub async fn show(&self, name: &str) -> Result<Report, Error> {
        self.entries.get(name)?;
        let versions = self.stored_versions(name).await?;
        Ok(self.report(name, versions))
    }

    /// Returns the details of a module. The caller passes the stored versions in `versions`. So
    /// this function does not read the database and cannot fail.
    pub(super) fn report(&self, name: &str, versions: Vec<Version>) -> Report {
        let entries = self.entries.current();
        let removed = ModuleEntry::default();
        let entry = entries.get(name).unwrap_or(&removed);
        let summary = Summary::of(name, entry);
        let module = entry.serving.as_deref();
        let serving = module.map(Module::digest);
        Report {
            policy: module.map(|module| Policy::of(module.policy())),
            imports: module.map_or_else(Vec::new, |module| {
                imports(module.imports(), Some(module.policy()))
            }),
            routes: module.map_or_else(Vec::new, |module| routes(&module.manifest().routes)),
            handlers: module.map_or_else(Vec::new, |module| handlers(module.manifest())),
            versions: versions
                .into_iter()
                .map(|one| VersionReport::of(one, serving))
                .collect(),
            summary,
        }
    }
}

impl Summary {
    fn of(name: &str, entry: &ModuleEntry) -> Self {
        let module = entry.serving.as_deref();
        let digest = module.map(|module| module.digest().to_owned());
        Self {
            name: name.into(),
            state: match (module, entry.enabled) {
                (Some(_), _) => State::Serving,
                (None, false) => State::Disabled,
                (None, true) => State::Failed,
            },
            version: module.map(|module| module.manifest().version.clone()),
            digest: digest.or_else(|| entry.digest.clone()),
            problem: entry.problem.clone(),
            health: module.map(|module| Health::of(module.health())),
        }
    }
}

impl Health {
    fn of(counts: Counts) -> Self {
        let (at, error) = counts.last.unzip();
        Self {
            requests: counts.requests,
            trapped: counts.trapped,
            wrong: counts.wrong,
            late: counts.late,
            busy: counts.busy,
            failing: counts.failing,
            last_problem: error,
            last_problem_at: at.map(|at| at.to_string()),
        }
    }
}

impl Policy {
    fn of(policy: &config::Module) -> Self {
        Self {
            grants: policy.grants.clone(),
            scopes: policy.scopes.clone(),
            paths: policy.paths.clone(),
            memory: policy.memory,
            cpu: policy.cpu.as_secs_f64(),
            deadline: policy.deadline.as_secs_f64(),
            concurrency: policy.concurrency,
            reuse: policy.reuse,
            host_calls: policy.host_calls,
            response: policy.response,
            active_content: policy.active_content,
            store: policy.store,
            hosts: policy.hosts.clone(),
            rolls_back: policy.breaker == Breaker::RollBack,
        }
    }
}

impl VersionReport {
    pub(super) fn of(version: Version, serving: Option<&str>) -> Self {
        Self {
            serving: serving == Some(version.digest.as_str()),
            version: version.version,
            digest: version.digest,
            size: version.size,
            installed_at: Timestamp::from_millis(version.installed_at).to_string(),
            source: version
                .reference
                .zip(version.artifact)
                .map(|(reference, digest)| Source { reference, digest }),
        }
    }
}

impl Inspection {
    pub(super) fn of(examined: &Examined, policy: Option<&config::Module>) -> Self {
        let manifest = &examined.manifest;
        Self {
            name: manifest.name.clone(),
            version: manifest.version.clone(),
            digest: examined.digest.to_string(),
            imports: imports(&examined.imports, policy),
            routes: routes(&manifest.routes),
            handlers: handlers(manifest),
            policy: policy.map(Policy::of),
            needs: Vec::new(),
            problems: Vec::new(),
        }
    }
}

fn imports(imports: &[String], policy: Option<&config::Module>) -> Vec<Import> {
    let import = |interface: &String| Import {
        granted: is_granted(interface, policy.map_or(&[], |policy| &policy.grants)),
        interface: interface.clone(),
    };
    imports.iter().map(import).collect()
}

fn routes(routes: &[Route]) -> Vec<RouteReport> {
    let route = |route: &Route| RouteReport {
        method: route.method.to_string(),
        path: route.path.clone(),
        access: route.access.to_string(),
    };
    routes.iter().map(route).collect()
}

/// Describes the events and the timers that a module handles.
fn handlers(manifest: &Manifest) -> Vec<String> {
    let Some(handlers) = &manifest.handlers else {
        return Vec::new();
    };
    let events = handlers.events.iter().map(ToString::to_string);
    let timers = handlers
        .timers
        .iter()
        .map(|timer| format!("the timer {timer}"));
    events.chain(timers).collect()
}
