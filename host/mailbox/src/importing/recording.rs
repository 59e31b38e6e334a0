//! Records the imports of grants.

use latchmail_directory::grant_changes::Completion;
use latchmail_directory::sendings::Key;
use serde_json::json;

use super::import::{Import, Importer};
use super::result::{Error, Imported};
use crate::access::Access;
use crate::error::Error as MailboxError;
use crate::recording::{begin, change_of, kind, message_subject, require_free};

impl Importer {
    /// Stores a message, with a record if a grant imports it.
    pub(super) async fn import_recorded(
        &self,
        access: &Access,
        import: &Import,
        key: Option<&Key>,
    ) -> Result<Option<Imported>, Error> {
        if access.grant.is_some() {
            require_free(&import.flags)?;
        }
        let flags: Vec<&str> = import.flags.iter().map(AsRef::as_ref).collect();
        let details = json!({ "folder": import.path(), "flags": flags });
        // The number of the message is known when the message is stored.
        let change = change_of(kind::IMPORT, "import".into(), &details);
        let context = &self.mail.context;
        let recording = begin(context, access, std::slice::from_ref(&change)).await?;
        let stored = match key {
            None => self.import_new(access, import, None).await,
            Some(key) => self.import_once(access, import, key).await,
        };
        let Some(recording) = recording else {
            return stored;
        };
        match &stored {
            Ok(Some(imported)) if !imported.replayed => {
                let number = imported.number;
                let index = context.message_index();
                let states = index.current_states(&access.account, &[number]).await;
                let place = states.ok().and_then(|mut states| states.pop());
                let id = recording.ids().first().copied().unwrap_or_default();
                let completion = Completion {
                    id,
                    subject: message_subject(number),
                    number: Some(number),
                    after: place.map(|state| state.place),
                    details: change.details,
                };
                recording.complete(&[completion]).await;
            }
            Err(Error::Mailbox(MailboxError::Unknown(_))) => {}
            Ok(_) | Err(_) => recording.cancel().await,
        }
        stored
    }
}
