//! Changes the address of an account. The previous address becomes an alias of the account, so the
//! owner still receives its mail, and no other account can get it.

use latchmail_core::caller::Origin;
use latchmail_core::clock::Timestamp;

use super::Accounts;
use crate::aliases::domain_of;
use crate::db::{Error, Source, Tx};
use crate::domains;
use crate::events::{self, Event, Kind};
use crate::routes;

const FIND: &str = "SELECT address FROM accounts WHERE id = $1";
/// Inserts the new address, or converts an alias of the account. Changes no row if the address is
/// taken or reserved, even if a concurrent transaction took the address.
const CLAIM: &str = "INSERT INTO addresses (address, kind, account_id, created_at, changed_at) \
    VALUES ($1, 'account', $2, $3, $3) ON CONFLICT (address) DO UPDATE SET kind = 'account', \
        live = TRUE, active = TRUE, changed_at = EXCLUDED.changed_at, made_by = NULL, note = NULL, \
        expires_at = NULL \
    WHERE addresses.account_id = EXCLUDED.account_id AND addresses.kind = 'alias'";
const TO_ALIAS: &str =
    "UPDATE addresses SET kind = 'alias', changed_at = $2 WHERE address = $1 AND kind = 'account'";
const RENAME: &str = "UPDATE accounts SET address = $2 WHERE id = $1";
const APP_PASSWORDS: &str = "SELECT id FROM app_passwords WHERE account_id = $1";
/// The result of renaming an account.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Rename {
    /// The account has the new address.
    Renamed {
        /// The previous address, which is an alias now.
        from: String,
        /// The ids of the account's app passwords. Open sessions with these app passwords have the
        /// previous address as their log-in name.
        app_passwords: Vec<String>,
    },
    /// The account already has the address.
    Unchanged,
    /// Another account has or had the address, the operator reserves the address, or an account has
    /// verified its domain.
    AddressTaken,
    /// Mail would be forwarded back to the account.
    Loop,
    /// The account does not exist.
    NoAccount,
}

impl Accounts {
    /// Changes the address of an account. `address` must be in lower case, and valid. The caller
    /// must have checked that its domain is a platform domain.
    ///
    /// # Errors
    /// Returns [`Error`] if the database fails. Nothing is changed in that case.
    pub async fn rename(
        &self,
        account_id: &str,
        address: &str,
        now: Timestamp,
        origin: &Origin,
    ) -> Result<Rename, Error> {
        let mut tx = self.db.begin_locked(account_id).await?;
        let renamed = rename_in(&mut tx, account_id, address, now, origin).await?;
        if matches!(renamed, Rename::Renamed { .. }) {
            tx.commit().await?;
        }
        Ok(renamed)
    }
}

/// Changes the address of an account in a transaction, like [`Accounts::rename`]. The caller must
/// lock the account first. The caller must not commit the transaction if the result is a refusal.
pub(super) async fn rename_in(
    tx: &mut Tx,
    account_id: &str,
    address: &str,
    now: Timestamp,
    origin: &Origin,
) -> Result<Rename, Error> {
    tx.lock_domain_shared(domain_of(address)).await?;
    let found: Option<String> = tx.optional_value(FIND, [account_id]).await?;
    let Some(from) = found else {
        return Ok(Rename::NoAccount);
    };
    if from == address {
        return Ok(Rename::Unchanged);
    }
    let holder = domains::holder(tx, domain_of(address)).await?;
    if holder.is_some() || tx.execute(CLAIM, (address, account_id, now)).await? == 0 {
        return Ok(Rename::AddressTaken);
    }
    tx.execute(TO_ALIAS, (&from, now)).await?;
    tx.execute(RENAME, (account_id, address)).await?;
    if routes::causes_loop(tx, account_id).await? {
        return Ok(Rename::Loop);
    }
    tx.project(Source::Account(&from)).await?;
    tx.project(Source::Account(address)).await?;
    let app_passwords: Vec<String> = tx.values(APP_PASSWORDS, [account_id]).await?;
    let renamed = Event::of(Kind::AccountRenamed, account_id, now).about(&from);
    events::record(tx, renamed, origin).await?;
    Ok(Rename::Renamed {
        from,
        app_passwords,
    })
}
