//! Generates lists of the files that `latchmail module new` writes. The lists are compiled into the
//! program.

#![allow(
    clippy::print_stdout,
    reason = "cargo reads the standard output of a build script"
)]

use std::error::Error;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::{env, fs};

/// The files and folders of a new project for each language. Each pair consists of a path in the
/// repository and a path in the project.
const PROJECTS: [(&str, &[(&str, &str)]); 3] = [
    (
        "rust",
        &[
            ("host/cli/module-template/rust", ""),
            ("rust-toolchain.toml", "rust-toolchain.toml"),
            (".cargo/config.toml", ".cargo/config.toml"),
            ("components/sdk/src", "vendor/latchmail-sdk/src"),
            ("components/sdk/README.md", "vendor/latchmail-sdk/README.md"),
            ("wit", "vendor/latchmail-sdk/wit"),
            ("shape/src", "vendor/latchmail-shape/src"),
            ("LICENSE-APACHE", "vendor/LICENSE-APACHE"),
            ("LICENSE-MIT", "vendor/LICENSE-MIT"),
        ],
    ),
    (
        "javascript",
        &[
            ("host/cli/module-template/javascript", ""),
            (
                "components/examples/aliases-js/latchmail.js",
                "latchmail/module.js",
            ),
            ("scripts/guests/package-lock.json", "package-lock.json"),
            ("wit", "wit/deps/latchmail-host"),
            ("LICENSE-APACHE", "latchmail/LICENSE-APACHE"),
            ("LICENSE-MIT", "latchmail/LICENSE-MIT"),
        ],
    ),
    (
        "python",
        &[
            ("host/cli/module-template/python", ""),
            (
                "components/examples/aliases-py/latchmail.py",
                "src/latchmail.py",
            ),
            ("wit", "wit/deps/latchmail-host"),
            ("LICENSE-APACHE", "wit/LICENSE-APACHE"),
            ("LICENSE-MIT", "wit/LICENSE-MIT"),
        ],
    ),
];

fn main() -> Result<(), Box<dyn Error>> {
    let manifest_dir = PathBuf::from(env::var("CARGO_MANIFEST_DIR")?);
    let root = manifest_dir
        .ancestors()
        .nth(2)
        .ok_or("the crate is not in the repository")?;
    let out = PathBuf::from(env::var("OUT_DIR")?);
    for (language, files) in PROJECTS {
        let mut list = String::from("&[\n");
        for (from, to) in files {
            // If the path is a folder, cargo detects changes of all files in the folder.
            println!("cargo::rerun-if-changed={}", root.join(from).display());
            add(&mut list, &root.join(from), to)?;
        }
        list.push(']');
        fs::write(out.join(format!("{language}.rs")), list)?;
    }
    Ok(())
}

/// Adds the file `from`, or all files of the folder `from`, to the list.
fn add(list: &mut String, from: &Path, to: &str) -> Result<(), Box<dyn Error>> {
    if from.is_file() {
        writeln!(
            list,
            "({to:?}, include_str!({:?})),",
            from.display().to_string()
        )?;
        return Ok(());
    }
    let mut names: Vec<String> = fs::read_dir(from)?
        .map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned()))
        .collect::<Result<_, std::io::Error>>()?;
    names.sort_unstable();
    for name in names {
        let to = if to.is_empty() {
            name.clone()
        } else {
            format!("{to}/{name}")
        };
        add(list, &from.join(&name), &to)?;
    }
    Ok(())
}
