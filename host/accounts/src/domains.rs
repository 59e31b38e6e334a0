//! Custom domains: claims, the verification of claims, and the state of a domain's DNS records. An
//! account claims a domain and publishes a TXT record to prove ownership. Then the account can use
//! the domain.
//!
//! This module does not handle HTTP or WIT. The directory decides in one transaction which account
//! owns a domain.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use latchmail_core::account_permits::AccountPermits;
use latchmail_core::caller::Origin;
use latchmail_core::clock::Clock;
use latchmail_core::config::Config;
use latchmail_core::error::Failure;
use latchmail_core::keyring::Keyring;
use latchmail_core::secrets;
use latchmail_directory::Directory;
use latchmail_directory::domains::{
    Claimed, Domain, DomainCaller, NewKeys, PublicKey, Released, Remaining, Verified,
};
use latchmail_dkim::KeyPair;
use latchmail_net::dns::{self, Dns, Record};
use quick_cache::sync::Cache;
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::timeout;

use crate::auth::account::{Session, session_over};
use crate::plans::Plans;

/// The first label of the name of a challenge record. The claimed domain follows this label.
const CHALLENGE_LABEL: &str = "_latchmail-challenge";
/// The start of the challenge record's value. The challenge token follows this prefix.
const CHALLENGE_PREFIX: &str = "latchmail-verify=";
/// Length of a challenge token in characters. 43 characters contain 256 random bits.
const CHALLENGE_LENGTH: usize = 43;

/// Maximum length of a DNS name in its written form, in characters (RFC 1035, section 2.3.4).
const LONGEST_NAME: usize = 253;

/// Time for which the service caches that the challenge record of a claim is missing.
const FAILURE_LIFETIME: Duration = Duration::from_secs(30);
/// Maximum number of concurrent requests of one account that query the DNS. Without this limit, a
/// slow name server could occupy all sandboxes of a module.
const MAX_LOOKUPS: usize = 2;
/// Maximum time that a request waits if the account has reached `MAX_LOOKUPS`. The request occupies
/// a sandbox while it waits.
const PERMIT_TIMEOUT: Duration = Duration::from_secs(1);
/// Maximum number of claims in each cache of unsuccessful checks.
const CACHE_CAPACITY: usize = 10_000;

/// A TXT record with which an account proves that it controls a domain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Challenge {
    /// The name of the record.
    pub host: String,
    /// The value of the record.
    pub value: String,
}

impl Challenge {
    /// Returns the challenge for a claimed domain, or `None` if the domain is already verified.
    #[must_use]
    pub fn of(domain: &Domain) -> Option<Self> {
        domain.verified_at.is_none().then(|| Self {
            host: host(&domain.name),
            value: format!("{CHALLENGE_PREFIX}{}", domain.challenge),
        })
    }

    /// Returns `true` if a TXT record has the value of this challenge. Ignores quotation marks
    /// around the value, because some DNS panels publish quotation marks.
    fn is(&self, published: &str) -> bool {
        let bare = published.trim();
        let unquoted = bare.strip_prefix('"').and_then(|b| b.strip_suffix('"'));
        unquoted.unwrap_or(bare).trim() == self.value
    }
}

fn host(domain: &str) -> String {
    format!("{CHALLENGE_LABEL}.{domain}")
}

/// The domains of an account, and the maximum number of domains in the account's plan.
#[derive(Clone, Debug)]
pub struct AccountDomains {
    /// The account's domains, including pending claims. The newest domain is first.
    pub domains: Vec<Domain>,
    /// The maximum number of domains in the account's plan.
    pub limit: u32,
}

/// The result of claiming a domain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Claim {
    /// The claim is new and pending.
    New(Domain),
    /// The account already owns or claims the domain.
    Existing(Domain),
    /// The name is not a valid domain, or the domain is a platform domain.
    Invalid,
    /// Another account has already verified the domain.
    Taken,
    /// The account's plan includes no custom domains.
    NotInPlan,
    /// The account has the maximum number of domains in its plan.
    Full,
}

/// A domain and the state of its DNS records.
#[derive(Clone, Debug)]
pub struct Inspected {
    /// The domain.
    pub domain: Domain,
    /// The records that the domain needs.
    pub records: Vec<Record>,
}

/// The result of verifying a claim.
#[derive(Clone, Debug)]
pub enum Verification {
    /// The domain is active. The domain may have been active before this request.
    Active(Inspected),
    /// The challenge record was not found.
    Missing,
    /// Another account verified the domain first.
    Taken,
    /// The domain is now a platform domain.
    Invalid,
    /// The account neither owns nor claims this domain.
    Unknown,
    /// The DNS cannot be queried at present, or the account has reached the limit of concurrent
    /// lookups.
    Unreadable,
}

/// The result of a lookup of a domain's DNS records.
#[derive(Clone, Debug)]
pub enum Inspection {
    /// The domain and the state of its records.
    Found(Inspected),
    /// The account neither owns nor claims this domain.
    Unknown,
    /// The account has reached its limit of concurrent lookups.
    Busy,
}

/// The service for custom domains.
#[derive(Debug)]
pub struct Domains {
    directory: Directory,
    dns: Arc<Dns>,
    keys: Arc<Keyring>,
    /// The DKIM signing keys. Activating a domain stores its key for the milter, and releasing a
    /// domain removes its key from memory.
    signing: Arc<latchmail_dkim::Keys>,
    plans: Plans,
    clock: Clock,
    /// For each claim, the time on the monotonic clock at which the challenge record was last
    /// missing. The cache key of a claim contains the account's id and the domain.
    failed: Cache<String, Duration>,
    /// Ensures that only one check of a claim runs at a time. A waiting check uses the result of
    /// the previous check.
    checks: AccountPermits,
    /// For each claim, the value of `unreadable_count` after the last check of the claim that could
    /// not query the DNS. A caller that waited for this check does not repeat the lookup.
    unreadable: Cache<String, u64>,
    /// The number of checks that could not query the DNS.
    unreadable_count: AtomicU64,
    lookups: AccountPermits,
}

impl Domains {
    /// Creates the operations on domains.
    #[must_use]
    pub fn new(
        config: &Config,
        directory: Directory,
        dns: Arc<Dns>,
        keys: Arc<Keyring>,
        signing: Arc<latchmail_dkim::Keys>,
        clock: Clock,
    ) -> Self {
        Self {
            directory,
            dns,
            keys,
            signing,
            plans: Plans::of(config),
            clock,
            failed: Cache::new(CACHE_CAPACITY),
            checks: AccountPermits::new(1),
            unreadable: Cache::new(CACHE_CAPACITY),
            unreadable_count: AtomicU64::new(0),
            lookups: AccountPermits::new(MAX_LOOKUPS),
        }
    }

    /// Returns an account's domains and the limit of the account's plan.
    ///
    /// # Errors
    /// Returns 500 if the database fails.
    pub async fn list(&self, account: &str) -> Result<AccountDomains, Failure> {
        Ok(AccountDomains {
            limit: self.limit(account).await?,
            domains: self.directory.domains.list(account).await?,
        })
    }

    /// Claims the domain `name` for the account of the session.
    ///
    /// # Errors
    /// Returns 401 if the session ended concurrently, or 500 for an internal error. On error, the
    /// domain is not claimed.
    pub async fn claim(
        &self,
        session: Session<'_>,
        name: &str,
        origin: &Origin,
    ) -> Result<Claim, Failure> {
        let Some(name) = folded(name) else {
            return Ok(Claim::Invalid);
        };
        let at_most = self.limit(session.account).await?;
        let challenge = secrets::letters_and_digits(CHALLENGE_LENGTH)?;
        let claimed =
            self.directory
                .domains
                .claim(self.by(session), &name, &challenge, at_most, origin);
        Ok(match claimed.await? {
            Claimed::New(domain) => Claim::New(domain),
            Claimed::Existing(domain) => Claim::Existing(domain),
            Claimed::Platform => Claim::Invalid,
            Claimed::Taken => Claim::Taken,
            Claimed::Full if at_most == 0 => Claim::NotInPlan,
            Claimed::Full => Claim::Full,
            Claimed::SessionOver => return Err(session_over()),
        })
    }

    /// Returns a domain of an account and the current state of the domain's DNS records.
    ///
    /// # Errors
    /// Returns 500 if the database fails.
    pub async fn inspect(&self, account: &str, name: &str) -> Result<Inspection, Failure> {
        let Some(domain) = self.of(account, name).await? else {
            return Ok(Inspection::Unknown);
        };
        let Some(_permit) = self.lookup_permit(account).await else {
            return Ok(Inspection::Busy);
        };
        Ok(Inspection::Found(self.inspected(domain).await))
    }

    /// Looks up the challenge record of a claimed domain, and activates the domain if the record is
    /// found. Does not repeat the lookup if the record was missing less than `FAILURE_LIFETIME`
    /// ago.
    ///
    /// # Errors
    /// Returns 401 if the session ended concurrently, or 500 for an internal error. On error,
    /// nothing is changed.
    pub async fn verify(
        &self,
        session: Session<'_>,
        name: &str,
        origin: &Origin,
    ) -> Result<Verification, Failure> {
        let Some(domain) = self.of(session.account, name).await? else {
            return Ok(Verification::Unknown);
        };
        let started_at = self.unreadable_count.load(Ordering::SeqCst);
        let Some(_permit) = self.lookup_permit(session.account).await else {
            return Ok(Verification::Unreadable);
        };
        match self
            .checked(session, &domain.name, started_at, origin)
            .await?
        {
            Ok(domain) => Ok(Verification::Active(self.inspected(domain).await)),
            Err(verification) => Ok(verification),
        }
    }

    /// Checks a claim and returns the active domain, or the reason why the domain is not active.
    /// Only one check of a claim runs at a time.
    async fn checked(
        &self,
        session: Session<'_>,
        name: &str,
        started_at: u64,
        origin: &Origin,
    ) -> Result<Result<Domain, Verification>, Failure> {
        let check = format!("{} {name}", session.account);
        let _permit = self.checks.acquire(&check).await;
        // Read the claim again, because it can change while this call waits for the permit.
        let Some(domain) = self.directory.domains.find(session.account, name).await? else {
            return Ok(Err(Verification::Unknown));
        };
        let Some(challenge) = Challenge::of(&domain) else {
            return Ok(Ok(domain));
        };
        if self.failed_lately(&check) {
            return Ok(Err(Verification::Missing));
        }
        if self
            .unreadable
            .get(&check)
            .is_some_and(|at| at > started_at)
        {
            return Ok(Err(Verification::Unreadable));
        }
        match self.is_published(&challenge).await {
            None => {
                let at = self.unreadable_count.fetch_add(1, Ordering::SeqCst) + 1;
                self.unreadable.insert(check, at);
                return Ok(Err(Verification::Unreadable));
            }
            Some(false) => {
                self.failed.insert(check, self.clock.monotonic());
                return Ok(Err(Verification::Missing));
            }
            Some(true) => {}
        }
        let verified = self.activate(self.by(session), &domain, origin).await?;
        Ok(match verified {
            Verified::Active(domain) => Ok(domain),
            Verified::Taken => Err(Verification::Taken),
            Verified::Platform => Err(Verification::Invalid),
            Verified::Gone => Err(Verification::Unknown),
            Verified::SessionOver => return Err(session_over()),
        })
    }

    /// Returns a permit to query the DNS, or `None` if no permit becomes available within
    /// `PERMIT_TIMEOUT`.
    async fn lookup_permit(&self, account: &str) -> Option<OwnedSemaphorePermit> {
        let permit = self.lookups.acquire(account);
        timeout(PERMIT_TIMEOUT, permit).await.ok().flatten()
    }

    /// Releases a domain or a pending claim.
    ///
    /// # Errors
    /// Returns 401 if the session ended concurrently, or 500 for an internal error. On error,
    /// nothing is changed.
    pub async fn release(
        &self,
        session: Session<'_>,
        name: &str,
        origin: &Origin,
    ) -> Result<Released, Failure> {
        let Some(name) = folded(name) else {
            return Ok(Released::Unknown);
        };
        let by = self.by(session);
        let released = self
            .directory
            .domains
            .release(by, &name, Remaining::Keep, origin);
        match released.await? {
            Released::SessionOver => Err(session_over()),
            Released::Released => {
                self.signing.evict(&name);
                Ok(Released::Released)
            }
            released => Ok(released),
        }
    }

    /// Looks up the DNS records that a domain needs. An inactive domain has no DKIM key and needs
    /// no DKIM record.
    pub async fn inspected(&self, domain: Domain) -> Inspected {
        let key = domain
            .dkim
            .as_ref()
            .map(|key| (key.selector.as_str(), key.key.as_str()));
        let records = self.dns.check_records(&domain.name, key).await;
        Inspected { domain, records }
    }

    /// Returns `true` if the challenge record is published. Returns `None` if the DNS cannot be
    /// queried.
    pub async fn is_published(&self, challenge: &Challenge) -> Option<bool> {
        match self.dns.txt(&challenge.host).await {
            Ok(published) => Some(published.iter().any(|text| challenge.is(text))),
            Err(unreadable) => {
                tracing::warn!("failed to check a domain claim: {unreadable}");
                None
            }
        }
    }

    /// Activates a claimed domain with a new DKIM key. The caller must verify the claim before this
    /// call.
    ///
    /// # Errors
    /// Returns 500 for an internal error. On error, nothing is changed.
    pub async fn activate(
        &self,
        by: DomainCaller<'_>,
        domain: &Domain,
        origin: &Origin,
    ) -> Result<Verified, Failure> {
        let pair = KeyPair::generate().await.map_err(Failure::internal)?;
        let keys = NewKeys {
            public: PublicKey {
                selector: pair.selector().to_owned(),
                key: pair.public_key().to_owned(),
            },
            sealed_private_key: pair.sealed(&self.keys, &domain.name)?,
        };
        let activated =
            self.directory
                .domains
                .activate(by, &domain.name, &domain.challenge, &keys, origin);
        let activated = activated.await?;
        // If `add_to_milter` fails, the domain remains active. The hourly cleanup then stores the
        // key for the milter.
        if let Verified::Active(domain) = &activated
            && let Err(error) = self.signing.add_to_milter(&domain.name).await
        {
            tracing::error!(domain = domain.name, %error, "failed to give the domain's DKIM key to the milter");
        }
        Ok(activated)
    }

    async fn of(&self, account: &str, name: &str) -> Result<Option<Domain>, Failure> {
        match folded(name) {
            Some(name) => Ok(self.directory.domains.find(account, &name).await?),
            None => Ok(None),
        }
    }

    /// Returns the maximum number of domains in the account's plan.
    async fn limit(&self, account: &str) -> Result<u32, Failure> {
        let plan = self
            .directory
            .accounts
            .plan(account)
            .await?
            .unwrap_or_default();
        Ok(self.plans.named(&plan, account).custom_domains)
    }

    fn by<'a>(&self, session: Session<'a>) -> DomainCaller<'a> {
        DomainCaller {
            account_id: session.account,
            sid: Some(session.sid),
            at: self.clock.now(),
        }
    }

    fn failed_lately(&self, check: &str) -> bool {
        let lately = |at: Duration| self.clock.monotonic().saturating_sub(at) < FAILURE_LIFETIME;
        self.failed.get(check).is_some_and(lately)
    }
}

/// Returns the domain in canonical form, or `None` if the domain cannot be claimed. Rejects domains
/// that are too long for the name of a challenge record.
fn folded(name: &str) -> Option<String> {
    let name = String::from(dns::DomainName::parse(name).ok()?);
    (host(&name).len() <= LONGEST_NAME).then_some(name)
}

#[cfg(test)]
mod tests {
    use latchmail_core::clock::Timestamp;

    use super::*;

    fn claim(name: &str) -> Domain {
        Domain {
            name: name.into(),
            challenge: "Token".into(),
            created_at: Timestamp::from_millis(0),
            verified_at: None,
            dkim: None,
        }
    }

    #[test]
    fn a_challenge_is_what_is_published_with_or_without_quotes_and_nothing_else() {
        let challenge = Challenge::of(&claim("ada.example")).unwrap();
        assert_eq!(challenge.host, "_latchmail-challenge.ada.example");
        assert_eq!(challenge.value, "latchmail-verify=Token");
        for published in [
            "latchmail-verify=Token",
            " latchmail-verify=Token\t",
            "\"latchmail-verify=Token\"",
            "\" latchmail-verify=Token \"",
        ] {
            assert!(challenge.is(published), "{published:?}");
        }
        for published in [
            "",
            "\"",
            "\"\"",
            "latchmail-verify=token",
            "LATCHMAIL-VERIFY=Token",
            "latchmail-verify=Tokens",
            "latchmail-verify=Toke",
            "latchmail-verify= Token",
            "\"latchmail-verify=Token",
            "x latchmail-verify=Token",
        ] {
            assert!(!challenge.is(published), "{published:?}");
        }
    }

    #[test]
    fn what_is_proved_needs_no_challenge() {
        let mut active = claim("ada.example");
        active.verified_at = Some(active.created_at);
        assert_eq!(Challenge::of(&active), None);
    }

    #[test]
    fn a_name_is_one_that_has_room_for_its_challenge() {
        let label = "x".repeat(63);
        let name = |last: usize| format!("{label}.{label}.{label}.{}.example", "y".repeat(last));
        assert_eq!(folded(&name(32)).as_deref(), Some(name(32).as_str()));
        assert_eq!(folded(&name(33)), None);
        assert_eq!(folded("ADA.example").as_deref(), Some("ada.example"));
        assert_eq!(folded("not a domain"), None);
    }
}
