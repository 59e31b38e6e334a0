//! The folder that mail daemons share with the service, and how a file in it is opened.
//!
//! Daemons write in the files, since a reader of a write-ahead log has to, and whatever stands in them may be of their making. They may
//! make no file of another name: SQLite, before it reads a database, plays back a journal of the database's name and then deletes
//! the file that the journal names. So the folder is closed to all but its owner before anything in it is opened, no journal is
//! tolerated there, and none is ever made: it would have the file's own mode, for daemons to write in.
//!
//! What they cannot make has to stand: whoever closes such a file last removes its -wal and -shm, unless it cannot. So every connection
//! that may write has the file attached a second time, to read alone: closed after the first, it keeps both where they are.

use std::fs::{self, Metadata, Permissions};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use sqlx::SqliteConnection;

use super::{Error, same, unusable};

/// All but the owner's right to make, rename and remove what is in a folder.
const OTHERS_WRITE: u32 = 0o022;

const ATTACH_KEEPER: &str = "ATTACH DATABASE $1 AS $2";

/// Makes sure that the folder of `file` is its owner's alone to write in, and refuses what a daemon may have left there before it was:
/// a file that is a link, nothing like a file, or the main file or any other by a second name; and a journal.
pub(super) fn guard(main: &Path, file: &Path) -> Result<(), Error> {
    let ours = fs::metadata(main).map_err(|error| unusable(main, &error))?;
    close_folder(file, &ours)?;

    let theirs = fs::symlink_metadata(file).map_err(|error| unusable(file, &error))?;
    if (ours.dev(), ours.ino()) == (theirs.dev(), theirs.ino()) {
        return Err(same(main));
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
            "{} cannot be used: it has no business there, and may name a file that SQLite would then delete; remove it",
            journal.display()
        )));
    }
    Ok(())
}

/// What takes effect at once, whoever has the folder open.
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
            "{} cannot be used: mail daemons may make files in it, and that cannot be taken from them ({error}); give it to the service's \
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
        "it has another name too"
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

/// Makes the file a connection was opened on one with a write-ahead log, without a journal on the disk meanwhile, and keeps the log.
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

/// Whether the journal mode, as SQLite tells it, is the one without journals.
pub(super) fn wal(mode: &str, file: &Path) -> Result<(), Error> {
    if mode == "wal" {
        return Ok(());
    }
    Err(Error::Unusable(format!(
        "{} cannot be used: it has no write-ahead log",
        file.display()
    )))
}

/// Keeps the -wal and the -shm of a file that this connection has open already and may write, by attaching it once more under a name.
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

/// The file as SQLite's URI, to be read alone.
fn to_read(file: &Path) -> String {
    use std::fmt::Write as _;

    let mut uri = "file:".to_owned();
    for byte in file.to_string_lossy().bytes() {
        if byte.is_ascii_alphanumeric() || b"/._-".contains(&byte) {
            uri.push(byte.into());
        } else {
            // Writing to a string does not fail.
            let _ = write!(uri, "%{byte:02x}");
        }
    }
    uri + "?mode=ro"
}
