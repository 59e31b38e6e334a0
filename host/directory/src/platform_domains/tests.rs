use super::*;
use crate::domains::{Claimed, DomainCaller};
use crate::testing::{Fresh, NOW, both};

const DOMAINS: &str = "SELECT domain, domain FROM mailserver_domains ORDER BY domain";

async fn taken_mail_for(fresh: &Fresh) -> Vec<String> {
    let seen = fresh.as_mail_server(DOMAINS).await;
    seen.into_iter().map(|(domain, _)| domain).collect()
}

async fn add(fresh: &Fresh, domain: &str) -> Added {
    let operator = Origin::operator();
    let added = fresh
        .directory
        .domains
        .add_platform_domain(domain, NOW, &operator);
    added.await.unwrap()
}

async fn remove(fresh: &Fresh, domain: &str) -> Removed {
    let operator = Origin::operator();
    let removed = fresh
        .directory
        .domains
        .remove_platform_domain(domain, NOW, &operator);
    removed.await.unwrap()
}

async fn claim(fresh: &Fresh, account_id: &str, domain: &str) -> Claimed {
    let by = DomainCaller {
        account_id,
        sid: None,
        at: NOW,
    };
    let origin = Origin::default();
    let claimed = fresh
        .directory
        .domains
        .claim(by, domain, "c", 9, &origin)
        .await;
    claimed.unwrap()
}

async fn the_configurations_domains_are_those_of_the_last_start(fresh: Fresh) {
    for (configured, read) in [
        (
            vec!["b.example", "A.example"],
            vec!["a.example", "b.example"],
        ),
        (
            vec!["c.example", "b.example"],
            vec!["b.example", "c.example"],
        ),
        (vec![], vec![]),
    ] {
        let configured: Vec<String> = configured.into_iter().map(Into::into).collect();
        Directory::open(&fresh.config, &configured).await.unwrap();
        assert_eq!(taken_mail_for(&fresh).await, read);
    }
}

async fn what_the_operator_added_survives_a_start_and_ends_when_it_is_removed(fresh: Fresh) {
    assert_eq!(add(&fresh, "a.example").await, Added::Added { voided: 0 });
    assert_eq!(add(&fresh, "a.example").await, Added::Already);
    for configured in [vec!["b.example".to_owned()], vec![]] {
        Directory::open(&fresh.config, &configured).await.unwrap();
        assert!(taken_mail_for(&fresh).await.contains(&"a.example".into()));
    }
    assert_eq!(taken_mail_for(&fresh).await, ["a.example"]);
    assert_eq!(remove(&fresh, "a.example").await, Removed::Removed);
    assert_eq!(remove(&fresh, "a.example").await, Removed::Unknown);
    assert!(taken_mail_for(&fresh).await.is_empty());
}

async fn what_the_configuration_names_is_removed_there(fresh: Fresh) {
    let configured = ["a.example".to_owned()];
    Directory::open(&fresh.config, &configured).await.unwrap();
    assert_eq!(remove(&fresh, "a.example").await, Removed::Configured);
    let listed = fresh.directory.domains.platform_domains().await.unwrap();
    assert_eq!(listed.len(), 1);
    assert_eq!(listed[0].added_at, None);
}

async fn what_was_added_is_the_configurations_once_that_names_it(fresh: Fresh) {
    add(&fresh, "a.example").await;
    let configured = ["a.example".to_owned()];
    Directory::open(&fresh.config, &configured).await.unwrap();
    assert_eq!(remove(&fresh, "a.example").await, Removed::Configured);
    assert_eq!(taken_mail_for(&fresh).await, ["a.example"]);
    Directory::open(&fresh.config, &[]).await.unwrap();
    assert!(taken_mail_for(&fresh).await.is_empty());
}

async fn a_domain_that_somebody_verified_is_not_opened_to_everybody_by_the_configuration(
    fresh: Fresh,
) {
    let before = ["a.example".to_owned()];
    Directory::open(&fresh.config, &before).await.unwrap();
    fresh.directory.with("ada", "ada@a.example", &[]).await;
    fresh.domain("ada", "ada.example", true).await;
    fresh.domain("ada", "pending.example", false).await;
    let configured = [
        "ada.example".to_owned(),
        "b.example".into(),
        "pending.example".into(),
    ];
    let refused = Directory::open(&fresh.config, &configured).await;
    let said = refused.unwrap_err().to_string();
    assert!(
        said.contains("contains ada.example, which the account ada@a.example has verified"),
        "{said}"
    );
    let listed = fresh.directory.domains.platform_domains().await.unwrap();
    let names: Vec<&str> = listed.iter().map(|one| one.domain.as_str()).collect();
    assert_eq!(names, ["a.example"], "nothing was changed");

    // A pending claim does not make an account the owner.
    Directory::open(&fresh.config, &configured[1..])
        .await
        .unwrap();
    let taken = ["ada.example", "b.example", "pending.example"];
    assert_eq!(taken_mail_for(&fresh).await, taken);
}

async fn a_domain_with_addresses_on_it_stays_the_platforms(fresh: Fresh) {
    add(&fresh, "a.example").await;
    fresh.directory.with("ada", "ada@a.example", &[]).await;
    fresh
        .execute(
            "INSERT INTO addresses (address, kind, account_id, live, active) VALUES \
             ('on@a.example', 'alias', 'ada', TRUE, TRUE), ('off@a.example', 'alias', 'ada', TRUE, FALSE), \
             ('gone@a.example', 'alias', 'ada', FALSE, TRUE), ('x@b.example', 'alias', 'ada', TRUE, TRUE)",
        )
        .await;
    let in_use = InUse {
        accounts: 1,
        aliases: 2,
    };
    assert_eq!(remove(&fresh, "a.example").await, Removed::InUse(in_use));
    assert_eq!(taken_mail_for(&fresh).await, ["a.example"]);
}

async fn adding_a_domain_voids_its_claims_but_not_whose_it_is(fresh: Fresh) {
    fresh.directory.with("ada", "ada@example.org", &[]).await;
    fresh.directory.with("bob", "bob@example.org", &[]).await;
    for account in ["ada", "bob"] {
        let claimed = claim(&fresh, account, "a.example").await;
        assert!(matches!(claimed, Claimed::New(_)));
    }
    assert_eq!(add(&fresh, "a.example").await, Added::Added { voided: 2 });
    assert!(
        fresh
            .directory
            .domains
            .list("ada")
            .await
            .unwrap()
            .is_empty()
    );
    assert_eq!(claim(&fresh, "ada", "a.example").await, Claimed::Platform);

    claim(&fresh, "ada", "b.example").await;
    fresh
        .execute("UPDATE domains SET verified_at = 1, dkim_selector = 's', dkim_public_key = 'k', dkim_private_key = 'x'")
        .await;
    let taken = Added::Taken("ada@example.org".into());
    assert_eq!(add(&fresh, "b.example").await, taken);
}

both!(
    the_configurations_domains_are_those_of_the_last_start,
    what_the_operator_added_survives_a_start_and_ends_when_it_is_removed,
    what_the_configuration_names_is_removed_there,
    what_was_added_is_the_configurations_once_that_names_it,
    a_domain_that_somebody_verified_is_not_opened_to_everybody_by_the_configuration,
    a_domain_with_addresses_on_it_stays_the_platforms,
    adding_a_domain_voids_its_claims_but_not_whose_it_is,
);
