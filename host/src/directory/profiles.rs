//! Profiles: what people said of themselves. An account that the operator made has none until its owner gives one.

use super::db::{on, on_tx};
use super::events::{self, Event, Kind};
use super::{Directory, Error};
use crate::caller::Origin;
use crate::clock::Timestamp;

const READ: &str =
    "SELECT first_name, last_name, dob, created_at FROM profiles WHERE account_id = $1";
const UPDATE: &str = "UPDATE profiles SET first_name = COALESCE($2, first_name), last_name = COALESCE($3, last_name), \
    dob = COALESCE($4, dob) WHERE account_id = $1";
const INSERT: &str = "INSERT INTO profiles (account_id, first_name, last_name, dob, created_at) VALUES ($1, $2, $3, $4, $5)";

/// A profile.
#[derive(Clone, Debug, PartialEq, Eq, sqlx::FromRow)]
pub struct Profile {
    /// 1 to 64 characters.
    pub first_name: String,
    /// 1 to 64 characters.
    pub last_name: String,
    /// `YYYY-MM-DD`.
    pub dob: String,
    /// When it was made, in milliseconds since the epoch.
    pub created_at: i64,
}

/// What is to be changed of a profile; the rest stays.
#[derive(Clone, Debug, Default)]
pub struct Changes {
    /// 1 to 64 characters.
    pub first_name: Option<String>,
    /// 1 to 64 characters.
    pub last_name: Option<String>,
    /// `YYYY-MM-DD`.
    pub dob: Option<String>,
}

impl Directory {
    /// An account's profile, where it has one.
    ///
    /// # Errors
    /// [`Error`] where the database fails.
    pub async fn profile(&self, account_id: &str) -> Result<Option<Profile>, Error> {
        Ok(on!(&self.db, pool => sqlx::query_as(READ)
            .bind(account_id)
            .fetch_optional(pool).await)?)
    }

    /// Changes a profile, or makes it where there is none and nothing is missing. Whether there is one now.
    ///
    /// # Errors
    /// [`Error`] where the database fails; it is as it was then.
    pub async fn change_profile(
        &self,
        account_id: &str,
        changes: &Changes,
        now: Timestamp,
        origin: &Origin,
    ) -> Result<bool, Error> {
        let mut tx = self.db.begin().await?;
        tx.lock_account(account_id).await?;
        let updated = on_tx!(&mut tx, db => sqlx::query(UPDATE)
            .bind(account_id)
            .bind(&changes.first_name)
            .bind(&changes.last_name)
            .bind(&changes.dob)
            .execute(db).await.map(|done| done.rows_affected()))?;
        if updated == 0 {
            let (Some(first_name), Some(last_name), Some(dob)) =
                (&changes.first_name, &changes.last_name, &changes.dob)
            else {
                return Ok(false);
            };
            on_tx!(&mut tx, db => sqlx::query(INSERT)
                .bind(account_id)
                .bind(first_name)
                .bind(last_name)
                .bind(dob)
                .bind(now.millis())
                .execute(db).await.map(drop))?;
        }
        let event = Event::of(Kind::ProfileChanged, account_id, now);
        events::commit(tx, event, origin).await?;
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    use super::super::accounts::NewAccount;
    use super::super::testing::{Fresh, NOW, account, both};
    use super::*;

    fn changes(first: Option<&str>, last: Option<&str>, dob: Option<&str>) -> Changes {
        Changes {
            first_name: first.map(Into::into),
            last_name: last.map(Into::into),
            dob: dob.map(Into::into),
        }
    }

    async fn a_change_leaves_what_it_does_not_name(fresh: Fresh) {
        let directory = &fresh.directory;
        directory.with("ada", "ada@example.org", &[]).await;
        let change = changes(None, Some("King"), None);
        let origin = Origin::default();
        let changed = directory.change_profile("ada", &change, NOW, &origin).await;
        assert!(changed.unwrap());
        let profile = directory.profile("ada").await.unwrap().unwrap();
        assert_eq!(
            (&*profile.first_name, &*profile.last_name, &*profile.dob),
            ("Ada", "King", "1990-12-10")
        );
        assert_eq!(profile.created_at, NOW.millis());
    }

    async fn a_missing_profile_is_made_of_all_three_and_of_nothing_less(fresh: Fresh) {
        let directory = &fresh.directory;
        let new = NewAccount {
            profile: None,
            ..account("ada", "ada@example.org")
        };
        let origin = Origin::default();
        directory.create_account(&new, None, &origin).await.unwrap();
        let part = changes(Some("Ada"), Some("King"), None);
        let made = directory.change_profile("ada", &part, NOW, &origin).await;
        assert!(!made.unwrap());
        assert_eq!(directory.profile("ada").await.unwrap(), None);
        let whole = changes(Some("Ada"), Some("King"), Some("1990-12-10"));
        let made = directory.change_profile("ada", &whole, NOW, &origin).await;
        assert!(made.unwrap());
        assert!(directory.profile("ada").await.unwrap().is_some());
        assert_eq!(directory.profile("bob").await.unwrap(), None);
    }

    both!(
        a_change_leaves_what_it_does_not_name,
        a_missing_profile_is_made_of_all_three_and_of_nothing_less,
    );
}
