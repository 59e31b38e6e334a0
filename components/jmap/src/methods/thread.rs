//! Threads (RFC 8621, section 3).

use std::collections::{BTreeMap, BTreeSet, HashMap};

use serde_json::json;

use crate::Capabilities;
use crate::args::{Args, Object, check_properties, select};
use crate::changes::{self, Changed, Kind};
use crate::context::Context;
use crate::email;
use crate::error::{MethodError, MethodResult};

const PROPERTIES: [&str; 2] = ["id", "emailIds"];

/// `Thread/get` (RFC 8621, section 3.1).
pub(super) fn get<H: Capabilities>(ctx: &mut Context<'_, H>, args: &Object) -> MethodResult {
    let args = &Args::new(ctx, args, &["ids", "properties"])?;
    let properties = args.properties(&PROPERTIES)?;
    check_properties(&properties, &PROPERTIES)?;
    let Some(ids) = args.ids()? else {
        return Err(MethodError::with("requestTooLarge", "ids must not be null"));
    };
    let state = changes::state(ctx)?;
    let requested: Vec<String> = ids.iter().map(|id| (*id).to_owned()).collect();
    let threads = ctx.host.get_threads(&requested)?;
    let threads: HashMap<&str, &Vec<u64>> = threads
        .iter()
        .map(|one| (one.requested.as_str(), &one.uids))
        .collect();
    let (mut list, mut not_found) = (Vec::new(), Vec::new());
    for id in ids {
        let Some(uids) = threads.get(id) else {
            not_found.push(id);
            continue;
        };
        let emails: Vec<String> = uids.iter().map(ToString::to_string).collect();
        let mut thread = Object::new();
        thread.insert("id".into(), id.into());
        thread.insert("emailIds".into(), json!(emails));
        list.push(select(thread, &properties));
    }
    Ok(json!({
        "accountId": ctx.account,
        "state": state,
        "list": list,
        "notFound": not_found,
    }))
}

/// `Thread/changes` (RFC 8621, section 3.2). The thread of a destroyed email is not known.
pub(super) fn changes<H: Capabilities>(ctx: &mut Context<'_, H>, args: &Object) -> MethodResult {
    let args = &Args::new(ctx, args, &["sinceState", "maxChanges"])?;
    let since = args.required("sinceState")?;
    let max = changes::max_changes(args)?;
    let (emails, list) = changes::page(ctx, since, max)?;
    if emails.values().any(|kind| *kind == Kind::Destroyed) {
        return Err(MethodError::no_changes());
    }
    // Other changes of emails do not change their threads.
    let created = emails.iter().filter(|(_, kind)| **kind == Kind::Created);
    let created: BTreeSet<u64> = created.map(|(uid, _)| *uid).collect();
    let uids: Vec<u64> = created.iter().copied().collect();
    let mut threads: BTreeMap<String, BTreeSet<u64>> = BTreeMap::new();
    for facts in email::facts(ctx, &uids)?.into_values() {
        threads
            .entry(facts.thread_id)
            .or_default()
            .insert(facts.uid);
    }
    let ids: Vec<String> = threads.keys().cloned().collect();
    let mut changed = Changed::default();
    for thread in ctx.host.get_threads(&ids)? {
        let is_new = thread.uids.iter().all(|uid| created.contains(uid));
        let ids = if is_new {
            &mut changed.created
        } else {
            &mut changed.updated
        };
        ids.insert(thread.requested);
    }
    Ok(changed.response(&ctx.account, since, &list.cursor, list.more))
}
