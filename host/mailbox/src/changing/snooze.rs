//! Snoozed messages: a message waits in the folder `Snoozed`, and comes back to its previous folder
//! at a time that the caller chooses, without the flag `\Seen`.
//!
//! A job ([`latchmail_jobs`]) brings the message back. The job is stored before the message is
//! moved, so each message that this service has moved to the folder comes back. A job does nothing
//! if the message is not in the folder any longer. A message without a job stays in the folder,
//! because another client put it there.
//!
//! The keyword `$Snoozed` shows mail clients which messages come back. The service does not read
//! the keyword, and works without it on servers that do not store keywords.

use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use latchmail_core::clock::Timestamp;
use latchmail_core::codes;
use latchmail_core::error::{Failure, Problem};
use latchmail_core::message_number::MessageNumber;
use latchmail_core::permissions::Right;
use latchmail_directory::message_index::Location;
use latchmail_imap::INBOX;
use latchmail_imap::change::StoreMode;
use latchmail_imap::flag::Flag;
use latchmail_jobs::{Handler, Job, Jobs, NewJob, Outcome};

use super::Changer;
use super::change::{Action, Change, Source};
use crate::access::Access;
use crate::error::{Error, FolderConflict};
use crate::mail::Mail;

/// The path of the folder in which snoozed messages wait.
const FOLDER: &str = "Snoozed";
/// The keyword of snoozed messages.
const KEYWORD: &str = "$Snoozed";
const SEEN: &str = "\\Seen";
/// The kind of the jobs.
const KIND: &str = "snooze";
/// Maximum number of snoozed messages of a mailbox.
const MAX_SNOOZED: u32 = 1000;
/// Maximum time until a message comes back.
const MAX_DELAY: Duration = Duration::from_hours(366 * 24);

/// Snoozes messages, and brings them back.
#[derive(Debug)]
pub struct Snoozer {
    changer: Arc<Changer>,
    jobs: Arc<Jobs>,
}

impl Snoozer {
    /// Creates the service.
    #[must_use]
    pub fn new(mail: &Mail, jobs: &Arc<Jobs>) -> Self {
        Self {
            changer: Arc::clone(&mail.changing),
            jobs: Arc::clone(jobs),
        }
    }

    /// Moves a message to the folder `Snoozed` until the time `until`. The folder is created if it
    /// does not exist. If the message is snoozed already, only the time changes. Returns `None` if
    /// the message does not exist.
    ///
    /// # Errors
    /// Returns [`Error::InvalidSnoozeTime`] if the time is out of range. Returns
    /// [`Error::TooLarge`] if the mailbox has the maximum number of snoozed messages. Returns
    /// another [`Error`] if the operation fails.
    pub async fn snooze(
        self: &Arc<Self>,
        access: &Access,
        number: MessageNumber,
        until: Timestamp,
    ) -> Result<Option<()>, Error> {
        let now = self.jobs.now().await.map_err(failed)?;
        if until <= now || until > now.plus(MAX_DELAY) {
            return Err(Error::InvalidSnoozeTime);
        }
        let (snoozer, access) = (Arc::clone(self), access.clone());
        let change = async move {
            let (access, _lock) = &snoozer.changer.lock(&access).await?;
            snoozer.snooze_locked(access, number, until).await
        };
        self.changer.run(change).await
    }

    /// Moves a snoozed message back to its previous folder. The flags do not change, except the
    /// keyword. Returns `None` if the message does not exist.
    ///
    /// # Errors
    /// Returns [`Error::NotSnoozed`] if the message is not snoozed. Returns another [`Error`] if
    /// the operation fails.
    pub async fn unsnooze(
        self: &Arc<Self>,
        access: &Access,
        number: MessageNumber,
    ) -> Result<Option<()>, Error> {
        let (snoozer, access) = (Arc::clone(self), access.clone());
        let change = async move {
            let (access, _lock) = &snoozer.changer.lock(&access).await?;
            let located = snoozer.locate(access, number, Right::MailWrite).await?;
            let Some(location) = located else {
                return Ok(None);
            };
            let job = snoozer.job(&access.account, number).await?;
            if location.path != FOLDER || job.is_none() {
                return Err(Error::NotSnoozed);
            }
            snoozer.remove_flags(access, number, &[KEYWORD]).await?;
            snoozer.bring_back(access, number).await?;
            snoozer.cancel(access, number).await?;
            Ok(Some(()))
        };
        self.changer.run(change).await
    }

    /// Returns the time at which a message comes back, or `Some(None)` if the message is not
    /// snoozed. Returns `None` if the message does not exist.
    ///
    /// # Errors
    /// Returns an [`Error`] if the operation fails.
    pub async fn until(
        &self,
        access: &Access,
        number: MessageNumber,
    ) -> Result<Option<Option<Timestamp>>, Error> {
        let Some(location) = self.locate(access, number, Right::MailRead).await? else {
            return Ok(None);
        };
        let job = self.job(&access.account, number).await?;
        let job = job.filter(|_| location.path == FOLDER);
        Ok(Some(job.map(|job| job.due_at)))
    }

    async fn snooze_locked(
        &self,
        access: &Access,
        number: MessageNumber,
        until: Timestamp,
    ) -> Result<Option<()>, Error> {
        let flag = Action::Flag {
            flags: flags(&[KEYWORD]),
            mode: StoreMode::Add,
        };
        match self.change(access, number, flag).await {
            Ok(true) | Err(Error::Rejected(_)) => {}
            Ok(false) => return Ok(None),
            Err(error) => return Err(error),
        }
        let key = key(number);
        let job = NewJob {
            kind: KIND,
            key: &key,
            account: &access.account,
            due_at: until,
            payload: &[],
            limit: MAX_SNOOZED,
        };
        if !self.jobs.replace(job).await.map_err(failed)? {
            self.remove_flags(access, number, &[KEYWORD]).await?;
            let text = format!("At most {MAX_SNOOZED} messages can be snoozed");
            return Err(Error::TooLarge(Problem::new(codes::TOO_MANY_SNOOZED, text)));
        }
        let moved = self.move_to_folder(access, number).await;
        match moved {
            Ok(true) => Ok(Some(())),
            // The message can be in the folder, so the job must stay.
            Err(error @ Error::Unknown(_)) => Err(error),
            Ok(false) => {
                self.cancel(access, number).await?;
                Ok(None)
            }
            Err(error) => {
                self.cancel(access, number).await?;
                self.remove_flags(access, number, &[KEYWORD]).await?;
                Err(error)
            }
        }
    }

    /// Moves a message to the folder, and creates the folder if needed. Returns `false` if the
    /// message does not exist.
    async fn move_to_folder(&self, access: &Access, number: MessageNumber) -> Result<bool, Error> {
        let change = Change {
            action: Action::Move { to: FOLDER.into() },
            if_version: None,
            only_from: None,
        };
        for created in [false, true] {
            let moved = self.changer.change(access, vec![number], &change).await?;
            if let Some(moved) = moved {
                return Ok(!moved.numbers.is_empty());
            }
            if !created {
                match self.changer.create_locked(access, FOLDER).await {
                    Ok(_) | Err(Error::Folder(FolderConflict::Exists)) => {}
                    Err(error) => return Err(error),
                }
            }
        }
        Err(Error::Internal(format!(
            "the folder {FOLDER} does not exist"
        )))
    }

    /// Does the job of a message.
    async fn wake(&self, job: &Job) -> Result<(), Error> {
        let Ok(number) = job.key.parse().map(MessageNumber) else {
            return Ok(());
        };
        let access = self.changer.index.access_of(&job.account).await?;
        let disabled = || Error::Unavailable("the account is disabled".into());
        let access = access.ok_or_else(disabled)?;
        let (access, _lock) = &self.changer.lock(&access).await?;
        // A request can have changed the time after this host has leased the job.
        let other = self.job(&job.account, number).await?;
        if other.is_some_and(|other| other.due_at > job.due_at) {
            return Ok(());
        }
        let located = self.locate(access, number, Right::MailWrite).await?;
        let Some(location) = located else {
            return Ok(());
        };
        if location.path != FOLDER {
            return self.remove_flags(access, number, &[KEYWORD]).await;
        }
        // The message has no flag `\Seen` in any moment after its return.
        self.remove_flags(access, number, &[SEEN]).await?;
        self.remove_flags(access, number, &[KEYWORD]).await?;
        self.bring_back(access, number).await
    }

    /// Moves a message from the folder to its previous folder.
    async fn bring_back(&self, access: &Access, number: MessageNumber) -> Result<(), Error> {
        let index = self.changer.context.message_index();
        let previous = index.previous_folders(&access.account, &[number]).await?;
        let path = previous.into_iter().map(|(_, path)| path).next();
        let path = path.filter(|path| path != FOLDER);
        let path = path.as_deref().unwrap_or(INBOX);
        let moved = self.changer.restore_to(access, vec![number], FOLDER, path);
        moved.await.map(drop)
    }

    /// Returns the current location of a message. Returns `None` if the message does not exist or
    /// the caller cannot see the message.
    async fn locate(
        &self,
        access: &Access,
        number: MessageNumber,
        right: Right,
    ) -> Result<Option<Arc<Location>>, Error> {
        let source = Source::ReconciledIndex;
        let found = self
            .changer
            .authorized_locations(access, &[number], source, &[right])
            .await?;
        Ok(found.into_iter().map(|(_, location)| location).next())
    }

    /// Returns the job of a message with the latest time.
    async fn job(&self, account: &str, number: MessageNumber) -> Result<Option<Job>, Error> {
        let jobs = self.jobs.with_key(account, KIND, &key(number)).await;
        Ok(jobs.map_err(failed)?.pop())
    }

    async fn cancel(&self, access: &Access, number: MessageNumber) -> Result<(), Error> {
        let key = key(number);
        let cancelled = self.jobs.cancel(&access.account, KIND, &key);
        cancelled.await.map(drop).map_err(failed)
    }

    /// Removes flags of a message. Ignores a refusal of the mail server.
    async fn remove_flags(
        &self,
        access: &Access,
        number: MessageNumber,
        names: &[&str],
    ) -> Result<(), Error> {
        let action = Action::Flag {
            flags: flags(names),
            mode: StoreMode::Remove,
        };
        match self.change(access, number, action).await {
            Ok(_) | Err(Error::Rejected(_)) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Changes a message. Returns `false` if the message does not exist.
    async fn change(
        &self,
        access: &Access,
        number: MessageNumber,
        action: Action,
    ) -> Result<bool, Error> {
        let change = Change {
            action,
            if_version: None,
            only_from: None,
        };
        let changed = self.changer.change(access, vec![number], &change).await?;
        Ok(changed.is_some_and(|changed| !changed.numbers.is_empty()))
    }
}

impl Handler for Snoozer {
    fn kind(&self) -> &'static str {
        KIND
    }

    fn run<'a>(&'a self, job: &'a Job) -> BoxFuture<'a, Outcome> {
        let done = self.wake(job).map(|result| match result {
            Ok(()) => Outcome::Done,
            Err(error) => Outcome::Retry(error.to_string()),
        });
        done.boxed()
    }
}

fn key(number: MessageNumber) -> String {
    number.0.to_string()
}

fn flags(names: &[&str]) -> Vec<Flag> {
    names.iter().filter_map(|name| Flag::named(name)).collect()
}

#[expect(clippy::needless_pass_by_value, reason = "for `map_err`")]
fn failed(failure: Failure) -> Error {
    Error::Internal(failure.to_string())
}
