//! Checks whether a domain's SPF record (RFC 7208) includes a host. Follows references within the RFC's limits. Does not evaluate sender addresses.

mod policy;

use std::future::Future;
use std::pin::Pin;

use self::policy::{Mechanism, has_macro, read, terms};
use super::{Dns, Unreadable};

/// Maximum number of terms that cause a lookup in one evaluation (RFC 7208, section 4.6.4).
const LOOK_UPS: u32 = 10;
/// Maximum number of these lookups without a result (same section).
const VOID: u32 = 2;

/// The result of evaluating a record.
enum Outcome {
    /// The record includes the host.
    Found,
    /// The record does not include the host.
    Absent,
    /// The record does not include the host, and evaluation ended at `all`.
    Closed,
    /// The result depends on the sender's address (macros).
    Unknown,
}

/// The reason why an evaluation failed.
enum Stop {
    /// A record is invalid, so no server may send (permerror).
    Broken,
    Unreadable(Unreadable),
}

impl From<Unreadable> for Stop {
    fn from(unreadable: Unreadable) -> Self {
        Self::Unreadable(unreadable)
    }
}

/// The remaining lookups of an evaluation.
struct Left {
    look_ups: u32,
    void: u32,
}

impl Left {
    fn look_up(&mut self) -> Result<(), Stop> {
        self.look_ups = self.look_ups.checked_sub(1).ok_or(Stop::Broken)?;
        Ok(())
    }

    fn found(&mut self, something: bool) -> Result<(), Stop> {
        if !something {
            self.void = self.void.checked_sub(1).ok_or(Stop::Broken)?;
        }
        Ok(())
    }
}

/// Returns `true` if an evaluation of the record of `domain` reaches `include:<host>`.
///
/// # Errors
/// Returns [`Unreadable`] if the DNS cannot be read or the result depends on a macro.
pub(super) async fn includes(dns: &Dns, domain: &str, host: &str) -> Result<bool, Unreadable> {
    let mut left = Left {
        look_ups: LOOK_UPS,
        void: VOID,
    };
    match record(dns, domain.to_owned(), host, &mut left).await {
        Ok(Outcome::Found) => Ok(true),
        Ok(Outcome::Absent | Outcome::Closed) | Err(Stop::Broken) => Ok(false),
        Ok(Outcome::Unknown) => Err(Unreadable(format!(
            "SPF of {domain}: the record contains macros, so the result depends on the sender"
        ))),
        Err(Stop::Unreadable(unreadable)) => Err(unreadable),
    }
}

type Reading<'a> = Pin<Box<dyn Future<Output = Result<Outcome, Stop>> + Send + 'a>>;

fn record<'a>(dns: &'a Dns, domain: String, host: &'a str, left: &'a mut Left) -> Reading<'a> {
    Box::pin(async move {
        let published = dns.txt(&domain).await?;
        let mut records = published.iter().filter_map(|record| terms(record));
        let (Some(terms), None) = (records.next(), records.next()) else {
            // A missing record is an error in an include, and several records are always an error (sections 4.5 and 5.2).
            return Err(Stop::Broken);
        };
        let policy = read(terms, &domain).ok_or(Stop::Broken)?;
        let mut unknown = false;
        for directive in policy.directives {
            let target = match directive.mechanism {
                Mechanism::Include(target) => target,
                Mechanism::All if unknown => return Ok(Outcome::Unknown),
                Mechanism::All => return Ok(Outcome::Closed),
                other => {
                    passed_over(dns, other, left).await?;
                    continue;
                }
            };
            left.look_up()?;
            if has_macro(&target) {
                unknown = true;
                continue;
            }
            // The content of the mail host's own record does not matter.
            let outcome = if target == host {
                Outcome::Found
            } else {
                record(dns, target, host, left).await?
            };
            match outcome {
                Outcome::Found if directive.passes => return Ok(Outcome::Found),
                // With another qualifier than `+`, mail from the host does not pass.
                Outcome::Found => return Ok(Outcome::Closed),
                Outcome::Absent | Outcome::Closed => {}
                Outcome::Unknown => unknown = true,
            }
        }
        let followed = match policy.redirect {
            Some(target) => {
                left.look_up()?;
                if has_macro(&target) {
                    Outcome::Unknown
                } else {
                    record(dns, target, host, left).await?
                }
            }
            None => Outcome::Absent,
        };
        Ok(match followed {
            Outcome::Absent | Outcome::Closed if unknown => Outcome::Unknown,
            followed => followed,
        })
    })
}

/// Counts the lookups of a mechanism that includes no other record. They count towards the limits of the evaluation, and so can prevent it from reaching the
/// host.
async fn passed_over(dns: &Dns, mechanism: Mechanism, left: &mut Left) -> Result<(), Stop> {
    let (target, exchange) = match mechanism {
        Mechanism::A(target) | Mechanism::Exists(target) => (target, false),
        Mechanism::Mx(target) => (target, true),
        Mechanism::Ptr => return left.look_up(),
        Mechanism::All | Mechanism::Include(_) | Mechanism::Network => return Ok(()),
    };
    left.look_up()?;
    if has_macro(&target) {
        return Ok(());
    }
    left.found(if exchange {
        !dns.mx(&target).await?.is_empty()
    } else {
        dns.has_address(&target).await?
    })
}
