//! Whether a domain's SPF record (RFC 7208) lets mail from a host that it includes. Follows what it refers to, within the RFC's bounds, and evaluates no address.

mod policy;

use std::future::Future;
use std::pin::Pin;

use self::policy::{Mechanism, has_macro, read, terms};
use super::{Dns, Unreadable};

/// Terms that cause a look-up, in one evaluation (RFC 7208, section 4.6.4).
const LOOK_UPS: u32 = 10;
/// Those of them that may find nothing (the same section).
const VOID: u32 = 2;

/// What came of a record.
enum Outcome {
    /// It includes the host.
    Found,
    /// It does not.
    Absent,
    /// It does not, and what stands behind it counts no more: `all` was reached.
    Closed,
    /// It names what only a sender's address would tell (macros).
    Unknown,
}

/// Why there is no outcome.
enum Stop {
    /// A record is in error, and so nothing is let (permerror).
    Broken,
    Unreadable(Unreadable),
}

impl From<Unreadable> for Stop {
    fn from(unreadable: Unreadable) -> Self {
        Self::Unreadable(unreadable)
    }
}

/// What an evaluation may still do.
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

/// Whether `include:<host>` is reached from the record of `domain`, as a sender's server would reach it.
///
/// # Errors
/// [`Unreadable`], also where a macro hides it.
pub(super) async fn includes(dns: &Dns, domain: &str, host: &str) -> Result<bool, Unreadable> {
    let mut left = Left {
        look_ups: LOOK_UPS,
        void: VOID,
    };
    match record(dns, domain.to_owned(), host, &mut left).await {
        Ok(Outcome::Found) => Ok(true),
        Ok(Outcome::Absent | Outcome::Closed) | Err(Stop::Broken) => Ok(false),
        Ok(Outcome::Unknown) => Err(Unreadable(format!(
            "SPF of {domain}: it refers to names that depend on the sender"
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
            // None is an error to whoever includes it, and two are one anyway (sections 4.5 and 5.2).
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
            // What the host's own record says is its operator's affair.
            let outcome = if target == host {
                Outcome::Found
            } else {
                record(dns, target, host, left).await?
            };
            match outcome {
                Outcome::Found if directive.passes => return Ok(Outcome::Found),
                // Behind another qualifier it says that mail from there is not let.
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

/// What does not say whom a record includes is tried all the same: it uses up what an evaluation may look up, and that may be what
/// keeps a sender's server from getting to the host.
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
