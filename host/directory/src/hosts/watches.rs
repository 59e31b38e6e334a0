//! The mailboxes that hosts watch: a stream, a request or a webhook of the host waits for changes
//! of the mailbox. A change of a mailbox that no host watches causes no event.

use std::collections::HashSet;

use sqlx::QueryBuilder;

use super::{Hosts, for_both};
use crate::db::{Db, Error, on};

const WATCH: &str = "INSERT INTO watched_mailboxes (account_id, host_id) VALUES ($1, $2) \
    ON CONFLICT (account_id, host_id) DO NOTHING";
const UNWATCH: &str = "DELETE FROM watched_mailboxes WHERE account_id = $1 AND host_id = $2";
const OWN: &str = "SELECT account_id FROM watched_mailboxes WHERE host_id = $1";
/// Callers append addresses.
const WATCHED: &str = "SELECT w.account_id, w.host_id FROM accounts a \
    JOIN watched_mailboxes w ON w.account_id = a.id WHERE a.address IN (''";

for_both! {
    ADD_EVENT: "INSERT INTO host_events (kind, subject, at) SELECT 'mailbox_changed', CAST($1 AS TEXT), " NOW " WHERE TRUE",
}

impl Hosts {
    /// Records that this host watches the mailbox of an account. Does nothing in commands of the
    /// operator.
    ///
    /// # Errors
    /// Returns [`Error`] if the database fails, or if the account does not exist.
    pub async fn watch(&self, account: &str) -> Result<(), Error> {
        if let Some(own) = self.own.get() {
            self.db.execute(WATCH, (account, own)).await?;
        }
        Ok(())
    }

    /// Records that this host does not watch the mailbox of an account any longer.
    ///
    /// # Errors
    /// Returns [`Error`] if the database fails.
    pub async fn unwatch(&self, account: &str) -> Result<(), Error> {
        if let Some(own) = self.own.get() {
            self.db.execute(UNWATCH, (account, own)).await?;
        }
        Ok(())
    }

    /// Returns the accounts whose mailboxes this host watches, according to the database.
    ///
    /// # Errors
    /// Returns [`Error`] if the database fails.
    pub async fn watched(&self) -> Result<HashSet<String>, Error> {
        let Some(own) = self.own.get() else {
            return Ok(HashSet::new());
        };
        let accounts: Vec<String> = self.db.values(OWN, [own]).await?;
        Ok(accounts.into_iter().collect())
    }

    /// Returns `true` if no other host can use the database.
    #[must_use]
    pub fn is_only_host(&self) -> bool {
        matches!(self.db, Db::Sqlite(..))
    }

    /// Finds the mailboxes with these addresses that hosts watch. Returns the accounts whose
    /// mailboxes this host watches. Wakes the other hosts.
    ///
    /// # Errors
    /// Returns [`Error`] if the database fails.
    pub async fn report_changes(&self, addresses: &[String]) -> Result<HashSet<String>, Error> {
        let watched: Vec<(String, String)> = on!(&self.db, pool => {
            let mut query = QueryBuilder::new(WATCHED);
            for address in addresses {
                query.push(", ").push_bind(address.clone());
            }
            query.push(")").build_query_as().fetch_all(pool).await
        })?;
        let is_own = |host: &String| self.own.get() == Some(host);
        let (own, others): (Vec<_>, Vec<_>) =
            watched.into_iter().partition(|(_, host)| is_own(host));
        let others: HashSet<String> = others.into_iter().map(|(account, _)| account).collect();
        for account in others {
            self.db.execute(self.db.query(ADD_EVENT), [account]).await?;
        }
        Ok(own.into_iter().map(|(account, _)| account).collect())
    }
}

#[cfg(test)]
mod tests {
    use crate::hosts::Announcement;
    use crate::hosts::host_events::HostEvent;
    use crate::testing::{Fresh, both};

    async fn only_changes_of_watched_mailboxes_are_events(fresh: Fresh) {
        let (directory, hosts) = (&fresh.directory, &fresh.directory.hosts);
        for id in ["a", "b", "c"] {
            directory.with(id, &format!("{id}@example.org"), &[]).await;
        }
        fresh.execute("UPDATE mailboxes SET version = 1").await;
        for id in ["own", "other"] {
            let host = Announcement {
                id: id.into(),
                name: "one".into(),
                version: "1.0.0".into(),
                base_url: "https://example.org".into(),
                key_id: "new".into(),
                key_ids: Vec::new(),
                problem: None,
            };
            hosts.announce(&host).await.unwrap();
        }
        hosts.set_own_host("own");
        hosts.watch("a").await.unwrap();
        hosts.watch("a").await.unwrap();
        assert!(hosts.watched().await.unwrap().contains("a"));
        fresh
            .execute("INSERT INTO watched_mailboxes (account_id, host_id) VALUES ('b', 'other')")
            .await;
        let mut events = hosts.events().await.unwrap();
        fresh.execute("UPDATE mailboxes SET version = 2").await;
        let changed = |id: &str| HostEvent::MailboxChanged(id.into());
        let mut found = events.next().await.unwrap();
        found.sort_by_key(|event| format!("{event:?}"));
        assert_eq!(found, [changed("a"), changed("b")]);
        let addresses = ["a@example.org", "b@example.org", "c@example.org", "x"];
        let addresses: Vec<String> = addresses.map(Into::into).into();
        let own = hosts.report_changes(&addresses).await.unwrap();
        assert_eq!(own.into_iter().collect::<Vec<_>>(), ["a"]);
        assert_eq!(events.next().await.unwrap(), [changed("b")]);
        hosts.unwatch("a").await.unwrap();
        hosts.remove("other").await.unwrap();
        fresh.execute("UPDATE mailboxes SET version = 3").await;
        assert_eq!(events.next().await.unwrap(), []);
        let own = hosts.report_changes(&addresses).await.unwrap();
        assert!(own.is_empty());
    }

    both!(only_changes_of_watched_mailboxes_are_events);
}
