//! An account of the fake host, with its password and profile.

use super::addresses::Addresses;
use super::credentials::CredentialList;
use super::host::{FakeHost, Need};
use super::mailbox::Messages;
use super::outbox::SentMessages;
use super::store::Values;
use super::teams::Guests;
use crate::capability::{Changes, Details, Error, PasswordChange, Profile, Scope, Timestamp};

/// The data of an account.
#[derive(Debug)]
pub(super) struct Account {
    pub(super) address: String,
    pub(super) mail: Messages,
    pub(super) out: SentMessages,
    pub(super) addresses: Addresses,
    pub(super) credentials: CredentialList,
    pub(super) values: Values,
    pub(super) guests: Guests,
    profile: Option<Details>,
    password: String,
}

/// Initial password of an account.
const PASSWORD: &str = "Correct-Horse-7";

impl Account {
    pub(super) fn new(address: &str, now: Timestamp) -> Self {
        Self {
            address: address.into(),
            mail: Messages::default(),
            out: SentMessages::default(),
            addresses: Addresses::default(),
            credentials: CredentialList::default(),
            values: Values::default(),
            guests: Guests::default(),
            profile: Some(Details {
                address: address.into(),
                first_name: "Ada".into(),
                last_name: "Lovelace".into(),
                dob: "1990-12-10".into(),
                created_at: now,
            }),
            password: PASSWORD.into(),
        }
    }

    pub(super) fn has_password(&self, password: &str) -> bool {
        self.password == password
    }

    /// Returns the name in the profile, or the address's local part if there is no profile.
    pub(super) fn name(&self) -> String {
        match &self.profile {
            Some(profile) => format!("{} {}", profile.first_name, profile.last_name),
            None => self.address.split('@').next().unwrap_or_default().into(),
        }
    }
}

impl FakeHost {
    /// Removes the profile of the signed-in account, as if the operator had created the account.
    ///
    /// # Panics
    /// Panics if no account is signed in.
    #[track_caller]
    pub fn forget_profile(&self) {
        self.with_account(|account| account.profile = None);
    }
}

/// Names and passwords are not validated. An account's initial password is `Correct-Horse-7`.
impl Profile for FakeHost {
    fn get(&self) -> Result<Details, Error> {
        self.allow(Need::Scope(Scope::ProfileRead), |account| {
            account.profile.clone().ok_or(Error::NotFound)
        })
    }

    fn update(&self, changes: &Changes) -> Result<(), Error> {
        let now = self.now();
        self.allow(Need::Session, |account| {
            let was = account.profile.as_ref();
            let value = |new: &Option<String>, old: fn(&Details) -> &String| {
                let value = new.clone().or_else(|| was.map(|was| old(was).clone()));
                value.ok_or(Error::NotFound)
            };
            let profile = Details {
                address: account.address.clone(),
                first_name: value(&changes.first_name, |was| &was.first_name)?,
                last_name: value(&changes.last_name, |was| &was.last_name)?,
                dob: value(&changes.dob, |was| &was.dob)?,
                created_at: was.map_or(now, |was| was.created_at),
            };
            account.profile = Some(profile);
            Ok(())
        })
    }

    fn change_password(&self, current: &str, new: &str) -> Result<PasswordChange, Error> {
        self.allow(Need::Session, |account| {
            Ok(if account.password != current {
                PasswordChange::Wrong
            } else if current == new {
                PasswordChange::Same
            } else {
                account.password = new.into();
                PasswordChange::Changed
            })
        })
    }
}
