//! Assigns roles to folders and sorts the folders.
//!
//! Each role belongs to at most one folder. RFC 6154 permits that a server assigns a role to
//! several folders. In that case the first folder by path gets the role. Each folder has at most
//! one role. A folder gets its first role, in the order of [`Role`], that no other folder has.

use latchmail_imap::INBOX;
use latchmail_imap::list::{Listed, POSITIONS, Role};

use super::Folders;
use crate::access::Access;
use crate::connections::retry::retry_read;
use crate::error::Error;

/// The names that mail clients give the folder for sent messages.
const SENT_NAMES: [&str; 3] = ["Sent", "Sent Items", "Sent Messages"];
/// The name that mail clients give the folder for drafts.
pub(crate) const DRAFTS_NAME: &str = "Drafts";

/// A folder that can be opened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Folder {
    /// The full path in Unicode. The path of the inbox is `INBOX`.
    pub path: String,
    /// The last segment of the path.
    pub name: String,
    /// The separator of path segments. The separator is empty if the server has no hierarchy.
    pub delimiter: String,
    /// The number of messages.
    pub messages: u32,
    /// The number of unread messages.
    pub unseen: u32,
    /// The role. `None` if the folder has no role.
    pub role: Option<Role>,
}

impl Folder {
    /// Returns `true` if the path is the path of this folder or of a folder below it.
    pub(crate) fn contains(&self, path: &str) -> bool {
        let rest = path.strip_prefix(&*self.path);
        rest.is_some_and(|rest| {
            rest.is_empty() || (!self.delimiter.is_empty() && rest.starts_with(&*self.delimiter))
        })
    }
}

impl Folders {
    /// Returns the folder with this role, from the mail server's current list.
    pub(crate) async fn with_role(
        &self,
        access: &Access,
        role: Role,
    ) -> Result<Option<Folder>, Error> {
        let mut lease = self.context.connections.lease(access, None).await?;
        let folders = retry_read!(lease, session => session.folders(POSITIONS));
        let mut folders = to_folders(folders).into_iter();
        Ok(folders.find(|folder| folder.role == Some(role)))
    }
}

/// Converts and sorts listed folders. First come the folders with a role, in the order of [`Role`].
/// The other folders follow in the order of their paths.
pub(crate) fn to_folders(mut listed: Vec<Listed>) -> Vec<Folder> {
    listed.sort_by(|a, b| a.path.cmp(&b.path));
    let mut assigned: Vec<Role> = Vec::new();
    let mut folders: Vec<Folder> = Vec::with_capacity(listed.len());
    for folder in listed {
        let role = if folder.path == INBOX {
            Some(Role::Inbox)
        } else {
            folder
                .roles
                .iter()
                .copied()
                .filter(|role| !assigned.contains(role))
                .min()
        };
        assigned.extend(role);
        let status = folder.status.unwrap_or_default();
        folders.push(Folder {
            name: last_segment(&folder.path, &folder.delimiter).to_owned(),
            path: folder.path,
            delimiter: folder.delimiter,
            messages: status.messages,
            unseen: status.unseen,
            role,
        });
    }
    folders.sort_by_key(|folder| (folder.role.is_none(), folder.role));
    folders
}

/// Returns the folder for copies of sent messages: the folder with the role `\Sent`. If the server
/// assigns this role to no folder, returns a folder with a usual name, at the top level or in
/// INBOX.
pub(crate) fn sent_folder(folders: Vec<Folder>) -> Option<Folder> {
    folder_for(folders, Role::Sent, &SENT_NAMES)
}

/// Returns the folder for drafts, in the same way as [`sent_folder`].
pub(crate) fn drafts_folder(folders: Vec<Folder>) -> Option<Folder> {
    folder_for(folders, Role::Drafts, &[DRAFTS_NAME])
}

fn folder_for(folders: Vec<Folder>, role: Role, names: &[&str]) -> Option<Folder> {
    let has_role = |folder: &Folder| folder.role == Some(role);
    if let Some(index) = folders.iter().position(has_role) {
        return folders.into_iter().nth(index);
    }
    folders.into_iter().find(|folder| {
        let prefix = format!("{INBOX}{}", folder.delimiter);
        let name = folder.path.strip_prefix(&prefix).unwrap_or(&folder.path);
        folder.role.is_none() && names.iter().any(|usual| name.eq_ignore_ascii_case(usual))
    })
}

fn last_segment<'a>(path: &'a str, delimiter: &str) -> &'a str {
    match delimiter {
        "" => path,
        _ => path.rsplit(delimiter).next().unwrap_or(path),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn listed(path: &str, roles: &[Role]) -> Listed {
        Listed {
            name: path.into(),
            path: path.into(),
            delimiter: "/".into(),
            selectable: true,
            roles: roles.into(),
            status: None,
            object_id: None,
        }
    }

    #[test]
    fn a_server_without_roles_has_a_sent_folder_by_name() {
        let sent = |folders: &[(&str, &[Role])]| {
            let listed = folders.iter().map(|(path, roles)| listed(path, roles));
            sent_folder(to_folders(listed.collect())).map(|folder| folder.path)
        };
        assert_eq!(sent(&[("Sent", &[]), ("b", &[Role::Sent])]).unwrap(), "b");
        assert_eq!(
            sent(&[("a/Sent", &[]), ("INBOX/sent", &[])]).unwrap(),
            "INBOX/sent"
        );
        assert_eq!(sent(&[("Sent Items", &[])]).unwrap(), "Sent Items");
        assert_eq!(sent(&[("a/Sent", &[]), ("Sent", &[Role::Trash])]), None);
    }

    #[test]
    fn folders_with_a_role_come_first_and_each_role_is_assigned_once() {
        let folders = to_folders(vec![
            listed("b/Trash", &[Role::Trash]),
            listed("b", &[]),
            listed("Zeta", &[Role::Sent]),
            listed("INBOX", &[Role::Archive]),
            listed("Alpha", &[Role::Trash]),
            listed("a/é/ü", &[]),
        ]);
        let shown: Vec<_> = folders
            .iter()
            .map(|f| (f.path.as_str(), f.name.as_str(), f.role))
            .collect();
        assert_eq!(
            shown,
            [
                ("INBOX", "INBOX", Some(Role::Inbox)),
                ("Zeta", "Zeta", Some(Role::Sent)),
                ("Alpha", "Alpha", Some(Role::Trash)),
                ("a/é/ü", "ü", None),
                ("b", "b", None),
                ("b/Trash", "Trash", None),
            ]
        );
    }
}
