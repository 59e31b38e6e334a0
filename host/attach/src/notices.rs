//! The notices of an existing Dovecot about changes (`events.listen`). The service also works
//! without notices, so a problem with notices does not prevent the attachment.
//!
//! Only a delivery shows whether Dovecot sends notices: Postfix can deliver mail without Dovecot,
//! and a program of Dovecot that runs as a user cannot report its deliveries.

use std::fs;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::ops::RangeInclusive;
use std::time::Duration;

use anyhow::{Context as _, bail};
use latchmail_core::secrets;
use latchmail_mailserver::{DovecotVersion, fill};
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::timeout;

use super::dovecot::{Dovecot, include, is_free, user_id};
use super::journal::{FileChange, Location};
use super::programs::run;
use super::verify::TEST_SUBJECT;

const SETTINGS: &str = include_str!("templates/notices.toml");

/// The file in `conf.d`. It includes [`EXPORTER_FILE`].
const INCLUDE_FILE: &str = "98-latchmail-notices.conf";
/// The file with the settings of the event exporter. Only root can read the file, because Dovecot
/// 2.4 reads the file with the URL for each of its programs, which would fail for other users.
const EXPORTER_FILE: &str = "latchmail-notices.conf.ext";
const URL_FILE: &str = "latchmail-notices.url";
/// The ports that are tried for the service's listener.
const PORTS: RangeInclusive<u16> = 8083..=8099;

/// The blocks of the settings, in the output of `doveconf -n`.
const BLOCKS: [&str; 2] = ["event_exporter latchmail {", "metric latchmail_notices {"];

/// The first settings of a complete configuration of Dovecot 2.4.
const VERSIONS_2_4: &str = "dovecot_config_version = 2.4.0\ndovecot_storage_version = 2.4.0\n";

/// The time until the notice about a message that is in the mailbox must arrive.
const TIMEOUT: Duration = Duration::from_secs(2);
/// The maximum number of bytes that are read from a connection.
const MAX_READ: u64 = 1024 * 1024;

/// The planned settings for notices.
pub(super) struct Notices {
    address: SocketAddr,
    /// The path of the URL, which contains the key.
    path: String,
    /// The files to create.
    pub(super) files: Vec<FileChange>,
    /// The additional settings of the service.
    pub(super) settings: String,
}

/// Receives notices instead of the service. Stops when it is dropped.
pub(super) struct Receiver {
    /// Whether a notice about the delivery of a test message arrived.
    delivered: watch::Receiver<bool>,
    task: JoinHandle<()>,
}

impl Notices {
    /// Plans the settings. `user` is the system user of the service.
    ///
    /// # Errors
    /// Returns an error if Dovecot cannot send notices.
    pub(super) fn plan(dovecot: &Dovecot, location: &Location, user: &str) -> anyhow::Result<Self> {
        let existing = dovecot.dump()?;
        if let Some(block) = BLOCKS.iter().find(|block| existing.contains(*block)) {
            bail!("Dovecot's configuration contains `{block}` already");
        }
        let doveadm = dovecot.doveadm().map(|(address, _)| address);
        let mut addresses = PORTS
            .filter(|port| is_free(*port))
            .map(|port| SocketAddr::from((Ipv4Addr::LOCALHOST, port)));
        let address = addresses
            .find(|address| doveadm.as_ref() != Some(&address.to_string()))
            .with_context(|| {
                format!("no port from {} to {} is free", PORTS.start(), PORTS.end())
            })?;
        let path = format!("/notices/{}", *secrets::symbols::<32>()?);

        let in_folder = |name: &str| dovecot.folder().join(name);
        let (exporter_file, url_file) = (in_folder(EXPORTER_FILE), in_folder(URL_FILE));
        let url_file_text = url_file.display().to_string();
        let exporter = fill(
            dovecot.version.notices(),
            &[("notices_url", &url_file_text)],
        )?;
        check(dovecot.version, &exporter, location)?;
        let include = include(&exporter_file)?;
        let settings = fill(
            SETTINGS,
            &[
                ("listen", &address.to_string()),
                ("url_file", &url_file_text),
            ],
        )?;
        let url = format!("http://{address}{path}");
        let include_file = dovecot.drop_in_folder().join(INCLUDE_FILE);
        let files = vec![
            FileChange::create(url_file, url, 0o600, None).owned_by(user_id(user)?),
            FileChange::create(exporter_file, exporter, 0o600, None),
            FileChange::create(include_file, include, 0o644, None),
        ];
        Ok(Self {
            address,
            path,
            files,
            settings,
        })
    }

    /// Starts a receiver at the address of the service, which is not listening there yet.
    pub(super) async fn receive(&self) -> anyhow::Result<Receiver> {
        let listener = TcpListener::bind(self.address)
            .await
            .with_context(|| format!("cannot listen on {}", self.address))?;
        let (sender, delivered) = watch::channel(false);
        let request_line = format!("POST {} HTTP/1.1", self.path);
        let task = tokio::spawn(async move {
            let mut connections = JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                let (request_line, sender) = (request_line.clone(), sender.clone());
                connections.spawn(async move {
                    // Dovecot repeats no notice of a broken connection.
                    let _ = read_notices(stream, &request_line, &sender).await;
                });
            }
        });
        Ok(Receiver { delivered, task })
    }
}

impl Receiver {
    /// Returns `true` if the notice about the delivery of a test message arrives in time.
    pub(super) async fn has_delivery(&mut self) -> bool {
        let delivered = self.delivered.wait_for(|delivered| *delivered);
        matches!(timeout(TIMEOUT, delivered).await, Ok(Ok(_)))
    }
}

impl Drop for Receiver {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Checks that this version of Dovecot accepts the settings of the exporter. Versions before 2.3.12
/// have no filters of events.
fn check(version: DovecotVersion, exporter: &str, location: &Location) -> anyhow::Result<()> {
    let versions = match version {
        DovecotVersion::V2_3 => "",
        DovecotVersion::V2_4 => VERSIONS_2_4,
    };
    let file = location.scratch()?.join("notices.conf");
    let checked = fs::write(&file, format!("{versions}{exporter}"))
        .map_err(anyhow::Error::from)
        .and_then(|()| run("doveconf", &["-c", &file.display().to_string(), "-n"]));
    location.remove_scratch()?;
    checked.map(drop)
}

/// Reads the requests of a connection until it ends, and responds to them.
async fn read_notices(
    mut stream: TcpStream,
    request_line: &str,
    delivered: &watch::Sender<bool>,
) -> io::Result<()> {
    let (reader, mut writer) = stream.split();
    let mut reader = BufReader::new(reader.take(MAX_READ));
    loop {
        let mut head = Vec::new();
        loop {
            let mut line = String::new();
            if reader.read_line(&mut line).await? == 0 {
                return Ok(());
            }
            match line.trim_end() {
                "" => break,
                line => head.push(line.to_owned()),
            }
        }
        let length = head.iter().find_map(|line| {
            let (name, value) = line.split_once(':')?;
            let is_length = name.eq_ignore_ascii_case("content-length");
            is_length.then(|| value.trim().parse().ok())?
        });
        let mut notice = Vec::new();
        let mut body = (&mut reader).take(length.unwrap_or_default());
        body.read_to_end(&mut notice).await?;
        let notice = String::from_utf8_lossy(&notice);
        if head.first().is_some_and(|line| line == request_line)
            && notice.contains("\"mail_delivery_finished\"")
            && notice.contains(TEST_SUBJECT)
        {
            delivered.send_replace(true);
        }
        writer.write_all(b"HTTP/1.1 204 No Content\r\n\r\n").await?;
    }
}
