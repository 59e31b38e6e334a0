//! The functions of `mailbox` that change messages, and the versions on which changes can depend.

use latchmail_bindings::HostError;
use latchmail_bindings::latchmail::host::mailbox as wit;
use latchmail_bindings::latchmail::host::types::Error;
use latchmail_core::caller::Scope;
use latchmail_core::codes;
use latchmail_core::message_number::MessageNumber;
use latchmail_mailbox::{Flag, StoreMode};

use crate::api::call::Call;
use crate::api::convert::mailbox_error;
use crate::api::problem;
use crate::api::recorder::messages;

/// The maximum number of messages in one change. `MAX_FLAGS` is the maximum number of flags in one
/// change.
const MAX_UIDS: usize = 1000;
pub(super) const MAX_FLAGS: usize = 100;

impl Call {
    pub(super) async fn change_flags(
        &mut self,
        uids: Vec<u64>,
        flags: &[String],
        action: wit::FlagAction,
        if_version: Option<String>,
    ) -> Result<Vec<u64>, HostError<wit::ConditionalError>> {
        let access = self.conditional_access(&uids, if_version.as_ref())?;
        if flags.len() > MAX_FLAGS {
            let text = format!("At most {MAX_FLAGS} flags at once");
            return Err(problem::invalid(codes::INVALID_FLAG_DATA, text).into());
        }
        let mode = match action {
            wit::FlagAction::Add => StoreMode::Add,
            wit::FlagAction::Remove => StoreMode::Remove,
            wit::FlagAction::Replace => StoreMode::Replace,
        };
        let flags: Option<Vec<Flag>> = flags.iter().map(|flag| Flag::named(flag)).collect();
        let flags = flags.filter(|flags| !flags.is_empty() || mode == StoreMode::Replace);
        let flags = flags.ok_or_else(|| {
            let text = "The flags are empty or contain a flag that clients cannot set";
            problem::invalid(codes::INVALID_FLAG_DATA, text)
        })?;
        let verb = match mode {
            StoreMode::Add => "add",
            StoreMode::Remove => "remove",
            StoreMode::Replace => "set",
        };
        let names = || flags.iter().map(Flag::as_str).collect::<Vec<_>>().join(" ");
        let line = || format!("{verb} the flags {} of {}", names(), messages(&uids));
        if self.preview.records(line) {
            return Ok(uids);
        }
        let uids = numbers(uids);
        let changing = &self.services.mail.changing;
        let changed = changing.flag(&access, &uids, (flags, mode), if_version);
        Ok(self::uids(changed.await.map_err(conditional_error)?))
    }

    pub(super) async fn move_to(
        &mut self,
        uids: Vec<u64>,
        destination: &str,
        if_version: Option<String>,
    ) -> Result<Vec<u64>, HostError<wit::ConditionalError>> {
        let access = self.conditional_access(&uids, if_version.as_ref())?;
        let line = || format!("move {} to {destination:?}", messages(&uids));
        if self.preview.records(line) {
            return Ok(uids);
        }
        let uids = numbers(uids);
        let changing = &self.services.mail.changing;
        let moved = changing.move_to(&access, &uids, destination, if_version);
        let moved = moved.await.map_err(conditional_error)?;
        Ok(self::uids(moved.ok_or(Error::NotFound)?))
    }

    pub(super) async fn delete(
        &mut self,
        uids: Vec<u64>,
        if_version: Option<String>,
    ) -> Result<Vec<u64>, HostError<wit::ConditionalError>> {
        let access = self.conditional_access(&uids, if_version.as_ref())?;
        let line = || format!("delete {}", messages(&uids));
        if self.preview.records(line) {
            return Ok(uids);
        }
        let uids = numbers(uids);
        let changing = &self.services.mail.changing;
        let deleted = changing.delete(&access, &uids, if_version).await;
        Ok(self::uids(deleted.map_err(conditional_error)?))
    }

    pub(super) async fn trash(
        &mut self,
        uids: Vec<u64>,
        if_version: Option<String>,
    ) -> Result<Vec<u64>, HostError<wit::ConditionalError>> {
        let access = self.conditional_access(&uids, if_version.as_ref())?;
        let line = || format!("move {} to the trash", messages(&uids));
        if self.preview.records(line) {
            return Ok(uids);
        }
        let uids = numbers(uids);
        let changing = &self.services.mail.changing;
        let moved = changing.trash(&access, &uids, if_version).await;
        Ok(self::uids(moved.map_err(conditional_error)?))
    }

    pub(super) async fn restore(&mut self, uids: Vec<u64>) -> Result<Vec<u64>, Error> {
        let access = self.change_access(&uids)?;
        let line = || format!("restore {} from the trash", messages(&uids));
        if self.preview.records(line) {
            return Ok(uids);
        }
        let uids = numbers(uids);
        let changing = &self.services.mail.changing;
        let restored = changing.restore(&access, &uids).await;
        Ok(self::uids(restored.map_err(mailbox_error)?))
    }

    pub(super) async fn copy_to(
        &mut self,
        uids: Vec<u64>,
        destination: &str,
    ) -> Result<Vec<wit::CopiedMessage>, Error> {
        let access = self.change_access(&uids)?;
        self.preview.refuse()?;
        let uids = numbers(uids);
        let changing = &self.services.mail.changing;
        let copied = changing.copy_to(&access, &uids, destination).await;
        let copied = copied.map_err(mailbox_error)?.ok_or(Error::NotFound)?;
        let copied = copied.into_iter().map(|copied| wit::CopiedMessage {
            uid: copied.original.0,
            copy: copied.copy.0,
        });
        Ok(copied.collect())
    }

    pub(super) async fn version(
        &mut self,
        number: MessageNumber,
    ) -> Result<wit::MessageVersion, Error> {
        let access = self.mailbox_access(Scope::MailRead)?;
        let version = self.services.mail.reading.version(&access, number).await;
        let version = version.map_err(mailbox_error)?.ok_or(Error::NotFound)?;
        Ok(wit::MessageVersion {
            state: version.state,
            content: version.content,
        })
    }

    /// Returns access to the mailbox if the caller is authorized to change messages. Returns an
    /// error if `uids` is too long.
    fn change_access(&self, uids: &[u64]) -> Result<latchmail_mailbox::Access, Error> {
        let access = self.mailbox_access(Scope::MailWrite)?;
        if uids.len() > MAX_UIDS {
            let text = format!("At most {MAX_UIDS} messages at once");
            return Err(problem::too_large(codes::TOO_MANY_MESSAGES, text));
        }
        Ok(access)
    }

    /// Works like [`Call::change_access`]. Also returns an error if there is a version for several
    /// messages.
    fn conditional_access(
        &self,
        uids: &[u64],
        if_version: Option<&String>,
    ) -> Result<latchmail_mailbox::Access, Error> {
        let access = self.change_access(uids)?;
        if if_version.is_some() && uids.len() != 1 {
            let text = "if-version needs exactly one message";
            return Err(problem::invalid(codes::INVALID_FIELD, text));
        }
        Ok(access)
    }
}

/// Converts an error of a conditional change to a WIT error.
fn conditional_error(error: latchmail_mailbox::Error) -> wit::ConditionalError {
    match error {
        latchmail_mailbox::Error::MessageChanged => wit::ConditionalError::VersionMismatch,
        error => wit::ConditionalError::Failed(mailbox_error(error)),
    }
}

/// Converts the `uid` values of the API to message numbers.
pub(super) fn numbers(uids: Vec<u64>) -> Vec<MessageNumber> {
    uids.into_iter().map(MessageNumber).collect()
}

fn uids(numbers: Vec<MessageNumber>) -> Vec<u64> {
    numbers.into_iter().map(|number| number.0).collect()
}
