//! The record of security events: which actor changed which account, when, and from where. An event is written in the transaction of the change that it
//! describes, so the record contains exactly the committed changes. It never contains secrets.
//!
//! Unauthenticated clients can fail as often as the rate limits allow. Failures of one account for one reason get at most [`LISTED`] rows a day. Later failures
//! of that day overwrite the newest of these rows, which counts them. Failures on addresses that no account has are counted by client network instead, because
//! a client can invent any number of addresses: at most [`LISTED`] rows a day for each network and [`LISTED_OF_STRANGERS`] for all networks.

use std::net::IpAddr;

use super::db::{Tx, on, on_tx};
use super::{Directory, Error};
use crate::caller::Origin;
use crate::clock::Timestamp;
use crate::network::network;

/// Rows per day (UTC) for failures of one kind, on one account and for one reason. Also the rows per day for failures of one network on addresses that no
/// account has.
const LISTED: i64 = 100;
/// Rows per day (UTC) for failures on addresses that no account has.
const LISTED_OF_STRANGERS: i64 = 10_000;
const DAY: i64 = 24 * 60 * 60 * 1000;

/// Events deleted in one transaction. On SQLite, other writers wait for this transaction.
const BATCH: i64 = 1000;
/// Transactions of one purge. The next purge deletes the rest.
const BATCHES: usize = 50;

/// Overwrites the newest matching row of a day ($11 to $12) with the newest failure and counts the failure that the row described. Does nothing if the day has
/// fewer than $13 matching rows.
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
/// Stores the account's current address, or the address that was tried if there is no such account.
const INSERT: &str = "INSERT INTO security_events \
    (at, kind, account_id, address, actor, credential, client, request_id, subject, detail, network) \
    VALUES ($1, $2, $3, COALESCE((SELECT address FROM accounts WHERE id = $3), $4), $5, $6, $7, $8, $9, $10, $11)";
const ACCOUNT: &str = "SELECT id FROM accounts WHERE address = $1";

/// The client IP addresses of an account's registration and latest sign-ins.
const CLIENTS: &str = "SELECT client FROM security_events WHERE account_id = (SELECT id FROM accounts WHERE address = $1) \
    AND kind IN ('account_created', 'signed_in', 'client_agreed_to') AND client IS NOT NULL ORDER BY at DESC, id DESC LIMIT 500";

/// Selects the newest events of a period. `$whose` is a condition on $1.
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
/// Filters by account id, since another account may have had the address before. Includes attempts on the address while no account had it.
const LIST_ACCOUNT: &str = list!(
    "(account_id = $1 OR (account_id IS NULL AND address = (SELECT address FROM accounts WHERE id = $1)))"
);
const LIST_ADDRESS: &str = list!("address = $1");
const FORGET: &str = "DELETE FROM security_events \
    WHERE id IN (SELECT id FROM security_events WHERE at < $1 ORDER BY at, id LIMIT $2)";

macro_rules! kinds {
    ($($(#[$doc:meta])* $kind:ident = $name:literal),* $(,)?) => {
        /// The kind of an event.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Kind {
            $($(#[$doc])* $kind),*
        }

        impl Kind {
            /// Returns the kind's name in the record.
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
    /// A web session was created.
    SignedIn = "signed_in",
    /// A sign-in failed, for example because of a wrong password or code.
    SignInFailed = "sign_in_failed",
    /// The account's owner ended every web session.
    SignedOut = "signed_out",
    /// A refresh token was used a second time, and its session was ended.
    RefreshTokenReused = "refresh_token_reused",
    /// An account was created, by its owner or the operator.
    AccountCreated = "account_created",
    /// An account was disabled, and all its credentials were ended.
    AccountDisabled = "account_disabled",
    /// An account was enabled again.
    AccountEnabled = "account_enabled",
    /// An account was deleted.
    AccountDeleted = "account_deleted",
    /// An account's plan or administrator rights were changed.
    AccountChanged = "account_changed",
    /// A reserved address was released.
    AddressFreed = "address_freed",
    /// The operator reserved an address, so no account can have it.
    AddressHeld = "address_held",
    /// A domain was claimed.
    DomainClaimed = "domain_claimed",
    /// A domain was verified and now belongs to the account.
    DomainVerified = "domain_verified",
    /// A claim was deleted, because another account verified the domain or the domain became a platform domain.
    DomainClaimVoided = "domain_claim_voided",
    /// A domain or a claim was released.
    DomainReleased = "domain_released",
    /// The operator added a platform domain.
    PlatformDomainAdded = "platform_domain_added",
    /// The operator removed a platform domain.
    PlatformDomainRemoved = "platform_domain_removed",
    /// A profile was created or changed.
    ProfileChanged = "profile_changed",
    /// A password was changed.
    PasswordChanged = "password_changed",
    /// A signed-in caller tried to change the password with a wrong current password.
    PasswordChangeFailed = "password_change_failed",
    /// A second factor was enabled.
    TwoFactorOn = "two_factor_on",
    /// A second factor was disabled.
    TwoFactorOff = "two_factor_off",
    /// New recovery codes were created, and the old ones were deleted.
    RecoveryCodesMade = "recovery_codes_made",
    /// An API token was created.
    TokenCreated = "token_created",
    /// An API token was revoked.
    TokenRevoked = "token_revoked",
    /// An app password for a mail client was created.
    AppPasswordCreated = "app_password_created",
    /// An app password for a mail client was revoked.
    AppPasswordRevoked = "app_password_revoked",
    /// A single web session was ended.
    SessionRevoked = "session_revoked",
    /// A person signed in for a client of the authorization server.
    ClientAgreedTo = "client_agreed_to",
    /// A client got its first tokens after such a sign-in.
    OAuthGrantMade = "oauth_grant_made",
    /// The operator ended a client's grant, or the account had too many grants.
    OAuthGrantEnded = "oauth_grant_ended",
    /// A client's code or refresh token was used a second time, and its grant was ended.
    OAuthGrantReused = "oauth_grant_reused",
    /// The operator created a client that has a secret.
    ClientAdded = "client_added",
    /// The operator removed a client and ended all its grants.
    ClientRemoved = "client_removed",
    /// An alias was created, or created again.
    AliasCreated = "alias_created",
    /// An alias was enabled.
    AliasEnabled = "alias_enabled",
    /// An alias was disabled.
    AliasDisabled = "alias_disabled",
    /// An alias was deleted.
    AliasDeleted = "alias_deleted",
    /// An account became a member of the mailbox and got its first grant.
    MemberAdded = "member_added",
    /// A member was removed.
    MemberRemoved = "member_removed",
    /// A member got another grant.
    GrantAdded = "grant_added",
    /// The rights of a grant were changed.
    GrantChanged = "grant_changed",
    /// A grant was revoked.
    GrantRevoked = "grant_revoked",
    /// An app password that acts for the mailbox's members was created.
    TeamKeyCreated = "team_key_created",
    /// A signed-in caller tried to invite a member with a wrong password.
    InvitationFailed = "invitation_failed",
    /// A member sent a message from an address of the account.
    SentByGuest = "sent_by_guest",
    /// A version of a module was installed and serves from then on.
    ModuleInstalled = "module_installed",
    /// An earlier version of a module serves again.
    ModuleRolledBack = "module_rolled_back",
    /// A module was enabled.
    ModuleEnabled = "module_enabled",
    /// A module was disabled.
    ModuleDisabled = "module_disabled",
    /// A module was removed, with all its versions.
    ModuleRemoved = "module_removed",
}

/// An event to record.
#[derive(Clone, Copy, Debug)]
pub struct Event<'a> {
    /// The kind of the event.
    pub kind: Kind,
    /// The account that the event concerns, or `None` if there is no such account.
    pub account: Option<&'a str>,
    /// The address to record if there is no such account.
    pub address: &'a str,
    /// The subject: the id of a token or an app password, or an address.
    pub subject: Option<&'a str>,
    /// Details for people, such as a label or the reason of a failure.
    pub detail: Option<&'a str>,
    /// The time of the event.
    pub at: Timestamp,
}

impl<'a> Event<'a> {
    /// Creates an event of an account, without a subject.
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

    /// Sets the subject.
    #[must_use]
    pub const fn about(mut self, subject: &'a str) -> Self {
        self.subject = Some(subject);
        self
    }

    /// Sets the details.
    #[must_use]
    pub const fn detail(mut self, detail: &'a str) -> Self {
        self.detail = Some(detail);
        self
    }
}

/// A recorded event.
#[derive(Clone, Debug, sqlx_macros::FromRow)]
pub struct Recorded {
    /// Increases in the order of recording.
    pub id: i64,
    /// The time, in milliseconds since the epoch.
    pub at: i64,
    /// The name of a [`Kind`].
    pub kind: String,
    /// The address of the account, or the address that was tried.
    pub address: String,
    /// The actor: an address, `operator` or `service`. Empty if the actor is not authenticated.
    pub actor: String,
    /// The credential of the actor.
    pub credential: Option<String>,
    /// The client's IP address.
    pub client: Option<String>,
    /// The id of the request, as in the log.
    pub request_id: Option<String>,
    /// The subject: an id or an address.
    pub subject: Option<String>,
    /// Details for people.
    pub detail: Option<String>,
    /// The number of further events of that day that have no rows, because there were too many.
    pub unlisted: i64,
}

/// A filter for events.
#[derive(Clone, Debug)]
pub struct Wanted {
    /// Selects the events of the account that has this address. If no account has it, selects the events of former accounts with this address and the attempts
    /// on it. An empty address selects all events.
    pub address: String,
    /// Selects events at or after this time.
    pub since: Timestamp,
    /// Selects events before this time.
    pub until: Timestamp,
    /// The maximum number of events. The newest events are selected.
    pub limit: u32,
}

impl Directory {
    /// Records an event that is not part of another change.
    ///
    /// # Errors
    /// Returns [`Error`] if the database fails.
    pub async fn record(&self, event: Event<'_>, origin: &Origin) -> Result<(), Error> {
        commit(self.db.begin().await?, event, origin).await
    }

    /// Returns recorded events, newest first.
    ///
    /// # Errors
    /// Returns [`Error`] if the database fails.
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

    /// Returns `true` if the owner of the account with this address registered or signed in from the network of this client before.
    ///
    /// # Errors
    /// Returns [`Error`] if the database fails.
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

    /// Deletes the events before a time, up to a limit per call.
    ///
    /// # Errors
    /// Returns [`Error`] if the database fails. Rows that were already deleted stay deleted.
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

/// Records an event and commits the transaction of the change that it describes.
pub(super) async fn commit(mut tx: Tx, event: Event<'_>, origin: &Origin) -> Result<(), Error> {
    record(&mut tx, event, origin).await?;
    tx.commit().await
}

/// Records an event in the transaction of the change that it describes.
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

/// Returns the network of a client, or an empty string if the client is unknown.
fn network_of(origin: &Origin) -> String {
    let network = origin.client.map(network);
    network
        .map(|network| network.to_string())
        .unwrap_or_default()
}

/// Counts a failure instead of inserting a row, if the day already has enough rows for such failures. Returns `true` if it did.
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

        // The limit applies to all networks together.
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
        assert_eq!(told().await, deleted, "no account has it");
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
