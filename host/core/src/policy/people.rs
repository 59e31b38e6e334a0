//! Addresses as the names of people. Two texts name the same person if the mail server delivers
//! mail to the same mailbox: the case of letters, quotation marks around a local part that needs
//! none, and the form of an internationalized domain do not matter. A plus address is another
//! person, because another program can read its mail.

use crate::address::fold_domain;

/// Maximum length of an address, in bytes (RFC 5321, section 4.5.3.1.3).
const MAX_ADDRESS: usize = 254;

/// Returns the canonical form of an address. Returns `None` if the text has no local part or no
/// valid domain.
#[must_use]
pub fn person(address: &str) -> Option<String> {
    let (local, domain) = address.trim().rsplit_once('@')?;
    let local = unquoted(local);
    if local.is_empty() || address.len() > MAX_ADDRESS || local.chars().any(char::is_control) {
        return None;
    }
    Some(format!("{}@{}", local.to_lowercase(), domain_name(domain)?))
}

/// Returns the canonical form of an entry of `sendTo`: an address, or `@` and a domain.
pub(super) fn pattern(entry: &str) -> Option<String> {
    match entry.trim().strip_prefix('@') {
        Some(domain) => Some(format!("@{}", domain_name(domain)?)),
        None => person(entry),
    }
}

/// Returns `true` if an entry of `sendTo` names a person. Both have the canonical form.
pub(super) fn matches(pattern: &str, person: &str) -> bool {
    if !pattern.starts_with('@') {
        return pattern == person;
    }
    let domain = person.rfind('@').map(|at| &person[at..]);
    domain == Some(pattern)
}

fn domain_name(domain: &str) -> Option<String> {
    // A trailing dot names the same domain in DNS.
    fold_domain(domain.strip_suffix('.').unwrap_or(domain))
}

/// Removes the quotation marks of a local part that is also valid without them (RFC 5321, section
/// 4.1.2).
fn unquoted(local: &str) -> &str {
    let inner = local
        .strip_prefix('"')
        .and_then(|local| local.strip_suffix('"'));
    let is_plain = |inner: &&str| {
        let special = |c: char| c.is_whitespace() || "\\\"(),:;<>@[]".contains(c);
        !inner.is_empty() && !inner.contains(special)
    };
    inner.filter(is_plain).unwrap_or(local)
}
