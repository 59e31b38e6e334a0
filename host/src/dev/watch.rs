//! The edit-run loop: sources of modules are watched, built again when one is saved, and what comes of it swapped in while the service runs.
//!
//! Looks at the files twice a second instead of asking the system to be told of changes: that works on every file system and with every editor. Knows cargo;
//! what an install is, is in [`crate::life`]. A build that fails leaves what serves as it is, and the compiler says why.

mod project;
mod snapshot;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};
use bytes::Bytes;
use tokio::time::sleep;

use crate::app::App;
use crate::caller::Origin;
use crate::modules::digest;
use project::Project;
use snapshot::Snapshot;

/// How often the files are looked at, and how long they have to be as they are before they are built: an editor may save many at once.
const PAUSE: Duration = Duration::from_millis(500);

/// What is watched.
pub(super) struct Watch {
    projects: Vec<Project>,
    seen: Snapshot,
    built: Built,
}

/// The digest of what was built and serves of each component.
#[derive(Default)]
struct Built(BTreeMap<PathBuf, String>);

impl Built {
    /// Installs what does not serve yet. Only what was installed is remembered: what was refused is tried again when it is saved again.
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
    /// Finds the modules in these folders: each is a crate's or holds such. Nothing is built yet; `served` says which of them serve as they are.
    ///
    /// # Errors
    /// A sentence where a folder holds no module.
    pub(super) async fn new(folders: &[PathBuf]) -> anyhow::Result<Self> {
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

    /// Builds and installs what does not serve yet.
    ///
    /// # Errors
    /// A sentence where something cannot be built or installed.
    pub(super) async fn begin(&mut self, app: &Arc<App>) -> anyhow::Result<()> {
        for project in &self.projects {
            let serves = |component: &PathBuf| {
                let built = self.built.0.get(component);
                let serving = app.life.serving();
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

    /// Builds and swaps, for as long as it is let.
    pub(super) async fn run(mut self, app: Arc<App>) {
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

    /// Waits until a file was changed, and none is any more.
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

/// A developer says yes to what a developer wrote.
async fn install(app: &Arc<App>, component: Vec<u8>) -> anyhow::Result<String> {
    let components = vec![Bytes::from(component)];
    let installed = app
        .life
        .install(&**app, components, true, &Origin::operator())
        .await?;
    let told = installed.iter().map(|report| {
        let module = &report.summary;
        let version = module.version.as_deref().unwrap_or_default();
        format!("{} {version} serves", module.name)
    });
    Ok(told.collect::<Vec<_>>().join(", "))
}

/// For whoever looks at the terminal. Where that is gone, there is nobody to tell.
fn say(what: &str) {
    use std::io::Write as _;
    let _ = writeln!(std::io::stderr(), "latchmail: {what}");
}

/// Whether a path is a folder with a crate in it.
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
