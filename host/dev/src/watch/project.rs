//! Finds, builds and tests the modules of a folder, in each language of `latchmail module new`.
//!
//! A crate, or a folder with crates, is built with cargo. A project in another language has one
//! module. Its own build writes the component to the folder `build`.

use std::path::{Path, PathBuf};
use std::process::Stdio;

use anyhow::{Context as _, bail};
use tokio::process::Command;

use super::crates::{Crates, is_crate};
use super::go;

/// The folder of a project to which its build writes the component.
const BUILD: &str = "build";

/// The modules of a folder.
#[derive(Debug)]
pub struct Project {
    folder: PathBuf,
    language: Language,
    live: bool,
}

#[derive(Debug)]
enum Language {
    Rust(Crates),
    /// JavaScript, and TypeScript that is compiled to JavaScript.
    Javascript,
    Python,
    Go,
}

impl Project {
    /// Finds the modules in a folder. `live` states whether the modules are built after each change
    /// of a source. Such builds take less time, and their components are not for production.
    ///
    /// # Errors
    /// Returns an error if the folder contains no module, or if cargo cannot read a crate.
    pub async fn find(folder: &Path, live: bool) -> anyhow::Result<Self> {
        let folder = folder
            .canonicalize()
            .with_context(|| format!("cannot open the folder {}", folder.display()))?;
        let manifests = [
            ("package.json", Language::Javascript),
            ("pyproject.toml", Language::Python),
            ("go.mod", Language::Go),
        ];
        let found = manifests
            .into_iter()
            .find(|(manifest, _)| !is_crate(&folder) && folder.join(manifest).is_file());
        let language = match found {
            Some((_, language)) => language,
            None => Language::Rust(Crates::find(&folder, live).await?),
        };
        Ok(Self {
            folder,
            language,
            live,
        })
    }

    /// Returns the absolute path of the folder.
    #[must_use]
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Returns the files and folders with the sources of the modules.
    pub(super) fn sources(&self) -> Vec<PathBuf> {
        if let Language::Rust(crates) = &self.language {
            return crates.sources();
        }
        let entries = std::fs::read_dir(&self.folder).into_iter().flatten();
        let names = entries.flatten().map(|entry| entry.file_name());
        let sources = names.filter(|name| {
            name != BUILD && name != "node_modules" && !name.to_string_lossy().starts_with('.')
        });
        sources.map(|name| self.folder.join(name)).collect()
    }

    /// Returns the component files that the last build wrote. In Rust, they include the files that
    /// the next build will write.
    #[must_use]
    pub fn components(&self) -> Vec<PathBuf> {
        if let Language::Rust(crates) = &self.language {
            return crates.components();
        }
        let entries = std::fs::read_dir(self.folder.join(BUILD));
        let files = entries.into_iter().flatten().flatten();
        let files = files.map(|entry| entry.path());
        files
            .filter(|file| {
                file.extension()
                    .is_some_and(|extension| extension == "wasm")
            })
            .collect()
    }

    /// Builds the modules and returns whether the build succeeded. The compiler prints its own
    /// messages.
    ///
    /// # Errors
    /// Returns an error if a tool cannot be run, or if a module in Go cannot be converted to a
    /// component.
    pub async fn build(&self) -> anyhow::Result<bool> {
        let output = self.folder.join(BUILD);
        let mut command = match &self.language {
            Language::Rust(crates) => crates.build_command(),
            Language::Javascript => self.command("npm", &["run", "--silent", "build", "--"]),
            Language::Python => self.command(&self.python(), &["build.py"]),
            Language::Go => {
                std::fs::create_dir_all(&output)
                    .with_context(|| format!("cannot create {}", output.display()))?;
                go::build_command(&self.folder, &output)
            }
        };
        if self.live && matches!(self.language, Language::Javascript | Language::Python) {
            command.arg("--live");
        }
        let built = succeeds(command).await?;
        if built && matches!(self.language, Language::Go) {
            go::write_component(&self.folder, &output).await?;
        }
        Ok(built)
    }

    /// Runs the tests of the modules with these environment variables, and returns whether the
    /// tests passed. The tests print their own messages.
    ///
    /// # Errors
    /// Returns an error if the tests cannot be run.
    pub(crate) async fn test(&self, environment: &[(&str, &Path)]) -> anyhow::Result<bool> {
        let mut command = match &self.language {
            Language::Rust(_) => self.command("cargo", &["test", "--quiet"]),
            Language::Javascript => self.command("npm", &["test", "--silent"]),
            Language::Python => self.command(&self.python(), &["-m", "unittest"]),
            // `-count=1` runs the tests although nothing has changed since the last time.
            Language::Go => self.command("go", &["test", "-count=1", "./..."]),
        };
        command.envs(environment.iter().copied());
        succeeds(command).await
    }

    fn command(&self, program: &str, arguments: &[&str]) -> Command {
        let mut command = Command::new(program);
        command.args(arguments).current_dir(&self.folder);
        command
    }

    /// Returns the interpreter in the virtual environment of the project.
    fn python(&self) -> String {
        let python = self.folder.join(".venv/bin/python");
        python.to_string_lossy().into_owned()
    }
}

/// Runs a command to its end, and returns whether the command succeeded. Dropping the future ends
/// the command.
async fn succeeds(mut command: Command) -> anyhow::Result<bool> {
    let status = command
        .stdin(Stdio::null())
        // Standard output is for the output of the calling command.
        .stdout(std::io::stderr())
        .kill_on_drop(true)
        .status()
        .await;
    match status {
        Ok(status) => Ok(status.success()),
        Err(error) => bail!(
            "cannot run {}: {error}; README.md of the project lists the needed tools",
            command.as_std().get_program().display()
        ),
    }
}
