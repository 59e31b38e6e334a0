//! The address to which the mail server forwards copies of an account's mail. The mail also stays
//! in the mailbox, so no mail is lost if the other server refuses it.

use latchmail_core::caller::Origin;
use latchmail_core::clock::Timestamp;

use super::{Destination, RouteChange, destination, has_loop, lock};
use crate::accounts::Accounts;
use crate::db::{Error, Source, Tx};
use crate::events::{self, Event, Kind};

const FIND: &str = "SELECT address, forward_to FROM accounts WHERE id = $1";
const SET: &str = "UPDATE accounts SET forward_to = $2 WHERE id = $1";

/// The new destination of forwarded mail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Forward<'a> {
    /// The address, in lower case. `None` if mail is not forwarded.
    pub to: Option<&'a str>,
    /// Whether the address can be an unknown address on a local domain. This is the case if the
    /// mail server has users of its own on the domain.
    pub may_be_unknown: bool,
}

impl Accounts {
    /// Changes the address to which copies of an account's mail are forwarded. The caller must have
    /// validated the address.
    ///
    /// # Errors
    /// Returns [`Error`] if the database fails. Nothing is changed in that case.
    pub async fn set_forward_to(
        &self,
        account_id: &str,
        forward: Forward<'_>,
        now: Timestamp,
        origin: &Origin,
    ) -> Result<RouteChange, Error> {
        let mut tx = self.db.begin_locked(account_id).await?;
        let changed = set_forward_to_in(&mut tx, account_id, forward, now, origin).await?;
        if changed == RouteChange::Changed {
            tx.commit().await?;
        }
        Ok(changed)
    }

    /// Returns the address to which copies of an account's mail are forwarded.
    ///
    /// # Errors
    /// Returns [`Error`] if the database fails.
    pub async fn forward_to(&self, account_id: &str) -> Result<Option<String>, Error> {
        let found: Option<(String, Option<String>)> = self.db.optional(FIND, [account_id]).await?;
        Ok(found.and_then(|(_, forward_to)| forward_to))
    }
}

/// Changes the forwarding of an account in a transaction, like [`Accounts::set_forward_to`]. The
/// caller must lock the account first. The caller must not commit the transaction if the result is
/// a refusal.
pub(crate) async fn set_forward_to_in(
    tx: &mut Tx,
    account_id: &str,
    forward: Forward<'_>,
    now: Timestamp,
    origin: &Origin,
) -> Result<RouteChange, Error> {
    lock(tx).await?;
    let found: Option<(String, Option<String>)> = tx.optional(FIND, [account_id]).await?;
    let Some((address, before)) = found else {
        return Ok(RouteChange::Unknown);
    };
    if before.as_deref() == forward.to {
        return Ok(RouteChange::Unchanged);
    }
    if let Some(to) = forward.to
        && !forward.may_be_unknown
        && destination(tx, to).await? == Destination::Nowhere
    {
        return Ok(RouteChange::NoSuchAddress);
    }
    tx.execute(SET, (account_id, forward.to)).await?;
    if has_loop(tx, account_id).await? {
        return Ok(RouteChange::Loop);
    }
    tx.project(Source::Account(&address)).await?;
    let detail = match forward.to {
        Some(to) => format!("mail is forwarded to {to}"),
        None => "mail is no longer forwarded".to_owned(),
    };
    let changed = Event::of(Kind::AccountChanged, account_id, now).detail(&detail);
    events::record(tx, changed, origin).await?;
    Ok(RouteChange::Changed)
}
