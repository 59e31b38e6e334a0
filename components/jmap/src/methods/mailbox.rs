//! Mailboxes (RFC 8621, section 2): the folders of the host.

use std::collections::{BTreeSet, HashMap};

use latchmail_sdk::capability::{Change, ChangeList, Folder, FolderCounts, Scope};
use serde_json::{Value, json};

use crate::Capabilities;
use crate::args::{Args, Object, check_properties, select};
use crate::changes::{self, Changed};
use crate::context::Context;
use crate::error::{MethodError, MethodResult};
use crate::limits::{MAX_CHANGES, MAX_MAILBOX_DEPTH};

/// The properties.
pub(super) const PROPERTIES: [&str; 11] = [
    "id",
    "name",
    "parentId",
    "role",
    "sortOrder",
    "totalEmails",
    "unreadEmails",
    "totalThreads",
    "unreadThreads",
    "myRights",
    "isSubscribed",
];
/// The properties that change with the emails of a mailbox.
const COUNTS: [&str; 4] = [
    "totalEmails",
    "unreadEmails",
    "totalThreads",
    "unreadThreads",
];
/// The roles of the host, in the order in which clients show the mailboxes.
const ROLES: [(&str, &str); 8] = [
    ("\\Inbox", "inbox"),
    ("\\Drafts", "drafts"),
    ("\\Sent", "sent"),
    ("\\Archive", "archive"),
    ("\\All", "all"),
    ("\\Flagged", "flagged"),
    ("\\Junk", "junk"),
    ("\\Trash", "trash"),
];

/// The maximum number of entries of the change log that one response summarizes.
const MAX_LISTED: usize = 10_000;

/// The folders as a tree.
pub(super) struct Tree<'a> {
    folders: &'a [Folder],
    by_path: HashMap<&'a str, &'a Folder>,
}

impl<'a> Tree<'a> {
    pub(super) fn new(folders: &'a [Folder]) -> Self {
        let by_path = folders.iter().map(|folder| (folder.path.as_str(), folder));
        Self {
            folders,
            by_path: by_path.collect(),
        }
    }

    pub(super) fn find(&self, id: &str) -> Option<&'a Folder> {
        self.folders.iter().find(|folder| folder.id == id)
    }

    /// Returns the nearest parent that exists.
    pub(super) fn parent(&self, folder: &Folder) -> Option<&'a Folder> {
        if folder.delimiter.is_empty() {
            return None;
        }
        let mut path = folder.path.as_str();
        while let Some((parent, _)) = path.rsplit_once(&*folder.delimiter) {
            if let Some(parent) = self.by_path.get(parent) {
                return Some(parent);
            }
            path = parent;
        }
        None
    }

    /// Returns the name: the path without that of the parent.
    pub(super) fn name<'f>(&self, folder: &'f Folder) -> &'f str {
        let parent = self.parent(folder).map(|parent| parent.path.as_str());
        let name = parent.and_then(|parent| folder.path.strip_prefix(parent));
        let name = name.and_then(|name| name.strip_prefix(&*folder.delimiter));
        let name = name.unwrap_or(&folder.path);
        if name == "INBOX" { "Inbox" } else { name }
    }

    pub(super) fn depth(&self, folder: &Folder) -> usize {
        let mut depth = 1;
        let mut parent = self.parent(folder);
        while let Some(found) = parent {
            depth += 1;
            parent = self.parent(found);
        }
        depth
    }

    pub(super) fn has_children(&self, folder: &Folder) -> bool {
        let mut folders = self.folders.iter();
        folders.any(|one| {
            self.parent(one)
                .is_some_and(|parent| parent.id == folder.id)
        })
    }
}

/// Returns the role of a folder in JMAP.
pub(super) fn role(folder: &Folder) -> Option<&'static str> {
    let role = folder.role.as_deref()?;
    let known = ROLES.iter().find(|(name, _)| *name == role);
    known.map(|(_, role)| *role)
}

/// Returns the position of a folder among its siblings.
pub(super) fn sort_order(folder: &Folder) -> u32 {
    let role = role(folder);
    let position = ROLES.iter().position(|(_, name)| Some(*name) == role);
    let position = position.unwrap_or(ROLES.len()) + 1;
    u32::try_from(position).unwrap_or(u32::MAX)
}

/// Returns the properties of a folder. Without `counts`, the counts are missing.
pub(super) fn object<H: Capabilities>(
    ctx: &Context<'_, H>,
    tree: &Tree<'_>,
    folder: &Folder,
    counts: Option<&FolderCounts>,
) -> Object {
    let (can_write, can_send) = (ctx.holds(Scope::MailWrite), ctx.holds(Scope::MailSend));
    let has_role = folder.role.is_some();
    let rights = json!({
        "mayReadItems": true,
        "mayAddItems": can_write,
        "mayRemoveItems": can_write,
        "maySetSeen": can_write,
        "maySetKeywords": can_write,
        "mayCreateChild": can_write && tree.depth(folder) < MAX_MAILBOX_DEPTH,
        "mayRename": can_write && !has_role,
        "mayDelete": can_write && !has_role,
        "maySubmit": can_send,
    });
    let parent = tree.parent(folder).map(|parent| &parent.id);
    let mut object = Object::new();
    let values = [
        ("id", folder.id.as_str().into()),
        ("name", tree.name(folder).into()),
        ("parentId", json!(parent)),
        ("role", json!(role(folder))),
        ("sortOrder", sort_order(folder).into()),
        ("myRights", rights),
        ("isSubscribed", true.into()),
    ];
    object.extend(
        values
            .into_iter()
            .map(|(name, value)| (name.to_owned(), value)),
    );
    if let Some(counts) = counts {
        let values = [
            counts.messages,
            counts.unread,
            counts.threads,
            counts.unread_threads,
        ];
        let values = COUNTS.iter().zip(values);
        object.extend(values.map(|(name, count)| ((*name).to_owned(), count.into())));
    }
    object
}

/// `Mailbox/get` (RFC 8621, section 2.1).
pub(super) fn get<H: Capabilities>(ctx: &mut Context<'_, H>, args: &Object) -> MethodResult {
    let args = &Args::new(ctx, args, &["ids", "properties"])?;
    let properties = args.properties(&PROPERTIES)?;
    check_properties(&properties, &PROPERTIES)?;
    let ids = args.ids()?;
    let state = changes::state(ctx)?;
    let folders = ctx.folders()?;
    let counts = if COUNTS.iter().any(|name| properties.contains(name)) {
        ctx.host.count_messages()?
    } else {
        Vec::new()
    };
    let counts: HashMap<&str, &FolderCounts> = counts
        .iter()
        .map(|one| (one.folder_id.as_str(), one))
        .collect();
    let tree = Tree::new(&folders);
    let one = |folder: &Folder| {
        let counts = counts.get(folder.id.as_str()).copied();
        select(object(ctx, &tree, folder, counts), &properties)
    };
    let (mut list, mut not_found) = (Vec::new(), Vec::new());
    match &ids {
        None => list.extend(folders.iter().map(one)),
        Some(ids) => {
            for id in ids {
                match tree.find(ctx.resolve(id)) {
                    Some(folder) => list.push(one(folder)),
                    None => not_found.push(*id),
                }
            }
        }
    }
    Ok(json!({
        "accountId": ctx.account,
        "state": state,
        "list": list,
        "notFound": not_found,
    }))
}

/// The mailboxes that changed in a part of the change log.
#[derive(Debug, Default)]
struct MailboxChanges {
    changed: Changed,
    /// Whether only the counts changed.
    is_counts: bool,
}

/// Collects the mailboxes that changed. `folders` are the current folders.
fn collect(list: &ChangeList, folders: &[Folder]) -> MailboxChanges {
    let mut by_path: HashMap<&str, &str> = folders
        .iter()
        .map(|folder| (folder.path.as_str(), folder.id.as_str()))
        .collect();
    let (mut created, mut renamed) = (BTreeSet::new(), BTreeSet::new());
    let mut destroyed = BTreeSet::new();
    // A folder in a created or deleted one has another parent. Each folder in a renamed one has a
    // change of its own.
    let ids_inside = |path: &str| -> Vec<String> {
        let is_inside = |folder: &&Folder| {
            let rest = folder.path.strip_prefix(path);
            !folder.delimiter.is_empty()
                && rest.is_some_and(|rest| rest.starts_with(&*folder.delimiter))
        };
        let inside = folders.iter().filter(is_inside);
        inside.map(|folder| folder.id.clone()).collect()
    };
    // Paths in the list can be older than the current ones.
    for change in &list.changes {
        match change {
            Change::FolderCreated(folder) => {
                created.insert(folder.id.clone());
                renamed.extend(ids_inside(&folder.folder));
                by_path.insert(&folder.folder, &folder.id);
            }
            Change::FolderRenamed(one) => {
                renamed.insert(one.folder.id.clone());
                by_path.insert(&one.folder.folder, &one.folder.id);
                by_path.entry(&one.from).or_insert(&one.folder.id);
            }
            Change::FolderDeleted(folder) => {
                destroyed.insert(folder.id.clone());
                renamed.extend(ids_inside(&folder.folder));
                by_path.insert(&folder.folder, &folder.id);
            }
            _ => {}
        }
    }
    let mut touched: BTreeSet<String> = BTreeSet::new();
    let mut is_unknown = false;
    for change in &list.changes {
        let paths = match change {
            Change::Created(one) | Change::Flags(one) => [Some(&one.folder), None],
            Change::Moved(one) => [Some(&one.message.folder), Some(&one.from)],
            Change::Deleted(one) => [Some(&one.folder), None],
            _ => [None, None],
        };
        for path in paths.into_iter().flatten() {
            match by_path.get(path.as_str()) {
                Some(id) => {
                    touched.insert((*id).to_owned());
                }
                None => is_unknown = true,
            }
        }
    }
    if is_unknown {
        touched.extend(folders.iter().map(|folder| folder.id.clone()));
    }
    let is_counts = renamed.is_empty();
    touched.extend(renamed);
    touched.retain(|id| !created.contains(id) && !destroyed.contains(id));
    let both: BTreeSet<String> = created.intersection(&destroyed).cloned().collect();
    created.retain(|id| !both.contains(id));
    destroyed.retain(|id| !both.contains(id));
    MailboxChanges {
        changed: Changed {
            created,
            updated: touched,
            destroyed,
        },
        is_counts,
    }
}

/// Adds a page of the change log to the changes before it.
fn join(mut changes: Vec<Change>, next: ChangeList) -> ChangeList {
    changes.extend(next.changes);
    ChangeList { changes, ..next }
}

/// Returns all mailboxes that changed since a state, and the state after the changes. Returns
/// `None` if there are too many changes.
pub(super) fn all_changed<H: Capabilities>(
    ctx: &mut Context<'_, H>,
    since: &str,
) -> Result<Option<(Changed, String)>, MethodError> {
    let mut list = ctx.host.message_changes(Some(since), MAX_CHANGES)?;
    while list.more {
        if list.changes.len() > MAX_LISTED {
            return Ok(None);
        }
        let next = ctx.host.message_changes(Some(&list.cursor), MAX_CHANGES)?;
        list = join(list.changes, next);
    }
    ctx.forget_folders();
    let folders = ctx.folders()?;
    Ok(Some((collect(&list, &folders).changed, list.cursor)))
}

/// `Mailbox/changes` (RFC 8621, section 2.2).
pub(super) fn changes<H: Capabilities>(ctx: &mut Context<'_, H>, args: &Object) -> MethodResult {
    let args = &Args::new(ctx, args, &["sinceState", "maxChanges"])?;
    let since = args.required("sinceState")?;
    let max = changes::max_changes(args)?.unwrap_or(usize::MAX);
    let mut limit = MAX_CHANGES;
    loop {
        let mut list = ctx.host.message_changes(Some(since), limit)?;
        // The folders are read after the changes, so that they include all created folders.
        ctx.forget_folders();
        let folders = ctx.folders()?;
        let mut found = collect(&list, &folders);
        // Further pages are added while they fit.
        while list.more && found.changed.len() <= max {
            let next = ctx.host.message_changes(Some(&list.cursor), MAX_CHANGES)?;
            let joined = join(list.changes.clone(), next);
            let all = collect(&joined, &folders);
            if all.changed.len() > max || joined.changes.len() > MAX_LISTED {
                break;
            }
            (list, found) = (joined, all);
        }
        if found.changed.len() <= max {
            let counts = found.is_counts.then_some(COUNTS);
            let changed = found.changed;
            let mut response = changed.response(&ctx.account, since, &list.cursor, list.more);
            response["updatedProperties"] = json!(counts);
            return Ok(response);
        }
        // One change can touch two mailboxes, which do not fit into one response.
        if limit == 1 {
            return Err(MethodError::no_changes());
        }
        limit /= 2;
    }
}

/// Returns the value of a property that clients sort by.
pub(super) fn sort_key(tree: &Tree<'_>, folder: &Folder, property: &str) -> Option<Value> {
    Some(match property {
        "sortOrder" => sort_order(folder).into(),
        "name" => tree.name(folder).to_lowercase().into(),
        _ => return None,
    })
}
