//! Protects the folder that mail daemons share with the service. Describes how the service opens a
//! file in this folder.
//!
//! In WAL mode, a reader of a database must be able to write to the database's files. Therefore
//! mail daemons can write the files in this folder, and the service does not trust the contents of
//! these files.
//!
//! Daemons must not be able to create other files in the folder, because of SQLite's rollback
//! journal. Before SQLite reads a database, SQLite plays back the journal of the database. After
//! that, SQLite deletes a file whose name is in the journal. A daemon that can create a journal
//! could therefore change the database and delete other files.
//!
//! Therefore the service restricts write access to the folder to the owner before the service opens
//! a file. The service refuses a file that has a journal. The service never creates a journal,
//! because the journal would have the mode of the database, and daemons could write the journal.
//!
//! Daemons cannot create the -wal and the -shm files of a database, so these files must persist.
//! SQLite removes these files when the last connection to the database closes, unless this
//! connection is read-only. Therefore, every connection that can write attaches the database a
//! second time, read-only. SQLite closes this second attachment last.

use std::fs::{self, Metadata, Permissions};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use sqlx::SqliteConnection;

use super::{Error, same_file, unusable};

/// The mode bits that let the group and other users create, rename and remove files in a folder.
const OTHERS_WRITE: u32 = 0o022;

const ATTACH_KEEPER: &str = "ATTACH DATABASE $1 AS $2";

/// Restricts write access to the folder of `file` to the owner. Returns an error if a daemon may
/// have prepared `file` for an attack.
///
/// `file` must be a plain file without a journal. `file` must not be a hard link to the main file
/// or to any other file.
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

/// Restricts write access to the folder of `file` to the owner. The new mode also applies to
/// processes that have already opened the folder.
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
        "{} cannot be used: {why}, and a mail daemon may have created the file",
        file.display()
    )))
}

pub(crate) fn beside(file: &Path, suffix: &str) -> PathBuf {
    let mut name = file.as_os_str().to_owned();
    name.push(suffix);
    name.into()
}

/// Converts `file` to WAL mode without creating a journal on the disk. Then calls [`keep`].
/// `connection` must have `file` open.
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

/// Checks that SQLite reported the journal mode WAL.
pub(super) fn wal(mode: &str, file: &Path) -> Result<(), Error> {
    if mode == "wal" {
        return Ok(());
    }
    Err(Error::Unusable(format!(
        "{} cannot be used: it has no write-ahead log",
        file.display()
    )))
}

/// Attaches `file` a second time, read-only and with the name `name`. The connection must already
/// have `file` open for writing. Because of this attachment, SQLite does not remove the -wal and
/// the -shm of `file` when the connection closes.
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
