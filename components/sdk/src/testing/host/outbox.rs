//! The outbox of the fake host. The outbox stores messages and does not send them.

use super::{FakeHost, Need};
use crate::capability::{Draft, Error, Outbox, Scope, Sent};
use crate::testing::account::sent::SentMessage;

impl FakeHost {
    /// Makes [`Outbox::send`] fail with this error for the signed-in account. Calls of
    /// [`Outbox::check_sender`] do not fail with this error.
    ///
    /// # Panics
    /// Panics if no account is signed in.
    #[track_caller]
    pub fn fail_sending(&self, error: Error) {
        self.with_account(|account| account.sent.fail(error));
    }

    /// Returns the messages that the signed-in account sent, oldest first.
    ///
    /// # Panics
    /// Panics if no account is signed in.
    #[must_use]
    #[track_caller]
    pub fn sent(&self) -> Vec<SentMessage> {
        self.with_account(|account| account.sent.all())
    }
}

/// A sent message is stored in the folder `Sent` and in the list of [`FakeHost::sent`]. The message
/// is not delivered. Addresses and texts are not validated.
impl Outbox for FakeHost {
    fn check_sender(&self, address: &str) -> Result<(), Error> {
        self.allow(Need::Scope(Scope::MailSend), |account| {
            account.check_sender(address)
        })
    }

    fn send(&self, draft: Draft, key: Option<&str>) -> Result<Sent, Error> {
        self.allow(Need::Scope(Scope::MailSend), |account| {
            account.send(SentMessage::new(draft, key))
        })
    }
}
