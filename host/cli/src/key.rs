//! `latchmail key …`: commands that show, rotate and remove the keys of the service.
//!
//! Keys are only in the key files. The database contains the public ids (`kid`) and the states of
//! the keys. Each running host announces in the database which keys its key file contains.

mod copy;
mod rotate;

use std::path::PathBuf;
use std::time::Duration;

use anyhow::bail;
use clap::Subcommand;
use latchmail_accounts::service_keys::count_sealed;
use latchmail_core::clock::Timestamp;
use latchmail_core::key_file::KeyFile;
use latchmail_core::keyring;
use latchmail_directory::hosts::Host;
use latchmail_directory::keys::sealed::SealedColumn;
use latchmail_directory::keys::service_keys::{KeyState, ServiceKey};
use latchmail_terminal::output::{escape, print_line, print_lines, table, yes_or_no};
use serde_json::json;
use tokio::time::{Instant, sleep};

use crate::context::{CliContext, ServiceArgs};

/// The time for which access tokens and sign-in pages of a key can be in use after another key
/// became the current key.
const IN_USE: Duration = Duration::from_mins(30);

/// The maximum time that a running host needs to notice and announce a change of its key file or of
/// the database.
const NOTICE_TIMEOUT: Duration = Duration::from_secs(15);

/// The interval at which a command reads the announcements of the hosts.
const POLL_INTERVAL: Duration = Duration::from_millis(250);

/// Subcommands of `latchmail key`.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Replace the current key with a new one, without a restart and without signing users out.
    ///
    /// Adds a new key to the key file of this machine, waits until all running hosts have the key,
    /// and makes the key the current key. If a host does not receive the key in time, prints the
    /// name of that host: copy the key file to it, and run the command again. The command can also
    /// be run again after an interruption.
    Rotate,
    /// List the keys.
    List {
        /// Print one JSON object per line.
        #[arg(long)]
        json: bool,
    },
    /// Write the key file to standard output, for `latchmail key import` on another host.
    Export,
    /// Add the keys of another host to the key file of this machine. Creates a missing key file.
    /// The service reads the changed file without a restart.
    Import {
        /// A copy of the other key file, or `-` for standard input.
        file: PathBuf,
    },
    /// Remove an earlier key from the key file of this machine, if no stored secret needs it.
    Remove {
        /// The id of the key, see `latchmail key list`.
        #[arg(allow_hyphen_values = true)]
        kid: String,
    },
}

/// Runs a subcommand.
///
/// # Errors
/// Returns an error if the command fails. The error text is one sentence for the operator.
pub async fn run(service: &ServiceArgs, command: Command) -> anyhow::Result<()> {
    match &command {
        Command::Export => return copy::export(&service.load_config()?.key_file),
        Command::Import { file } => return copy::import(&service.load_config()?.key_file, file),
        Command::Rotate | Command::List { .. } | Command::Remove { .. } => {}
    }
    let context = CliContext::open(service).await?;
    let result = match command {
        Command::Export | Command::Import { .. } => Ok(()),
        Command::Rotate => rotate::rotate(&context).await,
        Command::List { json } => list(&context, json).await,
        Command::Remove { kid } => remove(&context, &kid).await,
    };
    context.close().await;
    result
}

/// A key of the key file.
struct FileKey {
    /// The bytes of the key.
    key: latchmail_core::key_file::Key,
    derived: keyring::Key,
}

impl FileKey {
    fn all(keys: Vec<latchmail_core::key_file::Key>) -> anyhow::Result<Vec<Self>> {
        keys.into_iter()
            .map(|key| {
                let derived = keyring::Key::derive(&key)?;
                Ok(Self { key, derived })
            })
            .collect()
    }

    fn kid(&self) -> &str {
        &self.derived.kid
    }
}

async fn list(context: &CliContext, json: bool) -> anyhow::Result<()> {
    let in_file = FileKey::all(KeyFile::read(&context.config.key_file)?)?;
    let known = context.directory.keys.list().await?;
    let hosts = context.directory.hosts.list().await?;
    let is_in_file = |kid: &str| in_file.iter().any(|key| key.kid() == kid);
    let unknown = in_file
        .iter()
        .map(FileKey::kid)
        .filter(|kid| known.iter().all(|key| key.kid != *kid));
    let states = known
        .iter()
        .map(|key| (key.kid.as_str(), key.state.as_str(), Some(key.changed_at)));
    let mut keys: Vec<_> = unknown
        .map(|kid| (kid, "new", None))
        .chain(states)
        .collect();
    // An earlier key that was removed from all key files is not listed.
    keys.retain(|(kid, state, _)| {
        *state != "earlier" || is_in_file(kid) || !names_with(&hosts, kid).is_empty()
    });
    if json {
        return print_lines(keys.iter().map(|(kid, state, since)| {
            let value = json!({
                "kid": kid,
                "state": state,
                "since": since.map(|at| at.to_string()),
                "inFile": is_in_file(kid),
                "hosts": names_with(&hosts, kid),
            });
            value.to_string()
        }));
    }
    let heading = ["key", "state", "since", "in this file", "hosts"];
    let rows = keys.iter().map(|(kid, state, since)| {
        let names = names_with(&hosts, kid);
        [
            (*kid).to_owned(),
            (*state).to_owned(),
            since.map_or_else(|| "-".to_owned(), |at| at.to_string()),
            yes_or_no(is_in_file(kid)).to_owned(),
            if names.is_empty() {
                "-".to_owned()
            } else {
                escape(&names.join(", "))
            },
        ]
    });
    print_lines(table(heading, rows))
}

async fn remove(context: &CliContext, kid: &str) -> anyhow::Result<()> {
    let path = context.config.key_file.display();
    let file = KeyFile::lock(&context.config.key_file)?;
    let keys = FileKey::all(file.keys()?)?;
    let Some(key) = keys.iter().find(|key| key.kid() == kid) else {
        bail!("the key {} is not in {path}", escape(kid));
    };
    let known = context.directory.keys.list().await?;
    let now = context.clock.now();
    match known.iter().find(|key| key.kid == kid) {
        Some(key) if key.state == KeyState::Current => {
            bail!("{kid} is the current key; `latchmail key rotate` replaces it");
        }
        Some(key) if key.state == KeyState::Pending => {
            bail!("{kid} is pending; `latchmail key rotate` makes it the current key");
        }
        Some(key) if key.changed_at.plus(IN_USE) > now => bail!(
            "access tokens and sign-in pages of the key {kid} can be in use until {}",
            key.changed_at.plus(IN_USE)
        ),
        _ => {}
    }
    let hosts = context.directory.hosts.list().await?;
    let users = names(hosts.iter().filter(|host| host.key_id == kid));
    if !users.is_empty() {
        bail!(
            "these hosts still use the key {kid}: {}",
            escape(&users.join(", "))
        );
    }
    let counts = count_sealed(&context.directory, &key.derived, now).await?;
    if !counts.is_empty() {
        let last = context
            .directory
            .keys
            .last_sealed_session(&key.derived.id)
            .await?;
        bail!("{}", still_sealed(kid, &counts, last));
    }
    file.remove(&key.key)?;
    drop(file);
    print_line(&format!("{kid} is removed from {path}."))?;
    let deadline = Instant::now() + NOTICE_TIMEOUT / 3;
    loop {
        let hosts = context.directory.hosts.list().await?;
        let names = names_with(&hosts, kid);
        if names.is_empty() {
            return Ok(());
        }
        if Instant::now() > deadline {
            return print_line(&format!(
                "These hosts still have the key: {}. Copy {path} to them, or run the command there.",
                escape(&names.join(", "))
            ));
        }
        sleep(POLL_INTERVAL).await;
    }
}

/// Returns the reason why a key cannot be removed.
fn still_sealed(kid: &str, counts: &[(SealedColumn, u64)], last: Option<Timestamp>) -> String {
    let counts: Vec<String> = counts
        .iter()
        .map(|(column, count)| match (column, last) {
            (SealedColumn::Session, Some(last)) => {
                format!("web sessions: {count} (the last one expires at {last})")
            }
            (SealedColumn::Session, None) => format!("web sessions: {count}"),
            (SealedColumn::ProviderToken, _) => {
                format!("refresh tokens of the identity provider: {count}")
            }
            (SealedColumn::TwoFactor, _) => format!("second factors: {count}"),
            (SealedColumn::TeamKey, _) => format!("keys of shared mailboxes: {count}"),
            (SealedColumn::IndexKey, _) => {
                format!("credentials of the search index: {count}")
            }
            (SealedColumn::DkimKey, _) => format!("DKIM keys: {count}"),
            (SealedColumn::UploadKey, _) => format!("keys of uploads: {count}"),
            (SealedColumn::Job, _) => format!("jobs: {count}"),
            (SealedColumn::OutboxEntry, _) => format!("messages in the outbox: {count}"),
            (SealedColumn::OutboxKey, _) => format!("credentials of the outbox: {count}"),
            (SealedColumn::Webhook, _) => format!("settings of webhooks: {count}"),
            (SealedColumn::WebhookBody, _) => format!("deliveries to webhooks: {count}"),
            (SealedColumn::GrantChange, _) => format!("changes of grants: {count}"),
        })
        .collect();
    format!(
        "stored secrets are still sealed with the key {kid}: {}; a running service seals them with the current key within an hour",
        counts.join(", ")
    )
}

/// Returns the names of the hosts that have a key.
fn names_with(hosts: &[Host], kid: &str) -> Vec<String> {
    names(hosts.iter().filter(|host| has(host, kid)))
}

fn has(host: &Host, kid: &str) -> bool {
    host.key_ids().any(|one| one == kid)
}

/// Returns the names of hosts, each name once. `hosts` must be sorted by name, because `dedup`
/// removes only adjacent duplicates.
fn names<'a>(hosts: impl Iterator<Item = &'a Host>) -> Vec<String> {
    let mut names: Vec<String> = hosts.map(|host| host.name.clone()).collect();
    names.dedup();
    names
}

fn in_state(keys: &[ServiceKey], state: KeyState) -> Option<&ServiceKey> {
    keys.iter().find(|key| key.state == state)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_counts_the_values_and_names_the_end_of_the_last_session() {
        let last = Timestamp::from_millis(1_795_161_600_000);
        let counts = [(SealedColumn::TwoFactor, 1), (SealedColumn::Session, 2)];
        let text = still_sealed("kid", &counts, Some(last));
        let expected =
            format!("second factors: 1, web sessions: 2 (the last one expires at {last})");
        assert!(text.contains(&expected), "{text}");
    }
}
