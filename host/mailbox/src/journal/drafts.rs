//! Undoes the changes of drafts. A draft is replaced by the bytes that it had before.

use latchmail_core::message_number::MessageNumber;
use latchmail_directory::grant_changes::{GrantChange, Place, State};
use serde::Deserialize;

use super::Journal;
use super::plan::{Step, Value, plan};
use super::rewind::Progress;
use crate::access::Access;
use crate::drafts::draft_number;
use crate::error::Error;
use crate::outbox::Error as OutboxError;
use crate::outbox::change_bytes::open_bytes;

/// The number of the message of a draft, or `None` if the draft does not exist. Each replacement of
/// a draft has a new number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Draft(Option<u64>);

impl Value for Draft {
    /// The restored draft has a new number. After an interrupted undo, a draft with an unknown
    /// number is the restored one, or a newer one of another client, which must stay as well.
    fn is_back_at(&self, target: &Self) -> bool {
        self.0.is_some() == target.0.is_some()
    }
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Details {
    old: Option<u64>,
    new: Option<u64>,
}

impl Journal {
    /// Undoes the changes of a draft. `changes` has the newest change first.
    pub(super) async fn undo_draft(
        &self,
        access: &Access,
        id: &str,
        changes: &[GrantChange],
        progress: &mut Progress,
    ) -> Result<(), Error> {
        let current = draft_number(&self.drafts, access, id).await?;
        let place = self.place(access, current).await?;
        let step = |change: &GrantChange| {
            let details = serde_json::from_str(&change.details);
            let details: Details = details.unwrap_or_default();
            let is_begun = change.state() == State::Begun;
            let restored = change.undone();
            let is_restored = restored.is_some() && restored == place;
            Step {
                id: change.id,
                state: change.state(),
                before: Draft(details.old),
                after: (!is_begun).then_some(Draft(details.new)),
                undone: is_restored.then_some(Draft(current.map(|number| number.0))),
            }
        };
        let steps: Vec<Step<Draft>> = changes.iter().map(step).collect();
        // The newest step that is being undone, if its result is still the draft, was not undone.
        let draft = Draft(current.map(|number| number.0));
        let is_untouched = steps.first().is_some_and(|step| step.after == Some(draft));
        let steps = if is_untouched { redone(steps) } else { steps };
        let plan = plan(&draft, &steps);
        progress.add(changes, &plan.conflicts.iter().copied().collect());
        self.changes()
            .set_state(&plan.settled, State::Undone, None)
            .await?;
        let Some((ids, target)) = plan.undo else {
            return Ok(());
        };
        let bytes = if target.0.is_some() {
            let oldest = ids.last().copied();
            let oldest = changes.iter().find(|change| Some(change.id) == oldest);
            Some(self.old_bytes(oldest).await?)
        } else {
            None
        };
        self.changes().set_state(&ids, State::Undoing, None).await?;
        let changing = &self.mail.changing;
        // The restored draft is newer, so it is the draft as soon as it is stored.
        if let Some(bytes) = bytes {
            changing.restore_draft(access, bytes).await?;
        }
        if let Some(current) = current {
            changing.delete(access, &[current], None).await?;
        }
        // With the location of the restored draft, a later call recognizes an unchanged draft.
        let restored = match target.0 {
            Some(_) => draft_number(&self.drafts, access, id).await?,
            None => None,
        };
        let restored = self.place(access, restored).await?;
        self.changes()
            .set_state(&ids, State::Undone, restored.as_ref())
            .await?;
        progress.undone += ids.len() as u64;
        Ok(())
    }

    /// Returns the location of the message with a number.
    async fn place(
        &self,
        access: &Access,
        number: Option<MessageNumber>,
    ) -> Result<Option<Place>, Error> {
        let index = self.mail.context.message_index();
        let states = index.current_states(&access.account, number.as_slice());
        Ok(states.await?.pop().map(|state| state.place))
    }

    /// Returns the bytes of a draft before a change.
    async fn old_bytes(&self, change: Option<&GrantChange>) -> Result<bytes::Bytes, Error> {
        let missing = || Error::Internal("the bytes of a draft are missing".into());
        let change = change.ok_or_else(missing)?;
        let (key_id, key) = (change.key_id.as_deref(), change.sealed_key.as_deref());
        let (key_id, key) = key_id.zip(key).ok_or_else(missing)?;
        let opened = open_bytes(&self.drafts.outbox, self.changes(), (key_id, key)).await;
        opened.map_err(|error| match error {
            OutboxError::Unavailable(why) => Error::Unavailable(why),
            error => Error::Internal(error.to_string()),
        })
    }
}

/// Returns the steps with the state before an interrupted undo.
fn redone(steps: Vec<Step<Draft>>) -> Vec<Step<Draft>> {
    let redo = |step: Step<Draft>| Step {
        state: match step.state {
            State::Undoing => State::Done,
            state => state,
        },
        ..step
    };
    steps.into_iter().map(redo).collect()
}
