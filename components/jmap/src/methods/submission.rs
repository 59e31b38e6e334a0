//! Submissions (RFC 8621, section 7). The host keeps the messages that leave later, and the module
//! stores what a client needs to know about the last submissions.

use latchmail_sdk::capability::Error;
use latchmail_sdk::stored;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::mailbox_query::{no_query_changes, page};
use crate::Capabilities;
use crate::args::{Args, Object, check_properties, select, to_utc_date, utc_date};
use crate::changes;
use crate::context::Context;
use crate::error::{MethodError, MethodResult};

const PROPERTIES: [&str; 10] = [
    "id",
    "identityId",
    "emailId",
    "threadId",
    "envelope",
    "sendAt",
    "undoStatus",
    "deliveryStatus",
    "dsnBlobIds",
    "mdnBlobIds",
];
/// The number of submissions that are kept.
const MAX_KEPT: u64 = 100;
/// The key of [`Counter`], and the beginning of the keys of submissions.
const COUNTER: &str = "submissions";
const PREFIX: &str = "submission/";

/// The number of the last submission, and the number of changes of all submissions.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
struct Counter {
    last: u64,
    changes: u64,
}

/// A submission.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Submission {
    pub(super) number: u64,
    pub(super) identity: String,
    pub(super) email: String,
    pub(super) thread: String,
    pub(super) envelope: Value,
    pub(super) send_at: i64,
    /// The id in the outbox of a message that leaves later.
    pub(super) entry: Option<String>,
}

impl Submission {
    pub(super) fn id(&self) -> String {
        format!("S{}", self.number)
    }

    /// Returns `pending`, `final` or `canceled`.
    pub(super) fn undo_status<H: Capabilities>(
        &self,
        ctx: &Context<'_, H>,
    ) -> Result<&'static str, MethodError> {
        let Some(entry) = &self.entry else {
            return Ok("final");
        };
        match ctx.host.get_entry(entry) {
            Ok(entry) if entry.state == "scheduled" => Ok("pending"),
            Ok(entry) if entry.state == "cancelled" => Ok("canceled"),
            Ok(_) | Err(Error::NotFound) => Ok("final"),
            Err(error) => Err(error.into()),
        }
    }

    pub(super) fn object<H: Capabilities>(
        &self,
        ctx: &Context<'_, H>,
    ) -> Result<Object, MethodError> {
        Ok(self.with_status(self.undo_status(ctx)?))
    }

    /// Returns the properties with a known `undoStatus`.
    pub(super) fn with_status(&self, undo_status: &str) -> Object {
        let object = json!({
            "id": self.id(),
            "identityId": self.identity,
            "emailId": self.email,
            "threadId": self.thread,
            "envelope": self.envelope,
            "sendAt": to_utc_date(self.send_at),
            "undoStatus": undo_status,
            "deliveryStatus": null,
            "dsnBlobIds": [],
            "mdnBlobIds": [],
        });
        object.as_object().cloned().unwrap_or_default()
    }
}

fn key(number: u64) -> String {
    format!("{PREFIX}{number:020}")
}

/// Returns the state of all submissions.
pub(super) fn state<H: Capabilities>(ctx: &Context<'_, H>) -> Result<String, MethodError> {
    let counter: Option<Counter> = stored::read(ctx.host, COUNTER)?;
    Ok(format!("s{}", counter.unwrap_or_default().changes))
}

/// Counts a change, and returns the number of a new submission.
fn count<H: Capabilities>(ctx: &Context<'_, H>, is_new: bool) -> Result<u64, Error> {
    let counter = stored::change(ctx.host, COUNTER, |counter: Option<Counter>| {
        let counter = counter.unwrap_or_default();
        Some(Counter {
            last: counter.last + u64::from(is_new),
            changes: counter.changes + 1,
        })
    })?;
    Ok(counter.unwrap_or_default().last)
}

/// Stores a new submission, and forgets an old one.
pub(super) fn add<H: Capabilities>(
    ctx: &Context<'_, H>,
    mut submission: Submission,
) -> Result<Submission, Error> {
    submission.number = count(ctx, true)?;
    stored::write(ctx.host, &key(submission.number), &submission)?;
    if let Some(old) = submission.number.checked_sub(MAX_KEPT) {
        ctx.host.delete_value(&key(old))?;
    }
    Ok(submission)
}

/// Counts a change of a submission.
pub(super) fn changed<H: Capabilities>(ctx: &Context<'_, H>) -> Result<(), Error> {
    count(ctx, false).map(drop)
}

/// Forgets a submission. The message still leaves.
pub(super) fn remove<H: Capabilities>(
    ctx: &Context<'_, H>,
    submission: &Submission,
) -> Result<(), Error> {
    ctx.host.delete_value(&key(submission.number))?;
    changed(ctx)
}

/// Returns a submission.
pub(super) fn find<H: Capabilities>(
    ctx: &Context<'_, H>,
    id: &str,
) -> Result<Option<Submission>, MethodError> {
    let number = id.strip_prefix('S').and_then(crate::ids::number);
    let Some(number) = number else {
        return Ok(None);
    };
    Ok(stored::read(ctx.host, &key(number))?)
}

/// Returns all submissions, oldest first.
fn all<H: Capabilities>(ctx: &Context<'_, H>) -> Result<Vec<Submission>, MethodError> {
    let mut all = Vec::new();
    for key in ctx.host.list_keys(PREFIX, None, 1_000)? {
        // Another request can have removed it.
        all.extend(stored::read::<Submission>(ctx.host, &key)?);
    }
    Ok(all)
}

/// `EmailSubmission/get` (RFC 8621, section 7.1).
pub(super) fn get<H: Capabilities>(ctx: &mut Context<'_, H>, args: &Object) -> MethodResult {
    let args = &Args::new(ctx, args, &["ids", "properties"])?;
    let properties = args.properties(&PROPERTIES)?;
    check_properties(&properties, &PROPERTIES)?;
    let ids = args.ids()?;
    let state = state(ctx)?;
    let (mut found, mut not_found) = (Vec::new(), Vec::new());
    match ids {
        None => found = all(ctx)?,
        Some(ids) => {
            for id in ids {
                match find(ctx, ctx.resolve(id))? {
                    Some(submission) => found.push(submission),
                    None => not_found.push(id),
                }
            }
        }
    }
    let mut list = Vec::with_capacity(found.len());
    for submission in found {
        list.push(select(submission.object(ctx)?, &properties));
    }
    Ok(json!({
        "accountId": ctx.account,
        "state": state,
        "list": list,
        "notFound": not_found,
    }))
}

/// `EmailSubmission/changes` (RFC 8621, section 7.2).
pub(super) fn changes<H: Capabilities>(ctx: &mut Context<'_, H>, args: &Object) -> MethodResult {
    let args = &Args::new(ctx, args, &["sinceState", "maxChanges"])?;
    let current = state(ctx)?;
    changes::without_history(ctx, args, &current)
}

/// `EmailSubmission/query` (RFC 8621, section 7.3).
pub(super) fn query<H: Capabilities>(ctx: &mut Context<'_, H>, args: &Object) -> MethodResult {
    let known = [
        "filter",
        "sort",
        "position",
        "anchor",
        "anchorOffset",
        "limit",
        "calculateTotal",
    ];
    let args = &Args::new(ctx, args, &known)?;
    let state = state(ctx)?;
    let mut found = Vec::new();
    for submission in all(ctx)? {
        if selects(ctx, args, &submission)? {
            found.push(submission);
        }
    }
    for key in args.objects("sort")?.into_iter().rev() {
        match key.get("property").and_then(Value::as_str) {
            Some("emailId") => found.sort_by(|a, b| a.email.cmp(&b.email)),
            Some("threadId") => found.sort_by(|a, b| a.thread.cmp(&b.thread)),
            Some("sentAt" | "sendAt") => found.sort_by_key(|one| one.send_at),
            _ => return Err(MethodError::new("unsupportedSort")),
        }
        if key.get("isAscending") == Some(&Value::Bool(false)) {
            found.reverse();
        }
    }
    let ids: Vec<String> = found.iter().map(Submission::id).collect();
    let ids: Vec<&str> = ids.iter().map(String::as_str).collect();
    page(ctx, args, &state, &ids)
}

/// Returns whether the filter of a query selects a submission. There are no operators.
fn selects<H: Capabilities>(
    ctx: &Context<'_, H>,
    args: &Args<'_>,
    submission: &Submission,
) -> Result<bool, MethodError> {
    let mut is_selected = true;
    for (name, value) in args.object("filter")?.into_iter().flatten() {
        let wrong = || MethodError::invalid(format!("{name} has the wrong type"));
        let time = || value.as_str().and_then(utc_date).ok_or_else(wrong);
        let is_in = |id: &str| {
            let ids = value.as_array().ok_or_else(wrong)?;
            Ok::<_, MethodError>(ids.iter().any(|one| one.as_str() == Some(id)))
        };
        is_selected &= match name.as_str() {
            "identityIds" => is_in(&submission.identity)?,
            "emailIds" => is_in(&submission.email)?,
            "threadIds" => is_in(&submission.thread)?,
            "undoStatus" => {
                let status = value.as_str().ok_or_else(wrong)?;
                submission.undo_status(ctx)? == status
            }
            "before" => submission.send_at < time()?,
            "after" => submission.send_at >= time()?,
            other => return Err(MethodError::with("unsupportedFilter", other)),
        };
    }
    Ok(is_selected)
}

/// `EmailSubmission/queryChanges`. The changes are not known.
pub(super) fn query_changes<H: Capabilities>(
    ctx: &mut Context<'_, H>,
    args: &Object,
) -> MethodResult {
    no_query_changes(ctx, args)
}
