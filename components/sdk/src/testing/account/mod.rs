//! The data of an account of the fake host. Changes follow the same rules as in the real host.

pub(crate) mod addresses;
pub(crate) mod change_log;
pub(crate) mod credentials;
mod found;
pub(crate) mod members;
pub(crate) mod messages;
pub(crate) mod sent;
pub(crate) mod values;

use addresses::Addresses;
use credentials::CredentialList;
use members::Members;
use messages::Messages;
use sent::{SentMessage, SentMessages};
use values::Values;

use crate::capability::{Changes, Details, Error, PasswordChange, Sent, Timestamp};

/// Initial password of an account.
const PASSWORD: &str = "Correct-Horse-7";

#[derive(Debug)]
pub(crate) struct Account {
    pub(crate) address: String,
    pub(crate) mail: Messages,
    pub(crate) sent: SentMessages,
    pub(crate) addresses: Addresses,
    pub(crate) credentials: CredentialList,
    pub(crate) values: Values,
    /// The members of the account's mailbox, without the owner.
    pub(crate) members: Members,
    /// The profile. `None` if the operator created the account.
    pub(crate) profile: Option<Details>,
    password: String,
}

impl Account {
    pub(crate) fn new(address: &str, now: Timestamp) -> Self {
        Self {
            address: address.into(),
            mail: Messages::default(),
            sent: SentMessages::default(),
            addresses: Addresses::default(),
            credentials: CredentialList::default(),
            values: Values::default(),
            members: Members::default(),
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

    /// Returns the name in the profile. Without a profile, returns the local part of the address.
    pub(crate) fn name(&self) -> String {
        match &self.profile {
            Some(profile) => format!("{} {}", profile.first_name, profile.last_name),
            None => self.address.split('@').next().unwrap_or_default().into(),
        }
    }

    /// Changes fields of the profile. If there is no profile, all fields must be set, and the
    /// profile is created.
    pub(crate) fn update_profile(
        &mut self,
        changes: &Changes,
        now: Timestamp,
    ) -> Result<(), Error> {
        let old = self.profile.as_ref();
        let value = |new: &Option<String>, of: fn(&Details) -> &String| {
            let value = new.clone().or_else(|| old.map(|old| of(old).clone()));
            value.ok_or(Error::NotFound)
        };
        let profile = Details {
            address: self.address.clone(),
            first_name: value(&changes.first_name, |old| &old.first_name)?,
            last_name: value(&changes.last_name, |old| &old.last_name)?,
            dob: value(&changes.dob, |old| &old.dob)?,
            created_at: old.map_or(now, |old| old.created_at),
        };
        self.profile = Some(profile);
        Ok(())
    }

    pub(crate) fn has_password(&self, password: &str) -> bool {
        self.password == password
    }

    pub(crate) fn change_password(&mut self, current: &str, new: &str) -> PasswordChange {
        if self.password != current {
            PasswordChange::Wrong
        } else if current == new {
            PasswordChange::Same
        } else {
            self.password = new.into();
            PasswordChange::Changed
        }
    }

    /// Checks whether the account is allowed to send from this address.
    pub(crate) fn check_sender(&self, address: &str) -> Result<(), Error> {
        if address.eq_ignore_ascii_case(&self.address) || self.addresses.sends_from(address) {
            return Ok(());
        }
        Err(Error::Denied(
            "You can only send from your own address or active aliases".into(),
        ))
    }

    /// Stores a message in the folder `Sent` and in the list of sent messages. A repeated call with
    /// the same idempotency key only returns the first result.
    pub(crate) fn send(&mut self, message: SentMessage) -> Result<Sent, Error> {
        if let Some(sent) = self.sent.earlier(&message)? {
            return Ok(sent);
        }
        self.check_sender(&message.from)?;
        message.check()?;
        let uid = self.mail.put("Sent", message.letter());
        Ok(self.sent.add(message, uid))
    }
}
