//! Configures the service's milter for Postfix.

use std::path::{Path, PathBuf};

use anyhow::Context as _;
use serde_json::Value;

use crate::daemon::GracePeriod;
use crate::layout::Layout;
use crate::lookup::Lookup;
use crate::ports::{Ports, loopback};
use crate::private_file::write_private;

/// The time between the request to end the milter and the SIGKILL: a tenth of a second. Postfix
/// sends a temporary error to its client if the milter ends during a message, so a short time is
/// enough.
pub(crate) const GRACE: GracePeriod = GracePeriod(5);

/// The options for starting the service's milter.
#[derive(Clone, Debug)]
pub struct MilterOptions {
    /// The path of the program `latchmail`.
    pub program: PathBuf,
    /// Additional configuration lines in dotted form. These lines must not set the database, the
    /// address or the log.
    pub settings: String,
    /// `true` if the milter uses the DNS.
    pub dns: bool,
    /// The text that the milter logs when it accepts connections. This crate does not depend on
    /// `latchmail_milter`, so callers pass `latchmail_milter::READY`.
    pub ready_text: &'static str,
}

impl MilterOptions {
    /// Writes the configuration and returns the command that starts the milter.
    pub(crate) fn configure(
        &self,
        layout: &Layout,
        lookup: &Lookup,
        ports: &Ports,
    ) -> anyhow::Result<Vec<String>> {
        let (key, value) = match lookup {
            Lookup::Sqlite(file) => ("database.mailserver", Value::from(file.to_string_lossy())),
            Lookup::Postgres(url) => ("database.url", Value::from(url.as_str())),
        };
        let text = format!(
            "inbound.listen = \"{}\"\nlog.filter = \"info\"\n{key} = {value}\n{}\n",
            loopback(ports.milter),
            self.settings
        );
        let file = layout.root.join("milter.toml");
        write_private(&file, &text).with_context(|| format!("cannot write {}", file.display()))?;
        let text = |path: &Path| path.display().to_string();
        let mut command = vec![
            text(&self.program),
            "milter".into(),
            "--config".into(),
            text(&file),
        ];
        if !self.dns {
            command.push("--without-dns".into());
        }
        Ok(command)
    }
}
