//! Imports of messages.

use latchmail_bindings::Blob;
use latchmail_bindings::latchmail::host::mailbox as wit;
use latchmail_bindings::latchmail::host::types::Error;
use latchmail_core::caller::Scope;
use latchmail_core::clock::Timestamp;
use latchmail_core::codes;
use latchmail_mailbox::Flag;
use latchmail_mailbox::importing::{self, Import, MAX_SIZE};

use super::changes::MAX_FLAGS;
use crate::api::call::Call;
use crate::api::convert::mailbox_error;
use crate::api::outbox::read_all;
use crate::api::problem;

/// The first millisecond after the latest time of arrival, which is in the year 9999.
const END_OF_TIME: i64 = 253_402_300_800_000;

impl Call {
    pub(super) async fn import(
        &mut self,
        folder: String,
        message: Blob,
        flags: &[String],
        received_at: Option<i64>,
        key: Option<&str>,
    ) -> Result<wit::ImportedMessage, Error> {
        let access = self.mailbox_access(Scope::MailWrite)?;
        self.preview.refuse()?;
        if message.size() > MAX_SIZE as u64 {
            return Err(import_error(importing::Error::TooLarge));
        }
        if flags.len() > MAX_FLAGS {
            let text = format!("At most {MAX_FLAGS} flags at once");
            return Err(problem::invalid(codes::INVALID_FLAG_DATA, text));
        }
        let flags: Option<Vec<Flag>> = flags.iter().map(|flag| Flag::named(flag)).collect();
        let flags = flags.ok_or_else(|| {
            let text = "The flags contain a flag that clients cannot set";
            problem::invalid(codes::INVALID_FLAG_DATA, text)
        })?;
        if received_at.is_some_and(|time| !(0..END_OF_TIME).contains(&time)) {
            let text = "received-at must be between the years 1970 and 9999";
            return Err(problem::invalid(codes::INVALID_RECEIVED_AT, text));
        }
        let import = Import {
            folder,
            message: read_all(message).await?,
            flags,
            received_at: received_at.map(Timestamp::from_millis),
        };
        let imports = &self.services.imports;
        let imported = imports.import(&access, import, key).await;
        let imported = imported.map_err(import_error)?.ok_or(Error::NotFound)?;
        Ok(wit::ImportedMessage {
            uid: imported.number.0,
            folder: imported.folder,
            replayed: imported.replayed,
        })
    }
}

fn import_error(error: importing::Error) -> Error {
    match error {
        importing::Error::Invalid(problem) => Error::Invalid(problem::of(problem)),
        importing::Error::TooLarge => {
            problem::too_large(codes::MESSAGE_TOO_LARGE, error.to_string())
        }
        importing::Error::Conflict(problem) => Error::Conflict(problem::of(problem)),
        importing::Error::Mailbox(error) => mailbox_error(error),
    }
}
