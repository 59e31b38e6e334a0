//! Watches the sources of modules. When a source changes, rebuilds the modules, and installs the
//! new versions in the running service.
//!
//! If a build fails, the compiler prints the reason, and the service continues to use the current
//! version. [`latchmail_runtime::manager`] implements the installation.
//!
//! This program polls the files several times a second. The crate `notify` is not used, because
//! `notify` misses changes on NFS and behind symbolic links.

mod crates;
mod go;
mod project;
mod snapshot;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};
use latchmail_core::caller::Origin;
use latchmail_http::App;
use latchmail_runtime::manager::NewComponent;
use latchmail_runtime::modules::{digest, name_of_file};
use tokio::time::sleep;

pub use project::Project;
use snapshot::Snapshot;

/// The polling interval. A build starts only after no file has changed for one interval, because an
/// editor can save several files in quick succession.
const INTERVAL: Duration = Duration::from_millis(100);

/// The watched projects, the last snapshot of their sources, and the digests of their components.
pub struct Watcher {
    projects: Vec<Project>,
    snapshot: Snapshot,
    digests: Digests,
}

/// For each component file, the digest of its recorded version. The recorded version is the version
/// that was installed last. Before the first installation, the recorded version is the version in
/// the file at the start of the service.
#[derive(Default)]
struct Digests(BTreeMap<PathBuf, String>);

impl Digests {
    /// Installs a component unless its digest is already recorded. Does not record a rejected
    /// version, so the installation is tried again after the next change of a source.
    async fn install_if_changed<T>(
        &mut self,
        component: PathBuf,
        bytes: Vec<u8>,
        install: impl AsyncFnOnce(Vec<u8>, Option<String>) -> anyhow::Result<T>,
    ) -> anyhow::Result<Option<T>> {
        let new = digest(&bytes);
        if self.0.get(&component) == Some(&new) {
            return Ok(None);
        }
        let installed = install(bytes, name_of_file(&component)).await?;
        self.0.insert(component, new);
        Ok(Some(installed))
    }
}

impl Watcher {
    /// Finds the modules in these folders without building the modules. `live` is that of
    /// [`Project::find`].
    ///
    /// # Errors
    /// Returns an error if a folder contains no module.
    pub async fn new(folders: &[PathBuf], live: bool) -> anyhow::Result<Self> {
        let mut projects = Vec::with_capacity(folders.len());
        for folder in folders {
            projects.push(Project::find(folder, live).await?);
        }
        let mut watcher = Self {
            projects,
            snapshot: Snapshot::default(),
            digests: Digests::default(),
        };
        watcher.snapshot = watcher.take_snapshot();
        for component in watcher.components() {
            if let Ok(bytes) = std::fs::read(&component) {
                watcher.digests.0.insert(component, digest(&bytes));
            }
        }
        Ok(watcher)
    }

    /// Builds and installs each project with an outdated component. A component is outdated if the
    /// service does not use its recorded version. `serves` returns whether the service uses the
    /// component with a digest, and `install` installs a component and returns its name and version
    /// ([`name_of_file`] is its second argument).
    ///
    /// # Errors
    /// Returns an error if a component cannot be built or installed.
    pub async fn build_outdated(
        &mut self,
        serves: impl Fn(&str) -> bool,
        install: impl AsyncFn(Vec<u8>, Option<String>) -> anyhow::Result<String>,
    ) -> anyhow::Result<()> {
        for project in &self.projects {
            let current = |component: &PathBuf| {
                let known = self.digests.0.get(component);
                known.is_some_and(|known| serves(known))
            };
            let components = project.components();
            if !components.is_empty() && components.iter().all(current) {
                continue;
            }
            if !project.build().await? {
                bail!("cannot build {}", project.folder().display());
            }
            for component in project.components() {
                let bytes = std::fs::read(&component)
                    .with_context(|| format!("cannot read {}", component.display()))?;
                let new = digest(&bytes);
                let installed = install(bytes, name_of_file(&component)).await?;
                print_line(&format!("installed {installed}"));
                self.digests.0.insert(component, new);
            }
        }
        Ok(())
    }

    /// Rebuilds and installs the modules after each change. Runs until the task is cancelled.
    /// `install` is the same as for [`Watcher::build_outdated`].
    pub async fn run(
        mut self,
        install: impl AsyncFn(Vec<u8>, Option<String>) -> anyhow::Result<String>,
    ) {
        if self.projects.is_empty() {
            std::future::pending::<()>().await;
        }
        loop {
            self.wait_for_change().await;
            let begun = Instant::now();
            for project in &self.projects {
                match project.build().await {
                    Ok(true) => {}
                    Ok(false) => {
                        print_line(&format!(
                            "cannot build {}; the service still uses the previous version",
                            project.folder().display()
                        ));
                        continue;
                    }
                    Err(error) => {
                        print_line(&format!("{error:#}"));
                        continue;
                    }
                }
                for component in project.components() {
                    let Ok(bytes) = std::fs::read(&component) else {
                        continue;
                    };
                    let installed = async |bytes, name| install(bytes, name).await;
                    match self
                        .digests
                        .install_if_changed(component, bytes, installed)
                        .await
                    {
                        Ok(None) => {}
                        Ok(Some(modules)) => print_line(&format!(
                            "installed {modules} after {:.1} s",
                            begun.elapsed().as_secs_f64()
                        )),
                        Err(error) => {
                            print_line(&format!(
                                "{error:#}; the service still uses the previous version"
                            ));
                        }
                    }
                }
            }
        }
    }

    /// Waits until a file changes. Then waits until no file changes for one interval.
    async fn wait_for_change(&mut self) {
        loop {
            sleep(INTERVAL).await;
            let changed = self.take_snapshot();
            if changed == self.snapshot {
                continue;
            }
            sleep(INTERVAL).await;
            let current = self.take_snapshot();
            if current == changed {
                self.snapshot = current;
                return;
            }
        }
    }

    fn take_snapshot(&self) -> Snapshot {
        Snapshot::of(
            &self
                .projects
                .iter()
                .flat_map(Project::sources)
                .collect::<Vec<_>>(),
        )
    }

    fn components(&self) -> Vec<PathBuf> {
        self.projects.iter().flat_map(Project::components).collect()
    }
}

/// Installs a component in the service of this process, with consent to all new permissions. `name`
/// is the name of a module that has only handlers. Returns the names and the versions of the
/// installed modules.
pub(crate) async fn install(
    app: &Arc<App>,
    component: Vec<u8>,
    name: Option<String>,
) -> anyhow::Result<String> {
    let component = NewComponent {
        name,
        ..NewComponent::from(component)
    };
    let installed = app
        .module_manager
        .install(&**app, &[component], true, &Origin::operator())
        .await?;
    let names = installed.iter().map(|report| {
        let module = &report.summary;
        let version = module.version.as_deref().unwrap_or_default();
        format!("{} {version}", module.name)
    });
    Ok(names.collect::<Vec<_>>().join(", "))
}

/// Prints a line to standard error. Errors are ignored, because the terminal can be closed.
pub(crate) fn print_line(line: &str) {
    use std::io::Write as _;
    let _ = writeln!(std::io::stderr(), "latchmail: {line}");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_rejected_version_is_installed_again_and_a_recorded_version_is_not() {
        let mut digests = Digests::default();
        let file = || PathBuf::from("notes.wasm");
        let reject = async |_, _| -> anyhow::Result<()> { bail!("no") };
        let accept = async |_, _| Ok(());
        let first = digests
            .install_if_changed(file(), b"one".to_vec(), reject)
            .await;
        assert!(first.is_err());
        let again = digests
            .install_if_changed(file(), b"one".to_vec(), accept)
            .await;
        assert!(again.unwrap().is_some());
        let same = digests
            .install_if_changed(file(), b"one".to_vec(), reject)
            .await;
        assert!(same.unwrap().is_none());
    }
}
