//! Devices without a browser (RFC 8628). A device displays a user code of eight letters. The device
//! polls for the result until a person signs in on another device.
//!
//! This module stores devices and looks up devices. Callers generate the codes.

use std::net::IpAddr;
use std::time::Duration;

use latchmail_core::caller::Origin;
use latchmail_core::clock::Timestamp;

use super::OAuth;
use super::grants::{self, NewGrant};
use crate::crowd::{self, Crowd, crowd};
use crate::db::{Error, Tx};

/// The increase of a device's polling interval after each poll that is too early (RFC 8628, section
/// 3.5).
const SLOW_DOWN: Duration = Duration::from_secs(5);

/// The minimum time that a device has after the sign-in to fetch its grant.
const MIN_FETCH_TIME: Duration = Duration::from_mins(1);

const INSERT: &str = "INSERT INTO oauth_devices \
    (device_hash, user_code, client_id, client_name, resource, scope, denied, patience, expires_at, network, region) \
    VALUES ($1, $2, $3, $4, $5, $6, FALSE, $7, $8, $9, $10)";
/// Devices that wait for a sign-in, and devices that a person denied.
const WAITING_DEVICES: Crowd = crowd!(
    "oauth_devices",
    "device_hash",
    "expires_at",
    "account_id IS NULL"
);
const WAITING: &str = "SELECT client_id, client_name, scope FROM oauth_devices \
    WHERE user_code = $1 AND account_id IS NULL AND NOT denied AND expires_at > $2";
/// Approves a waiting device. If two people approve a device concurrently, the second update
/// changes no row, because the row already has an account.
const APPROVE: &str = "UPDATE oauth_devices SET account_id = $2, expires_at = CASE WHEN expires_at < $4 THEN $4 ELSE expires_at END \
    WHERE user_code = $1 AND account_id IS NULL AND NOT denied AND expires_at > $3";
/// Denies access for a device that waits for a sign-in, or for an approved device that has not
/// fetched its grant.
const DENY: &str = "UPDATE oauth_devices SET denied = TRUE WHERE user_code = $1 AND NOT denied AND expires_at > $2";
const EXISTS: &str = "SELECT COUNT(*) FROM oauth_devices WHERE device_hash = $1 AND client_id = $2";
const STATE: &str = "SELECT client_id, client_name, resource, scope, account_id, denied, patience, asked_at, expires_at \
    FROM oauth_devices WHERE device_hash = $1";
const RECORD_POLL: &str =
    "UPDATE oauth_devices SET asked_at = $2, patience = $3 WHERE device_hash = $1";
/// Deletes an approved device. If two calls exchange the same device code concurrently, the
/// statement of the second call deletes no row.
const CONSUME: &str = "DELETE FROM oauth_devices WHERE device_hash = $1 AND account_id = $2 AND NOT denied AND expires_at > $3 \
    AND EXISTS (SELECT 1 FROM accounts a WHERE a.id = oauth_devices.account_id AND a.active)";

/// A new device that waits for a sign-in.
#[derive(Clone, Debug)]
pub struct NewDevice {
    /// SHA-256 of the device code, lower-case hexadecimal.
    pub hash: String,
    /// The code that the person types, without the hyphen.
    pub user_code: String,
    /// The client's id.
    pub client_id: String,
    /// The client's name, chosen by the client.
    pub client_name: String,
    /// The resource server (RFC 8707) for which the tokens are valid.
    pub resource: String,
    /// The scopes of the grant, separated by spaces.
    pub scope: String,
    /// Minimum time between two polls.
    pub patience: Duration,
    /// The time until which a person can sign in for the device.
    pub expires_at: Timestamp,
}

/// A waiting device. The person who signs in sees this data.
#[derive(Clone, Debug, PartialEq, Eq, sqlx_macros::FromRow)]
pub struct Device {
    /// The client's id.
    pub client_id: String,
    /// The client's name, chosen by the client.
    pub client_name: String,
    /// The scopes of the grant, separated by spaces.
    pub scope: String,
}

/// The result of a poll.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Poll {
    /// No person has signed in.
    Pending,
    /// No person has signed in, and the device polled too early.
    SlowDown,
    /// The person denied access.
    Denied,
    /// The device code expired.
    Expired,
    /// The client has no such device.
    Unknown,
    /// A person signed in, and the device can fetch its grant.
    Approved {
        /// The account whose mailbox the grant is for.
        account_id: String,
        /// The client's name, chosen by the client.
        client_name: String,
        /// The resource server (RFC 8707) for which the tokens are valid.
        resource: String,
        /// The scopes of the grant, separated by spaces.
        scope: String,
    },
}

#[derive(sqlx_macros::FromRow)]
struct State {
    client_id: String,
    client_name: String,
    resource: String,
    scope: String,
    account_id: Option<String>,
    denied: bool,
    patience: i64,
    asked_at: Option<i64>,
    expires_at: i64,
}

impl OAuth {
    /// Stores a new device that waits for a sign-in. `from` is the device's IP address.
    ///
    /// # Errors
    /// Returns [`Error`] if the database fails, or if another waiting device has the same user
    /// code.
    pub async fn add_device(&self, device: &NewDevice, from: IpAddr) -> Result<(), Error> {
        let mut tx = self.db.begin().await?;
        WAITING_DEVICES.make_room(&mut tx).await?;
        let (network, region) = crowd::origin(from);
        let row = (
            &device.hash,
            &device.user_code,
            &device.client_id,
            &device.client_name,
            &device.resource,
            &device.scope,
            millis(device.patience),
            device.expires_at,
            network,
            region,
        );
        tx.execute(INSERT, row).await?;
        tx.commit().await
    }

    /// Returns the waiting device with this user code. Returns `None` if there is no such device.
    ///
    /// # Errors
    /// Returns [`Error`] if the database fails.
    pub async fn waiting_device(
        &self,
        user_code: &str,
        now: Timestamp,
    ) -> Result<Option<Device>, Error> {
        self.db.optional(WAITING, (user_code, now)).await
    }

    /// Denies access for the device with this user code. The device must be waiting, or must not
    /// have fetched its grant. Returns `true` if there was such a device.
    ///
    /// # Errors
    /// Returns [`Error`] if the database fails.
    pub async fn deny_device(&self, user_code: &str, now: Timestamp) -> Result<bool, Error> {
        let denied = self.db.execute(DENY, (user_code, now)).await?;
        Ok(denied == 1)
    }

    /// Returns `true` if the device belongs to the client. The device can be expired.
    ///
    /// # Errors
    /// Returns [`Error`] if the database fails.
    pub async fn has_device(&self, device_hash: &str, client_id: &str) -> Result<bool, Error> {
        let devices: i64 = self.db.value(EXISTS, (device_hash, client_id)).await?;
        Ok(devices == 1)
    }

    /// Returns the state of a device that polls. A poll that is too early increases the polling
    /// interval.
    ///
    /// # Errors
    /// Returns [`Error`] if the database fails.
    pub async fn poll_device(
        &self,
        device_hash: &str,
        client_id: &str,
        now: Timestamp,
    ) -> Result<Poll, Error> {
        let mut tx = self.db.begin().await?;
        let state: Option<State> = tx.optional(STATE, [device_hash]).await?;
        let Some(state) = state.filter(|state| state.client_id == client_id) else {
            return Ok(Poll::Unknown);
        };
        if state.expires_at <= now.millis() {
            return Ok(Poll::Expired);
        }
        if state.denied {
            return Ok(Poll::Denied);
        }
        if let Some(account_id) = state.account_id {
            return Ok(Poll::Approved {
                account_id,
                client_name: state.client_name,
                resource: state.resource,
                scope: state.scope,
            });
        }
        let soon = |asked_at: i64| now.millis().saturating_sub(asked_at) < state.patience;
        let soon = state.asked_at.is_some_and(soon);
        let patience = if soon {
            state.patience.saturating_add(millis(SLOW_DOWN))
        } else {
            state.patience
        };
        tx.execute(RECORD_POLL, (device_hash, now, patience))
            .await?;
        tx.commit().await?;
        Ok(if soon { Poll::SlowDown } else { Poll::Pending })
    }

    /// Creates the grant of a device, and deletes the device. So a device gets only one grant.
    /// Returns the ids of the app passwords that were deleted because the account had too many
    /// grants. Returns `None` if the device cannot get the grant any longer.
    ///
    /// # Errors
    /// Returns [`Error`] if the database fails. The device continues to wait in that case.
    pub async fn exchange_device(
        &self,
        device_hash: &str,
        grant: &NewGrant,
        origin: &Origin,
    ) -> Result<Option<Vec<String>>, Error> {
        let mut tx = self.db.begin_locked(&grant.account_id).await?;
        let taken = tx
            .execute(CONSUME, (device_hash, &grant.account_id, grant.at))
            .await?;
        if taken == 0 {
            return Ok(None);
        }
        let ended = grants::insert(&mut tx, grant, origin).await?;
        tx.commit().await?;
        Ok(Some(ended))
    }
}

/// Approves the waiting device with this user code. Returns the client's id and name. Returns
/// `None` if no waiting device has this code.
pub(super) async fn approve(
    tx: &mut Tx,
    user_code: &str,
    account_id: &str,
    now: Timestamp,
) -> Result<Option<(String, String)>, Error> {
    let device: Option<Device> = tx.optional(WAITING, (user_code, now)).await?;
    let approved = tx
        .execute(
            APPROVE,
            (user_code, account_id, now, now.plus(MIN_FETCH_TIME)),
        )
        .await?;
    let device = device.filter(|_| approved == 1);
    Ok(device.map(|device| (device.client_id, device.client_name)))
}

fn millis(duration: Duration) -> i64 {
    i64::try_from(duration.as_millis()).unwrap_or(i64::MAX)
}
