//! Configures and starts the service's milter for Postfix, and waits until the milter listens.

use serde_json::Value;
use std::path::PathBuf;

use anyhow::Context as _;
use tokio::time::{Instant, sleep};

use super::Lookup;
use super::folder::Layout;
use super::ports::{Answer, PAUSE, Ports, local};
use super::process::{Daemon, Grace};
use crate::write_private;

/// What `latchmail milter` logs when it accepts connections.
const READY: &str = "checking senders";

/// The time before the milter is killed. It has nothing to complete: Postfix tells clients to retry.
pub(crate) const GRACE: Grace = Grace(5);

/// The parameters for starting a stack's milter.
#[derive(Clone, Debug)]
pub struct Milter {
    /// The path of the program `latchmail`.
    pub program: PathBuf,
    /// Additional configuration lines in dotted form, besides those for the database, the address and the log.
    pub settings: String,
    /// Whether the milter uses the DNS.
    pub dns: bool,
}

impl Milter {
    /// Writes the configuration and returns the command that starts the milter with it.
    pub(crate) fn configure(
        &self,
        layout: &Layout,
        lookup: &Lookup,
        ports: &Ports,
    ) -> anyhow::Result<Vec<String>> {
        let database = match lookup {
            Lookup::Sqlite(file) => ("database.mailserver", Value::from(file.to_string_lossy())),
            Lookup::Postgres(url) => ("database.url", Value::from(url.as_str())),
        };
        let text = format!(
            "inbound.listen = \"{}\"\nlog.filter = \"info\"\n{} = {}\n{}",
            local(ports.milter),
            database.0,
            database.1,
            self.settings
        );
        let file = layout.root.join("milter.toml");
        write_private(&file, &text).with_context(|| format!("cannot write {}", file.display()))?;
        let shown = |path: &std::path::Path| path.display().to_string();
        let mut command = vec![
            shown(&self.program),
            "milter".into(),
            "--config".into(),
            shown(&file),
        ];
        if !self.dns {
            command.push("--without-dns".into());
        }
        Ok(command)
    }
}

/// Waits until the milter logs that it listens.
pub(crate) async fn listens(daemon: &mut Daemon, deadline: Instant) -> anyhow::Result<Answer> {
    loop {
        if daemon.last_words().contains(READY) {
            return Ok(Answer::Ready);
        }
        if daemon.ended()? {
            return Ok(Answer::Ended);
        }
        if Instant::now() >= deadline {
            return Ok(Answer::Nobody);
        }
        sleep(PAUSE).await;
    }
}
