//! Finds the location of a message by message number. A location consists of the folder and the
//! IMAP UID.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use latchmail_core::message_number::{MessageNumber, Uid};
use latchmail_core::permissions::Right;
use latchmail_directory::message_index::Location;
use latchmail_imap::MessageRef;

use super::Numbers;
use crate::access::Access;
use crate::error::Error;
use crate::folders::rights::{Decision, FolderAccess};

/// Converts a message's location for the IMAP client.
pub(crate) fn message_ref(location: &Location) -> MessageRef<'_> {
    MessageRef {
        path: &location.path,
        uid_validity: location.uid_validity(),
        uid: location.imap_uid(),
    }
}

/// Groups messages by the path and the UIDVALIDITY of their folders. Each group contains the
/// numbers and the IMAP UIDs of its messages.
pub(crate) fn group_by_folder(
    locations: &[(MessageNumber, Arc<Location>)],
) -> BTreeMap<(&str, u32), Vec<(MessageNumber, Uid)>> {
    let mut folders: BTreeMap<_, Vec<_>> = BTreeMap::new();
    for (number, location) in locations {
        let at = message_ref(location);
        let messages = folders.entry((at.path, at.uid_validity));
        messages.or_default().push((*number, at.uid));
    }
    folders
}

/// Maximum number of locations that are tried for one message.
const MAX_LOCATIONS: usize = 4;

/// An iterator over the possible locations of a message. The first location is the last known
/// location. The further locations are read after a reconciliation of the message index with the
/// mail server.
pub(crate) struct Locations<'a> {
    numbers: &'a Numbers,
    access: &'a Access,
    number: MessageNumber,
    last: Option<Arc<Location>>,
    /// `true` if the message index was reconciled after the message was not at `last`.
    reconciled: bool,
    remaining: usize,
}

impl Locations<'_> {
    /// Returns the next location. If the message is not at this location, the caller must call this
    /// function again. Returns `None` if the message is in no folder that the caller can read.
    ///
    /// # Errors
    /// Returns [`Error::Unavailable`] if other clients moved the message during every attempt.
    /// Returns another [`Error`] if the operation fails.
    pub(crate) async fn next(&mut self) -> Result<Option<Arc<Location>>, Error> {
        let Self {
            numbers, access, ..
        } = *self;
        while self.remaining > 0 {
            if self.last.is_some() {
                numbers
                    .context
                    .cache
                    .remove_location(&access.account, self.number);
            }
            let location = numbers.location(access, self.number).await?;
            // For a limited caller, the steps do not depend on the existence of the message.
            // Otherwise the response time would reveal whether the message exists.
            let is_last = self.reconciled || (location.is_none() && !access.is_limited());
            let folder_access = numbers.folders.usable_by(access).await?;
            let location = location
                .map(|location| self.authorize(&folder_access, location))
                .transpose()?
                .flatten();
            if let Some(location) = location.filter(|location| self.last.as_ref() != Some(location))
            {
                self.remaining -= 1;
                self.last = Some(Arc::clone(&location));
                self.reconciled = false;
                return Ok(Some(location));
            }
            if is_last {
                return Ok(None);
            }
            let sought = self.last.as_ref().map(|_| self.number);
            numbers.reconcile(access, sought.as_slice()).await?;
            self.reconciled = true;
        }
        Err(moved_away())
    }

    /// Returns the location if the caller is allowed to read the folder of this location. Returns
    /// [`Error::Denied`] only after the reconciliation. Before the reconciliation, the message
    /// might be in another folder that the caller can read.
    fn authorize(
        &self,
        folder_access: &FolderAccess,
        location: Arc<Location>,
    ) -> Result<Option<Arc<Location>>, Error> {
        match folder_access.authorize_message(message_ref(&location), Right::MailRead) {
            Decision::Allowed => Ok(Some(location)),
            Decision::Denied if self.reconciled => Err(Error::Denied(Right::MailRead)),
            Decision::Denied | Decision::Hidden => Ok(None),
        }
    }
}

/// The possible locations of several messages, like [`Locations`].
pub(crate) struct BatchLocations<'a> {
    numbers: &'a Numbers,
    access: &'a Access,
    /// The messages that were not found.
    remaining: Vec<MessageNumber>,
    /// The new locations that the last call of [`Self::next`] has returned.
    last: HashMap<MessageNumber, Arc<Location>>,
    calls: usize,
}

impl BatchLocations<'_> {
    /// Returns the next locations of those messages that are not in `found`. Returns `None` if
    /// these messages are in no folder that the caller can read.
    ///
    /// # Errors
    /// Returns [`Error::Unavailable`] if other clients moved a message during every attempt.
    /// Returns another [`Error`] if the operation fails.
    pub(crate) async fn next<T: Sync>(
        &mut self,
        found: &HashMap<MessageNumber, T>,
    ) -> Result<Option<Vec<(MessageNumber, Arc<Location>)>>, Error> {
        self.remaining.retain(|number| !found.contains_key(number));
        self.last.retain(|number, _| !found.contains_key(number));
        if self.calls > 0 {
            // The owner's other numbers were never assigned. For a limited caller, the steps do not
            // depend on the existence of a message.
            let is_last = self.calls > 1 || !self.access.is_limited();
            if self.remaining.is_empty() || (is_last && self.last.is_empty()) {
                return Ok(None);
            }
            if self.calls == MAX_LOCATIONS {
                return Err(moved_away());
            }
            let sought: Vec<MessageNumber> = self.last.keys().copied().collect();
            self.numbers.reconcile(self.access, &sought).await?;
        }
        self.calls += 1;
        let locations = self
            .numbers
            .readable_locations(self.access, &self.remaining);
        let mut locations = locations.await?;
        locations.retain(|(number, location)| self.last.get(number) != Some(location));
        self.last = locations.iter().cloned().collect();
        Ok(Some(locations))
    }
}

fn moved_away() -> Error {
    Error::Unavailable("other clients moved a message during every attempt to read it".into())
}

impl Numbers {
    /// Returns the possible locations of the message with this number.
    pub(crate) fn locations<'a>(
        &'a self,
        access: &'a Access,
        number: MessageNumber,
    ) -> Locations<'a> {
        Locations {
            numbers: self,
            access,
            number,
            last: None,
            reconciled: false,
            remaining: MAX_LOCATIONS,
        }
    }

    /// Returns the possible locations of the messages with these numbers.
    pub(crate) fn batch_locations<'a>(
        &'a self,
        access: &'a Access,
        numbers: &[MessageNumber],
    ) -> BatchLocations<'a> {
        BatchLocations {
            numbers: self,
            access,
            remaining: numbers.to_vec(),
            last: HashMap::new(),
            calls: 0,
        }
    }

    /// Returns the last known locations of those messages that the caller is allowed to read.
    async fn readable_locations(
        &self,
        access: &Access,
        numbers: &[MessageNumber],
    ) -> Result<Vec<(MessageNumber, Arc<Location>)>, Error> {
        let folder_access = self.folders.usable_by(access).await?;
        let can_read = |location: &Location| {
            let decision = folder_access.authorize_message(message_ref(location), Right::MailRead);
            decision == Decision::Allowed
        };
        let message_index = self.context.message_index();
        let locations = message_index.locations(&access.account, numbers).await?;
        Ok(locations
            .into_iter()
            .filter(|(_, location)| can_read(location))
            .map(|(number, location)| (number, Arc::new(location)))
            .collect())
    }

    /// Returns the last known location of a message. Returns `None` if the message index does not
    /// contain the message number.
    async fn location(
        &self,
        access: &Access,
        number: MessageNumber,
    ) -> Result<Option<Arc<Location>>, Error> {
        let account = &access.account;
        // Limited callers do not use the cache. Otherwise the response time would reveal which
        // messages other callers have just requested.
        if !access.is_limited()
            && let Some(location) = self.context.cache.location(account, number)
        {
            return Ok(Some(location));
        }
        let Some(location) = self
            .context
            .directory
            .message_index
            .location(account, number)
            .await?
        else {
            return Ok(None);
        };
        let location = Arc::new(location);
        self.context
            .cache
            .insert_location(account, number, &location);
        Ok(Some(location))
    }
}
