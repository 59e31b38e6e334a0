//! Dovecot and Postfix for a test: servers of its own, or a shared pair that tests use one after
//! another.
//!
//! Starting a pair takes longer than most tests. With `LATCHMAIL_TEST_SERVERS`, the folder that
//! `scripts/with-servers` creates, each test borrows a running pair until it ends. A borrowed pair
//! keeps its lookup database: on SQLite the file to which each service writes the tables for mail
//! servers, on PostgreSQL a database whose rows are removed first. Accounts have new mailboxes in
//! every test, so no mail of an earlier test is visible. Without the variable each test starts its
//! own pair.

use std::fs::{self, File};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use latchmail_directory::testing::{PostgresDatabase, empty_postgres};
use latchmail_mailserver::{LocalServers, Lookup, MilterOptions};
use serde::{Deserialize, Serialize};
use tokio::time::{Instant, sleep};

use crate::program;

/// The name under which the milter writes its results.
pub const AUTHSERV_ID: &str = "mail.latchmail.test";

const SHARED: &str = "LATCHMAIL_TEST_SERVERS";

/// The maximum time until the mail of an earlier test has left the queue. A pair whose queue does
/// not become empty is not used again.
const QUEUE_TIMEOUT: Duration = Duration::from_secs(10);
const POLL: Duration = Duration::from_millis(5);

/// The addresses and folders of a pair of mail servers.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct MailServers {
    /// IMAP without TLS.
    pub imap: SocketAddr,
    /// Submission with login, without TLS.
    pub submission: SocketAddr,
    /// SMTP without login, for local recipients.
    pub smtp: SocketAddr,
    /// Dovecot's doveadm API.
    pub doveadm: SocketAddr,
    /// ManageSieve without TLS.
    pub sieve: SocketAddr,
    /// The file of the doveadm API's key.
    pub doveadm_key: PathBuf,
    /// The address to which Dovecot sends notices about changes.
    pub notices: SocketAddr,
    /// The file with the URL of notices.
    pub notices_url: PathBuf,
    /// The folder for mail to other servers, one file per message.
    pub sink: PathBuf,
    /// Postfix's queue.
    pub queue: PathBuf,
    /// The folder of `dovecot.log` and `postfix.log`.
    pub log: PathBuf,
}

impl From<&LocalServers> for MailServers {
    fn from(stack: &LocalServers) -> Self {
        Self {
            imap: stack.imap,
            submission: stack.submission,
            smtp: stack.smtp,
            doveadm: stack.doveadm,
            sieve: stack.sieve,
            doveadm_key: stack.doveadm_key.clone(),
            notices: stack.notices,
            notices_url: stack.notices_url.clone(),
            sink: stack.sink.clone(),
            queue: stack.queue.clone(),
            log: stack.log.clone(),
        }
    }
}

impl MailServers {
    /// Returns the service's settings for the doveadm API.
    pub(crate) fn doveadm_settings(&self) -> String {
        format!(
            "imap.doveadm = '{}'\nimap.doveadm_key_file = '{}'",
            self.doveadm,
            self.doveadm_key.display()
        )
    }

    /// Returns the settings of a service that receives the notices of these servers.
    #[must_use]
    pub fn notices_settings(&self) -> String {
        format!(
            "\nevents.listen = '{}'\nevents.url_file = '{}'\n",
            self.notices,
            self.notices_url.display()
        )
    }

    /// Waits until no mail is on its way, and removes the remains of earlier tests. Returns whether
    /// that succeeded.
    async fn wait_until_idle(&self) -> bool {
        let deadline = Instant::now() + QUEUE_TIMEOUT;
        while ["maildrop", "incoming", "active"]
            .iter()
            .any(|queue| contains_file(&self.queue.join(queue)))
        {
            if Instant::now() > deadline {
                return false;
            }
            sleep(POLL).await;
        }
        if contains_file(&self.queue.join("deferred")) {
            let configuration = self.queue.with_file_name("postfix");
            let deleted = Command::new("postsuper")
                .arg("-c")
                .arg(configuration)
                .args(["-d", "ALL"])
                .stdin(Stdio::null())
                .output();
            if !deleted.is_ok_and(|deleted| deleted.status.success()) {
                return false;
            }
        }
        let sunk = fs::read_dir(&self.sink).unwrap().flatten();
        sunk.for_each(|mail| fs::remove_file(mail.path()).unwrap());
        true
    }
}

/// Returns whether a folder or its subfolders contain a file. Files may be removed concurrently.
pub fn contains_file(folder: &Path) -> bool {
    let entries = fs::read_dir(folder).unwrap().flatten();
    let mut entries = entries.map(|entry| (entry.file_type(), entry.path()));
    entries.any(|(kind, path)| match kind {
        Ok(kind) if kind.is_dir() => contains_file(&path),
        Ok(_) => true,
        Err(_) => false,
    })
}

/// The kind of database that mail servers read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Sqlite,
    Postgres,
}

/// A pair of mail servers that no other test uses until this value is dropped or the test's process
/// ends.
#[derive(Debug)]
pub(crate) struct Borrowed {
    pub(crate) servers: MailServers,
    /// The database that the pair reads.
    pub(crate) lookup: Lookup,
    _lock: File,
}

/// The stored data of a running pair, for the next test.
#[derive(Serialize, Deserialize)]
struct Record {
    servers: MailServers,
    /// The URL of its PostgreSQL database; on SQLite the lookup file has a fixed name.
    database: Option<String>,
}

impl Borrowed {
    /// Borrows a pair that no other test uses, and starts one if there is none. Returns `None` if
    /// this run shares no mail servers.
    pub(crate) async fn pair(kind: Kind) -> Option<Self> {
        let shared = PathBuf::from(std::env::var_os(SHARED)?);
        let version = std::env::var("LATCHMAIL_TEST_MAILSERVER").unwrap_or_default();
        let mut number = 0;
        loop {
            let folder = shared.join(format!("{kind:?}{version}-{number}").to_lowercase());
            number += 1;
            fs::create_dir_all(&folder).unwrap();
            let lock = File::create(folder.join("lock")).unwrap();
            if lock.try_lock().is_err() || folder.join("unusable").exists() {
                continue;
            }
            match Self::of(&shared, &folder, kind, lock).await {
                Some(pair) => return Some(pair),
                // The unusable pair runs until the end of the test run. The loop tries the next
                // pair.
                None => drop(File::create(folder.join("unusable")).unwrap()),
            }
        }
    }

    async fn of(shared: &Path, folder: &Path, kind: Kind, lock: File) -> Option<Self> {
        let record = folder.join("servers.json");
        let Record { servers, database } = if let Ok(record) = fs::read(&record) {
            let record: Record = serde_json::from_slice(&record).unwrap();
            if !record.servers.wait_until_idle().await {
                return None;
            }
            if let Some(url) = &record.database {
                empty_postgres(url).await.unwrap();
            }
            record
        } else {
            let started = start(shared, folder, kind).await;
            fs::write(&record, serde_json::to_vec(&started).unwrap()).unwrap();
            started
        };
        Some(Self {
            servers,
            lookup: lookup(folder, database),
            _lock: lock,
        })
    }
}

async fn start(shared: &Path, folder: &Path, kind: Kind) -> Record {
    let database = match kind {
        Kind::Sqlite => {
            fs::create_dir_all(folder.join("mailserver")).unwrap();
            None
        }
        Kind::Postgres => Some(PostgresDatabase::create().await.unwrap().url),
    };
    let until = File::open(shared.join("until")).unwrap();
    let lookup = lookup(folder, database.clone());
    let stack = LocalServers::start_shared(&folder.join("mail"), &lookup, &milter(""), &until)
        .await
        .unwrap();
    let servers = MailServers::from(&stack);
    Record { servers, database }
}

/// Returns the service's milter. It uses the DNS only if there are settings, such as `dns.server`.
pub(crate) fn milter(settings: &str) -> MilterOptions {
    MilterOptions {
        program: program(),
        settings: format!("inbound.authserv_id = '{AUTHSERV_ID}'\n{settings}"),
        dns: !settings.is_empty(),
        ready_text: latchmail_milter::READY,
    }
}

fn lookup(folder: &Path, database: Option<String>) -> Lookup {
    match database {
        Some(url) => Lookup::Postgres(url),
        None => Lookup::Sqlite(folder.join("mailserver/mailserver.db")),
    }
}

/// The logs of a pair from a given moment on.
#[derive(Debug)]
pub(crate) struct Logs(Vec<(PathBuf, u64)>);

impl Logs {
    /// Remembers the current end of the logs.
    pub(crate) fn of(servers: &MailServers) -> Self {
        let logs = ["dovecot.log", "postfix.log"].map(|name| servers.log.join(name));
        Self(
            logs.into_iter()
                .map(|log| {
                    let length = fs::metadata(&log).map_or(0, |found| found.len());
                    (log, length)
                })
                .collect(),
        )
    }

    /// Prints the lines that were written since [`Logs::of`].
    pub(crate) fn print(&self) {
        for (log, from) in &self.0 {
            let text = fs::read(log).unwrap_or_default();
            let text = text
                .get(usize::try_from(*from).unwrap()..)
                .unwrap_or_default();
            eprintln!("--- {}\n{}", log.display(), String::from_utf8_lossy(text));
        }
    }
}
