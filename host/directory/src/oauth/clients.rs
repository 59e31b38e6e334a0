//! OAuth clients. Clients can register themselves, and the operator can create clients. Any program
//! can register a client. Therefore a self-registered client is deleted after some time if no
//! person signs in for the client.

use std::net::IpAddr;
use std::time::Duration;

use latchmail_core::caller::Origin;
use latchmail_core::clock::Timestamp;

use super::OAuth;
use crate::credentials;
use crate::crowd::{self, Crowd, crowd};
use crate::db::{Error, Tx};
use crate::events::{self, Event, Kind};

/// The age at which a self-registered client is deleted if no person has signed in for the client.
const UNUSED: Duration = Duration::from_hours(24);
/// The time since the last sign-in after which a self-registered client without a grant is deleted.
const IDLE: Duration = Duration::from_hours(90 * 24);

/// Self-registered clients without a sign-in.
const UNUSED_CLIENTS: Crowd = crowd!(
    "oauth_clients",
    "id",
    "created_at",
    "secret_hash IS NULL AND used_at IS NULL"
);

const INSERT: &str = "INSERT INTO oauth_clients (id, name, redirect_uris, grant_types, secret_hash, created_at, network, region) \
    VALUES ($1, $2, $3, $4, $5, $6, $7, $8)";
const FIND: &str = "SELECT id, name, redirect_uris, grant_types, secret_hash, created_at, used_at FROM oauth_clients WHERE id = $1";
const ALL: &str = "SELECT id, name, redirect_uris, grant_types, secret_hash, created_at, used_at FROM oauth_clients ORDER BY created_at, id";
const DELETE: &str = "DELETE FROM oauth_clients WHERE id = $1";
const CODES: &str = "DELETE FROM oauth_codes WHERE client_id = $1 AND grant_id IS NULL";
const DEVICES: &str = "DELETE FROM oauth_devices WHERE client_id = $1";
/// The accounts are sorted. Therefore two transactions that lock accounts cannot deadlock.
const OWNERS: &str =
    "SELECT DISTINCT account_id FROM oauth_grants WHERE client_id = $1 ORDER BY account_id";
const GRANTS: &str = "DELETE FROM app_passwords WHERE id IN \
    (SELECT app_password_id FROM oauth_grants WHERE client_id = $1 AND account_id = $2) RETURNING id";
const SWEEP: &str = "DELETE FROM oauth_clients WHERE secret_hash IS NULL \
    AND (used_at IS NULL AND created_at <= $1 OR used_at <= $2) \
    AND NOT EXISTS (SELECT 1 FROM oauth_grants g WHERE g.client_id = oauth_clients.id)";

/// An OAuth client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Client {
    /// An opaque id.
    pub id: String,
    /// The client's name, chosen by the client. The name can be empty.
    pub name: String,
    /// The URIs to which the client may redirect people.
    pub redirect_uris: Vec<String>,
    /// The grant types that the client may use, with their names in the protocol.
    pub grant_types: Vec<String>,
    /// SHA-256 of the client's secret, lower-case hexadecimal. Only clients that the operator
    /// created have a secret.
    pub secret_hash: Option<String>,
}

/// A client with its times. For the operator.
#[derive(Clone, Debug)]
pub struct ClientRow {
    /// The client.
    pub client: Client,
    /// The time of the registration or creation.
    pub created_at: Timestamp,
    /// The time of the last sign-in for the client. `None` if no person has signed in for the
    /// client.
    pub used_at: Option<Timestamp>,
}

#[derive(sqlx_macros::FromRow)]
struct Row {
    id: String,
    name: String,
    redirect_uris: String,
    grant_types: String,
    secret_hash: Option<String>,
    created_at: i64,
    used_at: Option<i64>,
}

impl From<Row> for ClientRow {
    fn from(row: Row) -> Self {
        let uris = row.redirect_uris.split('\n').filter(|uri| !uri.is_empty());
        Self {
            created_at: Timestamp::from_millis(row.created_at),
            used_at: row.used_at.map(Timestamp::from_millis),
            client: Client {
                redirect_uris: uris.map(ToOwned::to_owned).collect(),
                grant_types: row
                    .grant_types
                    .split_whitespace()
                    .map(ToOwned::to_owned)
                    .collect(),
                id: row.id,
                name: row.name,
                secret_hash: row.secret_hash,
            },
        }
    }
}

impl OAuth {
    /// Stores a client that registered itself from the IP address `from`. The client's redirect
    /// URIs must not contain line feeds.
    ///
    /// # Errors
    /// Returns [`Error`] if the database fails. Nothing is stored in that case.
    pub async fn register_client(
        &self,
        client: &Client,
        from: IpAddr,
        now: Timestamp,
    ) -> Result<(), Error> {
        let mut tx = self.db.begin().await?;
        UNUSED_CLIENTS.make_room(&mut tx).await?;
        insert(&mut tx, client, Some(from), now).await?;
        tx.commit().await
    }

    /// Stores a client that the operator created.
    ///
    /// # Errors
    /// Returns [`Error`] if the database fails. Nothing is stored in that case.
    pub async fn add_client(
        &self,
        client: &Client,
        now: Timestamp,
        origin: &Origin,
    ) -> Result<(), Error> {
        let mut tx = self.db.begin().await?;
        insert(&mut tx, client, None, now).await?;
        let added = Event::without_account(Kind::ClientAdded, now)
            .about(&client.id)
            .detail(&client.name);
        events::commit(tx, added, origin).await
    }

    /// Returns the client with this id. Returns `None` if no client has this id.
    ///
    /// # Errors
    /// Returns [`Error`] if the database fails.
    pub async fn client(&self, id: &str) -> Result<Option<Client>, Error> {
        let row: Option<Row> = self.db.optional(FIND, [id]).await?;
        Ok(row.map(|row| ClientRow::from(row).client))
    }

    /// Returns every client, oldest first.
    ///
    /// # Errors
    /// Returns [`Error`] if the database fails.
    pub async fn clients(&self) -> Result<Vec<ClientRow>, Error> {
        let rows: Vec<Row> = self.db.all(ALL, ()).await?;
        Ok(rows.into_iter().map(ClientRow::from).collect())
    }

    /// Removes a client and all its grants. The client does not need to have a row, because the id
    /// can be the URL of the client's metadata document.
    ///
    /// Returns the ids of the deleted app passwords. Returns `None` if there is no client, approval
    /// or grant with this client id.
    ///
    /// # Errors
    /// Returns [`Error`] if the database fails. Nothing is changed in that case.
    pub async fn remove_client(
        &self,
        id: &str,
        now: Timestamp,
        origin: &Origin,
    ) -> Result<Option<Vec<String>>, Error> {
        let mut tx = self.db.begin().await?;
        let mut known = tx.execute(DELETE, [id]).await?;
        // These queries delete the approvals that have not led to a grant.
        for forget in [CODES, DEVICES] {
            known += tx.execute(forget, [id]).await?;
        }
        let owners: Vec<String> = tx.values(OWNERS, [id]).await?;
        let mut ended: Vec<String> = Vec::new();
        for owner in &owners {
            tx.lock_account(owner).await?;
            let ended_now = credentials::delete_by(&mut tx, GRANTS, (id, owner)).await?;
            for app_password in &ended_now {
                let event = Event::of(Kind::OAuthGrantEnded, owner, now)
                    .about(app_password)
                    .detail("its client was removed");
                events::record(&mut tx, event, origin).await?;
            }
            ended.extend(ended_now);
        }
        if known == 0 && ended.is_empty() {
            return Ok(None);
        }
        let detail = format!("grants ended: {}", ended.len());
        let removed = Event::without_account(Kind::ClientRemoved, now)
            .about(id)
            .detail(&detail);
        events::commit(tx, removed, origin).await?;
        Ok(Some(ended))
    }

    /// Deletes unused self-registered clients.
    pub(crate) async fn sweep_clients(&self, now: Timestamp) -> Result<(), Error> {
        self.db
            .execute(SWEEP, (now.minus(UNUSED), now.minus(IDLE)))
            .await?;
        Ok(())
    }
}

async fn insert(
    tx: &mut Tx,
    client: &Client,
    from: Option<IpAddr>,
    now: Timestamp,
) -> Result<(), Error> {
    let (network, region) = from.map(crowd::origin).unwrap_or_default();
    let row = (
        &client.id,
        &client.name,
        client.redirect_uris.join("\n"),
        client.grant_types.join(" "),
        &client.secret_hash,
        now,
        network,
        region,
    );
    tx.execute(INSERT, row).await?;
    Ok(())
}
