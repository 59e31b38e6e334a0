//! Creates the project of a new module in Rust, TypeScript, JavaScript, Python or Go. The user can
//! build the project and install the module without changes.
//!
//! This program contains the templates, the SDK and the WIT files, so a project does not need this
//! repository. This code does not build the project and does not connect to a service.

mod lock;
mod manifest;
mod name;

use std::fs::{self, DirBuilder, OpenOptions};
use std::io::{ErrorKind, Write as _};
use std::path::Path;

use anyhow::{Context as _, bail};
use latchmail_runtime::modules::CONTRACT;
use serde_json::Value;

pub(crate) use name::Name;

/// Pairs of the path of a file in a project and the text of the file. Files with the suffix
/// [`TEMPLATE_SUFFIX`] contain placeholders.
type Files = &'static [(&'static str, &'static str)];
const RUST: Files = include!(concat!(env!("OUT_DIR"), "/rust.rs"));
const JAVASCRIPT: Files = include!(concat!(env!("OUT_DIR"), "/javascript.rs"));
const TYPESCRIPT: Files = include!(concat!(env!("OUT_DIR"), "/typescript.rs"));
const PYTHON: Files = include!(concat!(env!("OUT_DIR"), "/python.rs"));
const GO: Files = include!(concat!(env!("OUT_DIR"), "/go.rs"));
const TEMPLATE_SUFFIX: &str = ".in";

/// The language of a project.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Language {
    /// Rust, with the SDK.
    Rust,
    /// TypeScript, with componentize-js.
    Typescript,
    /// JavaScript, with componentize-js.
    Javascript,
    /// Python, with componentize-py.
    Python,
    /// Go, for WASI 0.1 with the adapter of wasmtime.
    Go,
}

/// The manifest of the workspace. `LOCK` is the lock file of the workspace. The lock file contains
/// the versions of the dependencies with which the SDK was tested.
const WORKSPACE: &str = include_str!("../../../Cargo.toml");
const LOCK: &str = include_str!("../../../Cargo.lock");
const SDK: &str = include_str!("../../../components/sdk/Cargo.toml");
const SHAPE: &str = include_str!("../../../shape/Cargo.toml");

impl Language {
    /// Returns the commands that test and build a project, and the path of the built component. The
    /// README of the project contains the same commands.
    #[must_use]
    pub fn commands(self, name: &Name) -> (&'static [&'static str], String) {
        let file = name.file_name();
        match self {
            Self::Rust => (
                &["cargo test", "cargo build --release --target wasm32-wasip2"],
                format!("target/wasm32-wasip2/release/{file}"),
            ),
            Self::Typescript | Self::Javascript => (
                &["npm ci --ignore-scripts", "npm test", "npm run build"],
                format!("build/{file}"),
            ),
            Self::Python => (
                &[
                    "python3 -m venv .venv",
                    ".venv/bin/pip install -r requirements.txt",
                    ".venv/bin/python -m unittest",
                    ".venv/bin/python build.py",
                ],
                format!("build/{file}"),
            ),
            Self::Go => (
                &["go test ./...", "latchmail module build"],
                format!("build/{file}"),
            ),
        }
    }

    fn files(self) -> Files {
        match self {
            Self::Rust => RUST,
            Self::Typescript => TYPESCRIPT,
            Self::Javascript => JAVASCRIPT,
            Self::Python => PYTHON,
            Self::Go => GO,
        }
    }
}

/// Creates the folder `into` with a project for the module `name`.
///
/// # Errors
/// Returns an error if `into` already exists, and writes nothing in this case. Returns an error
/// with the path if a file or folder cannot be written.
pub(crate) fn create(name: &Name, language: Language, into: &Path) -> anyhow::Result<()> {
    let files = files(name, language)?;
    match DirBuilder::new().create(into) {
        Ok(()) => {}
        Err(error) if error.kind() == ErrorKind::AlreadyExists => {
            bail!("{} already exists", into.display());
        }
        Err(error) => {
            return Err(error)
                .with_context(|| format!("cannot create the folder {}", into.display()));
        }
    }
    for (path, text) in files {
        let file = into.join(path);
        write(&file, &text).with_context(|| format!("cannot write {}", file.display()))?;
    }
    Ok(())
}

fn write(file: &Path, text: &str) -> std::io::Result<()> {
    if let Some(folder) = file.parent() {
        fs::create_dir_all(folder)?;
    }
    let mut file = OpenOptions::new().write(true).create_new(true).open(file)?;
    file.write_all(text.as_bytes())
}

/// Returns the path and the text of each file of the project.
fn files(name: &Name, language: Language) -> anyhow::Result<Vec<(String, String)>> {
    let placeholders = [
        ("{{name}}", name.to_string()),
        ("{{Name}}", name.to_camel_case()),
        ("{{file}}", name.file_name()),
        ("{{contract}}", CONTRACT.to_owned()),
    ];
    let file = |(path, text): &(&str, &str)| match path.strip_suffix(TEMPLATE_SUFFIX) {
        Some(path) => {
            let replace = |text: String, (placeholder, value): &(&str, String)| {
                text.replace(placeholder, value)
            };
            (
                path.to_owned(),
                placeholders.iter().fold((*text).to_owned(), replace),
            )
        }
        None => ((*path).to_owned(), (*text).to_owned()),
    };
    let mut files: Vec<_> = language.files().iter().map(file).collect();
    if language == Language::Javascript {
        for (path, text) in &mut files {
            if path == NPM_LOCK {
                *text = without_typescript(text)?;
            }
        }
    }
    if language != Language::Rust {
        return Ok(files);
    }
    for (crate_name, text) in [("latchmail-sdk", SDK), ("latchmail-shape", SHAPE)] {
        let manifest = manifest::standalone(text, WORKSPACE)
            .with_context(|| format!("cannot generate the manifest of {crate_name}"))?;
        files.push((format!("vendor/{crate_name}/Cargo.toml"), manifest));
    }
    files.push(("Cargo.lock".into(), lock::generate(name.as_str(), LOCK)));
    Ok(files)
}

/// The lock file of npm.
const NPM_LOCK: &str = "package-lock.json";

/// Returns the lock file of npm without the compiler, which only a project in TypeScript needs.
fn without_typescript(lock: &str) -> anyhow::Result<String> {
    let mut lock: Value =
        serde_json::from_str(lock).context("cannot parse the lock file of npm")?;
    if let Some(packages) = lock["packages"].as_object_mut() {
        packages.remove("node_modules/typescript");
        if let Some(project) = packages.get_mut("").and_then(Value::as_object_mut) {
            project.remove("devDependencies");
        }
    }
    Ok(format!("{lock:#}\n"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(name: &str) -> Name {
        name.parse().unwrap()
    }

    const LANGUAGES: [Language; 5] = [
        Language::Rust,
        Language::Typescript,
        Language::Javascript,
        Language::Python,
        Language::Go,
    ];

    fn text(language: Language, path: &str) -> String {
        let files = files(&named("my-notes"), language).unwrap();
        let found = files.into_iter().find(|(known, _)| known == path);
        found.unwrap_or_else(|| panic!("no {path}")).1
    }

    #[test]
    fn a_project_has_the_wit_files_no_placeholders_and_a_readme_with_the_commands() {
        for language in LANGUAGES {
            let name = named("my-notes");
            let files = files(&name, language).unwrap();
            assert!(files.iter().any(|(path, _)| path.ends_with("/mailbox.wit")));
            for (path, text) in &files {
                // Files that are copied from the repository can contain double braces.
                let copied = path.starts_with("vendor/") || path.ends_with("package-lock.json");
                assert!(copied || !text.contains("{{"), "{path}: {text}");
                assert!(!path.contains("..") && !path.starts_with('/'), "{path}");
            }
            let (commands, component) = language.commands(&name);
            let readme = text(language, "README.md");
            assert!(readme.contains(&format!("```sh\n{}\n```", commands.join("\n"))));
            let install = format!(
                "latchmail module inspect {component}\nlatchmail module install {component}\n"
            );
            assert!(readme.contains(&install), "{readme}");
        }
    }

    #[test]
    fn projects_use_the_tested_versions_of_the_tools() {
        let tested: Value =
            serde_json::from_str(include_str!("../../../scripts/guests/package.json")).unwrap();
        let json =
            |language, path| -> Value { serde_json::from_str(&text(language, path)).unwrap() };
        let javascript = json(Language::Javascript, "package.json");
        let typescript = json(Language::Typescript, "package.json");
        for key in ["dependencies", "overrides"] {
            assert_eq!(javascript[key], tested[key]);
            assert_eq!(typescript[key], tested[key]);
        }
        assert_eq!(typescript["devDependencies"], tested["devDependencies"]);
        let lock = json(Language::Typescript, NPM_LOCK);
        assert!(lock["packages"]["node_modules/typescript"].is_object());
        let lock = json(Language::Javascript, NPM_LOCK);
        assert!(lock["packages"]["node_modules/typescript"].is_null());
        assert!(lock["packages"][""]["devDependencies"].is_null());
        let tested = include_str!("../../../scripts/guests/requirements.txt");
        let project = text(Language::Python, "requirements.txt");
        assert!(tested.contains(project.trim()), "{project}");
    }

    #[test]
    fn a_rust_project_contains_the_sdk_and_does_not_need_a_workspace() {
        let files = files(&named("my-notes"), Language::Rust).unwrap();
        let text = |path: &str| {
            let found = files.iter().find(|(known, _)| known == path);
            found.map_or_else(|| panic!("no {path}"), |(_, text)| text.as_str())
        };
        assert!(text("vendor/latchmail-sdk/wit/worlds.wit").contains("latchmail:host@"));
        assert!(text("vendor/latchmail-sdk/src/lib.rs").contains("pub mod capability;"));
        assert!(text("Cargo.toml").contains("name = \"my-notes\""));
        assert!(text("Cargo.lock").contains("name = \"my-notes\""));
        for (path, text) in &files {
            if path.ends_with("Cargo.toml") {
                assert!(!text.contains("workspace = true"), "{path}: {text}");
            }
        }
    }

    #[test]
    fn a_project_in_go_contains_bindings_that_belong_to_it() {
        let exports = text(
            Language::Go,
            "latchmail/bindings/wit_exports/wit_exports.go",
        );
        assert!(exports.contains("//go:wasmexport latchmail:host/handlers@"));
        assert!(exports.contains("\"latchmail.test/my-notes/latchmail/wit/types\""));
        assert!(!exports.contains("bytecodealliance.org"), "{exports}");
        assert_eq!(
            text(Language::Go, "go.mod"),
            "module latchmail.test/my-notes\n\ngo 1.25\n"
        );
    }

    #[test]
    fn an_existing_folder_is_left_unchanged() {
        let folder = std::env::temp_dir().join(format!("lm-project-{}", std::process::id()));
        fs::create_dir(&folder).unwrap();
        let project = folder.join("notes");
        create(&named("notes"), Language::Rust, &project).unwrap();
        let existing = project.join("src/lib.rs");
        fs::write(&existing, "mine").unwrap();
        let error = create(&named("notes"), Language::Python, &project)
            .unwrap_err()
            .to_string();
        assert!(error.ends_with("notes already exists"), "{error}");
        assert_eq!(fs::read_to_string(&existing).unwrap(), "mine");
        let error = create(&named("notes"), Language::Rust, &folder.join("a/b")).unwrap_err();
        assert!(error.to_string().starts_with("cannot create the folder"));
        fs::remove_dir_all(&folder).unwrap();
    }
}
