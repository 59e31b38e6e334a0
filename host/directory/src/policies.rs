//! What the policies of grants need: the current policy of a grant, the caps of the day, and the
//! record of who wrote to whom ([`SentRecord`]).
//!
//! The policy itself is a column of the grant's app password, so requests read it together with
//! the credential. [`Grants`](crate::grants::Grants) sets it.

mod sent;

use latchmail_core::clock::Timestamp;
use latchmail_core::policy::Policy;

pub use sent::SentRecord;

use crate::db::{Db, Error, LastLogins};

const STANDING: &str = "SELECT policy, suspended_at FROM app_passwords WHERE id = $1";
/// Adds nothing if the grant has ended.
const BEGIN_DAY: &str = "INSERT INTO grant_sends (app_password_id, day, messages, recipients) \
    SELECT id, CAST($2 AS BIGINT), 0, 0 FROM app_passwords WHERE id = $1 \
    ON CONFLICT (app_password_id, day) DO NOTHING";
/// Counts one message if no cap is exceeded. The condition and the change are one statement, so
/// concurrent sends of several hosts cannot exceed a cap.
const CHARGE: &str = "UPDATE grant_sends SET messages = messages + 1, recipients = recipients + $3 \
    WHERE app_password_id = $1 AND day = $2 AND messages + 1 <= $4 AND recipients + $3 <= $5";
const REFUND: &str = "UPDATE grant_sends SET messages = messages - 1, recipients = recipients - $3 \
    WHERE app_password_id = $1 AND day = $2 AND messages > 0 AND recipients >= $3";
/// Deletes the counts of days before $1.
const SWEEP_SENDS: &str = "DELETE FROM grant_sends WHERE day < $1";

/// The number of milliseconds of a day.
const DAY: i64 = 24 * 3_600_000;

/// The current state of a grant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Standing {
    /// Whether the owner suspended the grant.
    pub suspended: bool,
    /// The policy, or `None` if the owner set none.
    pub policy: Option<Policy>,
}

/// A message that counts towards the caps of a day.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Charge {
    app_password: String,
    /// Days since 1970 in UTC.
    day: i64,
    recipients: i64,
}

/// The data of policies.
#[derive(Clone, Debug)]
pub struct Policies {
    pub(crate) db: Db,
    /// The location of the milter's records.
    pub(crate) milter: LastLogins,
}

impl Policies {
    /// Returns the current state of the grant with this app password. Returns `None` if the grant
    /// has ended.
    ///
    /// # Errors
    /// Returns [`Error`] if the database fails.
    pub async fn standing(&self, app_password: &str) -> Result<Option<Standing>, Error> {
        let row: Option<(Option<String>, Option<i64>)> =
            self.db.optional(STANDING, [app_password]).await?;
        Ok(row.map(|(policy, suspended_at)| Standing {
            suspended: suspended_at.is_some(),
            policy: policy.as_deref().map(Policy::stored),
        }))
    }

    /// Counts a message with this number of recipients towards the caps of the day. Returns `None`,
    /// and counts nothing, if the message exceeds a cap. The counts of a grant are deleted with the
    /// grant, so a message of a grant that has ended exceeds every cap.
    ///
    /// # Errors
    /// Returns [`Error`] if the database fails.
    pub async fn charge(
        &self,
        app_password: &str,
        policy: &Policy,
        recipients: usize,
        now: Timestamp,
    ) -> Result<Option<Charge>, Error> {
        let charge = Charge {
            app_password: app_password.to_owned(),
            day: now.millis().div_euclid(DAY),
            recipients: i64::try_from(recipients).unwrap_or(i64::MAX / 2),
        };
        let day = (app_password, charge.day);
        self.db.execute(BEGIN_DAY, day).await?;
        let cap = |cap: Option<u32>| cap.map_or(i64::MAX, i64::from);
        let row = (
            app_password,
            charge.day,
            charge.recipients,
            cap(policy.send_per_day),
            cap(policy.recipients_per_day),
        );
        let charged = self.db.execute(CHARGE, row).await?;
        Ok((charged == 1).then_some(charge))
    }

    /// Removes a message from the counts, because it was not sent.
    ///
    /// # Errors
    /// Returns [`Error`] if the database fails. The message then counts until the end of the day.
    pub async fn refund(&self, charge: &Charge) -> Result<(), Error> {
        let row = (&charge.app_password, charge.day, charge.recipients);
        self.db.execute(REFUND, row).await?;
        Ok(())
    }

    /// Deletes old counts and records. Takes over the records of the milter.
    pub(super) async fn sweep(&self, now: Timestamp) -> Result<(), Error> {
        let today = now.millis().div_euclid(DAY);
        self.db.execute(SWEEP_SENDS, [today - 1]).await?;
        self.sweep_sent(now).await
    }
}

#[cfg(test)]
mod tests;
