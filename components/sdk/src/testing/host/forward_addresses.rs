//! The forward addresses of the fake host. The fake host sends no mail: [`forward_code`] returns
//! the code of an address.

use latchmail_shape::codes;

use super::filters::StoredFilters;
use super::outbox::is_address;
use super::{FakeHost, Need};
use crate::capability::{Error, ForwardAddress, Scope, Timestamp};

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

    fn request(
        &mut self,
        id: String,
        address: String,
        now: Timestamp,
    ) -> Result<ForwardAddress, Error> {
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
}

/// Returns the code that the fake host would send to a forward address with this id.
#[must_use]
pub fn forward_code(id: &str) -> String {
    format!("code-of-{id}")
}

pub(super) fn list(host: &FakeHost) -> Result<Vec<ForwardAddress>, Error> {
    let now = host.now();
    change(host, Need::Scope(Scope::MailRead), |filters| {
        filters.forward.forget_expired(now);
        Ok(filters.forward.listed.clone())
    })
}

pub(super) fn request(host: &FakeHost, address: &str) -> Result<ForwardAddress, Error> {
    let (now, id) = (host.now(), host.next_number("forward"));
    change(host, Need::Session, |filters| {
        if !is_address(address) {
            let text = "address must be a mail address";
            return Err(Error::invalid(codes::INVALID_FORWARD_ADDRESS, text));
        }
        let (id, address) = (format!("forward{id}"), address.to_lowercase());
        filters.forward.request(id, address, now)
    })
}

pub(super) fn confirm(host: &FakeHost, id: &str, code: &str) -> Result<ForwardAddress, Error> {
    let now = host.now();
    change(host, Need::Session, |filters| {
        filters.forward.forget_expired(now);
        let mut listed = filters.forward.listed.iter_mut();
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
    })
}

pub(super) fn delete(host: &FakeHost, id: &str) -> Result<(), Error> {
    change(host, Need::Session, |filters| {
        let listed = &mut filters.forward.listed;
        let position = listed.iter().position(|one| one.id == id);
        let deleted = listed.remove(position.ok_or(Error::NotFound)?);
        filters.disable_forwards(&deleted.address);
        Ok(())
    })
}

fn change<T>(
    host: &FakeHost,
    need: Need,
    change: impl FnOnce(&mut StoredFilters) -> Result<T, Error>,
) -> Result<T, Error> {
    host.allow(need, |account| change(&mut account.filters))
}
