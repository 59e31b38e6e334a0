//! Watches the sources of modules, rebuilds a module when a source is saved, and swaps the result in while the service runs.
//!
//! The files are polled twice a second, which works on every file system and with every editor. This module runs cargo; [`latchmail_runtime::life`] implements the
//! installation. If a build fails, the serving version stays, and the compiler's output shows the reason.

mod project;
mod snapshot;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};
use bytes::Bytes;
use latchmail_core::caller::Origin;
use latchmail_http::App;
use latchmail_runtime::modules::digest;
use tokio::time::sleep;

use project::Project;
use snapshot::Snapshot;

/// The polling interval, and the time that files must be unchanged before a build: an editor may save several files at once.
const PAUSE: Duration = Duration::from_millis(500);

/// The watched projects.
pub(crate) struct Watch {
    projects: Vec<Project>,
    seen: Snapshot,
    built: Built,
}

/// The digest of the serving version of each component.
#[derive(Default)]
struct Built(BTreeMap<PathBuf, String>);

impl Built {
    /// Installs the components that do not serve yet. Only installed components are recorded, so a rejected one is tried again after the next save.
    async fn swap<T>(
        &mut self,
        component: PathBuf,
        bytes: Vec<u8>,
        install: impl AsyncFnOnce(Vec<u8>) -> anyhow::Result<T>,
    ) -> anyhow::Result<Option<T>> {
        let now = digest(&bytes);
        if self.0.get(&component) == Some(&now) {
            return Ok(None);
        }
        let installed = install(bytes).await?;
        self.0.insert(component, now);
        Ok(Some(installed))
    }
}

impl Watch {
    /// Finds the modules in these folders. Each folder is a crate or contains crates. Does not build. `served` returns the components that already serve.
    ///
    /// # Errors
    /// A folder contains no module.
    pub(crate) async fn new(folders: &[PathBuf]) -> anyhow::Result<Self> {
        let mut projects = Vec::with_capacity(folders.len());
        for folder in folders {
            projects.push(Project::find(folder).await?);
        }
        let mut watch = Self {
            projects,
            seen: Snapshot::default(),
            built: Built::default(),
        };
        watch.seen = watch.look();
        for component in watch.components() {
            if let Ok(bytes) = std::fs::read(&component) {
                watch.built.0.insert(component, digest(&bytes));
            }
        }
        Ok(watch)
    }

    /// Builds and installs the components that do not serve yet.
    ///
    /// # Errors
    /// A component cannot be built or installed.
    pub(crate) async fn begin(&mut self, app: &Arc<App>) -> anyhow::Result<()> {
        for project in &self.projects {
            let serves = |component: &PathBuf| {
                let built = self.built.0.get(component);
                let serving = app.module_manager.serving();
                built.is_some_and(|built| serving.iter().any(|module| module.digest() == built))
            };
            if project.components().iter().all(serves) {
                continue;
            }
            if !project.build().await? {
                bail!("{} does not build", project.folder().display());
            }
            for component in project.components() {
                let bytes = std::fs::read(&component)
                    .with_context(|| format!("there is no {}", component.display()))?;
                let now = digest(&bytes);
                install(app, bytes).await?;
                self.built.0.insert(component, now);
            }
        }
        Ok(())
    }

    /// Builds and swaps until the task is cancelled.
    pub(crate) async fn run(mut self, app: Arc<App>) {
        if self.projects.is_empty() {
            std::future::pending::<()>().await;
        }
        loop {
            self.changed().await;
            let saved = Instant::now();
            for project in &self.projects {
                match project.build().await {
                    Ok(true) => {}
                    Ok(false) => {
                        say("it does not build; what served goes on serving");
                        continue;
                    }
                    Err(error) => {
                        say(&format!("{error:#}"));
                        continue;
                    }
                }
                for component in project.components() {
                    let Ok(bytes) = std::fs::read(&component) else {
                        continue;
                    };
                    let installed = async |bytes| install(&app, bytes).await;
                    match self.built.swap(component, bytes, installed).await {
                        Ok(None) => {}
                        Ok(Some(what)) => say(&format!(
                            "{what} after {:.1} s",
                            saved.elapsed().as_secs_f64()
                        )),
                        Err(error) => say(&format!("{error:#}; what served goes on serving")),
                    }
                }
            }
        }
    }

    /// Waits until a file has changed and no file changes any more.
    async fn changed(&mut self) {
        loop {
            sleep(PAUSE).await;
            let now = self.look();
            if now == self.seen {
                continue;
            }
            sleep(PAUSE).await;
            let settled = self.look();
            if settled == now {
                self.seen = settled;
                return;
            }
        }
    }

    fn look(&self) -> Snapshot {
        Snapshot::of(self.projects.iter().flat_map(Project::sources))
    }

    fn components(&self) -> Vec<PathBuf> {
        self.projects.iter().flat_map(Project::components).collect()
    }
}

/// Modules of the developer need no separate consent.
async fn install(app: &Arc<App>, component: Vec<u8>) -> anyhow::Result<String> {
    let components = vec![Bytes::from(component)];
    let installed = app
        .module_manager
        .install(&**app, components, true, &Origin::operator())
        .await?;
    let told = installed.iter().map(|report| {
        let module = &report.summary;
        let version = module.version.as_deref().unwrap_or_default();
        format!("{} {version} serves", module.name)
    });
    Ok(told.collect::<Vec<_>>().join(", "))
}

/// Prints a line to the terminal. Errors are ignored, because the terminal may be closed.
fn say(what: &str) {
    use std::io::Write as _;
    let _ = writeln!(std::io::stderr(), "latchmail: {what}");
}

/// Returns whether a path is a folder that contains a crate.
fn is_crate(folder: &Path) -> bool {
    folder.join("Cargo.toml").is_file()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn what_was_refused_is_tried_again_when_the_same_is_saved_and_what_serves_is_not() {
        let mut built = Built::default();
        let file = || PathBuf::from("notes.wasm");
        let refused = async |_| -> anyhow::Result<()> { bail!("no") };
        let taken = async |_| Ok(());
        let first = built.swap(file(), b"one".to_vec(), refused).await;
        assert!(first.is_err());
        let again = built.swap(file(), b"one".to_vec(), taken).await;
        assert!(again.unwrap().is_some());
        let same = built.swap(file(), b"one".to_vec(), refused).await;
        assert!(same.unwrap().is_none());
    }
}
