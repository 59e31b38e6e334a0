//! The service's own milter beside Postfix: its configuration, and waiting until it listens.

use std::path::PathBuf;

use anyhow::Context as _;
use tokio::time::{Instant, sleep};

use super::Lookup;
use super::demo::write_private;
use super::folder::Layout;
use super::ports::{Answer, PAUSE, Ports, local};
use super::process::{Daemon, Grace};
use super::settings::quoted;
use crate::inbound::READY;

/// The milter has nothing to finish: Postfix tells clients to try again.
pub(super) const GRACE: Grace = Grace(5);

/// How a stack's milter is started.
#[derive(Clone, Debug)]
pub struct Milter {
    /// The program `latchmail`.
    pub program: PathBuf,
    /// Lines of its configuration in dotted form, besides those of the database, the address and the log.
    pub settings: String,
    /// Whether it looks names up in the DNS.
    pub dns: bool,
}

impl Milter {
    /// Writes the configuration and returns the command that starts the milter with it.
    pub(super) fn configure(
        &self,
        layout: &Layout,
        lookup: &Lookup,
        ports: &Ports,
    ) -> anyhow::Result<Vec<String>> {
        let database = match lookup {
            Lookup::Sqlite(file) => ("database.mailserver", quoted(&file.to_string_lossy())),
            Lookup::Postgres(url) => ("database.url", quoted(url)),
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

/// Waits until the milter says that it listens.
pub(super) async fn listens(daemon: &mut Daemon, deadline: Instant) -> anyhow::Result<Answer> {
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
