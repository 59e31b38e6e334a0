//! Mailboxes that are shared: who is a member, what was granted to each, and the key with which guests act.
//!
//! Knows neither HTTP nor WIT. Who may grant what is judged here; that a member and its grants are kept, and how many there may be, is the directory's.

mod invitation;
mod judging;
mod key;
mod members;
pub mod rights;

use std::sync::Arc;

pub use invitation::Invited;
pub use judging::Wanted;
pub use members::{Listed, Roster, Seen};

use crate::auth::account::{Session, session_over};
use crate::auth::keyring::Keyring;
use crate::auth::{Auth, detached};
use crate::caller::{MailCredential, Origin};
use crate::clock::Clock;
use crate::config::Config;
use crate::directory::sessions::Asking;
use crate::directory::teams::{Changing, Grant, Refusal};
use crate::directory::{self, Directory};
use crate::error::Failure;
use crate::mail::{self, Access, Mail};
use crate::plans::Plans;
use rights::{Resource, Rights};

/// Why a team is as it was.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// It is refused.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// What was asked for can be nobody's wish. The sentence is fit to be shown.
    #[error("{0}")]
    Invalid(String),
    /// The password is not the asker's.
    #[error("the password is not the asker's")]
    WrongPassword,
    /// There is no mail server that a key could act at.
    #[error(transparent)]
    Mail(#[from] mail::Error),
    /// The session ended meanwhile, or the host failed.
    #[error("{0}")]
    Failed(Failure),
}

impl From<Failure> for Error {
    fn from(failure: Failure) -> Self {
        Self::Failed(failure)
    }
}

impl From<directory::Error> for Error {
    fn from(error: directory::Error) -> Self {
        Self::Failed(error.into())
    }
}

/// The teams of all accounts.
#[derive(Debug)]
pub struct Teams {
    directory: Directory,
    auth: Arc<Auth>,
    mail: Arc<Mail>,
    keys: Arc<Keyring>,
    plans: Plans,
    clock: Clock,
}

impl Teams {
    /// Puts the rooms together.
    #[must_use]
    pub fn new(
        config: &Config,
        directory: Directory,
        auth: Arc<Auth>,
        mail: Arc<Mail>,
        clock: Clock,
    ) -> Self {
        Self {
            directory,
            keys: auth.keys(),
            auth,
            mail,
            plans: Plans::of(config),
            clock,
        }
    }

    /// Makes a further grant for a member. Returns its id. `mail` opens the asker's own mailbox.
    ///
    /// # Errors
    /// Returns [`Error`]. Nothing is granted in that case.
    pub async fn add_grant(
        &self,
        session: Session<'_>,
        mail: &MailCredential,
        mailbox: &str,
        member: &str,
        wanted: Wanted,
        origin: &Origin,
    ) -> Result<String, Error> {
        self.managed(session.account, mailbox).await?;
        let mut grant = wanted.judged()?;
        self.look_up(&mut grant, session.account, mail, mailbox)
            .await?;
        let changing = self.changing(session, mailbox);
        let added = self.directory.add_grant(changing, member, &grant, origin);
        added.await.map_err(told)?;
        Ok(grant.id)
    }

    /// Gives a grant other rights.
    ///
    /// # Errors
    /// Returns [`Error`]. Nothing is changed in that case.
    pub async fn change_grant(
        &self,
        session: Session<'_>,
        mailbox: &str,
        grant: &str,
        rights: Rights,
        origin: &Origin,
    ) -> Result<(), Error> {
        self.managed(session.account, mailbox).await?;
        judging::some(rights)?;
        let changing = self.changing(session, mailbox);
        let changed = self.directory.change_grant(changing, grant, rights, origin);
        changed.await.map_err(told)
    }

    /// Takes a grant back. Its holder stays a member.
    ///
    /// # Errors
    /// Returns [`Error`]. Nothing is changed in that case.
    pub async fn revoke_grant(
        &self,
        session: Session<'_>,
        mailbox: &str,
        grant: &str,
        origin: &Origin,
    ) -> Result<(), Error> {
        let changing = self.changing(session, mailbox);
        let revoked = self.directory.revoke_grant(changing, grant, origin);
        revoked.await.map_err(told)
    }

    /// Removes a member. The key goes with the last one, and what is logged in with it is ended.
    ///
    /// # Errors
    /// Returns [`Error`]. The account is still a member in that case.
    pub async fn remove_member(
        &self,
        session: Session<'_>,
        mailbox: &str,
        member: &str,
        origin: Origin,
    ) -> Result<(), Error> {
        let (directory, mail) = (self.directory.clone(), Arc::clone(&self.mail));
        let (account, sid) = (session.account.to_owned(), session.sid.to_owned());
        let (mailbox, member) = (mailbox.to_owned(), member.to_owned());
        let at = self.clock.now();
        let removed = detached(async move {
            let changing = Changing {
                asking: Asking {
                    account_id: &account,
                    sid: &sid,
                    at,
                },
                mailbox: &mailbox,
            };
            let removed = directory.remove_member(changing, &member, &origin).await;
            if let Ok(Some(key)) = &removed {
                mail.end(std::slice::from_ref(key)).await;
            }
            Ok(removed)
        });
        removed.await?.map(drop).map_err(told)
    }

    /// Sets the UIDVALIDITY of the folder that a grant names to what the mail server lists now; to 0 if there is no such folder.
    async fn look_up(
        &self,
        grant: &mut Grant,
        asker: &str,
        mail: &MailCredential,
        mailbox: &str,
    ) -> Result<(), Error> {
        let Resource::Folder(folder) = &mut grant.resource else {
            return Ok(());
        };
        let credential = if asker == mailbox {
            mail.clone()
        } else {
            self.auth.shared(mailbox, asker).await?.mail
        };
        let access = Access {
            account: mailbox.to_owned(),
            credential,
            guest: None,
        };
        let found = self.mail.uid_validity(&access, &folder.id).await?;
        folder.uid_validity = found.unwrap_or(0);
        Ok(())
    }

    fn changing<'a>(&self, session: Session<'a>, mailbox: &'a str) -> Changing<'a> {
        Changing {
            asking: Asking {
                account_id: session.account,
                sid: session.sid,
                at: self.clock.now(),
            },
            mailbox,
        }
    }
}

/// A refusal as this room tells it.
fn told(refusal: Refusal) -> Error {
    match refusal {
        Refusal::SessionOver => session_over().into(),
        Refusal::NotTaken(resource) => Error::Invalid(judging::not_taken(&resource)),
        Refusal::Directory(error) => error.into(),
        refusal => refusal.into(),
    }
}
