//! `Mailbox/query` (RFC 8621, section 2.3).

use std::cmp::Ordering;

use latchmail_sdk::capability::Folder;
use serde_json::{Value, json};

use super::mailbox::{self, Tree, role, sort_key};
use crate::Capabilities;
use crate::args::{Args, Object};
use crate::changes;
use crate::context::Context;
use crate::error::{MethodError, MethodResult};
use crate::limits::MAX_QUERY;

/// The maximum depth of a filter.
const MAX_DEPTH: usize = 20;

/// `Mailbox/query`.
pub(super) fn query<H: Capabilities>(ctx: &mut Context<'_, H>, args: &Object) -> MethodResult {
    let known = [
        "filter",
        "sort",
        "position",
        "anchor",
        "anchorOffset",
        "limit",
        "calculateTotal",
        "sortAsTree",
        "filterAsTree",
    ];
    let args = &Args::new(ctx, args, &known)?;
    let state = changes::state(ctx)?;
    let folders = ctx.folders()?;
    let ids = ids(args, &folders)?;
    let mut response = page(ctx, args, &state, &ids)?;
    response["canCalculateChanges"] = (!is_tree(args)?).into();
    Ok(response)
}

/// Returns whether the result is a tree. Then one change can move other mailboxes.
fn is_tree(args: &Args<'_>) -> Result<bool, MethodError> {
    Ok(args.flag("sortAsTree")? || args.flag("filterAsTree")?)
}

/// Returns the ids of the result of a query.
fn ids<'a>(args: &Args<'_>, folders: &'a [Folder]) -> Result<Vec<&'a str>, MethodError> {
    let tree = Tree::new(folders);
    let filter = args.object("filter")?;
    let mut found = Vec::new();
    for folder in folders {
        let mut is_selected = match filter {
            None => true,
            Some(filter) => selects(&tree, folder, filter, 0)?,
        };
        if is_selected && args.flag("filterAsTree")? {
            let mut parent = tree.parent(folder);
            while let (Some(one), Some(filter)) = (parent, filter) {
                is_selected &= selects(&tree, one, filter, 0)?;
                parent = tree.parent(one);
            }
        }
        if is_selected {
            found.push(folder);
        }
    }
    sort(&tree, args, &mut found)?;
    if args.flag("sortAsTree")? {
        found = as_tree(&tree, &found);
    }
    Ok(found.iter().map(|folder| folder.id.as_str()).collect())
}

/// `Mailbox/queryChanges`. A mailbox that changed is removed and added again.
pub(super) fn query_changes<H: Capabilities>(
    ctx: &mut Context<'_, H>,
    args: &Object,
) -> MethodResult {
    let known = [
        "filter",
        "sort",
        "sinceQueryState",
        "maxChanges",
        "upToId",
        "calculateTotal",
        "sortAsTree",
        "filterAsTree",
    ];
    let args = &Args::new(ctx, args, &known)?;
    let since = args.required("sinceQueryState")?;
    let max = changes::max_changes(args)?;
    args.text("upToId")?;
    if is_tree(args)? {
        return Err(MethodError::no_changes());
    }
    let Some((changed, state)) = mailbox::all_changed(ctx, since)? else {
        return Err(MethodError::no_changes());
    };
    let folders = ctx.folders()?;
    let ids = ids(args, &folders)?;
    let removed: Vec<&String> = changed.destroyed.union(&changed.updated).collect();
    let is_changed = |id: &str| changed.created.contains(id) || changed.updated.contains(id);
    let added: Vec<Value> = ids
        .iter()
        .enumerate()
        .filter(|(_, id)| is_changed(id))
        .map(|(index, id)| json!({ "id": id, "index": index }))
        .collect();
    if max.is_some_and(|max| removed.len() + added.len() > max) {
        return Err(MethodError::new("tooManyChanges"));
    }
    let mut response = json!({
        "accountId": ctx.account,
        "oldQueryState": since,
        "newQueryState": state,
        "removed": removed,
        "added": added,
    });
    if args.flag("calculateTotal")? {
        response["total"] = ids.len().into();
    }
    Ok(response)
}

/// Returns the response of a `/queryChanges` for a type that keeps no history.
pub(super) fn no_query_changes<H: Capabilities>(
    ctx: &Context<'_, H>,
    args: &Object,
) -> MethodResult {
    let known = [
        "filter",
        "sort",
        "sinceQueryState",
        "maxChanges",
        "upToId",
        "calculateTotal",
    ];
    let args = &Args::new(ctx, args, &known)?;
    args.required("sinceQueryState")?;
    Err(MethodError::no_changes())
}

/// Returns the response of a `/query` with all ids of its result.
pub(super) fn page<H>(
    ctx: &Context<'_, H>,
    args: &Args<'_>,
    state: &str,
    ids: &[&str],
) -> MethodResult {
    let signed = |count: usize| i64::try_from(count).unwrap_or(i64::MAX);
    let position = match args.text("anchor")? {
        Some(anchor) => {
            let at = ids.iter().position(|id| *id == anchor);
            let at = at.ok_or(MethodError::new("anchorNotFound"))?;
            signed(at).saturating_add(args.integer("anchorOffset")?.unwrap_or_default())
        }
        None => match args.integer("position")?.unwrap_or_default() {
            position if position < 0 => signed(ids.len()).saturating_add(position),
            position => position,
        },
    };
    let position = usize::try_from(position.max(0)).unwrap_or(usize::MAX);
    let given = args.unsigned("limit")?;
    let max = u64::from(MAX_QUERY);
    let limit = given.unwrap_or(max).min(max);
    let limit = usize::try_from(limit).unwrap_or(usize::MAX);
    let page: Vec<&&str> = ids.iter().skip(position).take(limit).collect();
    let mut response = json!({
        "accountId": ctx.account,
        "queryState": state,
        "canCalculateChanges": false,
        "position": position.min(ids.len()),
        "ids": page,
    });
    if args.flag("calculateTotal")? {
        response["total"] = ids.len().into();
    }
    if given.is_none_or(|given| given > max) {
        response["limit"] = MAX_QUERY.into();
    }
    Ok(response)
}

/// Returns whether a filter selects a folder.
fn selects(
    tree: &Tree<'_>,
    folder: &Folder,
    filter: &Object,
    depth: usize,
) -> Result<bool, MethodError> {
    let unsupported = |text: &str| MethodError::with("unsupportedFilter", text);
    if depth > MAX_DEPTH {
        return Err(unsupported("The filter is too deep"));
    }
    if let Some(operator) = filter.get("operator") {
        let conditions = filter.get("conditions").and_then(Value::as_array);
        let wrong = || MethodError::invalid("conditions must be an array of objects");
        let mut results = Vec::new();
        for condition in conditions.ok_or_else(wrong)? {
            let condition = condition.as_object().ok_or_else(wrong)?;
            results.push(selects(tree, folder, condition, depth + 1)?);
        }
        return match operator.as_str() {
            Some("AND") => Ok(results.iter().all(|is| *is)),
            Some("OR") => Ok(results.iter().any(|is| *is)),
            Some("NOT") => Ok(!results.iter().any(|is| *is)),
            _ => Err(MethodError::invalid("operator must be AND, OR or NOT")),
        };
    }
    let mut is_selected = true;
    for (name, value) in filter {
        is_selected &= match (name.as_str(), value) {
            ("parentId", Value::Null) => tree.parent(folder).is_none(),
            ("parentId", Value::String(id)) => {
                tree.parent(folder).is_some_and(|parent| parent.id == *id)
            }
            ("name", Value::String(text)) => {
                let name = tree.name(folder).to_lowercase();
                name.contains(&text.to_lowercase())
            }
            ("role", Value::Null) => role(folder).is_none(),
            ("role", Value::String(name)) => role(folder) == Some(name.as_str()),
            ("hasAnyRole", Value::Bool(has)) => role(folder).is_some() == *has,
            ("isSubscribed", Value::Bool(is)) => *is,
            ("parentId" | "name" | "role" | "hasAnyRole" | "isSubscribed", _) => {
                return Err(MethodError::invalid(format!("{name} has the wrong type")));
            }
            (name, _) => return Err(unsupported(name)),
        };
    }
    Ok(is_selected)
}

fn sort<'a>(tree: &Tree<'a>, args: &Args<'_>, found: &mut [&'a Folder]) -> Result<(), MethodError> {
    for key in args.objects("sort")?.into_iter().rev() {
        let property = key
            .get("property")
            .and_then(Value::as_str)
            .unwrap_or_default();
        let is_ascending = key.get("isAscending") != Some(&Value::Bool(false));
        if !["sortOrder", "name"].contains(&property) {
            return Err(MethodError::with("unsupportedSort", property));
        }
        found.sort_by(|a, b| {
            let keys = [a, b].map(|folder| sort_key(tree, folder, property));
            let order = compare(keys[0].as_ref(), keys[1].as_ref());
            if is_ascending { order } else { order.reverse() }
        });
    }
    Ok(())
}

fn compare(a: Option<&Value>, b: Option<&Value>) -> Ordering {
    let numbers = (a.and_then(Value::as_u64), b.and_then(Value::as_u64));
    let texts = (a.and_then(Value::as_str), b.and_then(Value::as_str));
    numbers.0.cmp(&numbers.1).then(texts.0.cmp(&texts.1))
}

/// Puts each folder after its parent. A folder whose parent is not in the list is a root.
fn as_tree<'a>(tree: &Tree<'a>, found: &[&'a Folder]) -> Vec<&'a Folder> {
    let is_in = |folder: &Folder| found.iter().any(|one| one.id == folder.id);
    let nearest = |folder: &Folder| {
        let mut parent = tree.parent(folder);
        while let Some(one) = parent.filter(|one| !is_in(one)) {
            parent = tree.parent(one);
        }
        parent.map(|parent| parent.id.as_str())
    };
    let mut sorted = Vec::with_capacity(found.len());
    let mut stack: Vec<&'a Folder> = found
        .iter()
        .rev()
        .copied()
        .filter(|folder| nearest(folder).is_none())
        .collect();
    while let Some(folder) = stack.pop() {
        sorted.push(folder);
        let children = found.iter().rev().copied();
        stack.extend(children.filter(|one| nearest(one) == Some(folder.id.as_str())));
    }
    sorted
}
