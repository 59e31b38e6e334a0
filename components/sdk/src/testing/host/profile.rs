//! Profiles and passwords of the fake host.

use chrono::{DateTime, Months, NaiveDate};
use latchmail_shape::codes;

use super::{FakeHost, Need};
use crate::capability::{Changes, Details, Error, PasswordChange, Profile, Scope, Timestamp};

/// The minimum age of a person in years.
const MIN_AGE: u32 = 13;

impl FakeHost {
    /// Removes the profile of the signed-in account. An account has no profile if the operator
    /// created the account.
    #[track_caller]
    pub fn forget_profile(&self) {
        self.with_account(|account| account.profile = None);
    }
}

/// An account's initial password is `Correct-Horse-7`.
impl Profile for FakeHost {
    fn get(&self) -> Result<Details, Error> {
        self.allow(Need::Scope(Scope::ProfileRead), |account| {
            account.profile.clone().ok_or(Error::NotFound)
        })
    }

    fn update(&self, changes: &Changes) -> Result<(), Error> {
        let now = self.now();
        self.allow(Need::Session, |account| {
            let old = account.profile.as_ref();
            let value = |new: &Option<String>, of: fn(&Details) -> &String| {
                let value = new.clone().or_else(|| old.map(|old| of(old).clone()));
                value.ok_or(Error::NotFound)
            };
            let profile = Details {
                address: account.address.clone(),
                first_name: value(&changes.first_name, |old| &old.first_name)?,
                last_name: value(&changes.last_name, |old| &old.last_name)?,
                dob: value(&changes.dob, |old| &old.dob)?,
                created_at: old.map_or(now, |old| old.created_at),
            };
            check(&profile, now)?;
            account.profile = Some(profile);
            Ok(())
        })
    }

    fn change_password(&self, current: &str, new: &str) -> Result<PasswordChange, Error> {
        self.allow(Need::Session, |account| {
            let has = |is: fn(&char) -> bool| new.chars().any(|char| is(&char));
            let letters = has(char::is_ascii_uppercase) && has(char::is_ascii_lowercase);
            if new.len() < 8 || !letters || !has(char::is_ascii_digit) {
                return Err(Error::invalid(
                    codes::INVALID_PASSWORD,
                    "The password must have 8 characters, an upper-case letter, a lower-case \
                     letter and a digit",
                ));
            }
            if account.password != current {
                return Ok(PasswordChange::Wrong);
            }
            if current == new {
                return Ok(PasswordChange::Same);
            }
            account.password = new.into();
            Ok(PasswordChange::Changed)
        })
    }
}

fn check(profile: &Details, now: Timestamp) -> Result<(), Error> {
    let invalid = |code, text: &str| Err(Error::invalid(code, text));
    for (name, value) in [
        ("first_name", &profile.first_name),
        ("last_name", &profile.last_name),
    ] {
        if !(1..=64).contains(&value.chars().count()) {
            return invalid(
                codes::INVALID_NAME,
                &format!("{name} must be 1 to 64 characters"),
            );
        }
    }
    let today = DateTime::from_timestamp_millis(now)
        .unwrap_or_default()
        .date_naive();
    let Ok(born) = NaiveDate::parse_from_str(&profile.dob, "%Y-%m-%d") else {
        return invalid(
            codes::INVALID_DATE_OF_BIRTH,
            "dob must be a date of the form YYYY-MM-DD",
        );
    };
    if born > today {
        return invalid(
            codes::INVALID_DATE_OF_BIRTH,
            "dob must not be in the future",
        );
    }
    if born + Months::new(12 * MIN_AGE) > today {
        return invalid(
            codes::TOO_YOUNG,
            &format!("You must be at least {MIN_AGE} years old"),
        );
    }
    Ok(())
}
