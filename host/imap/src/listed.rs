//! The folders in the responses to LIST and STATUS.

use std::collections::HashMap;

use bytes::Bytes;
use imap_proto::{MailboxDatum, MailboxListData, NameAttribute, Response, StatusAttribute};

use super::wire::Frame;
use super::{Error, bounds, utf7};

/// A folder's role: a special use of RFC 6154, or `\Inbox`. Folder lists are sorted by role, in the
/// order of these variants.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Role {
    /// `\Inbox`
    Inbox,
    /// `\Flagged`
    Flagged,
    /// `\Sent`
    Sent,
    /// `\Drafts`
    Drafts,
    /// `\All`
    All,
    /// `\Archive`
    Archive,
    /// `\Junk`
    Junk,
    /// `\Trash`
    Trash,
}

impl Role {
    /// Returns the attribute with this role.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Inbox => "\\Inbox",
            Self::Flagged => "\\Flagged",
            Self::Sent => "\\Sent",
            Self::Drafts => "\\Drafts",
            Self::All => "\\All",
            Self::Archive => "\\Archive",
            Self::Junk => "\\Junk",
            Self::Trash => "\\Trash",
        }
    }
}

/// A folder in a LIST response.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listed {
    /// The server's name of the folder, in modified UTF-7.
    pub name: String,
    /// The name in Unicode. The path of the inbox is `INBOX`.
    pub path: String,
    /// The separator of path segments. The separator is empty if the server has no hierarchy.
    pub delimiter: String,
    /// `true` if the folder can be opened.
    pub selectable: bool,
    /// The roles that the server assigns.
    pub roles: Vec<Role>,
    /// The STATUS data. `None` if the server has not sent STATUS data.
    pub status: Option<FolderStatus>,
    /// The server's id of the folder, if the server has ids: MAILBOXID (RFC 8474) or X-GUID.
    pub object_id: Option<String>,
}

/// The STATUS data of a folder (RFC 3501, section 6.3.10). An item that was not requested is 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FolderStatus {
    /// The number of messages.
    pub messages: u32,
    /// The number of unread messages.
    pub unseen: u32,
    /// The UIDVALIDITY.
    pub uid_validity: u32,
    /// UIDNEXT: the smallest UID that the next message can get.
    pub uid_next: u32,
    /// HIGHESTMODSEQ (RFC 7162). `None` if the server has no QRESYNC, or does not store the
    /// modification sequences of this folder.
    pub highest_modseq: Option<u64>,
}

/// The merged responses to LIST and STATUS.
#[derive(Debug, Default)]
pub(crate) struct Collected {
    pub(super) folders: Vec<Listed>,
    /// The index of each folder in `folders`, by the server's name of the folder.
    positions: HashMap<String, usize>,
    /// `true` if the server listed more folders than [`bounds::FOLDERS`].
    pub(super) too_many: bool,
}

impl Collected {
    pub(crate) fn add(&mut self, reply: &Response<'_>, frame: &Frame) {
        match reply {
            Response::MailboxData(MailboxDatum::List(data)) => {
                let folder = listed(data, &frame.bytes);
                if self.positions.contains_key(&folder.name) {
                    return;
                }
                self.too_many |= self.folders.len() >= bounds::FOLDERS;
                if !self.too_many {
                    let name = folder.name.clone();
                    self.positions.insert(name, self.folders.len());
                    self.folders.push(folder);
                }
            }
            Response::MailboxData(MailboxDatum::Status { mailbox, status }) => {
                let name = unescaped(mailbox, &frame.bytes);
                let position = self.positions.get(&name).copied();
                if let Some(folder) = position.and_then(|at| self.folders.get_mut(at)) {
                    folder.status = Some(FolderStatus::of(status));
                    folder.object_id.clone_from(&frame.id);
                }
            }
            _ => {}
        }
    }

    /// Returns the listed folders, in the server's order.
    pub(crate) fn into_folders(self) -> Result<Vec<Listed>, Error> {
        if self.too_many {
            return Err(Error::TooManyFolders);
        }
        Ok(self.folders)
    }
}

impl FolderStatus {
    pub(super) fn of(items: &[StatusAttribute]) -> Self {
        let mut status = Self::default();
        for item in items {
            match item {
                StatusAttribute::Messages(n) => status.messages = *n,
                StatusAttribute::Unseen(n) => status.unseen = *n,
                StatusAttribute::UidValidity(n) => status.uid_validity = *n,
                StatusAttribute::UidNext(n) => status.uid_next = *n,
                // HIGHESTMODSEQ is 0 if the server does not store the modification sequences of the
                // folder.
                StatusAttribute::HighestModSeq(n) => {
                    status.highest_modseq = Some(*n).filter(|n| *n > 0);
                }
                _ => {}
            }
        }
        status
    }
}

fn listed(data: &MailboxListData<'_>, frame: &Bytes) -> Listed {
    let name = unescaped(&data.name, frame);
    let has = |attribute: &str| {
        data.name_attributes.iter().any(
            |a| matches!(a, NameAttribute::Extension(text) if text.eq_ignore_ascii_case(attribute)),
        )
    };
    let roles = data
        .name_attributes
        .iter()
        .filter_map(|attribute| match attribute {
            NameAttribute::All => Some(Role::All),
            NameAttribute::Archive => Some(Role::Archive),
            NameAttribute::Drafts => Some(Role::Drafts),
            NameAttribute::Flagged => Some(Role::Flagged),
            NameAttribute::Junk => Some(Role::Junk),
            NameAttribute::Sent => Some(Role::Sent),
            NameAttribute::Trash => Some(Role::Trash),
            _ => None,
        })
        .collect();
    Listed {
        path: utf7::decode(&name),
        delimiter: data
            .delimiter
            .as_deref()
            .map(|d| unescaped(d, frame))
            .unwrap_or_default(),
        selectable: !data.name_attributes.contains(&NameAttribute::NoSelect)
            && !has("\\NonExistent"),
        roles,
        status: None,
        object_id: None,
        name,
    }
}

/// Removes the escapes of a quoted string (RFC 3501, section 4.3), because `imap-proto` does not
/// remove the escapes. `frame` is the reply that contains `text`. A quotation mark before the text
/// means that the text is a quoted string and not a literal.
fn unescaped(text: &str, frame: &Bytes) -> String {
    let start = (text.as_ptr() as usize).checked_sub(frame.as_ptr() as usize);
    let was_quoted = start
        .and_then(|start| start.checked_sub(1))
        .and_then(|before| frame.get(before))
        .is_some_and(|byte| *byte == b'"');
    if !was_quoted || !text.contains('\\') {
        return text.to_owned();
    }
    let mut plain = String::with_capacity(text.len());
    let mut characters = text.chars();
    while let Some(c) = characters.next() {
        plain.extend(if c == '\\' {
            characters.next()
        } else {
            Some(c)
        });
    }
    plain
}

#[cfg(test)]
mod tests {
    use super::*;

    fn collected(replies: &[&'static [u8]]) -> Vec<Listed> {
        let mut collected = Collected::default();
        for reply in replies {
            let frame = Frame {
                bytes: Bytes::from_static(reply),
                id: None,
            };
            collected.add(&Response::parse(&frame.bytes).unwrap().1, &frame);
        }
        collected.folders
    }

    #[test]
    fn quotes_and_backslashes_are_told_in_quoted_strings_and_in_literals() {
        let all = collected(&[
            b"* LIST () \"/\" \"a\\\"b\\\\c\"\r\n",
            b"* LIST () \"\\\\\" {5}\r\na\\\"b\"\r\n",
            b"* STATUS \"a\\\"b\\\\c\" (MESSAGES 3 UNSEEN 1)\r\n",
        ]);
        assert_eq!(all[0].path, r#"a"b\c"#);
        let status = all[0].status.unwrap();
        assert_eq!((status.messages, status.unseen), (3, 1));
        assert_eq!(all[1].path, r#"a\"b""#);
        assert_eq!(all[1].delimiter, "\\");
    }

    #[test]
    fn many_folders_are_collected_in_proportional_time_and_no_more_than_the_limit() {
        let mut all = Collected::default();
        let add = |all: &mut Collected, line: String| {
            let frame = Frame {
                bytes: Bytes::from(line),
                id: None,
            };
            all.add(&Response::parse(&frame.bytes).unwrap().1, &frame);
        };
        for folder in 0..bounds::FOLDERS {
            add(&mut all, format!("* LIST () \"/\" folder-{folder}\r\n"));
        }
        for folder in 0..bounds::FOLDERS {
            add(
                &mut all,
                format!("* STATUS folder-{folder} (MESSAGES {folder})\r\n"),
            );
        }
        let last = all.folders.last().unwrap();
        assert_eq!(
            (last.path.as_str(), last.status.unwrap().messages),
            ("folder-9999", 9999)
        );
        add(&mut all, "* LIST () \"/\" folder-0\r\n".to_owned());
        assert!(!all.too_many);
        add(&mut all, "* LIST () \"/\" another\r\n".to_owned());
        assert_eq!(all.folders.len(), bounds::FOLDERS);
        assert!(matches!(all.into_folders(), Err(Error::TooManyFolders)));
    }

    #[test]
    fn names_are_decoded_and_what_cannot_be_opened_is_told() {
        let all = collected(&[
            b"* LIST (\\Noselect \\HasChildren) \"/\" Entw&APw-rfe\r\n",
            b"* LIST (\\nonexistent) NIL gone\r\n",
            b"* LIST (\\HasNoChildren \\Sent) \"/\" inbox\r\n",
        ]);
        assert_eq!(
            (all[0].path.as_str(), all[0].selectable),
            ("Entwürfe", false)
        );
        assert_eq!((all[1].delimiter.as_str(), all[1].selectable), ("", false));
        assert_eq!(
            (all[2].path.as_str(), &all[2].roles[..]),
            ("INBOX", &[Role::Sent][..])
        );
    }
}
