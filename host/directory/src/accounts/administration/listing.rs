//! Lists accounts with the numbers of their credentials, for the operator.

use latchmail_core::clock::Timestamp;
use sqlx_macros::FromRow;

use crate::accounts::Accounts;
use crate::db::Error;

/// Selects the accounts that meet the condition `$whose`. Counts only sessions that expire after
/// $2.
macro_rules! listed {
    ($whose:literal) => {
        concat!(
            "SELECT a.id, a.address, a.active, a.admin, a.created_at, \
            EXISTS (SELECT 1 FROM two_factor t WHERE t.account_id = a.id) AS two_factor, \
            (SELECT COUNT(*) FROM app_passwords p WHERE p.account_id = a.id AND p.kind NOT IN ('web_session', 'index')) AS credentials, \
            (SELECT COUNT(*) FROM sessions s WHERE s.account_id = a.id AND s.expires_at > $2) AS sessions, \
            (SELECT MAX(e.at) FROM security_events e WHERE e.account_id = a.id) AS last_event_at \
            FROM accounts a WHERE ",
            $whose
        )
    };
}
/// $1 is part of an address, as a pattern of `LIKE`.
const MATCHING: &str = listed!("a.address LIKE $1 ESCAPE '!' ORDER BY a.address LIMIT $3");
const ONE: &str = listed!("a.address = $1");

/// An account with the numbers of its credentials.
#[derive(Clone, Debug, FromRow)]
pub struct Listed {
    /// An opaque id.
    pub id: String,
    /// The account's address, in lower case.
    pub address: String,
    /// Whether the account is active.
    pub active: bool,
    /// Whether the account has administrator rights.
    pub admin: bool,
    /// Whether the account has a second factor.
    pub two_factor: bool,
    /// The number of app passwords for mail clients, API tokens, OAuth grants and members of the
    /// mailbox.
    pub credentials: i64,
    /// The number of web sessions that have not ended.
    pub sessions: i64,
    /// The time of creation, in milliseconds since the epoch.
    pub created_at: i64,
    /// The time of the account's last security event, in milliseconds since the epoch.
    pub last_event_at: Option<i64>,
}

impl Accounts {
    /// Returns at most `limit` accounts whose address contains `part`, sorted by address.
    ///
    /// # Errors
    /// Returns [`Error`] if the database fails.
    pub async fn matching(
        &self,
        part: &str,
        now: Timestamp,
        limit: u32,
    ) -> Result<Vec<Listed>, Error> {
        let mut pattern = String::from("%");
        for letter in part.to_lowercase().chars() {
            if matches!(letter, '!' | '%' | '_') {
                pattern.push('!');
            }
            pattern.push(letter);
        }
        pattern.push('%');
        self.db.all(MATCHING, (&pattern, now, limit)).await
    }

    /// Returns the account with this address, which must be in lower case.
    ///
    /// # Errors
    /// Returns [`Error`] if the database fails.
    pub async fn with_counts(
        &self,
        address: &str,
        now: Timestamp,
    ) -> Result<Option<Listed>, Error> {
        self.db.optional(ONE, (address, now)).await
    }
}
