//! Builds modules in Go. The Go compiler has no target for components. It builds a core module for
//! WASI 0.1, which this code converts to a component with the adapter of wasmtime.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};
use tokio::process::Command;
use wasi_preview1_component_adapter_provider::{
    WASI_SNAPSHOT_PREVIEW1_ADAPTER_NAME, WASI_SNAPSHOT_PREVIEW1_REACTOR_ADAPTER,
};
use wit_component::{ComponentEncoder, StringEncoding, embed_component_metadata};
use wit_parser::Resolve;

/// The file of the core module, in the folder `build` of a project. Its name does not end with
/// `.wasm`, because it cannot be installed.
const CORE: &str = "core";

/// The folder with the WIT files of a project, and the world in it that lists the exports.
const WIT: &str = "wit";
const WORLD: &str = "module";

/// Returns the command that builds the core module of the project in `folder`.
pub(super) fn build_command(folder: &Path, build: &Path) -> Command {
    let mut command = Command::new("go");
    command
        .args([
            "build",
            "-buildmode=c-shared",
            "-trimpath",
            "-buildvcs=false",
        ])
        // The support package uses an internal function of the Go runtime to allocate memory before
        // the runtime has started.
        .arg("-ldflags=-s -w -checklinkname=0")
        .arg("-o")
        .arg(build.join(CORE))
        .arg(".")
        .envs([("GOOS", "wasip1"), ("GOARCH", "wasm")])
        .current_dir(folder);
    command
}

/// Converts the core module to a component, which has the name of the project's Go module.
///
/// # Errors
/// Returns an error if a file cannot be read or written, or if the core module does not have the
/// exports of the world.
pub(super) async fn write_component(folder: &Path, build: &Path) -> anyhow::Result<()> {
    let component = build.join(component_name(folder)?);
    let (core, wit) = (build.join(CORE), folder.join(WIT));
    // The conversion takes some tenths of a second of CPU time.
    tokio::task::spawn_blocking(move || {
        let bytes = encode(&core, &wit).context("cannot convert the module to a component")?;
        let draft = component.with_extension("new");
        std::fs::write(&draft, bytes)
            .and_then(|()| std::fs::rename(&draft, &component))
            .with_context(|| format!("cannot write {}", component.display()))
    })
    .await?
}

fn encode(core: &Path, wit: &Path) -> anyhow::Result<Vec<u8>> {
    let mut module =
        std::fs::read(core).with_context(|| format!("cannot read {}", core.display()))?;
    let mut resolve = Resolve::default();
    let (package, _) = resolve.push_path(wit)?;
    let world = resolve.select_world(&[package], Some(WORLD))?;
    embed_component_metadata(&mut module, &resolve, world, StringEncoding::UTF8)?;
    // The component imports only the interfaces of the world that the module uses.
    ComponentEncoder::default()
        .validate(true)
        .module(&module)?
        .adapter(
            WASI_SNAPSHOT_PREVIEW1_ADAPTER_NAME,
            WASI_SNAPSHOT_PREVIEW1_REACTOR_ADAPTER,
        )?
        .encode()
}

/// Returns the name of the component file: the last segment of the Go module's path.
fn component_name(folder: &Path) -> anyhow::Result<PathBuf> {
    let file = folder.join("go.mod");
    let text = std::fs::read_to_string(&file)
        .with_context(|| format!("cannot read {}", file.display()))?;
    let path = text.lines().find_map(|line| line.strip_prefix("module "));
    let name = path.and_then(|path| path.trim().rsplit('/').next());
    match name {
        Some(name) if !name.is_empty() => Ok(format!("{}.wasm", name.replace('-', "_")).into()),
        _ => bail!("{} has no line `module PATH`", file.display()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_component_has_the_name_of_the_go_module() {
        let folder = std::env::temp_dir().join(format!("lm-go-{}", std::process::id()));
        std::fs::create_dir(&folder).unwrap();
        let write = |text: &str| std::fs::write(folder.join("go.mod"), text).unwrap();
        write("// A module.\nmodule latchmail.test/my-notes\n\ngo 1.25\n");
        assert_eq!(component_name(&folder).unwrap(), Path::new("my_notes.wasm"));
        write("go 1.25\n");
        let error = component_name(&folder).unwrap_err().to_string();
        assert!(error.ends_with("has no line `module PATH`"), "{error}");
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
