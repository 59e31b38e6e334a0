//! Invitations. An invited account becomes a member immediately, without its consent. If the
//! mailbox has no key, the invitation also creates the key for the members.

use latchmail_core::caller::Origin;

use super::Teams;
use super::caller::{Refusal, TeamCaller};
use super::{Grant, grants};
use crate::credentials::{self, NewAppPassword};
use crate::db::Tx;
use crate::debug::debug_fields;
use crate::events::{self, Event, Kind};

const BY_ADDRESS: &str = "SELECT id FROM accounts WHERE address = $1 AND active";
const IS_MEMBER: &str = "SELECT 1 FROM team_members WHERE mailbox = $1 AND member = $2";
const COUNT: &str = "SELECT COUNT(*) FROM team_members WHERE mailbox = $1";
const INSERT: &str =
    "INSERT INTO team_members (id, mailbox, member, joined_at) VALUES ($1, $2, $3, $4)";
const HAS_KEY: &str = "SELECT 1 FROM team_keys WHERE mailbox = $1";
const INSERT_KEY: &str =
    "INSERT INTO team_keys (mailbox, app_password_id, sealed_password) VALUES ($1, $2, $3)";

/// A member to add.
#[derive(Clone, Debug)]
pub struct Invitation {
    /// The opaque id of the membership.
    pub membership: String,
    /// The address of the account, in lower case.
    pub address: String,
    /// The first grant. In a grant for a folder, a UIDVALIDITY of 0 means that the mail server has
    /// no such folder.
    pub grant: Grant,
    /// The key for the members of the mailbox. The key is stored only if the mailbox has no key.
    pub key: NewKey,
    /// The maximum number of members in the owner's plan.
    pub at_most: u32,
}

/// A new key of a shared mailbox: the app password with which requests of the members log in to the
/// mail server.
#[derive(Clone)]
pub struct NewKey {
    /// The app password.
    pub app_password: NewAppPassword,
    /// The app password, encrypted with the service's key. Decryption also needs the mailbox's id.
    pub sealed_password: Vec<u8>,
}

debug_fields!(NewKey { app_password });

impl Teams {
    /// Adds a member to a team, with a first grant. Concurrent invitations cannot exceed the limit
    /// of the plan.
    ///
    /// # Errors
    /// Returns [`Refusal`] if the request is not allowed or the database fails. No member is added
    /// in that case.
    pub async fn invite(
        &self,
        caller: TeamCaller<'_>,
        invitation: &Invitation,
        origin: &Origin,
    ) -> Result<(), Refusal> {
        let (mailbox, at) = (caller.mailbox, caller.session.at);
        let address = &invitation.address;
        let mut tx = self.db.begin().await?;
        let before = account(&mut tx, address).await?;
        caller.lock(&mut tx, before.as_deref()).await?;
        let held = caller.manager_grants(&mut tx).await?;
        // Read the account a second time. Another account may have got the address before this
        // transaction took the lock.
        let member = account(&mut tx, address).await?;
        let member = member
            .filter(|member| before.as_ref() == Some(member))
            .ok_or(Refusal::NoUser)?;
        if member == caller.session.account_id {
            return Err(Refusal::Oneself);
        }
        if member == mailbox {
            return Err(Refusal::OwnerInvited);
        }
        let grant = &invitation.grant;
        grants::authorize(&mut tx, mailbox, &held, grant).await?;
        if tx.exists(IS_MEMBER, (mailbox, &member)).await? {
            return Err(Refusal::Member);
        }
        let guests: i64 = tx.value(COUNT, [mailbox]).await?;
        if guests >= i64::from(invitation.at_most) {
            return Err(Refusal::Full);
        }
        tx.execute(INSERT, (&invitation.membership, mailbox, &member, at))
            .await?;
        grants::insert(&mut tx, &invitation.membership, grant, at).await?;
        store_key_if_missing(&mut tx, caller, &invitation.key, origin).await?;
        let detail = grants::event_detail(&grant.resource, grant.rights);
        let added = Event::of(Kind::MemberAdded, mailbox, at)
            .about(address)
            .detail(&detail);
        Ok(events::commit(tx, added, origin).await?)
    }
}

async fn account(tx: &mut Tx, address: &str) -> Result<Option<String>, Refusal> {
    Ok(tx.optional_value(BY_ADDRESS, [address]).await?)
}

/// Stores the key for the members of a mailbox, if the mailbox has no key.
async fn store_key_if_missing(
    tx: &mut Tx,
    caller: TeamCaller<'_>,
    key: &NewKey,
    origin: &Origin,
) -> Result<(), Refusal> {
    let (mailbox, at) = (caller.mailbox, caller.session.at);
    if tx.exists(HAS_KEY, [mailbox]).await? {
        return Ok(());
    }
    let app_password = &key.app_password;
    credentials::insert(tx, mailbox, app_password, at, app_password.expires_at).await?;
    tx.execute(
        INSERT_KEY,
        (mailbox, &app_password.id, &key.sealed_password),
    )
    .await?;
    let made = Event::of(Kind::TeamKeyCreated, mailbox, at)
        .about(&app_password.id)
        .detail(&app_password.label);
    Ok(events::record(tx, made, origin).await?)
}
