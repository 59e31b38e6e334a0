//! `latchmail backup`: copies the database and the configuration to a folder, while the service
//! runs. The service's key is never in the folder.
//!
//! The folder is written under another name and renamed at the end. Therefore an interrupted backup
//! never leaves an incomplete folder with the name of the backup.

pub(crate) mod keys;
pub(crate) mod manifest;
pub(crate) mod postgres;

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};
use latchmail_core::clock::{Clock, Timestamp};
use latchmail_core::config::{ATTACHED_FILE, Config};
use latchmail_core::secrets;
use latchmail_directory::{backup, sqlite_files};
use latchmail_terminal::output::{escape, print_line};

use self::keys::KeyFile;
use self::manifest::{DATABASE_DUMP, DATABASE_FILE, Kind, LAST_LOGINS, Manifest};
use crate::context::ServiceArgs;

/// The arguments of the command.
#[derive(Debug, clap::Args)]
pub struct BackupArgs {
    /// The folder of the backup. It must not exist, or must be empty.
    dir: PathBuf,
    /// Also copy the service's key to this file, which must not be in the folder of the backup.
    #[arg(long, value_name = "FILE")]
    keys: Option<PathBuf>,
}

/// Runs the command.
///
/// # Errors
/// Returns an error if the backup cannot be made. No folder with the name of the backup is created
/// in that case.
pub async fn run(service: &ServiceArgs, args: &BackupArgs) -> anyhow::Result<()> {
    let config = service.load_config()?;
    let dir = std::path::absolute(&args.dir)?;
    check_folder(&dir)?;
    let key_file = KeyFile::read(&config.key_file)?;
    let keys = args.keys.as_deref().map(std::path::absolute).transpose()?;
    if let Some(keys) = &keys {
        check_separate(keys, &dir)?;
        key_file.require_free(keys)?;
    }
    let draft = draft_of(&dir)?;
    DirBuilder::new()
        .mode(0o700)
        .create(&draft)
        .with_context(|| format!("cannot create {}", draft.display()))?;
    let made = async {
        let time = Clock::system().now();
        write(&config, &draft, &key_file, time).await?;
        if let Some(keys) = &keys {
            key_file.copy_to(keys)?;
        }
        // If `dir` is an empty folder, `rename` replaces this folder.
        fs::rename(&draft, &dir).with_context(|| format!("cannot create {}", dir.display()))?;
        sync_folder(parent(&dir))?;
        anyhow::Ok(time)
    };
    let time = match made.await {
        Ok(time) => time,
        Err(error) => {
            let _ = fs::remove_dir_all(&draft);
            return Err(error);
        }
    };
    let key = match keys {
        Some(keys) => format!("A copy of the key is in {}.", keys.display()),
        None => format!(
            "It does not contain the key; keep a copy of {} elsewhere.",
            config.key_file.display()
        ),
    };
    print_line(&format!(
        "Wrote the backup of {time} to {}. {key}",
        dir.display()
    ))
}

/// Writes all files of the backup to the folder `draft`.
async fn write(
    config: &Config,
    draft: &Path,
    key_file: &KeyFile,
    time: Timestamp,
) -> anyhow::Result<()> {
    let database = config.database();
    let mut names = Vec::new();
    let mut manifest = Manifest::new(time, key_file.keyring());
    let current_key;
    if sqlite_files(&database)?.is_some() {
        let copy = draft.join(DATABASE_FILE);
        manifest.schema = backup::copy_sqlite(&database, &copy).await?;
        current_key = backup::current_key_of_copy(&copy).await?;
        names.push(DATABASE_FILE.to_owned());
        match backup::last_logins_of_copy(&database, &copy).await {
            Ok(logins) => {
                let text = serde_json::to_vec(&logins)?;
                write_private(&draft.join(LAST_LOGINS), &text)?;
                names.push(LAST_LOGINS.to_owned());
            }
            Err(error) => warn(&format!(
                "the backup does not contain the last log-ins of mail clients: {error}"
            )),
        }
    } else {
        let state = backup::postgres_state(&database).await?;
        manifest.schema = state.require_current()?;
        manifest.database = Kind::Postgresql;
        manifest.database_schema = Some(state.schema.clone());
        current_key = state.current_key.clone();
        postgres::dump(&database, &state, &draft.join(DATABASE_DUMP)).await?;
        names.push(DATABASE_DUMP.to_owned());
    }
    // A database that no host has used has no current key.
    if let Some(kid) = current_key
        && !manifest.set_current_key(kid.clone())
    {
        warn(&format!(
            "the key file does not contain the current key {kid} of the database; without this key, the backup cannot be restored"
        ));
    }
    for file in configuration_files(config) {
        let Some(name) = file.file_name() else {
            continue;
        };
        let text = fs::read(&file).with_context(|| format!("cannot read {}", file.display()))?;
        write_private(&draft.join(name), &text)?;
        names.push(name.to_string_lossy().into_owned());
    }
    manifest.write(draft, &names)?;
    sync_folder(draft)
}

/// Returns the configuration file, and the file that `latchmail attach` writes beside it.
fn configuration_files(config: &Config) -> Vec<PathBuf> {
    let Some(file) = &config.file else {
        return Vec::new();
    };
    let attached = file.with_file_name(ATTACHED_FILE);
    let attached = attached.exists().then_some(attached);
    std::iter::once(file.clone()).chain(attached).collect()
}

fn check_folder(dir: &Path) -> anyhow::Result<()> {
    match fs::read_dir(dir).map(|mut entries| entries.next().is_none()) {
        Ok(true) => Ok(()),
        Ok(false) => bail!(
            "{} is not empty; name a folder that does not exist",
            dir.display()
        ),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let parent = parent(dir);
            if !parent.is_dir() {
                bail!("the folder {} does not exist", parent.display());
            }
            Ok(())
        }
        Err(error) => bail!("cannot use {}: {error}", dir.display()),
    }
}

/// Returns an error if the copy of the key would be in the folder of the backup.
fn check_separate(keys: &Path, dir: &Path) -> anyhow::Result<()> {
    let folder = parent(keys);
    let folder = folder
        .canonicalize()
        .with_context(|| format!("cannot use the folder {}", folder.display()))?;
    let dir = match dir.canonicalize() {
        Ok(dir) => dir,
        Err(_) => parent(dir)
            .canonicalize()?
            .join(dir.file_name().unwrap_or_default()),
    };
    if folder.starts_with(&dir) {
        bail!(
            "{} is in the folder of the backup; who gets a backup with the key can open all mailboxes, so keep the key elsewhere",
            keys.display()
        );
    }
    Ok(())
}

fn draft_of(dir: &Path) -> anyhow::Result<PathBuf> {
    let Some(name) = dir.file_name() else {
        bail!("{} is not the name of a folder", dir.display());
    };
    let mut draft = std::ffi::OsString::from(".");
    draft.push(name);
    draft.push(".incomplete-");
    draft.push(secrets::id()?);
    Ok(dir.with_file_name(draft))
}

fn parent(path: &Path) -> &Path {
    path.parent().unwrap_or(Path::new("/"))
}

pub(crate) fn warn(text: &str) {
    // If the warning cannot be written, ignore the error. The command continues.
    let _ = writeln!(io::stderr(), "latchmail: warning: {}", escape(text));
}

/// Writes a new file with mode 0600 to the disk.
pub(crate) fn write_private(file: &Path, bytes: &[u8]) -> anyhow::Result<()> {
    let mut options = OpenOptions::new();
    options
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(file)
        .and_then(|mut file| {
            file.write_all(bytes)?;
            file.sync_all()
        })
        .with_context(|| format!("cannot write {}", file.display()))
}

pub(crate) fn sync_folder(folder: &Path) -> anyhow::Result<()> {
    File::open(folder)
        .and_then(|folder| folder.sync_all())
        .with_context(|| format!("cannot write {}", folder.display()))
}
