//! The components of a command: files, and references to artifacts of registries. An artifact is
//! resolved, verified and downloaded by the command, so the service itself never depends on a
//! registry: its database contains every installed component.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context as _, bail};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use latchmail_core::config::Config;
use latchmail_core::error::StartError;
use latchmail_http::admin::LARGEST_COMPONENTS_MIB;
use latchmail_net::dns::Dns;
use latchmail_registry::{Reference, Registry, Resolved};
use latchmail_runtime::modules::{Mount, name_of_file};
use serde_json::{Value, json};

use super::mount::MountArgs;

/// The maximum total size of the components of one request, in bytes.
const LARGEST_COMPONENTS: u64 = LARGEST_COMPONENTS_MIB * 1024 * 1024;

/// The components of a command.
#[derive(Debug, Clone, clap::Args)]
pub struct Components {
    /// Component files, or references to artifacts of registries: `oci://HOST/REPOSITORY:TAG` or
    /// `oci://HOST/REPOSITORY@sha256:…`. With `--http`, the name of the module and one component;
    /// the default name is that of the file or of the repository.
    #[arg(required = true)]
    files: Vec<PathBuf>,
    /// Accept artifacts without a signature. Requires `registry.allow_unsigned`.
    #[arg(long)]
    unsigned: bool,
    #[command(flatten)]
    mount: MountArgs,
}

impl Components {
    /// Returns one component, which is not mounted.
    pub(super) fn of(file: PathBuf, unsigned: bool) -> Self {
        Self {
            files: vec![file],
            unsigned,
            mount: MountArgs::default(),
        }
    }

    /// Reads the files, and downloads the artifacts. Returns the body of a request.
    pub(super) async fn read(&self, config: &Config) -> anyhow::Result<Value> {
        let (name, files) = self.mount.split(&self.files)?;
        let name_or_default = |file: &Path| name.clone().or_else(|| name_of_file(file));
        let mount = self.mount.mount();
        // The service rejects a large body before it has read the whole body, and the response can
        // be lost. The size is therefore checked first. If the size of a file cannot be read, the
        // code below reports the error when it reads the file.
        let sizes = files.iter().filter_map(|file| file.metadata().ok());
        let mut size: u64 = sizes.map(|file| file.len()).sum();
        let mut modules = Vec::with_capacity(files.len());
        for file in files {
            check_size(size)?;
            let module = if let Some(text) = reference(file) {
                let registry = registry(config)?;
                let wanted: Reference = text.parse()?;
                let resolved = registry.resolve(&wanted).await?;
                let component = pull(&registry, &resolved, self.unsigned).await?;
                size += component.len() as u64;
                let name = name_or_default(Path::new(wanted.repository()));
                artifact(&component, name.as_deref(), mount.as_ref(), &resolved)
            } else {
                let bytes = std::fs::read(file)
                    .with_context(|| format!("cannot read {}", file.display()))?;
                element(&bytes, name_or_default(file).as_deref(), mount.as_ref())
            };
            modules.push(module);
        }
        check_size(size)?;
        Ok(json!({ "modules": modules }))
    }
}

/// Creates the client of registries.
pub(super) fn registry(config: &Config) -> Result<Registry, StartError> {
    let dns = Dns::new(&config.dns, &config.mail_host())?;
    Registry::new(&config.registry, Arc::new(dns))
}

/// Downloads and verifies the component of an artifact.
pub(super) async fn pull(
    registry: &Registry,
    resolved: &Resolved,
    unsigned: bool,
) -> anyhow::Result<Bytes> {
    Ok(registry
        .pull(resolved, unsigned, LARGEST_COMPONENTS)
        .await?)
}

/// Returns the element of `modules` for the component of an artifact. `name` is the name of a
/// component that has no manifest.
pub(super) fn artifact(
    component: &Bytes,
    name: Option<&str>,
    mount: Option<&Mount>,
    resolved: &Resolved,
) -> Value {
    let mut element = element(component, name, mount);
    element["source"] = json!({
        "reference": resolved.reference().to_string(),
        "digest": resolved.digest().as_str(),
    });
    element
}

/// Returns the element of `modules` for a component that does not come from a registry.
pub(super) fn element(component: &[u8], name: Option<&str>, mount: Option<&Mount>) -> Value {
    let component = match mount {
        Some(mount) => STANDARD.encode(mount.add_to(component)),
        None => STANDARD.encode(component),
    };
    let mut element = json!({ "component": component });
    if let Some(name) = name {
        element["name"] = name.into();
    }
    element
}

/// Returns the text of an argument that is meant as a reference.
fn reference(file: &Path) -> Option<&str> {
    file.to_str().filter(|text| Reference::is_meant_by(text))
}

fn check_size(size: u64) -> anyhow::Result<()> {
    if size > LARGEST_COMPONENTS {
        bail!(
            "the components are larger than {LARGEST_COMPONENTS_MIB} MiB in total, the limit for one request"
        );
    }
    Ok(())
}
