//! `latchmail module upgrade`: installs the newest version of a module from its registry.

use anyhow::{anyhow, bail};
use http::Method;
use latchmail_core::config::Config;
use latchmail_registry::{Reference, version};
use latchmail_terminal::output::{escape, print_line, print_lines};
use serde_json::{Value, json};

use super::client::send;
use super::components::{artifact, pull, registry};
use super::mount::MountArgs;
use super::path::module_path;
use super::{inspections, install, output};

/// The options of the command.
#[derive(Debug, Clone, clap::Args)]
pub struct Upgrade {
    /// Name of the module.
    name: String,
    #[command(flatten)]
    mount: MountArgs,
    /// Show the newest version, and what its installation requires, without installing it.
    #[arg(long)]
    plan: bool,
    /// Accept an artifact without a signature. Requires `registry.allow_unsigned`.
    #[arg(long)]
    unsigned: bool,
    /// Consent to the replacement of the version, and to the new imports and routes of the
    /// component. Without this option, the command asks for consent.
    #[arg(long, conflicts_with = "plan")]
    yes: bool,
}

/// Finds, verifies and installs the newest version of a module.
pub(super) async fn upgrade(config: &Config, options: &Upgrade) -> anyhow::Result<()> {
    let (socket, name) = (&config.admin.socket, options.name.as_str());
    let report = send(socket, Method::GET, &module_path(name)?, None).await?;
    let source = output::current_source(&report).ok_or_else(|| {
        anyhow!("the current version of {name} was not installed from a registry, so it has no newer version")
    })?;
    let text = |key: &str| source[key].as_str().unwrap_or_default();
    let installed: Reference = text("reference").parse()?;
    let registry = registry(config)?;
    let newest = registry.newest(&installed).await?;
    let resolved = registry.resolve(&newest).await?;
    if resolved.digest().as_str() == text("digest") {
        return print_line(&format!("{name} is up to date: {resolved}"));
    }
    let component = pull(&registry, &resolved, options.unsigned).await?;
    let mount = options.mount.mount();
    let body = json!({ "modules": [artifact(&component, Some(name), mount.as_ref(), &resolved)] });
    let response = send(socket, Method::POST, "/inspect", Some(body.clone())).await?;
    let found = response["modules"][0]["name"].as_str().unwrap_or_default();
    if found != name {
        bail!(
            "{resolved} contains the module `{}`, not {name}",
            escape(found)
        );
    }
    // A signature does not contain the tag, so a registry can give a newer tag to an older
    // artifact.
    let numbers = |module: &Value| version(module["version"].as_str().unwrap_or_default());
    let (current, newer) = (numbers(&report), numbers(&response["modules"][0]));
    let is_version = newest.tag().is_some_and(|tag| version(tag).is_some());
    if is_version && newer.is_some() && newer < current {
        bail!("{resolved} contains an older version of {name} than the current one");
    }
    if options.plan {
        print_line(&format!("{name} would be upgraded to {resolved}"))?;
        return print_lines(inspections(&response));
    }
    install(socket, body, options.yes).await
}
