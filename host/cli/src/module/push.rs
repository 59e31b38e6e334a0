//! `latchmail module push`: uploads a component file to a registry. The command does not need a
//! running service.

use std::path::Path;

use anyhow::Context as _;
use bytes::Bytes;
use latchmail_core::clock::Clock;
use latchmail_core::config::Config;
use latchmail_registry::Reference;
use latchmail_terminal::output::print_line;

use super::components::registry;

/// Uploads a component file, and prints its reference with the digest, for the command that signs
/// it.
pub(super) async fn push(config: &Config, file: &Path, reference: &str) -> anyhow::Result<()> {
    let reference: Reference = reference.parse()?;
    let bytes = std::fs::read(file).with_context(|| format!("cannot read {}", file.display()))?;
    let now = Clock::system().now();
    let digest = registry(config)?
        .push(&reference, &Bytes::from(bytes), now)
        .await?;
    print_line(&format!("pushed {reference}@{digest}"))
}
