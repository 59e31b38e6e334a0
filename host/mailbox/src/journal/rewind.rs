//! Undoes the changes that a grant made since a time.
//!
//! A call that is interrupted can be repeated: changes that are undone have the state `undone`, and
//! changes that were being undone have the state `undoing`, see [`super::plan`].

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use latchmail_core::caller::{Caller, Origin};
use latchmail_core::clock::{Clock, Timestamp};
use latchmail_core::message_number::MessageNumber;
use latchmail_directory::aliases::AliasCaller;
use latchmail_directory::events::{Event, Kind};
use latchmail_directory::grant_changes::{GrantChange, State};
use tokio::time::Instant;

use super::messages::Message;
use super::{Journal, JournalEntry};
use crate::access::Access;
use crate::error::Error;
use crate::recording::kind;

/// Number of objects whose changes are undone together.
const BATCH: u32 = 500;
/// The time after which the message index is brought up to date again, because other clients can
/// change messages during a call.
const MAX_AGE: Duration = Duration::from_secs(5);
/// The time after which a call ends. A repeated call continues.
const MAX_DURATION: Duration = Duration::from_secs(100);
/// Maximum number of changes in each list of a report.
const MAX_LISTED: usize = 1000;

/// The result of undoing changes.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Report {
    /// `false` if the call ended before all changes were processed. A repeated call continues.
    pub complete: bool,
    /// The number of changes that this call has undone.
    pub undone: u64,
    /// The changes that stay, because another client has changed the same object since. At most
    /// 1000.
    pub conflicts: Vec<JournalEntry>,
    /// The number of conflicts, also of those that are not listed.
    pub conflict_count: u64,
    /// The changes that cannot be undone: messages that were sent or deleted permanently, and
    /// changes of folders. At most 1000.
    pub remaining: Vec<JournalEntry>,
}

/// The progress of a call.
#[derive(Debug, Default)]
pub(super) struct Progress {
    pub(super) undone: u64,
    conflicts: Vec<JournalEntry>,
    conflict_count: u64,
    remaining: Vec<JournalEntry>,
}

impl Progress {
    /// Adds the changes with these ids to the conflicts, and the changes that cannot be undone to
    /// the list of those.
    pub(super) fn add(&mut self, changes: &[GrantChange], conflicts: &BTreeSet<i64>) {
        for change in changes {
            if is_final(change) && change.state() != State::Undone {
                push(&mut self.remaining, change);
            } else if conflicts.contains(&change.id) {
                self.conflict_count += 1;
                push(&mut self.conflicts, change);
            }
        }
    }
}

fn push(list: &mut Vec<JournalEntry>, change: &GrantChange) {
    if list.len() < MAX_LISTED {
        list.push(change.into());
    }
}

/// Returns `true` if the change is only listed.
fn is_final(change: &GrantChange) -> bool {
    let is_unknown = change.state() == State::Begun && change.after().is_none();
    match &*change.kind {
        kind::COPY | kind::IMPORT => is_unknown,
        kind::FLAGS
        | kind::MOVE
        | kind::DRAFT_CREATE
        | kind::DRAFT_UPDATE
        | kind::DRAFT_DELETE
        | kind::ALIAS_CREATE
        | kind::ALIAS_UPDATE
        | kind::ALIAS_DELETE => false,
        _ => true,
    }
}

/// Returns `true` if a subject is that of a draft.
fn is_draft(subject: &str) -> bool {
    subject.starts_with("draft ")
}

impl Journal {
    /// Undoes what a grant of the caller's account has changed since a time and what no other
    /// client has changed since. The grant can have ended. The call completes even if the caller is
    /// dropped. The caller must have a session.
    ///
    /// # Errors
    /// Returns an [`Error`] if the operation fails. Some changes can be undone in that case. A
    /// repeated call continues.
    pub async fn rewind(
        self: &Arc<Self>,
        caller: &Caller,
        grant: &str,
        since: Timestamp,
        origin: &Origin,
    ) -> Result<Report, Error> {
        let (journal, caller) = (Arc::clone(self), caller.clone());
        let (grant, origin) = (grant.to_owned(), origin.clone());
        let rewound = self
            .mail
            .changing
            .run(async move { journal.rewind_now(&caller, &grant, since, &origin).await });
        rewound.await
    }

    async fn rewind_now(
        &self,
        caller: &Caller,
        grant: &str,
        since: Timestamp,
        origin: &Origin,
    ) -> Result<Report, Error> {
        let account = &caller.account;
        let access = Access {
            is_person: true,
            ..Access::of_owner(account.clone(), caller.mail.clone())
        };
        // Two calls would store the former bytes of a draft twice.
        let _lock = self.rewinds.acquire(account).await;
        self.mail.numbers.sync(&access).await?;
        let mut synced = Instant::now();
        let end = synced + MAX_DURATION;
        let (mut progress, mut last) = (Progress::default(), String::new());
        let owner = (&**account, grant);
        let mut drafts = Vec::new();
        let mut complete = false;
        while Instant::now() < end {
            let subjects = self.changes().subjects(owner, since, &last, BATCH).await?;
            let Some(newest) = subjects.last() else {
                complete = true;
                break;
            };
            last.clone_from(newest);
            if synced.elapsed() > MAX_AGE {
                self.mail.numbers.sync(&access).await?;
                synced = Instant::now();
            }
            // A move of a draft, for example to Trash, is a change of its message. The draft can
            // only be undone where it was before the move.
            let (of_drafts, others): (Vec<_>, Vec<_>) =
                subjects.into_iter().partition(|one| is_draft(one));
            drafts.extend(of_drafts);
            let what = (grant, since, origin);
            Box::pin(self.undo(caller, &access, what, &others, &mut progress)).await?;
        }
        if complete {
            for subjects in drafts.chunks(BATCH as usize) {
                if Instant::now() >= end {
                    complete = false;
                    break;
                }
                let what = (grant, since, origin);
                Box::pin(self.undo(caller, &access, what, subjects, &mut progress)).await?;
            }
        }
        let now = Clock::default().now();
        let event = Event::of(Kind::GrantRewound, account, now).about(grant);
        let directory = &self.mail.context.directory;
        directory.events.record(event, origin).await?;
        tracing::info!(
            account,
            grant,
            undone = progress.undone,
            conflicts = progress.conflict_count,
            complete,
            "undid changes of a grant"
        );
        Ok(Report {
            complete,
            undone: progress.undone,
            conflicts: progress.conflicts,
            conflict_count: progress.conflict_count,
            remaining: progress.remaining,
        })
    }

    /// Undoes the changes of some objects.
    async fn undo(
        &self,
        caller: &Caller,
        access: &Access,
        (grant, since, origin): (&str, Timestamp, &Origin),
        subjects: &[String],
        progress: &mut Progress,
    ) -> Result<(), Error> {
        let owner = (&*access.account, grant);
        let mut messages = Vec::new();
        for subject in subjects {
            let changes = self.changes().of_subject(owner, subject, since).await?;
            match subject.split_once(' ') {
                Some(("message", number)) => {
                    let number = number.parse().map(MessageNumber);
                    if let Ok(number) = number {
                        messages.push(Message { number, changes });
                    }
                }
                Some(("draft", id)) => {
                    self.undo_draft(access, id, &changes, progress).await?;
                }
                Some(("alias", address)) => {
                    let caller = AliasCaller::new(caller, Clock::default().now());
                    let alias = (address, &*changes);
                    self.undo_alias(caller, origin, alias, progress).await?;
                }
                _ => progress.add(&changes, &BTreeSet::new()),
            }
        }
        self.undo_messages(access, &messages, progress).await
    }
}
