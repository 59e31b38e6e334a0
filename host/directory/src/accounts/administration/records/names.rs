//! The names of accounts: those of the profile, and those at the identity provider.

use latchmail_core::clock::Timestamp;
use sqlx_macros::FromRow;

use crate::db::{Error, Tx};
use crate::debug::debug_fields;

const SET: &str = "INSERT INTO account_names (account_id, external_id, user_name, display_name, first_name, last_name, dob) \
    VALUES ($1, $2, $3, $4, $5, $6, $7) ON CONFLICT (account_id) DO UPDATE SET \
    external_id = excluded.external_id, user_name = excluded.user_name, display_name = excluded.display_name, \
    first_name = excluded.first_name, last_name = excluded.last_name, dob = excluded.dob";
const OTHER_WITH_ID: &str =
    "SELECT 1 FROM account_names WHERE external_id = $1 AND account_id <> $2";
const SET_PROFILE: &str = "INSERT INTO profiles (account_id, first_name, last_name, dob, created_at) VALUES ($1, $2, $3, $4, $5) \
    ON CONFLICT (account_id) DO UPDATE SET first_name = excluded.first_name, last_name = excluded.last_name, dob = excluded.dob";
const DELETE_PROFILE: &str = "DELETE FROM profiles WHERE account_id = $1";

/// The names of an account.
#[derive(Clone, Default, PartialEq, Eq, FromRow)]
pub struct Names {
    /// The id of the account at the identity provider, which is unique.
    pub external_id: Option<String>,
    /// The address as the identity provider wrote it.
    pub user_name: Option<String>,
    /// The name that the identity provider displays.
    pub display_name: Option<String>,
    /// The first name.
    pub first_name: Option<String>,
    /// The last name.
    pub last_name: Option<String>,
    /// The date of birth, as `YYYY-MM-DD`.
    pub dob: Option<String>,
}

debug_fields!(Names { external_id });

/// The changes of the names of an account. `None` leaves a name as it is, and `Some(None)` removes
/// it.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct NamesUpdate {
    /// The id of the account at the identity provider.
    pub external_id: Option<Option<String>>,
    /// The address as the identity provider writes it.
    pub user_name: Option<Option<String>>,
    /// The name that the identity provider displays.
    pub display_name: Option<Option<String>>,
    /// The first name.
    pub first_name: Option<Option<String>>,
    /// The last name.
    pub last_name: Option<Option<String>>,
    /// The date of birth.
    pub dob: Option<Option<String>>,
}

debug_fields!(NamesUpdate { external_id });

impl NamesUpdate {
    /// Returns the names after the changes.
    #[must_use]
    pub fn apply(&self, before: &Names) -> Names {
        let mut names = before.clone();
        for (name, change) in [
            (&mut names.external_id, &self.external_id),
            (&mut names.user_name, &self.user_name),
            (&mut names.display_name, &self.display_name),
            (&mut names.first_name, &self.first_name),
            (&mut names.last_name, &self.last_name),
            (&mut names.dob, &self.dob),
        ] {
            if let Some(value) = change {
                name.clone_from(value);
            }
        }
        names
    }
}

impl Names {
    /// Returns `true` if the values of the profile are the same.
    pub(super) fn has_same_profile(&self, other: &Self) -> bool {
        (&self.first_name, &self.last_name, &self.dob)
            == (&other.first_name, &other.last_name, &other.dob)
    }
}

/// Stores the names of an account. With a first name, a last name and a date of birth, the account
/// has a profile. Returns `false` if another account has the external id.
pub(super) async fn write(
    tx: &mut Tx,
    account_id: &str,
    names: &Names,
    now: Timestamp,
) -> Result<bool, Error> {
    if let Some(id) = &names.external_id
        && tx.exists(OTHER_WITH_ID, (id, account_id)).await?
    {
        return Ok(false);
    }
    let mut stored = names.clone();
    if let (Some(first_name), Some(last_name), Some(dob)) =
        (&names.first_name, &names.last_name, &names.dob)
    {
        let profile = (account_id, first_name, last_name, dob, now);
        tx.execute(SET_PROFILE, profile).await?;
        (stored.first_name, stored.last_name, stored.dob) = (None, None, None);
    } else {
        tx.execute(DELETE_PROFILE, [account_id]).await?;
    }
    let row = (
        account_id,
        &stored.external_id,
        &stored.user_name,
        &stored.display_name,
        &stored.first_name,
        &stored.last_name,
        &stored.dob,
    );
    match tx.execute(SET, row).await {
        Ok(_) => Ok(true),
        // A concurrent transaction has stored the same external id.
        Err(Error::Database(error)) if is_taken(&error) => Ok(false),
        Err(error) => Err(error),
    }
}

fn is_taken(error: &sqlx::Error) -> bool {
    let error = error.as_database_error();
    error.is_some_and(sqlx::error::DatabaseError::is_unique_violation)
}
