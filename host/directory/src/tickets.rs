//! Tickets: credentials for one request with one method and path. A ticket is part of a URL that a
//! program passes on. The database has only the hash of a ticket.

use latchmail_core::clock::Timestamp;

use crate::db::{Db, Error};

/// The maximum number of tickets of an account. Beyond it, the tickets that expire first are
/// deleted.
const MAX_OF_ACCOUNT: i64 = 100;

const INSERT: &str = "INSERT INTO tickets (hash, account_id, target, sealed, expires_at) \
    VALUES ($1, $2, $3, $4, $5)";
const TRIM: &str = "DELETE FROM tickets WHERE account_id = $1 AND hash NOT IN \
    (SELECT hash FROM tickets WHERE account_id = $1 ORDER BY expires_at DESC, hash LIMIT $2)";
const TAKE: &str = "DELETE FROM tickets WHERE hash = $1 AND target = $2 AND expires_at > $3 \
    RETURNING sealed";
const SWEEP: &str = "DELETE FROM tickets WHERE expires_at <= $1";

/// A new ticket.
#[derive(Clone, Copy, Debug)]
pub struct NewTicket<'t> {
    /// The SHA-256 hash of the ticket, hexadecimal.
    pub hash: &'t str,
    /// The id of the account.
    pub account: &'t str,
    /// The method and the path of the request, for example `GET /a/b`.
    pub target: &'t str,
    /// The caller's access token, sealed with a key that is derived from the ticket.
    pub sealed: &'t [u8],
    /// The time at which the ticket expires.
    pub expires_at: Timestamp,
}

/// The repository of tickets.
#[derive(Clone, Debug)]
pub struct Tickets {
    pub(crate) db: Db,
}

impl Tickets {
    /// Stores a ticket. If the account then has more than 100 tickets, deletes those that expire
    /// first.
    ///
    /// # Errors
    /// Returns [`Error`] if the database fails.
    pub async fn add(&self, ticket: NewTicket<'_>) -> Result<(), Error> {
        let mut tx = self.db.begin_locked(ticket.account).await?;
        let row = (
            ticket.hash,
            ticket.account,
            ticket.target,
            ticket.sealed,
            ticket.expires_at,
        );
        tx.execute(INSERT, row).await?;
        tx.execute(TRIM, (ticket.account, MAX_OF_ACCOUNT)).await?;
        tx.commit().await?;
        Ok(())
    }

    /// Deletes a ticket and returns its sealed access token. Returns `None`, and deletes nothing,
    /// if the ticket does not exist, is expired, or is for another target. Of several concurrent
    /// calls for a ticket, one gets the token.
    ///
    /// # Errors
    /// Returns [`Error`] if the database fails.
    pub async fn take(
        &self,
        hash: &str,
        target: &str,
        now: Timestamp,
    ) -> Result<Option<Vec<u8>>, Error> {
        let row: Option<(Vec<u8>,)> = self.db.returning(TAKE, (hash, target, now)).await?;
        Ok(row.map(|(sealed,)| sealed))
    }

    /// Deletes expired tickets.
    pub(super) async fn sweep(&self, now: Timestamp) -> Result<(), Error> {
        self.db.execute(SWEEP, [now]).await?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::testing::{Fresh, NOW, both};

    async fn a_ticket_is_used_once_for_its_target_until_it_expires(fresh: Fresh) {
        let (directory, tickets) = (&fresh.directory, &fresh.directory.tickets);
        directory.with("a", "ada@example.org", &[]).await;
        let expires_at = NOW.plus(Duration::from_mins(5));
        let add = async |hash: &str, expires_at| {
            let ticket = NewTicket {
                hash,
                account: "a",
                target: "GET /a",
                sealed: b"sealed",
                expires_at,
            };
            tickets.add(ticket).await.unwrap();
        };
        let take =
            async |hash: &str, target: &str, now| tickets.take(hash, target, now).await.unwrap();
        add("one", expires_at).await;
        assert_eq!(take("one", "GET /b", NOW).await, None);
        assert_eq!(take("one", "POST /a", NOW).await, None);
        assert_eq!(take("one", "GET /a", expires_at).await, None);
        let concurrent = [(); 8].map(|()| take("one", "GET /a", NOW));
        let outcomes = futures_util::future::join_all(concurrent).await;
        let taken: Vec<_> = outcomes.into_iter().flatten().collect();
        assert_eq!(taken, [b"sealed"]);
        // Beyond the limit, the tickets that expire first are deleted.
        let hashes: Vec<String> = (0..=MAX_OF_ACCOUNT).map(|n| format!("h{n}")).collect();
        for (number, hash) in (0..).zip(&hashes) {
            add(hash, expires_at.plus(Duration::from_secs(number))).await;
        }
        assert_eq!(take("h0", "GET /a", NOW).await, None);
        assert!(take("h1", "GET /a", NOW).await.is_some());
        let later = expires_at.plus(Duration::from_hours(1));
        directory.sweep(later).await.unwrap();
        assert_eq!(fresh.number("SELECT COUNT(*) FROM tickets").await, 0);
    }

    both!(a_ticket_is_used_once_for_its_target_until_it_expires);
}
