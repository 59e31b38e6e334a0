//! Generates lists of the files that `latchmail module new` writes. The lists are compiled into the
//! program. The files of a project in Go include bindings that are generated from `wit/`.

#![allow(
    clippy::print_stdout,
    reason = "cargo reads the standard output of a build script"
)]

use std::error::Error;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::{env, fs};

use anyhow::Context as _;
use wit_bindgen_core::Files;
use wit_bindgen_core::wit_parser::Resolve;

/// The files and folders of a new project for each language. Each pair consists of a path in the
/// repository and a path in the project.
const PROJECTS: [(&str, &[(&str, &str)]); 5] = [
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
        "typescript",
        &[
            ("host/cli/module-template/typescript", ""),
            ("host/cli/module-template/javascript/latchmail", "latchmail"),
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
    (
        GO,
        &[
            ("host/cli/module-template/go", ""),
            ("wit", "wit/deps/latchmail-host"),
            ("LICENSE-APACHE", "latchmail/LICENSE-APACHE"),
            ("LICENSE-MIT", "latchmail/LICENSE-MIT"),
        ],
    ),
];

const GO: &str = "go";

/// The folder of the bindings in a project in Go.
const GO_BINDINGS: &str = "latchmail/bindings";

/// The world of the bindings in Go: everything that a component can import or export. A component
/// gets only the imports that it uses, and the exports in its own `wit/world.wit`.
const GO_WORLD: &str = "package project:module;

world module {
    include latchmail:host/everything@VERSION;
    export latchmail:host/handlers@VERSION;
}
";

/// The import path of the package with the types and functions that the bindings use, and its path
/// in a project.
const GO_SUPPORT: (&str, &str) = (
    "go.bytecodealliance.org/pkg/wit/",
    "latchmail.test/{{name}}/latchmail/wit/",
);

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
        if language == GO {
            let bindings = out.join("go-bindings");
            generate_go(&root.join("wit"), &bindings).context("cannot generate Go bindings")?;
            add(&mut list, &bindings, GO_BINDINGS)?;
        }
        list.push(']');
        fs::write(out.join(format!("{language}.rs")), list)?;
    }
    Ok(())
}

/// Generates Go bindings of the contract in the folder `wit` into the folder `into`. Their import
/// paths have a placeholder for the name of the module.
fn generate_go(wit: &Path, into: &Path) -> anyhow::Result<()> {
    let mut resolve = Resolve::default();
    let (host, _) = resolve.push_path(wit)?;
    let version = resolve.packages[host].name.version.as_ref();
    let version = version.context("the contract has no version")?.to_string();
    let world = GO_WORLD.replace("VERSION", &version);
    let project = resolve.push_str("world.wit", &world)?;
    let world = resolve.select_world(&[project], Some("module"))?;
    let options = wit_bindgen_go::Opts {
        // The formatter of Go can be missing.
        format: wit_bindgen_go::Format::False,
        pkg_name: Some(format!("latchmail.test/{{{{name}}}}/{GO_BINDINGS}")),
        ..Default::default()
    };
    let mut files = Files::default();
    options.build().generate(&mut resolve, world, &mut files)?;
    if into.exists() {
        fs::remove_dir_all(into)?;
    }
    for (name, bytes) in files.iter() {
        let text = std::str::from_utf8(bytes)?.replace(GO_SUPPORT.0, GO_SUPPORT.1);
        let file = into.join(format!("{name}.in"));
        fs::create_dir_all(file.parent().context("a file has no folder")?)?;
        fs::write(file, text)?;
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
