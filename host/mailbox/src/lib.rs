//! Mailboxes over IMAP: folders, listings, searches, messages, changes to messages, and the service's own numbers for messages.
//!
//! This crate knows neither HTTP nor WIT. It uses the credential that it receives and does not authenticate the caller.

pub(crate) mod authentication;
mod bounds;
mod change;
mod connect;
mod doveadm;
mod download;
mod end;
mod filing;
mod folder_ids;
mod identity;
mod kept;
mod listing;
mod losses;
mod message;
pub mod outbox;
mod pairing;
mod places;
pub(crate) mod pool;
mod reach;
mod reconcile;
mod roles;
pub mod types;

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use latchmail_core::account_permits::AccountPermits;
use latchmail_core::caller::MailCredential;
use latchmail_core::changes::Changes;
use latchmail_core::config;
use latchmail_core::permissions::{self, Right};
use latchmail_directory::Db;
use latchmail_directory::message_index::{self, Location};
pub use latchmail_imap::flag::Flag;
use latchmail_imap::list::COUNTS;
pub use latchmail_imap::list::Role;
use latchmail_imap::{Connector, Fetched, INBOX};
use latchmail_mime::{self as mime, Section};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

pub use authentication::addresses;
pub use authentication::{Authentication, Verdict};
pub use change::said;
use doveadm::Doveadm;
pub use download::Download;
pub use end::{Ending, end_at_mail_server};
pub use filing::Filing;
use kept::Kept;
use listing::Wanted;
use message::Read;
use places::spot_of;
use pool::{Lease, Pool};
pub use reach::Guest;
use reach::Judged;
pub use types::{Address, Attachment, AttachmentContent, Detail, Folder, Listing, Summary};

/// A mailbox, the credential that opens it, and the member who acts in it.
#[derive(Clone, Debug)]
pub struct Access {
    /// The id of the account that owns the mailbox. Message numbers are stored under it.
    pub account: String,
    /// The credential for the mail server.
    pub credential: MailCredential,
    /// The member who acts, or `None` for the owner. A member's rights are enforced for each folder.
    pub guest: Option<Guest>,
}

impl Access {
    /// Returns the id of the account that acts: the owner's or the member's.
    #[must_use]
    pub fn caller(&self) -> &str {
        let guest = self.guest.as_ref();
        guest.map_or(&self.account, |guest| &guest.account)
    }
}

/// The reason why an operation failed. A resource that does not exist is `Ok(None)`, not an error.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The mail server rejected the credential.
    #[error("the mail server rejected the credential")]
    CredentialRefused,
    /// The mail server is unreachable or starting, or no connection is free. Nothing has started.
    #[error("the mail server is not available: {0}")]
    Unavailable(String),
    /// The mail server rejected the command. The text is the server's and can be shown to users.
    #[error("the mail server rejected the command: {0}")]
    Rejected(String),
    /// A change has started and its outcome is unknown.
    #[error("the outcome of a change is unknown: {0}")]
    Unknown(String),
    /// The member may see the folder and lacks a right on it.
    #[error("{}", permissions::lacking(*.0))]
    Denied(Right),
    /// The message exceeds the limit of what is read. The text can be shown to users.
    #[error("{0}")]
    TooLarge(String),
    /// The mail server or the index failed, or the server's reply was invalid.
    #[error("mailbox error: {0}")]
    Internal(String),
}

impl From<latchmail_directory::Error> for Error {
    fn from(error: latchmail_directory::Error) -> Self {
        Self::Internal(error.to_string())
    }
}

/// The mailboxes of one mail server.
pub struct Mail {
    connector: Connector,
    pool: Pool<Connector>,
    db: Db,
    kept: Kept,
    /// Memory for larger messages while they are read, in MiB.
    room: Arc<Semaphore>,
    /// Memory for longer headers and texts of listings, in MiB. It is not held while a response is sent to a client.
    listing_room: Arc<Semaphore>,
    /// Limits the concurrent downloads of each account.
    downloading: AccountPermits,
    /// Serialize the changes of each account, and the reconciliations of each account.
    changing: AccountPermits,
    seeking: AccountPermits,
    changes: Changes,
    /// Callbacks that close connections of revoked credentials elsewhere.
    others: Mutex<Vec<Closer>>,
    /// Ends open sessions at the mail server, if configured.
    doveadm: Option<Arc<Doveadm>>,
    patience: Duration,
    /// The authserv-id of the results that are trusted; empty if there are none.
    authserv_id: Arc<str>,
}

/// Closes the connections of the revoked credential with this id.
type Closer = Box<dyn Fn(&str) + Send + Sync>;

impl fmt::Debug for Mail {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Mail")
            .field("connector", &self.connector)
            .finish_non_exhaustive()
    }
}

/// Reads on a leased connection. If an idle connection turns out to be closed, the read is repeated once on a new connection.
macro_rules! reading {
    ($lease:ident, $session:ident => $read:expr) => {{
        let was_idle = $lease.was_idle();
        let $session = $lease.session().await?;
        match $read.await {
            Err(latchmail_imap::Error::Lost(why)) if was_idle => {
                tracing::debug!(why, "idle connection to the mail server was closed");
                let $session = $lease.session().await?;
                $read.await?
            }
            read => read?,
        }
    }};
}
use reading;

impl Mail {
    /// Creates the mailboxes of the configured mail server. Does not connect.
    ///
    /// # Errors
    /// Returns an error if an address, the doveadm key or TLS in the configuration cannot be used.
    pub fn new(config: &config::Imap, db: Db) -> Result<Self, latchmail_core::error::StartError> {
        let connector = Connector::new(config)?;
        Ok(Self {
            pool: Pool::new(
                connector.clone(),
                config.connections_per_account,
                config.timeout,
                config.idle_timeout,
            ),
            connector,
            db,
            kept: Kept::new(),
            room: Arc::new(Semaphore::new(bounds::ROOM_MIB)),
            listing_room: Arc::new(Semaphore::new(bounds::LISTINGS_MIB)),
            downloading: AccountPermits::new(bounds::DOWNLOADS),
            changing: AccountPermits::new(1),
            seeking: AccountPermits::new(1),
            changes: Changes::default(),
            others: Mutex::default(),
            doveadm: Doveadm::new(config)?.map(Arc::new),
            patience: config.timeout,
            authserv_id: Arc::default(),
        })
    }

    /// Trusts the `Authentication-Results` of this authserv-id.
    #[must_use]
    pub fn trusting(mut self, authserv_id: &str) -> Self {
        self.authserv_id = authserv_id.into();
        self
    }

    /// Checks that the mail server accepts connections and sends its greeting.
    ///
    /// # Errors
    /// Returns [`Error::Unavailable`] if the mail server does not.
    pub async fn ping(&self) -> Result<(), Error> {
        Ok(self.connector.ping().await?)
    }

    /// Returns all selectable folders with their ids: first those with a role, in the order of [`Role`], then the others by path.
    ///
    /// # Errors
    /// Returns any [`Error`].
    pub async fn folders(&self, access: &Access) -> Result<Vec<(Folder, Arc<str>)>, Error> {
        if let Some(guest) = &access.guest
            && !guest.grants.over_some_folder().hold(Right::MailRead)
        {
            return Err(Error::Denied(Right::MailRead));
        }
        let mut lease = self.pool.lease(access, None).await?;
        let mut listed = reading!(lease, session => session.folders(COUNTS));
        drop(lease);
        let standings: Vec<_> = listed.iter().filter_map(reconcile::seen).collect();
        let ids = self.ids(access, &standings).await?;
        self.notice_all(access, &standings).await?;
        let mut ids: HashMap<String, Arc<str>> = listed
            .iter()
            .map(|folder| folder.path.clone())
            .zip(ids)
            .collect();
        // Rights refer to the stored names, which `ids` has just updated.
        let reach = self.reach(access).await?;
        listed.retain(|folder| {
            let validity = folder.status.map_or(0, |status| status.uid_validity);
            reach.judge(&folder.path, validity, Right::MailRead) == Judged::Allowed
        });
        let named = roles::arranged(listed).into_iter();
        Ok(named
            .filter_map(|folder| Some((ids.remove(&folder.path)?, folder)))
            .map(|(id, folder)| (folder, id))
            .collect())
    }

    /// Returns `limit` messages of a folder after the newest `offset`, newest first, or `None` if the folder does not exist.
    ///
    /// # Errors
    /// Returns any [`Error`].
    pub async fn messages(
        &self,
        access: &Access,
        folder: &str,
        offset: u32,
        limit: u32,
    ) -> Result<Option<Listing>, Error> {
        let wanted = Wanted {
            path: canonical(folder),
            term: None,
            offset,
            limit,
        };
        self.listed(access, wanted).await
    }

    /// Returns `limit` messages of a folder, after the newest `offset`, that contain `term` in the subject, sender, recipients or body, ignoring case. Newest
    /// first. Returns `None` if the folder does not exist.
    ///
    /// # Errors
    /// Returns any [`Error`].
    pub async fn search(
        &self,
        access: &Access,
        folder: &str,
        term: &str,
        offset: u32,
        limit: u32,
    ) -> Result<Option<Listing>, Error> {
        let wanted = Wanted {
            path: canonical(folder),
            term: Some(term),
            offset,
            limit,
        };
        self.listed(access, wanted).await
    }

    async fn listed(&self, access: &Access, wanted: Wanted<'_>) -> Result<Option<Listing>, Error> {
        self.acquainted(access).await?;
        let Some(reach) = self
            .reach_into(access, wanted.path, Right::MailRead)
            .await?
        else {
            return Ok(None);
        };
        let mut lease = self.pool.lease(access, Some(wanted.path)).await?;
        let account = &access.account;
        let read = reading!(lease, session => {
            listing::read(session, self, account, wanted)
        });
        // Release the connection while the database is queried.
        drop(lease);
        let Some(read) = read else {
            return Ok(None);
        };
        let validity = read.opened.uid_validity;
        if reach.judge(wanted.path, validity, Right::MailRead) != Judged::Allowed {
            return Ok(None);
        }
        self.notice(access, wanted.path, read.opened).await?;
        let mut fresh = HashMap::new();
        if !read.fresh.is_empty() {
            // Numbers follow the order of arrival.
            let mut places: Vec<_> = read
                .fresh
                .iter()
                .map(|m| (m.imap_uid, m.identity))
                .collect();
            places.sort_unstable_by_key(|(imap_uid, _)| *imap_uid);
            let numbers = self
                .numbers(access, wanted.path, read.opened, &places)
                .await?;
            fresh.extend(read.fresh.into_iter().filter_map(|m| {
                let uid = *numbers.get(&m.imap_uid)?;
                Some((m.imap_uid, Summary { uid, ..m.summary }))
            }));
        }
        for (imap_uid, summary) in &fresh {
            self.kept.keep_summary(read.folder, *imap_uid, summary);
        }
        let shown = |(seen, known): (Fetched, Option<Arc<Summary>>)| {
            let summary = match known {
                Some(known) => Summary::clone(&known),
                // A message that was just expunged has no summary.
                None => fresh.remove(&seen.uid)?,
            };
            Some(Summary {
                seq: seen.seq,
                flags: seen.flags,
                ..summary
            })
        };
        Ok(Some(Listing {
            total: read.total,
            messages: read.seen.into_iter().rev().filter_map(shown).collect(),
        }))
    }

    /// Returns a message by its number, in any folder. Returns `None` if the message does not exist.
    ///
    /// # Errors
    /// Returns any [`Error`].
    pub async fn message(&self, access: &Access, uid: u64) -> Result<Option<Detail>, Error> {
        let mut places = self.places(access, uid);
        while let Some(place) = places.next().await? {
            if let Some(detail) = self.message_at(access, uid, &place).await? {
                return Ok(Some(detail));
            }
        }
        Ok(None)
    }

    async fn message_at(
        &self,
        access: &Access,
        uid: u64,
        place: &Location,
    ) -> Result<Option<Detail>, Error> {
        let Some((message, mut lease)) = self.fetched(access, place).await? else {
            return Ok(None);
        };
        let (detail, sections) = if message.whole.len() < bounds::FIRST {
            drop(lease);
            message::whole(uid, message, self.authserv_id.clone()).await?
        } else {
            let room = self.room_for(bounds::LARGE_MIB).await?;
            let Some(read) = Read::on(lease.session().await?, message).await? else {
                return Ok(None);
            };
            drop(lease);
            message::large(uid, read, room, self.authserv_id.clone()).await?
        };
        self.kept.keep_sections(&access.account, uid, &sections);
        Ok(Some(detail))
    }

    /// Returns an attachment. Returns `None` if the message does not exist and `Some(None)` if it has no such attachment.
    ///
    /// # Errors
    /// Returns any [`Error`].
    pub async fn attachment(
        self: &Arc<Self>,
        access: &Access,
        uid: u64,
        index: u32,
    ) -> Result<Option<Option<AttachmentContent>>, Error> {
        let mut places = self.places(access, uid);
        while let Some(place) = places.next().await? {
            if let Some(found) = self.attachment_at(access, uid, index, place).await? {
                return Ok(Some(found));
            }
        }
        Ok(None)
    }

    async fn attachment_at(
        self: &Arc<Self>,
        access: &Access,
        uid: u64,
        index: u32,
        place: Arc<Location>,
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
                "The message is too large to read this attachment".into(),
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

    /// Returns the last known location of a message, or `None` if the index has no such number.
    async fn place(&self, access: &Access, uid: u64) -> Result<Option<Arc<Location>>, Error> {
        let account = &access.account;
        // Not for members: the response time would reveal which messages others have just requested.
        if access.guest.is_none()
            && let Some(place) = self.kept.place(account, uid)
        {
            return Ok(Some(place));
        }
        let Some(place) = message_index::location(&self.db, account, uid).await? else {
            return Ok(None);
        };
        let place = Arc::new(place);
        self.kept.keep_place(account, uid, &place);
        Ok(Some(place))
    }

    /// Returns the first bytes of a message and the connection that has its folder open.
    async fn fetched(
        &self,
        access: &Access,
        place: &Location,
    ) -> Result<Option<(Fetched, Lease<Connector>)>, Error> {
        let spot = spot_of(place);
        let mut lease = self.pool.lease(access, Some(spot.path)).await?;
        let message = reading!(lease, session => session.message(spot));
        Ok(message.map(|message| (message, lease)))
    }

    /// Returns `true` if a message is at its last known location.
    async fn is_there(&self, access: &Access, place: &Location) -> Result<bool, Error> {
        let spot = spot_of(place);
        let mut lease = self.pool.lease(access, Some(spot.path)).await?;
        let beginning = reading!(lease, session => session.read_range_at(spot, &(0..1)));
        Ok(beginning.is_some())
    }

    /// Returns a message's attachments and their positions, or `None` if the message no longer exists.
    async fn sections(
        &self,
        access: &Access,
        uid: u64,
        place: &Location,
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

    /// Waits for a download permit of an account.
    async fn download(&self, account: &str) -> Result<OwnedSemaphorePermit, Error> {
        let turn = self.downloading.acquire(account);
        match tokio::time::timeout(self.patience, turn).await {
            Ok(Some(turn)) => Ok(turn),
            Ok(None) | Err(_) => Err(Error::Unavailable(
                "the account has too many concurrent downloads".into(),
            )),
        }
    }

    /// Waits until no change is in progress.
    pub async fn finished(&self) {
        self.changes.finished().await;
    }

    /// Waits for a permit for `mib` MiB of memory for larger messages.
    async fn room_for(&self, mib: u32) -> Result<OwnedSemaphorePermit, Error> {
        self.memory(&self.room, mib, "too many large messages are being read")
            .await
    }

    /// Waits for a permit for the memory that reading `bytes` of longer headers and texts needs.
    async fn memory_for_listing(
        &self,
        bytes: usize,
    ) -> Result<OwnedSemaphorePermit, latchmail_imap::Error> {
        let mib = u32::try_from(bytes.div_ceil(1024 * 1024)).unwrap_or(u32::MAX);
        let busy = "too many large headers are being read";
        let memory = self.memory(&self.listing_room, mib, busy).await;
        memory.map_err(|error| latchmail_imap::Error::Unavailable(error.to_string()))
    }

    async fn memory(
        &self,
        of: &Arc<Semaphore>,
        mib: u32,
        busy: &str,
    ) -> Result<OwnedSemaphorePermit, Error> {
        let permits = Arc::clone(of).acquire_many_owned(mib);
        match tokio::time::timeout(self.patience, permits).await {
            Ok(Ok(permits)) => Ok(permits),
            Ok(Err(_)) | Err(_) => Err(Error::Unavailable(busy.into())),
        }
    }
}

/// Returns the path with the inbox's name in upper case. The name ignores case (RFC 3501, section 5.1).
fn canonical(folder: &str) -> &str {
    if folder.eq_ignore_ascii_case(INBOX) {
        INBOX
    } else {
        folder
    }
}

/// Runs work on `bytes` bytes: on the current thread if there are few, because changing threads costs more than the work, otherwise on a blocking thread.
pub(crate) async fn worked<T: Send + 'static>(
    bytes: usize,
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, String> {
    if bytes <= bounds::BRIEF {
        Ok(work())
    } else {
        blocking(work).await
    }
}

/// Runs work on a blocking thread.
async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, String> {
    tokio::task::spawn_blocking(work)
        .await
        .map_err(|error| format!("parsing a message failed: {error}"))
}

#[cfg(test)]
pub(crate) mod tests;
