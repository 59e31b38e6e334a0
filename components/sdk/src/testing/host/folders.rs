//! The folders of the fake host: their ids and their changes.

use latchmail_shape::codes;

use super::mail::{Mail, ROLES, SEEN, Stored, StoredFolder, changed_message, has_flag};
use crate::capability::{
    Change, ChangedFolder, Error, Folder, MessageDisposal, MovedMessage, RenamedFolder, Role,
    Summary,
};

/// Maximum length of a path, in bytes.
const MAX_PATH: usize = 2000;

impl Mail {
    pub(super) fn has(&self, folder: &str) -> bool {
        self.folders.iter().any(|one| one.path == folder)
    }

    /// Returns `true` if a folder has this id.
    pub(super) fn has_id(&self, id: &str) -> bool {
        self.folders.iter().any(|one| one.id == id)
    }

    /// Returns the paths and the roles of all folders.
    pub(super) fn paths(&self) -> impl Iterator<Item = (&str, Option<&'static str>)> {
        let folders = self.folders.iter();
        folders.map(|one| (one.path.as_str(), one.role))
    }

    /// Returns all folders: first the folders with a role, then the other folders.
    pub(super) fn listed(&self) -> Vec<Folder> {
        let mut folders: Vec<Folder> = self.folders.iter().map(|one| self.folder(one)).collect();
        folders.sort_by_key(|one| {
            let role = one.role.as_ref();
            let rank = role.map(|role| ROLES.iter().position(|one| one == role));
            (rank.is_none(), rank, one.path.clone())
        });
        folders
    }

    fn folder(&self, one: &StoredFolder) -> Folder {
        let path = &one.path;
        let count = |which: fn(&Summary) -> bool| {
            let found = self.of(path).filter(|(summary, _)| which(summary));
            u32::try_from(found.count()).unwrap_or(u32::MAX)
        };
        Folder {
            id: one.id.clone(),
            path: path.clone(),
            name: path.rsplit('/').next().unwrap_or(path).into(),
            delimiter: "/".into(),
            messages: count(|_| true),
            unseen: count(|summary| !has_flag(summary, SEEN)),
            role: one.role.map(Role::from),
        }
    }

    /// Adds a folder to the mailbox and to the change log.
    pub(super) fn add_folder(&mut self, path: &str) {
        let mut folder = StoredFolder::new(path, None);
        // A renamed folder can have the id that belongs to this path.
        while self.has_id(&folder.id) {
            folder.id.push('\'');
        }
        self.changes.push(Change::FolderCreated(ChangedFolder {
            folder: path.into(),
            id: folder.id.clone(),
        }));
        self.folders.push(folder);
    }

    fn add_missing_parents(&mut self, path: &str) {
        for (end, _) in path.match_indices('/') {
            if !self.has(&path[..end]) {
                self.add_folder(&path[..end]);
            }
        }
    }

    fn find_folder(&self, path: &str) -> Result<&StoredFolder, Error> {
        let found = self.folders.iter().find(|one| one.path == path);
        found.ok_or(Error::NotFound)
    }

    pub(super) fn create_folder(&mut self, path: &str) -> Result<Folder, Error> {
        let path = &new_path(path)?;
        if self.has(path) {
            return Err(conflict("Folder already exists"));
        }
        self.add_missing_parents(path);
        self.add_folder(path);
        Ok(self.folder(self.find_folder(path)?))
    }

    pub(super) fn rename_folder(&mut self, from: &str, to: &str) -> Result<Folder, Error> {
        let from = &canonical(from);
        let found = self.find_folder(from)?;
        let mut within = self.folders.iter().filter(|one| is_within(&one.path, from));
        if within.any(|one| one.role.is_some()) {
            return Err(conflict("This folder has a role and cannot be changed"));
        }
        let to = &new_path(to)?;
        if to == from {
            return Ok(self.folder(found));
        }
        if self.has(to) {
            return Err(conflict("Folder already exists"));
        }
        if is_within(to, from) {
            return Err(invalid_path());
        }
        self.add_missing_parents(to);
        let renamed = |path: &str| format!("{to}{}", &path[from.len()..]);
        for one in &mut self.folders {
            if is_within(&one.path, from) {
                let path = renamed(&one.path);
                self.changes.push(Change::FolderRenamed(RenamedFolder {
                    folder: ChangedFolder {
                        folder: path.clone(),
                        id: one.id.clone(),
                    },
                    from: std::mem::replace(&mut one.path, path),
                }));
            }
        }
        for one in &mut self.stored {
            if is_within(&one.folder, from) {
                one.folder = renamed(&one.folder);
            }
        }
        Ok(self.folder(self.find_folder(to)?))
    }

    pub(super) fn delete_folder(
        &mut self,
        path: &str,
        messages: MessageDisposal,
    ) -> Result<(), Error> {
        let path = &canonical(path);
        let found = self.find_folder(path)?;
        let id = found.id.clone();
        if found.role.is_some() {
            return Err(conflict("This folder has a role and cannot be changed"));
        }
        if self
            .paths()
            .any(|(one, _)| one != path && is_within(one, path))
        {
            return Err(conflict(match messages {
                MessageDisposal::Refuse => "Folder is not empty",
                _ => "Folder has subfolders",
            }));
        }
        match messages {
            MessageDisposal::Refuse if self.of(path).next().is_some() => {
                return Err(conflict("Folder is not empty"));
            }
            MessageDisposal::Refuse => {}
            MessageDisposal::Trash => {
                let mut folders = self.folders.iter();
                let trash = folders.find(|one| one.role == Some("\\Trash"));
                let trash = trash.ok_or_else(|| conflict("There is no Trash folder"))?;
                let trash = trash.path.clone();
                self.move_where(&trash, |one| one.folder == *path);
            }
            MessageDisposal::Delete => {
                let deleted = self.stored.extract_if(.., |one| one.folder == *path);
                let deleted = deleted.map(|one| one.detail.summary.uid).collect();
                self.deleted_with_folders.insert(id.clone(), deleted);
            }
        }
        self.folders.retain(|one| one.path != *path);
        self.changes.push(Change::FolderDeleted(ChangedFolder {
            folder: path.clone(),
            id,
        }));
        Ok(())
    }

    /// Moves the selected messages to a folder.
    pub(super) fn move_where(&mut self, to: &str, mut is_moved: impl FnMut(&Stored) -> bool) {
        let moved = self.stored.extract_if(.., |one| is_moved(one));
        let mut moved: Vec<_> = moved.collect();
        for one in &mut moved {
            let from = std::mem::replace(&mut one.folder, to.into());
            one.previous = Some(from.clone());
            let message = changed_message(to, &one.detail);
            self.changes
                .push(Change::Moved(MovedMessage { message, from }));
            self.last_arrival += 1;
            one.arrival = self.last_arrival;
        }
        self.stored.extend(moved);
    }
}

/// Returns `true` if `path` is `parent`, or the path of a subfolder of `parent`.
fn is_within(path: &str, parent: &str) -> bool {
    let rest = path.strip_prefix(parent);
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// Returns the path with the inbox's name in upper case.
fn canonical(path: &str) -> String {
    let (first, rest) = path.split_at(path.find('/').unwrap_or(path.len()));
    if first.eq_ignore_ascii_case("INBOX") {
        format!("INBOX{rest}")
    } else {
        path.into()
    }
}

fn new_path(path: &str) -> Result<String, Error> {
    let is_segment = |segment: &str| !matches!(segment, "" | "." | "..");
    let is_valid = path.len() <= MAX_PATH
        && !path.starts_with('~')
        && !path.chars().any(char::is_control)
        && path.split('/').all(is_segment);
    is_valid.then(|| canonical(path)).ok_or_else(invalid_path)
}

fn invalid_path() -> Error {
    Error::invalid(codes::INVALID_FOLDER_PATH, "Invalid folder path")
}

/// Returns a conflict with a text that the list of codes contains.
fn conflict(text: &str) -> Error {
    let code = codes::of_text(text).map(|known| known.code.clone());
    Error::conflict(code.unwrap_or(codes::FOLDER_EXISTS), text)
}
