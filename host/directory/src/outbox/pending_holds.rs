//! The number of messages that wait for a decision of their owner. The operator sees only this
//! number.

use super::Outbox;
use crate::db::Error;

const COUNT: &str =
    "SELECT COUNT(*) FROM holds WHERE status = 'pending' AND ($1 = '' OR account_id = $1)";

impl Outbox {
    /// Returns the number of held messages of an account. If `account_id` is empty, returns the
    /// number for all accounts.
    ///
    /// # Errors
    /// Returns [`Error`] if the database fails.
    pub async fn pending_holds(&self, account_id: &str) -> Result<i64, Error> {
        self.db.value(COUNT, [account_id]).await
    }
}
