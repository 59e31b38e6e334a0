//! Reads the header of a message.

use latchmail_core::message_number::MessageNumber;
use latchmail_mime::{Field, Fields};

use super::Reader;
use crate::access::Access;
use crate::blocking;
use crate::connections::retry::retry_read;
use crate::error::Error;
use crate::hiding;
use crate::numbers::locations::message_ref;

impl Reader {
    /// Returns the header fields with one of these names, or all header fields, of the message with
    /// this message number. Returns `None` if the message does not exist.
    ///
    /// # Errors
    /// Returns an [`Error`] if the operation fails.
    pub async fn header(
        &self,
        access: &Access,
        number: MessageNumber,
        names: Option<Vec<String>>,
    ) -> Result<Option<Fields>, Error> {
        let mut locations = self.numbers.locations(access, number);
        while let Some(location) = locations.next().await? {
            let at = message_ref(&location);
            let pool = &self.context.connections;
            let mut lease = pool.lease(access, Some(at.path)).await?;
            let header = retry_read!(lease, session => session.header_at(at));
            drop(lease);
            if let Some(header) = header {
                if !hiding::is_visible_header(access, &header) {
                    return Ok(None);
                }
                let decode = move || Fields::of(&header, names.as_deref());
                let fields = blocking::run(decode).await.map_err(Error::Internal)?;
                let fields = hiding::in_fields(access, fields);
                return self.with_hidden_subject(access, number, fields).await;
            }
        }
        Ok(None)
    }

    /// Replaces the subject if the policy hides codes, because the text of the message can show
    /// that a number in the subject is a code.
    async fn with_hidden_subject(
        &self,
        access: &Access,
        number: MessageNumber,
        mut fields: Fields,
    ) -> Result<Option<Fields>, Error> {
        let is_subject = |field: &Field| field.name.eq_ignore_ascii_case("subject");
        if !access.hides_codes() || !fields.fields.iter().any(is_subject) {
            return Ok(Some(fields));
        }
        let Some(detail) = Box::pin(self.message(access, number)).await? else {
            return Ok(None);
        };
        for field in &mut fields.fields {
            if is_subject(field) {
                field.value.clone_from(&detail.summary.subject);
            }
        }
        Ok(Some(fields))
    }
}
