//! Protects the folder that mail daemons share with the service, and describes how the service opens a file in this folder.
//!
//! Daemons can write the files in the folder, because a reader of a database in WAL mode must be able to write the database. So the service does not trust the
//! contents of these files. Daemons must not be able to create other files in the folder. The reason is SQLite's rollback journal: before SQLite reads a
//! database, it plays back the journal that belongs to the database, and then deletes a file whose name is in the journal. So before the service opens a file,
//! it makes the folder writable for the owner only, and refuses the file if it has a journal. The service itself never creates a journal, because a journal
//! gets the mode of its database, and daemons could write it.
//!
//! Daemons cannot create the -wal and the -shm of a database, so both files must persist. When the last connection to a database closes, SQLite removes both
//! files, unless the last connection is read-only. Therefore, every connection that can write attaches the database a second time, read-only. SQLite closes
//! this second attachment last.

use std::fs::{self, Metadata, Permissions};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use sqlx::SqliteConnection;

use super::{Error, same_file, unusable};

/// The permissions of the group and of other users to create, rename and remove files in a folder.
const OTHERS_WRITE: u32 = 0o022;

const ATTACH_KEEPER: &str = "ATTACH DATABASE $1 AS $2";

/// Makes the folder of `file` writable for its owner only. Returns an error if a daemon may have prepared `file` for an attack: if it is not a plain file, if
/// it is a second name (hard link) of the main file or of any other file, or if it has a journal.
pub(super) fn guard(main: &Path, file: &Path) -> Result<(), Error> {
    let ours = fs::metadata(main).map_err(|error| unusable(main, &error))?;
    close_folder(file, &ours)?;

    let theirs = fs::symlink_metadata(file).map_err(|error| unusable(file, &error))?;
    if (ours.dev(), ours.ino()) == (theirs.dev(), theirs.ino()) {
        return Err(same_file(main));
    }
    plain(file, &theirs)?;
    for suffix in ["-wal", "-shm"] {
        let file = beside(file, suffix);
        if let Some(found) = found(&file)? {
            plain(&file, &found)?;
        }
    }
    let journal = beside(file, "-journal");
    if found(&journal)?.is_some() {
        return Err(Error::Unusable(format!(
            "{} cannot be used: a journal is not allowed here, because SQLite would delete the file that it names; remove it",
            journal.display()
        )));
    }
    Ok(())
}

/// Makes the folder of `file` writable for its owner only. The new mode also applies to processes that already have the folder open.
fn close_folder(file: &Path, ours: &Metadata) -> Result<(), Error> {
    let Some(folder) = file.parent() else {
        return Ok(());
    };
    let found = fs::metadata(folder).map_err(|error| unusable(folder, &error))?;
    let trusted = [0, rustix::process::geteuid().as_raw(), ours.uid()];
    if !trusted.contains(&found.uid()) {
        return Err(Error::Unusable(format!(
            "{} cannot be used: it belongs neither to the service's user nor to root",
            folder.display()
        )));
    }
    let mode = found.mode() & 0o7777;
    if mode & OTHERS_WRITE == 0 {
        return Ok(());
    }
    fs::set_permissions(folder, Permissions::from_mode(mode & !OTHERS_WRITE)).map_err(|error| {
        Error::Unusable(format!(
            "{} cannot be used: mail daemons can create files in it, and this permission cannot be removed ({error}); give it to the service's \
             user and run chmod g-w,o-w",
            folder.display()
        ))
    })
}

fn found(file: &Path) -> Result<Option<Metadata>, Error> {
    match fs::symlink_metadata(file) {
        Ok(found) => Ok(Some(found)),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(unusable(file, &error)),
    }
}

fn plain(file: &Path, found: &Metadata) -> Result<(), Error> {
    let why = if !found.is_file() {
        "it is not a plain file"
    } else if found.nlink() != 1 {
        "it has more than one name"
    } else {
        return Ok(());
    };
    Err(Error::Unusable(format!(
        "{} cannot be used: {why}, and mail daemons may have put it there",
        file.display()
    )))
}

pub(super) fn beside(file: &Path, suffix: &str) -> PathBuf {
    let mut name = file.as_os_str().to_owned();
    name.push(suffix);
    name.into()
}

/// Converts `file`, on which the connection was opened, to WAL mode without creating a journal on disk. Then calls [`keep`].
pub(super) async fn make_wal(connection: &mut SqliteConnection, file: &Path) -> Result<(), Error> {
    let mode = |query| sqlx::query_scalar::<_, String>(query);
    let mut is = mode("PRAGMA main.journal_mode")
        .fetch_one(&mut *connection)
        .await?;
    if is != "wal" {
        for query in [
            "PRAGMA main.journal_mode = MEMORY",
            "PRAGMA main.journal_mode = WAL",
        ] {
            is = mode(query).fetch_one(&mut *connection).await?;
        }
    }
    wal(&is, file)?;
    keep(connection, file, "keeper").await
}

/// Checks that the journal mode that SQLite reports is WAL.
pub(super) fn wal(mode: &str, file: &Path) -> Result<(), Error> {
    if mode == "wal" {
        return Ok(());
    }
    Err(Error::Unusable(format!(
        "{} cannot be used: it has no write-ahead log",
        file.display()
    )))
}

/// Attaches a file that this connection already has open for writing a second time, read-only and with the name `name`. So SQLite does not remove the -wal and
/// the -shm of the file when the connection closes.
pub(super) async fn keep(
    connection: &mut SqliteConnection,
    file: &Path,
    name: &str,
) -> Result<(), Error> {
    sqlx::query(ATTACH_KEEPER)
        .bind(to_read(file))
        .bind(name)
        .execute(connection)
        .await?;
    Ok(())
}

/// Returns the SQLite URI that opens the file read-only.
fn to_read(file: &Path) -> String {
    use std::fmt::Write as _;

    let mut uri = "file:".to_owned();
    for byte in file.to_string_lossy().bytes() {
        if byte.is_ascii_alphanumeric() || b"/._-".contains(&byte) {
            uri.push(byte.into());
        } else {
            // Writing to a string cannot fail.
            let _ = write!(uri, "%{byte:02x}");
        }
    }
    uri + "?mode=ro"
}
