//! Checks whether a domain's SPF record (RFC 7208) has an `include` of a host. Follows references
//! to other records within the limits of the RFC. Does not evaluate the addresses of senders.

mod policy;

use std::future::Future;
use std::pin::Pin;

use self::policy::{Mechanism, has_macro, parse, terms};
use super::client::{Dns, LookupError};

/// Maximum number of terms that cause a lookup in one evaluation (RFC 7208, section 4.6.4).
const MAX_LOOKUPS: u32 = 10;
/// Maximum number of lookups without records in one evaluation (RFC 7208, section 4.6.4).
const MAX_VOID_LOOKUPS: u32 = 2;

/// The result of evaluating a record.
enum Outcome {
    /// The evaluation reached an `include` of the host with the qualifier `+`.
    Found,
    /// The record has no `include` of the host, and no mechanism ended the evaluation.
    Absent,
    /// The evaluation ended before it reached an `include` of the host with the qualifier `+`. The
    /// reason is `all`, or an `include` of the host with another qualifier.
    Ended,
    /// The result depends on the address of the sender, because the record contains macros.
    Unknown,
}

/// The reason why an evaluation failed.
enum Error {
    /// A record is invalid or a limit is exceeded, so no server is allowed to send (permerror).
    Permanent,
    Lookup(LookupError),
}

impl From<LookupError> for Error {
    fn from(error: LookupError) -> Self {
        Self::Lookup(error)
    }
}

/// The numbers of lookups, and of lookups without records (`void`), that remain for an evaluation.
struct Limits {
    lookups: u32,
    void: u32,
}

impl Limits {
    fn count_lookup(&mut self) -> Result<(), Error> {
        self.lookups = self.lookups.checked_sub(1).ok_or(Error::Permanent)?;
        Ok(())
    }

    fn count_result(&mut self, has_records: bool) -> Result<(), Error> {
        if !has_records {
            self.void = self.void.checked_sub(1).ok_or(Error::Permanent)?;
        }
        Ok(())
    }
}

/// Returns `true` if an evaluation of the record of `domain` reaches `include:<host>`.
///
/// # Errors
/// Returns [`LookupError`] if a lookup fails or the result depends on a macro.
pub(super) async fn includes(dns: &Dns, domain: &str, host: &str) -> Result<bool, LookupError> {
    let mut limits = Limits {
        lookups: MAX_LOOKUPS,
        void: MAX_VOID_LOOKUPS,
    };
    match evaluate(dns, domain.to_owned(), host, &mut limits).await {
        Ok(Outcome::Found) => Ok(true),
        Ok(Outcome::Absent | Outcome::Ended) | Err(Error::Permanent) => Ok(false),
        Ok(Outcome::Unknown) => Err(LookupError(format!(
            "SPF of {domain}: the record contains macros, so the result depends on the sender"
        ))),
        Err(Error::Lookup(error)) => Err(error),
    }
}

type Evaluation<'a> = Pin<Box<dyn Future<Output = Result<Outcome, Error>> + Send + 'a>>;

/// Evaluates the record of `domain`. The function is recursive, so it returns a boxed future.
fn evaluate<'a>(
    dns: &'a Dns,
    domain: String,
    host: &'a str,
    limits: &'a mut Limits,
) -> Evaluation<'a> {
    Box::pin(async move {
        let published = dns.txt(&domain).await?;
        let mut records = published.iter().filter_map(|record| terms(record));
        let (Some(terms), None) = (records.next(), records.next()) else {
            // A missing record is an error in an include, and several records are always an error
            // (RFC 7208, sections 4.5 and 5.2).
            return Err(Error::Permanent);
        };
        let policy = parse(terms, &domain).ok_or(Error::Permanent)?;
        let mut unknown = false;
        for directive in policy.directives {
            let target = match directive.mechanism {
                Mechanism::Include(target) => target,
                Mechanism::All if unknown => return Ok(Outcome::Unknown),
                Mechanism::All => return Ok(Outcome::Ended),
                other => {
                    count_mechanism(dns, other, limits).await?;
                    continue;
                }
            };
            limits.count_lookup()?;
            if has_macro(&target) {
                unknown = true;
                continue;
            }
            // The content of the host's own record does not matter, so the record is not evaluated.
            let outcome = if target == host {
                Outcome::Found
            } else {
                evaluate(dns, target, host, limits).await?
            };
            match outcome {
                Outcome::Found if directive.passes => return Ok(Outcome::Found),
                // The `include` matches mail from the host, but the mail does not pass, because the
                // qualifier is not `+`.
                Outcome::Found => return Ok(Outcome::Ended),
                Outcome::Absent | Outcome::Ended => {}
                Outcome::Unknown => unknown = true,
            }
        }
        let followed = match policy.redirect {
            Some(target) => {
                limits.count_lookup()?;
                if has_macro(&target) {
                    Outcome::Unknown
                } else {
                    evaluate(dns, target, host, limits).await?
                }
            }
            None => Outcome::Absent,
        };
        Ok(match followed {
            Outcome::Absent | Outcome::Ended if unknown => Outcome::Unknown,
            followed => followed,
        })
    })
}

/// Counts the lookups of a mechanism that refers to no other SPF record. Returns an error if the
/// lookups exceed a limit. The evaluation then fails before it reaches the `include` of the host.
async fn count_mechanism(
    dns: &Dns,
    mechanism: Mechanism,
    limits: &mut Limits,
) -> Result<(), Error> {
    let (target, is_mx) = match mechanism {
        Mechanism::A(target) | Mechanism::Exists(target) => (target, false),
        Mechanism::Mx(target) => (target, true),
        Mechanism::Ptr => return limits.count_lookup(),
        Mechanism::All | Mechanism::Include(_) | Mechanism::Network => return Ok(()),
    };
    limits.count_lookup()?;
    if has_macro(&target) {
        return Ok(());
    }
    limits.count_result(if is_mx {
        !dns.mx(&target).await?.is_empty()
    } else {
        dns.has_address(&target).await?
    })
}
