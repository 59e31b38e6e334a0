//! `latchmail module new`: creates a project that can be built and installed as a module unchanged.
//!
//! This program contains the SDK and the contract and writes them into the project, so that the project needs neither this repository nor
//! another version of them. This module does not build the project and does not use a running service.

mod lock;
mod manifest;
mod name;
mod template;

use std::fs::{self, DirBuilder, OpenOptions};
use std::io::{ErrorKind, Write as _};
use std::path::Path;

use anyhow::{Context as _, bail};

pub use name::Name;

/// Files of this repository that a project contains, with their paths in `vendor/`.
const VENDORED: &[(&str, &str)] = include!(concat!(env!("OUT_DIR"), "/vendored.rs"));

/// The workspace of the SDK, with the dependency versions that the SDK was tested with.
const WORKSPACE: &str = include_str!("../../../Cargo.toml");
const LOCK: &str = include_str!("../../../Cargo.lock");
const SDK: &str = include_str!("../../../components/sdk/Cargo.toml");
const SHAPE: &str = include_str!("../../../shape/Cargo.toml");

/// Creates the folder `into` with a project for the module `name`. Writes nothing if `into` already exists.
///
/// # Errors
/// Returns an error that names the file or folder that could not be written.
pub fn create(name: &Name, into: &Path) -> anyhow::Result<()> {
    let files = files(name)?;
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

/// Returns the path and the text of every file of the project.
fn files(name: &Name) -> anyhow::Result<Vec<(String, String)>> {
    let mut files = template::files(name);
    for (crate_name, text) in [("latchmail-sdk", SDK), ("latchmail-shape", SHAPE)] {
        let manifest = manifest::standalone(text, WORKSPACE)
            .with_context(|| format!("cannot generate the manifest of {crate_name}"))?;
        files.push((format!("vendor/{crate_name}/Cargo.toml"), manifest));
    }
    let vendored = VENDORED
        .iter()
        .map(|(path, text)| (format!("vendor/{path}"), (*text).to_owned()));
    files.extend(vendored);
    files.push(("Cargo.lock".into(), lock::of(name.as_str(), LOCK)));
    Ok(files)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(name: &str) -> Name {
        name.parse().unwrap()
    }

    #[test]
    fn a_project_has_the_contract_the_sdk_and_nothing_that_points_out_of_it() {
        let files = files(&named("my-notes")).unwrap();
        let text = |path: &str| {
            let found = files.iter().find(|(known, _)| known == path);
            found.map_or_else(|| panic!("no {path}"), |(_, text)| text.as_str())
        };
        assert!(text("vendor/latchmail-sdk/wit/worlds.wit").contains("latchmail:host@"));
        assert!(text("vendor/latchmail-sdk/src/lib.rs").contains("pub mod capability;"));
        assert!(text("Cargo.toml").contains("name = \"my-notes\""));
        assert!(text("Cargo.lock").contains("name = \"my-notes\""));
        for (path, text) in &files {
            assert!(!path.contains("..") && !path.starts_with('/'), "{path}");
            // Vendored files can contain double braces of their own.
            assert!(
                path.starts_with("vendor/") || !text.contains("{{"),
                "{path} has a blank that was not filled in"
            );
            if path.ends_with("Cargo.toml") {
                assert!(!text.contains("workspace = true"), "{path}: {text}");
            }
        }
    }

    #[test]
    fn an_existing_folder_is_left_unchanged() {
        let folder = std::env::temp_dir().join(format!("lm-project-{}", std::process::id()));
        fs::create_dir(&folder).unwrap();
        let project = folder.join("notes");
        create(&named("notes"), &project).unwrap();
        let kept = project.join("src/lib.rs");
        fs::write(&kept, "mine").unwrap();
        let refused = create(&named("notes"), &project).unwrap_err().to_string();
        assert!(refused.ends_with("notes already exists"), "{refused}");
        assert_eq!(fs::read_to_string(&kept).unwrap(), "mine");
        let nowhere = create(&named("notes"), &folder.join("a/b")).unwrap_err();
        assert!(nowhere.to_string().starts_with("cannot create the folder"));
        fs::remove_dir_all(&folder).unwrap();
    }
}
