//! The audit log: a record of security events. An event contains the actor, the changed account,
//! the time and the client. An event is written in the same transaction as its change, so the
//! record contains exactly the committed changes. Events never contain secrets.

mod kind;
mod recording;
#[cfg(test)]
mod tests;

use std::net::IpAddr;

pub use self::kind::Kind;
pub(super) use self::recording::{commit, record};
use latchmail_core::caller::Origin;
use latchmail_core::clock::Timestamp;
use latchmail_core::network::network;

use crate::db::{Db, Error};

/// Maximum number of events that one transaction deletes. On SQLite, other writers wait for the
/// transaction.
const BATCH: i64 = 1000;
/// Maximum number of transactions in one call that deletes old events. The next call deletes the
/// remaining events.
const BATCHES: usize = 50;

const ACCOUNT: &str = "SELECT id FROM accounts WHERE address = $1";

/// The client IP addresses of an account's registration and latest sign-ins.
const CLIENTS: &str = "SELECT client FROM security_events WHERE account_id = (SELECT id FROM accounts WHERE address = $1) \
    AND kind IN ('account_created', 'signed_in', 'client_agreed_to') AND client IS NOT NULL ORDER BY at DESC, id DESC LIMIT 500";

/// Selects the newest events of a period. `$whose` is a condition that uses $1.
macro_rules! list {
    ($whose:literal) => {
        concat!(
            "SELECT id, at, kind, address, actor, credential, client, request_id, subject, detail, unlisted FROM security_events WHERE ",
            $whose,
            " AND at >= $2 AND at < $3 ORDER BY at DESC, id DESC LIMIT $4"
        )
    };
}
const LIST_ALL: &str = list!("$1 = ''");
/// Selects by account id, because another account may have had the same address earlier. Also
/// selects failed sign-ins to the address from the time when no account had the address.
const LIST_ACCOUNT: &str = list!(
    "(account_id = $1 OR (account_id IS NULL AND address = (SELECT address FROM accounts WHERE id = $1)))"
);
const LIST_ADDRESS: &str = list!("address = $1");
/// Selects the events of an account before the event $2. The index of accounts has the times, so
/// the order of this list is that of times, and of ids for equal times.
const PAGE: &str = "SELECT id, at, kind, address, actor, credential, client, request_id, subject, detail, unlisted \
    FROM security_events WHERE account_id = $1 AND at >= $5 AND ($2 = 0 OR at < $3 OR (at = $3 AND id < $2)) \
    AND ($6 = '' OR credential = $6 OR subject = $6) ORDER BY at DESC, id DESC LIMIT $4";
const TIME: &str = "SELECT at FROM security_events WHERE id = $1 AND account_id = $2";
/// Records a network of a credential. Changes no row if the network is known, or if the credential
/// has the maximum number of networks.
const ADD_NETWORK: &str = "INSERT INTO credential_networks (app_password_id, network, first_used_at) \
    SELECT p.id, $2, $3 FROM app_passwords p WHERE p.id = $1 \
        AND (SELECT COUNT(*) FROM credential_networks n WHERE n.app_password_id = $1) < $4 \
    ON CONFLICT (app_password_id, network) DO NOTHING";
/// Maximum number of recorded networks of a credential. A client can have any number of IPv6
/// networks.
const MAX_NETWORKS: i64 = 100;
const FORGET: &str = "DELETE FROM security_events \
    WHERE id IN (SELECT id FROM security_events WHERE at < $1 ORDER BY at, id LIMIT $2)";

/// An event to record.
#[derive(Clone, Copy, Debug)]
pub struct Event<'a> {
    /// The kind of the event.
    pub kind: Kind,
    /// The id of the account. `None` if the event concerns no account.
    pub account: Option<&'a str>,
    /// The address to record if `account` is `None` or the account does not exist.
    pub address: &'a str,
    /// The subject of the event: the id of a token or an app password, or an address.
    pub subject: Option<&'a str>,
    /// Details for readers of the record, such as a label or the reason for a failure.
    pub detail: Option<&'a str>,
    /// The time of the event.
    pub at: Timestamp,
}

impl<'a> Event<'a> {
    /// Creates an event of an account, without a subject and without details.
    #[must_use]
    pub const fn of(kind: Kind, account: &'a str, at: Timestamp) -> Self {
        Self {
            kind,
            account: Some(account),
            address: "",
            subject: None,
            detail: None,
            at,
        }
    }

    /// Creates an event that concerns no account.
    #[must_use]
    pub const fn without_account(kind: Kind, at: Timestamp) -> Self {
        Self {
            account: None,
            ..Self::of(kind, "", at)
        }
    }

    /// Sets the subject.
    #[must_use]
    pub const fn about(mut self, subject: &'a str) -> Self {
        self.subject = Some(subject);
        self
    }

    /// Sets the details.
    #[must_use]
    pub const fn detail(mut self, detail: &'a str) -> Self {
        self.detail = Some(detail);
        self
    }
}

/// A recorded event.
#[derive(Clone, Debug, sqlx_macros::FromRow)]
pub struct Recorded {
    /// The id of the event. A later event has a higher id.
    pub id: i64,
    /// The time, in milliseconds since the epoch.
    pub at: i64,
    /// The name of the event's [`Kind`].
    pub kind: String,
    /// The address of the account. For a failed sign-in without an account, the address that the
    /// client sent.
    pub address: String,
    /// The actor: an address, `operator` or `service`. Empty if the actor is not authenticated.
    pub actor: String,
    /// The id of the actor's credential.
    pub credential: Option<String>,
    /// The client's IP address.
    pub client: Option<String>,
    /// The id of the request. The service's log contains the same id.
    pub request_id: Option<String>,
    /// The subject: an id or an address.
    pub subject: Option<String>,
    /// Details for readers of the record.
    pub detail: Option<String>,
    /// The number of similar events on the same day that have no row of their own. When a day has
    /// the maximum number of rows, further events are only counted.
    pub unlisted: i64,
}

/// A filter for events.
#[derive(Clone, Debug)]
pub struct EventFilter {
    /// Selects the events of the account with this address. If no account has the address, selects
    /// the events of former accounts with this address. In that case, also selects failed sign-ins
    /// to the address. An empty address selects all events.
    pub address: String,
    /// Selects events at or after this time.
    pub since: Timestamp,
    /// Selects events before this time.
    pub until: Timestamp,
    /// The maximum number of events. The newest events are selected.
    pub limit: u32,
}

/// A page of the events of an account.
#[derive(Clone, Copy, Debug)]
pub struct AccountEvents<'a> {
    /// The id of the last event of the previous page. `None` for the first page.
    pub before: Option<i64>,
    /// Selects events at or after this time.
    pub since: Timestamp,
    /// Selects the events that have this credential as their actor's credential or as their
    /// subject.
    pub credential: Option<&'a str>,
    /// The maximum number of events.
    pub limit: u32,
}

/// The audit log.
#[derive(Clone, Debug)]
pub struct Events {
    pub(crate) db: Db,
}

impl Events {
    /// Records an event that is not part of another change.
    ///
    /// # Errors
    /// Returns [`Error`] if the database fails.
    pub async fn record(&self, event: Event<'_>, origin: &Origin) -> Result<(), Error> {
        commit(self.db.begin().await?, event, origin).await
    }

    /// Returns recorded events, newest first.
    ///
    /// # Errors
    /// Returns [`Error`] if the database fails.
    pub async fn list(&self, wanted: &EventFilter) -> Result<Vec<Recorded>, Error> {
        let account: Option<String> = self.db.optional_value(ACCOUNT, [&wanted.address]).await?;
        let (query, whose) = match &account {
            _ if wanted.address.is_empty() => (LIST_ALL, &wanted.address),
            Some(account) => (LIST_ACCOUNT, account),
            None => (LIST_ADDRESS, &wanted.address),
        };
        self.db
            .all(
                query,
                (whose, wanted.since, wanted.until, i64::from(wanted.limit)),
            )
            .await
    }

    /// Returns a page of the events of an account, newest first. Returns no events if
    /// [`AccountEvents::before`] is the id of an event that does not exist or that another account
    /// has.
    ///
    /// # Errors
    /// Returns [`Error`] if the database fails.
    pub async fn of_account(
        &self,
        account_id: &str,
        wanted: AccountEvents<'_>,
    ) -> Result<Vec<Recorded>, Error> {
        let mut at = 0;
        if let Some(before) = wanted.before {
            let found: Option<i64> = self.db.optional_value(TIME, (before, account_id)).await?;
            let Some(found) = found else {
                return Ok(Vec::new());
            };
            at = found;
        }
        let parameters = (
            account_id,
            wanted.before.unwrap_or(0),
            at,
            wanted.limit,
            wanted.since,
            wanted.credential.unwrap_or(""),
        );
        self.db.all(PAGE, parameters).await
    }

    /// Records that a credential was used from a network. Records an event if the network is new.
    /// `kind` says which kind of credential it is, for readers of the event.
    ///
    /// # Errors
    /// Returns [`Error`] if the database fails.
    pub async fn used_from(
        &self,
        account_id: &str,
        app_password_id: &str,
        kind: &str,
        now: Timestamp,
        origin: &Origin,
    ) -> Result<(), Error> {
        let network = recording::network_of(origin);
        if network.is_empty() {
            return Ok(());
        }
        let mut tx = self.db.begin().await?;
        let row = (app_password_id, &network, now, MAX_NETWORKS);
        if tx.execute(ADD_NETWORK, row).await? == 0 {
            return Ok(());
        }
        let event = Event::of(Kind::UsedFromNewNetwork, account_id, now);
        commit(tx, event.about(app_password_id).detail(kind), origin).await
    }

    /// Returns `true` if the owner of the account with this address has registered or signed in
    /// from the client's network.
    ///
    /// # Errors
    /// Returns [`Error`] if the database fails.
    pub async fn signed_in_from(&self, address: &str, client: IpAddr) -> Result<bool, Error> {
        let clients: Vec<String> = self.db.values(CLIENTS, [address]).await?;
        let is_there = |before: &String| {
            before
                .parse()
                .is_ok_and(|before| network(before) == network(client))
        };
        Ok(clients.iter().any(is_there))
    }

    /// Deletes the events before a time. Each call deletes at most a fixed number of events.
    ///
    /// # Errors
    /// Returns [`Error`] if the database fails. Earlier transactions of this call remain committed.
    pub async fn delete_events_before(&self, before: Timestamp) -> Result<(), Error> {
        for _ in 0..BATCHES {
            let forgotten = self.db.execute(FORGET, (before, BATCH)).await?;
            if forgotten == 0 {
                break;
            }
        }
        Ok(())
    }
}
