//! Writes security events, and limits the number of rows for failed sign-ins.
//!
//! Rate limits do not prevent unauthenticated clients from causing many failed sign-ins. For each
//! account and each reason, at most [`LISTED`] failures a day get their own row. Each further
//! failure of the day overwrites the newest of these rows and increases the row's count of unlisted
//! failures.
//!
//! Failed sign-ins to addresses without an account are counted for each client network, because a
//! client can invent any number of addresses. Each network gets at most [`LISTED`] rows a day, and
//! all networks together get at most [`LISTED_OF_STRANGERS`] rows a day.

use latchmail_core::caller::Origin;
use latchmail_core::network::network;

use super::{Event, Kind};
use crate::db::{Error, Tx};

/// Maximum number of rows per day (UTC) for failed sign-ins to one account for one reason. Also the
/// maximum for failed sign-ins to addresses without an account from one network.
const LISTED: i64 = 100;
/// Maximum number of rows per day (UTC) for all failed sign-ins to addresses without an account.
const LISTED_OF_STRANGERS: i64 = 10_000;
const DAY: i64 = 24 * 60 * 60 * 1000;

/// Overwrites the newest matching row of a day ($11 to $12) with a new failure. Increases the row's
/// count of unlisted failures. Does nothing if the day has fewer than $13 matching rows.
macro_rules! one_more {
    ($rows:literal, $order:literal) => {
        concat!(
            "UPDATE security_events SET unlisted = unlisted + 1, at = $4, account_id = $5, actor = $6, credential = $7, client = $8, request_id = $9, \
                subject = $10, address = $1, kind = $2, detail = $3, network = $14 \
            WHERE id = (SELECT id FROM security_events WHERE ", $rows, " AND at >= $11 AND at < $12 ORDER BY ", $order, " at DESC, id DESC LIMIT 1) \
            AND $13 <= (SELECT COUNT(*) FROM security_events WHERE ", $rows, " AND at >= $11 AND at < $12)"
        )
    };
}
const ONE_MORE: &str = one_more!("address = $1 AND kind = $2 AND detail = $3", "");
const ONE_MORE_OF_NETWORK: &str = one_more!(
    "account_id IS NULL AND kind = 'sign_in_failed' AND network = $14",
    ""
);
const ONE_MORE_OF_ALL: &str = one_more!(
    "account_id IS NULL AND kind = 'sign_in_failed'",
    "network = $14 DESC,"
);
/// Stores the account's current address. If no account has this id, stores the address that the
/// client sent.
const INSERT: &str = "INSERT INTO security_events \
    (at, kind, account_id, address, actor, credential, client, request_id, subject, detail, network) \
    VALUES ($1, $2, $3, COALESCE((SELECT address FROM accounts WHERE id = $3), $4), $5, $6, $7, $8, $9, $10, $11)";

/// Records an event and commits the transaction.
pub(crate) async fn commit(mut tx: Tx, event: Event<'_>, origin: &Origin) -> Result<(), Error> {
    record(&mut tx, event, origin).await?;
    tx.commit().await
}

/// Records an event in the transaction of the described change.
pub(crate) async fn record(tx: &mut Tx, event: Event<'_>, origin: &Origin) -> Result<(), Error> {
    if event.kind == Kind::SignInFailed && counted(tx, event, origin).await? {
        return Ok(());
    }
    let row = (
        event.at,
        event.kind.name(),
        event.account,
        event.address,
        &origin.actor,
        &origin.credential,
        origin.client.map(|client| client.to_string()),
        &origin.request,
        event.subject,
        event.detail,
        network_of(origin),
    );
    tx.execute(INSERT, row).await?;
    Ok(())
}

/// Returns the network of the client that made a request, or an empty string if the client is
/// unknown.
pub(super) fn network_of(origin: &Origin) -> String {
    let network = origin.client.map(network);
    network
        .map(|network| network.to_string())
        .unwrap_or_default()
}

/// Counts a failed sign-in in an existing row, if the day already has the maximum number of such
/// rows. Returns `true` if the failure was counted. Otherwise, the caller must insert a row.
async fn counted(tx: &mut Tx, event: Event<'_>, origin: &Origin) -> Result<bool, Error> {
    let Some(detail) = event.detail else {
        return Ok(false);
    };
    let midnight = event.at.millis().div_euclid(DAY) * DAY;
    let budgets: &[(&'static str, i64)] = match event.account {
        Some(_) => &[(ONE_MORE, LISTED)],
        None => &[
            (ONE_MORE_OF_NETWORK, LISTED),
            (ONE_MORE_OF_ALL, LISTED_OF_STRANGERS),
        ],
    };
    for &(one_more, most) in budgets {
        let counted = tx
            .execute(
                one_more,
                (
                    event.address,
                    event.kind.name(),
                    detail,
                    event.at,
                    event.account,
                    &origin.actor,
                    &origin.credential,
                    origin.client.map(|client| client.to_string()),
                    &origin.request,
                    event.subject,
                    midnight,
                    midnight + DAY,
                    most,
                    network_of(origin),
                ),
            )
            .await?;
        if counted == 1 {
            return Ok(true);
        }
    }
    Ok(false)
}
