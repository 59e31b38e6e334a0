//! The sender and the recipients of a reply.

use latchmail_mime::Address;

use crate::account::{Account, Own, folded};
use crate::original::Original;

/// Maximum number of recipients in To, and in Cc. This number exceeds the limit of a message.
/// Therefore the service refuses to send a message with an incomplete list of recipients.
const MAX_RECIPIENTS: usize = 501;

/// The recipients of a message.
#[derive(Debug, Default)]
pub(crate) struct Recipients {
    pub(crate) to: Vec<Address>,
    pub(crate) cc: Vec<Address>,
}

/// Returns the recipients of a reply.
///
/// - A reply to a message of the account goes to the recipients of that message, unless its
///   Reply-To names another person, as in messages of web forms.
/// - Any other reply goes to Reply-To, or to From.
/// - A reply to all goes to Mail-Followup-To if the original has this field. Otherwise it also goes
///   to the recipients of the original, in the field in which the original has them, and to the
///   mailing list.
/// - Addresses of the account are removed, unless no other address remains.
pub(crate) fn of_reply(original: &Original, own: &Own<'_>, all: bool) -> Recipients {
    let (header, fields) = (&original.header, &original.fields);
    let authors = authors(original);
    let is_own = is_own(original, own);
    let others = |addresses: &[Address]| -> Vec<Address> {
        let others = addresses.iter().filter(|one| !own.contains(one));
        others.cloned().collect()
    };
    let mut to = Unique::default();
    let mut cc = Unique::default();
    if all && has_address(&fields.followup_to) {
        to.extend(others(&fields.followup_to));
    } else {
        let primary = if is_own { &header.to } else { authors };
        to.extend(others(primary));
        if all {
            to.extend(others(&header.to));
            cc.extend(others(&header.cc));
            cc.extend(fields.list_post.iter().map(|list| Address {
                name: String::new(),
                address: list.clone(),
            }));
        } else if is_own && to.addresses.is_empty() {
            to.extend(others(&header.cc));
        }
    }
    cc.remove(&to);
    if to.addresses.is_empty() {
        to = std::mem::take(&mut cc);
    }
    if to.addresses.is_empty() {
        // A note to oneself.
        to.extend(authors.iter().cloned());
    }
    Recipients {
        to: to.addresses,
        cc: cc.addresses,
    }
}

/// Returns the addresses to which the author wants replies.
fn authors(original: &Original) -> &[Address] {
    let (header, fields) = (&original.header, &original.fields);
    let all = [&header.reply_to, &header.from, &fields.sender];
    all.into_iter()
        .find(|addresses| has_address(addresses))
        .map_or(&[], Vec::as_slice)
}

fn has_address(addresses: &[Address]) -> bool {
    addresses.iter().any(|one| folded(&one.address).is_some())
}

/// Returns `true` if the account wrote the message, and receives the replies to it.
fn is_own(original: &Original, own: &Own<'_>) -> bool {
    let from = &original.header.from;
    let mut all = from.iter().chain(&original.header.reply_to);
    has_address(from) && all.all(|one| own.contains(one) || folded(&one.address).is_none())
}

/// Returns the address of the sender: for a message of the account, its sender; otherwise the first
/// address of the account in To, in Cc, or in a field of a mail server. An address from which the
/// caller may not send is skipped. The last choice is the account's own address.
pub(crate) fn sender(original: &Original, account: &Account, own: &Own<'_>) -> String {
    let header = &original.header;
    let written = |addresses: &[Address]| -> Vec<String> {
        addresses.iter().map(|one| one.address.clone()).collect()
    };
    let mut candidates = Vec::new();
    if is_own(original, own) {
        candidates.extend(written(&header.from));
    }
    candidates.extend(written(&header.to));
    candidates.extend(written(&header.cc));
    candidates.extend(original.fields.received_for.iter().cloned());
    let mut found = candidates.iter().filter_map(|address| own.get(address));
    let found = found.find(|own| own.may_send);
    found.map_or_else(|| account.address.clone(), |own| own.address.clone())
}

/// Valid addresses without repetitions.
#[derive(Default)]
struct Unique {
    addresses: Vec<Address>,
    folded: Vec<String>,
}

impl Unique {
    fn extend(&mut self, addresses: impl IntoIterator<Item = Address>) {
        for address in addresses {
            let Some(folded) = folded(&address.address) else {
                continue;
            };
            match self.folded.iter().position(|known| *known == folded) {
                Some(known) => {
                    let known = &mut self.addresses[known];
                    if known.name.is_empty() {
                        known.name = address.name;
                    }
                }
                None if self.addresses.len() < MAX_RECIPIENTS => {
                    self.folded.push(folded);
                    self.addresses.push(address);
                }
                None => {}
            }
        }
    }

    /// Removes the addresses that are also in `other`.
    fn remove(&mut self, other: &Self) {
        let addresses = std::mem::take(self);
        let all = addresses.addresses.into_iter().zip(addresses.folded);
        for (address, folded) in all {
            if !other.folded.contains(&folded) {
                self.addresses.push(address);
                self.folded.push(folded);
            }
        }
    }
}
