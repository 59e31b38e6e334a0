//! The folders of a mailbox with their hierarchy, as the mail server listed them before a change.

use std::collections::HashMap;
use std::sync::Arc;

use latchmail_imap::list::{Listed, Role};
use latchmail_imap::{INBOX, utf7};

use super::roles::Folder;
use crate::error::Error;

/// Maximum number of segments in the path of a new folder.
const MAX_DEPTH: usize = 100;

/// The folders of a mailbox.
pub(crate) struct FolderTree {
    /// All names, including those that cannot be opened.
    all: Vec<Listed>,
    /// The folders that can be opened, with their ids.
    folders: Vec<(Folder, Arc<str>)>,
    /// The separator of path segments. Empty if the server has no hierarchy.
    delimiter: String,
}

impl FolderTree {
    /// Creates the tree. `ids` contains the ids of the folders by their paths.
    pub(crate) fn new(
        all: Vec<Listed>,
        folders: Vec<Folder>,
        mut ids: HashMap<String, Arc<str>>,
    ) -> Self {
        let inbox = folders.iter().find(|folder| folder.path == INBOX);
        let delimiter = inbox.or(folders.first());
        let delimiter = delimiter.map_or(String::new(), |folder| folder.delimiter.clone());
        let folders = folders.into_iter();
        let folders = folders.filter_map(|folder| Some((ids.remove(&folder.path)?, folder)));
        Self {
            all,
            folders: folders.map(|(id, folder)| (folder, id)).collect(),
            delimiter,
        }
    }

    /// Returns the number of names, including those that cannot be opened.
    pub(crate) fn count(&self) -> usize {
        self.all.len()
    }

    /// Returns the folder with this path and its id.
    pub(crate) fn find(&self, path: &str) -> Option<&(Folder, Arc<str>)> {
        self.folders.iter().find(|(folder, _)| folder.path == path)
    }

    /// Returns the folder with this id.
    pub(crate) fn with_id(&self, id: &str) -> Option<&(Folder, Arc<str>)> {
        self.folders.iter().find(|(_, known)| **known == *id)
    }

    /// Returns the folder with this role.
    pub(crate) fn with_role(&self, role: Role) -> Option<&Folder> {
        let mut folders = self.folders.iter().map(|(folder, _)| folder);
        folders.find(|folder| folder.role == Some(role))
    }

    /// Returns `true` if the folder or one of its subfolders has a role.
    pub(crate) fn has_role_within(&self, path: &str) -> bool {
        let mut folders = self.folders.iter().map(|(folder, _)| folder);
        folders.any(|folder| {
            folder.role.is_some() && (folder.path == path || self.is_below(&folder.path, path))
        })
    }

    /// Returns `true` if `path` is the path of a subfolder of `parent`, at any depth.
    pub(crate) fn is_below(&self, path: &str, parent: &str) -> bool {
        let rest = path.strip_prefix(parent);
        !self.delimiter.is_empty() && rest.is_some_and(|rest| rest.starts_with(&self.delimiter))
    }

    /// Returns all names below `path`, including those that cannot be opened.
    pub(crate) fn below<'t>(&'t self, path: &'t str) -> impl Iterator<Item = &'t Listed> {
        let all = self.all.iter();
        all.filter(move |listed| self.is_below(&listed.path, path))
    }

    /// Returns `true` if the server lists the name, and no folder with this name can be opened.
    pub(crate) fn is_unselectable(&self, path: &str) -> bool {
        let mut all = self.all.iter();
        all.any(|listed| listed.path == path && !listed.selectable)
    }

    /// Returns `true` if the paths of all subfolders of `from` are valid after `from` was renamed
    /// to `to`.
    pub(crate) fn fits_below(&self, from: &str, to: &str) -> bool {
        self.below(from).all(|listed| {
            let path = format!("{to}{}", &listed.path[from.len()..]);
            utf7::name(&path).is_some()
        })
    }

    /// Returns the paths of a folder and its subfolders, and their new paths after the folder was
    /// renamed to `to`.
    pub(crate) fn renamed_paths(&self, from: &str, to: &str) -> HashMap<String, String> {
        let paths = self.folders.iter().map(|(folder, _)| &folder.path);
        let within = paths.filter(|path| *path == from || self.is_below(path, from));
        within
            .map(|path| (path.clone(), format!("{to}{}", &path[from.len()..])))
            .collect()
    }

    /// Checks the path of a new folder. Returns the path with the inbox's name in upper case. The
    /// server checks the path too, because each server refuses other names.
    ///
    /// # Errors
    /// Returns [`Error::InvalidFolderPath`] if no folder can have this path.
    pub(crate) fn new_path(&self, path: &str) -> Result<String, Error> {
        let mut segments = self.segments(path);
        let is_segment = |segment: &&str| !matches!(*segment, "" | "." | "..");
        let is_valid = utf7::name(path).is_some()
            && !path.chars().any(char::is_control)
            && segments.len() <= MAX_DEPTH
            && segments.iter().all(is_segment);
        if !is_valid {
            return Err(Error::InvalidFolderPath);
        }
        if segments[0].eq_ignore_ascii_case(INBOX) {
            segments[0] = INBOX;
        }
        Ok(segments.join(&self.delimiter))
    }

    /// Returns the paths of the parents that no client can open, from the top.
    pub(crate) fn missing_parents(&self, path: &str) -> Vec<String> {
        let segments = self.segments(path);
        let parents = (1..segments.len()).map(|count| segments[..count].join(&self.delimiter));
        parents
            .filter(|parent| self.find(parent).is_none())
            .collect()
    }

    /// Returns the server's name of a path. For a new folder, the name begins with the server's
    /// name of the nearest parent: other clients can have encoded this name differently.
    pub(crate) fn server_name(&self, path: &str) -> String {
        let is_prefix = |listed: &&Listed| listed.path == path || self.is_below(path, &listed.path);
        let parents = self.all.iter().filter(is_prefix);
        match parents.max_by_key(|listed| listed.path.len()) {
            Some(listed) => {
                let rest = utf7::encode(&path[listed.path.len()..]);
                format!("{}{rest}", listed.name)
            }
            None => utf7::encode(path),
        }
    }

    fn segments<'p>(&self, path: &'p str) -> Vec<&'p str> {
        match self.delimiter.as_str() {
            "" => vec![path],
            delimiter => path.split(delimiter).collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::folders::roles::to_folders;

    fn listed(path: &str, name: &str, selectable: bool) -> Listed {
        Listed {
            name: name.into(),
            path: path.into(),
            delimiter: "/".into(),
            selectable,
            roles: Vec::new(),
            status: None,
            object_id: None,
        }
    }

    fn tree(folders: Vec<Listed>) -> FolderTree {
        let selectable: Vec<Listed> = folders.iter().filter(|f| f.selectable).cloned().collect();
        let ids = folders.iter().map(|f| (f.path.clone(), Arc::from("id")));
        let ids = ids.collect();
        FolderTree::new(folders, to_folders(selectable), ids)
    }

    fn example() -> FolderTree {
        tree(vec![
            listed("INBOX", "INBOX", true),
            listed("a", "&AGE-", false),
            listed("a/b", "&AGE-/b", true),
            listed("ab", "ab", true),
        ])
    }

    #[test]
    fn a_path_has_no_empty_segment_no_control_character_and_no_dots() {
        let tree = example();
        for valid in [
            "x",
            "a/ü",
            "a.b",
            "..x",
            "x y",
            "100%",
            "INBOX/x",
            &"x".repeat(2000),
        ] {
            assert_eq!(tree.new_path(valid).unwrap(), *valid);
        }
        assert_eq!(tree.new_path("inbox").unwrap(), "INBOX");
        assert_eq!(tree.new_path("inBox/inbox").unwrap(), "INBOX/inbox");
        let long = "x".repeat(2001);
        let deep = vec!["x"; MAX_DEPTH + 1].join("/");
        for invalid in [
            "", "/", "/x", "x/", "a//b", ".", "..", "a/../b", "a/.", "a\nb", "a\0", "\u{85}",
            &long, &deep,
        ] {
            let refused = tree.new_path(invalid);
            assert!(
                matches!(refused, Err(Error::InvalidFolderPath)),
                "{invalid:?}"
            );
        }
    }

    #[test]
    fn a_new_name_begins_with_the_servers_name_of_the_nearest_parent() {
        let tree = example();
        assert_eq!(tree.server_name("a/b/ü"), "&AGE-/b/&APw-");
        assert_eq!(tree.server_name("a/c"), "&AGE-/c");
        assert_eq!(tree.server_name("ab"), "ab");
        assert_eq!(tree.server_name("abc"), "abc");
        assert_eq!(tree.server_name("INBOX/x"), "INBOX/x");
    }

    #[test]
    fn a_parent_that_cannot_be_opened_is_missing() {
        let tree = example();
        assert_eq!(tree.missing_parents("a/b/c/d"), ["a", "a/b/c"]);
        assert!(tree.missing_parents("x").is_empty());
        assert!(tree.is_unselectable("a") && !tree.is_unselectable("x"));
        let below: Vec<_> = tree.below("a").map(|listed| listed.path.as_str()).collect();
        assert_eq!(below, ["a/b"]);
        assert!(
            tree.fits_below("a", &"x".repeat(1998)) && !tree.fits_below("a", &"x".repeat(1999))
        );
    }

    #[test]
    fn a_server_without_a_hierarchy_has_no_subfolders() {
        let mut inbox = listed("INBOX", "INBOX", true);
        inbox.delimiter = String::new();
        let tree = tree(vec![inbox, listed("x", "x", true)]);
        assert_eq!(tree.new_path("x/y").unwrap(), "x/y");
        assert!(!tree.is_below("x/y", "x") && tree.missing_parents("x/y").is_empty());
    }
}
