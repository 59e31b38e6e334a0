//! The states of emails, threads and mailboxes: cursors of the host's change log. All three types
//! have the same states, because every change of the mailbox changes the state of each.

use std::collections::{BTreeMap, BTreeSet};

use latchmail_sdk::capability::{Change, ChangeList, QueryError};
use serde_json::{Value, json};

use crate::Capabilities;
use crate::args::Args;
use crate::context::Context;
use crate::error::{MethodError, MethodResult};
use crate::limits::MAX_CHANGES;

/// How an email changed between two states.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Created,
    Updated,
    Destroyed,
}

/// The emails that changed, by number.
pub(crate) type EmailChanges = BTreeMap<u64, Kind>;

/// Returns the current state.
pub(crate) fn state<H: Capabilities>(ctx: &Context<'_, H>) -> Result<String, MethodError> {
    Ok(ctx.host.message_changes(None, 1)?.cursor)
}

/// Returns whether nothing changed between a state and the current one. The texts of such states
/// can differ, because the log also has the events of the outbox.
pub(crate) fn is_current<H: Capabilities>(
    ctx: &Context<'_, H>,
    state: &str,
    current: &str,
) -> Result<bool, MethodError> {
    if state == current {
        return Ok(true);
    }
    match ctx.host.message_changes(Some(state), 1) {
        Ok(list) => Ok(list.changes.is_empty() && !list.more),
        Err(QueryError::CursorExpired) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

/// Returns the current state of a `/set`, and checks `ifInState`.
pub(crate) fn state_for_set<H: Capabilities>(
    ctx: &Context<'_, H>,
    args: &Args<'_>,
) -> Result<String, MethodError> {
    let current = state(ctx)?;
    if let Some(expected) = args.text("ifInState")?
        && !is_current(ctx, expected, &current)?
    {
        return Err(MethodError::new("stateMismatch"));
    }
    Ok(current)
}

/// Returns the argument `maxChanges` of a `/changes`.
pub(crate) fn max_changes(args: &Args<'_>) -> Result<Option<usize>, MethodError> {
    match args.unsigned("maxChanges")? {
        Some(0) => Err(MethodError::invalid("maxChanges must not be 0")),
        max => Ok(max.map(|max| usize::try_from(max).unwrap_or(usize::MAX))),
    }
}

/// Returns the changes of emails in a part of the change log.
pub(crate) fn emails(list: &ChangeList) -> EmailChanges {
    let mut emails = EmailChanges::new();
    for change in &list.changes {
        let (uid, kind) = match change {
            Change::Created(message) => (message.uid, Kind::Created),
            Change::Flags(message) => (message.uid, Kind::Updated),
            Change::Moved(moved) => (moved.message.uid, Kind::Updated),
            Change::Deleted(deleted) => (deleted.uid, Kind::Destroyed),
            Change::FolderCreated(_) | Change::FolderRenamed(_) | Change::FolderDeleted(_) => {
                continue;
            }
        };
        match (emails.get(&uid), kind) {
            (Some(Kind::Created), Kind::Destroyed) => {
                emails.remove(&uid);
            }
            (Some(Kind::Created), _) => {}
            _ => {
                emails.insert(uid, kind);
            }
        }
    }
    emails
}

/// Returns the changes since a state, at most `max` changes of emails, as far as one page of the
/// change log has them. Skips pages without changes of emails.
pub(crate) fn page<H: Capabilities>(
    ctx: &Context<'_, H>,
    since: &str,
    max: Option<usize>,
) -> Result<(EmailChanges, ChangeList), MethodError> {
    let max = max.and_then(|max| u32::try_from(max).ok());
    let limit = max.unwrap_or(MAX_CHANGES).min(MAX_CHANGES);
    let mut since = since.to_owned();
    loop {
        let list = ctx.host.message_changes(Some(&since), limit)?;
        let emails = emails(&list);
        if !emails.is_empty() || !list.more {
            return Ok((emails, list));
        }
        since = list.cursor;
    }
}

/// Returns all changes of emails since a state, and the state after them. Returns `None` if more
/// than `max` emails changed.
pub(crate) fn all<H: Capabilities>(
    ctx: &Context<'_, H>,
    since: &str,
    max: usize,
) -> Result<Option<(EmailChanges, String)>, MethodError> {
    let mut all = EmailChanges::new();
    let mut since = since.to_owned();
    loop {
        let list = ctx.host.message_changes(Some(&since), MAX_CHANGES)?;
        for (uid, kind) in emails(&list) {
            match (all.get(&uid), kind) {
                (Some(Kind::Created), Kind::Destroyed) => {
                    all.remove(&uid);
                }
                (Some(Kind::Created), _) => {}
                _ => {
                    all.insert(uid, kind);
                }
            }
        }
        if all.len() > max {
            return Ok(None);
        }
        since = list.cursor;
        if !list.more {
            return Ok(Some((all, since)));
        }
    }
}

/// The ids in the response of a `/changes`.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Changed {
    pub(crate) created: BTreeSet<String>,
    pub(crate) updated: BTreeSet<String>,
    pub(crate) destroyed: BTreeSet<String>,
}

impl Changed {
    pub(crate) fn of_emails(emails: &EmailChanges) -> Self {
        let mut changed = Self::default();
        for (uid, kind) in emails {
            let ids = match kind {
                Kind::Created => &mut changed.created,
                Kind::Updated => &mut changed.updated,
                Kind::Destroyed => &mut changed.destroyed,
            };
            ids.insert(uid.to_string());
        }
        changed
    }

    pub(crate) fn len(&self) -> usize {
        self.created.len() + self.updated.len() + self.destroyed.len()
    }

    /// Returns the response of a `/changes`.
    pub(crate) fn response(self, account: &str, old: &str, new: &str, more: bool) -> Value {
        json!({
            "accountId": account,
            "oldState": old,
            "newState": new,
            "hasMoreChanges": more,
            "created": self.created,
            "updated": self.updated,
            "destroyed": self.destroyed,
        })
    }
}

/// Returns the response of a `/changes` for a type that keeps no history: the changes are known
/// only if there are none.
pub(crate) fn without_history<H>(
    ctx: &Context<'_, H>,
    args: &Args<'_>,
    current: &str,
) -> MethodResult {
    max_changes(args)?;
    let since = args.required("sinceState")?;
    if since != current {
        return Err(MethodError::no_changes());
    }
    Ok(Changed::default().response(&ctx.account, since, current, false))
}

#[cfg(test)]
mod tests {
    use latchmail_sdk::capability::{ChangedMessage, DeletedMessage};

    use super::*;

    #[test]
    fn several_changes_of_an_email_are_one() {
        let message = |uid| ChangedMessage {
            uid,
            folder: "INBOX".into(),
            flags: Vec::new(),
        };
        let deleted = |uid| {
            Change::Deleted(DeletedMessage {
                uid,
                folder: "INBOX".into(),
            })
        };
        let list = ChangeList {
            cursor: "c".into(),
            more: false,
            changes: vec![
                Change::Created(message(1)),
                Change::Flags(message(1)),
                Change::Created(message(2)),
                deleted(2),
                Change::Flags(message(3)),
                deleted(3),
                Change::Flags(message(4)),
            ],
        };
        let expected = [(1, Kind::Created), (3, Kind::Destroyed), (4, Kind::Updated)];
        assert_eq!(emails(&list), expected.into_iter().collect());
        let changed = Changed::of_emails(&emails(&list));
        assert_eq!(changed.len(), 3);
    }
}
