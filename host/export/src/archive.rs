//! The form of an archive. `manifest.json` lists the folders. Each folder has an mbox file, and a
//! JSON file with one object per line for each message, in the order of the mbox file.

use std::fs::File;
use std::io::{self, BufRead as _, BufReader, BufWriter, Read, Write};
use std::path::Path;

use serde::{Deserialize, Serialize};
use tokio_util::sync::CancellationToken;
use zip::write::SimpleFileOptions;
use zip::{CompressionMethod, ZipArchive, ZipWriter};

use crate::error::Error;

/// The name of the file that lists the folders.
pub const MANIFEST: &str = "manifest.json";
/// The value of [`Manifest::format`].
pub const FORMAT: &str = "latchmail-export";
/// The value of [`Manifest::version`].
pub const VERSION: u32 = 1;

/// Maximum size of the manifest and of a line of a JSON file, in bytes.
const MAX_JSON: u64 = 64 * 1024 * 1024;
const MAX_LINE: u64 = 1024 * 1024;
/// The size of the pieces that are copied into an archive.
const PIECE: usize = 256 * 1024;
/// The compression level. Most of the bytes of mail are attachments in base64, for which higher
/// levels need more time and save little.
const LEVEL: i64 = 1;

/// The file `manifest.json`.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Manifest {
    /// [`FORMAT`].
    pub format: String,
    /// [`VERSION`].
    pub version: u32,
    /// The address of the account.
    pub address: String,
    /// The time at which the export began.
    pub created_at: String,
    /// The number of messages.
    pub messages: u64,
    /// The folders, with those with a role first.
    pub folders: Vec<Folder>,
}

/// A folder of an archive.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Folder {
    /// The full path in Unicode.
    pub path: String,
    /// The separator of path segments, or empty.
    pub delimiter: String,
    /// The id of the folder.
    pub id: String,
    /// The role, for example `\Sent`.
    pub role: Option<String>,
    /// The name of the mbox file.
    pub mbox: String,
    /// The name of the JSON file.
    pub data: String,
}

impl Folder {
    /// Sets the names of the files. `index` is the position in the manifest. The names contain the
    /// path as far as every file system permits.
    pub(crate) fn set_files(&mut self, index: usize) {
        let is_safe = |c: &char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | ' ');
        let name: String = self
            .path
            .chars()
            .map(|c| if is_safe(&c) { c } else { '_' })
            .collect();
        let name = format!("{:05} {}", index + 1, &name[..name.len().min(80)]);
        let name = name.trim_end();
        self.mbox = format!("mail/{name}.mbox");
        self.data = format!("mail/{name}.json");
    }
}

/// The data of a message that an mbox file loses.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct MessageData {
    /// The number of the message in the API.
    pub number: Option<u64>,
    /// The IMAP UID.
    pub uid: u32,
    /// Flags and keywords.
    pub flags: Vec<String>,
    /// The arrival time (RFC 3339).
    pub received_at: Option<String>,
    /// The size in bytes, with the line ends of the mail server.
    pub size: u64,
    /// How the message ends its lines.
    pub line_ends: LineEnds,
    /// Whether the message ends with a line end.
    pub last_line_end: bool,
    /// The SHA-256 of the message, lower-case hexadecimal.
    pub sha256: String,
}

/// The line ends of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum LineEnds {
    /// Each line of the message ends with `\r\n`. The mbox file has `\n`.
    Crlf,
    /// The mbox file has the line ends of the message.
    Stored,
}

/// Writes an archive. Stops with an error when `stopping` is cancelled. Returns the size of the
/// archive in bytes. `files` contains the names of the files in the folder `source`.
pub(crate) fn write(
    target: &Path,
    source: &Path,
    files: &[(String, String)],
    stopping: &CancellationToken,
) -> Result<u64, Error> {
    let file = crate::work::create(target)?;
    let mut zip = ZipWriter::new(BufWriter::new(file));
    let options = SimpleFileOptions::default()
        .compression_method(CompressionMethod::Deflated)
        .compression_level(Some(LEVEL))
        .unix_permissions(0o600)
        .large_file(true);
    let mut piece = vec![0; PIECE];
    for (name, part) in files {
        let mut input = File::open(source.join(part))?;
        zip.start_file(name.as_str(), options)?;
        loop {
            if stopping.is_cancelled() {
                return Err(io::Error::from(io::ErrorKind::Interrupted).into());
            }
            let count = input.read(&mut piece)?;
            if count == 0 {
                break;
            }
            zip.write_all(&piece[..count])?;
        }
    }
    let mut output = zip.finish()?;
    output.flush()?;
    let file = output
        .into_inner()
        .map_err(io::IntoInnerError::into_error)?;
    file.sync_all()?;
    Ok(file.metadata()?.len())
}

/// An archive that can be read.
#[derive(Debug)]
pub struct ArchiveReader {
    zip: ZipArchive<BufReader<File>>,
    manifest: Manifest,
}

impl ArchiveReader {
    /// Opens an archive.
    ///
    /// # Errors
    /// Returns an error if the file is not an archive of this form.
    pub fn open(path: &Path) -> Result<Self, Error> {
        let mut zip = ZipArchive::new(BufReader::new(File::open(path)?))?;
        let manifest = zip.by_name(MANIFEST)?.take(MAX_JSON);
        let manifest: Manifest = serde_json::from_reader(BufReader::new(manifest))?;
        if manifest.format != FORMAT || manifest.version != VERSION {
            return Err(invalid("the archive has an unknown form or version"));
        }
        Ok(Self { zip, manifest })
    }

    /// Returns the manifest.
    #[must_use]
    pub fn manifest(&self) -> &Manifest {
        &self.manifest
    }

    /// Returns the data of the messages of a folder, in the order of the mbox file.
    ///
    /// # Errors
    /// Returns an error if the file is missing or malformed.
    pub fn data(&mut self, folder: &Folder) -> Result<Vec<MessageData>, Error> {
        let mut input = BufReader::new(self.zip.by_name(&folder.data)?);
        let (mut data, mut line) = (Vec::new(), Vec::new());
        loop {
            line.clear();
            (&mut input).take(MAX_LINE).read_until(b'\n', &mut line)?;
            if line.is_empty() {
                return Ok(data);
            }
            let text = line.trim_ascii();
            let text = text.strip_suffix(b",").unwrap_or(text);
            if text.starts_with(b"{\"number\"") {
                data.push(serde_json::from_slice(text)?);
            }
        }
    }

    /// Returns the mbox file of a folder.
    ///
    /// # Errors
    /// Returns an error if the file is missing.
    pub fn mbox(&mut self, folder: &Folder) -> Result<impl io::BufRead, Error> {
        Ok(BufReader::new(self.zip.by_name(&folder.mbox)?))
    }
}

fn invalid(text: &'static str) -> Error {
    io::Error::new(io::ErrorKind::InvalidData, text).into()
}
