//! One daemon of the stack, which ends when it is told to and when this process dies in whatever way.
//!
//! Between this process and the daemon stands a keeper, a few lines of bash. It holds the reading end of a pipe whose writing end is
//! only here; when that closes, the keeper ends the daemon's whole process group. There is one way of ending, so a stop takes
//! the same path as a SIGKILL of this process. A daemon that several processes share ends with a pipe of the caller's instead.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context as _, bail};
use tokio::process::{Child, Command};
use tokio::time::timeout;

const KEEPER: &str = include_str!("keeper.sh");

/// What the daemons see of the environment: no configuration and no secret of the service.
const PATH: &str = "/usr/sbin:/usr/bin:/sbin:/bin";

/// Longer than the keeper waits before it takes SIGKILL.
const STOP: Duration = Duration::from_secs(10);

/// How long a daemon may take to end in order, in fiftieths of a second.
#[derive(Clone, Copy, Debug)]
pub(super) struct Grace(pub(super) u32);

/// A daemon that runs. Dropped, it ends shortly after.
#[derive(Debug)]
pub(super) struct Daemon {
    name: &'static str,
    keeper: Child,
    output: PathBuf,
}

impl Daemon {
    /// Starts `command` in `folder`; told to end, it has `grace` before it is killed. What it prints goes to a file in `log`.
    /// With `until`, the daemon outlives this process and ends when the last writer of that pipe closes it.
    pub(super) fn start(
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
            // A Ctrl-C in the terminal is for this process alone, which then ends the rest in order.
            .process_group(0)
            .spawn()
            .with_context(|| format!("cannot start bash, which keeps {name}"))?;
        Ok(Self {
            name,
            keeper,
            output,
        })
    }

    /// What it is called.
    pub(super) fn name(&self) -> &'static str {
        self.name
    }

    /// Whether it ended by itself.
    pub(super) fn ended(&mut self) -> anyhow::Result<bool> {
        Ok(self.keeper.try_wait()?.is_some())
    }

    /// The last it printed.
    pub(super) fn last_words(&self) -> String {
        tail(&self.output)
    }

    /// Ends it and everything it started. Answers when nothing of it is left.
    pub(super) async fn stop(mut self) -> anyhow::Result<()> {
        drop(self.keeper.stdin.take());
        match timeout(STOP, self.keeper.wait()).await {
            Ok(status) => status.map(drop).context("cannot wait for a daemon's end"),
            Err(_) => bail!("{} did not end within {} s", self.name, STOP.as_secs()),
        }
    }
}

/// The last lines of a file, on one line; empty where there is none.
pub(super) fn tail(file: &Path) -> String {
    let text = std::fs::read(file).unwrap_or_default();
    let text = String::from_utf8_lossy(&text);
    let lines: Vec<&str> = text.lines().filter(|line| !line.is_empty()).collect();
    lines[lines.len().saturating_sub(3)..].join("; ")
}
