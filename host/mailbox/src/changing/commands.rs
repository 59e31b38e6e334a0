//! The parts that all commands of changes share: the selection of the folder, and the meaning of
//! errors.

use latchmail_imap::{Connector, Session, Writable};

use crate::connections::pool::Lease;
use crate::connections::retry::retry_read;
use crate::connections::server_text::sanitize;
use crate::error::Error;

/// Opens a folder with SELECT. Returns `None` if no folder with this path and UIDVALIDITY exists.
pub(crate) async fn select<'l>(
    lease: &'l mut Lease<Connector>,
    path: &str,
    uid_validity: u32,
) -> Result<Option<(&'l mut Session, Writable)>, Error> {
    let folder = retry_read!(lease, session => session.select(path));
    match folder.filter(|folder| folder.opened.uid_validity == uid_validity) {
        Some(folder) => Ok(Some((lease.session().await?, folder))),
        None => Ok(None),
    }
}

/// Converts the error of a command that changes messages. If the connection was lost, the server
/// might have executed the command.
pub(crate) fn change_error(error: latchmail_imap::Error) -> Error {
    match error {
        error if error.is_deleted_folder() => error.into(),
        latchmail_imap::Error::No(text) => Error::Rejected(sanitize(&text)),
        latchmail_imap::Error::Lost(why)
        | latchmail_imap::Error::Unavailable(why)
        | latchmail_imap::Error::Protocol(why) => Error::Unknown(why),
        other => other.into(),
    }
}
