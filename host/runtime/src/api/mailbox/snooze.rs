//! Snoozed messages.

use latchmail_bindings::latchmail::host::types::{Error, Timestamp as WitTimestamp};
use latchmail_core::caller::Scope;
use latchmail_core::clock::Timestamp;
use latchmail_core::message_number::MessageNumber;

use crate::api::call::Call;
use crate::api::convert::mailbox_error;

impl Call {
    pub(super) async fn snooze(
        &mut self,
        number: MessageNumber,
        until: WitTimestamp,
    ) -> Result<(), Error> {
        let access = self.mailbox_access(Scope::MailWrite)?;
        let until = Timestamp::from_millis(until);
        let line = || format!("snooze message {} until {until}", number.0);
        if self.preview.records(line) {
            return Ok(());
        }
        let snoozed = self.services.snoozer.snooze(&access, number, until).await;
        snoozed.map_err(mailbox_error)?.ok_or(Error::NotFound)
    }

    pub(super) async fn unsnooze(&mut self, number: MessageNumber) -> Result<(), Error> {
        let access = self.mailbox_access(Scope::MailWrite)?;
        if self
            .preview
            .records(|| format!("unsnooze message {}", number.0))
        {
            return Ok(());
        }
        let back = self.services.snoozer.unsnooze(&access, number).await;
        back.map_err(mailbox_error)?.ok_or(Error::NotFound)
    }

    pub(super) async fn snoozed_until(
        &mut self,
        number: MessageNumber,
    ) -> Result<Option<WitTimestamp>, Error> {
        let access = self.mailbox_access(Scope::MailRead)?;
        let until = self.services.snoozer.until(&access, number).await;
        let until = until.map_err(mailbox_error)?.ok_or(Error::NotFound)?;
        Ok(until.map(Timestamp::millis))
    }
}
