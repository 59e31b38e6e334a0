//! Plans the order of the changes of folders between two versions, so that a client that identifies folders by path can apply them one after the other.
//!
//! Renames come first, then creations, then the changes of messages, then deletions. There is one exception: if a folder of the later version has the path of a
//! deleted folder, the deletion must come before that rename or creation. The messages that were moved from such a deleted folder are reported before its
//! deletion.

use std::collections::{BTreeMap, HashMap, HashSet};

use latchmail_directory::message_index::FolderHistory;

use super::Change;

/// The order of the changes of folders. Maps with paths have the service's own ids of folders as keys.
#[derive(Debug, Default)]
pub(super) struct Plan {
    /// The renames and creations that do not depend on a deletion.
    pub(super) first: Vec<Change>,
    /// The paths after `first` of the folders that are not deleted.
    pub(super) paths_after_first: HashMap<String, String>,
    /// The deletions before `second`.
    pub(super) early_deletions: Vec<Change>,
    /// The folders in `early_deletions`.
    pub(super) deleted_early: HashSet<String>,
    /// The renames and creations after `early_deletions`.
    pub(super) second: Vec<Change>,
    /// The number of renames at the beginning of `second`.
    pub(super) second_renames: usize,
    /// The deletions after the changes of messages.
    pub(super) late_deletions: Vec<Change>,
    /// The paths during the changes of messages. Includes the folders in `late_deletions`, and the folders in `early_deletions` with their last paths.
    pub(super) paths: HashMap<String, String>,
    /// The deleted folders.
    pub(super) deleted: HashSet<String>,
}

/// The folders in the order in which they are renamed, with the paths that the client knows.
struct Renames<'a> {
    /// The folders by their current path.
    taken: BTreeMap<String, &'a str>,
    pending: Vec<&'a FolderHistory>,
}

impl<'a> Renames<'a> {
    /// Renames the pending folders whose new path is free, until no more folder can be renamed.
    fn run(&mut self, changes: &mut Vec<Change>) {
        loop {
            let before = self.pending.len();
            for folder in std::mem::take(&mut self.pending) {
                let (Some(from), Some(to)) = (self.path(&folder.id), folder.after.as_deref())
                else {
                    continue;
                };
                if self.taken.contains_key(to) {
                    self.pending.push(folder);
                } else {
                    self.rename(folder, from, to.to_owned(), changes);
                }
            }
            if self.pending.len() == before {
                return;
            }
        }
    }

    /// Works like [`Renames::run`], but also renames folders that exchanged their paths. One of these folders first gets a temporary path.
    fn run_all(&mut self, changes: &mut Vec<Change>) {
        self.run(changes);
        while let Some(folder) = self.pending.first().copied() {
            let Some(from) = self.path(&folder.id) else {
                self.pending.remove(0);
                continue;
            };
            let mut temporary = format!("{from}-{}", folder.public_id);
            while self.taken.contains_key(&temporary) {
                temporary.push('-');
            }
            self.rename(folder, from, temporary, changes);
            self.run(changes);
        }
    }

    fn rename(
        &mut self,
        folder: &'a FolderHistory,
        from: String,
        to: String,
        changes: &mut Vec<Change>,
    ) {
        self.taken.remove(&from);
        self.taken.insert(to.clone(), &folder.id);
        changes.push(Change::FolderRenamed {
            folder: to,
            from,
            id: folder.public_id.clone(),
        });
    }

    /// Returns the current path of a folder.
    fn path(&self, id: &str) -> Option<String> {
        let mut entries = self.taken.iter();
        let found = entries.find(|(_, folder)| **folder == id);
        found.map(|(path, _)| path.clone())
    }
}

impl Plan {
    /// Returns the plan for these folders. It does not depend on their order and on their current paths, so all pages between two versions have the same plan.
    pub(super) fn new(folders: &[FolderHistory]) -> Self {
        let mut plan = Self::default();
        let mut folders: Vec<&FolderHistory> = folders.iter().collect();
        folders.sort_unstable_by(|a, b| {
            (&a.before, &a.after, &a.id).cmp(&(&b.before, &b.after, &b.id))
        });
        let new_paths: HashSet<&str> = folders
            .iter()
            .filter(|folder| folder.before != folder.after)
            .filter_map(|folder| folder.after.as_deref())
            .collect();
        let mut renames = Renames {
            taken: folders
                .iter()
                .filter_map(|folder| Some((folder.before.clone()?, folder.id.as_str())))
                .collect(),
            pending: Vec::new(),
        };
        let mut created = Vec::new();
        for folder in folders {
            match (&folder.before, &folder.after) {
                (Some(before), None) => {
                    let change = Change::FolderDeleted {
                        folder: before.clone(),
                        id: folder.public_id.clone(),
                    };
                    plan.deleted.insert(folder.id.clone());
                    plan.paths.insert(folder.id.clone(), before.clone());
                    if new_paths.contains(before.as_str()) {
                        plan.early_deletions.push(change);
                        plan.deleted_early.insert(folder.id.clone());
                    } else {
                        plan.late_deletions.push(change);
                    }
                }
                (None, Some(_)) => created.push(folder),
                (Some(before), Some(after)) if before != after => renames.pending.push(folder),
                _ => {}
            }
        }
        renames.run(&mut plan.first);
        plan.create(&mut renames, &mut created, false);
        plan.paths_after_first = renames
            .taken
            .iter()
            .filter(|(_, id)| !plan.deleted.contains(**id))
            .map(|(path, id)| ((*id).to_owned(), path.clone()))
            .collect();
        renames
            .taken
            .retain(|_, id| !plan.deleted_early.contains(*id));
        renames.run_all(&mut plan.second);
        plan.second_renames = plan.second.len();
        plan.create(&mut renames, &mut created, true);
        for (path, id) in &renames.taken {
            plan.paths.insert((*id).to_owned(), path.clone());
        }
        plan
    }

    /// Creates the folders whose paths are free.
    fn create<'a>(
        &mut self,
        renames: &mut Renames<'a>,
        created: &mut Vec<&'a FolderHistory>,
        second: bool,
    ) {
        for folder in std::mem::take(created) {
            let path = folder.after.clone().unwrap_or_default();
            if renames.taken.contains_key(&path) {
                created.push(folder);
                continue;
            }
            renames.taken.insert(path.clone(), &folder.id);
            let change = Change::FolderCreated {
                folder: path,
                id: folder.public_id.clone(),
            };
            if second {
                self.second.push(change);
            } else {
                self.first.push(change);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_plan_does_not_depend_on_the_current_paths() {
        let history =
            |id: &str, before: Option<&str>, after: Option<&str>, now: &str| FolderHistory {
                id: id.to_owned(),
                public_id: format!("public-{id}"),
                has_object_id: true,
                uid_validity: 1,
                before: before.map(ToOwned::to_owned),
                after: after.map(ToOwned::to_owned),
                now: Some(now.to_owned()),
            };
        let mut folders = [
            history("1", Some("a"), Some("b"), "x"),
            history("2", Some("c"), Some("d"), "y"),
            history("3", None, Some("e"), "z"),
            history("4", None, Some("f"), "w"),
            history("5", Some("g"), None, "v"),
            history("6", Some("h"), None, "u"),
        ];
        let plan = format!("{:?}", Plan::new(&folders).first);
        folders.sort_by(|a, b| a.now.cmp(&b.now));
        let other = Plan::new(&folders);
        assert_eq!(format!("{:?}", other.first), plan);
        assert_eq!(other.late_deletions.len(), 2);
    }
}
