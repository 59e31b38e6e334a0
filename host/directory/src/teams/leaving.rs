//! Removes members from teams. A member is removed by itself, by a caller who manages the members,
//! or when the member's account is deleted. When the last member is removed, the key of the mailbox
//! is deleted.

use latchmail_core::caller::Origin;
use latchmail_core::clock::Timestamp;

use super::Teams;
use super::caller::{Refusal, TeamCaller};
use super::find_member;
use crate::credentials;
use crate::db::{Error, Tx};
use crate::events::{self, Event, Kind};

const DELETE: &str = "DELETE FROM team_members WHERE id = $1";
const MAILBOXES: &str = "SELECT mailbox FROM team_members WHERE member = $1 ORDER BY mailbox";
/// Returns the key of a mailbox if the mailbox has no members.
const IDLE_KEY: &str = "SELECT k.app_password_id, p.label FROM team_keys k JOIN app_passwords p ON p.id = k.app_password_id \
    WHERE k.mailbox = $1 AND NOT EXISTS (SELECT 1 FROM team_members m WHERE m.mailbox = $1)";

impl Teams {
    /// Removes a member and all grants of the member from a team. If the last member was removed,
    /// returns the id of the deleted app password.
    ///
    /// # Errors
    /// Returns [`Refusal`] if the request is not allowed or the database fails. The account remains
    /// a member in that case.
    pub async fn remove_member(
        &self,
        caller: TeamCaller<'_>,
        member: &str,
        origin: &Origin,
    ) -> Result<Option<String>, Refusal> {
        let (mailbox, at) = (caller.mailbox, caller.session.at);
        let mut tx = self.db.begin().await?;
        caller.lock(&mut tx, None).await?;
        let relation = caller.relation(&mut tx).await?;
        // A member can remove itself even while members have no access.
        if member != caller.session.account_id {
            relation.manager_grants()?;
        }
        if member == mailbox {
            return Err(Refusal::Owner);
        }
        let ended = remove(&mut tx, mailbox, member, "", at, origin).await?;
        let ended = ended.ok_or(Refusal::NoMember)?;
        tx.commit().await?;
        Ok(ended)
    }
}

/// Locks an account that will be deleted, and the mailboxes that are shared with the account. The
/// locks are taken in the order of the ids, so that transactions cannot deadlock.
pub(crate) async fn lock_with_mailboxes(tx: &mut Tx, account_id: &str) -> Result<(), Error> {
    let mut accounts = mailboxes(tx, account_id).await?;
    accounts.push(account_id.to_owned());
    accounts.sort_unstable();
    for account in &accounts {
        tx.lock_account(account).await?;
    }
    Ok(())
}

/// Removes an account from every team in which the account is a member.
pub(crate) async fn leave_all(
    tx: &mut Tx,
    account_id: &str,
    at: Timestamp,
    origin: &Origin,
) -> Result<(), Error> {
    for mailbox in mailboxes(tx, account_id).await? {
        let why = "the account was deleted";
        remove(tx, &mailbox, account_id, why, at, origin).await?;
    }
    Ok(())
}

async fn mailboxes(tx: &mut Tx, account_id: &str) -> Result<Vec<String>, Error> {
    tx.values(MAILBOXES, [account_id]).await
}

/// Removes a member and records the reason `why`. Returns `None` if there is no such member.
/// Otherwise returns the id of the deleted app password, or `Some(None)` if no app password was
/// deleted.
async fn remove(
    tx: &mut Tx,
    mailbox: &str,
    member: &str,
    why: &str,
    at: Timestamp,
    origin: &Origin,
) -> Result<Option<Option<String>>, Error> {
    let Some((membership, address)) = find_member(tx, mailbox, member).await? else {
        return Ok(None);
    };
    tx.execute(DELETE, [&membership]).await?;
    let removed = Event::of(Kind::MemberRemoved, mailbox, at).about(&address);
    let removed = if why.is_empty() {
        removed
    } else {
        removed.detail(why)
    };
    events::record(tx, removed, origin).await?;
    Ok(Some(end_idle_key(tx, mailbox, at, origin).await?))
}

/// Deletes the key of a mailbox if the mailbox has no members. Returns the id of the deleted app
/// password, or `None` if none was deleted.
async fn end_idle_key(
    tx: &mut Tx,
    mailbox: &str,
    at: Timestamp,
    origin: &Origin,
) -> Result<Option<String>, Error> {
    let idle: Option<(String, String)> = tx.optional(IDLE_KEY, [mailbox]).await?;
    let Some((id, label)) = idle else {
        return Ok(None);
    };
    credentials::delete(tx, &id).await?;
    let ended = Event::of(Kind::AppPasswordRevoked, mailbox, at)
        .about(&id)
        .detail(&label);
    events::record(tx, ended, origin).await?;
    Ok(Some(id))
}
