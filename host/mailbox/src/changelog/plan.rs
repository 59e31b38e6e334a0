//! Plans the order of the changes of folders between two versions, so that a client that identifies
//! folders by path can apply the changes one after the other.
//!
//! Renames come first, then creations, then the changes of messages, then deletions. There is one
//! exception: if a folder of the later version has the path of a deleted folder, the deletion must
//! come before that rename or creation. Messages that were moved out of such a folder are reported
//! before the deletion of the folder.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet, VecDeque};

use latchmail_core::clock::Timestamp;
use latchmail_directory::message_index::FolderHistory;

use super::change::Change;

/// The order of the changes of folders. The keys of the maps and the elements of the sets are
/// internal ids of folders.
#[derive(Debug, Default)]
pub(super) struct Plan {
    /// The renames and creations that do not depend on a deletion.
    pub(super) first: Vec<Change>,
    /// The paths of the folders that are not deleted, after the client has applied `first`.
    pub(super) paths_after_first: HashMap<String, String>,
    /// The deletions that come before `second`.
    pub(super) early_deletions: Vec<Change>,
    /// The folders in `early_deletions`.
    pub(super) deleted_early: HashSet<String>,
    /// The renames and creations that come after `early_deletions`.
    pub(super) second: Vec<Change>,
    /// The number of renames at the beginning of `second`.
    pub(super) second_renames: usize,
    /// The deletions that come after the changes of messages.
    pub(super) late_deletions: Vec<Change>,
    /// The folder paths that are valid for the changes of messages. Includes the folders in
    /// `late_deletions`, and the folders in `early_deletions` with their last paths.
    pub(super) paths: HashMap<String, String>,
    /// The deleted folders.
    pub(super) deleted: HashSet<String>,
    /// The times of the first changes of folders, by public id.
    times: HashMap<String, Timestamp>,
}

/// The folder paths that the client knows while the client applies the changes.
struct KnownPaths<'a> {
    /// The ids of the folders, by current path.
    taken: HashMap<Cow<'a, str>, &'a str>,
    /// The current paths of the folders, by id.
    paths: HashMap<&'a str, Cow<'a, str>>,
    /// The folders whose new path is still taken, by the new path.
    waiting: HashMap<&'a str, VecDeque<NewPath<'a>>>,
}

/// A folder that must be renamed or created, and its new path.
#[derive(Clone, Copy)]
struct NewPath<'a> {
    folder: &'a FolderHistory,
    to: &'a str,
}

impl<'a> KnownPaths<'a> {
    /// Renames the folders whose new path is free. Each rename frees a path, so the folder that
    /// waits for this path is next. The other folders wait.
    fn run(&mut self, renames: impl IntoIterator<Item = NewPath<'a>>, changes: &mut Vec<Change>) {
        for rename in renames {
            let mut next = Some(rename);
            while let Some(rename) = next.take() {
                if self.taken.contains_key(rename.to) {
                    self.waiting.entry(rename.to).or_default().push_back(rename);
                } else {
                    next = self.rename(rename.folder, Cow::Borrowed(rename.to), changes);
                }
            }
        }
    }

    /// Renames all folders that were not renamed before, including folders that exchanged their
    /// paths. One of these folders first gets a temporary path.
    fn run_all(&mut self, mut renames: Vec<NewPath<'a>>, changes: &mut Vec<Change>) {
        renames.retain(|rename| !self.has_new_path(rename));
        self.waiting.clear();
        self.run(renames.iter().copied(), changes);
        for rename in renames {
            if self.has_new_path(&rename) {
                continue;
            }
            let Some(from) = self.paths.get(rename.folder.id.as_str()) else {
                continue;
            };
            let mut temporary = format!("{from}-{}", rename.folder.public_id);
            while self.taken.contains_key(temporary.as_str()) {
                temporary.push('-');
            }
            let next = self.rename(rename.folder, Cow::Owned(temporary), changes);
            self.run(next, changes);
        }
    }

    /// Renames a folder. Returns the next folder that waits for the old path.
    fn rename(
        &mut self,
        folder: &'a FolderHistory,
        to: Cow<'a, str>,
        changes: &mut Vec<Change>,
    ) -> Option<NewPath<'a>> {
        let path = self.paths.get_mut(folder.id.as_str())?;
        let from = std::mem::replace(path, to.clone());
        self.taken.remove(&from);
        self.taken.insert(to.clone(), &folder.id);
        let next = self.waiting.get_mut(&*from).and_then(VecDeque::pop_front);
        changes.push(Change::FolderRenamed {
            folder: to.into_owned(),
            from: from.into_owned(),
            id: folder.public_id.clone(),
        });
        next
    }

    /// Creates the folders whose paths are free, and removes these folders from `created`.
    fn create(&mut self, created: &mut Vec<NewPath<'a>>, changes: &mut Vec<Change>) {
        created.retain(|NewPath { folder, to }| {
            if self.taken.contains_key(*to) {
                return true;
            }
            self.taken.insert(Cow::Borrowed(*to), &folder.id);
            changes.push(Change::FolderCreated {
                folder: (*to).to_owned(),
                id: folder.public_id.clone(),
            });
            false
        });
    }

    /// Returns `true` if the folder has its new path.
    fn has_new_path(&self, rename: &NewPath<'_>) -> bool {
        let path = self.paths.get(rename.folder.id.as_str());
        path.is_some_and(|path| path == rename.to)
    }
}

impl Plan {
    /// Returns the plan for these folders. The plan depends neither on the order of `folders` nor
    /// on the current paths (`now`), so all pages between two versions have the same plan.
    pub(super) fn new(folders: &[FolderHistory]) -> Self {
        let mut plan = Self::default();
        let changed = folders
            .iter()
            .filter(|folder| folder.before != folder.after);
        let times = changed.map(|folder| (folder.public_id.clone(), folder.changed_at));
        plan.times = times.collect();
        let mut folders: Vec<&FolderHistory> = folders.iter().collect();
        folders.sort_unstable_by(|a, b| {
            (&a.before, &a.after, &a.id).cmp(&(&b.before, &b.after, &b.id))
        });
        let new_paths: HashSet<&str> = folders
            .iter()
            .filter(|folder| folder.before != folder.after)
            .filter_map(|folder| folder.after.as_deref())
            .collect();
        let before = folders.iter().filter_map(|folder| {
            let path = folder.before.as_deref()?;
            Some((Cow::Borrowed(path), folder.id.as_str()))
        });
        let taken: HashMap<Cow<'_, str>, &str> = before.collect();
        let mut paths = KnownPaths {
            paths: taken.iter().map(|(path, id)| (*id, path.clone())).collect(),
            taken,
            waiting: HashMap::new(),
        };
        let (mut created, mut renamed) = (Vec::new(), Vec::new());
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
                (None, Some(to)) => created.push(NewPath { folder, to }),
                (Some(before), Some(to)) if before != to => renamed.push(NewPath { folder, to }),
                _ => {}
            }
        }
        paths.run(renamed.iter().copied(), &mut plan.first);
        paths.create(&mut created, &mut plan.first);
        plan.paths_after_first = paths
            .taken
            .iter()
            .filter(|(_, id)| !plan.deleted.contains(**id))
            .map(|(path, id)| ((*id).to_owned(), path.to_string()))
            .collect();
        paths
            .taken
            .retain(|_, id| !plan.deleted_early.contains(*id));
        paths.run_all(renamed, &mut plan.second);
        plan.second_renames = plan.second.len();
        paths.create(&mut created, &mut plan.second);
        for (path, id) in paths.taken {
            plan.paths.insert(id.to_owned(), path.into_owned());
        }
        plan
    }

    /// Returns the time of a change of a folder.
    pub(super) fn time(&self, change: &Change) -> Timestamp {
        let time = match change {
            Change::FolderCreated { id, .. }
            | Change::FolderRenamed { id, .. }
            | Change::FolderDeleted { id, .. } => self.times.get(id),
            _ => None,
        };
        time.copied().unwrap_or(Timestamp::from_millis(0))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::time::{Duration, Instant};

    use super::*;

    fn history(id: &str, before: Option<&str>, after: Option<&str>, now: &str) -> FolderHistory {
        FolderHistory {
            id: id.to_owned(),
            public_id: format!("public-{id}"),
            has_object_id: true,
            uid_validity: 1,
            before: before.map(ToOwned::to_owned),
            after: after.map(ToOwned::to_owned),
            now: Some(now.to_owned()),
            changed_at: Timestamp::from_millis(0),
        }
    }

    /// Returns the paths after the changes. Panics if a change does not fit the paths before.
    fn applied(folders: &[FolderHistory], plan: &Plan) -> BTreeSet<String> {
        let mut paths: BTreeSet<String> = folders.iter().filter_map(|f| f.before.clone()).collect();
        let all = [
            &plan.first,
            &plan.early_deletions,
            &plan.second,
            &plan.late_deletions,
        ];
        for change in all.into_iter().flatten() {
            match change {
                Change::FolderRenamed { folder, from, .. } => {
                    assert!(
                        paths.remove(from) && paths.insert(folder.clone()),
                        "{change:?}"
                    );
                }
                Change::FolderCreated { folder, .. } => {
                    assert!(paths.insert(folder.clone()), "{change:?}");
                }
                Change::FolderDeleted { folder, .. } => {
                    assert!(paths.remove(folder), "{change:?}");
                }
                _ => panic!("{change:?}"),
            }
        }
        paths
    }

    #[test]
    fn the_time_for_renames_is_proportional_to_their_number() {
        const FOLDERS: usize = 5_000;
        // The path of folder `n` before and after. Chains in both directions, one cycle, many
        // cycles, and a chain behind a deleted folder.
        let orders: [fn(usize) -> (usize, usize); 5] = [
            |n| (n, n + 1),
            |n| (n + 1, n),
            |n| (n, (n + 1) % FOLDERS),
            |n| (n, n ^ 1),
            |n| (n, n.wrapping_sub(1).min(FOLDERS)),
        ];
        for (number, order) in orders.into_iter().enumerate() {
            let path = |n: usize| format!("folder-{n:05}");
            let folders: Vec<_> = (0..FOLDERS)
                .map(|n| {
                    let (before, after) = order(n);
                    let after = (number < 4 || n > 0).then(|| path(after));
                    history(&n.to_string(), Some(&path(before)), after.as_deref(), "x")
                })
                .collect();
            let started = Instant::now();
            let plan = Plan::new(&folders);
            // This takes about 30 ms in a debug build. With quadratic time it took minutes.
            assert!(started.elapsed() < Duration::from_secs(2), "{number}");
            let after: BTreeSet<String> = folders.iter().filter_map(|f| f.after.clone()).collect();
            assert_eq!(applied(&folders, &plan), after, "{number}");
            let renamed = plan.first.len() + plan.second.len();
            let temporary = [0, 0, 1, FOLDERS / 2, 0][number];
            let expected = FOLDERS + temporary - usize::from(number == 4);
            assert_eq!(renamed, expected, "{number}");
        }
    }

    #[test]
    fn folders_with_the_same_new_path_do_not_block_the_plan() {
        let folders = [
            history("1", Some("a"), Some("c"), "c"),
            history("2", Some("b"), Some("c"), "c"),
        ];
        let plan = Plan::new(&folders);
        assert_eq!((plan.first.len(), plan.second.len()), (1, 1));
    }

    #[test]
    fn the_plan_does_not_depend_on_the_current_paths() {
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
