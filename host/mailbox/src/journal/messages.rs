//! Undoes the changes of messages: flags, moves, and the creation of copies and imports.

use std::collections::{BTreeMap, BTreeSet};

use latchmail_core::message_number::MessageNumber;
use latchmail_directory::grant_changes::{GrantChange, Place, State};
use latchmail_directory::message_index::CurrentState;
use latchmail_imap::change::StoreMode;
use latchmail_imap::flag::Flag;
use serde::Deserialize;

use super::Journal;
use super::plan::{Plan, Step, Value, plan};
use super::rewind::Progress;
use crate::access::Access;
use crate::error::Error;
use crate::recording::kind;

impl Value for Place {
    /// A message that was moved back has a new UID.
    fn is_back_at(&self, target: &Self) -> bool {
        self.folder == target.folder
    }
}

/// The details of a change of flags, or of a new message.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Details {
    added: Vec<String>,
    removed: Vec<String>,
    /// The flags of a new message.
    flags: Vec<String>,
    /// The path of the folder to which a message was moved.
    to: Option<String>,
}

/// A message whose changes are undone.
pub(super) struct Message {
    pub(super) number: MessageNumber,
    /// The changes, newest first.
    pub(super) changes: Vec<GrantChange>,
}

/// What to do about the changes of one message.
#[derive(Debug, Default)]
struct Undo {
    /// The changes to undo.
    ids: BTreeSet<i64>,
    /// The changes that were undone before, or that had no effect.
    settled: BTreeSet<i64>,
    conflicts: BTreeSet<i64>,
    /// The moves to undo, and the folder to which the message is moved.
    moves: Vec<i64>,
    folder: Option<String>,
    /// The flags to set and to remove.
    flags: Vec<(String, bool)>,
    /// Whether the message is deleted, because the grant created it.
    delete: bool,
}

impl Journal {
    /// Undoes the changes of messages. The message index must be up to date.
    pub(super) async fn undo_messages(
        &self,
        access: &Access,
        messages: &[Message],
        progress: &mut Progress,
    ) -> Result<(), Error> {
        let context = &self.mail.context;
        let numbers: Vec<MessageNumber> = messages.iter().map(|one| one.number).collect();
        let index = context.message_index();
        let states = index.current_states(&access.account, &numbers).await?;
        let mut states: BTreeMap<MessageNumber, CurrentState> = states
            .into_iter()
            .map(|state| (state.number, state))
            .collect();
        let mut undos = Vec::new();
        for message in messages {
            let mut undo = match states.remove(&message.number) {
                Some(state) => planned(&message.changes, &state),
                None => of_missing(&message.changes),
            };
            if let Some(folder) = &undo.folder {
                let path = index.folder_path(&access.account, folder).await?;
                undo.set_path(path);
            }
            progress.add(&message.changes, &undo.conflicts);
            undos.push((message.number, undo));
        }
        let settled = undos.iter().flat_map(|(_, undo)| &undo.settled).copied();
        let settled: Vec<i64> = settled.collect();
        self.changes()
            .set_state(&settled, State::Undone, None)
            .await?;
        // The state `undoing` shows the next attempt that a difference may be the work of this one.
        let ids: Vec<i64> = undos
            .iter()
            .flat_map(|(_, undo)| &undo.ids)
            .copied()
            .collect();
        self.changes().set_state(&ids, State::Undoing, None).await?;
        self.make(access, &undos).await?;
        let moved: Vec<MessageNumber> = undos
            .iter()
            .filter(|(_, undo)| undo.folder.is_some())
            .map(|(number, _)| *number)
            .collect();
        let places = index.current_states(&access.account, &moved).await?;
        for state in places {
            let undo = undos.iter().find(|(number, _)| *number == state.number);
            let ids = undo.map(|(_, undo)| &*undo.moves).unwrap_or_default();
            let place = Some(&state.place);
            self.changes().set_state(ids, State::Undone, place).await?;
        }
        self.changes().set_state(&ids, State::Undone, None).await?;
        progress.undone += ids.len() as u64;
        Ok(())
    }

    /// Makes the changes of the mailbox, with one command for the messages of a folder.
    async fn make(&self, access: &Access, undos: &[(MessageNumber, Undo)]) -> Result<(), Error> {
        let changing = &self.mail.changing;
        let mut deleted = Vec::new();
        let mut moves: BTreeMap<&str, Vec<MessageNumber>> = BTreeMap::new();
        let mut flags: BTreeMap<(&str, bool), Vec<MessageNumber>> = BTreeMap::new();
        for (number, undo) in undos {
            if undo.delete {
                deleted.push(*number);
                continue;
            }
            if let Some(path) = &undo.folder {
                moves.entry(path).or_default().push(*number);
            }
            for (flag, is_set) in &undo.flags {
                flags.entry((flag, *is_set)).or_default().push(*number);
            }
        }
        for ((name, is_set), numbers) in flags {
            let mode = if is_set {
                StoreMode::Add
            } else {
                StoreMode::Remove
            };
            // The names were flags that a client of the API has set.
            let Some(flag) = Flag::named(name) else {
                continue;
            };
            let flags = (vec![flag], mode);
            changing.flag(access, &numbers, flags, None).await?;
        }
        for (path, numbers) in moves {
            changing.move_to(access, &numbers, path, None).await?;
        }
        if !deleted.is_empty() {
            changing.delete(access, &deleted, None).await?;
        }
        Ok(())
    }
}

/// Plans the undo of the changes of a message that exists.
fn planned(changes: &[GrantChange], state: &CurrentState) -> Undo {
    let mut undo = Undo::default();
    let details: Vec<Details> = changes
        .iter()
        .map(|change| serde_json::from_str(&change.details).unwrap_or_default())
        .collect();
    let location = plan(&state.place, &location_steps(changes, &details, state));
    let mut remaining = folded(&state.flags);
    let flags: Vec<(String, &str, Plan<bool>)> = flag_steps(changes, &details)
        .into_iter()
        .map(|(folded, (name, steps))| {
            let plan = plan(&remaining.contains(&folded), &steps);
            (folded, name, plan)
        })
        .collect();
    if let Some(created) = changes.iter().position(is_creation) {
        for (folded, _, plan) in &flags {
            match plan.undo {
                Some((_, true)) => remaining.insert(folded.clone()),
                Some((_, false)) => remaining.remove(folded),
                None => false,
            };
        }
        // Without the other changes of the grant, the message must be as the grant created it.
        let is_same = location.conflicts.is_empty()
            && flags.iter().all(|(_, _, plan)| plan.conflicts.is_empty())
            && remaining == folded(&details[created].flags)
            && is_at(&changes[created], &location, state);
        let ids = changes[..=created].iter().map(|change| change.id);
        if is_same && changes[created].state() != State::Undone {
            undo.ids.extend(ids);
            undo.delete = true;
        } else if changes[created].state() != State::Undone {
            undo.conflicts.extend(ids);
        }
        return undo;
    }
    undo.take(&location);
    if let Some((ids, place)) = location.undo {
        (undo.moves, undo.folder) = (ids, Some(place.folder));
    }
    for (_, name, plan) in flags {
        undo.take(&plan);
        if let Some((_, is_set)) = plan.undo {
            undo.flags.push((name.to_owned(), is_set));
        }
    }
    undo.finish();
    undo
}

impl Undo {
    fn take<V>(&mut self, plan: &Plan<V>) {
        let ids = plan.undo.iter().flat_map(|(ids, _)| ids);
        self.ids.extend(ids);
        self.settled.extend(&plan.settled);
        self.conflicts.extend(&plan.conflicts);
    }

    /// Replaces the id of the folder by its path. Without the folder, the message stays where it
    /// is, and is not moved to another folder.
    fn set_path(&mut self, path: Option<String>) {
        self.folder = path;
        if self.folder.is_none() {
            self.conflicts.extend(self.moves.drain(..));
            self.finish();
        }
    }

    /// A change of several flags is undone when all its flags are. Its conflict is listed if one of
    /// its flags has a conflict.
    fn finish(&mut self) {
        self.ids.retain(|id| !self.conflicts.contains(id));
        self.settled
            .retain(|id| !self.conflicts.contains(id) && !self.ids.contains(id));
    }
}

/// Returns the conflicts of a message that does not exist. If the grant itself deleted the message
/// last, only the deletion is listed.
fn of_missing(changes: &[GrantChange]) -> Undo {
    let mut undo = Undo::default();
    let is_deletion = |change: &GrantChange| change.kind == kind::DELETE;
    if changes.first().is_some_and(is_deletion) {
        return undo;
    }
    // The message was deleted by an earlier attempt to undo its creation.
    let created = changes.iter().position(is_creation);
    let is_undoing = |change: &GrantChange| change.state() == State::Undoing;
    let open = changes
        .iter()
        .filter(|change| change.state() != State::Undone);
    if created.is_some_and(|created| is_undoing(&changes[created])) {
        undo.settled.extend(open.map(|change| change.id));
    } else {
        undo.conflicts.extend(open.map(|change| change.id));
    }
    undo
}

fn is_creation(change: &GrantChange) -> bool {
    change.kind == kind::COPY || change.kind == kind::IMPORT
}

/// Returns `true` if the message is where the grant has put it when it created or moved it.
fn is_at(created: &GrantChange, location: &Plan<Place>, state: &CurrentState) -> bool {
    let origin = location
        .undo
        .as_ref()
        .map_or(&state.place, |(_, place)| place);
    created.after().as_ref() == Some(origin)
}

fn location_steps(
    changes: &[GrantChange],
    details: &[Details],
    state: &CurrentState,
) -> Vec<Step<Place>> {
    let step = |(change, details): (&GrantChange, &Details)| {
        let before = change.before()?;
        let after = change.after().or_else(|| {
            // The host stopped before the new UID was recorded. The message was moved if it is
            // no longer in the old folder.
            let is_begun = change.state() == State::Begun && details.to.is_some();
            (is_begun && state.place.folder != before.folder).then(|| state.place.clone())
        });
        Some(Step {
            id: change.id,
            state: change.state(),
            before,
            after,
            undone: change.undone(),
        })
    };
    let moves = changes.iter().zip(details);
    let moves = moves.filter(|(change, _)| change.kind == kind::MOVE);
    moves.filter_map(step).collect()
}

/// Returns the flags that the grant changed, by their names in lower case: the first form of the
/// name, and the changes of the flag, newest first.
fn flag_steps<'d>(
    changes: &[GrantChange],
    details: &'d [Details],
) -> BTreeMap<String, (&'d str, Vec<Step<bool>>)> {
    let mut flags: BTreeMap<String, (&str, Vec<Step<bool>>)> = BTreeMap::new();
    let changes = changes.iter().zip(details);
    for (change, details) in changes.filter(|(change, _)| change.kind == kind::FLAGS) {
        let added = details.added.iter().map(|name| (name, true));
        let removed = details.removed.iter().map(|name| (name, false));
        for (name, is_added) in added.chain(removed) {
            let new = || (name.as_str(), Vec::new());
            let (_, steps) = flags.entry(name.to_ascii_lowercase()).or_insert_with(new);
            // A request can name a flag twice.
            if steps.last().is_some_and(|last| last.id == change.id) {
                continue;
            }
            steps.push(Step {
                id: change.id,
                state: change.state(),
                before: !is_added,
                after: Some(is_added),
                undone: (change.state() == State::Undone).then_some(!is_added),
            });
        }
    }
    flags
}

fn folded(flags: &[String]) -> BTreeSet<String> {
    let flags = flags.iter().map(|flag| flag.to_ascii_lowercase());
    flags.filter(|flag| flag != "\\recent").collect()
}
