//! `Mailbox/set` (RFC 8621, section 2.5).

use std::rc::Rc;

use latchmail_sdk::capability::{Error, Folder, MessageDisposal};
use serde_json::{Value, json};

use super::mailbox::{PROPERTIES, Tree, object, role, sort_order};
use crate::Capabilities;
use crate::args::{Args, Object};
use crate::changes;
use crate::context::Context;
use crate::error::{MethodError, MethodResult, SetError};
use crate::limits::{MAX_MAILBOX_DEPTH, MAX_MAILBOX_NAME};
use crate::set::{Patched, Requested, Results, patch};

/// `Mailbox/set`.
pub(super) fn set<H: Capabilities>(ctx: &mut Context<'_, H>, args: &Object) -> MethodResult {
    let known = [
        "ifInState",
        "create",
        "update",
        "destroy",
        "onDestroyRemoveEmails",
    ];
    let args = &Args::new(ctx, args, &known)?;
    ctx.require_write()?;
    let old = changes::state_for_set(ctx, args)?;
    let with_emails = args.flag("onDestroyRemoveEmails")?;
    let mut results = Results::default();
    let mut waiting = Requested::read(ctx, args)?.create;
    // A mailbox can be created in a mailbox of the same request, in any order.
    loop {
        let before = waiting.len();
        let mut later = Vec::new();
        for (creation_id, object) in waiting {
            let parent = object.get("parentId").and_then(Value::as_str);
            let is_pending = parent
                .is_some_and(|parent| parent.starts_with('#') && ctx.resolve(parent) == parent);
            if is_pending {
                later.push((creation_id, object));
                continue;
            }
            let created = create(ctx, object);
            results.created(ctx, creation_id, created);
        }
        waiting = later;
        if waiting.is_empty() || waiting.len() == before {
            break;
        }
    }
    for (creation_id, _) in waiting {
        let error = SetError::invalid(&["parentId"], "The mailbox does not exist");
        results.created(ctx, creation_id, Err(error));
    }
    let requested = Requested::read(ctx, args)?;
    for (id, changes) in &requested.update {
        let updated = if requested.destroy.contains(id) {
            Err(SetError::new("willDestroy"))
        } else {
            update(ctx, id, changes)
        };
        results.updated(id, updated);
    }
    destroy_all(ctx, requested.destroy, with_emails, &mut results)?;
    let new = changes::state(ctx)?;
    results.response(&ctx.account, &old, &new)
}

/// Returns the folder with an id.
fn find(folders: &Rc<Vec<Folder>>, id: &str) -> Result<Folder, SetError> {
    let found = folders.iter().find(|folder| folder.id == id);
    found.cloned().ok_or(SetError::not_found())
}

/// Checks a name, and returns the path of a folder in a parent.
fn path<H: Capabilities>(
    ctx: &mut Context<'_, H>,
    name: &str,
    parent: Option<&str>,
) -> Result<String, SetError> {
    let folders = ctx.folders()?;
    let delimiter = folders
        .first()
        .map(|folder| folder.delimiter.clone())
        .unwrap_or_default();
    let is_valid = !name.is_empty()
        && name.len() <= MAX_MAILBOX_NAME
        && !name.chars().any(char::is_control)
        && (delimiter.is_empty() || !name.contains(&delimiter));
    if !is_valid {
        return Err(SetError::invalid(
            &["name"],
            "No mailbox can have this name",
        ));
    }
    let Some(parent) = parent else {
        return Ok(name.into());
    };
    let invalid = |text: &str| SetError::invalid(&["parentId"], text);
    let parent = find(&folders, ctx.resolve(parent));
    let parent = parent.map_err(|_| invalid("The mailbox does not exist"))?;
    if delimiter.is_empty() || Tree::new(&folders).depth(&parent) >= MAX_MAILBOX_DEPTH {
        return Err(invalid("The mailbox cannot have children"));
    }
    Ok(format!("{}{delimiter}{name}", parent.path))
}

/// Converts an error of the host about a path.
fn path_error(error: Error) -> SetError {
    match error {
        Error::Conflict(problem) | Error::Invalid(problem) => {
            SetError::invalid(&["name"], problem.text)
        }
        error => error.into(),
    }
}

/// Checks the value of a property that never changes.
fn check_constant(name: &str, value: &Value, folder: Option<&Folder>) -> Result<(), SetError> {
    let is_unchanged = match (name, folder) {
        ("role", folder) => *value == json!(folder.and_then(role)),
        ("sortOrder", Some(folder)) => *value == json!(sort_order(folder)),
        // The host sorts new mailboxes after those with a role.
        ("sortOrder", None) => value.is_u64(),
        ("isSubscribed", _) => *value == Value::Bool(true),
        _ => false,
    };
    if is_unchanged {
        return Ok(());
    }
    Err(SetError::invalid(
        &[name],
        "The property cannot have this value",
    ))
}

fn create<H: Capabilities>(
    ctx: &mut Context<'_, H>,
    properties: &Object,
) -> Result<Value, SetError> {
    let (mut name, mut parent) = (None, None);
    for (property, value) in properties {
        match (property.as_str(), value) {
            ("name", Value::String(text)) => name = Some(text.as_str()),
            ("parentId", Value::Null) => {}
            ("parentId", Value::String(id)) => parent = Some(id.as_str()),
            (name, value) => check_constant(name, value, None)?,
        }
    }
    let name = name.ok_or_else(|| SetError::invalid(&["name"], "The name is missing"))?;
    let path = path(ctx, name, parent)?;
    let created = ctx.host.create_folder(&path).map_err(path_error)?;
    ctx.forget_folders();
    let folders = ctx.folders()?;
    let tree = Tree::new(&folders);
    let mut created = object(ctx, &tree, &created, None);
    for name in [
        "totalEmails",
        "unreadEmails",
        "totalThreads",
        "unreadThreads",
    ] {
        created.insert(name.into(), 0.into());
    }
    created.retain(|name, value| properties.get(name) != Some(&*value));
    Ok(created.into())
}

fn update<H: Capabilities>(
    ctx: &mut Context<'_, H>,
    id: &str,
    changes: &Object,
) -> Result<Option<Value>, SetError> {
    let folders = ctx.folders()?;
    let folder = find(&folders, id)?;
    let tree = Tree::new(&folders);
    let old_name = tree.name(&folder).to_owned();
    let old_parent = tree.parent(&folder).map(|parent| parent.id.clone());
    let (mut name, mut parent) = (old_name.clone(), old_parent.clone());
    for Patched {
        property,
        member,
        value,
    } in patch(changes)?
    {
        match (property, member, value) {
            ("name", None, Value::String(text)) => name.clone_from(text),
            ("parentId", None, Value::Null) => parent = None,
            ("parentId", None, Value::String(id)) => {
                parent = Some(ctx.resolve(id).to_owned());
            }
            ("id", None, Value::String(text)) if text == id => {}
            (property, None, value) => check_constant(property, value, Some(&folder))?,
            (property, Some(_), _) if PROPERTIES.contains(&property) => {
                return Err(SetError::with("invalidPatch", "The path does not exist"));
            }
            (property, Some(_), _) => {
                return Err(SetError::invalid(
                    &[property],
                    "The property does not exist",
                ));
            }
        }
    }
    if (&name, &parent) == (&old_name, &old_parent) {
        return Ok(None);
    }
    let path = path(ctx, &name, parent.as_deref())?;
    let inside = format!("{}{}", folder.path, folder.delimiter);
    if path.starts_with(&inside) {
        let text = "A mailbox cannot be in itself";
        return Err(SetError::invalid(&["parentId"], text));
    }
    let renamed = ctx.host.rename_folder(&folder.path, &path);
    ctx.forget_folders();
    match renamed {
        Ok(_) => Ok(None),
        Err(Error::Conflict(problem)) if folder.role.is_some() => {
            Err(SetError::with("forbidden", problem.text))
        }
        Err(error) => Err(path_error(error)),
    }
}

/// Destroys mailboxes, those in other mailboxes first.
fn destroy_all<H: Capabilities>(
    ctx: &mut Context<'_, H>,
    mut ids: Vec<String>,
    with_emails: bool,
    results: &mut Results,
) -> Result<(), MethodError> {
    if ids.is_empty() {
        return Ok(());
    }
    let folders = ctx.folders()?;
    let tree = Tree::new(&folders);
    ids.sort();
    ids.dedup();
    ids.sort_by_key(|id| std::cmp::Reverse(tree.find(id).map(|folder| tree.depth(folder))));
    for id in ids {
        let destroyed = destroy(ctx, &id, with_emails);
        results.destroyed(&id, destroyed);
    }
    Ok(())
}

fn destroy<H: Capabilities>(
    ctx: &mut Context<'_, H>,
    id: &str,
    with_emails: bool,
) -> Result<(), SetError> {
    let folders = ctx.folders()?;
    let folder = find(&folders, id)?;
    if folder.role.is_some() {
        return Err(SetError::with(
            "forbidden",
            "A mailbox with a role cannot be destroyed",
        ));
    }
    if Tree::new(&folders).has_children(&folder) {
        return Err(SetError::new("mailboxHasChild"));
    }
    let disposal = if with_emails {
        MessageDisposal::Delete
    } else {
        MessageDisposal::Refuse
    };
    let deleted = ctx.host.delete_folder(&folder.path, disposal);
    ctx.forget_folders();
    deleted.map_err(|error| match error {
        Error::Conflict(problem) if problem.code == "folder_has_subfolders" => {
            SetError::new("mailboxHasChild")
        }
        Error::Conflict(_) => SetError::new("mailboxHasEmail"),
        error => error.into(),
    })
}
