//! Lists the files of the SDK, so that the program carries it to authors of modules (`latchmail module new`): there is nothing else that a project
//! needs of this repository.

#![allow(
    clippy::print_stdout,
    reason = "it is how a build script speaks to cargo"
)]

use std::error::Error;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::{env, fs};

/// Folders of the repository, and where their files stand in a project's `vendor/`.
const FOLDERS: [(&str, &str); 6] = [
    ("components/sdk/src", "latchmail-sdk/src"),
    ("components/sdk/README.md", "latchmail-sdk/README.md"),
    ("wit", "latchmail-sdk/wit"),
    ("shape/src", "latchmail-shape/src"),
    ("LICENSE-APACHE", "LICENSE-APACHE"),
    ("LICENSE-MIT", "LICENSE-MIT"),
];

fn main() -> Result<(), Box<dyn Error>> {
    let host = PathBuf::from(env::var("CARGO_MANIFEST_DIR")?);
    let root = host.parent().ok_or("the host stands in no folder")?;
    let mut list = String::from("&[\n");
    for (from, to) in FOLDERS {
        // A folder here counts as changed where anything in it was.
        println!("cargo::rerun-if-changed={}", root.join(from).display());
        add(&mut list, &root.join(from), to)?;
    }
    list.push(']');
    let out = PathBuf::from(env::var("OUT_DIR")?);
    fs::write(out.join("vendored.rs"), list)?;
    Ok(())
}

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
        add(list, &from.join(&name), &format!("{to}/{name}"))?;
    }
    Ok(())
}
