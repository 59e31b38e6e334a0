//! The record of security events: who did what to which account, when, from where. Written in the transaction of what it tells of, so
//! that nothing happens unrecorded and nothing is recorded that did not happen. Never a secret.
//!
//! Strangers can fail as often as the limits let them. Of an account and for one reason they get [`LISTED`] rows a day; then the newest row stands for those
//! after it. Attempts on addresses that no account has are counted by client network instead, [`LISTED`] rows a day for each and
//! [`LISTED_OF_STRANGERS`] for all: a stranger can make up as many addresses as there are.

use std::net::IpAddr;

use super::db::{Tx, on, on_tx};
use super::{Directory, Error};
use crate::caller::Origin;
use crate::clock::Timestamp;
use crate::limits::network;

/// Failures of one kind, on one account and for one reason, that have rows of their own in a day (UTC); also those of one network on addresses that no
/// account has.
const LISTED: i64 = 100;
/// Failures on addresses that no account has, that have rows of their own in a day (UTC).
const LISTED_OF_STRANGERS: i64 = 10_000;
const DAY: i64 = 24 * 60 * 60 * 1000;

/// Events forgotten in one transaction: what others wait for on SQLite.
const BATCH: i64 = 1000;
/// Transactions of one forgetting. What is left waits for the next.
const BATCHES: usize = 50;

/// The newest of some rows of a day ($11 to $12) becomes the newest failure's, and counts the one that it told of.
macro_rules! one_more {
    ($rows:literal, $order:literal) => {
        concat!(
            "UPDATE security_events SET unlisted = unlisted + 1, at = $4, account_id = $5, actor = $6, credential = $7, client = $8, request_id = $9, \
                subject = $10, address = $1, kind = $2, detail = $3, network = $14 \
            WHERE id = (SELECT id FROM security_events WHERE ", $rows, " AND at >= $11 AND at < $12 ORDER BY ", $order, " at DESC, id DESC LIMIT 1) \
            AND $13 <= (SELECT COUNT(*) FROM security_events WHERE ", $rows, " AND at >= $11 AND at < $12)"
        )
    };
}
const ONE_MORE: &str = one_more!("address = $1 AND kind = $2 AND detail = $3", "");
const ONE_MORE_OF_NETWORK: &str = one_more!(
    "account_id IS NULL AND kind = 'sign_in_failed' AND network = $14",
    ""
);
const ONE_MORE_OF_ALL: &str = one_more!(
    "account_id IS NULL AND kind = 'sign_in_failed'",
    "network = $14 DESC,"
);
/// The address is the account's, as it is at the moment, or the one that was tried.
const INSERT: &str = "INSERT INTO security_events \
    (at, kind, account_id, address, actor, credential, client, request_id, subject, detail, network) \
    VALUES ($1, $2, $3, COALESCE((SELECT address FROM accounts WHERE id = $3), $4), $5, $6, $7, $8, $9, $10, $11)";
const ACCOUNT: &str = "SELECT id FROM accounts WHERE address = $1";

/// Where an account's owner was before: the clients of its latest registration and sign-ins.
const CLIENTS: &str = "SELECT client FROM security_events WHERE account_id = (SELECT id FROM accounts WHERE address = $1) \
    AND kind IN ('account_created', 'signed_in', 'client_agreed_to') AND client IS NOT NULL ORDER BY at DESC, id DESC LIMIT 500";

/// The newest of some: $1 is whose.
macro_rules! list {
    ($whose:literal) => {
        concat!(
            "SELECT id, at, kind, address, actor, credential, client, request_id, subject, detail, unlisted FROM security_events WHERE ",
            $whose,
            " AND at >= $2 AND at < $3 ORDER BY at DESC, id DESC LIMIT $4"
        )
    };
}
const LIST_ALL: &str = list!("$1 = ''");
/// An address may have been another account's before; what was tried before there was an account is nobody's.
const LIST_ACCOUNT: &str = list!(
    "(account_id = $1 OR (account_id IS NULL AND address = (SELECT address FROM accounts WHERE id = $1)))"
);
const LIST_ADDRESS: &str = list!("address = $1");
const FORGET: &str = "DELETE FROM security_events \
    WHERE id IN (SELECT id FROM security_events WHERE at < $1 ORDER BY at, id LIMIT $2)";

macro_rules! kinds {
    ($($(#[$doc:meta])* $kind:ident = $name:literal),* $(,)?) => {
        /// What happened.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Kind {
            $($(#[$doc])* $kind),*
        }

        impl Kind {
            /// Its name in the record.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$kind => $name),*
                }
            }
        }
    };
}

kinds! {
    /// A web session was begun.
    SignedIn = "signed_in",
    /// Somebody tried to, with a wrong password or code.
    SignInFailed = "sign_in_failed",
    /// Every web session was ended by its owner.
    SignedOut = "signed_out",
    /// A refresh token was used a second time, and its session ended.
    RefreshTokenReused = "refresh_token_reused",
    /// An account was made, by its owner or the operator.
    AccountCreated = "account_created",
    /// It was disabled, and every credential of it ended.
    AccountDisabled = "account_disabled",
    /// It was enabled again.
    AccountEnabled = "account_enabled",
    /// It was deleted.
    AccountDeleted = "account_deleted",
    /// Its plan or its rank was changed.
    AccountChanged = "account_changed",
    /// An address that was kept from others was freed.
    AddressFreed = "address_freed",
    /// The operator holds an address, so that nobody has it.
    AddressHeld = "address_held",
    /// A domain was claimed.
    DomainClaimed = "domain_claimed",
    /// It was verified, and is the account's from then on.
    DomainVerified = "domain_verified",
    /// A claim was voided: somebody else verified the domain, or it became the platform's.
    DomainClaimVoided = "domain_claim_voided",
    /// A domain, or the claim of one, was given up.
    DomainReleased = "domain_released",
    /// The operator made a domain the platform's.
    PlatformDomainAdded = "platform_domain_added",
    /// It is no longer.
    PlatformDomainRemoved = "platform_domain_removed",
    /// Its profile was made or changed.
    ProfileChanged = "profile_changed",
    /// Its password was changed.
    PasswordChanged = "password_changed",
    /// Somebody signed in tried to, with a wrong current password.
    PasswordChangeFailed = "password_change_failed",
    /// A second factor was switched on.
    TwoFactorOn = "two_factor_on",
    /// It was switched off.
    TwoFactorOff = "two_factor_off",
    /// New recovery codes were made, and the old ones voided.
    RecoveryCodesMade = "recovery_codes_made",
    /// An API token was made.
    TokenCreated = "token_created",
    /// It was revoked.
    TokenRevoked = "token_revoked",
    /// A mail client's app password was made.
    AppPasswordCreated = "app_password_created",
    /// It was revoked.
    AppPasswordRevoked = "app_password_revoked",
    /// A web session was ended on its own.
    SessionRevoked = "session_revoked",
    /// Somebody signed in for a client of the authorization server.
    ClientAgreedTo = "client_agreed_to",
    /// A client got its first tokens of that.
    OAuthGrantMade = "oauth_grant_made",
    /// The operator ended what a client was granted, or it was one of too many.
    OAuthGrantEnded = "oauth_grant_ended",
    /// A code or a refresh token of a client was used a second time, and what it was granted ended.
    OAuthGrantReused = "oauth_grant_reused",
    /// The operator made a client that has a secret.
    ClientAdded = "client_added",
    /// The operator removed a client, and ended everything that was granted to it.
    ClientRemoved = "client_removed",
    /// An alias was made, or made again.
    AliasCreated = "alias_created",
    /// It was switched on.
    AliasEnabled = "alias_enabled",
    /// It was switched off.
    AliasDisabled = "alias_disabled",
    /// It was deleted.
    AliasDeleted = "alias_deleted",
    /// Somebody became a guest of the account's mailbox, with a first grant.
    MemberAdded = "member_added",
    /// They are no longer.
    MemberRemoved = "member_removed",
    /// A guest was granted more.
    GrantAdded = "grant_added",
    /// A grant got other rights.
    GrantChanged = "grant_changed",
    /// It was taken back.
    GrantRevoked = "grant_revoked",
    /// An app password was made that acts for the mailbox's guests.
    TeamKeyCreated = "team_key_created",
    /// Somebody signed in tried to invite a guest, with a wrong password of their own.
    InvitationFailed = "invitation_failed",
    /// A guest sent a message from an address of the account's.
    SentByGuest = "sent_by_guest",
    /// A version of a module was installed and serves from then on.
    ModuleInstalled = "module_installed",
    /// An earlier version serves again.
    ModuleRolledBack = "module_rolled_back",
    /// A module was switched on.
    ModuleEnabled = "module_enabled",
    /// It was switched off.
    ModuleDisabled = "module_disabled",
    /// It was removed, with every version of it.
    ModuleRemoved = "module_removed",
}

/// Something that happened.
#[derive(Clone, Copy, Debug)]
pub struct Event<'a> {
    /// What.
    pub kind: Kind,
    /// To which account; none where there is no such account.
    pub account: Option<&'a str>,
    /// The address that somebody tried, where there is no such account.
    pub address: &'a str,
    /// What it is about: the id of a token or an app password, an address.
    pub subject: Option<&'a str>,
    /// For a person to read: a label, what was wrong.
    pub detail: Option<&'a str>,
    /// When.
    pub at: Timestamp,
}

impl<'a> Event<'a> {
    /// One that concerns an account, and nothing of it in particular.
    #[must_use]
    pub const fn of(kind: Kind, account: &'a str, at: Timestamp) -> Self {
        Self {
            kind,
            account: Some(account),
            address: "",
            subject: None,
            detail: None,
            at,
        }
    }

    /// The same about something of the account.
    #[must_use]
    pub const fn about(mut self, subject: &'a str) -> Self {
        self.subject = Some(subject);
        self
    }

    /// The same with a word for people.
    #[must_use]
    pub const fn detail(mut self, detail: &'a str) -> Self {
        self.detail = Some(detail);
        self
    }
}

/// An event as it was recorded.
#[derive(Clone, Debug, sqlx_macros::FromRow)]
pub struct Recorded {
    /// In the order of recording.
    pub id: i64,
    /// When, in milliseconds since the epoch.
    pub at: i64,
    /// What: the name of a [`Kind`].
    pub kind: String,
    /// Whose account it was, or which address was tried.
    pub address: String,
    /// Who did it: an address, `operator`, `service`; empty for a stranger.
    pub actor: String,
    /// The credential that the actor came with.
    pub credential: Option<String>,
    /// The client's IP address.
    pub client: Option<String>,
    /// The request, as in the log.
    pub request_id: Option<String>,
    /// What it was about: an id, an address.
    pub subject: Option<String>,
    /// For a person to read.
    pub detail: Option<String>,
    /// The same that day that have no rows of their own: there were too many.
    pub unlisted: i64,
}

/// Which events are asked for.
#[derive(Clone, Debug)]
pub struct Wanted {
    /// Of the account that has this address; where none has it, of those that had it and of attempts on it. Empty: of all.
    pub address: String,
    /// Not before this.
    pub since: Timestamp,
    /// Before this.
    pub until: Timestamp,
    /// At most so many, the newest.
    pub limit: u32,
}

impl Directory {
    /// Records an event that comes with no change.
    ///
    /// # Errors
    /// [`Error`] where the database fails.
    pub async fn record(&self, event: Event<'_>, origin: &Origin) -> Result<(), Error> {
        commit(self.db.begin().await?, event, origin).await
    }

    /// What was recorded, newest first.
    ///
    /// # Errors
    /// [`Error`] where the database fails.
    pub async fn events(&self, wanted: &Wanted) -> Result<Vec<Recorded>, Error> {
        let account: Option<String> = on!(&self.db, pool => sqlx::query_scalar(ACCOUNT)
            .bind(&wanted.address)
            .fetch_optional(pool).await)?;
        let (query, whose) = match &account {
            _ if wanted.address.is_empty() => (LIST_ALL, &wanted.address),
            Some(account) => (LIST_ACCOUNT, account),
            None => (LIST_ADDRESS, &wanted.address),
        };
        Ok(on!(&self.db, pool => sqlx::query_as(query)
            .bind(whose)
            .bind(wanted.since.millis())
            .bind(wanted.until.millis())
            .bind(i64::from(wanted.limit))
            .fetch_all(pool).await)?)
    }

    /// Whether an account's owner registered or signed in from a client's network before.
    ///
    /// # Errors
    /// [`Error`] if the database fails.
    pub async fn signed_in_from(&self, address: &str, client: IpAddr) -> Result<bool, Error> {
        let clients: Vec<String> = on!(&self.db, pool => sqlx::query_scalar(CLIENTS)
            .bind(address)
            .fetch_all(pool).await)?;
        let is_there = |before: &String| {
            before
                .parse()
                .is_ok_and(|before| network(before) == network(client))
        };
        Ok(clients.iter().any(is_there))
    }

    /// Forgets what happened before an instant, up to a bound.
    ///
    /// # Errors
    /// [`Error`] where the database fails; what was forgotten before stays so.
    pub async fn forget_events(&self, before: Timestamp) -> Result<(), Error> {
        for _ in 0..BATCHES {
            let forgotten = on!(&self.db, pool => sqlx::query(FORGET)
                .bind(before.millis())
                .bind(BATCH)
                .execute(pool).await.map(|done| done.rows_affected()))?;
            if forgotten == 0 {
                break;
            }
        }
        Ok(())
    }
}

/// Makes a change last, and with it the event that tells of it.
pub(super) async fn commit(mut tx: Tx, event: Event<'_>, origin: &Origin) -> Result<(), Error> {
    record(&mut tx, event, origin).await?;
    tx.commit().await
}

/// Records an event with the change that it tells of.
pub(super) async fn record(tx: &mut Tx, event: Event<'_>, origin: &Origin) -> Result<(), Error> {
    if event.kind == Kind::SignInFailed && counted(tx, event, origin).await? {
        return Ok(());
    }
    on_tx!(tx, db => sqlx::query(INSERT)
        .bind(event.at.millis())
        .bind(event.kind.name())
        .bind(event.account)
        .bind(event.address)
        .bind(&origin.actor)
        .bind(&origin.credential)
        .bind(origin.client.map(|client| client.to_string()))
        .bind(&origin.request)
        .bind(event.subject)
        .bind(event.detail)
        .bind(network_of(origin))
        .execute(db).await.map(drop))?;
    Ok(())
}

/// The network that a client is in; empty if the client is not known.
fn network_of(origin: &Origin) -> String {
    let network = origin.client.map(network);
    network
        .map(|network| network.to_string())
        .unwrap_or_default()
}

/// Counts a failure instead of recording it, if there were enough of the same that day. Whether it did.
async fn counted(tx: &mut Tx, event: Event<'_>, origin: &Origin) -> Result<bool, Error> {
    let Some(detail) = event.detail else {
        return Ok(false);
    };
    let midnight = event.at.millis().div_euclid(DAY) * DAY;
    let budgets: &[(&'static str, i64)] = match event.account {
        Some(_) => &[(ONE_MORE, LISTED)],
        None => &[
            (ONE_MORE_OF_NETWORK, LISTED),
            (ONE_MORE_OF_ALL, LISTED_OF_STRANGERS),
        ],
    };
    for (one_more, most) in budgets {
        let counted = on_tx!(tx, db => sqlx::query(*one_more)
            .bind(event.address)
            .bind(event.kind.name())
            .bind(detail)
            .bind(event.at.millis())
            .bind(event.account)
            .bind(&origin.actor)
            .bind(&origin.credential)
            .bind(origin.client.map(|client| client.to_string()))
            .bind(&origin.request)
            .bind(event.subject)
            .bind(midnight)
            .bind(midnight + DAY)
            .bind(most)
            .bind(network_of(origin))
            .execute(db).await.map(|done| done.rows_affected()))?;
        if counted == 1 {
            return Ok(true);
        }
    }
    Ok(false)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::super::testing::{DAY, Fresh, NOW, both, session};
    use super::*;

    const FOREVER: Timestamp = Timestamp::from_millis(i64::MAX);

    fn wanted(address: &str, limit: u32) -> Wanted {
        Wanted {
            address: address.into(),
            since: Timestamp::from_millis(0),
            until: FOREVER,
            limit,
        }
    }

    fn origin() -> Origin {
        Origin {
            actor: "ada@example.org".into(),
            credential: Some("its-password".into()),
            client: Some([192, 0, 2, 7].into()),
            request: Some("req-1".into()),
            user_agent: None,
        }
    }

    async fn an_event_tells_who_did_what_to_whom_and_from_where(fresh: Fresh) {
        let directory = &fresh.directory;
        directory.with("ada", "ada@example.org", &[]).await;
        let session = session("s", "ada", NOW.plus(DAY));
        directory.begin_session(&session, &origin()).await.unwrap();
        let events = directory.events(&wanted("ada@example.org", 10)).await;
        let [signed_in, made] = &events.unwrap()[..] else {
            panic!("two events");
        };
        assert_eq!(made.kind, "account_created");
        assert_eq!(signed_in.kind, "signed_in");
        assert_eq!(signed_in.at, NOW.plus(DAY).millis());
        assert_eq!(signed_in.actor, "ada@example.org");
        assert_eq!(signed_in.credential.as_deref(), Some("its-password"));
        assert_eq!(signed_in.client.as_deref(), Some("192.0.2.7"));
        assert_eq!(signed_in.request_id.as_deref(), Some("req-1"));
        assert_eq!(signed_in.subject.as_deref(), Some("s-password"));
        assert_eq!(signed_in.detail.as_deref(), Some("Firefox"));
    }

    async fn an_attempt_on_nobodys_address_is_recorded_under_it(fresh: Fresh) {
        let failed = Event {
            account: None,
            address: "eve@example.org",
            ..Event::of(Kind::SignInFailed, "", NOW)
        };
        let directory = &fresh.directory;
        directory.record(failed, &Origin::default()).await.unwrap();
        let events = directory.events(&wanted("eve@example.org", 10)).await;
        assert_eq!(events.unwrap()[0].kind, "sign_in_failed");
    }

    async fn a_list_is_of_one_account_or_all_newest_first_and_bounded(fresh: Fresh) {
        let directory = &fresh.directory;
        directory.with("ada", "ada@example.org", &["one"]).await;
        directory.with("bob", "bob@example.org", &["two"]).await;
        let kinds = async |wanted: Wanted| {
            let events = directory.events(&wanted).await.unwrap();
            let kinds = events.iter().map(|e| format!("{} {}", e.address, e.kind));
            kinds.collect::<Vec<_>>()
        };
        let (ada, bob) = ("ada@example.org", "bob@example.org");
        assert_eq!(
            kinds(wanted(ada, 9)).await,
            [format!("{ada} signed_in"), format!("{ada} account_created")]
        );
        assert_eq!(
            kinds(wanted("", 3)).await,
            [
                format!("{bob} signed_in"),
                format!("{bob} account_created"),
                format!("{ada} signed_in")
            ]
        );
        let later = Wanted {
            since: NOW.plus(DAY),
            ..wanted("", 9)
        };
        assert!(kinds(later).await.is_empty());
        directory.forget_events(NOW.plus(DAY)).await.unwrap();
        assert!(kinds(wanted("", 9)).await.is_empty());
    }

    async fn failures_past_the_hundredth_of_a_day_are_counted_only(fresh: Fresh) {
        let directory = &fresh.directory;
        directory.with("eve", "eve@example.org", &[]).await;
        directory.with("bob", "bob@example.org", &[]).await;
        let before = directory.events(&wanted("", 9)).await.unwrap();
        fresh.execute("DELETE FROM security_events").await;
        assert_eq!(before.len(), 2);
        let fail = async |address: &str, reason: &str, at: Timestamp, request: &str| {
            let account = address.split('@').next();
            let failed = Event {
                account,
                address,
                ..Event::of(Kind::SignInFailed, "", at).detail(reason)
            };
            let origin = Origin {
                request: Some(request.into()),
                ..Origin::default()
            };
            directory.record(failed, &origin).await.unwrap();
        };
        let (eve, wrong) = ("eve@example.org", "wrong password");
        for n in 0..157 {
            let at = Timestamp::from_millis(NOW.millis() + n);
            fail(eve, wrong, at, &n.to_string()).await;
        }
        let events = directory.events(&wanted(eve, 1000)).await.unwrap();
        assert_eq!(events.len(), 100);
        assert_eq!(events[0].unlisted, 57);
        assert_eq!(events[0].request_id.as_deref(), Some("156"), "the newest");
        assert_eq!(events[0].at, NOW.millis() + 156);
        assert_eq!(events[1].request_id.as_deref(), Some("98"));
        assert!(events[1..].iter().all(|event| event.unlisted == 0));

        // Another reason, another address and another day have rows of their own.
        let later = NOW.plus(Duration::from_secs(1));
        fail(eve, "wrong two-factor code", later, "a").await;
        fail("bob@example.org", wrong, later, "b").await;
        fail(eve, wrong, NOW.plus(DAY), "c").await;
        let events = directory.events(&wanted("", 3)).await.unwrap();
        let requests = events.iter().map(|event| event.request_id.as_deref());
        assert_eq!(
            requests.collect::<Vec<_>>(),
            [Some("c"), Some("b"), Some("a")]
        );
        assert!(events.iter().all(|event| event.unlisted == 0));
    }

    async fn failures_on_addresses_of_nobody_are_counted_by_network(fresh: Fresh) {
        let directory = &fresh.directory;
        let fail = async |n: i64, from: &str| {
            let at = Timestamp::from_millis(NOW.millis() + n);
            let address = format!("n{n}@example.org");
            let failed = Event {
                account: None,
                address: &address,
                ..Event::of(Kind::SignInFailed, "", at).detail("no such account")
            };
            let origin = Origin {
                client: Some(from.parse().unwrap()),
                ..Origin::default()
            };
            directory.record(failed, &origin).await.unwrap();
        };
        for n in 0..150 {
            fail(n, &format!("2001:db8::{n:x}")).await;
        }
        fail(150, "2001:db8:0:1::1").await;
        let events = directory.events(&wanted("", 1000)).await.unwrap();
        assert_eq!(events.len(), 101);
        let told = |event: &Recorded| (event.address.clone(), event.unlisted);
        assert_eq!(told(&events[0]), ("n150@example.org".into(), 0));
        assert_eq!(told(&events[1]), ("n149@example.org".into(), 50));

        // However many networks there are.
        fresh
            .execute(
                "INSERT INTO security_events (at, kind, address, actor, network) \
                 WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 9899) \
                 SELECT (SELECT MIN(at) FROM security_events), 'sign_in_failed', 'x@example.org', '', 'n' || i FROM n",
            )
            .await;
        let rows = "SELECT COUNT(*) FROM security_events";
        assert_eq!(fresh.number(rows).await, 10_000);
        fail(151, "192.0.2.1").await;
        fail(152, "2001:db8:0:1::1").await;
        assert_eq!(fresh.number(rows).await, 10_000);
        let events = directory.events(&wanted("", 1000)).await.unwrap();
        assert_eq!(told(&events[0]), ("n152@example.org".into(), 2));
    }

    async fn of_failures_at_once_none_is_lost(fresh: Fresh) {
        let attempts: Vec<_> = (0..160)
            .map(|_| {
                let directory = fresh.directory.clone();
                let failed = Event {
                    account: None,
                    address: "eve@example.org",
                    ..Event::of(Kind::SignInFailed, "", NOW).detail("no such account")
                };
                tokio::spawn(async move { directory.record(failed, &Origin::default()).await })
            })
            .collect();
        for attempt in attempts {
            attempt.await.unwrap().unwrap();
        }
        let told = "SELECT CAST(COUNT(*) + SUM(unlisted) AS BIGINT) FROM security_events";
        assert_eq!(fresh.number(told).await, 160);
    }

    async fn what_is_old_is_forgotten_however_much_it_is(fresh: Fresh) {
        fresh
            .execute(
                "INSERT INTO security_events (at, kind, address, actor) \
                 WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 2500) \
                 SELECT i, 'signed_out', 'ada@example.org', '' FROM n",
            )
            .await;
        let before = Timestamp::from_millis(2500);
        fresh.directory.forget_events(before).await.unwrap();
        let left = "SELECT COUNT(*) FROM security_events";
        assert_eq!(fresh.number(left).await, 1);
    }

    async fn whoever_gets_an_address_later_has_a_record_of_their_own(fresh: Fresh) {
        let directory = &fresh.directory;
        let (address, operator) = ("ada@example.org", Origin::operator());
        let told = async || {
            let events = directory.events(&wanted(address, 10)).await.unwrap();
            let kinds = events.into_iter().map(|event| event.kind);
            kinds.collect::<Vec<_>>()
        };
        let deleted = ["sign_in_failed", "account_deleted", "account_created"];
        let failed = Event {
            account: None,
            address,
            ..Event::of(Kind::SignInFailed, "", NOW).detail("no such account")
        };
        directory.with("first", address, &[]).await;
        directory
            .delete_account("first", NOW, &operator)
            .await
            .unwrap();
        directory.record(failed, &Origin::default()).await.unwrap();
        assert_eq!(told().await, deleted, "nobody has it");
        directory
            .free_address(address, NOW, &operator)
            .await
            .unwrap();
        directory.with("second", address, &[]).await;
        assert_eq!(told().await, ["account_created", "sign_in_failed"]);
    }

    both!(
        whoever_gets_an_address_later_has_a_record_of_their_own,
        failures_past_the_hundredth_of_a_day_are_counted_only,
        failures_on_addresses_of_nobody_are_counted_by_network,
        of_failures_at_once_none_is_lost,
        what_is_old_is_forgotten_however_much_it_is,
        an_event_tells_who_did_what_to_whom_and_from_where,
        an_attempt_on_nobodys_address_is_recorded_under_it,
        a_list_is_of_one_account_or_all_newest_first_and_bounded,
    );
}
