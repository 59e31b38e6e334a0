//! The public ids of the service's keys, with their states. The keys themselves are only in the key
//! files of the hosts, so a copy of the database contains no key.
//!
//! At most one key is current, and at most one is pending. A pending key becomes the current key
//! when the key files of all running hosts contain the key.

use latchmail_core::clock::Timestamp;

use super::Keys;
use crate::db::{Error, Tx};
use crate::hosts::for_both;

const ALL: &str = "SELECT kid, state, changed_at FROM service_keys ORDER BY changed_at DESC, kid";
pub(crate) const CURRENT: &str = "SELECT kid FROM service_keys WHERE state = 'current'";

for_both! {
    INSERT: "INSERT INTO service_keys (kid, state, changed_at) VALUES ($1, $2, " NOW ") ON CONFLICT DO NOTHING",
    SET_STATE: "UPDATE service_keys SET state = $2, changed_at = " NOW " WHERE kid = $1",
}

const OTHER_HOSTS: &str =
    "SELECT name, key_ids FROM hosts WHERE id <> $2 AND seen_at > $1 ORDER BY name";

/// Transactions that change the states of keys run one after the other. No other advisory lock uses
/// this number. SQLite needs no lock, because SQLite has one writer at a time.
const LOCK_POSTGRES: &str = "SELECT pg_advisory_xact_lock(6016254205)";

/// The state of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyState {
    /// The key was added to a key file. The key becomes the current key when the key files of all
    /// running hosts contain the key.
    Pending,
    /// The service encrypts new secrets and signs new tokens with the key.
    Current,
    /// The service decrypts old secrets and verifies old tokens with the key.
    Earlier,
}

impl KeyState {
    /// Returns the state's name in the database.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Current => "current",
            Self::Earlier => "earlier",
        }
    }
}

/// A service key whose id is in the database.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServiceKey {
    /// The public id of the key.
    pub kid: String,
    /// The state of the key.
    pub state: KeyState,
    /// The time at which the key got this state.
    pub changed_at: Timestamp,
}

/// The result of [`Keys::register_service_keys`]. Each value is the id of a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Registered {
    /// The database's current key, which is in the key file.
    Known(String),
    /// The first key in the file became the current key. The value is the id of the previous
    /// current key, or `None` if the database had no current key.
    New(Option<String>),
    /// The database's current key, which is not in the key file.
    Missing(String),
}

/// The result of [`Keys::activate_service_key`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Activation {
    /// The key is the current key.
    Activated,
    /// The hosts with these names run and do not have the key.
    MissingOn(Vec<String>),
    /// The key is not the pending key.
    NotPending,
}

impl Keys {
    /// Returns all keys, the key with the latest change first.
    ///
    /// # Errors
    /// Returns [`Error`] if the database fails.
    pub async fn list(&self) -> Result<Vec<ServiceKey>, Error> {
        let rows: Vec<KeyRow> = self.db.all(ALL, ()).await?;
        Ok(rows.into_iter().map(ServiceKey::from).collect())
    }

    /// Returns the id of the current key, or `None` if no host has used the database yet.
    ///
    /// # Errors
    /// Returns [`Error`] if the database fails.
    pub async fn current_service_key(&self) -> Result<Option<String>, Error> {
        self.db.optional_value(CURRENT, ()).await
    }

    /// Compares the keys in the key file of a host with the database. `kids` are the ids of these
    /// keys in the order of the file, and `host_id` is the id of the host.
    ///
    /// If the database has no current key, the first key becomes the current key. If the database
    /// has a current key but does not contain the first key, the first key becomes the current key
    /// if no other host runs. If another host runs, the first key becomes the pending key, provided
    /// that the file also contains the current key.
    ///
    /// # Errors
    /// Returns [`Error`] if the database fails.
    pub async fn register_service_keys(
        &self,
        kids: &[&str],
        host_id: &str,
    ) -> Result<Registered, Error> {
        let mut tx = self.begin_key_change().await?;
        let rows: Vec<KeyRow> = tx.all(ALL, ()).await?;
        let current = rows.iter().find(|row| row.state == "current");
        let first = kids.first().copied().unwrap_or_default();
        let Some(current) = current.map(|row| row.kid.clone()) else {
            for (index, kid) in kids.iter().enumerate() {
                let state = if index == 0 {
                    KeyState::Current
                } else {
                    KeyState::Earlier
                };
                self.insert_key(&mut tx, kid, state).await?;
            }
            // The database can already contain the first key as a pending or earlier key. In that
            // case, the insertion has not changed the state of the key.
            self.set_key_state(&mut tx, first, KeyState::Current)
                .await?;
            tx.commit().await?;
            return Ok(Registered::New(None));
        };
        let is_known = rows.iter().any(|row| row.kid == first);
        let is_alone = self.other_hosts(&mut tx, host_id).await?.is_empty();
        if !is_known && is_alone {
            self.set_key_state(&mut tx, &current, KeyState::Earlier)
                .await?;
            self.insert_key(&mut tx, first, KeyState::Current).await?;
            tx.commit().await?;
            return Ok(Registered::New(Some(current)));
        }
        if !kids.contains(&current.as_str()) {
            return Ok(Registered::Missing(current));
        }
        if !is_known {
            self.insert_key(&mut tx, first, KeyState::Pending).await?;
            tx.commit().await?;
        }
        Ok(Registered::Known(current))
    }

    /// Makes a key pending. Returns the id of the pending key. This is the id of another key if
    /// another key was already pending. Returns `None` if no key is pending, because `kid` is or
    /// was the current key.
    ///
    /// # Errors
    /// Returns [`Error`] if the database fails.
    pub async fn add_pending_service_key(&self, kid: &str) -> Result<Option<String>, Error> {
        let mut tx = self.begin_key_change().await?;
        self.insert_key(&mut tx, kid, KeyState::Pending).await?;
        let rows: Vec<KeyRow> = tx.all(ALL, ()).await?;
        tx.commit().await?;
        let pending = rows.into_iter().find(|row| row.state == "pending");
        Ok(pending.map(|row| row.kid))
    }

    /// Makes the pending key the current key if all running hosts have the key.
    ///
    /// # Errors
    /// Returns [`Error`] if the database fails. Nothing is changed in that case.
    pub async fn activate_service_key(&self, kid: &str) -> Result<Activation, Error> {
        let mut tx = self.begin_key_change().await?;
        let rows: Vec<KeyRow> = tx.all(ALL, ()).await?;
        let is = |state: &str| rows.iter().find(|row| row.state == state);
        if is("current").is_some_and(|row| row.kid == kid) {
            return Ok(Activation::Activated);
        }
        if is("pending").is_none_or(|row| row.kid != kid) {
            return Ok(Activation::NotPending);
        }
        let hosts = self.other_hosts(&mut tx, "").await?;
        let without = |(_, kids): &(String, String)| kids.split_whitespace().all(|one| one != kid);
        let missing: Vec<String> = hosts
            .into_iter()
            .filter(without)
            .map(|(name, _)| name)
            .collect();
        if !missing.is_empty() {
            return Ok(Activation::MissingOn(missing));
        }
        if let Some(current) = is("current") {
            self.set_key_state(&mut tx, &current.kid, KeyState::Earlier)
                .await?;
        }
        self.set_key_state(&mut tx, kid, KeyState::Current).await?;
        tx.commit().await?;
        Ok(Activation::Activated)
    }

    /// Begins a transaction that changes the states of keys. A host that announced itself before
    /// this transaction is visible in the transaction, and a host that announces itself later
    /// registers its keys after this transaction. So no host can start with an old key file while a
    /// new key becomes current.
    async fn begin_key_change(&self) -> Result<Tx, Error> {
        let mut tx = self.db.begin().await?;
        if let Tx::Postgres(tx) = &mut tx {
            sqlx::query(LOCK_POSTGRES).execute(&mut **tx).await?;
        }
        Ok(tx)
    }

    async fn insert_key(&self, tx: &mut Tx, kid: &str, state: KeyState) -> Result<(), Error> {
        let query = self.db.query(INSERT);
        tx.execute(query, (kid, state.as_str())).await?;
        Ok(())
    }

    async fn set_key_state(&self, tx: &mut Tx, kid: &str, state: KeyState) -> Result<(), Error> {
        let query = self.db.query(SET_STATE);
        tx.execute(query, (kid, state.as_str())).await?;
        Ok(())
    }

    /// Returns the names and the key ids of the running hosts, except the host `host_id`.
    async fn other_hosts(
        &self,
        tx: &mut Tx,
        host_id: &str,
    ) -> Result<Vec<(String, String)>, Error> {
        let stopped_before = self.hosts.stopped_before_in(tx).await?;
        tx.all(OTHER_HOSTS, (stopped_before, host_id)).await
    }
}

/// A row of [`ALL`].
#[derive(sqlx_macros::FromRow)]
struct KeyRow {
    kid: String,
    state: String,
    changed_at: i64,
}

impl From<KeyRow> for ServiceKey {
    fn from(row: KeyRow) -> Self {
        Self {
            kid: row.kid,
            state: match row.state.as_str() {
                "pending" => KeyState::Pending,
                "current" => KeyState::Current,
                _ => KeyState::Earlier,
            },
            changed_at: Timestamp::from_millis(row.changed_at),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Directory;
    use crate::hosts::Announcement;
    use crate::testing::{Fresh, both};

    async fn announce(directory: &Directory, id: &str, kids: &[&str]) {
        let announcement = Announcement {
            id: id.into(),
            name: format!("host-{id}"),
            version: "1.0.0".into(),
            base_url: "https://example.org".into(),
            key_id: kids[0].into(),
            key_ids: kids.iter().map(|kid| (*kid).to_owned()).collect(),
            problem: None,
        };
        directory.hosts.announce(&announcement).await.unwrap();
    }

    async fn states(directory: &Directory) -> Vec<(String, KeyState)> {
        let keys = directory.keys.list().await.unwrap();
        let mut states: Vec<_> = keys.into_iter().map(|key| (key.kid, key.state)).collect();
        states.sort_by(|a, b| a.0.cmp(&b.0));
        states
    }

    async fn the_first_host_registers_its_keys_and_the_database_then_decides(fresh: Fresh) {
        let directory = &fresh.directory;
        let register = async |kids: &[&str]| {
            let registered = directory.keys.register_service_keys(kids, "self").await;
            registered.unwrap()
        };
        assert_eq!(directory.keys.current_service_key().await.unwrap(), None);
        assert_eq!(register(&["b", "a"]).await, Registered::New(None));
        let known = Registered::Known("b".into());
        assert_eq!(register(&["b", "a"]).await, known);
        assert_eq!(register(&["a", "b"]).await, known, "another order");
        assert_eq!(register(&["a"]).await, Registered::Missing("b".into()));
        // A new first key on the only host.
        announce(directory, "self", &["b"]).await;
        assert_eq!(
            register(&["c", "b"]).await,
            Registered::New(Some("b".into()))
        );
        assert_eq!(register(&["b", "c"]).await, Registered::Known("c".into()));
        // A new first key with another host.
        announce(directory, "other", &["c"]).await;
        assert_eq!(register(&["d"]).await, Registered::Missing("c".into()));
        assert_eq!(register(&["d", "c"]).await, Registered::Known("c".into()));
        assert_eq!(register(&["e", "c"]).await, Registered::Known("c".into()));
        let expected = [
            ("a", KeyState::Earlier),
            ("b", KeyState::Earlier),
            ("c", KeyState::Current),
            ("d", KeyState::Pending),
        ];
        assert_eq!(
            states(directory).await,
            expected.map(|(kid, state)| (kid.to_owned(), state))
        );
        assert_eq!(
            directory
                .keys
                .current_service_key()
                .await
                .unwrap()
                .as_deref(),
            Some("c")
        );
    }

    async fn a_pending_key_becomes_current_when_all_running_hosts_have_it(fresh: Fresh) {
        let directory = &fresh.directory;
        directory
            .keys
            .register_service_keys(&["a"], "one")
            .await
            .unwrap();
        announce(directory, "one", &["a", "b"]).await;
        announce(directory, "two", &["a"]).await;
        let mut events = directory.hosts.events().await.unwrap();
        let add = async |kid: &str| directory.keys.add_pending_service_key(kid).await.unwrap();
        assert_eq!(add("a").await, None);
        assert_eq!(add("b").await.as_deref(), Some("b"));
        assert_eq!(add("c").await.as_deref(), Some("b"));
        let activate = async |kid: &str| directory.keys.activate_service_key(kid).await.unwrap();
        assert_eq!(activate("c").await, Activation::NotPending);
        assert_eq!(
            activate("b").await,
            Activation::MissingOn(vec!["host-two".into()])
        );
        announce(directory, "two", &["a", "b"]).await;
        assert_eq!(activate("b").await, Activation::Activated);
        assert_eq!(activate("b").await, Activation::Activated, "again");
        assert_eq!(add("c").await.as_deref(), Some("c"));
        fresh
            .execute("UPDATE hosts SET seen_at = seen_at - 16000")
            .await;
        assert_eq!(activate("c").await, Activation::Activated, "no host runs");
        let read = events.next().await.unwrap();
        assert!(!read.is_empty());
        assert!(
            read.iter()
                .all(|event| *event == crate::hosts::host_events::HostEvent::KeysChanged)
        );
    }

    both!(
        the_first_host_registers_its_keys_and_the_database_then_decides,
        a_pending_key_becomes_current_when_all_running_hosts_have_it,
    );
}
