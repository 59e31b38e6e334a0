//! What the operator does at the command line: `latchmail account …`, `latchmail client …`, `latchmail domain …`, `latchmail module …`, `latchmail audit`.
//!
//! A verb opens the service's database with the service's configuration, and needs no running service; one that runs reads the directory
//! at every request and so heeds a change at the next. Modules are changed by the service that runs ([`module`]). A verb prints a sentence, or lines; what went wrong is its error.

pub mod account;
pub mod audit;
pub mod client;
pub mod domain;
pub mod module;
mod password;
mod settings;
mod shown;
mod shown_domains;
mod two_factor;

use std::io::{ErrorKind, Write as _};
use std::path::PathBuf;

use anyhow::{Context as _, anyhow, bail};

use crate::auth::address;
use crate::auth::keyring::Keyring;
use crate::caller::Origin;
use crate::clock::Clock;
use crate::config::{self, Config};
use crate::directory::Directory;
use crate::directory::accounts::Account;
use crate::error::Failure;
use crate::mail::{self, Ending};

/// Which service a verb is for.
#[derive(Debug, Clone, clap::Args)]
pub struct Service {
    /// The service's configuration [default: `$LATCHMAIL_CONFIG`, else what `latchmail dev` left in its state folder]. The environment
    /// goes over it.
    #[arg(long, global = true, value_name = "FILE")]
    config: Option<PathBuf>,
}

/// What every verb works with.
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
            ..config.database.clone()
        };
        Ok(Self {
            directory: Directory::beside(&database).await?,
            config,
            clock: Clock::system(),
            origin: Origin::operator(),
        })
    }

    /// The account with this address.
    async fn account(&self, address: &str) -> anyhow::Result<Account> {
        let address = folded(address)?;
        let found = self.directory.account_by_address(&address).await?;
        found.ok_or_else(|| no_account(&address))
    }

    async fn close(self) {
        self.directory.close().await;
    }
}

/// Ends what the mail server still serves with credentials that were ended in the directory. The directory has refused them from then on, so
/// where it cannot be done the operator is told, and the verb has done its work. It takes some seconds: to be called when the verb has
/// said what it did, and whether or not it could.
async fn ended(config: &Config, ending: Ending<'_>) {
    let left = match mail::end_at_mail_server(&config.imap, ending).await {
        Ok(true) => return,
        Ok(false) => "`imap.doveadm` is not configured".to_owned(),
        Err(error) => error.to_string(),
    };
    // Where even this cannot be written, the exit status still says that it was done.
    let _ = writeln!(
        std::io::stderr(),
        "latchmail: mail clients that are logged in stay so until they end by themselves: {}",
        shown::plain(&left)
    );
}

fn folded(text: &str) -> anyhow::Result<String> {
    address::fold(text).ok_or_else(|| anyhow!("`{}` is not an address", shown::plain(text)))
}

/// The service's keys. A verb makes none: a key that the service does not have would seal what it cannot open.
fn keys(desk: &Desk) -> anyhow::Result<Keyring> {
    let file = &desk.config.key_file;
    if !file.exists() {
        bail!(
            "there is no {}: the service makes its key at its first start, and a relative `key_file` is looked for from where this runs",
            file.display()
        );
    }
    Ok(Keyring::load(file)?)
}

fn no_account(address: &str) -> anyhow::Error {
    anyhow!("there is no account {address}")
}

/// What a client would be answered, as a sentence for the operator.
fn sentence(failure: &Failure) -> anyhow::Error {
    match &failure.cause {
        Some(cause) => anyhow!("{}: {cause}", failure.text),
        None => anyhow!("{}", failure.text),
    }
}

/// Prints one line.
fn say(line: &str) -> anyhow::Result<()> {
    let mut out = std::io::stdout();
    writeln!(out, "{line}")
        .and_then(|()| out.flush())
        .context("cannot write to the standard output")
}

/// Prints many lines. Whoever reads them may have read enough.
fn list(lines: impl Iterator<Item = String>) -> anyhow::Result<()> {
    let mut out = std::io::stdout().lock();
    for line in lines {
        match writeln!(out, "{line}") {
            Ok(()) => {}
            Err(error) if error.kind() == ErrorKind::BrokenPipe => return Ok(()),
            Err(error) => bail!("cannot write to the standard output: {error}"),
        }
    }
    Ok(())
}
