use crate::Directory;
use std::collections::BTreeSet;
use std::time::Duration;

use futures_util::future::join_all;
use tokio::time::timeout;

use super::*;
use crate::accounts::Creation;
use crate::db::on_tx;
use crate::events::EventFilter;
use crate::testing::{DAY, Fresh, NOW, account, both};

const ALIASES_READ: &str = "SELECT address, destination FROM mailserver_aliases ORDER BY address";
const ROWS: &str = "SELECT COUNT(*) FROM addresses WHERE kind = 'alias'";

/// The web session of an account that [`people`] created.
fn alias_caller(account_id: &str, at: Timestamp) -> AliasCaller<'_> {
    let sid = match account_id {
        "ada" => "adas",
        _ => "bobs",
    };
    AliasCaller {
        account_id,
        app_password_id: Some(""),
        sid,
        grant: None,
        at,
        member: None,
    }
}

/// The change that enables or disables an alias.
fn switched(active: bool) -> AliasUpdate {
    AliasUpdate {
        active: Some(active),
        ..AliasUpdate::default()
    }
}

/// Creates Ada and Bob, signed in, and a platform domain. Ada has verified a domain.
async fn people(fresh: &Fresh) {
    Directory::open(&fresh.config, &["example.org".into()])
        .await
        .unwrap();
    let directory = &fresh.directory;
    directory.with("ada", "ada@example.org", &["adas"]).await;
    directory.with("bob", "bob@example.org", &["bobs"]).await;
    fresh.domain("ada", "ada.example", true).await;
}

async fn makes(fresh: &Fresh, account_id: &str, address: &str) -> Result<Alias, Obstacle> {
    let directory = &fresh.directory;
    let domain = address.rsplit('@').next().unwrap();
    let whose = directory
        .aliases
        .domain_owner(account_id, domain)
        .await
        .unwrap();
    directory
        .aliases
        .create(
            alias_caller(account_id, NOW),
            address,
            whose,
            &Origin::default(),
        )
        .await
        .unwrap()
}

async fn addresses(fresh: &Fresh, account_id: &str) -> Vec<String> {
    let aliases = fresh.directory.aliases.list(account_id).await.unwrap();
    aliases.into_iter().map(|alias| alias.address).collect()
}

#[test]
fn an_id_is_made_of_the_address_alone_and_is_kept_whole_by_every_reader() {
    let expected = |hex: &str| 1 + u64::from_str_radix(&hex[..13], 16).unwrap();
    for address in ["shop@example.org", "a@b", ""] {
        let digest = latchmail_core::secrets::sha256_hex(address);
        assert_eq!(id(address), expected(&digest));
    }
    let ids: BTreeSet<u64> = (0..10_000)
        .map(|n| id(&format!("{n}@example.org")))
        .collect();
    assert_eq!(ids.len(), 10_000);
    assert!(ids.iter().all(|id| (1..1 << 53).contains(id)));
}

async fn an_alias_is_there_at_once_and_only_for_its_owner(fresh: Fresh) {
    people(&fresh).await;
    for address in ["shop@example.org", "info@ada.example", "a-shop@example.org"] {
        let made = makes(&fresh, "ada", address).await.unwrap();
        let expected = Alias {
            address: address.into(),
            active: true,
            created_at: Some(NOW),
            modified_at: Some(NOW),
            made_by: None,
            note: String::new(),
            expires_at: None,
            last_received_at: None,
            received: 0,
        };
        assert_eq!(made, expected);
    }
    let ordered = ["a-shop@example.org", "info@ada.example", "shop@example.org"];
    assert_eq!(addresses(&fresh, "ada").await, ordered);
    assert_eq!(addresses(&fresh, "bob").await, [""; 0]);
    let read = fresh.as_mail_server(ALIASES_READ).await;
    assert_eq!(read.len(), 3);
    assert!(read.iter().all(|(_, to)| to == "ada@example.org"));
}

async fn an_alias_is_switched_and_deleted_by_its_owner_alone(fresh: Fresh) {
    people(&fresh).await;
    let directory = &fresh.directory;
    let origin = Origin::default();
    let id = makes(&fresh, "ada", "shop@example.org").await.unwrap().id();
    let set = async |who: &'static str, active: bool| {
        let caller = alias_caller(who, NOW.plus(DAY));
        let switched = switched(active);
        let change = directory.aliases.update(caller, id, &switched, &origin);
        change.await.unwrap().map(drop)
    };
    assert_eq!(set("bob", false).await, Err(Refusal::Unknown));
    assert_eq!(set("ada", true).await, Ok(()));
    assert_eq!(
        directory.aliases.list("ada").await.unwrap()[0].modified_at,
        Some(NOW)
    );
    assert_eq!(set("ada", false).await, Ok(()));
    let alias = directory.aliases.list("ada").await.unwrap().remove(0);
    assert!(!alias.active);
    assert_eq!(
        (alias.created_at, alias.modified_at),
        (Some(NOW), Some(NOW.plus(DAY)))
    );
    assert_eq!(fresh.as_mail_server(ALIASES_READ).await, []);
    assert_eq!(set("ada", true).await, Ok(()));
    assert_eq!(fresh.as_mail_server(ALIASES_READ).await.len(), 1);

    let delete = async |who: &'static str| {
        let change = directory
            .aliases
            .delete(alias_caller(who, NOW), id, &origin);
        change.await.unwrap()
    };
    assert_eq!(delete("bob").await, Err(Refusal::Unknown));
    assert_eq!(delete("ada").await, Ok(()));
    assert_eq!(delete("ada").await, Err(Refusal::Unknown));
    assert_eq!(set("ada", true).await, Err(Refusal::Unknown));
    assert_eq!(fresh.as_mail_server(ALIASES_READ).await, []);
}

async fn an_address_is_kept_for_who_had_it(fresh: Fresh) {
    people(&fresh).await;
    let directory = &fresh.directory;
    let origin = Origin::default();
    let first = makes(&fresh, "ada", "shop@example.org").await.unwrap();
    let delete = directory
        .aliases
        .delete(alias_caller("ada", NOW), first.id(), &origin);
    assert_eq!(delete.await.unwrap(), Ok(()));
    assert_eq!(
        makes(&fresh, "bob", "shop@example.org").await,
        Err(Obstacle::Taken)
    );
    let registered = account("eve", "shop@example.org");
    let registered = directory.accounts.create(&registered, None, &origin).await;
    assert_eq!(registered.unwrap(), Creation::AddressTaken);
    let again = makes(&fresh, "ada", "shop@example.org").await.unwrap();
    assert_eq!(again.id(), first.id());
    assert_eq!(
        makes(&fresh, "ada", "shop@example.org").await,
        Err(Obstacle::Taken)
    );
    assert_eq!(
        makes(&fresh, "ada", "bob@example.org").await,
        Err(Obstacle::Taken)
    );
    assert_eq!(
        makes(&fresh, "bob", "bob@example.org").await,
        Err(Obstacle::Taken)
    );

    directory
        .accounts
        .delete("ada", NOW, &origin)
        .await
        .unwrap();
    for kept in ["shop@example.org", "ada@example.org"] {
        assert_eq!(makes(&fresh, "bob", kept).await, Err(Obstacle::Taken));
    }
}

async fn on_a_domain_of_ones_own_nothing_is_kept(fresh: Fresh) {
    people(&fresh).await;
    let alias = makes(&fresh, "ada", "info@ada.example").await.unwrap();
    let origin = Origin::default();
    let delete = fresh
        .directory
        .aliases
        .delete(alias_caller("ada", NOW), alias.id(), &origin);
    assert_eq!(delete.await.unwrap(), Ok(()));
    assert_eq!(fresh.number(ROWS).await, 0);
    makes(&fresh, "ada", "info@ada.example").await.unwrap();
}

async fn aliases_are_on_the_platforms_domains_and_ones_own_that_are_active(fresh: Fresh) {
    people(&fresh).await;
    let origin = Origin::default();
    let directory = &fresh.directory;
    fresh.domain("ada", "a.example", true).await;
    fresh.domain("ada", "pending.example", false).await;
    fresh.domain("bob", "bob.example", true).await;
    let own = ["example.org", "a.example", "ada.example"];
    assert_eq!(directory.aliases.domains("ada").await.unwrap(), own);
    for foreign in [
        "x@pending.example",
        "x@bob.example",
        "x@sub.ada.example",
        "x@nowhere.example",
    ] {
        assert_eq!(makes(&fresh, "ada", foreign).await, Err(Obstacle::Foreign));
    }
    // An own domain that is also a platform domain counts as a platform domain: reserved names stay
    // reserved.
    fresh
        .execute("INSERT INTO platform_domains (domain) VALUES ('ada.example')")
        .await;
    let domains = directory.aliases.domains("ada").await.unwrap();
    assert_eq!(domains, ["ada.example", "example.org", "a.example"]);
    let judged = directory.aliases.create(
        alias_caller("ada", NOW),
        "info@ada.example",
        DomainOwner::Own,
        &origin,
    );
    assert_eq!(judged.await.unwrap(), Err(Obstacle::Foreign));
    // The domain is no longer the account's own when the alias is created.
    fresh
        .execute("DELETE FROM domains WHERE domain = 'a.example'")
        .await;
    let judged = directory.aliases.create(
        alias_caller("ada", NOW),
        "info@a.example",
        DomainOwner::Own,
        &origin,
    );
    assert_eq!(judged.await.unwrap(), Err(Obstacle::Foreign));
}

async fn an_alias_waits_for_whoever_changes_whose_its_domain_is(fresh: Fresh) {
    people(&fresh).await;
    let mut tx = fresh.directory.db().begin().await.unwrap();
    tx.lock_domain("ada.example").await.unwrap();
    on_tx!(&mut tx, db => sqlx::query("DELETE FROM domains WHERE domain = 'ada.example'")
        .execute(db).await.map(drop))
    .unwrap();
    tx.project(Source::Domain("ada.example")).await.unwrap();
    let (ada, origin) = (alias_caller("ada", NOW), Origin::default());
    let making = fresh
        .directory
        .aliases
        .create(ada, "info@ada.example", DomainOwner::Own, &origin);
    tokio::pin!(making);
    let moment = Duration::from_millis(300);
    assert!(timeout(moment, &mut making).await.is_err(), "it waits");
    tx.commit().await.unwrap();
    assert_eq!(making.await.unwrap(), Err(Obstacle::Foreign));
    assert_eq!(fresh.number(ROWS).await, 0);
}

async fn of_many_who_want_an_address_at_once_one_gets_it(fresh: Fresh) {
    people(&fresh).await;
    let origin = Origin::default();
    for round in 0..4 {
        let address = format!("wanted-{round}@example.org");
        let attempts = ["ada", "bob"].repeat(4);
        let attempts = attempts.iter().map(|who| makes(&fresh, who, &address));
        let registered = account("eve", &address);
        let (made, registered) = tokio::join!(
            join_all(attempts),
            fresh.directory.accounts.create(&registered, None, &origin)
        );
        let winners = made.iter().filter(|made| made.is_ok()).count();
        let registered = registered.unwrap() == Creation::Created;
        assert_eq!(winners + usize::from(registered), 1);
        assert!(
            made.iter()
                .all(|made| matches!(made, Ok(_) | Err(Obstacle::Taken)))
        );
        if registered {
            fresh
                .directory
                .accounts
                .delete("eve", NOW, &origin)
                .await
                .unwrap();
        }
    }
}

async fn nobody_has_had_more_names_than_there_is_room_for(fresh: Fresh) {
    people(&fresh).await;
    let origin = Origin::default();
    let directory = &fresh.directory;
    fresh
        .execute(
            "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 499) \
             INSERT INTO addresses (address, kind, account_id, live) \
             SELECT 'n' || i || '@example.org', 'alias', 'ada', i % 2 = 0 FROM n",
        )
        .await;
    // Aliases on her own domain are counted separately.
    makes(&fresh, "ada", "one@ada.example").await.unwrap();
    let attempts = ["a@example.org", "b@example.org", "c@example.org"];
    let made = join_all(attempts.iter().map(|address| makes(&fresh, "ada", address))).await;
    assert_eq!(made.iter().filter(|made| made.is_ok()).count(), 1);
    let full = Err(Obstacle::Full(DomainOwner::Platform));
    assert_eq!(made.iter().filter(|made| **made == full).count(), 2);
    let obstacle = directory
        .aliases
        .obstacle("ada", "d@example.org", DomainOwner::Platform);
    assert_eq!(
        obstacle.await.unwrap(),
        Some(Obstacle::Full(DomainOwner::Platform))
    );
    makes(&fresh, "ada", "n1@example.org").await.unwrap();
    makes(&fresh, "ada", "two@ada.example").await.unwrap();
    makes(&fresh, "bob", "d@example.org").await.unwrap();

    fresh
        .execute(
            "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 998) \
             INSERT INTO addresses (address, kind, account_id) SELECT 'n' || i || '@ada.example', 'alias', 'ada' FROM n",
        )
        .await;
    let full = Err(Obstacle::Full(DomainOwner::Own));
    assert_eq!(makes(&fresh, "ada", "three@ada.example").await, full);
    let id = id("n1@ada.example");
    let deleted = directory
        .aliases
        .delete(alias_caller("ada", NOW), id, &origin);
    assert_eq!(deleted.await.unwrap(), Ok(()));
    makes(&fresh, "ada", "three@ada.example").await.unwrap();
}

async fn what_nobody_saw_being_made_has_no_dates_whatever_becomes_of_it(fresh: Fresh) {
    people(&fresh).await;
    let origin = Origin::default();
    fresh
        .execute("INSERT INTO addresses (address, kind, account_id) VALUES ('old@example.org', 'alias', 'ada')")
        .await;
    let alias = async || fresh.directory.aliases.list("ada").await.unwrap().remove(0);
    assert_eq!(alias().await.modified_at, None);
    let caller = alias_caller("ada", NOW);
    let id = alias().await.id();
    let switched = switched(false);
    let change = fresh
        .directory
        .aliases
        .update(caller, id, &switched, &origin);
    assert_eq!(change.await.unwrap().map(drop), Ok(()));
    let alias = alias().await;
    assert_eq!(
        (alias.active, alias.created_at, alias.modified_at),
        (false, None, None)
    );
}

async fn a_credential_that_is_over_changes_nothing(fresh: Fresh) {
    people(&fresh).await;
    let directory = &fresh.directory;
    let id = makes(&fresh, "ada", "shop@example.org").await.unwrap().id();
    let origin = Origin::default();
    let over = |sid, app_password_id, at| AliasCaller {
        account_id: "ada",
        app_password_id: Some(app_password_id),
        sid,
        grant: None,
        at,
        member: None,
    };
    let month = NOW.plus(DAY * 31);
    for caller in [
        over("over", "", NOW),
        over("bobs", "", NOW),
        over("", "bobs-password", NOW),
        over("", "gone", NOW),
        over("adas", "adas-password", month),
    ] {
        let made =
            directory
                .aliases
                .create(caller, "two@example.org", DomainOwner::Platform, &origin);
        assert_eq!(
            made.await.unwrap(),
            Err(Obstacle::CredentialOver),
            "{caller:?}"
        );
        let switched = switched(false);
        let set = directory.aliases.update(caller, id, &switched, &origin);
        assert_eq!(
            set.await.unwrap().map(drop),
            Err(Refusal::CredentialOver),
            "{caller:?}"
        );
        let deleted = directory.aliases.delete(caller, id, &origin);
        assert_eq!(
            deleted.await.unwrap(),
            Err(Refusal::CredentialOver),
            "{caller:?}"
        );
    }
    // A session remains valid if its app password was replaced. A token needs its app password. The
    // directory cannot check an access token of an external server.
    let elsewhere = AliasCaller {
        app_password_id: None,
        ..over("", "", NOW)
    };
    for caller in [
        over("adas", "gone", NOW),
        over("", "adas-password", NOW),
        elsewhere,
    ] {
        let switched = switched(true);
        let set = directory.aliases.update(caller, id, &switched, &origin);
        assert_eq!(set.await.unwrap().map(drop), Ok(()), "{caller:?}");
    }
    fresh.execute("UPDATE accounts SET active = FALSE").await;
    let made = directory.aliases.create(
        alias_caller("ada", NOW),
        "two@example.org",
        DomainOwner::Platform,
        &origin,
    );
    assert_eq!(made.await.unwrap(), Err(Obstacle::CredentialOver));
}

async fn what_becomes_of_an_alias_is_recorded(fresh: Fresh) {
    people(&fresh).await;
    let directory = &fresh.directory;
    let origin = Origin::default();
    let id = makes(&fresh, "ada", "shop@example.org").await.unwrap().id();
    for active in [true, false, false, true] {
        let set = directory
            .aliases
            .update(alias_caller("ada", NOW), id, &switched(active), &origin)
            .await;
        set.unwrap().unwrap();
    }
    directory
        .aliases
        .delete(alias_caller("ada", NOW), id, &origin)
        .await
        .unwrap()
        .unwrap();
    let wanted = EventFilter {
        address: "ada@example.org".into(),
        since: NOW,
        until: NOW.plus(DAY),
        limit: 4,
    };
    let events = directory.events.list(&wanted).await.unwrap();
    let kinds: Vec<&str> = events.iter().map(|event| event.kind.as_str()).collect();
    assert_eq!(
        kinds,
        [
            "alias_deleted",
            "alias_enabled",
            "alias_disabled",
            "alias_created"
        ]
    );
    assert!(
        events
            .iter()
            .all(|event| event.subject.as_deref() == Some("shop@example.org"))
    );
}

both!(
    an_alias_waits_for_whoever_changes_whose_its_domain_is,
    an_alias_is_there_at_once_and_only_for_its_owner,
    an_alias_is_switched_and_deleted_by_its_owner_alone,
    an_address_is_kept_for_who_had_it,
    on_a_domain_of_ones_own_nothing_is_kept,
    aliases_are_on_the_platforms_domains_and_ones_own_that_are_active,
    of_many_who_want_an_address_at_once_one_gets_it,
    nobody_has_had_more_names_than_there_is_room_for,
    what_nobody_saw_being_made_has_no_dates_whatever_becomes_of_it,
    a_credential_that_is_over_changes_nothing,
    what_becomes_of_an_alias_is_recorded,
);
