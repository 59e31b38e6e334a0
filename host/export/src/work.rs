//! The files of an unfinished export. They are in a folder with the name of the export, which one
//! host at a time locks. The parts of the current folder grow with each step; the database has the
//! lengths that are valid. What a killed process wrote after that is cut off.

use std::fs::{self, DirBuilder, File, OpenOptions, TryLockError};
use std::io::{self, BufWriter, Read as _, Seek as _, SeekFrom, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use bytes::Bytes;
use latchmail_core::clock::Timestamp;
use serde::Serialize;

use crate::archive::{Folder, LineEnds, MessageData};
use crate::mbox::{MessageWriter, Scan};

/// The name of the file with the list of folders.
const FOLDERS: &str = "folders";
/// The name of the file that is locked.
pub(crate) const LOCK: &str = "lock";
/// The name of the file with the bytes of a large message.
const SPOOL: &str = "spool";
/// The size of the pieces in which a large message is read.
const PIECE: usize = 256 * 1024;

/// The folder of an unfinished export, locked for this host.
#[derive(Debug)]
pub(crate) struct Work {
    path: PathBuf,
    _lock: File,
}

/// The valid lengths of the two files of a folder, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Lengths {
    pub(crate) mbox: u64,
    pub(crate) data: u64,
}

/// A message to append.
#[derive(Debug)]
pub(crate) struct Item {
    pub(crate) number: Option<u64>,
    pub(crate) uid: u32,
    pub(crate) flags: Vec<String>,
    pub(crate) received_at: Option<Timestamp>,
    /// The bytes. `None` if they are in the spool file.
    pub(crate) content: Option<Bytes>,
}

/// The beginning of the JSON file of a folder.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct DataHead<'h> {
    path: &'h str,
    id: &'h str,
    role: Option<&'h str>,
    uid_validity: Option<u32>,
}

impl Work {
    /// Opens and locks the folder of an export, and creates it if it does not exist. Returns `None`
    /// if another process has locked the folder.
    pub(crate) fn open(root: &Path, id: &str) -> io::Result<Option<Self>> {
        let path = root.join(id);
        prepare(&path)?;
        let lock = OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600)
            .open(path.join(LOCK))?;
        match lock.try_lock() {
            Ok(()) => Ok(Some(Self { path, _lock: lock })),
            Err(TryLockError::WouldBlock) => Ok(None),
            Err(TryLockError::Error(error)) => Err(error),
        }
    }

    /// Returns the path of the folder.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the path of the spool file.
    pub(crate) fn spool(&self) -> PathBuf {
        self.path.join(SPOOL)
    }

    /// Deletes all files except the lock.
    pub(crate) fn clear(&self) -> io::Result<()> {
        for entry in fs::read_dir(&self.path)? {
            let entry = entry?;
            if entry.file_name() != LOCK {
                fs::remove_file(entry.path())?;
            }
        }
        Ok(())
    }

    /// Writes a JSON file.
    pub(crate) fn write_json(&self, name: &str, value: &impl Serialize) -> io::Result<()> {
        let mut file = BufWriter::new(create(&self.path.join(name))?);
        serde_json::to_writer_pretty(&mut file, value)?;
        file.write_all(b"\n")?;
        file.into_inner()?.sync_all()
    }

    /// Writes the list of folders.
    pub(crate) fn write_folders(&self, folders: &[Folder]) -> io::Result<()> {
        self.write_json(FOLDERS, &folders)
    }

    /// Reads the list of folders. Returns `None` if the list was not written, for example because
    /// another host wrote it to a disk of its own.
    pub(crate) fn read_folders(&self) -> io::Result<Option<Vec<Folder>>> {
        match fs::read(self.path.join(FOLDERS)) {
            Ok(bytes) => Ok(Some(serde_json::from_slice(&bytes)?)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Appends messages to the files of the folder at the position `index`. `at` contains the
    /// valid lengths, and `is_first` is `true` if the files contain no message. With `closes`, no
    /// further messages follow. Returns the new lengths, or `None` if the files are shorter than
    /// `at`, because the machine lost them.
    pub(crate) fn append(
        &self,
        (index, folder, uid_validity): (usize, &Folder, Option<u32>),
        at: Lengths,
        mut is_first: bool,
        items: &[Item],
        closes: bool,
    ) -> io::Result<Option<Lengths>> {
        let (mbox, data) = part_names(index);
        let (Some(mbox), Some(data)) = (self.part(&mbox, at.mbox)?, self.part(&data, at.data)?)
        else {
            return Ok(None);
        };
        let (mut mbox, mut data) = (BufWriter::new(mbox), BufWriter::new(data));
        if at.data == 0 {
            let head = serde_json::to_string(&DataHead {
                path: &folder.path,
                id: &folder.id,
                role: folder.role.as_deref(),
                uid_validity,
            })?;
            let head = head.strip_suffix('}').unwrap_or(&head);
            write!(data, "{head},\"messages\":[")?;
        }
        for item in items {
            data.write_all(if is_first { &b"\n"[..] } else { b",\n" })?;
            is_first = false;
            serde_json::to_writer(&mut data, &self.append_message(&mut mbox, item)?)?;
        }
        if closes {
            data.write_all(b"\n]}\n")?;
        }
        let lengths = Lengths {
            mbox: mbox.stream_position()?,
            data: data.stream_position()?,
        };
        let (mbox, data) = (mbox.into_inner()?, data.into_inner()?);
        if closes {
            mbox.sync_all()?;
            data.sync_all()?;
        }
        Ok(Some(lengths))
    }

    fn append_message(&self, mbox: &mut BufWriter<File>, item: &Item) -> io::Result<MessageData> {
        let mut scan = Scan::default();
        self.pieces(item, &mut |piece| {
            scan.add(piece);
            Ok(())
        })?;
        let network_line_ends = scan.has_network_line_ends();
        let mut writer = MessageWriter::begin(mbox, item.received_at, network_line_ends)?;
        self.pieces(item, &mut |piece| writer.write(piece))?;
        writer.end()?;
        Ok(MessageData {
            number: item.number,
            uid: item.uid,
            flags: item.flags.clone(),
            received_at: item.received_at.map(|at| at.to_string()),
            size: scan.size(),
            line_ends: if network_line_ends {
                LineEnds::Crlf
            } else {
                LineEnds::Stored
            },
            last_line_end: scan.ends_with_line_feed(),
            sha256: scan.sha256(),
        })
    }

    /// Calls `each` for the bytes of a message, in pieces.
    fn pieces(&self, item: &Item, each: &mut dyn FnMut(&[u8]) -> io::Result<()>) -> io::Result<()> {
        if let Some(content) = &item.content {
            return each(content);
        }
        let mut file = File::open(self.spool())?;
        let mut piece = vec![0; PIECE];
        loop {
            let count = file.read(&mut piece)?;
            if count == 0 {
                return Ok(());
            }
            each(&piece[..count])?;
        }
    }

    /// Opens a part at the end of its valid bytes. Returns `None` if bytes are missing.
    fn part(&self, name: &str, length: u64) -> io::Result<Option<File>> {
        let mut file = OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600)
            .open(self.path.join(name))?;
        if file.metadata()?.len() < length {
            return Ok(None);
        }
        file.set_len(length)?;
        file.seek(SeekFrom::End(0))?;
        Ok(Some(file))
    }
}

/// Returns the names of the two parts of the folder at the position `index`.
pub(crate) fn part_names(index: usize) -> (String, String) {
    (format!("{index}.mbox"), format!("{index}.json"))
}

/// Creates a folder that only this user can read.
pub(crate) fn prepare(folder: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(folder)
}

/// Creates an empty file that only this user can read.
pub(crate) fn create(path: &Path) -> io::Result<File> {
    OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(true)
        .mode(0o600)
        .open(path)
}

/// Returns the total size of the files in a folder and its subfolders, in bytes.
pub(crate) fn used(folder: &Path) -> io::Result<u64> {
    let mut total = 0;
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        // Another task can delete a file at the same time.
        let Ok(metadata) = entry.metadata() else {
            continue;
        };
        total += if metadata.is_dir() {
            used(&entry.path()).unwrap_or(0)
        } else {
            metadata.len()
        };
    }
    Ok(total)
}

#[cfg(test)]
mod tests {
    use tokio_util::sync::CancellationToken;

    use super::*;
    use crate::archive::{self, ArchiveReader, Manifest};
    use crate::mbox::{Reader, restore};

    fn item(uid: u32, text: &'static str) -> Item {
        Item {
            number: Some(u64::from(uid)),
            uid,
            flags: vec!["\\Seen".into()],
            received_at: Some(Timestamp::from_millis(0)),
            content: Some(Bytes::from_static(text.as_bytes())),
        }
    }

    #[test]
    fn an_archive_is_written_in_steps_and_what_was_not_recorded_is_cut_off() {
        let root = tempfile::tempdir().unwrap();
        let work = Work::open(root.path(), "one").unwrap().unwrap();
        assert!(Work::open(root.path(), "one").unwrap().is_none());
        let mut folder = Folder {
            path: "Ä/b".into(),
            delimiter: "/".into(),
            id: "f".into(),
            role: None,
            mbox: String::new(),
            data: String::new(),
        };
        folder.set_files(0);
        let append = |at, is_first, items: &[Item], closes| {
            let lengths = work.append((0, &folder, Some(7)), at, is_first, items, closes);
            lengths.unwrap()
        };
        let texts = ["A: b\r\n\r\nFrom c", "D: e\n", "F: g\r\n"];
        let first = append(Lengths::default(), true, &[item(1, texts[0])], false).unwrap();
        // The process is killed after this step, before the lengths are recorded.
        append(first, false, &[item(2, "lost")], false).unwrap();
        let items = [item(2, texts[1]), item(3, texts[2])];
        let last = append(first, false, &items, true).unwrap();
        let too_long = Lengths {
            mbox: last.mbox + 1,
            ..last
        };
        assert_eq!(append(too_long, false, &[], false), None);
        work.write_folders(std::slice::from_ref(&folder)).unwrap();
        assert_eq!(work.read_folders().unwrap().unwrap().len(), 1);
        let manifest = Manifest {
            format: archive::FORMAT.into(),
            version: archive::VERSION,
            address: "a@example.org".into(),
            created_at: String::new(),
            messages: 3,
            folders: vec![folder.clone()],
        };
        work.write_json(archive::MANIFEST, &manifest).unwrap();
        let files = [
            (archive::MANIFEST.to_owned(), archive::MANIFEST.to_owned()),
            (folder.mbox.clone(), "0.mbox".into()),
            (folder.data.clone(), "0.json".into()),
        ];
        let target = root.path().join("one.zip");
        let stopping = CancellationToken::new();
        let size = archive::write(&target, work.path(), &files, &stopping).unwrap();
        assert_eq!(size, fs::metadata(&target).unwrap().len());
        let mut reader = ArchiveReader::open(&target).unwrap();
        let data = reader.data(&folder).unwrap();
        let mut mbox = Reader::new(reader.mbox(&folder).unwrap());
        for (data, text) in data.iter().zip(texts) {
            let content = mbox.read_message().unwrap().unwrap().bytes.unwrap();
            let crlf = data.line_ends == LineEnds::Crlf;
            let restored = restore(content, crlf, data.last_line_end);
            assert_eq!(restored, text.as_bytes());
            assert_eq!(data.size, text.len() as u64);
        }
        assert_eq!((data.len(), mbox.read_message().unwrap()), (3, None));
        let json: serde_json::Value =
            serde_json::from_slice(&fs::read(work.path().join("0.json")).unwrap()).unwrap();
        assert_eq!(json["uidValidity"], 7);
        assert_eq!(json["messages"][2]["flags"][0], "\\Seen");
    }
}
