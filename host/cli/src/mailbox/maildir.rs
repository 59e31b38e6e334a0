//! Reads Maildir folders, and subfolders in the form of Maildir++ (`.Folder.Subfolder`), as Dovecot
//! writes them. The modification time of a file is the arrival time of its message.

use std::fs;
use std::io;
use std::path::Path;
use std::time::UNIX_EPOCH;

use anyhow::{Context as _, bail};
use latchmail_core::clock::Timestamp;
use latchmail_imap::{INBOX, utf7};

use super::source::{Item, Message, Receive, network_line_ends, read_limited};

/// The file with the names of Dovecot's keywords.
const KEYWORDS: &str = "dovecot-keywords";

/// Reads the folder `root` and its subfolders. `parent` is the folder for the messages of `root`,
/// and the parent of the subfolders. Without `parent`, the messages of `root` belong to the inbox,
/// and the subfolders have no parent.
pub(super) fn read(
    root: &Path,
    parent: Option<&[String]>,
    receive: Receive<'_>,
) -> anyhow::Result<()> {
    if !root.join("cur").is_dir() {
        bail!("the folder is no Maildir folder: it has no folder `cur`");
    }
    let inbox = [INBOX.to_owned()];
    if !read_folder(root, parent.unwrap_or(&inbox).to_vec(), receive)? {
        return Ok(());
    }
    let mut folders = Vec::new();
    for entry in fs::read_dir(root)? {
        let entry = entry?;
        let name = entry.file_name().into_string().ok();
        let Some(name) = name.and_then(|name| name.strip_prefix('.').map(str::to_owned)) else {
            continue;
        };
        if !name.is_empty() && entry.path().join("cur").is_dir() {
            folders.push((name, entry.path()));
        }
    }
    folders.sort_unstable();
    for (name, path) in folders {
        let segments = name.split('.').map(utf7::decode);
        let parent = parent.unwrap_or_default().iter().cloned();
        if !read_folder(&path, parent.chain(segments).collect(), receive)? {
            break;
        }
    }
    Ok(())
}

/// Reads the messages of one folder. Returns `false` if no further items are wanted.
fn read_folder(folder: &Path, segments: Vec<String>, receive: Receive<'_>) -> anyhow::Result<bool> {
    let keywords = keywords(&folder.join(KEYWORDS))?;
    let mut files = Vec::new();
    for part in ["new", "cur"] {
        let Ok(entries) = fs::read_dir(folder.join(part)) else {
            continue;
        };
        for entry in entries {
            let entry = entry?;
            let name = entry.file_name().to_string_lossy().into_owned();
            // The name begins with the time of the delivery.
            files.push((name, entry.path()));
        }
    }
    files.sort_unstable();
    if !receive(Item::Folder(segments)) {
        return Ok(false);
    }
    for (name, path) in files {
        if name.starts_with('.') {
            continue;
        }
        let item = item(&name, &path, &keywords);
        let item = item.with_context(|| format!("cannot read {}", path.display()))?;
        if let Some(item) = item
            && !receive(item)
        {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Returns the message of a file. Returns `None` if a mail client has just removed or renamed the
/// file.
fn item(name: &str, path: &Path, keywords: &[(usize, String)]) -> io::Result<Option<Item>> {
    let read = || -> io::Result<_> {
        let modified = fs::metadata(path)?.modified()?;
        Ok((modified, read_limited(path)?))
    };
    let (modified, bytes) = match read() {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        read => read?,
    };
    let Some(bytes) = bytes else {
        let reason = format!("{} is larger than 128 MiB", path.display());
        return Ok(Some(Item::Unreadable(reason)));
    };
    let age = modified.duration_since(UNIX_EPOCH).unwrap_or_default();
    let millis = i64::try_from(age.as_secs())
        .unwrap_or(0)
        .saturating_mul(1000);
    Ok(Some(Item::Message(Message {
        bytes: network_line_ends(bytes),
        flags: flags(name, keywords),
        received_at: Some(Timestamp::from_millis(millis)),
    })))
}

/// Returns the flags in the name of a file (`:2,FS`).
fn flags(name: &str, keywords: &[(usize, String)]) -> Vec<String> {
    let Some((_, letters)) = name.rsplit_once(":2,") else {
        return Vec::new();
    };
    let flag = |letter: char| {
        let flag = match letter {
            'F' => "\\Flagged",
            'R' => "\\Answered",
            'S' => "\\Seen",
            'T' => "\\Deleted",
            'D' => "\\Draft",
            'a'..='z' => {
                let index = letter as usize - 'a' as usize;
                let found = keywords.iter().find(|(number, _)| *number == index);
                return found.map(|(_, keyword)| keyword.clone());
            }
            _ => return None,
        };
        Some(flag.to_owned())
    };
    letters.chars().filter_map(flag).collect()
}

/// Reads the numbers and the names of keywords.
fn keywords(path: &Path) -> io::Result<Vec<(usize, String)>> {
    let text = match fs::read_to_string(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        text => text?,
    };
    let keyword = |line: &str| {
        let (number, name) = line.split_once(' ')?;
        Some((number.parse().ok()?, name.trim_end().to_owned()))
    };
    Ok(text.lines().filter_map(keyword).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_maildir_folder_has_subfolders_flags_and_keywords() {
        let root = tempfile::tempdir().unwrap();
        let write = |path: &str, text: &str| {
            let path = root.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        write("cur/1.a:2,FSa", "A: b\n");
        write("new/2.b", "C: d\n");
        write("dovecot-keywords", "0 $Label\n1 Other\n");
        write(".Wo&AOQ-rk.Sub/cur/3.c:2,", "E: f\n");
        write(".no-maildir/x", "");
        let mut items = Vec::new();
        read(root.path(), None, &mut |item| {
            items.push(match item {
                Item::Folder(segments) => segments.join("/"),
                Item::Message(message) => message.flags.join(" "),
                Item::Unreadable(reason) => reason,
            });
            true
        })
        .unwrap();
        let expected = ["INBOX", "\\Flagged \\Seen $Label", "", "Wo\u{e4}rk/Sub", ""];
        assert_eq!(items, expected);
    }
}
