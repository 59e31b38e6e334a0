//! The owner of an account on the routes of the host that only a web session can use.

use latchmail_core::caller::{Caller, Credential, SESSION_ONLY};
use latchmail_core::codes;
use latchmail_core::error::Failure;
use latchmail_mailbox::Access;

use crate::message::Request;
use crate::rejection::Rejection;

/// The owner of an account with a web session.
pub(crate) struct Owner<'r> {
    pub(crate) caller: &'r Caller,
    /// The id of the session.
    pub(crate) sid: &'r str,
    /// The access to the owner's mailbox.
    pub(crate) access: Access,
}

impl<'r> Owner<'r> {
    /// Returns the owner who sends a request.
    ///
    /// # Errors
    /// Returns 403 if the credential is not a web session. The route refuses such a credential
    /// before.
    pub(crate) fn of(request: &'r Request) -> Result<Self, Rejection> {
        let caller = request.caller()?;
        let Credential::Session { sid } = &caller.credential else {
            return Err(Failure::forbidden(codes::SESSION_REQUIRED, SESSION_ONLY).into());
        };
        let access = Access::of_owner(caller.account.clone(), caller.mail.clone());
        Ok(Self {
            caller,
            sid,
            access: Access {
                is_person: true,
                ..access
            },
        })
    }
}

/// Returns the value of a named segment of the path.
pub(crate) fn segment<'r>(request: &'r Request, name: &str) -> &'r str {
    let mut segments = request.path.iter();
    let found = segments.find(|(key, _)| key == name);
    found.map_or("", |(_, value)| value)
}
