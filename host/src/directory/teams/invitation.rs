//! Invitation: somebody becomes a member, at once and without being asked. The key that acts for guests is made with it where there is none.

use std::fmt;

use super::super::Directory;
use super::super::credentials::{self, NewAppPassword};
use super::super::db::{Tx, on_tx};
use super::super::events::{self, Event, Kind};
use super::changing::{Changing, Refusal};
use super::{Grant, grants};
use crate::caller::Origin;

const BY_ADDRESS: &str = "SELECT id FROM accounts WHERE address = $1 AND active";
const IS_MEMBER: &str = "SELECT 1 FROM team_members WHERE mailbox = $1 AND member = $2";
const COUNT: &str = "SELECT COUNT(*) FROM team_members WHERE mailbox = $1";
const INSERT: &str =
    "INSERT INTO team_members (id, mailbox, member, joined_at) VALUES ($1, $2, $3, $4)";
const HAS_KEY: &str = "SELECT 1 FROM team_keys WHERE mailbox = $1";
const INSERT_KEY: &str =
    "INSERT INTO team_keys (mailbox, app_password_id, sealed_password) VALUES ($1, $2, $3)";

/// Somebody to be made a member.
#[derive(Clone, Debug)]
pub struct Invitation {
    /// Opaque.
    pub membership: String,
    /// Whose account it is, in lower case.
    pub address: String,
    /// The first grant. Of a folder that it names the UIDVALIDITY is looked up: what stands there does not count.
    pub grant: Grant,
    /// What is to act for guests, where nothing does.
    pub key: NewKey,
    /// Guests that the owner's plan has.
    pub at_most: u32,
}

/// What is to act for a mailbox's guests.
#[derive(Clone)]
pub struct NewKey {
    /// At the mail server.
    pub app_password: NewAppPassword,
    /// The same, sealed for the mailbox's id.
    pub sealed_password: Vec<u8>,
}

impl fmt::Debug for NewKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NewKey")
            .field("app_password", &self.app_password)
            .finish_non_exhaustive()
    }
}

impl Directory {
    /// Makes somebody a member of a team, with a first grant. Of many at once no more get in than the plan has places.
    ///
    /// # Errors
    /// Returns [`Refusal`]. No member is added in that case.
    pub async fn invite(
        &self,
        changing: Changing<'_>,
        invitation: &Invitation,
        origin: &Origin,
    ) -> Result<(), Refusal> {
        let (mailbox, at) = (changing.mailbox, changing.asking.at);
        let address = &invitation.address;
        let mut tx = self.db.begin().await?;
        let before = account(&mut tx, address).await?;
        changing.lock(&mut tx, before.as_deref()).await?;
        let held = changing.manages(&mut tx).await?;
        // Once more, now that it stays so.
        let member = account(&mut tx, address).await?;
        let member = member
            .filter(|member| before.as_ref() == Some(member))
            .ok_or(Refusal::NoUser)?;
        if member == changing.asking.account_id {
            return Err(Refusal::Oneself);
        }
        if member == mailbox {
            return Err(Refusal::OwnerInvited);
        }
        let grant = &invitation.grant;
        grants::judge(&mut tx, mailbox, &held, grant).await?;
        let there: Option<i32> = on_tx!(&mut tx, db => sqlx::query_scalar(IS_MEMBER)
            .bind(mailbox)
            .bind(&member)
            .fetch_optional(db).await)?;
        if there.is_some() {
            return Err(Refusal::Member);
        }
        let guests: i64 = on_tx!(&mut tx, db => sqlx::query_scalar(COUNT)
            .bind(mailbox)
            .fetch_one(db).await)?;
        if guests >= i64::from(invitation.at_most) {
            return Err(Refusal::Full);
        }
        on_tx!(&mut tx, db => sqlx::query(INSERT)
            .bind(&invitation.membership)
            .bind(mailbox)
            .bind(&member)
            .bind(at.millis())
            .execute(db).await.map(drop))?;
        grants::insert(&mut tx, &invitation.membership, grant, at).await?;
        keep_key(&mut tx, changing, &invitation.key, origin).await?;
        let detail = grants::in_words(&grant.resource, grant.rights);
        let added = Event::of(Kind::MemberAdded, mailbox, at)
            .about(address)
            .detail(&detail);
        Ok(events::commit(tx, added, origin).await?)
    }
}

async fn account(tx: &mut Tx, address: &str) -> Result<Option<String>, Refusal> {
    Ok(on_tx!(tx, db => sqlx::query_scalar(BY_ADDRESS)
        .bind(address)
        .fetch_optional(db).await)?)
}

/// Keeps what acts for guests, where nothing does.
async fn keep_key(
    tx: &mut Tx,
    changing: Changing<'_>,
    key: &NewKey,
    origin: &Origin,
) -> Result<(), Refusal> {
    let (mailbox, at) = (changing.mailbox, changing.asking.at);
    let there: Option<i32> = on_tx!(tx, db => sqlx::query_scalar(HAS_KEY)
        .bind(mailbox)
        .fetch_optional(db).await)?;
    if there.is_some() {
        return Ok(());
    }
    let app_password = &key.app_password;
    credentials::insert(tx, mailbox, app_password, at, app_password.expires_at).await?;
    on_tx!(tx, db => sqlx::query(INSERT_KEY)
        .bind(mailbox)
        .bind(&app_password.id)
        .bind(&key.sealed_password)
        .execute(db).await.map(drop))?;
    let made = Event::of(Kind::TeamKeyCreated, mailbox, at)
        .about(&app_password.id)
        .detail(&app_password.label);
    Ok(events::record(tx, made, origin).await?)
}
