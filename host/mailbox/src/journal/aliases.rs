//! Undoes the changes of aliases.

use latchmail_core::caller::Origin;
use latchmail_core::clock::Timestamp;
use latchmail_directory::aliases::{Alias, AliasCaller, AliasUpdate};
use latchmail_directory::grant_changes::{GrantChange, State};
use serde::Deserialize;

use super::Journal;
use super::plan::{Step, Value, plan};
use super::rewind::Progress;
use crate::error::Error;

/// The state of an alias.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Settings {
    active: bool,
    note: String,
    /// In milliseconds since 1970.
    expires_at: Option<i64>,
}

/// `None` if the alias does not exist.
impl Value for Option<Settings> {}

#[derive(Debug, Deserialize)]
struct Details {
    before: Option<Settings>,
    after: Option<Settings>,
}

impl From<&Alias> for Settings {
    fn from(alias: &Alias) -> Self {
        Self {
            active: alias.active,
            note: alias.note.clone(),
            expires_at: alias.expires_at.map(Timestamp::millis),
        }
    }
}

impl Journal {
    /// Undoes the changes of an alias. `changes` has the newest change first.
    pub(super) async fn undo_alias(
        &self,
        caller: AliasCaller<'_>,
        origin: &Origin,
        (address, changes): (&str, &[GrantChange]),
        progress: &mut Progress,
    ) -> Result<(), Error> {
        let aliases = &self.mail.context.directory.aliases;
        let listed = aliases.list(caller.account_id).await?;
        let alias = listed.iter().find(|alias| alias.address == address);
        let current = alias.map(Settings::from);
        let step = |change: &GrantChange| {
            let details: Details = serde_json::from_str(&change.details).ok()?;
            Some(Step {
                id: change.id,
                state: change.state(),
                undone: Some(details.before.clone()),
                before: details.before,
                after: Some(details.after),
            })
        };
        let steps: Vec<Step<Option<Settings>>> = changes.iter().filter_map(step).collect();
        let plan = plan(&current, &steps);
        let mut conflicts: std::collections::BTreeSet<i64> =
            plan.conflicts.iter().copied().collect();
        let mut settled = plan.settled;
        if let Some((ids, target)) = plan.undo {
            let set = self.set_alias(caller, origin, (address, alias), target);
            if set.await? {
                progress.undone += ids.len() as u64;
                settled.extend(ids);
            } else {
                conflicts.extend(ids);
            }
        }
        progress.add(changes, &conflicts);
        self.changes()
            .set_state(&settled, State::Undone, None)
            .await?;
        Ok(())
    }

    /// Brings an alias to a state. Returns `false` if that is not possible, for example because the
    /// account can no longer have aliases on the domain.
    async fn set_alias(
        &self,
        caller: AliasCaller<'_>,
        origin: &Origin,
        (address, alias): (&str, Option<&Alias>),
        target: Option<Settings>,
    ) -> Result<bool, Error> {
        let aliases = &self.mail.context.directory.aliases;
        let Some(target) = target else {
            return Ok(match alias {
                Some(alias) => aliases.delete(caller, alias.id(), origin).await?.is_ok(),
                None => true,
            });
        };
        let id = if let Some(alias) = alias {
            alias.id()
        } else {
            let domain = address.rsplit('@').next().unwrap_or_default();
            let owner = aliases.domain_owner(caller.account_id, domain).await?;
            match aliases.create(caller, address, owner, origin).await? {
                Ok(created) => created.id(),
                Err(_) => return Ok(false),
            }
        };
        let update = AliasUpdate {
            active: Some(target.active),
            note: Some(target.note),
            expires_at: Some(target.expires_at.map(Timestamp::from_millis)),
        };
        Ok(aliases.update(caller, id, &update, origin).await?.is_ok())
    }
}
