//! The mailbox, over IMAP: folders, listings, messages, and the service's own numbers for them.
//!
//! Knows neither HTTP nor WIT. It acts with the credential it is handed and asks no further who is asking.

mod bounds;
mod download;
mod identity;
mod imap;
mod index;
mod kept;
mod listing;
mod message;
mod mime;
mod pool;
mod preview;
mod roles;
pub mod types;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::caller::MailCredential;
use crate::config;
use crate::directory::Db;
pub use download::Download;
use identity::identity;
use imap::{Connector, Fetched};
use index::Place;
use kept::Kept;
use message::Read;
use mime::Section;
use pool::{Lease, Pool};
pub use types::{Address, Attachment, AttachmentContent, Detail, Folder, Listing, Role, Summary};

/// Whose mailbox, and what opens it.
#[derive(Clone, Debug)]
pub struct Access {
    /// The account whose mailbox it is: its numbers are kept under this id.
    pub account: String,
    /// What the mail server is shown.
    pub credential: MailCredential,
}

/// Why the mailbox did not do what was asked. What does not exist is `Ok(None)`, not an error.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The mail server does not accept the credential (any more).
    #[error("the mail server refused the credential")]
    CredentialRefused,
    /// The mail server cannot be reached, is starting, or has no connection to spare; nothing was begun.
    #[error("the mail server is not available: {0}")]
    Unavailable(String),
    /// It is larger than what is read of a message. The sentence is fit to be shown.
    #[error("{0}")]
    TooLarge(String),
    /// The mail server or the index failed or said what cannot be understood.
    #[error("the mailbox failed: {0}")]
    Internal(String),
}

impl From<crate::directory::Error> for Error {
    fn from(error: crate::directory::Error) -> Self {
        Self::Internal(error.to_string())
    }
}

/// The mailboxes of one mail server.
#[derive(Debug)]
pub struct Mail {
    connector: Connector,
    pool: Pool,
    db: Db,
    kept: Kept,
    /// MiB that larger messages may take while they are read.
    room: Arc<Semaphore>,
    patience: Duration,
}

/// Reads on a leased connection. One that was idle may have died meanwhile: then, once, on a new one. Reading may be repeated.
macro_rules! reading {
    ($lease:ident, $session:ident => $read:expr) => {{
        let was_idle = $lease.was_idle();
        let $session = $lease.session().await?;
        match $read.await {
            Err(imap::Error::Lost(why)) if was_idle => {
                tracing::debug!(why, "an idle connection to the mail server was dead");
                let $session = $lease.session().await?;
                $read.await?
            }
            read => read?,
        }
    }};
}
use reading;

impl Mail {
    /// Nothing is connected yet.
    ///
    /// # Errors
    /// A sentence where the configuration's address or TLS cannot be used.
    pub fn new(config: &config::Imap, db: Db) -> Result<Self, crate::error::StartError> {
        let connector = Connector::new(config)?;
        Ok(Self {
            pool: Pool::new(connector.clone(), config),
            connector,
            db,
            kept: Kept::new(),
            room: Arc::new(Semaphore::new(bounds::ROOM_MIB)),
            patience: config.timeout,
        })
    }

    /// Whether the mail server takes connections and greets.
    ///
    /// # Errors
    /// [`Error::Unavailable`] where it does not.
    pub async fn ping(&self) -> Result<(), Error> {
        Ok(self.connector.ping().await?)
    }

    /// All folders that can be opened: those with a role first, in the order of [`Role`], then the rest by path.
    ///
    /// # Errors
    /// Any of [`Error`].
    pub async fn folders(&self, access: &Access) -> Result<Vec<Folder>, Error> {
        let mut lease = self.pool.lease(access, None).await?;
        let listed = reading!(lease, session => session.folders());
        Ok(roles::arranged(listed))
    }

    /// `limit` messages of a folder after the newest `offset`, newest first; none where there is no such folder.
    ///
    /// # Errors
    /// Any of [`Error`].
    pub async fn messages(
        &self,
        access: &Access,
        folder: &str,
        offset: u32,
        limit: u32,
    ) -> Result<Option<Listing>, Error> {
        let path = canonical(folder);
        let mut lease = self.pool.lease(access, Some(path)).await?;
        let account = &access.account;
        let read = reading!(lease, session => {
            listing::read(session, &self.kept, account, path, offset, limit)
        });
        // Others may use the connection while the numbers are looked up.
        drop(lease);
        let Some(read) = read else {
            return Ok(None);
        };
        let mut fresh = HashMap::new();
        if read.seen.is_empty() || !read.fresh.messages.is_empty() {
            let places: Vec<_> = read
                .fresh
                .messages
                .iter()
                .map(|m| (m.uid, identity(m)))
                .collect();
            let numbers = index::numbers(&self.db, account, path, read.opened, &places).await?;
            fresh.extend(read.fresh.summaries(numbers).await?);
        }
        for (imap_uid, summary) in &fresh {
            self.kept.keep_summary(read.folder, *imap_uid, summary);
        }
        let shown = |(seen, known): (Fetched, Option<Arc<Summary>>)| {
            let summary = match known {
                Some(known) => Summary::clone(&known),
                // One that did not come was expunged a moment ago.
                None => fresh.remove(&seen.uid)?,
            };
            Some(Summary {
                seq: seen.seq,
                flags: seen.flags,
                ..summary
            })
        };
        Ok(Some(Listing {
            total: read.opened.exists,
            messages: read.seen.into_iter().rev().filter_map(shown).collect(),
        }))
    }

    /// One message by its number, wherever it is; `folder` is a hint. None where there is no such message.
    ///
    /// # Errors
    /// Any of [`Error`].
    pub async fn message(
        &self,
        access: &Access,
        uid: u64,
        _folder: Option<&str>,
    ) -> Result<Option<Detail>, Error> {
        let Some(place) = self.place(access, uid).await? else {
            return Ok(None);
        };
        let detail = self.message_at(access, uid, &place).await?;
        Ok(self.found(access, uid, detail))
    }

    async fn message_at(
        &self,
        access: &Access,
        uid: u64,
        place: &Place,
    ) -> Result<Option<Detail>, Error> {
        let Some((message, mut lease)) = self.fetched(access, place).await? else {
            return Ok(None);
        };
        let (detail, sections) = if message.whole.len() < bounds::FIRST {
            drop(lease);
            message::whole(uid, message).await?
        } else {
            let room = self.room_for(bounds::LARGE_MIB).await?;
            let Some(read) = Read::on(lease.session().await?, message).await? else {
                return Ok(None);
            };
            drop(lease);
            message::large(uid, read, room).await?
        };
        self.kept.keep_sections(&access.account, uid, &sections);
        Ok(Some(detail))
    }

    /// One attachment. `None` where there is no such message, `Some(None)` where it has no such attachment.
    ///
    /// # Errors
    /// Any of [`Error`].
    pub async fn attachment(
        self: &Arc<Self>,
        access: &Access,
        uid: u64,
        index: u32,
        _folder: Option<&str>,
    ) -> Result<Option<Option<AttachmentContent>>, Error> {
        let Some(place) = self.place(access, uid).await? else {
            return Ok(None);
        };
        let attachment = self.attachment_at(access, uid, index, place).await?;
        Ok(self.found(access, uid, attachment))
    }

    async fn attachment_at(
        self: &Arc<Self>,
        access: &Access,
        uid: u64,
        index: u32,
        place: Arc<Place>,
    ) -> Result<Option<Option<AttachmentContent>>, Error> {
        let sections = match self.kept.sections(&access.account, uid) {
            Some(sections) => sections,
            None => match self.sections(access, uid, &place).await? {
                Some(sections) => sections,
                None => return Ok(None),
            },
        };
        let section = usize::try_from(index).ok().and_then(|i| sections.get(i));
        let Some(section) = section.cloned() else {
            return Ok(self.is_there(access, &place).await?.then_some(None));
        };
        if !section.complete {
            if !self.is_there(access, &place).await? {
                return Ok(None);
            }
            return Err(Error::TooLarge(
                "The message is too large to be read to the end of this attachment".into(),
            ));
        }
        let attachment = section.attachment.clone();
        let content = Download::begin(Arc::clone(self), access, place, section).await?;
        Ok(content.map(|content| {
            Some(AttachmentContent {
                attachment,
                content,
            })
        }))
    }

    /// What was found of a message. Where that is nothing, it is not where it was seen last.
    fn found<T>(&self, access: &Access, uid: u64, found: Option<T>) -> Option<T> {
        if found.is_none() {
            self.kept.forget_place(&access.account, uid);
        }
        found
    }

    /// Where a message was seen last; none where its number was never given.
    async fn place(&self, access: &Access, uid: u64) -> Result<Option<Arc<Place>>, Error> {
        let account = &access.account;
        if let Some(place) = self.kept.place(account, uid) {
            return Ok(Some(place));
        }
        let Some(place) = index::place(&self.db, account, uid).await? else {
            return Ok(None);
        };
        let place = Arc::new(place);
        self.kept.keep_place(account, uid, &place);
        Ok(Some(place))
    }

    /// The beginning of a message, and the connection that has its folder open.
    async fn fetched(
        &self,
        access: &Access,
        place: &Place,
    ) -> Result<Option<(Fetched, Lease)>, Error> {
        let spot = place.spot();
        let mut lease = self.pool.lease(access, Some(spot.path)).await?;
        let message = reading!(lease, session => session.message(spot));
        Ok(message.map(|message| (message, lease)))
    }

    /// Whether a message is where it was seen last.
    async fn is_there(&self, access: &Access, place: &Place) -> Result<bool, Error> {
        let spot = place.spot();
        let mut lease = self.pool.lease(access, Some(spot.path)).await?;
        let beginning = reading!(lease, session => session.piece_of(spot, &(0..1)));
        Ok(beginning.is_some())
    }

    /// Where the attachments of a message are. None where the message is gone.
    async fn sections(
        &self,
        access: &Access,
        uid: u64,
        place: &Place,
    ) -> Result<Option<Arc<[Section]>>, Error> {
        let Some((message, mut lease)) = self.fetched(access, place).await? else {
            return Ok(None);
        };
        let structure = message::walked(lease.session().await?, &message).await?;
        Ok(structure.map(|structure| {
            let sections: Arc<[Section]> = mime::sections(&structure).collect();
            self.kept.keep_sections(&access.account, uid, &sections);
            sections
        }))
    }

    /// Closes every connection made with the app password `credential`: it was revoked.
    #[expect(clippy::unused_async, reason = "closing may come to say goodbye")]
    pub async fn close(&self, credential: &str) {
        self.pool.close(credential);
    }

    /// Waits for so much room.
    async fn room_for(&self, mib: u32) -> Result<OwnedSemaphorePermit, Error> {
        let room = Arc::clone(&self.room).acquire_many_owned(mib);
        match tokio::time::timeout(self.patience, room).await {
            Ok(Ok(room)) => Ok(room),
            Ok(Err(_)) | Err(_) => Err(Error::Unavailable(
                "too many large messages are being read".into(),
            )),
        }
    }
}

/// The inbox has one name, however it is written (RFC 3501, section 5.1).
fn canonical(folder: &str) -> &str {
    if folder.eq_ignore_ascii_case("INBOX") {
        "INBOX"
    } else {
        folder
    }
}

/// Runs work on so many bytes: here where they are few, since going elsewhere costs more than it takes, else on a thread that may take
/// its time.
async fn worked<T: Send + 'static>(
    bytes: usize,
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, String> {
    if bytes <= bounds::BRIEF {
        Ok(work())
    } else {
        blocking(work).await
    }
}

/// Runs work on a thread that may take its time.
async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, String> {
    tokio::task::spawn_blocking(work)
        .await
        .map_err(|error| format!("reading a message failed: {error}"))
}

#[cfg(test)]
mod tests;
