//! Finds the location of a message by message number. A location consists of the folder and the
//! IMAP UID.

use std::collections::BTreeMap;
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
    reconciled: bool,
    remaining: usize,
}

impl Locations<'_> {
    /// Returns the next location. If the message is not at this location, the caller must call this
    /// function again. Returns `None` if no location remains.
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
            // For a member, the steps do not depend on the existence of the message. Otherwise the
            // response time would reveal whether the message exists.
            let is_last = self.reconciled || (location.is_none() && access.member.is_none());
            let folder_access = numbers.folders.usable_by(access).await?;
            let location = location
                .map(|location| self.authorize(&folder_access, location))
                .transpose()?
                .flatten();
            if let Some(location) = location.filter(|location| self.last.as_ref() != Some(location))
            {
                self.remaining -= 1;
                self.last = Some(Arc::clone(&location));
                return Ok(Some(location));
            }
            if is_last {
                return Ok(None);
            }
            numbers.reconcile(access).await?;
            self.reconciled = true;
        }
        Ok(None)
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

    /// Returns the last known locations of those messages that the caller is allowed to read.
    pub(crate) async fn readable_locations(
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
        // Members do not use the cache. Otherwise the response time would reveal which messages
        // other callers have just requested.
        if access.member.is_none()
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
