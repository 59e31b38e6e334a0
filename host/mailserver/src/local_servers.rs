//! Starts and stops Dovecot, Postfix and a sink for outgoing mail, in a private folder on free
//! loopback ports.

use std::fs::File;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, anyhow, bail};
use tokio::time::{Instant, sleep};

use crate::daemon::{Daemon, last_lines};
use crate::layout::Layout;
use crate::lookup::{Lookup, LookupSettings};
use crate::milter::{self, MilterOptions};
use crate::ports::{Ports, is_greeting, loopback};
use crate::{dovecot, postfix, requirements};

/// Timeout for starting all daemons. A start takes half a second on an idle machine, and longer on
/// a busy machine.
const START_TIMEOUT: Duration = Duration::from_secs(20);

/// The time between two checks whether a daemon accepts connections.
const POLL_INTERVAL: Duration = Duration::from_millis(5);

/// Maximum number of attempts to start the daemons. Each attempt uses other ports, because another
/// process can take a free port before a daemon opens it.
const MAX_ATTEMPTS: u32 = 5;

/// Error messages of a daemon if its port is in use, or if a daemon of an earlier start still uses
/// its folder.
const CONFLICTS: [&str; 2] = ["Address already in use", "unable to set exclusive lock"];

/// The running mail servers. The servers end shortly after this value is dropped or this process
/// dies. [`LocalServers::stop`] also waits until the servers have ended.
#[derive(Debug)]
pub struct LocalServers {
    /// The address for IMAP without TLS (RFC 9051).
    pub imap: SocketAddr,
    /// The address for submission with log-in, without TLS (RFC 6409).
    pub submission: SocketAddr,
    /// The address for SMTP without log-in, for local recipients.
    pub smtp: SocketAddr,
    /// The address for LMTP (RFC 2033).
    pub lmtp: SocketAddr,
    /// The address of Dovecot's doveadm API (HTTP). Clients of this API can end open sessions.
    pub doveadm: SocketAddr,
    /// The address for ManageSieve without TLS (RFC 5804).
    pub sieve: SocketAddr,
    /// The file with the API key of doveadm.
    pub doveadm_key: PathBuf,
    /// The address to which Dovecot sends notices about changes of mailboxes.
    pub notices: SocketAddr,
    /// The file with the URL of notices.
    pub notices_url: PathBuf,
    /// The folder that contains outgoing mail, one file per message. The first lines of a file
    /// contain the envelope (`X-Mail-Args`, `X-Rcpt-Args`).
    pub sink: PathBuf,
    /// The folder with the logs of the servers: `dovecot.log`, `postfix.log`.
    pub log: PathBuf,
    /// Postfix's queue folder.
    pub queue: PathBuf,
    layout: Layout,
    ports: Ports,
    instance: String,
    dovecot_command: Vec<String>,
    /// `None` while Dovecot is stopped. Tests stop Dovecot to simulate an outage.
    dovecot: Option<Daemon>,
    /// Only tests start Postfix again.
    #[cfg(feature = "testing")]
    postfix_command: Vec<String>,
    /// `None` while Postfix is stopped.
    postfix: Option<Daemon>,
    sink_daemon: Daemon,
    /// The service's milter, if there is one.
    milter: Option<Daemon>,
}

/// The reason why a start failed.
enum StartError {
    /// Another process uses a port or has a lock. Another attempt may succeed.
    Conflict(String),
    /// Another attempt would fail too.
    Permanent(anyhow::Error),
}

impl<E: Into<anyhow::Error>> From<E> for StartError {
    fn from(error: E) -> Self {
        Self::Permanent(error.into())
    }
}

impl LocalServers {
    /// Starts the mail servers and waits until each server has sent its greeting. Keeps the mail
    /// and the queue of an earlier start in `folder`.
    ///
    /// # Errors
    /// Returns an error if a program is missing, if the folder cannot be used (see
    /// [`crate::check_folder`]), or if a daemon exits. The error about a daemon contains the last
    /// output of the daemon.
    pub async fn start(folder: &Path, lookup: &Lookup) -> anyhow::Result<Self> {
        Self::start_with_retries(folder, lookup, None, None).await
    }

    /// Starts the mail servers together with the service's milter. The milter checks the sender of
    /// each message.
    ///
    /// # Errors
    /// Returns an error under the same conditions as [`LocalServers::start`].
    pub async fn start_with_milter(
        folder: &Path,
        lookup: &Lookup,
        milter: &MilterOptions,
    ) -> anyhow::Result<Self> {
        Self::start_with_retries(folder, lookup, Some(milter), None).await
    }

    /// Starts mail servers that can outlive this process. The servers end when the last process
    /// with the write end of `pipe` closes the pipe.
    ///
    /// # Errors
    /// Returns an error under the same conditions as [`LocalServers::start`].
    #[cfg(feature = "testing")]
    pub async fn start_shared(
        folder: &Path,
        lookup: &Lookup,
        milter: &MilterOptions,
        pipe: &File,
    ) -> anyhow::Result<Self> {
        Self::start_with_retries(folder, lookup, Some(milter), Some(pipe)).await
    }

    async fn start_with_retries(
        folder: &Path,
        lookup: &Lookup,
        milter: Option<&MilterOptions>,
        pipe: Option<&File>,
    ) -> anyhow::Result<Self> {
        requirements::check(lookup)?;
        let mut conflict = String::new();
        for _ in 0..MAX_ATTEMPTS {
            match Self::try_start(folder, lookup, milter, pipe).await {
                Ok(servers) => return Ok(servers),
                Err(StartError::Conflict(reason)) => conflict = reason,
                Err(StartError::Permanent(error)) => return Err(error),
            }
        }
        bail!("the mail servers did not start in {MAX_ATTEMPTS} attempts: {conflict}")
    }

    async fn try_start(
        folder: &Path,
        lookup: &Lookup,
        milter: Option<&MilterOptions>,
        pipe: Option<&File>,
    ) -> Result<Self, StartError> {
        let instance = random_instance()?;
        let layout = Layout::create(folder, &instance)?;
        let settings = LookupSettings::new(lookup)?;
        let ports = Ports::choose()?;
        let dovecot_command = dovecot::configure(&layout, &settings, &ports, &instance)?;
        let postfix_command =
            postfix::configure(&layout, &settings, &ports, &instance, milter.is_some())?;
        let milter_command = match milter {
            Some(milter) => Some(milter.configure(&layout, lookup, &ports)?),
            None => None,
        };
        let sink_command = postfix::sink_command(&ports, &instance);
        let start = |name, command: &[String], grace, folder: &Path| {
            Daemon::start(name, command, grace, folder, &layout.log, pipe)
        };
        let mut servers = Self {
            imap: loopback(ports.imap),
            submission: loopback(ports.submission),
            smtp: loopback(ports.smtp),
            lmtp: loopback(ports.lmtp),
            doveadm: loopback(ports.doveadm),
            sieve: loopback(ports.sieve),
            doveadm_key: layout.doveadm_key.clone(),
            notices: ports.notices,
            notices_url: layout.notices_url.clone(),
            sink: layout.sink.clone(),
            log: layout.log.clone(),
            queue: layout.queue.clone(),
            dovecot: Some(start(
                "dovecot",
                &dovecot_command,
                dovecot::GRACE,
                &layout.root,
            )?),
            postfix: Some(start(
                "postfix",
                &postfix_command,
                postfix::GRACE,
                &layout.root,
            )?),
            milter: match &milter_command {
                Some(command) => Some(start("milter", command, milter::GRACE, &layout.root)?),
                None => None,
            },
            sink_daemon: start("sink", &sink_command, postfix::GRACE, &layout.sink)?,
            dovecot_command,
            #[cfg(feature = "testing")]
            postfix_command,
            instance,
            ports,
            layout,
        };
        if let Err(error) = servers.wait_until_ready(milter).await {
            servers.stop().await?;
            return Err(error);
        }
        Ok(servers)
    }

    /// Ends the mail servers and waits until all their processes have ended. Does not delete the
    /// folder.
    ///
    /// # Errors
    /// Returns an error if a daemon does not end after SIGKILL.
    pub async fn stop(mut self) -> anyhow::Result<()> {
        let (dovecot, postfix, sink, milter) = tokio::join!(
            stop_daemon(&mut self.dovecot),
            stop_daemon(&mut self.postfix),
            self.sink_daemon.stop(),
            stop_daemon(&mut self.milter)
        );
        self.layout.remove_sockets();
        dovecot.and(postfix).and(sink).and(milter)
    }

    /// Ends the milter. Without the milter, Postfix accepts no mail.
    ///
    /// # Errors
    /// Returns an error if the milter does not end after SIGKILL.
    #[cfg(feature = "testing")]
    pub async fn stop_milter(&mut self) -> anyhow::Result<()> {
        stop_daemon(&mut self.milter).await
    }

    /// Ends Dovecot. IMAP, LMTP and log-ins to Postfix are unavailable until
    /// [`LocalServers::start_imap`] is called.
    ///
    /// # Errors
    /// Returns an error if Dovecot does not end after SIGKILL.
    pub async fn stop_imap(&mut self) -> anyhow::Result<()> {
        stop_daemon(&mut self.dovecot).await
    }

    /// Starts Dovecot on the same ports as before, and waits for its greeting. Does nothing if
    /// Dovecot is running.
    ///
    /// # Errors
    /// Returns an error if Dovecot does not start, for example because another process uses a port.
    /// The error contains the last output of Dovecot.
    pub async fn start_imap(&mut self) -> anyhow::Result<()> {
        if self.dovecot.is_some() {
            return Ok(());
        }
        let layout = &self.layout;
        let command = &self.dovecot_command;
        let daemon = Daemon::start(
            "dovecot",
            command,
            dovecot::GRACE,
            &layout.root,
            &layout.log,
            None,
        )?;
        self.dovecot = Some(daemon);
        self.wait_for_greetings().await.map_err(into_anyhow)
    }

    /// Restarts Dovecot on the same ports. Closes all connections and keeps the mail.
    ///
    /// # Errors
    /// Returns an error under the same conditions as [`LocalServers::stop_imap`] and
    /// [`LocalServers::start_imap`].
    pub async fn restart_imap(&mut self) -> anyhow::Result<()> {
        self.stop_imap().await?;
        self.start_imap().await
    }

    /// Restarts Postfix on the same ports. Closes all connections and keeps the queue.
    ///
    /// # Errors
    /// Returns an error if Postfix does not end after SIGKILL or does not start.
    #[cfg(feature = "testing")]
    pub async fn restart_postfix(&mut self) -> anyhow::Result<()> {
        stop_daemon(&mut self.postfix).await?;
        let layout = &self.layout;
        self.postfix = Some(Daemon::start(
            "postfix",
            &self.postfix_command,
            postfix::GRACE,
            &layout.root,
            &layout.log,
            None,
        )?);
        self.wait_for_greetings().await.map_err(into_anyhow)
    }

    /// Replaces settings of Postfix's `main.cf` (`name = value`), and restarts Postfix.
    ///
    /// A second entry of the same name must not be appended: each program of Postfix would log a
    /// warning when it starts. `postlogd` logs the warnings to its own socket, which holds ten
    /// messages (`net.unix.max_dgram_qlen`). If the socket is full, `postlogd` waits for itself,
    /// and no program continues (Postfix 3.7 and 3.10).
    ///
    /// # Errors
    /// Returns an error if the settings cannot be written, or under the same conditions as
    /// [`LocalServers::restart_postfix`].
    #[cfg(feature = "testing")]
    pub async fn configure_postfix(&mut self, settings: &[&str]) -> anyhow::Result<()> {
        postfix::set(&self.layout, settings)?;
        self.restart_postfix().await
    }

    /// Waits until all daemons accept connections.
    async fn wait_until_ready(
        &mut self,
        options: Option<&MilterOptions>,
    ) -> Result<(), StartError> {
        if let Some((milter, options)) = self.milter.as_mut().zip(options) {
            let deadline = Instant::now() + START_TIMEOUT;
            let (port, log) = (self.ports.milter, &self.layout.log);
            let is_ready =
                async |milter: &Daemon| milter.last_output().contains(options.ready_text);
            wait_for(milter, port, deadline, log, is_ready).await?;
        }
        self.wait_for_greetings().await
    }

    /// Waits for the greetings of Dovecot, Postfix and the sink.
    async fn wait_for_greetings(&mut self) -> Result<(), StartError> {
        let deadline = Instant::now() + START_TIMEOUT;
        let (ports, name, log) = (self.ports, self.instance.as_str(), &self.layout.log);
        let dovecot = self.dovecot.as_mut().context("Dovecot is stopped")?;
        let postfix = self.postfix.as_mut().context("Postfix is stopped")?;
        for (daemon, ports) in [
            (dovecot, &[ports.imap, ports.lmtp][..]),
            (postfix, &[ports.smtp, ports.submission, ports.scripts]),
            (&mut self.sink_daemon, &[ports.sink]),
        ] {
            for port in ports {
                let is_ready = async |_: &Daemon| is_greeting(*port, name).await;
                wait_for(daemon, *port, deadline, log, is_ready).await?;
            }
        }
        Ok(())
    }
}

fn into_anyhow(error: StartError) -> anyhow::Error {
    match error {
        StartError::Conflict(reason) => anyhow!(reason),
        StartError::Permanent(error) => error,
    }
}

/// Ends a daemon if it is running.
async fn stop_daemon(daemon: &mut Option<Daemon>) -> anyhow::Result<()> {
    match daemon.take() {
        Some(daemon) => daemon.stop().await,
        None => Ok(()),
    }
}

/// Waits until `is_ready` returns `true`. Returns an error with the daemon's last output if the
/// daemon exits or if the time reaches `deadline`.
async fn wait_for(
    daemon: &mut Daemon,
    port: u16,
    deadline: Instant,
    log: &Path,
    is_ready: impl AsyncFn(&Daemon) -> bool,
) -> Result<(), StartError> {
    let problem = loop {
        if daemon.has_exited()? {
            break "exited while it started";
        }
        if is_ready(daemon).await {
            return Ok(());
        }
        if Instant::now() >= deadline {
            break "did not respond in time";
        }
        sleep(POLL_INTERVAL).await;
    };
    let name = daemon.name();
    let log = last_lines(&log.join(format!("{name}.log")));
    let output = [daemon.last_output(), log].join(" ");
    let message = format!("{name} {problem} (port {port}): {}", output.trim());
    if CONFLICTS.iter().any(|conflict| output.contains(conflict)) {
        Err(StartError::Conflict(message))
    } else {
        Err(StartError::Permanent(anyhow!(message)))
    }
}

/// Returns six random hexadecimal digits. The digits distinguish the greetings and sockets of these
/// servers from those of other local servers.
fn random_instance() -> anyhow::Result<String> {
    let mut random = [0_u8; 4];
    getrandom::fill(&mut random)
        .map_err(|error| anyhow!("the system's random number generator failed: {error}"))?;
    Ok(format!("{:06x}", u32::from_be_bytes(random) >> 8))
}
