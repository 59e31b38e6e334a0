//! Deletes the mailboxes and the accounts whose grace period is over. A job does this for one
//! account: it waits for the last export, deletes the folders, the messages and the scripts at the
//! mail server, and then the account with all its rows. The addresses of the account stay reserved.
//!
//! Every step can be repeated, so another host continues if a host stops. The last step deletes the
//! job together with the account.
//!
//! The mail server keeps the folder of the mailbox with empty indexes, because this module cannot
//! delete files.

use std::cmp::Reverse;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use latchmail_core::caller::{MailCredential, Origin};
use latchmail_core::config;
use latchmail_core::error::{Failure, StartError};
use latchmail_core::metrics;
use latchmail_directory::accounts::Accounts;
use latchmail_directory::accounts::removal::Removal;
use latchmail_imap::INBOX;
use latchmail_imap::folder_change::FolderOutcome;
use latchmail_jobs::{Handler, Job, Jobs, NewJob, Outcome};

use crate::access::Access;
use crate::changing::commands::{change_error, select};
use crate::connections::retry::retry_read;
use crate::error::Error;
use crate::mail::Mail;
use crate::outbox::SenderAccess;

/// The kind of the jobs.
const KIND: &str = "account-removal";
/// The shortest and the longest time until the job asks again whether the last export is complete.
const EXPORT_DELAYS: [Duration; 2] = [Duration::from_secs(1), Duration::from_mins(1)];
/// Maximum number of messages that one command deletes.
const BATCH: usize = 1000;
/// Maximum number of lists of the messages in the inbox. A delivery that was accepted before the
/// account was disabled can add messages between two lists.
const MAX_LISTS: usize = 20;
/// The time for which the job repeats attempts with a credential that the mail server refuses.
/// After this time, the account is deleted without its mailbox.
const CREDENTIAL_TIMEOUT: Duration = Duration::from_hours(24);
/// The period for which [`Removals::ensure_due`] stores jobs, and the maximum number of accounts of
/// one call.
const AHEAD: Duration = Duration::from_mins(2);
const MAX_ACCOUNTS: u32 = 1000;

/// Exports a mailbox for the last time.
pub trait LastExport: fmt::Debug + Send + Sync {
    /// Exports the mailbox of an account that is being deleted. Returns `true` if the export is
    /// complete, or if there is nothing to export. Returns `false` if the export needs more time:
    /// the job calls this function again after seconds, possibly on another host. The credential of
    /// `access` is valid until the account is deleted. The account is disabled.
    ///
    /// # Errors
    /// Returns an [`Error`] if the export fails. The job calls this function again later.
    fn export<'a>(&'a self, access: &'a Access) -> BoxFuture<'a, Result<bool, Error>>;
}

/// Deletes the accounts whose grace period is over.
#[derive(Debug)]
pub struct Removals {
    accounts: Accounts,
    mail: Arc<Mail>,
    jobs: Arc<Jobs>,
    access: Arc<dyn SenderAccess>,
    /// `None` if no ManageSieve server is configured.
    sieve: Option<latchmail_sieve::Connector>,
    sign_in: config::SignIn,
    last_export: Arc<dyn LastExport>,
}

impl Removals {
    /// Creates the handler. `access` returns the access to mailboxes that are being deleted. Each
    /// mailbox is exported before it is deleted. Does not connect.
    ///
    /// # Errors
    /// Returns an error if the address of the `ManageSieve` server is invalid.
    pub fn new(
        config: &config::Config,
        accounts: Accounts,
        mail: Arc<Mail>,
        jobs: Arc<Jobs>,
        access: Arc<dyn SenderAccess>,
        last_export: Arc<dyn LastExport>,
    ) -> Result<Self, StartError> {
        Ok(Self {
            accounts,
            mail,
            jobs,
            access,
            sieve: latchmail_sieve::Connector::new(&config.sieve, &config.imap)?,
            sign_in: config.sign_in.clone(),
            last_export,
        })
    }

    /// Stores the jobs for the accounts that are deleted within the next minutes. The service calls
    /// this function every minute.
    ///
    /// # Errors
    /// Returns an error if the database fails.
    pub async fn ensure_due(&self) -> Result<(), Failure> {
        let now = self.jobs.now().await?;
        let due = self
            .accounts
            .due_deletions(now.plus(AHEAD), MAX_ACCOUNTS)
            .await?;
        for account in due {
            self.ensure(&account).await;
        }
        Ok(())
    }

    /// Stores the job for an account that is deleted within the next minutes, after a request to
    /// delete the account. A failure is logged, because the job is stored later otherwise.
    pub async fn ensure(&self, account: &str) {
        // The account can be gone by now, because the operator or another host deleted it.
        if let Err(failure) = self.try_ensure(account).await {
            tracing::warn!(
                account,
                ?failure,
                "failed to store the deletion of an account"
            );
        }
    }

    async fn try_ensure(&self, account: &str) -> Result<(), Failure> {
        let Some(deletion) = self.accounts.deletion(account).await? else {
            return Ok(());
        };
        if deletion.deletes_at > self.jobs.now().await?.plus(AHEAD) {
            return Ok(());
        }
        let job = NewJob {
            kind: KIND,
            key: "",
            account,
            due_at: deletion.deletes_at,
            payload: b"",
            limit: 1,
        };
        self.jobs.ensure_due(job).await
    }

    /// Does the steps of a job. Returns the outcome of the attempt.
    async fn remove(&self, job: &Job) -> Result<Outcome, Error> {
        let account = job.account.as_str();
        let now = self.jobs.now().await.map_err(failed)?;
        match self.accounts.begin_removal(account, now).await? {
            Removal::None => return Ok(Outcome::Done),
            Removal::At(time) => return Ok(Outcome::Later(time)),
            Removal::Begun => {}
        }
        let Some(access) = self.access.access(account, None).await? else {
            return Ok(Outcome::Done);
        };
        let address = access.credential.username.clone();
        // The mail server's own users keep their mailboxes.
        let mut outcome = "without_mailbox";
        if !self.sign_in.is_at_mail_server(&address) {
            match self.empty_mailbox(&access).await {
                Ok(true) => outcome = "with_mailbox",
                Ok(false) => {
                    let [shortest, longest] = EXPORT_DELAYS;
                    let delay = (now.since(job.due_at) / 20).clamp(shortest, longest);
                    return Ok(Outcome::Later(now.plus(delay)));
                }
                Err(Error::CredentialRefused) if now.since(job.due_at) > CREDENTIAL_TIMEOUT => {
                    tracing::error!(
                        mailbox = account,
                        "the mail server refuses the service's credential for a mailbox that is being deleted, so the mail stays there; \
                         install the current templates (docs/mailserver.md), and delete the folder of the mailbox"
                    );
                }
                Err(error) => return Err(error),
            }
        }
        let deleted = self
            .accounts
            .delete(account, now, &Origin::service())
            .await?;
        if deleted {
            metrics::ACCOUNTS_DELETED.increment([outcome]);
            tracing::info!(account, "an account and its mailbox were deleted");
        }
        let ended = [access.credential.id.clone()];
        self.mail.connections.end_sessions(&ended).await;
        Ok(Outcome::Done)
    }

    /// Deletes the folders, the messages and the scripts of a mailbox. Returns `false` if the last
    /// export is not complete, and nothing was deleted.
    async fn empty_mailbox(&self, access: &Access) -> Result<bool, Error> {
        if !self.last_export.export(access).await? {
            return Ok(false);
        }
        self.delete_folders(access).await?;
        self.empty_inbox(access).await?;
        self.delete_scripts(&access.credential).await?;
        let connections = &self.mail.connections;
        connections.close(&access.credential.id);
        connections.purge(&access.credential.username).await;
        Ok(true)
    }

    async fn delete_folders(&self, access: &Access) -> Result<(), Error> {
        let connections = &self.mail.context.connections;
        let mut lease = connections.lease(access, None).await?;
        let listed = retry_read!(lease, session => session.list());
        let mut folders: Vec<_> = listed.iter().filter(|one| one.path != INBOX).collect();
        // Subfolders first: the server refuses to delete a name that has subfolders.
        folders.sort_unstable_by_key(|one| Reverse(one.name.len()));
        for folder in folders {
            let deleted = lease.session().await?.delete_folder(&folder.name).await;
            match deleted.map_err(change_error) {
                Ok(FolderOutcome::Changed | FolderOutcome::Missing) => {}
                // A name without a folder can be gone with its last subfolder.
                _ if !folder.selectable => {}
                Ok(FolderOutcome::Exists | FolderOutcome::InvalidName) => {
                    return Err(Error::InvalidFolderPath);
                }
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Deletes the messages in the inbox, which itself cannot be deleted (RFC 3501, section 6.3.4).
    async fn empty_inbox(&self, access: &Access) -> Result<(), Error> {
        let connections = &self.mail.context.connections;
        for _ in 0..MAX_LISTS {
            let mut lease = connections.lease(access, Some(INBOX)).await?;
            let found = retry_read!(lease, session => session.arrivals(INBOX, 1));
            let Some((opened, uids)) = found.filter(|(_, uids)| !uids.is_empty()) else {
                return Ok(());
            };
            for uids in uids.chunks(BATCH) {
                let selected = select(&mut lease, INBOX, opened.uid_validity).await?;
                let Some((session, _)) = selected else {
                    break;
                };
                let expunged = session.selected_folder()?.expunge(uids).await;
                expunged.map_err(change_error)?;
            }
        }
        Err(Error::Unavailable(
            "the inbox of a mailbox that is being deleted still receives messages".into(),
        ))
    }

    async fn delete_scripts(&self, credential: &MailCredential) -> Result<(), Error> {
        let Some(connector) = &self.sieve else {
            return Ok(());
        };
        let deleted = async {
            let mut session = connector.logged_in(credential).await?;
            let scripts = session.list().await?;
            if scripts.iter().any(|script| script.is_active) {
                session.deactivate().await?;
            }
            for script in scripts {
                session.delete(&script.name).await?;
            }
            Ok::<_, latchmail_sieve::Error>(())
        };
        deleted.await.map_err(|error| match error {
            latchmail_sieve::Error::Refused => Error::CredentialRefused,
            error => Error::Unavailable(error.to_string()),
        })
    }
}

impl Handler for Removals {
    fn kind(&self) -> &'static str {
        KIND
    }

    fn run<'a>(&'a self, job: &'a Job) -> BoxFuture<'a, Outcome> {
        let removed = self.remove(job).map(|result| match result {
            Ok(outcome) => outcome,
            Err(error) => Outcome::Retry(error.to_string()),
        });
        removed.boxed()
    }
}

#[expect(clippy::needless_pass_by_value, reason = "for `map_err`")]
fn failed(failure: Failure) -> Error {
    Error::Internal(failure.to_string())
}
