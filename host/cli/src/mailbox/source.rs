//! Reads the messages to import, one at a time: from an archive, an mbox file or a Maildir folder.
//! The functions block.

use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, Read as _};
use std::path::Path;

use anyhow::{Context as _, bail, ensure};
use chrono::DateTime;
use latchmail_core::clock::Timestamp;
use latchmail_export::archive::{ArchiveReader, LineEnds, MessageData};
use latchmail_export::mbox::{self, Scan};
use latchmail_imap::INBOX;

use super::maildir;

/// The first bytes of a zip file.
const ZIP: &[u8] = b"PK\x03\x04";

/// A part of the source.
#[derive(Debug)]
pub(super) enum Item {
    /// The folder of the following messages, as the segments of its path.
    Folder(Vec<String>),
    /// A message.
    Message(Message),
    /// A message that cannot be read, with the reason.
    Unreadable(String),
}

/// A message to import.
#[derive(Debug)]
pub(super) struct Message {
    /// The bytes.
    pub(super) bytes: Vec<u8>,
    /// The names of flags and keywords.
    pub(super) flags: Vec<String>,
    /// The arrival time.
    pub(super) received_at: Option<Timestamp>,
}

/// Receives the items. Returns `false` if no further items are wanted.
pub(super) type Receive<'r> = &'r mut dyn FnMut(Item) -> bool;

/// Reads the file or folder `path`. `folder` is the path of the folder for its messages, with `/`
/// between segments.
pub(super) fn read(path: &Path, folder: Option<&str>, receive: Receive<'_>) -> anyhow::Result<()> {
    let segments = |path: &str| path.split('/').map(str::to_owned).collect::<Vec<_>>();
    let given = folder.map(segments);
    let target = given.clone().unwrap_or_else(|| vec![INBOX.to_owned()]);
    if path == Path::new("-") {
        return read_mbox(io::stdin().lock(), target, receive);
    }
    let named = || format!("cannot read {}", path.display());
    if fs::metadata(path).with_context(named)?.is_dir() {
        return maildir::read(path, given.as_deref(), receive).with_context(named);
    }
    let mut file = BufReader::new(File::open(path).with_context(named)?);
    if file.fill_buf().with_context(named)?.starts_with(ZIP) {
        return read_archive(path, &given.unwrap_or_default(), receive).with_context(named);
    }
    read_mbox(file, target, receive).with_context(named)
}

fn read_mbox(input: impl BufRead, target: Vec<String>, receive: Receive<'_>) -> anyhow::Result<()> {
    let mut reader = mbox::Reader::new(input);
    if !receive(Item::Folder(target)) {
        return Ok(());
    }
    let mut position = 0_u64;
    while let Some(message) = reader.read_message()? {
        position += 1;
        let item = match message.bytes {
            Some(bytes) => Item::Message(Message {
                flags: flags_of_header(&bytes),
                bytes: network_line_ends(bytes),
                received_at: message.date,
            }),
            None => Item::Unreadable(format!("message {position} is larger than 128 MiB")),
        };
        if !receive(item) {
            break;
        }
    }
    Ok(())
}

fn read_archive(path: &Path, parent: &[String], receive: Receive<'_>) -> anyhow::Result<()> {
    let mut archive = ArchiveReader::open(path).context("this is not an archive of an export")?;
    for folder in archive.manifest().folders.clone() {
        let data = archive.data(&folder)?;
        let segments = if folder.delimiter.is_empty() {
            vec![folder.path.clone()]
        } else {
            let parts = folder.path.split(&*folder.delimiter);
            parts.map(str::to_owned).collect()
        };
        if !receive(Item::Folder([parent.to_vec(), segments].concat())) {
            return Ok(());
        }
        let mut reader = mbox::Reader::new(archive.mbox(&folder)?);
        for data in data {
            let message = reader.read_message()?;
            let message = message
                .with_context(|| format!("the mbox file of {} is incomplete", folder.path))?;
            if !receive(restored(message, data, &folder.path)?) {
                return Ok(());
            }
        }
    }
    Ok(())
}

/// Returns a message of an archive with the bytes that the mail server had.
fn restored(message: mbox::Message, data: MessageData, path: &str) -> anyhow::Result<Item> {
    let Some(content) = message.bytes else {
        let reason = format!("message {} of {path} is larger than 128 MiB", data.uid);
        return Ok(Item::Unreadable(reason));
    };
    let is_crlf = data.line_ends == LineEnds::Crlf;
    let bytes = mbox::restore(content, is_crlf, data.last_line_end);
    let mut scan = Scan::default();
    scan.add(&bytes);
    ensure!(
        scan.sha256() == data.sha256,
        "the archive is damaged: message {} of {path} has another checksum",
        data.uid
    );
    let received_at = match data
        .received_at
        .as_deref()
        .map(DateTime::parse_from_rfc3339)
    {
        Some(Ok(time)) => Some(Timestamp::from_millis(time.timestamp_millis())),
        Some(Err(_)) => bail!("message {} of {path} has an invalid date", data.uid),
        None => None,
    };
    Ok(Item::Message(Message {
        bytes,
        flags: data.flags,
        received_at,
    }))
}

/// Returns the flags in the header fields that mail programs write to mbox files: `Status`,
/// `X-Status` and `X-Keywords`.
fn flags_of_header(message: &[u8]) -> Vec<String> {
    let mut flags = Vec::new();
    for line in message.split(|byte| *byte == b'\n') {
        let line = line.trim_ascii_end();
        if line.is_empty() {
            break;
        }
        let Some((name, value)) = std::str::from_utf8(line)
            .ok()
            .and_then(|line| line.split_once(':'))
        else {
            continue;
        };
        if name.eq_ignore_ascii_case("status") || name.eq_ignore_ascii_case("x-status") {
            let letters = [
                ('R', "\\Seen"),
                ('A', "\\Answered"),
                ('F', "\\Flagged"),
                ('T', "\\Draft"),
                ('D', "\\Deleted"),
            ];
            let named = letters.iter().filter(|(letter, _)| value.contains(*letter));
            flags.extend(named.map(|(_, flag)| (*flag).to_owned()));
        } else if name.eq_ignore_ascii_case("x-keywords") {
            flags.extend(value.split_whitespace().map(str::to_owned));
        }
    }
    flags.sort_unstable();
    flags.dedup();
    flags
}

/// Adds a carriage return before each line feed that has none, as IMAP requires.
pub(super) fn network_line_ends(bytes: Vec<u8>) -> Vec<u8> {
    let is_bare = |end: usize| end == 0 || bytes[end - 1] != b'\r';
    let bare = memchr::memchr_iter(b'\n', &bytes).filter(|end| is_bare(*end));
    let count = bare.count();
    if count == 0 {
        return bytes;
    }
    let mut converted = Vec::with_capacity(bytes.len() + count);
    let mut start = 0;
    for end in memchr::memchr_iter(b'\n', &bytes) {
        converted.extend_from_slice(&bytes[start..end]);
        if is_bare(end) {
            converted.push(b'\r');
        }
        converted.push(b'\n');
        start = end + 1;
    }
    converted.extend_from_slice(&bytes[start..]);
    converted
}

/// Reads a file of at most [`mbox::MAX_MESSAGE`] bytes. Returns `None` if the file is larger.
pub(super) fn read_limited(path: &Path) -> io::Result<Option<Vec<u8>>> {
    let file = File::open(path)?;
    if file.metadata()?.len() > mbox::MAX_MESSAGE as u64 {
        return Ok(None);
    }
    let mut bytes = Vec::new();
    file.take(mbox::MAX_MESSAGE as u64)
        .read_to_end(&mut bytes)?;
    Ok(Some(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn items(text: &str) -> Vec<Item> {
        let mut items = Vec::new();
        let target = vec!["A".to_owned()];
        read_mbox(text.as_bytes(), target, &mut |item| {
            items.push(item);
            true
        })
        .unwrap();
        items
    }

    #[test]
    fn an_mbox_file_has_dates_flags_and_line_ends() {
        let items = items(
            "From a Tue Nov 14 22:13:20 2023\nStatus: RO\nX-Status: AF\nX-Keywords: One Two\n\nb\n\n",
        );
        let [Item::Folder(folder), Item::Message(message)] = &items[..] else {
            panic!("{items:?}");
        };
        assert_eq!(folder, &["A"]);
        assert_eq!(
            message.flags,
            ["One", "Two", "\\Answered", "\\Flagged", "\\Seen"]
        );
        let received_at = Timestamp::from_millis(1_700_000_000_000);
        assert_eq!(message.received_at, Some(received_at));
        assert!(message.bytes.ends_with(b"Two\r\n\r\nb\r\n"));
    }

    #[test]
    fn only_bare_line_feeds_get_a_carriage_return() {
        for (given, expected) in [
            ("a\nb\r\n\nc", "a\r\nb\r\n\r\nc"),
            ("a\r\n", "a\r\n"),
            ("\n", "\r\n"),
        ] {
            let converted = network_line_ends(given.into());
            assert_eq!(converted, expected.as_bytes());
        }
    }
}
