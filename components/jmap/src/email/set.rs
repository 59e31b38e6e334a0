//! `Email/set` (RFC 8621, section 4.6).

use std::collections::BTreeSet;

use super::update::{self, Update};
use super::{create, distinct, facts};
use crate::Capabilities;
use crate::args::{Args, Object};
use crate::changes;
use crate::context::Context;
use crate::error::{MethodError, MethodResult, SetError};
use crate::ids;
use crate::set::{Requested, Results};

/// `Email/set`.
pub(crate) fn set<H: Capabilities>(ctx: &mut Context<'_, H>, args: &Object) -> MethodResult {
    let known = ["ifInState", "create", "update", "destroy"];
    let args = &Args::new(ctx, args, &known)?;
    ctx.require_write()?;
    let old = changes::state_for_set(ctx, args)?;
    let requested = Requested::read(ctx, args)?;
    let mut results = Results::default();
    for (creation_id, object) in &requested.create {
        let created = create::create(ctx, object);
        results.created(ctx, creation_id, created);
    }
    // A patch can name an email that this request has created.
    let requested = if requested.create.is_empty() {
        requested
    } else {
        Requested::read(ctx, args)?
    };
    let patches: Vec<(String, &Object)> = requested
        .update
        .into_iter()
        .filter(|(id, _)| {
            let is_destroyed = requested.destroy.contains(id);
            if is_destroyed {
                results.updated(id, Err(SetError::new("willDestroy")));
            }
            !is_destroyed
        })
        .collect();
    update_all(ctx, &patches, &mut results)?;
    destroy_all(ctx, &requested.destroy, &mut results);
    let new = changes::state(ctx)?;
    results.response(&ctx.account, &old, &new)
}

/// Updates emails.
fn update_all<H: Capabilities>(
    ctx: &mut Context<'_, H>,
    patches: &[(String, &Object)],
    results: &mut Results,
) -> Result<(), MethodError> {
    if patches.is_empty() {
        return Ok(());
    }
    let uids = distinct(patches.iter().filter_map(|(id, _)| ids::number(id)));
    let facts = facts(ctx, &uids)?;
    let mut updates = Vec::new();
    for (id, patch) in patches {
        let found = ids::number(id).and_then(|uid| facts.get(&uid));
        let update = match found {
            Some(found) => Update::read(ctx, found, patch).map(|update| (found.uid, update)),
            None => Err(SetError::not_found()),
        };
        match update {
            Ok(update) => updates.push(update),
            Err(error) => results.updated(id, Err(error)),
        }
    }
    for (uid, result) in update::apply(ctx, updates) {
        results.updated(&uid.to_string(), result.map(|()| None));
    }
    Ok(())
}

fn destroy_all<H: Capabilities>(ctx: &Context<'_, H>, ids: &[String], results: &mut Results) {
    let uids = distinct(ids.iter().filter_map(|id| ids::number(id)));
    let deleted = if uids.is_empty() {
        Ok(Vec::new())
    } else {
        ctx.host
            .delete_messages(&uids, None)
            .map_err(SetError::from)
    };
    let mut known = BTreeSet::new();
    for id in ids {
        if !known.insert(id) {
            continue;
        }
        let result = match (ids::number(id), &deleted) {
            (Some(uid), Ok(deleted)) if deleted.contains(&uid) => Ok(()),
            (Some(_), Err(error)) => Err(error.clone()),
            _ => Err(SetError::not_found()),
        };
        results.destroyed(id, result);
    }
}

/// Makes the changes that a successful submission implies (RFC 8621, section 7.5), and adds the
/// response of `Email/set`.
pub(crate) fn apply_implied<H: Capabilities>(
    ctx: &mut Context<'_, H>,
    updates: &[(String, &Object)],
    destroy: &[String],
) -> Result<(), MethodError> {
    let old = changes::state(ctx)?;
    let mut results = Results::default();
    let response = ctx.require_write().and_then(|()| {
        update_all(ctx, updates, &mut results)?;
        destroy_all(ctx, destroy, &mut results);
        let new = changes::state(ctx)?;
        results.response(&ctx.account, &old, &new)
    });
    match response {
        Ok(response) => ctx.implied.push(("Email/set", response)),
        Err(error) if error.is_credential_refused => return Err(error),
        Err(error) => ctx.implied.push(("error", error.to_json())),
    }
    Ok(())
}
