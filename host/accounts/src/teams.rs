//! Shared mailboxes (teams): the members, the grants of each member, and the mailbox's key. The key
//! is an app password with which the service opens the mailbox for members.
//!
//! This module validates grants and checks whether the caller can manage members. It does not
//! handle HTTP or WIT. The directory stores members and grants. In the transaction of a change, the
//! directory checks the caller's rights again. The directory also enforces the maximum numbers of
//! members and grants.

mod invitation;
mod key;
mod members;
mod validation;

use std::sync::Arc;

use latchmail_core::caller::{MailCredential, Origin};
use latchmail_core::clock::Clock;
use latchmail_core::codes;
use latchmail_core::config::Config;
use latchmail_core::error::Failure;
use latchmail_core::error::Problem;
use latchmail_core::keyring::Keyring;
use latchmail_core::permissions::{Resource, Rights};
use latchmail_directory::Directory;
use latchmail_directory::session_caller::SessionCaller;
use latchmail_directory::teams::{Grant, Refusal, TeamCaller};

use crate::auth::Auth;
use crate::auth::account::{Session, session_over};
use crate::mail_server::{self, MailServer};
use crate::plans::Plans;
pub use invitation::Invited;
pub use members::{Roster, TeamMember, TeamSummary};
pub use validation::GrantRequest;

/// The reason why a team was not changed.
#[derive(Debug)]
pub enum Error {
    /// The directory refused the change.
    Refused(Refusal),
    /// The request is not valid. The text can be shown to users.
    Invalid(Problem),
    /// The password with which the caller confirms the change is wrong.
    WrongPassword,
    /// The mail server failed or is unavailable.
    MailServer(mail_server::Error),
    /// The session ended concurrently, or an internal error occurred.
    Failed(Failure),
}

impl From<Refusal> for Error {
    fn from(refusal: Refusal) -> Self {
        match refusal {
            Refusal::SessionOver => session_over().into(),
            Refusal::NotApplicable(resource) => {
                let text = validation::not_taken(&resource);
                Self::Invalid(Problem::new(codes::INVALID_RIGHTS, text))
            }
            Refusal::Directory(error) => error.into(),
            refusal => Self::Refused(refusal),
        }
    }
}

impl From<mail_server::Error> for Error {
    fn from(error: mail_server::Error) -> Self {
        Self::MailServer(error)
    }
}

impl From<Failure> for Error {
    fn from(failure: Failure) -> Self {
        Self::Failed(failure)
    }
}

impl From<latchmail_directory::Error> for Error {
    fn from(error: latchmail_directory::Error) -> Self {
        Self::Failed(error.into())
    }
}

/// The operations on the teams of all accounts.
#[derive(Debug)]
pub struct Teams {
    directory: Directory,
    auth: Arc<Auth>,
    mail_server: Arc<dyn MailServer>,
    keys: Arc<Keyring>,
    plans: Plans,
    clock: Clock,
}

impl Teams {
    /// Creates the operations on teams.
    #[must_use]
    pub fn new(
        config: &Config,
        directory: Directory,
        auth: Arc<Auth>,
        mail_server: Arc<dyn MailServer>,
        clock: Clock,
    ) -> Self {
        Self {
            directory,
            keys: auth.keys(),
            auth,
            mail_server,
            plans: Plans::of(config),
            clock,
        }
    }

    /// Creates a further grant for a member. Returns the grant's id. `mail` is the credential of
    /// the caller's own mailbox.
    ///
    /// # Errors
    /// Returns an [`Error`] if the request is invalid or refused, or if an operation fails. On
    /// error, no grant is created.
    pub async fn add_grant(
        &self,
        session: Session<'_>,
        mail: &MailCredential,
        mailbox: &str,
        member: &str,
        request: GrantRequest,
        origin: &Origin,
    ) -> Result<String, Error> {
        self.managed(session.account, mailbox).await?;
        let mut grant = request.validated()?;
        self.look_up(&mut grant, session.account, mail, mailbox)
            .await?;
        let changing = self.changing(session, mailbox);
        let added = self
            .directory
            .teams
            .add_grant(changing, member, &grant, origin);
        added.await?;
        Ok(grant.id)
    }

    /// Changes the rights of a grant.
    ///
    /// # Errors
    /// Returns an [`Error`] if the request is invalid or refused, or if an operation fails. On
    /// error, nothing is changed.
    pub async fn change_grant(
        &self,
        session: Session<'_>,
        mailbox: &str,
        grant: &str,
        rights: Rights,
        origin: &Origin,
    ) -> Result<(), Error> {
        self.managed(session.account, mailbox).await?;
        validation::some(rights)?;
        let changing = self.changing(session, mailbox);
        let changed = self
            .directory
            .teams
            .change_grant(changing, grant, rights, origin);
        Ok(changed.await?)
    }

    /// Revokes a grant. The member remains a member.
    ///
    /// # Errors
    /// Returns an [`Error`] if the request is invalid or refused, or if an operation fails. On
    /// error, nothing is changed.
    pub async fn revoke_grant(
        &self,
        session: Session<'_>,
        mailbox: &str,
        grant: &str,
        origin: &Origin,
    ) -> Result<(), Error> {
        let changing = self.changing(session, mailbox);
        let revoked = self.directory.teams.revoke_grant(changing, grant, origin);
        Ok(revoked.await?)
    }

    /// Removes a member. If no members remain, also deletes the mailbox's key and ends the mail
    /// server sessions that logged in with the key.
    ///
    /// # Errors
    /// Returns an [`Error`] if the request is invalid or refused, or if an operation fails. On
    /// error, the account is still a member.
    pub async fn remove_member(
        &self,
        session: Session<'_>,
        mailbox: &str,
        member: &str,
        origin: Origin,
    ) -> Result<(), Error> {
        let (directory, mail_server) = (self.directory.clone(), Arc::clone(&self.mail_server));
        let (account, sid) = (session.account.to_owned(), session.sid.to_owned());
        let (mailbox, member) = (mailbox.to_owned(), member.to_owned());
        let at = self.clock.now();
        let removed = self.auth.complete(async move {
            let changing = TeamCaller {
                session: SessionCaller {
                    account_id: &account,
                    sid: &sid,
                    at,
                },
                mailbox: &mailbox,
            };
            let removed = directory
                .teams
                .remove_member(changing, &member, &origin)
                .await;
            if let Ok(Some(key)) = &removed {
                mail_server.end_sessions(std::slice::from_ref(key)).await;
            }
            Ok(removed)
        });
        removed.await??;
        Ok(())
    }

    /// Sets the UIDVALIDITY of the grant's folder to the value from the mail server. Sets 0 if the
    /// mail server has no such folder, so that the directory refuses the grant. Does nothing if the
    /// grant is not for a folder.
    async fn look_up(
        &self,
        grant: &mut Grant,
        caller: &str,
        mail: &MailCredential,
        mailbox: &str,
    ) -> Result<(), Error> {
        let Resource::Folder(folder) = &mut grant.resource else {
            return Ok(());
        };
        let credential = if caller == mailbox {
            mail.clone()
        } else {
            self.auth.shared(mailbox, caller).await?.mail
        };
        let found = self
            .mail_server
            .folder_uid_validity(mailbox, credential, &folder.id)
            .await?;
        folder.uid_validity = found.unwrap_or(0);
        Ok(())
    }

    fn changing<'a>(&self, session: Session<'a>, mailbox: &'a str) -> TeamCaller<'a> {
        TeamCaller {
            session: SessionCaller {
                account_id: session.account,
                sid: session.sid,
                at: self.clock.now(),
            },
            mailbox,
        }
    }
}
