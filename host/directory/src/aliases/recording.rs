//! Records the changes of aliases that grants make, in the transaction of the change.

use latchmail_core::clock::Timestamp;
use serde_json::json;

use super::{Alias, AliasCaller};
use crate::db::{Error, Tx};
use crate::grant_changes::{NewChange, record_in};

/// The kind of the change that creates an alias.
pub const ALIAS_CREATE: &str = "alias_create";
/// The kind of the change that changes an alias.
pub const ALIAS_UPDATE: &str = "alias_update";
/// The kind of the change that deletes an alias.
pub const ALIAS_DELETE: &str = "alias_delete";

/// Records a change of an alias. `before` or `after` is `None` if the alias did not exist. Does
/// nothing if the caller is no grant.
pub(super) async fn record(
    tx: &mut Tx,
    caller: AliasCaller<'_>,
    kind: &'static str,
    (before, after): (Option<&Alias>, Option<&Alias>),
) -> Result<(), Error> {
    let (Some(grant), Some(alias)) = (caller.grant, after.or(before)) else {
        return Ok(());
    };
    let state = |alias: &Alias| {
        json!({
            "active": alias.active,
            "note": alias.note,
            "expiresAt": alias.expires_at.map(Timestamp::millis),
        })
    };
    let details = json!({
        "address": alias.address,
        "before": before.map(state),
        "after": after.map(state),
    });
    let change = NewChange {
        kind,
        subject: format!("alias {}", alias.address),
        number: None,
        before: None,
        details: details.to_string(),
        bytes: None,
    };
    record_in(tx, (caller.account_id, grant), change, caller.at).await
}
