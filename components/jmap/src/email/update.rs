//! Updates of emails. Equal changes of several emails are one call of the host.

use std::collections::BTreeMap;

use latchmail_sdk::capability::{FlagAction, MessageFacts};
use serde_json::Value;

use super::keywords;
use crate::Capabilities;
use crate::args::Object;
use crate::context::Context;
use crate::error::SetError;
use crate::set::{Patched, patch};

/// The maximum number of messages in one call of the host.
const MAX_UIDS: usize = 1_000;

/// The changes of an email.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Update {
    /// All flags, if they are replaced.
    replace: Option<Vec<String>>,
    add: Vec<String>,
    remove: Vec<String>,
    /// The path of the new folder.
    folder: Option<String>,
}

impl Update {
    /// Reads a patch of an email with this state.
    pub(super) fn read<H: Capabilities>(
        ctx: &mut Context<'_, H>,
        facts: &MessageFacts,
        changes: &Object,
    ) -> Result<Self, SetError> {
        let mut update = Self::default();
        let mut mailboxes: Object = Object::new();
        mailboxes.insert(facts.folder_id.clone(), true.into());
        let mut has_mailboxes = false;
        for Patched {
            property,
            member,
            value,
        } in patch(changes)?
        {
            match (property, member) {
                ("keywords", None) => update.replace = Some(keywords::read(Some(value))?),
                ("keywords", Some(keyword)) => {
                    keywords::check(&keyword)?;
                    let flag = keywords::flag_of(&keyword);
                    match value {
                        Value::Bool(true) => update.add.push(flag),
                        Value::Null => update.remove.push(flag),
                        _ => {
                            let text = "A keyword must be true or null";
                            return Err(SetError::invalid(&["keywords"], text));
                        }
                    }
                }
                ("mailboxIds", None) => {
                    has_mailboxes = true;
                    let wrong = || SetError::invalid(&["mailboxIds"], "It must be an object");
                    mailboxes = value.as_object().ok_or_else(wrong)?.clone();
                }
                ("mailboxIds", Some(id)) => {
                    has_mailboxes = true;
                    let id = ctx.resolve(&id).to_owned();
                    match value {
                        Value::Null => drop(mailboxes.remove(&id)),
                        value => drop(mailboxes.insert(id, value.clone())),
                    }
                }
                // The unchanged value of another property is no change (RFC 8620, section 5.3).
                ("id", None) if value.as_str() == Some(facts.uid.to_string().as_str()) => {}
                (property, _) => {
                    let text = "The property cannot be changed";
                    return Err(SetError::invalid(&[property], text));
                }
            }
        }
        if has_mailboxes {
            let folder = super::create::mailbox(ctx, Some(&mailboxes.into()))?;
            update.folder = Some(folder).filter(|folder| *folder != facts.folder);
        }
        for flags in [&mut update.add, &mut update.remove] {
            flags.sort();
            flags.dedup();
        }
        Ok(update)
    }

    /// Makes the changes. Returns the numbers of the messages that exist.
    fn apply<H: Capabilities>(
        &self,
        ctx: &Context<'_, H>,
        uids: &[u64],
    ) -> Result<Vec<u64>, SetError> {
        let mut found = uids.to_vec();
        let set = |flags: &[String], action| ctx.host.set_flags(uids, flags, action, None);
        if let Some(flags) = &self.replace {
            found = set(flags, FlagAction::Replace)?;
        }
        if !self.add.is_empty() {
            found = set(&self.add, FlagAction::Add)?;
        }
        if !self.remove.is_empty() {
            found = set(&self.remove, FlagAction::Remove)?;
        }
        if let Some(folder) = &self.folder {
            found = ctx.host.move_messages(uids, folder, None)?;
        }
        Ok(found)
    }
}

/// Makes the changes of all emails. Returns the result of each email.
pub(super) fn apply<H: Capabilities>(
    ctx: &Context<'_, H>,
    updates: Vec<(u64, Update)>,
) -> BTreeMap<u64, Result<(), SetError>> {
    let mut groups: BTreeMap<Update, Vec<u64>> = BTreeMap::new();
    for (uid, update) in updates {
        groups.entry(update).or_default().push(uid);
    }
    let mut results = BTreeMap::new();
    for (update, uids) in groups {
        for uids in uids.chunks(MAX_UIDS) {
            let found = update.apply(ctx, uids);
            for uid in uids {
                let result = match &found {
                    Ok(found) if found.contains(uid) => Ok(()),
                    Ok(_) => Err(SetError::not_found()),
                    Err(error) => Err(error.clone()),
                };
                results.insert(*uid, result);
            }
        }
    }
    results
}
