//! The addresses of the account that replies.

use std::collections::HashMap;

use latchmail_mime::Address;
use latchmail_shape::addresses::{ascii_domain, parse_address};

/// An address that receives mail for the account.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OwnAddress {
    /// The address.
    pub address: String,
    /// Whether the caller may send from the address.
    pub may_send: bool,
}

/// The addresses of an account.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Account {
    /// The account's own address.
    pub address: String,
    /// The account's own address and all aliases.
    pub addresses: Vec<OwnAddress>,
}

impl Account {
    /// Returns an account without aliases.
    #[must_use]
    pub fn of(address: &str) -> Self {
        Self {
            address: address.to_owned(),
            addresses: vec![OwnAddress {
                address: address.to_owned(),
                may_send: true,
            }],
        }
    }

    pub(crate) fn matcher(&self) -> Own<'_> {
        let addresses = self.addresses.iter();
        let addresses = addresses.filter_map(|own| Some((folded(&own.address)?, own)));
        Own(addresses.collect())
    }
}

/// The addresses of an account, by their folded form.
pub(crate) struct Own<'a>(HashMap<String, &'a OwnAddress>);

impl Own<'_> {
    pub(crate) fn get(&self, address: &str) -> Option<&OwnAddress> {
        self.0.get(&folded(address)?).copied()
    }

    pub(crate) fn contains(&self, address: &Address) -> bool {
        self.get(&address.address).is_some()
    }
}

/// Returns an address in the form for comparisons: in lower case, with the domain in ASCII (RFC
/// 5891). Returns `None` if the text is not an address.
pub(crate) fn folded(address: &str) -> Option<String> {
    let address = parse_address(address)?;
    let (local_part, domain) = address.rsplit_once('@')?;
    let domain = ascii_domain(domain)?;
    Some(format!("{}@{domain}", local_part.to_lowercase()))
}
