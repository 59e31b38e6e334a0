//! Tests of forwarding, catch-alls and separators on both databases.

use latchmail_core::caller::Origin;

use super::*;
use crate::aliases::operator::{AliasRefusal, NewOwnedAlias};
use crate::aliases::{AliasUpdate, Obstacle};
use crate::routes::domain_settings::DomainSettings;
use crate::routes::forwarding::Forward;
use crate::testing::{Fresh, NOW, both};

const FORWARDS: &str = "SELECT address, destination FROM mailserver_forwards ORDER BY 1";
const CATCH_ALLS: &str = "SELECT domain, destination FROM mailserver_catch_alls ORDER BY 1";
const SEPARATORS: &str = "SELECT domain, separator FROM mailserver_separators ORDER BY 1";

/// Creates three accounts on a platform domain, and a custom domain of the account `a`.
async fn prepare(fresh: &Fresh) {
    fresh
        .execute("INSERT INTO platform_domains (domain) VALUES ('example.org')")
        .await;
    for (id, address) in [
        ("a", "ada@example.org"),
        ("b", "bob@example.org"),
        ("c", "cleo@example.org"),
    ] {
        fresh.directory.with(id, address, &[]).await;
    }
    fresh.domain("a", "ada.example", true).await;
    fresh
        .execute(
            "INSERT INTO addresses (address, kind, account_id) VALUES ('shop@example.org', 'alias', 'b'); \
             INSERT INTO addresses (address, kind, account_id, live) VALUES ('gone@example.org', 'alias', 'b', FALSE)",
        )
        .await;
}

async fn forward(fresh: &Fresh, account: &str, to: Option<&str>) -> RouteChange {
    let forward = Forward {
        to,
        may_be_unknown: false,
    };
    let accounts = &fresh.directory.accounts;
    let origin = Origin::operator();
    let set = accounts.set_forward_to(account, forward, NOW, &origin);
    set.await.unwrap()
}

async fn settings(
    fresh: &Fresh,
    domain: &str,
    catch_all: Option<&str>,
    separator: Option<&str>,
) -> RouteChange {
    let new = DomainSettings {
        catch_all: catch_all.map(Into::into),
        separator: separator.map(Into::into),
    };
    let domains = &fresh.directory.domains;
    let origin = Origin::operator();
    let set = domains.set_settings(domain, &new, NOW, &origin);
    set.await.unwrap()
}

fn one(key: &str, value: &str) -> Vec<(String, String)> {
    vec![(key.into(), value.into())]
}

async fn mail_is_not_forwarded_back(fresh: Fresh) {
    prepare(&fresh).await;
    let (changed, refused) = (RouteChange::Changed, RouteChange::Loop);
    assert_eq!(forward(&fresh, "a", Some("ada@example.org")).await, refused);
    assert_eq!(
        forward(&fresh, "a", Some("shop@example.org")).await,
        changed
    );
    assert_eq!(forward(&fresh, "b", Some("ada@example.org")).await, refused);
    assert_eq!(
        forward(&fresh, "b", Some("cleo@example.org")).await,
        changed
    );
    assert_eq!(forward(&fresh, "c", Some("ada@example.org")).await, refused);
    assert_eq!(
        forward(&fresh, "c", Some("cleo@elsewhere.test")).await,
        changed
    );
    assert_eq!(fresh.as_mail_server(FORWARDS).await.len(), 3);

    // Over a catch-all and an address with an extension.
    assert_eq!(
        settings(&fresh, "example.org", Some("shop@example.org"), Some("+")).await,
        changed
    );
    assert_eq!(forward(&fresh, "c", Some("any@example.org")).await, refused);
    assert_eq!(
        forward(&fresh, "c", Some("bob+x@example.org")).await,
        refused
    );
    assert_eq!(forward(&fresh, "c", None).await, changed);
    assert_eq!(settings(&fresh, "example.org", None, None).await, changed);
    assert_eq!(
        forward(&fresh, "c", Some("any@ada.example")).await,
        RouteChange::NoSuchAddress
    );
    assert_eq!(
        settings(&fresh, "ada.example", Some("ada@example.org"), None).await,
        changed
    );
    assert_eq!(forward(&fresh, "c", Some("any@ada.example")).await, refused);
    assert_eq!(settings(&fresh, "ada.example", None, None).await, changed);
}

async fn an_alias_that_causes_a_loop_is_refused(fresh: Fresh) {
    prepare(&fresh).await;
    settings(&fresh, "example.org", Some("cleo@example.org"), None).await;
    forward(&fresh, "a", Some("any@example.org")).await;
    forward(&fresh, "b", Some("ada@example.org")).await;
    let (aliases, unset) = (&fresh.directory.aliases, AliasUpdate::default());
    let create = async |account_id: &str| {
        let new = NewOwnedAlias {
            account_id,
            address: "any@example.org",
            settings: &unset,
        };
        let origin = Origin::operator();
        let created = aliases.create_owned(new, None, NOW, &origin).await.unwrap();
        created.map(|owned| owned.account_id)
    };
    let taken = Err(AliasRefusal::Obstacle(Obstacle::Taken));
    assert_eq!(create("b").await, taken);
    assert_eq!(create("c").await, Ok("c".to_owned()));
}

async fn a_catch_all_that_causes_a_loop_is_refused(fresh: Fresh) {
    prepare(&fresh).await;
    let catch_all = async |to| settings(&fresh, "example.org", to, None).await;
    assert_eq!(
        catch_all(Some("bob@example.org")).await,
        RouteChange::Changed
    );
    assert_eq!(
        forward(&fresh, "a", Some("any@example.org")).await,
        RouteChange::Changed
    );
    assert_eq!(catch_all(Some("ada@example.org")).await, RouteChange::Loop);
    let routes = fresh.as_mail_server(CATCH_ALLS).await;
    assert_eq!(routes, one("example.org", "bob@example.org"));
}

async fn a_separator_that_causes_a_loop_is_refused(fresh: Fresh) {
    prepare(&fresh).await;
    let separator = async |separator| {
        settings(&fresh, "example.org", Some("cleo@example.org"), separator).await
    };
    assert_eq!(separator(None).await, RouteChange::Changed);
    for (from, to) in [("a", "bob+x@example.org"), ("b", "ada@example.org")] {
        assert_eq!(forward(&fresh, from, Some(to)).await, RouteChange::Changed);
    }
    assert_eq!(separator(Some("+")).await, RouteChange::Loop);
    assert!(fresh.as_mail_server(SEPARATORS).await.is_empty());
    assert_eq!(forward(&fresh, "b", None).await, RouteChange::Changed);
    assert_eq!(separator(Some("+")).await, RouteChange::Changed);
}

async fn a_route_needs_an_address_that_receives_mail(fresh: Fresh) {
    prepare(&fresh).await;
    let missing = RouteChange::NoSuchAddress;
    for to in ["nobody@example.org", "gone@example.org", "x@ada.example"] {
        assert_eq!(forward(&fresh, "a", Some(to)).await, missing, "{to}");
        assert_eq!(
            settings(&fresh, "example.org", Some(to), None).await,
            missing,
            "{to}"
        );
    }
    assert_eq!(
        settings(&fresh, "ada.example", Some("bob@example.org"), None).await,
        missing,
        "the domain belongs to another account"
    );
    assert_eq!(
        settings(&fresh, "example.org", Some("ada@elsewhere.test"), None).await,
        missing
    );
    assert_eq!(
        settings(&fresh, "nowhere.test", None, Some("+")).await,
        RouteChange::Unknown
    );
    assert_eq!(forward(&fresh, "x", None).await, RouteChange::Unknown);
}

async fn a_catch_all_of_a_disabled_account_can_stay(fresh: Fresh) {
    prepare(&fresh).await;
    let catch_all = async |to, separator| settings(&fresh, "example.org", to, separator).await;
    let (ada, bob) = (Some("ada@example.org"), Some("bob@example.org"));
    assert_eq!(catch_all(ada, None).await, RouteChange::Changed);
    let (accounts, operator) = (&fresh.directory.accounts, Origin::operator());
    for account in ["a", "b"] {
        let disabled = accounts.disable(account, NOW, &operator).await;
        assert!(disabled.unwrap());
    }
    assert_eq!(catch_all(ada, Some("+")).await, RouteChange::Changed);
    assert_eq!(catch_all(bob, Some("+")).await, RouteChange::NoSuchAddress);
    assert!(fresh.as_mail_server(CATCH_ALLS).await.is_empty());
    let enabled = accounts.enable("a", NOW, &operator).await;
    assert!(enabled.unwrap());
    let routes = fresh.as_mail_server(CATCH_ALLS).await;
    assert_eq!(routes, one("example.org", "ada@example.org"));
}

async fn routes_end_with_their_account_and_domain(fresh: Fresh) {
    prepare(&fresh).await;
    let (directory, operator) = (&fresh.directory, Origin::operator());
    settings(&fresh, "ada.example", Some("ada@example.org"), Some("+")).await;
    settings(&fresh, "example.org", Some("shop@example.org"), None).await;
    forward(&fresh, "b", Some("cleo@example.org")).await;
    assert_eq!(fresh.as_mail_server(CATCH_ALLS).await.len(), 2);
    assert_eq!(
        fresh.as_mail_server(SEPARATORS).await,
        one("ada.example", "+")
    );
    let disabled = directory.accounts.disable("b", NOW, &operator).await;
    assert!(disabled.unwrap());
    assert!(fresh.as_mail_server(FORWARDS).await.is_empty());
    assert_eq!(
        fresh.as_mail_server(CATCH_ALLS).await,
        one("ada.example", "ada@example.org")
    );
    for account in ["a", "b"] {
        let deleted = directory.accounts.delete(account, NOW, &operator).await;
        assert!(deleted.unwrap());
    }
    assert!(fresh.as_mail_server(CATCH_ALLS).await.is_empty());
    assert!(fresh.as_mail_server(SEPARATORS).await.is_empty());
    let left = directory.domains.settings("example.org").await.unwrap();
    assert_eq!(left, Some(DomainSettings::default()));
    let gone = directory.domains.settings("ada.example").await.unwrap();
    assert_eq!(gone, None);
    let addresses = "SELECT address, '' FROM mailserver_addresses ORDER BY 1";
    assert_eq!(
        fresh.as_mail_server(addresses).await.len(),
        5,
        "former addresses stay known"
    );
}

both!(
    mail_is_not_forwarded_back,
    an_alias_that_causes_a_loop_is_refused,
    a_catch_all_that_causes_a_loop_is_refused,
    a_separator_that_causes_a_loop_is_refused,
    a_route_needs_an_address_that_receives_mail,
    a_catch_all_of_a_disabled_account_can_stay,
    routes_end_with_their_account_and_domain,
);
