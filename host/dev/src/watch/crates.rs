//! Finds and builds the modules of a cargo project: a crate, or a folder with crates of one
//! workspace. `cargo metadata` reports the structure of the project.
//!
//! This program parses the output of `cargo metadata` itself. The crate `cargo_metadata` would
//! enable the feature `unbounded_depth` of `serde_json` for the whole program.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Stdio;

use anyhow::{Context as _, bail};
use serde::Deserialize;
use tokio::process::Command;

const TARGET: &str = "wasm32-wasip2";

/// A build profile for release builds of modules. If a workspace defines this profile, its
/// `.cargo/config.toml` also optimizes `dev` builds of modules.
///
/// For such a workspace, this program uses the profile `dev`, because a `dev` build takes less
/// time. Otherwise this program uses the profile `release`.
const OWN_PROFILE: &str = "component";

/// The modules of a folder. Cargo builds the modules together.
#[derive(Debug)]
pub(super) struct Crates {
    folder: PathBuf,
    /// The path of the manifest of one crate. From this manifest, cargo finds the workspace.
    manifest: PathBuf,
    packages: Vec<String>,
    components: Vec<PathBuf>,
    sources: Vec<PathBuf>,
    profile: &'static str,
}

#[derive(Deserialize)]
struct Metadata {
    packages: Vec<Package>,
    target_directory: PathBuf,
    workspace_root: PathBuf,
}

#[derive(Deserialize)]
struct Package {
    name: String,
    manifest_path: PathBuf,
    dependencies: Vec<Dependency>,
    targets: Vec<Target>,
    /// The values of `[package.metadata]`, or null.
    #[serde(default)]
    metadata: serde_json::Value,
}

#[derive(Deserialize)]
struct Dependency {
    path: Option<PathBuf>,
}

#[derive(Deserialize)]
struct Target {
    name: String,
    kind: Vec<String>,
}

impl Package {
    fn folder(&self) -> &Path {
        self.manifest_path.parent().unwrap_or(Path::new("/"))
    }

    /// Returns the name of the library that is compiled to a component, or `None` if the crate has
    /// no such library.
    fn component(&self) -> Option<&str> {
        let cdylib = |target: &&Target| target.kind.iter().any(|kind| kind == "cdylib");
        let target = self.targets.iter().find(cdylib)?;
        Some(&target.name)
    }

    /// Returns whether the module is not installed with the other modules of a folder, because its
    /// manifest has `optional = true` in the section `[package.metadata.latchmail]`.
    fn is_optional(&self) -> bool {
        self.metadata["latchmail"]["optional"] == true
    }
}

impl Crates {
    /// Finds the modules in a folder, whose path is absolute.
    ///
    /// # Errors
    /// Returns an error if the folder contains no module, or if cargo cannot read the project.
    pub(super) async fn find(folder: &Path) -> anyhow::Result<Self> {
        let crates: Vec<PathBuf> = if is_crate(folder) {
            vec![folder.to_owned()]
        } else {
            let entries = std::fs::read_dir(folder)?.flatten();
            entries.map(|e| e.path()).filter(|p| is_crate(p)).collect()
        };
        let Some(first) = crates.first() else {
            bail!("{} has no module and no crates", folder.display());
        };
        let manifest = first.join("Cargo.toml");
        let metadata = metadata(&manifest).await?;
        let by_folder: BTreeMap<&Path, &Package> =
            metadata.packages.iter().map(|p| (p.folder(), p)).collect();
        let is_one = is_crate(folder);
        let modules: Vec<&Package> = crates
            .iter()
            .filter_map(|folder| by_folder.get(folder.as_path()).copied())
            .filter(|package| package.component().is_some() && (is_one || !package.is_optional()))
            .collect();
        if modules.is_empty() {
            bail!(
                "{} contains no module: none of its crates has the crate type `cdylib`",
                folder.display()
            );
        }
        let root = std::fs::read_to_string(metadata.workspace_root.join("Cargo.toml"));
        let own = root.is_ok_and(|text| text.contains(&format!("[profile.{OWN_PROFILE}]")));
        let (profile, folder_of_profile) = if own {
            ("dev", "debug")
        } else {
            ("release", "release")
        };
        let built = metadata
            .target_directory
            .join(TARGET)
            .join(folder_of_profile);
        let component = |package: &&Package| {
            package
                .component()
                .map(|name| built.join(format!("{name}.wasm")))
        };
        Ok(Self {
            packages: modules.iter().map(|package| package.name.clone()).collect(),
            components: modules.iter().filter_map(component).collect(),
            sources: sources(&modules, &by_folder),
            folder: folder.to_owned(),
            manifest,
            profile,
        })
    }

    /// Returns the source folders of the modules.
    pub(super) fn sources(&self) -> Vec<PathBuf> {
        self.sources.clone()
    }

    /// Returns the component files that the build writes.
    pub(super) fn components(&self) -> Vec<PathBuf> {
        self.components.clone()
    }

    /// Returns the command that builds the modules.
    pub(super) fn build_command(&self) -> Command {
        let mut command = Command::new("cargo");
        command
            .args([
                "build",
                "--quiet",
                "--target",
                TARGET,
                "--profile",
                self.profile,
            ])
            .arg("--manifest-path")
            .arg(&self.manifest)
            // Cargo finds the toolchain and the settings of the project in the working directory.
            .current_dir(&self.folder);
        for package in &self.packages {
            command.args(["--package", package]);
        }
        command
    }
}

/// Returns the folders of the modules, and the folders of their local dependencies.
fn sources(modules: &[&Package], by_folder: &BTreeMap<&Path, &Package>) -> Vec<PathBuf> {
    let mut folders: BTreeSet<PathBuf> = BTreeSet::new();
    let mut pending: Vec<PathBuf> = modules.iter().map(|m| m.folder().to_owned()).collect();
    while let Some(folder) = pending.pop() {
        if let Some(package) = by_folder.get(folder.as_path()) {
            pending.extend(
                package
                    .dependencies
                    .iter()
                    .filter_map(|dependency| dependency.path.clone())
                    .filter(|path| !folders.contains(path)),
            );
        }
        folders.insert(folder);
    }
    folders.into_iter().collect()
}

pub(super) fn is_crate(folder: &Path) -> bool {
    folder.join("Cargo.toml").is_file()
}

async fn metadata(manifest: &Path) -> anyhow::Result<Metadata> {
    let output = Command::new("cargo")
        .args([
            "metadata",
            "--format-version",
            "1",
            "--no-deps",
            "--manifest-path",
        ])
        .arg(manifest)
        .current_dir(manifest.parent().unwrap_or(Path::new("/")))
        .stdin(Stdio::null())
        .kill_on_drop(true)
        .output()
        .await
        .context("cannot run cargo, which builds the modules")?;
    if !output.status.success() {
        let message = String::from_utf8_lossy(&output.stderr);
        bail!(
            "cargo cannot read {}: {}",
            manifest.display(),
            message.trim()
        );
    }
    serde_json::from_slice(&output.stdout).context("cannot parse the output of `cargo metadata`")
}
