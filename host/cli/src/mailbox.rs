//! `latchmail mailbox import`: stores the messages of an archive, an mbox file or a Maildir folder
//! in a mailbox. The command logs in at the mail server with a credential of the service, and needs
//! no running service: a running service notices the messages as those of any other mail client.
//!
//! A message that the folder already contains is skipped, so an interrupted import can be repeated.

mod maildir;
mod source;
mod target;

use std::io::{IsTerminal as _, Write as _};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, bail};
use clap::Subcommand;
use latchmail_accounts::service_credentials::ServiceCredentials;
use latchmail_core::caller::MailCredential;
use latchmail_directory::credentials::index_keys::ServiceUse;
use latchmail_terminal::output::{escape, print_line};
use serde_json::json;
use tokio::sync::mpsc;
use tokio::time::Instant;

use crate::context::{CliContext, ServiceArgs};
use crate::exit::Status;
use source::Item;
use target::{Stored, Target};

/// The exit status if some messages could not be imported.
const SOME_FAILED: u8 = 3;
/// The number of messages that are read before they are stored.
const READ_AHEAD: usize = 1;
/// The interval at which a terminal shows the progress.
const PROGRESS: Duration = Duration::from_secs(1);

/// Subcommands of `latchmail mailbox`.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Import the messages of an archive of an export, of an mbox file, or of a Maildir folder.
    ///
    /// Flags and dates are kept. Messages that a folder already contains are skipped, so the
    /// command can be repeated. The exit status is 3 if some messages could not be imported, and 1
    /// if the import stopped.
    Import(Import),
}

/// Arguments of `latchmail mailbox import`.
#[derive(Debug, clap::Args)]
pub struct Import {
    /// Address of the account.
    address: String,
    /// Archive (zip), mbox file, or Maildir folder with its subfolders. `-` is an mbox file on
    /// standard input.
    file: PathBuf,
    /// Folder for the messages of an mbox file or of a Maildir folder. With an archive, the parent
    /// of its folders [default: INBOX, and no parent].
    #[arg(long, value_name = "PATH")]
    folder: Option<String>,
    /// Print a JSON object with the result.
    #[arg(long)]
    json: bool,
}

/// The numbers of messages.
#[derive(Clone, Copy, Debug, Default)]
struct Counts {
    imported: u64,
    unchanged: u64,
    failed: u64,
}

/// Runs a subcommand.
///
/// # Errors
/// Returns an error if a message was not imported, or if the command fails.
pub async fn run(service: &ServiceArgs, command: Command) -> anyhow::Result<()> {
    let Command::Import(import) = command;
    let context = CliContext::open(service).await?;
    let result = Box::pin(run_import(&context, import)).await;
    context.close().await;
    result
}

async fn run_import(context: &CliContext, import: Import) -> anyhow::Result<()> {
    let credential = credential(context, &import.address).await?;
    let mut target = Target::connect(&context.config.imap, credential).await?;
    let mut counts = Counts::default();
    let result = import_all(&mut target, import.file, import.folder, &mut counts).await;
    let Counts {
        imported,
        unchanged,
        failed,
    } = counts;
    if import.json {
        let object = json!({ "imported": imported, "unchanged": unchanged, "failed": failed });
        print_line(&object.to_string())?;
    } else {
        let text = format!("{imported} imported, {unchanged} already there, {failed} not imported");
        print_line(&text)?;
    }
    result.context("the import stopped; repeat the command to continue")?;
    match failed {
        0 => Ok(()),
        1 => Err(Status::new(SOME_FAILED, "1 message was not imported").into()),
        _ => Err(Status::new(SOME_FAILED, format!("{failed} messages were not imported")).into()),
    }
}

/// Returns the credential with which the service reads the mailbox of an account.
async fn credential(context: &CliContext, address: &str) -> anyhow::Result<MailCredential> {
    let account = context.account(address).await?;
    let credentials = ServiceCredentials::new(
        ServiceUse::Index,
        context.directory.credentials.clone(),
        Arc::new(context.keyring().await?),
        context.clock.clone(),
    );
    match credentials.credential(&account.id).await {
        Ok(Some(credential)) => Ok(credential),
        Ok(None) => bail!("the account {} is disabled", account.address),
        Err(failure) => Err(failure).context("cannot create a credential for the mail server"),
    }
}

async fn import_all(
    target: &mut Target,
    file: PathBuf,
    folder: Option<String>,
    counts: &mut Counts,
) -> anyhow::Result<()> {
    let (sender, mut items) = mpsc::channel(READ_AHEAD);
    let reading = tokio::task::spawn_blocking(move || {
        source::read(&file, folder.as_deref(), &mut |item| {
            sender.blocking_send(item).is_ok()
        })
    });
    let mut progress = Progress::new();
    while let Some(item) = items.recv().await {
        match item {
            Item::Folder(segments) => target.open(&segments).await?,
            Item::Message(message) => match target.store(message).await? {
                Stored::New => counts.imported += 1,
                Stored::Existing => counts.unchanged += 1,
                Stored::Refused(reason) => {
                    counts.failed += 1;
                    progress.report(&reason);
                }
            },
            Item::Unreadable(reason) => {
                counts.failed += 1;
                progress.report(&reason);
            }
        }
        progress.show(*counts);
    }
    progress.end();
    reading.await.context("the reader of the file stopped")?
}

/// The progress on standard error. Ignores write errors.
struct Progress {
    is_terminal: bool,
    shown_at: Option<Instant>,
}

impl Progress {
    fn new() -> Self {
        Self {
            is_terminal: std::io::stderr().is_terminal(),
            shown_at: None,
        }
    }

    fn show(&mut self, counts: Counts) {
        let is_due = self.shown_at.is_none_or(|at| at.elapsed() >= PROGRESS);
        if self.is_terminal && is_due {
            self.shown_at = Some(Instant::now());
            let Counts {
                imported,
                unchanged,
                ..
            } = counts;
            let mut output = std::io::stderr();
            let _ = write!(output, "\r{imported} imported, {unchanged} already there");
            let _ = output.flush();
        }
    }

    fn report(&mut self, reason: &str) {
        self.end();
        let _ = writeln!(std::io::stderr(), "latchmail: {}", escape(reason));
    }

    /// Ends the line of the progress.
    fn end(&mut self) {
        if self.shown_at.take().is_some() {
            let _ = writeln!(std::io::stderr());
        }
    }
}
