//! Records the changes that grants make to the messages of a folder, with the state before. Also
//! hides the service's notices from these changes.

use std::collections::{BTreeMap, BTreeSet};

use latchmail_core::message_number::{MessageNumber, Uid};
use latchmail_directory::grant_changes::{Completion, NewChange, Place};
use latchmail_imap::SelectedFolder;
use latchmail_imap::change::{Moved, StoreMode};
use latchmail_imap::flag::Flag;
use serde_json::{Value, json};

use super::change::Action;
use crate::access::Access;
use crate::context::Context;
use crate::error::Error;
use crate::message::notice::is_notice;
use crate::recording::{self, kind, message_subject};

/// The recorded changes of messages in one folder.
#[derive(Debug, Default)]
pub(super) struct FolderRecording {
    /// The messages that exist and that the grant can change.
    pub(super) messages: Vec<(MessageNumber, Uid)>,
    recording: Option<recording::Recording>,
    rows: BTreeMap<Uid, Row>,
}

#[derive(Debug)]
struct Row {
    id: i64,
    number: MessageNumber,
    details: Value,
}

/// Records a change that a grant is about to make in the open folder. Leaves out messages
/// without an effect of the change.
///
/// # Errors
/// Returns [`Error::Rejected`] if the change uses the keyword of notices. Returns another
/// [`Error`] if the change cannot be recorded. The change must not be made in that case.
pub(super) async fn record(
    context: &Context,
    access: &Access,
    selected: &mut SelectedFolder<'_>,
    (path, uid_validity): (&str, u32),
    (messages, action): (&[(MessageNumber, Uid)], &Action),
) -> Result<FolderRecording, Error> {
    if let Action::Flag { flags, .. } = action {
        recording::require_free(flags)?;
    }
    let uids: Vec<Uid> = messages.iter().map(|(_, uid)| *uid).collect();
    let states = selected.flags_of(&uids).await?;
    let index = context.message_index();
    let folder = index.folder_id(&access.account, path).await?;
    let (mut kept, mut changes, mut rows) = (Vec::new(), Vec::new(), Vec::new());
    for (number, uid) in messages {
        let state = states.iter().find(|state| state.uid == *uid);
        let Some(state) = state.filter(|state| !is_notice(&state.flags)) else {
            continue;
        };
        kept.push((*number, *uid));
        let Some((kind, details)) = effect(action, path, &state.flags) else {
            continue;
        };
        let before = folder.as_ref().map(|folder| Place {
            folder: folder.clone(),
            uid_validity,
            imap_uid: uid.0,
        });
        changes.push(NewChange {
            kind,
            subject: message_subject(*number),
            number: Some(*number),
            before,
            details: details.to_string(),
            bytes: None,
        });
        rows.push((*uid, *number, details));
    }
    let recording = recording::begin(context, access, &changes).await?;
    let ids = recording.as_ref().map(recording::Recording::ids);
    let ids = ids.unwrap_or_default().iter().copied();
    let rows = rows
        .into_iter()
        .zip(ids)
        .map(|((uid, number, details), id)| {
            let row = Row {
                id,
                number,
                details,
            };
            (uid, row)
        });
    Ok(FolderRecording {
        messages: kept,
        rows: rows.collect(),
        recording,
    })
}

/// Returns the id of a folder in the message index. A failure is logged.
async fn folder_after(context: &Context, access: &Access, path: &str) -> Option<String> {
    let index = context.message_index();
    match index.folder_id(&access.account, path).await {
        Ok(folder) => folder,
        Err(error) => {
            tracing::error!(%error, "failed to record where a grant moved messages");
            None
        }
    }
}

impl FolderRecording {
    /// Records that the messages with these UIDs were changed, without a new location.
    pub(super) async fn changed(self, changed: &BTreeSet<Uid>) {
        let made = self.rows.iter().filter(|(uid, _)| changed.contains(uid));
        let completions: Vec<Completion> = made.map(|(_, row)| row.completion(None)).collect();
        self.end(&completions).await;
    }

    /// Records the new locations of moved messages.
    pub(super) async fn moved(self, context: &Context, access: &Access, to: &str, moved: &Moved) {
        let folder = folder_after(context, access, to).await;
        let completion = |(old, new): &(Uid, Uid)| {
            let after = folder.as_ref().map(|folder| Place {
                folder: folder.clone(),
                uid_validity: moved.uid_validity,
                imap_uid: new.0,
            });
            Some(self.rows.get(old)?.completion(after))
        };
        let completions: Vec<Completion> = moved.uids.iter().filter_map(completion).collect();
        self.end(&completions).await;
    }

    /// Records the numbers and the locations of copies. `numbers` has the UID of each original and
    /// the number of its copy.
    pub(super) async fn copied(
        self,
        context: &Context,
        access: &Access,
        (to, copied): (&str, &Moved),
        numbers: &[(Uid, MessageNumber)],
    ) {
        let folder = folder_after(context, access, to).await;
        let completion = |(original, number): &(Uid, MessageNumber)| {
            let copy = copied.uids.iter().find(|(old, _)| old == original);
            let after = folder.as_ref().zip(copy).map(|(folder, (_, copy))| Place {
                folder: folder.clone(),
                uid_validity: copied.uid_validity,
                imap_uid: copy.0,
            });
            let row = self.rows.get(original)?;
            Some(Completion {
                subject: message_subject(*number),
                number: Some(*number),
                ..row.completion(after)
            })
        };
        let completions: Vec<Completion> = numbers.iter().filter_map(completion).collect();
        self.end(&completions).await;
    }

    /// Records that the change failed. After an unknown outcome, the changes may have been made.
    pub(super) async fn failed(self, error: &Error) {
        if !matches!(error, Error::Unknown(_)) {
            self.end(&[]).await;
        }
    }

    async fn end(self, completions: &[Completion]) {
        if let Some(recording) = self.recording {
            recording.complete(completions).await;
        }
    }
}

impl Row {
    fn completion(&self, after: Option<Place>) -> Completion {
        Completion {
            id: self.id,
            subject: message_subject(self.number),
            number: Some(self.number),
            after,
            details: self.details.to_string(),
        }
    }
}

/// Returns the kind and the details of a change of a message in the folder `path` with these flags.
/// Returns `None` if the change has no effect.
fn effect(action: &Action, path: &str, flags: &[String]) -> Option<(&'static str, Value)> {
    match action {
        Action::Flag { flags: new, mode } => {
            let (added, removed) = changed_flags(flags, new, *mode);
            let details = json!({ "added": added, "removed": removed });
            let has_effect = !added.is_empty() || !removed.is_empty();
            has_effect.then_some((kind::FLAGS, details))
        }
        Action::MarkOriginal { flag } => {
            let flag = std::slice::from_ref(flag);
            let (added, _) = changed_flags(flags, flag, StoreMode::Add);
            let details = json!({ "added": added, "removed": [] });
            (!added.is_empty()).then_some((kind::FLAGS, details))
        }
        Action::Move { to } if to == path => None,
        Action::Move { to } => Some((kind::MOVE, json!({ "from": path, "to": to }))),
        Action::Copy { to } => {
            let details = json!({ "from": path, "to": to, "flags": flags });
            Some((kind::COPY, details))
        }
        Action::Delete => Some((kind::DELETE, json!({ "from": path }))),
    }
}

/// Returns the flags that a STORE adds and removes. The flag `\Deleted` of other clients stays.
fn changed_flags(before: &[String], flags: &[Flag], mode: StoreMode) -> (Vec<String>, Vec<String>) {
    let has = |name: &str| before.iter().any(|one| one.eq_ignore_ascii_case(name));
    let named = |name: &str| {
        let mut flags = flags.iter();
        flags.any(|flag| flag.as_str().eq_ignore_ascii_case(name))
    };
    let added = flags.iter().map(Flag::as_str).filter(|name| !has(name));
    let removed = before.iter().filter(|name| match mode {
        StoreMode::Add => false,
        StoreMode::Remove => named(name),
        StoreMode::Replace => !named(name) && !name.eq_ignore_ascii_case("\\Deleted"),
    });
    let added = added.filter(|_| mode != StoreMode::Remove);
    (
        added.map(ToOwned::to_owned).collect(),
        removed.cloned().collect(),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_effective_changes_of_flags_are_recorded() {
        let before: Vec<String> = ["\\Seen", "$Label", "\\Deleted"].map(Into::into).into();
        let changed = |names: &[&str], mode| {
            let flags: Vec<Flag> = names.iter().filter_map(|name| Flag::named(name)).collect();
            let (added, removed) = changed_flags(&before, &flags, mode);
            (added.join(" "), removed.join(" "))
        };
        let expected = |added: &str, removed: &str| (added.to_owned(), removed.to_owned());
        let names = ["\\seen", "\\Flagged", "$label"];
        assert_eq!(changed(&names, StoreMode::Add), expected("\\Flagged", ""));
        assert_eq!(
            changed(&names, StoreMode::Remove),
            expected("", "\\Seen $Label")
        );
        let replaced = changed(&["\\Flagged"], StoreMode::Replace);
        assert_eq!(replaced, expected("\\Flagged", "\\Seen $Label"));
    }
}
