//! Custom domains: what a claim takes, how it is proved, which records a domain needs and whether they are there. Puts the directory, the DNS, the
//! keys that sign, and plans together.
//!
//! Knows neither HTTP nor WIT, and gives no account: whose a domain is decides the directory, in one transaction.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use quick_cache::sync::Cache;
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::timeout;

use crate::auth::account::{Session, session_over};
use crate::auth::keyring::Keyring;
use crate::auth::secrets;
use crate::caller::Origin;
use crate::clock::Clock;
use crate::config::Config;
use crate::directory::Directory;
use crate::directory::domains::{
    By, Claimed, Domain, NewKeys, PublicKey, Released, Remaining, Verified,
};
use crate::dkim::{self, KeyPair};
use crate::dns::{self, Dns, Record};
use crate::error::Failure;
use crate::plans::Plans;
use crate::turns::Turns;

/// The label before the domain that its owner publishes the challenge under.
const CHALLENGE_LABEL: &str = "_latchmail-challenge";
/// What stands before the token there.
const CHALLENGE_PREFIX: &str = "latchmail-verify=";
/// 256 random bits.
const CHALLENGE_LENGTH: usize = 43;

/// Characters of a name in the DNS (RFC 1035, section 2.3.4), as it is written.
const LONGEST_NAME: usize = 253;

/// How long a failed check answers in place of another look.
const REMEMBERED: Duration = Duration::from_secs(30);
/// Requests of one account that look into the DNS at a time. Somebody's name server may be slow, and all of a module's sandboxes are not to wait
/// for it.
const LOOKING: usize = 2;
/// How long another one waits, in its sandbox, before it is told to come back.
const PATIENCE: Duration = Duration::from_secs(1);
/// Failed checks that are remembered at a time.
const MOST_REMEMBERED: usize = 10_000;

/// A TXT record that proves a claim.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Challenge {
    /// Where it is to be published.
    pub host: String,
    /// What it is to say.
    pub value: String,
}

impl Challenge {
    /// What proves a claim; none once it is proved.
    #[must_use]
    pub fn of(domain: &Domain) -> Option<Self> {
        domain.verified_at.is_none().then(|| Self {
            host: host(&domain.name),
            value: format!("{CHALLENGE_PREFIX}{}", domain.challenge),
        })
    }

    /// Whether a TXT record is this. Some panels publish the quotes that they are typed in.
    fn is(&self, published: &str) -> bool {
        let bare = published.trim();
        let unquoted = bare.strip_prefix('"').and_then(|b| b.strip_suffix('"'));
        unquoted.unwrap_or(bare).trim() == self.value
    }
}

fn host(domain: &str) -> String {
    format!("{CHALLENGE_LABEL}.{domain}")
}

/// The domains of an account and how many its plan allows.
#[derive(Clone, Debug)]
pub struct Held {
    /// Newest first, pending claims among them.
    pub domains: Vec<Domain>,
    /// How many it may have.
    pub limit: u32,
}

/// What came of a claim.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Claim {
    /// It is pending now.
    Fresh(Domain),
    /// The account held it already.
    Standing(Domain),
    /// It is no domain of anybody's own.
    Invalid,
    /// It is another account's.
    Taken,
    /// The account's plan has no custom domains.
    NotInPlan,
    /// All that the plan has are in use.
    Full,
}

/// A domain with the state of its records.
#[derive(Clone, Debug)]
pub struct Inspected {
    /// The domain.
    pub domain: Domain,
    /// The records that it needs.
    pub records: Vec<Record>,
}

/// What came of verifying.
#[derive(Clone, Debug)]
pub enum Verification {
    /// It is active, by this or since before.
    Active(Inspected),
    /// The challenge is not found.
    Missing,
    /// Somebody else was first.
    Taken,
    /// It is the platform's meanwhile.
    Invalid,
    /// The account has no such domain.
    Unknown,
    /// The DNS cannot be read now, or the account has as much looked up as it may at a time.
    Unreadable,
}

/// What came of reading a domain's records.
#[derive(Clone, Debug)]
pub enum Inspection {
    /// The domain, and how it stands.
    Found(Inspected),
    /// The account has no such domain.
    Unknown,
    /// The account has as much looked up as it may at a time.
    Busy,
}

/// Custom domains.
#[derive(Debug)]
pub struct Domains {
    directory: Directory,
    dns: Arc<Dns>,
    keys: Arc<Keyring>,
    /// What is told of a key that was made.
    signing: Arc<dkim::Keys>,
    plans: Plans,
    clock: Clock,
    /// When checks failed last, by account and domain.
    failed: Cache<String, Duration>,
    /// Checks of one claim take turns: the second finds what came of the first.
    checking: Turns,
    /// Which of the checks that could not read the DNS was a claim's last, so that whoever waited for it does not look again.
    unreadable: Cache<String, u64>,
    /// How many there were.
    unread: AtomicU64,
    looking: Turns,
}

impl Domains {
    /// Puts the rooms together.
    #[must_use]
    pub fn new(
        config: &Config,
        directory: Directory,
        dns: Arc<Dns>,
        keys: Arc<Keyring>,
        signing: Arc<dkim::Keys>,
        clock: Clock,
    ) -> Self {
        Self {
            directory,
            dns,
            keys,
            signing,
            plans: Plans::of(config),
            clock,
            failed: Cache::new(MOST_REMEMBERED),
            checking: Turns::new(1),
            unreadable: Cache::new(MOST_REMEMBERED),
            unread: AtomicU64::new(0),
            looking: Turns::new(LOOKING),
        }
    }

    /// An account's domains and how many its plan allows.
    ///
    /// # Errors
    /// 500.
    pub async fn list(&self, account: &str) -> Result<Held, Failure> {
        Ok(Held {
            limit: self.limit(account).await?,
            domains: self.directory.domains(account).await?,
        })
    }

    /// Claims a domain for the account of a session.
    ///
    /// # Errors
    /// 401 where the session ended meanwhile; 500. Nothing was claimed then.
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
                .claim_domain(self.by(session), &name, &challenge, at_most, origin);
        Ok(match claimed.await? {
            Claimed::Fresh(domain) => Claim::Fresh(domain),
            Claimed::Standing(domain) => Claim::Standing(domain),
            Claimed::Platform => Claim::Invalid,
            Claimed::Taken => Claim::Taken,
            Claimed::Full if at_most == 0 => Claim::NotInPlan,
            Claimed::Full => Claim::Full,
            Claimed::SessionOver => return Err(session_over()),
        })
    }

    /// A domain of an account, its records looked up now.
    ///
    /// # Errors
    /// 500.
    pub async fn inspect(&self, account: &str, name: &str) -> Result<Inspection, Failure> {
        let Some(domain) = self.of(account, name).await? else {
            return Ok(Inspection::Unknown);
        };
        let Some(_turn) = self.turn_to_look(account).await else {
            return Ok(Inspection::Busy);
        };
        Ok(Inspection::Found(self.inspected(domain).await))
    }

    /// Looks for the challenge of a claim, unless it was looked for in vain moments ago, and makes the domain active where it is found.
    ///
    /// # Errors
    /// 401 where the session ended meanwhile; 500. Nothing was changed then.
    pub async fn verify(
        &self,
        session: Session<'_>,
        name: &str,
        origin: &Origin,
    ) -> Result<Verification, Failure> {
        let Some(domain) = self.of(session.account, name).await? else {
            return Ok(Verification::Unknown);
        };
        let asked_at = self.unread.load(Ordering::SeqCst);
        let Some(_turn) = self.turn_to_look(session.account).await else {
            return Ok(Verification::Unreadable);
        };
        match self
            .checked(session, &domain.name, asked_at, origin)
            .await?
        {
            Ok(domain) => Ok(Verification::Active(self.inspected(domain).await)),
            Err(verification) => Ok(verification),
        }
    }

    /// The domain of a claim, active; or why it is not. Whoever comes second has its turn before the first has its records looked up.
    async fn checked(
        &self,
        session: Session<'_>,
        name: &str,
        asked_at: u64,
        origin: &Origin,
    ) -> Result<Result<Domain, Verification>, Failure> {
        let check = format!("{} {name}", session.account);
        let _turn = self.checking.turn(&check).await;
        // What stood before there was a turn may have changed.
        let Some(domain) = self.directory.domain(session.account, name).await? else {
            return Ok(Err(Verification::Unknown));
        };
        let Some(challenge) = Challenge::of(&domain) else {
            return Ok(Ok(domain));
        };
        if self.failed_lately(&check) {
            return Ok(Err(Verification::Missing));
        }
        if self.unreadable.get(&check).is_some_and(|at| at > asked_at) {
            return Ok(Err(Verification::Unreadable));
        }
        match self.proved(&challenge).await {
            None => {
                let at = self.unread.fetch_add(1, Ordering::SeqCst) + 1;
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

    /// One of the account's turns to look into the DNS. None where others keep them too long.
    async fn turn_to_look(&self, account: &str) -> Option<OwnedSemaphorePermit> {
        let turn = self.looking.turn(account);
        timeout(PATIENCE, turn).await.ok().flatten()
    }

    /// Gives a domain up.
    ///
    /// # Errors
    /// 401 where the session ended meanwhile; 500. It is as it was then.
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
            .release_domain(by, &name, Remaining::Keep, origin);
        match released.await? {
            Released::SessionOver => Err(session_over()),
            Released::Released => {
                self.signing.released(&name);
                Ok(Released::Released)
            }
            released => Ok(released),
        }
    }

    /// The records that a domain needs, each looked up now. Before it is active there is no key to publish.
    pub async fn inspected(&self, domain: Domain) -> Inspected {
        let key = domain
            .dkim
            .as_ref()
            .map(|key| (key.selector.as_str(), key.key.as_str()));
        let records = self.dns.states(&domain.name, key).await;
        Inspected { domain, records }
    }

    /// Whether a challenge is published now; none where the DNS cannot be read.
    pub async fn proved(&self, challenge: &Challenge) -> Option<bool> {
        match self.dns.txt(&challenge.host).await {
            Ok(published) => Some(published.iter().any(|text| challenge.is(text))),
            Err(unreadable) => {
                tracing::warn!("a claim cannot be checked: {unreadable}");
                None
            }
        }
    }

    /// Makes a claimed domain active, with a new key, whoever checked the claim.
    ///
    /// # Errors
    /// 500; it is as it was then.
    pub async fn activate(
        &self,
        by: By<'_>,
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
                .activate_domain(by, &domain.name, &domain.challenge, &keys, origin);
        let activated = activated.await?;
        // The domain is active whatever becomes of this; the hourly round makes up for it.
        if let Verified::Active(domain) = &activated
            && let Err(error) = self.signing.verified(&domain.name).await
        {
            tracing::error!(domain = domain.name, %error, "a milter was not given the domain's key");
        }
        Ok(activated)
    }

    async fn of(&self, account: &str, name: &str) -> Result<Option<Domain>, Failure> {
        match folded(name) {
            Some(name) => Ok(self.directory.domain(account, &name).await?),
            None => Ok(None),
        }
    }

    /// How many domains an account may have.
    async fn limit(&self, account: &str) -> Result<u32, Failure> {
        let plan = self.directory.plan(account).await?.unwrap_or_default();
        Ok(self.plans.named(&plan, account).custom_domains)
    }

    fn by<'a>(&self, session: Session<'a>) -> By<'a> {
        By {
            account_id: session.account,
            sid: Some(session.sid),
            at: self.clock.now(),
        }
    }

    fn failed_lately(&self, check: &str) -> bool {
        let lately = |at: Duration| self.clock.monotonic().saturating_sub(at) < REMEMBERED;
        self.failed.get(check).is_some_and(lately)
    }
}

/// The name as it is kept, where it is one that can be claimed: what proves a claim has to have room in a name too.
fn folded(name: &str) -> Option<String> {
    let name = String::from(dns::fold(name).ok()?);
    (host(&name).len() <= LONGEST_NAME).then_some(name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::Timestamp;

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
