//! The operator's commands: `latchmail account …`, `latchmail client …`, `latchmail domain …`, `latchmail module …` and `latchmail audit`.
//!
//! Most commands open the service's database with the service's configuration. They need no running service, and a running service applies
//! their changes at its next request, because it reads the directory at every request. The commands on modules talk to the running service
//! instead (see [`module`]). A command prints a sentence or a list; a failure is returned as an error.

pub mod account;
pub mod audit;
pub mod client;
pub mod domain;
pub mod module;
mod password;
mod project;
mod settings;
mod shown;
mod shown_domains;
mod two_factor;

use std::io::{ErrorKind, Write as _};
use std::path::PathBuf;

use anyhow::{Context as _, anyhow, bail};
use latchmail_core::address;
use latchmail_core::caller::Origin;
use latchmail_core::clock::Clock;
use latchmail_core::config::{self, Config};
use latchmail_core::error::Failure;
use latchmail_core::keyring::Keyring;
use latchmail_directory::Directory;
use latchmail_directory::accounts::Account;
use latchmail_mailbox::SessionSelector;

/// The service that a command works on.
#[derive(Debug, Clone, clap::Args)]
pub struct Service {
    /// Configuration file [default: `$LATCHMAIL_CONFIG`, otherwise the one that `latchmail dev` created]. Environment variables
    /// override it.
    #[arg(long, global = true, value_name = "FILE")]
    config: Option<PathBuf>,
}

/// What every command works with: the configuration, the open directory, the clock and the origin for audit events.
struct Desk {
    config: Config,
    directory: Directory,
    clock: Clock,
    origin: Origin,
}

impl Desk {
    async fn open(service: &Service) -> anyhow::Result<Self> {
        let file = settings::locate(service.config.as_deref(), &config::environment())?;
        let config = Config::load(Some(&file))?;
        let database = config::Database {
            max_connections: 1,
            ..config.database()
        };
        Ok(Self {
            directory: Directory::open_beside_service(&database).await?,
            config,
            clock: Clock::system(),
            origin: Origin::operator(),
        })
    }

    /// Returns the account with this address.
    async fn account(&self, address: &str) -> anyhow::Result<Account> {
        let address = folded(address)?;
        let found = self.directory.account_by_address(&address).await?;
        found.ok_or_else(|| no_account(&address))
    }

    async fn close(self) {
        self.directory.close().await;
    }
}

/// Ends the sessions that the mail server still has open for revoked credentials.
///
/// The directory already refuses these credentials, so a failure here is printed as a warning and the command succeeds. This takes some
/// seconds. Call it after the command has printed its result, even if printing failed.
async fn ended(config: &Config, ending: SessionSelector<'_>) {
    let left = match latchmail_mailbox::end_server_sessions(&config.imap, ending).await {
        Ok(true) => return,
        Ok(false) => "`imap.doveadm` is not configured".to_owned(),
        Err(error) => error.to_string(),
    };
    // If standard error is closed, the exit status still reports success.
    let _ = writeln!(
        std::io::stderr(),
        "latchmail: warning: mail clients that are logged in stay connected until they disconnect: {}",
        shown::plain(&left)
    );
}

fn folded(text: &str) -> anyhow::Result<String> {
    address::fold(text).ok_or_else(|| anyhow!("`{}` is not an address", shown::plain(text)))
}

/// Returns the service's keys. Commands never create the key file: the service could not open what a different key sealed.
fn keys(desk: &Desk) -> anyhow::Result<Keyring> {
    let file = &desk.config.key_file;
    if !file.exists() {
        bail!(
            "key file {} not found: the service creates it at its first start, and a relative `key_file` is resolved against the current directory",
            file.display()
        );
    }
    Ok(Keyring::load(file)?)
}

fn no_account(address: &str) -> anyhow::Error {
    anyhow!("there is no account {address}")
}

/// Converts a failure to an error for the operator: the text that a client would receive, followed by the cause.
fn sentence(failure: &Failure) -> anyhow::Error {
    match &failure.cause {
        Some(cause) => anyhow!("{}: {cause}", failure.text),
        None => anyhow!("{}", failure.text),
    }
}

/// Prints one line and flushes standard output.
fn say(line: &str) -> anyhow::Result<()> {
    let mut out = std::io::stdout();
    writeln!(out, "{line}")
        .and_then(|()| out.flush())
        .context("cannot write to standard output")
}

/// Prints lines. Stops without an error when the reader closes the pipe, as `head` does.
fn list(lines: impl Iterator<Item = String>) -> anyhow::Result<()> {
    let mut out = std::io::stdout().lock();
    for line in lines {
        match writeln!(out, "{line}") {
            Ok(()) => {}
            Err(error) if error.kind() == ErrorKind::BrokenPipe => return Ok(()),
            Err(error) => bail!("cannot write to standard output: {error}"),
        }
    }
    Ok(())
}
