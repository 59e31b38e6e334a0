//! `latchmail restore`: restores a backup to an empty database, and installs the service's key.
//!
//! The database changes in one step. If a step fails, the command undoes the earlier steps or
//! reports what remains.

use std::collections::HashSet;
use std::fs;
use std::os::unix::fs::{MetadataExt as _, lchown};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};
use latchmail_core::caller::Origin;
use latchmail_core::clock::Clock;
use latchmail_core::config::{self, Config};
use latchmail_directory::backup::{self, ClientPassword, Restore};
use latchmail_directory::events::{Event, Kind as EventKind};
use latchmail_directory::{Directory, sqlite_files};
use latchmail_terminal::input::confirm;
use latchmail_terminal::output::{escape, format_time, print_line, print_lines, table};
use rustix::process::geteuid;

use crate::backup::keys::KeyFile;
use crate::backup::manifest::{DATABASE_DUMP, DATABASE_FILE, Kind, LAST_LOGINS, Manifest};
use crate::backup::{postgres, warn};
use crate::context::ServiceArgs;
use crate::doctor::find_running;

/// The arguments of the command.
#[derive(Debug, clap::Args)]
pub struct RestoreArgs {
    /// The folder of the backup.
    dir: PathBuf,
    /// The copy of the service's key. It is installed at `key_file`.
    #[arg(long, value_name = "FILE")]
    keys: PathBuf,
    /// Do not ask for confirmation.
    #[arg(long)]
    yes: bool,
    /// End all web sessions, OAuth grants and API tokens of the backup, because some of them can
    /// have been revoked after the backup.
    #[arg(long)]
    end_sessions: bool,
    /// End all app passwords of mail clients of the backup. Users must create new ones.
    #[arg(long)]
    end_app_passwords: bool,
    /// The database that the backup replaces: an SQLite file, or the name of a database on the same
    /// PostgreSQL server. The app passwords that were revoked in this database end.
    #[arg(long, value_name = "DATABASE")]
    replaced: Option<String>,
}

/// Runs the command.
///
/// # Errors
/// Returns an error if the backup is damaged, if the key or the database does not fit, or if a step
/// fails. The error says what was changed.
pub async fn run(service: &ServiceArgs, args: &RestoreArgs) -> anyhow::Result<()> {
    let config = service.load_config()?;
    let database = config.database();
    let manifest = Manifest::read(&args.dir)?;
    let key_file = KeyFile::read(&args.keys)?;
    for kid in manifest.check_keys(key_file.keyring())? {
        warn(&format!(
            "the key file does not contain the earlier key {kid} of the backup; sessions that use it end"
        ));
    }
    let installed_file = std::path::absolute(&config.key_file)?;
    key_file.require_free(&installed_file)?;
    if manifest.schema > backup::schema_version() {
        bail!("a later version of Latchmail made the backup; install that version");
    }
    if find_running(&config).await.is_some() {
        bail!("the service is running; stop it before the restore");
    }
    let target = Target::of(&database, &manifest).await?;
    let remaining = match &args.replaced {
        Some(replaced) => Some(backup::replaced_client_passwords(&database, replaced).await?),
        None => None,
    };
    let time = manifest.time()?;
    let question = format!("Restore the backup of {time} to {}?", target.name());
    if !args.yes && !confirm(&question)? {
        bail!("nothing was changed");
    }
    let restore = Restore {
        restored_at: Clock::system().now(),
        backed_up_at: time,
        end_sessions: args.end_sessions,
        end_app_passwords: args.end_app_passwords,
    };
    let installed = key_file.copy_to(&installed_file)?;
    if let Err(error) = target.restore(&database, &args.dir, restore).await {
        if installed {
            fs::remove_file(&installed_file).with_context(|| {
                format!("{error:#}; the key remains in {}", installed_file.display())
            })?;
        }
        return Err(error.context("nothing was restored"));
    }
    let [ended, valid] = complete(&config, &args.dir, &manifest, restore, remaining)
        .await
        .context("the database and the key are restored, but a later step failed; correct the cause and start the service, which repeats it")?;
    print_line(&format!(
        "Restored the backup of {time} to {}. The key is in {}. Start the service.",
        target.name(),
        installed_file.display()
    ))?;
    print_passwords(
        "Ended app passwords, which were revoked after the backup:",
        &ended,
    )?;
    print_passwords(
        "Valid app passwords of mail clients, some of which can have been revoked after the backup:",
        &valid,
    )
}

/// Prints a list of app passwords under a heading. Prints nothing if the list is empty.
fn print_passwords(heading: &str, passwords: &[ClientPassword]) -> anyhow::Result<()> {
    if passwords.is_empty() {
        return Ok(());
    }
    print_line(heading)?;
    let rows = passwords.iter().map(|password| {
        [
            password.address.clone(),
            escape(password.label.as_deref().unwrap_or_default()),
            format_time(password.created_at),
        ]
    });
    print_lines(table(["ADDRESS", "LABEL", "CREATED"], rows))
}

/// The configured database, to which the backup is restored.
enum Target {
    Sqlite(PathBuf),
    Postgres(backup::PostgresState),
}

impl Target {
    async fn of(database: &config::Database, manifest: &Manifest) -> anyhow::Result<Self> {
        match (sqlite_files(database)?, manifest.database) {
            (Some(files), Kind::Sqlite) => Ok(Self::Sqlite(files.main)),
            (Some(_), Kind::Postgresql) => {
                bail!(
                    "the backup is of a PostgreSQL database, but `database.url` names an SQLite file"
                )
            }
            (None, Kind::Sqlite) => {
                bail!(
                    "the backup is of an SQLite database, but `database.url` does not name an SQLite file"
                )
            }
            (None, Kind::Postgresql) => {
                let state = backup::postgres_state(database).await?;
                state.require_empty()?;
                if let Some(version) = state.version
                    && version != manifest.schema
                {
                    bail!(
                        "the database contains the tables of another version; create an empty database and restore to it"
                    );
                }
                if manifest.database_schema.as_ref() != Some(&state.schema) {
                    bail!(
                        "the tables of the backup are in the schema {}, but those of `database.url` would be in {}",
                        manifest.database_schema.as_deref().unwrap_or_default(),
                        state.schema
                    );
                }
                Ok(Self::Postgres(state))
            }
        }
    }

    /// Returns the name of the database for messages. The name is not the URL, because a URL can
    /// contain a password.
    fn name(&self) -> String {
        match self {
            Self::Sqlite(file) => file.display().to_string(),
            Self::Postgres(_) => "the PostgreSQL database".into(),
        }
    }

    /// Restores the database, or changes nothing.
    async fn restore(
        &self,
        database: &config::Database,
        dir: &Path,
        restore: Restore,
    ) -> anyhow::Result<()> {
        match self {
            Self::Sqlite(_) => {
                backup::restore_sqlite(database, &dir.join(DATABASE_FILE), restore).await?;
                Ok(())
            }
            Self::Postgres(state) => {
                let file = dir.join(DATABASE_DUMP);
                postgres::restore(database, state, &file, &restore).await
            }
        }
    }
}

/// Migrates the restored database, writes the file that mail servers read, and gives the files to
/// the service's user. `remaining` contains the ids of the app passwords in the replaced database.
/// If `remaining` is not `None`, ends all other app passwords of mail clients. Returns the ended
/// and the valid app passwords of mail clients.
async fn complete(
    config: &Config,
    dir: &Path,
    manifest: &Manifest,
    restore: Restore,
    remaining: Option<HashSet<String>>,
) -> anyhow::Result<[Vec<ClientPassword>; 2]> {
    let database = config::Database {
        max_connections: 1,
        ..config.database()
    };
    let directory = Directory::open_beside_service(&database).await?;
    if manifest.contains(LAST_LOGINS) {
        let logins: Vec<(String, i64)> = serde_json::from_slice(&fs::read(dir.join(LAST_LOGINS))?)?;
        if let Err(error) = directory.credentials.restore_last_logins(&logins).await {
            warn(&format!(
                "cannot restore the last log-ins of mail clients: {error}"
            ));
        }
    }
    let detail = format!("backup of {}", restore.backed_up_at);
    let event = Event {
        kind: EventKind::BackupRestored,
        account: None,
        address: "",
        subject: None,
        detail: Some(&detail),
        at: restore.restored_at,
    };
    directory.events.record(event, &Origin::operator()).await?;
    let passwords = directory
        .credentials
        .client_passwords(restore.restored_at)
        .await?;
    let (valid, ended): (Vec<_>, Vec<_>) = passwords.into_iter().partition(|password| {
        let remaining = remaining.as_ref();
        remaining.is_none_or(|remaining| remaining.contains(&password.id))
    });
    directory.credentials.end_client_passwords(&ended).await?;
    directory.close().await;
    if sqlite_files(&database)?.is_some() {
        backup::set_owner(&database)?;
    }
    set_key_owner(&std::path::absolute(&config.key_file)?)?;
    Ok([ended, valid])
}

/// Gives the key file to the owner of its folder, if root created the file.
fn set_key_owner(file: &Path) -> anyhow::Result<()> {
    let Some(folder) = file.parent() else {
        return Ok(());
    };
    let folder = fs::metadata(folder)?;
    if geteuid().is_root() && folder.uid() != 0 && fs::metadata(file)?.uid() == 0 {
        lchown(file, Some(folder.uid()), Some(folder.gid()))?;
    }
    Ok(())
}
