//! One daemon of the stack. It ends on request and when this process dies for any reason.
//!
//! A keeper, which is a short bash script, runs between this process and the daemon. The keeper holds the read end of a pipe, and only this process holds the
//! write end. When the write end closes, the keeper ends the daemon's whole process group. A stop therefore takes the same path as a SIGKILL of this process. A
//! daemon that several processes share ends with a pipe of the caller instead.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context as _, bail};
use tokio::process::{Child, Command};
use tokio::time::timeout;

const KEEPER: &str = include_str!("keeper.sh");

/// The environment variables that daemons inherit. They contain no configuration and no secret of the service.
const PATH: &str = "/usr/sbin:/usr/bin:/sbin:/bin";

/// The timeout for stopping a daemon. It is longer than the time before the keeper sends SIGKILL.
const STOP: Duration = Duration::from_secs(10);

/// The time that a daemon has for an orderly exit, in fiftieths of a second.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Grace(pub(crate) u32);

/// A running daemon. It ends shortly after this value is dropped.
#[derive(Debug)]
pub(crate) struct Daemon {
    name: &'static str,
    keeper: Child,
    output: PathBuf,
}

impl Daemon {
    /// Starts `command` in `folder`. A daemon that is stopped has `grace` before it is killed. Its output goes to a file in `log`. With `until`, the daemon
    /// outlives this process and ends when the last writer of that pipe closes it.
    pub(crate) fn start(
        name: &'static str,
        command: &[String],
        grace: Grace,
        folder: &Path,
        log: &Path,
        until: Option<&File>,
    ) -> anyhow::Result<Self> {
        let stdin = match until {
            Some(pipe) => pipe.try_clone().context("cannot share a pipe")?.into(),
            None => Stdio::piped(),
        };
        let output = log.join(format!("{name}.out"));
        let keeper = Command::new("bash")
            .args(["-c", KEEPER, "latchmail-keeper"])
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
            // A Ctrl-C in the terminal must reach only this process, which then ends the daemons in order.
            .process_group(0)
            .spawn()
            .with_context(|| format!("cannot start bash, which keeps {name}"))?;
        Ok(Self {
            name,
            keeper,
            output,
        })
    }

    /// Returns the name of the daemon.
    pub(crate) fn name(&self) -> &'static str {
        self.name
    }

    /// Returns whether the daemon exited by itself.
    pub(crate) fn ended(&mut self) -> anyhow::Result<bool> {
        Ok(self.keeper.try_wait()?.is_some())
    }

    /// Returns the last output of the daemon.
    pub(crate) fn last_words(&self) -> String {
        tail(&self.output)
    }

    /// Ends the daemon and all its child processes. Returns when none is left.
    pub(crate) async fn stop(mut self) -> anyhow::Result<()> {
        drop(self.keeper.stdin.take());
        match timeout(STOP, self.keeper.wait()).await {
            Ok(status) => status.map(drop).context("cannot wait for a daemon's end"),
            Err(_) => bail!("{} did not end within {} s", self.name, STOP.as_secs()),
        }
    }
}

/// Returns the last lines of a file as one line, or an empty string if there are none.
pub(crate) fn tail(file: &Path) -> String {
    let text = std::fs::read(file).unwrap_or_default();
    let text = String::from_utf8_lossy(&text);
    let lines: Vec<&str> = text.lines().filter(|line| !line.is_empty()).collect();
    lines[lines.len().saturating_sub(3)..].join("; ")
}
