//! Changes of an alias: its state, its note and its expiry.

use latchmail_core::caller::Origin;
use latchmail_core::clock::Timestamp;

use super::{ALIAS_UPDATE, Alias, AliasCaller, Aliases, Refusal, find, recording};
use crate::db::{Error, Source, Tx};
use crate::events::{self, Event, Kind};

const UPDATE: &str = "UPDATE addresses SET active = $2, note = $3, expires_at = $4, changed_at = $5 WHERE address = $1";

/// The changes of an alias. A value that is `None` stays as it is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AliasUpdate {
    /// Whether the alias is enabled.
    pub active: Option<bool>,
    /// The note. An empty string removes the note.
    pub note: Option<String>,
    /// The time from which the alias receives no mail, or `Some(None)` if it never expires.
    pub expires_at: Option<Option<Timestamp>>,
}

impl Aliases {
    /// Changes an alias of an account, and returns its new state. The note is not in the audit log.
    ///
    /// # Errors
    /// Returns [`Error`] if the database fails. Nothing is changed in that case.
    pub async fn update(
        &self,
        caller: AliasCaller<'_>,
        id: u64,
        update: &AliasUpdate,
        origin: &Origin,
    ) -> Result<Result<Alias, Refusal>, Error> {
        let account_id = caller.account_id;
        let mut tx = self.db.begin().await?;
        if !caller.lock(&mut tx).await? {
            return Ok(Err(Refusal::CredentialOver));
        }
        let before = match find(&mut tx, caller, id).await? {
            Ok(alias) => alias,
            Err(refusal) => return Ok(Err(refusal)),
        };
        let after = change(&mut tx, account_id, &before, update, (caller.at, origin)).await?;
        if after != before {
            let states = (Some(&before), Some(&after));
            recording::record(&mut tx, caller, ALIAS_UPDATE, states).await?;
        }
        tx.commit().await?;
        let mut after = [after];
        // The change is committed, so a failure to read the counts is not an error of the change.
        if let Err(error) = self.add_receipts(&mut after).await {
            tracing::warn!(%error, "failed to read how much mail an alias received");
        }
        let [after] = after;
        Ok(Ok(after))
    }
}

/// Changes an alias in a transaction, and returns its new state.
pub(super) async fn change(
    tx: &mut Tx,
    account_id: &str,
    before: &Alias,
    update: &AliasUpdate,
    (now, origin): (Timestamp, &Origin),
) -> Result<Alias, Error> {
    let mut after = Alias {
        active: update.active.unwrap_or(before.active),
        note: update.note.clone().unwrap_or_else(|| before.note.clone()),
        expires_at: update.expires_at.unwrap_or(before.expires_at),
        ..before.clone()
    };
    if after == *before {
        return Ok(after);
    }
    after.modified_at = after.created_at.and(Some(now));
    let note = Some(&after.note).filter(|note| !note.is_empty());
    let row = (&after.address, after.active, note, after.expires_at, now);
    tx.execute(UPDATE, row).await?;
    tx.project(Source::Alias(&after.address)).await?;
    if (&after.note, after.expires_at) != (&before.note, before.expires_at) {
        let event = Event::of(Kind::AliasChanged, account_id, now);
        events::record(tx, event.about(&after.address), origin).await?;
    }
    if after.active != before.active {
        let kind = if after.active {
            Kind::AliasEnabled
        } else {
            Kind::AliasDisabled
        };
        let event = Event::of(kind, account_id, now).about(&after.address);
        events::record(tx, event, origin).await?;
    }
    Ok(after)
}
