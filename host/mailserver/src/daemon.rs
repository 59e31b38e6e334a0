//! Runs one daemon of the local servers. The daemon ends on request, and also if this process dies
//! for any reason.
//!
//! A supervisor process runs between this process and the daemon. The supervisor is a short bash
//! script. The script reads from a pipe, and only this process can write to the pipe.
//!
//! When the write end of the pipe closes, the supervisor ends the process group of the daemon. So
//! the daemon also ends after a SIGKILL of this process. If several processes share a daemon, the
//! caller supplies the pipe.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context as _, bail};
use tokio::process::{Child, Command};
use tokio::time::timeout;

const SUPERVISOR: &str = include_str!("supervisor.sh");

/// `PATH` of the daemons. Daemons inherit no other environment variable, because an inherited
/// variable could contain a secret of the service.
const PATH: &str = "/usr/sbin:/usr/bin:/sbin:/bin";

/// Timeout for stopping a daemon. The supervisor sends SIGKILL before this timeout.
const STOP_TIMEOUT: Duration = Duration::from_secs(10);

/// The time between the request to end a daemon and the SIGKILL, in fiftieths of a second.
#[derive(Clone, Copy, Debug)]
pub(crate) struct GracePeriod(pub(crate) u32);

/// A running daemon. The daemon ends shortly after this value is dropped.
#[derive(Debug)]
pub(crate) struct Daemon {
    name: &'static str,
    supervisor: Child,
    output: PathBuf,
}

impl Daemon {
    /// Starts `command` in `folder`. The output of the daemon is written to a file in `log`. If the
    /// daemon does not end on request, the daemon is killed after the time `grace`.
    ///
    /// If `pipe` is given, the daemon can outlive this process. The daemon ends when the last
    /// process with the write end of the pipe closes the pipe.
    pub(crate) fn start(
        name: &'static str,
        command: &[String],
        grace: GracePeriod,
        folder: &Path,
        log: &Path,
        pipe: Option<&File>,
    ) -> anyhow::Result<Self> {
        let stdin = match pipe {
            Some(pipe) => pipe.try_clone().context("cannot share a pipe")?.into(),
            None => Stdio::piped(),
        };
        let output = log.join(format!("{name}.out"));
        let supervisor = Command::new("bash")
            .args(["-c", SUPERVISOR, "latchmail-supervisor"])
            .arg(&output)
            .arg(grace.0.to_string())
            .args(command)
            .current_dir(folder)
            .env_clear()
            .env("PATH", PATH)
            .env("LANG", "C.UTF-8")
            .stdin(stdin)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            // A Ctrl-C in the terminal must reach only this process. This process then ends the
            // daemons in order.
            .process_group(0)
            .spawn()
            .with_context(|| format!("cannot start bash, which supervises {name}"))?;
        Ok(Self {
            name,
            supervisor,
            output,
        })
    }

    pub(crate) fn name(&self) -> &'static str {
        self.name
    }

    pub(crate) fn has_exited(&mut self) -> anyhow::Result<bool> {
        Ok(self.supervisor.try_wait()?.is_some())
    }

    /// Returns the last output of the daemon.
    pub(crate) fn last_output(&self) -> String {
        last_lines(&self.output)
    }

    /// Ends the daemon and all its child processes, and waits until all have ended.
    pub(crate) async fn stop(mut self) -> anyhow::Result<()> {
        drop(self.supervisor.stdin.take());
        match timeout(STOP_TIMEOUT, self.supervisor.wait()).await {
            Ok(status) => status
                .map(drop)
                .context("failed to wait for the end of a daemon's process"),
            Err(_) => bail!(
                "{} did not end within {} s",
                self.name,
                STOP_TIMEOUT.as_secs()
            ),
        }
    }
}

/// Returns the last lines of a file as one line. Returns an empty string if the file has no lines.
pub(crate) fn last_lines(file: &Path) -> String {
    let text = std::fs::read(file).unwrap_or_default();
    let text = String::from_utf8_lossy(&text);
    let lines: Vec<&str> = text.lines().filter(|line| !line.is_empty()).collect();
    lines[lines.len().saturating_sub(3)..].join("; ")
}
