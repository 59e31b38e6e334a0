//! The host in a separate process, for tests that kill it or measure it.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use tokio::process::{Child, Command};
use tokio::time::{Instant, sleep};

use crate::process::free_address;
use crate::{Service, TEST_TIMEOUT, program};

/// A host process that can be started again on the same address.
#[derive(Debug)]
pub struct HostProcess {
    child: Child,
    /// The path of the program.
    program: PathBuf,
    config: PathBuf,
    /// A folder on a small disk of its own, and the size of that disk, as `mount` expects it.
    small_disk: Option<(PathBuf, String)>,
    /// The file of the authorities that the host trusts. If `None`, the host trusts those of the
    /// system.
    authorities: Option<PathBuf>,
    health: String,
}

impl Service {
    /// Stops the host in this process, and starts it in a separate process with the same state.
    pub async fn restart_in_process(&mut self) -> HostProcess {
        self.restart_in_process_with(None).await
    }

    /// Does the same, and gives the host a small disk for one folder, which only the host sees. The
    /// disk is empty after each start.
    pub async fn restart_with_small_disk(&mut self, folder: &Path, size: &str) -> HostProcess {
        std::fs::create_dir_all(folder).unwrap();
        let disk = (folder.to_owned(), size.to_owned());
        self.restart_in_process_with(Some(disk)).await
    }

    async fn restart_in_process_with(
        &mut self,
        small_disk: Option<(PathBuf, String)>,
    ) -> HostProcess {
        self.stop().await;
        let address = free_address();
        let config = self.state.join("process.toml");
        let text = self.settings.replace("127.0.0.1:0", &address.to_string());
        std::fs::write(&config, text).unwrap();
        self.base = format!("http://{address}");
        HostProcess::of(program(), config, small_disk, &self.base).await
    }
}

impl HostProcess {
    /// Starts a program with a configuration file, which contains the address `base`, and waits
    /// until it responds.
    pub(crate) async fn of(
        program: PathBuf,
        config: PathBuf,
        small_disk: Option<(PathBuf, String)>,
        base: &str,
    ) -> Self {
        let mut process = Self {
            child: spawn(&program, &config, small_disk.as_ref(), None),
            program,
            config,
            small_disk,
            authorities: None,
            health: format!("{base}/api/health"),
        };
        process.wait_until_ready().await;
        process
    }

    /// Ends the host as a service manager does, and waits until it has exited. Returns whether it
    /// exited successfully.
    pub async fn stop(&mut self) -> bool {
        kill_process(self.pid(), Signal::TERM).unwrap();
        self.child.wait().await.unwrap().success()
    }

    /// Changes the program that the next [`HostProcess::start`] runs.
    pub fn set_program(&mut self, program: &Path) {
        program.clone_into(&mut self.program);
    }

    /// Returns the process id.
    pub fn pid(&self) -> Pid {
        let pid = self
            .child
            .id()
            .and_then(|id| Pid::from_raw(id.try_into().ok()?));
        pid.expect("the host runs")
    }

    /// Returns whether the host has not exited.
    pub fn is_running(&mut self) -> bool {
        self.child.try_wait().unwrap().is_none()
    }

    /// Returns the path under which this process finds a folder of the host's small disk.
    pub fn path_on_small_disk(&self, folder: &Path) -> PathBuf {
        let root = format!("/proc/{}/root", self.pid().as_raw_nonzero());
        Path::new(&root).join(folder.strip_prefix("/").unwrap())
    }

    /// Changes the size of the small disk.
    pub async fn resize_small_disk(&self, size: &str) {
        let (folder, _) = self.small_disk.as_ref().expect("the host has a small disk");
        let namespace = format!("--mount=/proc/{}/ns/mnt", self.pid().as_raw_nonzero());
        let options = format!("remount,size={size}");
        let mut command = Command::new("nsenter");
        command
            .args([&namespace, "mount", "-o", &options])
            .arg(folder);
        let status = command.status().await.unwrap();
        assert!(status.success(), "nsenter: {status}");
    }

    /// Starts the host again after it was killed or stopped.
    pub async fn start(&mut self) {
        self.child.wait().await.unwrap();
        self.child = spawn(
            &self.program,
            &self.config,
            self.small_disk.as_ref(),
            self.authorities.as_deref(),
        );
        self.wait_until_ready().await;
    }

    /// Starts the host again, so that it trusts only the authorities in this file.
    pub async fn restart_trusting(&mut self, authorities: &Path) {
        self.stop().await;
        self.authorities = Some(authorities.to_owned());
        self.start().await;
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

fn spawn(
    program: &Path,
    config: &Path,
    small_disk: Option<&(PathBuf, String)>,
    authorities: Option<&Path>,
) -> Child {
    let mut command = match small_disk {
        None => Command::new(program),
        Some((folder, size)) => {
            let mount =
                "mount -t tmpfs -o size=\"$1\",mode=700 tmpfs \"$2\" && shift 2 && exec \"$@\"";
            let mut command = Command::new("unshare");
            let namespace = [
                "--mount",
                "--propagation",
                "private",
                "sh",
                "-c",
                mount,
                "sh",
            ];
            command.args(namespace).arg(size).arg(folder).arg(program);
            command
        }
    };
    command.env_clear().arg("serve").arg("--config").arg(config);
    if let Some(authorities) = authorities {
        command.env("SSL_CERT_FILE", authorities);
    }
    command.stdin(Stdio::null()).stdout(Stdio::null());
    command.kill_on_drop(true).spawn().unwrap()
}
