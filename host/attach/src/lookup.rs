//! Determines the database that the mail servers read, and gives the mail servers access to the
//! database.

use std::fs::{self, OpenOptions};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _, chown, fchown};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};
use latchmail_core::config::Config;
use latchmail_directory::{Directory, SqliteFiles, sqlite_files};
use latchmail_mailserver::{Lookup, Pinned};

use super::journal::OwnerChange;

/// The mode of the folder for mail servers. The setgid bit gives new files the group of the folder.
const FOLDER_MODE: u32 = 0o2750;
const FILE_MODE: u32 = 0o660;

/// Returns the database of the service. `mail_database` is the URL for mail servers if the service
/// uses PostgreSQL.
pub(super) fn find(config: &Config, mail_database: Option<&str>) -> anyhow::Result<Lookup> {
    match (sqlite_files(&config.database())?, mail_database) {
        (Some(files), None) => Ok(Lookup::Sqlite(files.mailserver)),
        (None, Some(url)) if url.starts_with("postgres") => Ok(Lookup::Postgres(url.to_owned())),
        (None, Some(_)) => bail!("the database for the mail servers must be a `postgres://` URL"),
        (None, None) => bail!(
            "with PostgreSQL, give the URL with the mail servers' own log-in in a file with --mail-database-file FILE; create the log-in with \
             CREATE ROLE mail LOGIN PASSWORD '…' IN ROLE latchmail_mailserver"
        ),
        (Some(_), Some(_)) => {
            bail!(
                "--mail-database and --mail-database-file are for PostgreSQL, but the service uses SQLite"
            )
        }
    }
}

/// Opens the directory. If the service has not been started yet, creates the SQLite database. All
/// new files then belong to the owner of the database's folder, who is the service's user.
///
/// # Errors
/// Returns an error if the folder of the database does not exist or the database cannot be opened.
pub(super) async fn open_directory(config: &Config) -> anyhow::Result<Directory> {
    let database = config.database();
    let files = sqlite_files(&database)?;
    let new = files.filter(|files| !files.main.exists());
    if let Some(files) = &new {
        let folder = files.main.parent().unwrap_or(Path::new("/"));
        if !folder.is_dir() {
            bail!(
                "the folder of the database, {}, does not exist; create it for the service's user",
                folder.display()
            );
        }
        create_for_owner_of(folder, &files.main)?;
    }
    let directory = Directory::open_beside_service(&database).await?;
    if let Some(files) = &new {
        give_to_service(files)?;
    }
    Ok(directory)
}

/// Creates an empty file for the owner of a folder. An empty file is a valid SQLite database. The
/// file must have this owner before the database is opened. Otherwise the folder for mail servers
/// would belong to neither root nor the owner of the database, and the database could not be
/// opened.
fn create_for_owner_of(folder: &Path, file: &Path) -> anyhow::Result<()> {
    let owner = fs::metadata(folder)?.uid();
    OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(file)
        .and_then(|created| fchown(created, Some(owner), None))
        .with_context(|| format!("cannot create {}", file.display()))
}

/// Gives new files to the owner of the database's folder.
fn give_to_service(files: &SqliteFiles) -> anyhow::Result<()> {
    let folder = files.main.parent().unwrap_or(Path::new("/"));
    let owner = fs::metadata(folder)?.uid();
    let give = |path: &Path| {
        Pinned::open(path)
            .and_then(|opened| chown(opened.path(), Some(owner), None))
            .with_context(|| format!("cannot change {}", path.display()))
    };
    // SQLite and the service create further files beside the database, whose names begin with the
    // name of the database file.
    let name = files
        .main
        .file_name()
        .unwrap_or_default()
        .as_encoded_bytes();
    for path in folder_and_files(&files.main)?.into_iter().skip(1) {
        let file = path.file_name().unwrap_or_default().as_encoded_bytes();
        if file.starts_with(name) {
            give(&path)?;
        }
    }
    for path in folder_and_files(&files.mailserver)? {
        give(&path)?;
    }
    Ok(())
}

/// Returns a warning if the mail servers probably cannot enter the folders above the folder of the
/// SQLite file.
pub(super) fn access_warning(lookup: &Lookup) -> Option<String> {
    let Lookup::Sqlite(file) = lookup else {
        return None;
    };
    let closed = |folder: &&Path| fs::metadata(folder).is_ok_and(|found| found.mode() & 1 == 0);
    let folder = file.ancestors().skip(2).find(closed)?;
    Some(format!(
        "the mail servers probably cannot read {}, because other users cannot enter {}; set `database.mailserver` to a file such as \
         /var/lib/latchmail-shared/mailserver/mailserver.db",
        file.display(),
        folder.display()
    ))
}

/// Returns the changes that let the group of Postfix read the SQLite file. Returns no changes for
/// PostgreSQL.
pub(super) fn owner_changes(lookup: &Lookup, group: u32) -> anyhow::Result<Vec<OwnerChange>> {
    let Lookup::Sqlite(file) = lookup else {
        return Ok(Vec::new());
    };
    let mut changes = Vec::new();
    for path in folder_and_files(file)? {
        let metadata = fs::metadata(&path)?;
        let mode = if metadata.is_dir() {
            FOLDER_MODE
        } else {
            FILE_MODE
        };
        let before = (metadata.gid(), metadata.mode() & 0o7777);
        if before != (group, mode) {
            changes.push(OwnerChange {
                path,
                before,
                after: (group, mode),
            });
        }
    }
    Ok(changes)
}

/// Returns the folder of a database file, followed by the files in this folder.
fn folder_and_files(file: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let folder = file.parent().context("the database file has no folder")?;
    let mut paths = vec![folder.to_owned()];
    for entry in
        fs::read_dir(folder).with_context(|| format!("cannot read {}", folder.display()))?
    {
        let entry = entry?;
        if entry.file_type()?.is_file() {
            paths.push(entry.path());
        }
    }
    Ok(paths)
}

/// Returns the name of the service's user: the owner of the key file, or the owner of its folder if
/// the key file does not exist.
///
/// # Errors
/// Returns an error if the owner has no name.
pub(super) fn service_user(config: &Config) -> anyhow::Result<String> {
    let key_file = std::path::absolute(&config.key_file)?;
    let folder = key_file.parent().unwrap_or(Path::new("/"));
    let metadata = fs::metadata(&key_file)
        .or_else(|_| fs::metadata(folder))
        .with_context(|| {
            format!(
                "the folder of the key file {} does not exist",
                key_file.display()
            )
        })?;
    let name = super::programs::run("id", &["-un", "--", &metadata.uid().to_string()])?;
    Ok(name.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn a_folder_that_the_mail_servers_cannot_enter_causes_a_warning() {
        let base = tempfile::tempdir().unwrap();
        let state = base.path().join("state");
        fs::create_dir_all(state.join("mailserver")).unwrap();
        let lookup = Lookup::Sqlite(state.join("mailserver/mailserver.db"));
        let set = |path: &Path, mode| fs::set_permissions(path, fs::Permissions::from_mode(mode));
        set(base.path(), 0o711).unwrap();
        set(&state, 0o750).unwrap();
        let warning = access_warning(&lookup).unwrap();
        assert!(
            warning.contains(&format!("enter {};", state.display())),
            "{warning}"
        );
        set(&state, 0o711).unwrap();
        assert_eq!(access_warning(&lookup), None);
    }
}
