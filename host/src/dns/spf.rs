//! Whether a domain's SPF record (RFC 7208) lets mail from a host that it includes. Follows what it refers to, within the RFC's bounds, and evaluates no address.

use std::future::Future;
use std::pin::Pin;

use super::{Dns, Unreadable};

/// Terms that cause a look-up, in one evaluation (RFC 7208, section 4.6.4).
const LOOK_UPS: u32 = 10;

/// What came of a record.
enum Outcome {
    /// It includes the host.
    Found,
    /// It does not.
    Absent,
    /// It does not, and what stands behind it counts no more: `all` was reached.
    Closed,
    /// It is in error, and so nothing is let (permerror).
    Broken,
    /// It names what only a sender's address would tell (macros).
    Unknown,
}

/// Whether `include:<host>` is reached from the record of `domain`, as a sender's server would reach it.
///
/// # Errors
/// [`Unreadable`], also where a macro hides it.
pub(super) async fn includes(dns: &Dns, domain: &str, host: &str) -> Result<bool, Unreadable> {
    let mut left = LOOK_UPS;
    match record(dns, domain.to_owned(), host, &mut left).await? {
        Outcome::Found => Ok(true),
        Outcome::Absent | Outcome::Closed | Outcome::Broken => Ok(false),
        Outcome::Unknown => Err(Unreadable(format!(
            "SPF of {domain}: it refers to names that depend on the sender"
        ))),
    }
}

type Reading<'a> = Pin<Box<dyn Future<Output = Result<Outcome, Unreadable>> + Send + 'a>>;

fn record<'a>(dns: &'a Dns, domain: String, host: &'a str, left: &'a mut u32) -> Reading<'a> {
    Box::pin(async move {
        let published = dns.txt(&domain).await?;
        let mut records = published.iter().filter_map(|record| terms(record));
        let (Some(terms), None) = (records.next(), records.next()) else {
            // None is an error to whoever includes it, and two are one anyway (sections 4.5 and 5.2).
            return Ok(Outcome::Broken);
        };
        let mut redirect = None;
        let mut unknown = false;
        for term in terms.split_ascii_whitespace() {
            let term = term.to_ascii_lowercase();
            if let Some(target) = term.strip_prefix("redirect=") {
                redirect = Some(target.to_owned());
                continue;
            }
            let (lets, mechanism) = match term.strip_prefix(['-', '~', '?']) {
                Some(mechanism) => (false, mechanism),
                None => (true, term.strip_prefix('+').unwrap_or(&term)),
            };
            let (name, target) = match mechanism.split_once(':') {
                Some((name, target)) => (name, target.trim_end_matches('.')),
                None => (mechanism.split('/').next().unwrap_or_default(), ""),
            };
            match name {
                "all" => {
                    return Ok(if unknown {
                        Outcome::Unknown
                    } else {
                        Outcome::Closed
                    });
                }
                "a" | "mx" | "ptr" | "exists" | "include" => {
                    let Some(fewer) = left.checked_sub(1) else {
                        return Ok(Outcome::Broken);
                    };
                    *left = fewer;
                }
                _ => {}
            }
            if name != "include" {
                continue;
            }
            if target == host {
                // Behind another qualifier it says that mail from there is not let.
                return Ok(if lets {
                    Outcome::Found
                } else {
                    Outcome::Closed
                });
            }
            if target.contains('%') {
                unknown = true;
                continue;
            }
            match record(dns, target.to_owned(), host, left).await? {
                Outcome::Found if lets => return Ok(Outcome::Found),
                Outcome::Found => return Ok(Outcome::Closed),
                Outcome::Absent | Outcome::Closed => {}
                Outcome::Broken => return Ok(Outcome::Broken),
                Outcome::Unknown => unknown = true,
            }
        }
        let followed = match redirect {
            Some(target) if target.contains('%') => Outcome::Unknown,
            Some(target) => {
                let Some(fewer) = left.checked_sub(1) else {
                    return Ok(Outcome::Broken);
                };
                *left = fewer;
                record(dns, target.trim_end_matches('.').to_owned(), host, left).await?
            }
            None => Outcome::Absent,
        };
        Ok(match followed {
            Outcome::Absent | Outcome::Closed if unknown => Outcome::Unknown,
            followed => followed,
        })
    })
}

/// The terms of an SPF record (RFC 7208, section 4.5). None for any other record.
fn terms(record: &str) -> Option<&str> {
    let (version, terms) = record.split_at_checked("v=spf1".len())?;
    let ends = terms.is_empty() || terms.starts_with(' ');
    (version.eq_ignore_ascii_case("v=spf1") && ends).then_some(terms)
}
