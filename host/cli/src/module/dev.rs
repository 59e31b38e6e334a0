//! `latchmail module dev`: builds the module of a project and installs it in the running service,
//! after each change of a file.

use std::io::Write as _;
use std::path::Path;

use http::Method;
use latchmail_dev::Watcher;
use latchmail_terminal::output::{escape, print_line};
use serde_json::json;

use super::client::send;
use super::components::element;

/// Watches a project until the process ends. If the module cannot be built or installed, prints the
/// reason and waits for the next change.
///
/// # Errors
/// Returns an error if the folder contains no module, or if standard output is closed.
pub(super) async fn run(socket: &Path, folder: &Path) -> anyhow::Result<()> {
    let mut watcher = Watcher::new(&[folder.to_owned()], true).await?;
    let first = watcher
        .build_outdated(
            |_| false,
            async |bytes, name| install(socket, bytes, name).await,
        )
        .await;
    if let Err(error) = first {
        // The terminal can be closed.
        let _ = writeln!(std::io::stderr(), "latchmail: {error:#}");
    }
    print_line("waiting for changes; press Ctrl-C to stop")?;
    watcher
        .run(async |bytes, name| install(socket, bytes, name).await)
        .await;
    Ok(())
}

/// Installs a component, with consent to new permissions. Returns its name and its version.
async fn install(socket: &Path, bytes: Vec<u8>, name: Option<String>) -> anyhow::Result<String> {
    let body = json!({ "modules": [element(&bytes, name.as_deref(), None)], "accept": true });
    let installed = send(socket, Method::POST, "", Some(body)).await?;
    let module = &installed["modules"][0];
    let text = |key: &str| module[key].as_str().map(escape).unwrap_or_default();
    Ok(format!("{} {}", text("name"), text("version")))
}
