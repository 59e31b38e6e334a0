//! The host in a separate process, for tests that kill it or measure it.

use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;

use rustix::process::Pid;
use tokio::process::{Child, Command};
use tokio::time::{Instant, sleep};

use crate::process::free_address;
use crate::{Service, TEST_TIMEOUT, program};

/// A host process that can be started again on the same address.
#[derive(Debug)]
pub struct HostProcess {
    child: Child,
    config: PathBuf,
    health: String,
}

impl Service {
    /// Stops the host in this process, and starts it in a separate process with the same state.
    pub async fn restart_in_process(&mut self) -> HostProcess {
        self.stop().await;
        let address = free_address();
        let config = self.state.join("process.toml");
        let text = self.settings.replace("127.0.0.1:0", &address.to_string());
        std::fs::write(&config, text).unwrap();
        self.base = format!("http://{address}");
        let mut process = HostProcess {
            child: spawn(&config),
            config,
            health: format!("{}/api/health", self.base),
        };
        process.wait_until_ready().await;
        process
    }
}

impl HostProcess {
    /// Returns the process id.
    pub fn pid(&self) -> Pid {
        let pid = self
            .child
            .id()
            .and_then(|id| Pid::from_raw(id.try_into().ok()?));
        pid.expect("the host runs")
    }

    /// Starts the host again after it was killed.
    pub async fn start(&mut self) {
        self.child.wait().await.unwrap();
        self.child = spawn(&self.config);
        self.wait_until_ready().await;
    }

    async fn wait_until_ready(&mut self) {
        let deadline = Instant::now() + TEST_TIMEOUT;
        while reqwest::get(&self.health).await.is_err() {
            assert!(Instant::now() < deadline, "the host does not respond");
            assert_eq!(self.child.try_wait().unwrap(), None, "the host exited");
            sleep(Duration::from_millis(20)).await;
        }
    }
}

fn spawn(config: &PathBuf) -> Child {
    let mut command = Command::new(program());
    command.env_clear().arg("serve").arg("--config").arg(config);
    command.stdin(Stdio::null()).stdout(Stdio::null());
    command.kill_on_drop(true).spawn().unwrap()
}
