//! What an administrator is told of modules, in the shape of the API's JSON.

use serde::Serialize;
use utoipa::ToSchema;

use super::{Life, Refusal, Slot};
use crate::clock::Timestamp;
use crate::config::{self, Breaker};
use crate::directory::modules::Version;
use crate::modules::{Counts, Examined, Module, Route, granted};

/// Whether a module serves.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum State {
    /// It serves.
    Serving,
    /// It was switched off.
    Disabled,
    /// It cannot be loaded; `problem` says why.
    Failed,
}

/// A module in a list.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = ModuleSummary)]
pub struct Summary {
    /// Its name.
    pub name: String,
    /// Whether it serves.
    pub state: State,
    /// The version that serves, as it calls itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub version: Option<String>,
    /// SHA-256 of the component that serves or, where none does, is to; hexadecimal.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub digest: Option<String>,
    /// Why it does not serve, or not in the version that it is to.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub problem: Option<String>,
    /// What became of its requests.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub health: Option<Health>,
}

/// What became of the requests of a module since the version that serves was loaded.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = ModuleHealth)]
pub struct Health {
    /// Requests that came to an end, one way or another.
    pub requests: u64,
    /// Of these, those that trapped.
    pub trapped: u64,
    /// Those whose answer could not be sent.
    pub wrong: u64,
    /// Those that passed their deadline.
    pub late: u64,
    /// Those for which no sandbox became free in time.
    pub busy: u64,
    /// Whether most of the latest requests trapped or had an answer that could not be sent.
    pub failing: bool,
    /// The last of those that were not answered, in words.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub last_problem: Option<String>,
    /// When that was.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub last_problem_at: Option<String>,
}

/// A module, all of it.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Report {
    /// As it is listed.
    #[serde(flatten)]
    pub summary: Summary,
    /// What it may do and use, where the configuration lets it be.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub ceiling: Option<Ceiling>,
    /// What the version that serves imports.
    pub imports: Vec<Import>,
    /// The routes of the version that serves.
    pub routes: Vec<Served>,
    /// The versions that are kept, the one installed last first.
    pub versions: Vec<Kept>,
}

/// What the configuration lets a module do and use.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Ceiling {
    /// The interfaces that it may import.
    pub grants: Vec<String>,
    /// Beginnings of the paths that it may have routes under.
    pub paths: Vec<String>,
    /// The memory of one sandbox, in MiB.
    pub memory: u32,
    /// The CPU time of one call, in seconds.
    pub cpu: f64,
    /// The longest that a call may take, in seconds.
    pub deadline: f64,
    /// Sandboxes at a time.
    pub concurrency: u32,
    /// Whether a sandbox may serve one request after another.
    pub reuse: bool,
    /// What one request may ask of the host.
    pub host_calls: u32,
    /// The largest body of an answer in bytes of the module's own, in MiB.
    pub response: u32,
    /// Whether it may respond with content that a browser runs.
    pub active_content: bool,
    /// What it may keep for one account, in KiB.
    pub store: u32,
    /// The hosts that it may reach.
    pub hosts: Vec<String>,
    /// Whether a version of it that traps on most requests is rolled back.
    pub rolls_back: bool,
}

/// An interface that a component imports.
#[derive(Debug, Serialize, ToSchema)]
pub struct Import {
    /// Its name, with its version.
    pub interface: String,
    /// Whether the module has it: by a grant, or since every module has.
    pub granted: bool,
}

/// A route.
#[derive(Debug, Serialize, ToSchema)]
pub struct Served {
    /// The method.
    pub method: String,
    /// The path, its segments named.
    pub path: String,
    /// Who may use it, in words.
    pub access: String,
}

/// A version that is kept.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Kept {
    /// As it calls itself.
    pub version: String,
    /// SHA-256 of its component, hexadecimal.
    pub digest: String,
    /// Its component's size in bytes.
    pub size: i64,
    /// When it was last installed.
    pub installed_at: String,
    /// Whether it is the one that serves.
    pub serving: bool,
}

/// What installing a component would come to.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Inspection {
    /// The module's name, as it calls itself.
    pub name: String,
    /// Its version.
    pub version: String,
    /// SHA-256 of the component, hexadecimal.
    pub digest: String,
    /// What it imports, and whether that was granted.
    pub imports: Vec<Import>,
    /// Its routes.
    pub routes: Vec<Served>,
    /// What the configuration lets it do and use, where it lets it be.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub ceiling: Option<Ceiling>,
    /// What it may do that the version which serves, or is to, may not: what needs the operator's consent to install.
    pub needs: Vec<String>,
    /// Why it cannot be installed. Nothing: it can.
    pub problems: Vec<String>,
}

impl Life {
    /// Every module, by name.
    #[must_use]
    pub fn list(&self) -> Vec<Summary> {
        let slots = self.slots.load();
        slots
            .iter()
            .map(|(name, slot)| Summary::of(name, slot))
            .collect()
    }

    /// One module.
    ///
    /// # Errors
    /// [`Refusal::Unknown`] where there is no such module; [`Refusal::Failed`] where the database fails.
    pub async fn show(&self, name: &str) -> Result<Report, Refusal> {
        self.slot(name)?;
        let versions = self.versions(name).await?;
        Ok(self.report(name, versions))
    }

    /// One as it is by now. Its versions are handed in, so that nothing can fail any more once a change is made.
    pub(super) fn report(&self, name: &str, versions: Vec<Version>) -> Report {
        let slots = self.slots.load();
        let gone = Slot {
            serving: None,
            digest: None,
            enabled: false,
            problem: None,
        };
        let slot = slots.get(name).unwrap_or(&gone);
        let summary = Summary::of(name, slot);
        let module = slot.serving.as_deref();
        let serving = module.map(Module::digest);
        Report {
            ceiling: module.map(|module| Ceiling::of(module.ceiling())),
            imports: module.map_or_else(Vec::new, |module| {
                imports(module.imports(), Some(module.ceiling()))
            }),
            routes: module.map_or_else(Vec::new, |module| routes(&module.manifest().routes)),
            versions: versions
                .into_iter()
                .map(|one| Kept::of(one, serving))
                .collect(),
            summary,
        }
    }
}

impl Summary {
    fn of(name: &str, slot: &Slot) -> Self {
        let module = slot.serving.as_deref();
        let digest = module.map(|module| module.digest().to_owned());
        Self {
            name: name.into(),
            state: match (module, slot.enabled) {
                (Some(_), _) => State::Serving,
                (None, false) => State::Disabled,
                (None, true) => State::Failed,
            },
            version: module.map(|module| module.manifest().version.clone()),
            digest: digest.or_else(|| slot.digest.clone()),
            problem: slot.problem.clone(),
            health: module.map(|module| Health::of(module.health())),
        }
    }
}

impl Health {
    fn of(counts: Counts) -> Self {
        let (at, what) = counts.last.unzip();
        Self {
            requests: counts.requests,
            trapped: counts.trapped,
            wrong: counts.wrong,
            late: counts.late,
            busy: counts.busy,
            failing: counts.failing,
            last_problem: what,
            last_problem_at: at.map(|at| at.to_string()),
        }
    }
}

impl Ceiling {
    fn of(ceiling: &config::Module) -> Self {
        Self {
            grants: ceiling.grants.clone(),
            paths: ceiling.paths.clone(),
            memory: ceiling.memory,
            cpu: ceiling.cpu.as_secs_f64(),
            deadline: ceiling.deadline.as_secs_f64(),
            concurrency: ceiling.concurrency,
            reuse: ceiling.reuse,
            host_calls: ceiling.host_calls,
            response: ceiling.response,
            active_content: ceiling.active_content,
            store: ceiling.store,
            hosts: ceiling.hosts.clone(),
            rolls_back: ceiling.breaker == Breaker::RollBack,
        }
    }
}

impl Kept {
    fn of(version: Version, serving: Option<&str>) -> Self {
        Self {
            serving: serving == Some(version.digest.as_str()),
            version: version.version,
            digest: version.digest,
            size: version.size,
            installed_at: Timestamp::from_millis(version.installed_at).to_string(),
        }
    }
}

impl Inspection {
    pub(super) fn of(examined: &Examined, ceiling: Option<&config::Module>) -> Self {
        let manifest = &examined.manifest;
        Self {
            name: manifest.name.clone(),
            version: manifest.version.clone(),
            digest: examined.digest.to_string(),
            imports: imports(&examined.imports, ceiling),
            routes: routes(&manifest.routes),
            ceiling: ceiling.map(Ceiling::of),
            needs: Vec::new(),
            problems: Vec::new(),
        }
    }
}

fn imports(imports: &[String], ceiling: Option<&config::Module>) -> Vec<Import> {
    let import = |interface: &String| Import {
        granted: granted(interface, ceiling.map_or(&[], |ceiling| &ceiling.grants)),
        interface: interface.clone(),
    };
    imports.iter().map(import).collect()
}

fn routes(routes: &[Route]) -> Vec<Served> {
    let route = |route: &Route| Served {
        method: route.method.to_string(),
        path: route.path.clone(),
        access: route.access.to_string(),
    };
    routes.iter().map(route).collect()
}
