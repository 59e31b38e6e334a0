//! Dovecot, Postfix and a sink for outgoing mail, in a private folder on free loopback ports.

use std::fs::File;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, anyhow, bail};
use tokio::time::Instant;

use super::folder::Layout;
use super::ports::{Answer, Ports, greeted, local};
use super::process::{Daemon, tail};
use super::{Milter, Source, dovecot, milter, postfix, requirements};

/// The timeout for starting a stack. It takes half a second on an idle machine, and longer if every core is busy.
const PATIENCE: Duration = Duration::from_secs(20);

/// The maximum number of attempts with other ports if another process took a port first.
const ATTEMPTS: u32 = 5;

/// The daemons' error messages if a port is in use, or if an earlier daemon in the same folder is still ending.
const IN_THE_WAY: [&str; 2] = ["Address already in use", "unable to set exclusive lock"];

/// The source of the accounts for the mail servers: the contract `mailserver_*`, see `docs/mailserver.md`.
#[derive(Clone, Debug)]
pub enum Lookup {
    /// An SQLite file that contains the tables. An empty file is created if it does not exist. The mail servers get write access to its folder.
    Sqlite(PathBuf),
    /// The `postgres://` URL of a database that contains the views. The login must be a member of the role `latchmail_mailserver`.
    Postgres(String),
}

/// Running mail servers. They end shortly after this value is dropped or this process dies. [`Stack::stop`] waits until they have ended.
#[derive(Debug)]
pub struct Stack {
    /// IMAP without TLS (RFC 9051).
    pub imap: SocketAddr,
    /// Submission with log-in, without TLS (RFC 6409).
    pub submission: SocketAddr,
    /// SMTP without log-in, for local recipients.
    pub smtp: SocketAddr,
    /// LMTP (RFC 2033).
    pub lmtp: SocketAddr,
    /// Dovecot's doveadm API, HTTP, which ends sessions.
    pub doveadm: SocketAddr,
    /// The file with the API key of doveadm.
    pub doveadm_key: PathBuf,
    /// Outgoing mail is stored here, one file per message. The first lines are the envelope (`X-Mail-Args`, `X-Rcpt-Args`).
    pub sink: PathBuf,
    /// The logs of the servers: `dovecot.log`, `postfix.log`.
    pub log: PathBuf,
    /// Postfix's queue folder.
    pub queue: PathBuf,
    layout: Layout,
    ports: Ports,
    instance: String,
    dovecot_command: Vec<String>,
    /// `None` while Dovecot is stopped to test an outage.
    dovecot: Option<Daemon>,
    postfix: Daemon,
    sink_daemon: Daemon,
    /// The service's milter, if there is one.
    milter: Option<Daemon>,
}

/// A failed start.
enum Trouble {
    /// Another attempt with other ports may succeed.
    InTheWay(String),
    /// Another attempt would fail, too.
    Lasting(anyhow::Error),
}

impl<E: Into<anyhow::Error>> From<E> for Trouble {
    fn from(error: E) -> Self {
        Self::Lasting(error.into())
    }
}

impl Stack {
    /// Starts the mail servers and returns when every one has sent its greeting. Mail and queue of an earlier stack in `folder` are kept.
    ///
    /// # Errors
    /// One sentence: what is missing, why the folder cannot be used (see [`super::unsuitable`]), or the last output of a daemon that exited.
    pub async fn start(folder: &Path, lookup: &Lookup) -> anyhow::Result<Self> {
        Self::begin(folder, lookup, None, None).await
    }

    /// Starts the mail servers with the service's milter, which checks senders.
    ///
    /// # Errors
    /// The errors of [`Stack::start`].
    pub async fn start_with_milter(
        folder: &Path,
        lookup: &Lookup,
        milter: &Milter,
    ) -> anyhow::Result<Self> {
        Self::begin(folder, lookup, Some(milter), None).await
    }

    /// Starts mail servers that outlive this process and this value. They end when the last writer of the pipe `until` closes it.
    ///
    /// # Errors
    /// The errors of [`Stack::start`].
    #[cfg(feature = "testing")]
    pub async fn start_shared(
        folder: &Path,
        lookup: &Lookup,
        milter: &Milter,
        until: &File,
    ) -> anyhow::Result<Self> {
        Self::begin(folder, lookup, Some(milter), Some(until)).await
    }

    async fn begin(
        folder: &Path,
        lookup: &Lookup,
        milter: Option<&Milter>,
        until: Option<&File>,
    ) -> anyhow::Result<Self> {
        requirements::check(lookup)?;
        let mut last = String::new();
        for _ in 0..ATTEMPTS {
            match Self::attempt(folder, lookup, milter, until).await {
                Ok(stack) => return Ok(stack),
                Err(Trouble::InTheWay(reason)) => last = reason,
                Err(Trouble::Lasting(error)) => return Err(error),
            }
        }
        bail!("the mail servers found no free ports in {ATTEMPTS} attempts: {last}")
    }

    async fn attempt(
        folder: &Path,
        lookup: &Lookup,
        milter: Option<&Milter>,
        until: Option<&File>,
    ) -> Result<Self, Trouble> {
        let instance = instance()?;
        let layout = Layout::make(folder, &instance)?;
        let source = Source::of(lookup)?;
        let ports = Ports::choose()?;
        let dovecot_command = dovecot::configure(&layout, &source, &ports, &instance)?;
        let postfix_command =
            postfix::configure(&layout, &source, &ports, &instance, milter.is_some())?;
        let milter_command = match milter {
            Some(milter) => Some(milter.configure(&layout, lookup, &ports)?),
            None => None,
        };
        let sink_command = postfix::sink(&ports, &instance);
        let start = |name, command: &[String], grace, folder: &Path| {
            Daemon::start(name, command, grace, folder, &layout.log, until)
        };
        let mut stack = Self {
            imap: local(ports.imap),
            submission: local(ports.submission),
            smtp: local(ports.smtp),
            lmtp: local(ports.lmtp),
            doveadm: local(ports.doveadm),
            doveadm_key: layout.doveadm_key.clone(),
            sink: layout.sink.clone(),
            log: layout.log.clone(),
            queue: layout.queue.clone(),
            dovecot: Some(start(
                "dovecot",
                &dovecot_command,
                dovecot::GRACE,
                &layout.root,
            )?),
            postfix: start("postfix", &postfix_command, postfix::GRACE, &layout.root)?,
            milter: match &milter_command {
                Some(command) => Some(start("milter", command, milter::GRACE, &layout.root)?),
                None => None,
            },
            sink_daemon: start("sink", &sink_command, postfix::GRACE, &layout.sink)?,
            dovecot_command,
            instance,
            ports,
            layout,
        };
        match stack.all_ready().await {
            Ok(()) => Ok(stack),
            Err(trouble) => {
                stack.stop().await?;
                Err(trouble)
            }
        }
    }

    /// Ends the mail servers. Returns when only their folder is left.
    ///
    /// # Errors
    /// A daemon does not end after SIGKILL.
    pub async fn stop(mut self) -> anyhow::Result<()> {
        let (imap, postfix, sink, milter) = tokio::join!(
            end(&mut self.dovecot),
            self.postfix.stop(),
            self.sink_daemon.stop(),
            end(&mut self.milter)
        );
        self.layout.remove_run();
        imap.and(postfix).and(sink).and(milter)
    }

    /// Ends the milter. Postfix then accepts no mail.
    ///
    /// # Errors
    /// The milter does not end after SIGKILL.
    #[cfg(feature = "testing")]
    pub async fn stop_milter(&mut self) -> anyhow::Result<()> {
        end(&mut self.milter).await
    }

    /// Ends Dovecot. IMAP, LMTP and Postfix's log-ins are unavailable until [`Stack::start_imap`].
    ///
    /// # Errors
    /// Dovecot does not end after SIGKILL.
    pub async fn stop_imap(&mut self) -> anyhow::Result<()> {
        end(&mut self.dovecot).await
    }

    /// Starts Dovecot again on the same ports. Returns when Dovecot has sent its greeting. Does nothing if Dovecot is running.
    ///
    /// # Errors
    /// The last output of Dovecot, for example if another process took a port.
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
        self.ready().await.map_err(|trouble| match trouble {
            Trouble::InTheWay(reason) => anyhow!(reason),
            Trouble::Lasting(error) => error,
        })
    }

    /// Restarts Dovecot on the same ports. All connections are lost; mail is kept.
    ///
    /// # Errors
    /// The errors of [`Stack::stop_imap`] and [`Stack::start_imap`].
    pub async fn restart_imap(&mut self) -> anyhow::Result<()> {
        self.stop_imap().await?;
        self.start_imap().await
    }

    /// Waits for the greetings of all started daemons, including the milter.
    async fn all_ready(&mut self) -> Result<(), Trouble> {
        if let Some(milter) = &mut self.milter {
            let deadline = Instant::now() + PATIENCE;
            let answer = milter::listens(milter, deadline).await?;
            expect(answer, self.ports.milter, milter, &self.layout.log)?;
        }
        self.ready().await
    }

    async fn ready(&mut self) -> Result<(), Trouble> {
        let deadline = Instant::now() + PATIENCE;
        let (ports, name, log) = (self.ports, self.instance.as_str(), &self.layout.log);
        let dovecot = self.dovecot.as_mut().context("Dovecot is stopped")?;
        for port in [ports.imap, ports.lmtp] {
            expect(
                greeted(port, name, dovecot, deadline).await?,
                port,
                dovecot,
                log,
            )?;
        }
        let postfix = &mut self.postfix;
        for port in [ports.smtp, ports.submission] {
            expect(
                greeted(port, name, postfix, deadline).await?,
                port,
                postfix,
                log,
            )?;
        }
        let sink = &mut self.sink_daemon;
        expect(
            greeted(ports.sink, name, sink, deadline).await?,
            ports.sink,
            sink,
            log,
        )
    }
}

/// Ends a daemon if it is running.
async fn end(daemon: &mut Option<Daemon>) -> anyhow::Result<()> {
    match daemon.take() {
        Some(daemon) => daemon.stop().await,
        None => Ok(()),
    }
}

/// Converts any result except a greeting to an error with the daemon's last output.
fn expect(answer: Answer, port: u16, daemon: &Daemon, log: &Path) -> Result<(), Trouble> {
    let name = daemon.name();
    let told = match answer {
        Answer::Ready => return Ok(()),
        Answer::Ended => "ended as it started",
        Answer::Nobody => "did not answer in time",
    };
    let words = [daemon.last_words(), tail(&log.join(format!("{name}.log")))].join(" ");
    let sentence = format!("{name} {told} (port {port}): {}", words.trim());
    if IN_THE_WAY.iter().any(|reason| words.contains(reason)) {
        Err(Trouble::InTheWay(sentence))
    } else {
        Err(Trouble::Lasting(anyhow!(sentence)))
    }
}

/// Returns six hexadecimal digits that distinguish this stack's greetings and sockets from those of other stacks.
fn instance() -> anyhow::Result<String> {
    let mut random = [0_u8; 4];
    getrandom::fill(&mut random).map_err(|error| anyhow!("no randomness: {error}"))?;
    Ok(format!("{:06x}", u32::from_be_bytes(random) >> 8))
}
