//! Checks in the transaction of a change that the session of the request has not ended.

use latchmail_core::clock::Timestamp;

use crate::db::{Error, Tx};

const IS_LIVE: &str = "SELECT 1 FROM sessions s JOIN accounts a ON a.id = s.account_id \
    WHERE s.sid = $1 AND s.account_id = $2 AND s.expires_at > $3 AND a.active";

/// The session of a request that changes data. A request can take up to a minute, and the session
/// can end during this time. Therefore the transaction with the change checks the session again.
#[derive(Clone, Copy, Debug)]
pub struct SessionCaller<'a> {
    /// The account's id.
    pub account_id: &'a str,
    /// The session's id.
    pub sid: &'a str,
    /// The current time.
    pub at: Timestamp,
}

impl SessionCaller<'_> {
    /// Locks the account, then returns `true` if the session has not ended and the account is
    /// active.
    pub(super) async fn lock(&self, tx: &mut Tx) -> Result<bool, Error> {
        tx.lock_account(self.account_id).await?;
        tx.exists(IS_LIVE, (self.sid, self.account_id, self.at))
            .await
    }
}
