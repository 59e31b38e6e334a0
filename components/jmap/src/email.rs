//! Emails (RFC 8621, section 4).

mod body;
mod create;
mod fields;
mod import;
mod keywords;
mod new_part;
mod object;
mod parse;
mod set;
mod update;

use std::collections::{HashMap, HashSet};

use latchmail_sdk::capability::{MessageFacts, Summary};
use serde_json::{Value, json};

use crate::Capabilities;
use crate::args::{Args, Object, select, to_utc_date};
use crate::changes;
use crate::context::Context;
use crate::error::{MethodError, MethodResult};
use crate::ids::{self, BlobId};
use crate::limits::{MAX_CHANGES, MAX_RESPONSES};

pub(crate) use import::import;
pub(crate) use keywords::flag_of;
pub(crate) use object::{Options, load, recipients};
pub(crate) use parse::parse;
pub(crate) use set::{apply_implied, set};

/// The properties that a `/get` returns by default (RFC 8621, section 4.2).
const DEFAULT: [&str; 24] = [
    "id",
    "blobId",
    "threadId",
    "mailboxIds",
    "keywords",
    "size",
    "receivedAt",
    "messageId",
    "inReplyTo",
    "references",
    "sender",
    "from",
    "to",
    "cc",
    "bcc",
    "replyTo",
    "subject",
    "sentAt",
    "hasAttachment",
    "preview",
    "bodyValues",
    "textBody",
    "htmlBody",
    "attachments",
];
/// The properties that the host has in memory.
const FACTS: [&str; 8] = [
    "id",
    "blobId",
    "threadId",
    "mailboxIds",
    "keywords",
    "size",
    "receivedAt",
    "hasAttachment",
];
/// The properties that the host's summaries have, too. They are used if the header is not needed
/// for another property.
const SUMMARY: [&str; 4] = ["from", "to", "subject", "preview"];
/// The maximum numbers of messages in one host call.
const MAX_FACTS: usize = 1_000;
const MAX_SUMMARIES: usize = 100;

/// `Email/get` (RFC 8621, section 4.2).
pub(crate) fn get<H: Capabilities>(ctx: &mut Context<'_, H>, args: &Object) -> MethodResult {
    let known = [
        "ids",
        "properties",
        "bodyProperties",
        "fetchTextBodyValues",
        "fetchHTMLBodyValues",
        "fetchAllBodyValues",
        "maxBodyValueBytes",
    ];
    let args = &Args::new(ctx, args, &known)?;
    let properties = args.properties(&DEFAULT)?;
    let options = Options::read(args, &properties)?;
    let Some(requested) = args.ids()? else {
        // An account has more emails than one response can contain.
        return Err(MethodError::with("requestTooLarge", "ids must not be null"));
    };
    // The state is read first, so that the objects are at least as new.
    let state = changes::state(ctx)?;
    let requested: Vec<&str> = requested.into_iter().map(|id| ctx.resolve(id)).collect();
    let uids: Vec<u64> = requested.iter().filter_map(|id| ids::number(id)).collect();
    let facts = facts(ctx, &uids)?;
    let existing: Vec<u64> = uids
        .iter()
        .copied()
        .filter(|uid| facts.contains_key(uid))
        .collect();
    let needs_raw = options.needs_raw(&FACTS, &SUMMARY);
    let needs_summary = properties.contains(&"preview")
        || (!needs_raw && properties.iter().any(|name| SUMMARY.contains(name)));
    let summaries = if needs_summary {
        summaries(ctx, &existing)?
    } else {
        HashMap::new()
    };
    let (mut list, mut not_found, mut size) = (Vec::new(), Vec::new(), 0);
    for id in requested {
        let found = ids::number(id).and_then(|uid| facts.get(&uid));
        let Some(found) = found else {
            not_found.push(id);
            continue;
        };
        let mut object = of_facts(found);
        if let Some(summary) = summaries.get(&found.uid) {
            add_summary(&mut object, summary, needs_raw);
        }
        if needs_raw {
            let blob = match ctx.host.get_raw_message(found.uid) {
                Ok(raw) => raw.content,
                // The message was just deleted.
                Err(latchmail_sdk::capability::Error::NotFound) => {
                    not_found.push(id);
                    continue;
                }
                Err(error) => return Err(error.into()),
            };
            let message = load(&blob, options.needs_body())?;
            options.add(&mut object, &message, &blob, &BlobId::Message(found.uid))?;
        }
        let object = select(object, &properties);
        size += approximate_size(&object);
        if size > MAX_RESPONSES {
            let text = "The emails exceed the maximum size of a response";
            return Err(MethodError::with("requestTooLarge", text));
        }
        list.push(object);
    }
    Ok(json!({
        "accountId": ctx.account,
        "state": state,
        "list": list,
        "notFound": not_found,
    }))
}

/// Returns about the size of a value in JSON, and at least the size of its texts.
fn approximate_size(value: &Value) -> usize {
    match value {
        Value::String(text) => text.len() + 3,
        Value::Array(entries) => entries.iter().map(approximate_size).sum::<usize>() + 2,
        Value::Object(members) => {
            let members = members.iter();
            members
                .map(|(name, one)| name.len() + 4 + approximate_size(one))
                .sum::<usize>()
                + 2
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => 5,
    }
}

/// Returns the data of messages in memory, by number.
pub(crate) fn facts<H: Capabilities>(
    ctx: &Context<'_, H>,
    uids: &[u64],
) -> Result<HashMap<u64, MessageFacts>, MethodError> {
    let mut all = HashMap::with_capacity(uids.len());
    for uids in uids.chunks(MAX_FACTS) {
        let facts = ctx.host.get_facts(uids)?;
        all.extend(facts.into_iter().map(|one| (one.uid, one)));
    }
    Ok(all)
}

fn summaries<H: Capabilities>(
    ctx: &Context<'_, H>,
    uids: &[u64],
) -> Result<HashMap<u64, Summary>, MethodError> {
    let mut all = HashMap::with_capacity(uids.len());
    for uids in uids.chunks(MAX_SUMMARIES) {
        let hits = ctx.host.get_summaries(uids)?;
        all.extend(hits.into_iter().map(|hit| (hit.summary.uid, hit.summary)));
    }
    Ok(all)
}

/// Returns the properties of [`FACTS`].
fn of_facts(facts: &MessageFacts) -> Object {
    let mut mailboxes = Object::new();
    mailboxes.insert(facts.folder_id.clone(), true.into());
    let values = [
        ("id", facts.uid.to_string().into()),
        ("blobId", BlobId::Message(facts.uid).to_string().into()),
        ("threadId", facts.thread_id.as_str().into()),
        ("mailboxIds", mailboxes.into()),
        ("keywords", keywords::of_flags(&facts.flags).into()),
        ("size", facts.size.into()),
        ("receivedAt", to_utc_date(facts.received_at).into()),
        ("hasAttachment", facts.has_attachment.into()),
    ];
    let values = values.into_iter();
    values
        .map(|(name, value)| (name.to_owned(), value))
        .collect()
}

/// Adds the properties of [`SUMMARY`]. Without `preview_only`, adds all of them.
fn add_summary(object: &mut Object, summary: &Summary, preview_only: bool) {
    object.insert("preview".into(), summary.preview.as_str().into());
    if preview_only {
        return;
    }
    let addresses = |list: &[latchmail_sdk::capability::Address]| -> Value {
        let address = |one: &latchmail_sdk::capability::Address| {
            let name = (!one.name.is_empty()).then_some(&one.name);
            json!({ "name": name, "email": one.address })
        };
        if list.is_empty() {
            return Value::Null;
        }
        list.iter().map(address).collect()
    };
    object.insert("from".into(), addresses(&summary.from));
    object.insert("to".into(), addresses(&summary.to));
    let subject = (!summary.subject.is_empty()).then_some(summary.subject.as_str());
    object.insert("subject".into(), json!(subject));
}

/// `Email/changes` (RFC 8621, section 4.3).
pub(crate) fn changes<H: Capabilities>(ctx: &mut Context<'_, H>, args: &Object) -> MethodResult {
    let args = &Args::new(ctx, args, &["sinceState", "maxChanges"])?;
    let since = args.required("sinceState")?;
    let max = changes::max_changes(args)?.unwrap_or(MAX_CHANGES as usize);
    let (emails, list) = changes::page(ctx, since, Some(max))?;
    let changed = changes::Changed::of_emails(&emails);
    Ok(changed.response(&ctx.account, since, &list.cursor, list.more))
}

/// Returns each number once, in order.
pub(crate) fn distinct(uids: impl IntoIterator<Item = u64>) -> Vec<u64> {
    let mut known = HashSet::new();
    uids.into_iter().filter(|uid| known.insert(*uid)).collect()
}
