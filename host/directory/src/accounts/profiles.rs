//! Profiles. A profile contains the name and the date of birth that a person entered. An account
//! that the operator created has no profile until its owner creates a profile.

use latchmail_core::caller::Origin;

use super::Accounts;
use crate::db::Error;
use crate::events::{self, Event, Kind};
use crate::session_caller::SessionCaller;

const READ: &str =
    "SELECT first_name, last_name, dob, created_at FROM profiles WHERE account_id = $1";
const UPDATE: &str = "UPDATE profiles SET first_name = COALESCE($2, first_name), last_name = COALESCE($3, last_name), \
    dob = COALESCE($4, dob) WHERE account_id = $1";
const INSERT: &str = "INSERT INTO profiles (account_id, first_name, last_name, dob, created_at) VALUES ($1, $2, $3, $4, $5)";

/// A profile.
#[derive(Clone, Debug, PartialEq, Eq, sqlx_macros::FromRow)]
pub struct Profile {
    /// The first name, 1 to 64 characters.
    pub first_name: String,
    /// The last name, 1 to 64 characters.
    pub last_name: String,
    /// The date of birth, as `YYYY-MM-DD`.
    pub dob: String,
    /// The time of creation, in milliseconds since the epoch.
    pub created_at: i64,
}

/// The result of updating a profile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UpdateOutcome {
    /// The profile has the requested values.
    Changed,
    /// There is no profile, and the request does not contain all values of a new profile.
    Incomplete,
    /// The caller's session ended.
    SessionOver,
}

/// The new values of a profile. If a field is `None`, its value does not change.
#[derive(Clone, Debug, Default)]
pub struct ProfileUpdate {
    /// The new first name, 1 to 64 characters.
    pub first_name: Option<String>,
    /// The new last name, 1 to 64 characters.
    pub last_name: Option<String>,
    /// The new date of birth, as `YYYY-MM-DD`.
    pub dob: Option<String>,
}

impl ProfileUpdate {
    /// Returns `true` if a profile already has these values.
    fn match_profile(&self, profile: &Profile) -> bool {
        [
            (&self.first_name, &profile.first_name),
            (&self.last_name, &profile.last_name),
            (&self.dob, &profile.dob),
        ]
        .into_iter()
        .all(|(wanted, is)| wanted.as_ref().is_none_or(|wanted| wanted == is))
    }
}

impl Accounts {
    /// Returns an account's profile, or `None` if the account has no profile.
    ///
    /// # Errors
    /// Returns [`Error`] if the database fails.
    pub async fn profile(&self, account_id: &str) -> Result<Option<Profile>, Error> {
        self.db.optional(READ, [account_id]).await
    }

    /// Changes a profile. If there is no profile, creates a profile, provided that the request
    /// contains all values.
    ///
    /// # Errors
    /// Returns [`Error`] if the database fails. Nothing is changed in that case.
    pub async fn change_profile(
        &self,
        caller: SessionCaller<'_>,
        update: &ProfileUpdate,
        origin: &Origin,
    ) -> Result<UpdateOutcome, Error> {
        let (account_id, now) = (caller.account_id, caller.at);
        let mut tx = self.db.begin().await?;
        if !caller.lock(&mut tx).await? {
            return Ok(UpdateOutcome::SessionOver);
        }
        let before: Option<Profile> = tx.optional(READ, [account_id]).await?;
        if before.is_some_and(|before| update.match_profile(&before)) {
            return Ok(UpdateOutcome::Changed);
        }
        let updated = tx
            .execute(
                UPDATE,
                (
                    account_id,
                    &update.first_name,
                    &update.last_name,
                    &update.dob,
                ),
            )
            .await?;
        if updated == 0 {
            let (Some(first_name), Some(last_name), Some(dob)) =
                (&update.first_name, &update.last_name, &update.dob)
            else {
                return Ok(UpdateOutcome::Incomplete);
            };
            tx.execute(INSERT, (account_id, first_name, last_name, dob, now))
                .await?;
        }
        let event = Event::of(Kind::ProfileChanged, account_id, now);
        events::commit(tx, event, origin).await?;
        Ok(UpdateOutcome::Changed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::accounts::NewAccount;
    use crate::testing::{Fresh, NOW, account, both, session};

    const ASKING: SessionCaller<'static> = SessionCaller {
        account_id: "ada",
        sid: "s",
        at: NOW,
    };

    fn to(first: Option<&str>, last: Option<&str>, dob: Option<&str>) -> ProfileUpdate {
        ProfileUpdate {
            first_name: first.map(Into::into),
            last_name: last.map(Into::into),
            dob: dob.map(Into::into),
        }
    }

    async fn a_change_leaves_what_it_does_not_name(fresh: Fresh) {
        let directory = &fresh.directory;
        directory.with("ada", "ada@example.org", &["s"]).await;
        let update = to(None, Some("King"), None);
        let origin = Origin::default();
        let changed = directory
            .accounts
            .change_profile(ASKING, &update, &origin)
            .await;
        assert_eq!(changed.unwrap(), UpdateOutcome::Changed);
        let profile = directory.accounts.profile("ada").await.unwrap().unwrap();
        assert_eq!(
            (&*profile.first_name, &*profile.last_name, &*profile.dob),
            ("Ada", "King", "1990-12-10")
        );
        assert_eq!(profile.created_at, NOW.millis());
        let told = "SELECT COUNT(*) FROM security_events WHERE kind = 'profile_changed'";
        assert_eq!(fresh.number(told).await, 1);
        for update in [update, ProfileUpdate::default()] {
            let changed = directory
                .accounts
                .change_profile(ASKING, &update, &origin)
                .await;
            assert_eq!(changed.unwrap(), UpdateOutcome::Changed);
        }
        assert_eq!(fresh.number(told).await, 1, "nothing changed");
    }

    async fn a_missing_profile_is_made_of_all_three_and_of_nothing_less(fresh: Fresh) {
        let directory = &fresh.directory;
        let new = NewAccount {
            profile: None,
            ..account("ada", "ada@example.org")
        };
        let origin = Origin::default();
        let first = session("s", "ada", NOW);
        let made = directory.accounts.create(&new, Some(&first), &origin);
        made.await.unwrap();
        let part = to(Some("Ada"), Some("King"), None);
        let made = directory
            .accounts
            .change_profile(ASKING, &part, &origin)
            .await;
        assert_eq!(made.unwrap(), UpdateOutcome::Incomplete);
        assert_eq!(directory.accounts.profile("ada").await.unwrap(), None);
        let whole = to(Some("Ada"), Some("King"), Some("1990-12-10"));
        let made = directory
            .accounts
            .change_profile(ASKING, &whole, &origin)
            .await;
        assert_eq!(made.unwrap(), UpdateOutcome::Changed);
        assert!(directory.accounts.profile("ada").await.unwrap().is_some());
        assert_eq!(directory.accounts.profile("bob").await.unwrap(), None);
    }

    async fn a_session_that_is_over_changes_nothing(fresh: Fresh) {
        let directory = &fresh.directory;
        directory.with("ada", "ada@example.org", &[]).await;
        let update = to(None, Some("King"), None);
        let origin = Origin::default();
        let changed = directory
            .accounts
            .change_profile(ASKING, &update, &origin)
            .await;
        assert_eq!(changed.unwrap(), UpdateOutcome::SessionOver);
        let profile = directory.accounts.profile("ada").await.unwrap().unwrap();
        assert_eq!(profile.last_name, "Lovelace");
    }

    both!(
        a_session_that_is_over_changes_nothing,
        a_change_leaves_what_it_does_not_name,
        a_missing_profile_is_made_of_all_three_and_of_nothing_less,
    );
}
