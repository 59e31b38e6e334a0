//! Compares the listings of two hosts with those of one host. The hosts share one PostgreSQL
//! database.
//!
//! A host may use a quarter of a processor core, so that the machine has enough CPU time for the
//! database, the clients and two hosts. The mail server is a [`Simulator`] with a constant delay,
//! so that it does not slow the hosts down.

mod cpu_quota;
mod simulator;

use std::fs;
use std::net::{SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::Context as _;
use latchmail_core::clock::Clock;
use latchmail_core::config::Database;
use latchmail_directory::testing::PostgresDatabase;
use latchmail_mailserver::{LocalServers, Lookup};
use tempfile::TempDir;
use tokio::runtime::Runtime;

use self::cpu_quota::CpuQuota;
use self::simulator::Simulator;
use crate::mailbox::append;
use crate::measure::{Call, Workload, compare};
use crate::messages::{Random, random_message};
use crate::operations::{check_length, response_length};
use crate::report::Report;
use crate::service::{Host, built_in, register, wait_until_ready};
use crate::{http, imap};

/// The number of clients and of accounts.
const CLIENTS: usize = 16;

/// The number of messages in each inbox.
const MESSAGES: usize = 60;

/// The measured request.
const LISTING: &str = "/api/v1/mail/folders/INBOX/messages?limit=50";

/// The share of a processor core that a host may use.
const SHARE: f64 = 0.25;

/// Target: minimum ratio of the listings of two hosts to those of one.
const MIN_RATIO: f64 = 1.7;

/// A running host with a limited CPU time. The fields are dropped in this order, because a group of
/// processes must be empty when it is removed.
struct LimitedHost {
    address: SocketAddr,
    _host: Host,
    _quota: CpuQuota,
}

/// Measures listings, alternately with one host and with two.
pub(crate) fn measure(
    program: &Path,
    modules: &Path,
    runtime: &Runtime,
    workload: &Workload,
    report: &mut Report,
) -> anyhow::Result<()> {
    let database = runtime.block_on(PostgresDatabase::create())?;
    let folder = tempfile::Builder::new()
        .prefix("lm-bench")
        .tempdir_in("/tmp")?;
    let lookup = Lookup::Postgres(database.url.clone());
    let stack = runtime.block_on(LocalServers::start(&folder.path().join("mail"), &lookup))?;
    let simulator = Simulator::start(stack.imap)?;
    let setup = Setup {
        program,
        modules,
        folder: &folder,
        database: &database.url,
        stack: &stack,
        imap: simulator.address(),
    };
    let hosts = [setup.start("one")?, setup.start("two")?];
    let tokens = (0..CLIENTS)
        .map(|number| setup.create_account(hosts[0].address, number, runtime))
        .collect::<anyhow::Result<Vec<_>>>()?;
    let [one, two] = compare(
        workload,
        &mut calls(&hosts[..1], &tokens)?,
        &mut calls(&hosts, &tokens)?,
    )?;
    report.throughput(
        "listing of 50, two hosts and one host",
        CLIENTS,
        &one,
        &two,
        Some(MIN_RATIO),
    );
    drop(hosts);
    runtime.block_on(async {
        stack.stop().await?;
        database.drop().await
    })
}

/// Returns a call for each account. The clients are distributed evenly over the hosts.
fn calls<'a>(hosts: &[LimitedHost], tokens: &[String]) -> anyhow::Result<Vec<Call<'a>>> {
    let hosts = hosts.iter().cycle();
    tokens
        .iter()
        .zip(hosts)
        .map(|(token, host)| -> anyhow::Result<Call<'a>> {
            let mut client = http::Client::connect(host.address, token)?;
            let expected = response_length(&mut client, LISTING, 10_000)?;
            Ok(Box::new(move || {
                let length = client.get(LISTING)?;
                check_length(length, expected)
            }))
        })
        .collect()
}

/// What the hosts share.
struct Setup<'a> {
    program: &'a Path,
    modules: &'a Path,
    folder: &'a TempDir,
    database: &'a str,
    stack: &'a LocalServers,
    imap: SocketAddr,
}

impl Setup<'_> {
    /// Starts a host with a limited CPU time.
    fn start(&self, name: &str) -> anyhow::Result<LimitedHost> {
        let address = TcpListener::bind("127.0.0.1:0")?.local_addr()?;
        let host = Command::new(self.program)
            .arg("serve")
            .arg("--config")
            .arg(self.configure(name, address)?)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .spawn()
            .context("cannot start the host")?;
        let mut host = Host(host);
        wait_until_ready(&mut host, address)?;
        let quota = CpuQuota::limit(host.0.id(), SHARE)?;
        Ok(LimitedHost {
            address,
            _host: host,
            _quota: quota,
        })
    }

    /// Writes the configuration of a host. All hosts have the same key, which the first host
    /// creates.
    fn configure(&self, name: &str, address: SocketAddr) -> anyhow::Result<PathBuf> {
        let shared = self.folder.path();
        let own = shared.join(name);
        fs::create_dir(&own)?;
        let config = own.join("latchmail.toml");
        fs::write(
            &config,
            format!(
                "listen = '{address}'\nbase_url = 'http://bench.test'\nkey_file = '{shared}/key'\ncache_dir = '{own}/cache'\n\
                 [database]\nurl = '{database}'\n[imap]\naddress = '{imap}'\n[smtp]\naddress = '{smtp}'\n\
                 [registration]\ndomains = ['bench.test']\n[index]\nenabled = false\n[admin]\nsocket = '{own}/operator.sock'\n[log]\nfilter = 'warn'\n\
                 {mail}\
                 [limits]\nmail = 1000000\nregistration = 1000000\nsign_in = 1000000\n",
                shared = shared.display(),
                own = own.display(),
                database = self.database,
                imap = self.imap,
                smtp = self.stack.submission,
                mail = built_in(self.modules, "mail"),
            ),
        )?;
        Ok(config)
    }

    /// Creates an account with messages, and returns its access token.
    fn create_account(
        &self,
        host: SocketAddr,
        number: usize,
        runtime: &Runtime,
    ) -> anyhow::Result<String> {
        let token = register(host, &format!("owner{number}"))?;
        let address = format!("owner{number}@bench.test");
        let database = Database {
            url: self.database.to_owned(),
            ..Database::default()
        };
        let password = latchmail_tests::app_password(&database, &address, Clock::system().now());
        let password = runtime.block_on(password);
        let mut client = imap::Client::connect(self.stack.imap, &address, &password)?;
        let mut random = Random(4);
        let messages = (1..=MESSAGES).map(|number| random_message(number, &mut random));
        append(&mut client, "INBOX", messages)?;
        Ok(token)
    }
}
