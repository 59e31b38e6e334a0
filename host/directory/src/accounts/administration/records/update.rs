//! Changes of accounts by programs of the operator. All changes of a request are in one transaction
//! with the check of the version, so that they are made either all or not at all.

use latchmail_core::caller::Origin;
use latchmail_core::clock::Timestamp;

use super::{Names, NamesUpdate, Record, names, record};
use crate::accounts::Accounts;
use crate::accounts::administration::{ENABLE, SET_ADMIN, SET_PLAN, set_inactive};
use crate::accounts::rename::{Rename, rename_in};
use crate::credentials::mail_server_users::end_everything;
use crate::credentials::password::{self, event_detail};
use crate::db::{Error, Source, Tx};
use crate::debug::debug_fields;
use crate::events::{self, Event, Kind};
use crate::routes::RouteChange;
use crate::routes::forwarding::{Forward, set_forward_to_in};

const IS_REMOVING: &str = "SELECT 1 FROM accounts WHERE id = $1 AND removing";

/// The changes of an account. A value that is `None` stays as it is.
#[derive(Clone, Default)]
pub struct RecordUpdate {
    /// The new address, in lower case. The old address becomes an alias.
    pub address: Option<String>,
    /// Whether the account is active. Disabling ends all credentials. Enabling cancels a deletion.
    pub active: Option<bool>,
    /// The plan.
    pub plan: Option<String>,
    /// Whether the account has administrator rights.
    pub admin: Option<bool>,
    /// The hash of the new password, or an empty string for no password. Ends web sessions, OAuth
    /// grants and API tokens.
    pub password_hash: Option<String>,
    /// The address to which mail is forwarded.
    pub forward: Option<NewForward>,
    /// The names.
    pub names: NamesUpdate,
}

debug_fields!(RecordUpdate {
    address,
    active,
    plan,
    admin
});

/// The new address to which mail is forwarded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewForward {
    /// The address, in lower case. `None` if mail is not forwarded.
    pub to: Option<String>,
    /// Whether the address can be unknown on a local domain, see [`Forward`].
    pub may_be_unknown: bool,
}

/// A changed account.
#[derive(Clone, Debug)]
pub struct Updated {
    /// The account before the change.
    pub before: Record,
    /// The account after the change.
    pub after: Record,
    /// The ids of the app passwords that ended.
    pub ended: Vec<String>,
}

/// The reason why an account was not created or not changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// There is no such account.
    Unknown,
    /// The account has none of the required versions.
    VersionMismatch,
    /// The address is in use or reserved, or on a domain that an account has verified.
    AddressTaken,
    /// Another account has the external id.
    ExternalIdTaken,
    /// Mail would be forwarded in a loop.
    ForwardLoop,
    /// The target of the forwarding is an address of this service that receives no mail.
    NoSuchTarget,
    /// The account is being deleted.
    Removing,
}

impl Accounts {
    /// Changes an account. With `versions`, the account must have one of these versions
    /// ([`Record::version`]).
    ///
    /// # Errors
    /// Returns [`Error`] if the database fails. Nothing is changed in that case.
    pub async fn update_record(
        &self,
        id: &str,
        update: &RecordUpdate,
        versions: Option<&[String]>,
        now: Timestamp,
        origin: &Origin,
    ) -> Result<Result<Updated, Refusal>, Error> {
        let mut tx = self.db.begin_locked(id).await?;
        let before = record(&mut tx, id).await?;
        let Some(before) = before.filter(|before| before.is_visible(now)) else {
            return Ok(Err(Refusal::Unknown));
        };
        if versions.is_some_and(|versions| !versions.contains(&before.version())) {
            return Ok(Err(Refusal::VersionMismatch));
        }
        let mut ended = Vec::new();
        let mut change = Change {
            tx: &mut tx,
            before: &before,
            ended: &mut ended,
            now,
            origin,
        };
        if let Some(refusal) = change.apply(update).await? {
            return Ok(Err(refusal));
        }
        let Some(after) = record(&mut tx, id).await? else {
            return Ok(Err(Refusal::Unknown));
        };
        tx.commit().await?;
        Ok(Ok(Updated {
            before,
            after,
            ended,
        }))
    }
}

/// A change in progress.
struct Change<'a> {
    tx: &'a mut Tx,
    before: &'a Record,
    ended: &'a mut Vec<String>,
    now: Timestamp,
    origin: &'a Origin,
}

impl Change<'_> {
    /// Makes the changes. Returns the reason if one of them is refused.
    async fn apply(&mut self, update: &RecordUpdate) -> Result<Option<Refusal>, Error> {
        if let Some(address) = &update.address
            && let Some(refusal) = self.rename(address).await?
        {
            return Ok(Some(refusal));
        }
        if let Some(hash) = &update.password_hash {
            self.set_password(hash).await?;
        }
        if let Some(active) = update.active
            && let Some(refusal) = self.set_active(active).await?
        {
            return Ok(Some(refusal));
        }
        self.set_rank(update.plan.as_deref(), update.admin).await?;
        if let Some(forward) = &update.forward {
            let (id, now, origin) = (&self.before.id, self.now, self.origin);
            if let Some(refusal) = forward_in(self.tx, id, forward, now, origin).await? {
                return Ok(Some(refusal));
            }
        }
        self.set_names(&update.names.apply(&self.before.names))
            .await
    }

    async fn rename(&mut self, address: &str) -> Result<Option<Refusal>, Error> {
        let renamed = rename_in(self.tx, &self.before.id, address, self.now, self.origin);
        match renamed.await? {
            Rename::Renamed { app_passwords, .. } => self.ended.extend(app_passwords),
            Rename::Unchanged => {}
            Rename::Loop => return Ok(Some(Refusal::ForwardLoop)),
            Rename::AddressTaken => return Ok(Some(Refusal::AddressTaken)),
            Rename::NoAccount => return Ok(Some(Refusal::Unknown)),
        }
        Ok(None)
    }

    async fn set_password(&mut self, hash: &str) -> Result<(), Error> {
        let id = &self.before.id;
        let set = password::set_in(self.tx, id, hash, self.now, self.origin);
        self.ended.extend(set.await?);
        Ok(())
    }

    async fn set_active(&mut self, active: bool) -> Result<Option<Refusal>, Error> {
        let (id, now) = (&self.before.id, self.now);
        if active {
            if self.tx.exists(IS_REMOVING, [id]).await? {
                return Ok(Some(Refusal::Removing));
            }
            let enabled: Option<String> = self.tx.optional_value(ENABLE, [id]).await?;
            if let Some(address) = enabled {
                self.tx.project(Source::Account(&address)).await?;
                let enabled = Event::of(Kind::AccountEnabled, id, now);
                events::record(self.tx, enabled, self.origin).await?;
            }
        } else {
            let ended = disable_in(self.tx, id, now, self.origin).await?;
            self.ended.extend(ended.unwrap_or_default());
        }
        Ok(None)
    }

    async fn set_rank(&mut self, plan: Option<&str>, admin: Option<bool>) -> Result<(), Error> {
        let id = &self.before.id;
        let mut details = Vec::new();
        if let Some(plan) = plan {
            let set: Option<String> = self.tx.optional_value(SET_PLAN, (id, plan)).await?;
            if let Some(address) = set {
                self.tx.project(Source::Account(&address)).await?;
                details.push(format!("plan {plan}"));
            }
        }
        if let Some(admin) = admin
            && self.tx.execute(SET_ADMIN, (id, admin)).await? == 1
        {
            let verb = if admin { "granted" } else { "revoked" };
            details.push(format!("administrator rights {verb}"));
        }
        self.record_change(&details.join(", ")).await
    }

    async fn set_names(&mut self, names: &Names) -> Result<Option<Refusal>, Error> {
        let before = &self.before.names;
        if names == before {
            return Ok(None);
        }
        if !names::write(self.tx, &self.before.id, names, self.now).await? {
            return Ok(Some(Refusal::ExternalIdTaken));
        }
        if names.has_same_profile(before) {
            self.record_change("names at the identity provider").await?;
        } else {
            let changed = Event::of(Kind::ProfileChanged, &self.before.id, self.now);
            events::record(self.tx, changed, self.origin).await?;
        }
        Ok(None)
    }

    /// Records a change of the account, unless `detail` is empty.
    async fn record_change(&mut self, detail: &str) -> Result<(), Error> {
        if detail.is_empty() {
            return Ok(());
        }
        let changed = Event::of(Kind::AccountChanged, &self.before.id, self.now).detail(detail);
        events::record(self.tx, changed, self.origin).await
    }
}

/// Disables an account in a transaction, and ends all its credentials. Returns the ids of the ended
/// app passwords, or `None` if nothing was changed. The caller must lock the account first.
pub(in crate::accounts) async fn disable_in(
    tx: &mut Tx,
    account_id: &str,
    now: Timestamp,
    origin: &Origin,
) -> Result<Option<Vec<String>>, Error> {
    let was_active = set_inactive(tx, account_id).await?;
    let (ended, tokens) = end_everything(tx, account_id, now).await?;
    if !was_active && ended.is_empty() && tokens == 0 {
        return Ok(None);
    }
    let detail = event_detail(ended.len(), tokens);
    let disabled = Event::of(Kind::AccountDisabled, account_id, now).detail(&detail);
    events::record(tx, disabled, origin).await?;
    Ok(Some(ended))
}

/// Sets the address to which mail is forwarded. Returns the reason if the address is refused.
pub(super) async fn forward_in(
    tx: &mut Tx,
    account_id: &str,
    forward: &NewForward,
    now: Timestamp,
    origin: &Origin,
) -> Result<Option<Refusal>, Error> {
    let forward = Forward {
        to: forward.to.as_deref(),
        may_be_unknown: forward.may_be_unknown,
    };
    Ok(
        match set_forward_to_in(tx, account_id, forward, now, origin).await? {
            RouteChange::Changed | RouteChange::Unchanged => None,
            RouteChange::Unknown | RouteChange::Outdated => Some(Refusal::Unknown),
            RouteChange::Loop => Some(Refusal::ForwardLoop),
            RouteChange::NoSuchAddress => Some(Refusal::NoSuchTarget),
        },
    )
}
