//! The forward addresses of the fake host. The fake host sends no mail: [`forward_code`] returns
//! the code of an address.

use latchmail_shape::codes;

use super::outbox::is_address;
use crate::capability::{Error, ForwardAddress, Timestamp};

/// The time in which an address can be confirmed, in milliseconds.
const LIFETIME: Timestamp = 24 * 3_600_000;
/// Maximum number of forward addresses, and of requests within [`LIFETIME`].
const MAX: usize = 10;

/// The forward addresses of an account.
#[derive(Debug, Default)]
pub(super) struct Stored {
    listed: Vec<ForwardAddress>,
    /// The times of all requests.
    requests: Vec<Timestamp>,
}

impl Stored {
    /// Returns `true` if the account has confirmed the address.
    pub(super) fn is_confirmed(&self, address: &str) -> bool {
        let mut listed = self.listed.iter();
        listed.any(|one| one.confirmed && one.address == address)
    }

    fn forget_expired(&mut self, now: Timestamp) {
        self.listed
            .retain(|one| one.expires_at.is_none_or(|at| at > now));
        self.requests.retain(|at| at + LIFETIME > now);
    }

    /// Returns the forward addresses that have not expired.
    pub(super) fn list(&mut self, now: Timestamp) -> &[ForwardAddress] {
        self.forget_expired(now);
        &self.listed
    }

    pub(super) fn request(
        &mut self,
        id: String,
        address: &str,
        now: Timestamp,
    ) -> Result<ForwardAddress, Error> {
        if !is_address(address) {
            let text = "address must be a mail address";
            return Err(Error::invalid(codes::INVALID_FORWARD_ADDRESS, text));
        }
        let address = address.to_lowercase();
        self.forget_expired(now);
        let conflict = |code, text| Err(Error::conflict(code, text));
        if self.is_confirmed(&address) {
            let text = "The forward address is already confirmed";
            return conflict(codes::FORWARD_ADDRESS_CONFIRMED, text);
        }
        if self.requests.len() >= MAX {
            let text = "The account has requested 10 forward addresses within 24 hours";
            return conflict(codes::TOO_MANY_FORWARD_ADDRESSES, text);
        }
        self.listed.retain(|one| one.address != address);
        if self.listed.len() >= MAX {
            let text = "The account has 10 forward addresses; delete one first";
            return conflict(codes::TOO_MANY_FORWARD_ADDRESSES, text);
        }
        let new = ForwardAddress {
            id,
            address,
            confirmed: false,
            requested_at: now,
            expires_at: Some(now + LIFETIME),
        };
        self.requests.push(now);
        self.listed.push(new.clone());
        Ok(new)
    }

    pub(super) fn confirm(
        &mut self,
        id: &str,
        code: &str,
        now: Timestamp,
    ) -> Result<ForwardAddress, Error> {
        self.forget_expired(now);
        let mut listed = self.listed.iter_mut();
        let found = listed.find(|one| one.id == id).ok_or(Error::NotFound)?;
        if !found.confirmed && code.trim() != forward_code(id) {
            return Err(Error::invalid(
                codes::WRONG_FORWARD_CODE,
                "The code is wrong",
            ));
        }
        found.confirmed = true;
        found.expires_at = None;
        Ok(found.clone())
    }

    pub(super) fn delete(&mut self, id: &str) -> Result<ForwardAddress, Error> {
        let position = self.listed.iter().position(|one| one.id == id);
        Ok(self.listed.remove(position.ok_or(Error::NotFound)?))
    }
}

/// Returns the code that the fake host would send to a forward address with this id.
#[must_use]
pub fn forward_code(id: &str) -> String {
    format!("code-of-{id}")
}
