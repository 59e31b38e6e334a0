use super::*;
use crate::accounts::DEFAULT_PLAN;
use crate::aliases::MAX_ON_PLATFORM_DOMAINS;
use crate::reserved_addresses::Reservation;
use crate::testing::{Fresh, NOW, both};

const INFO: &str = "info@example.org";
/// Creates as many aliases as a user can create.
const FILL: &str = "INSERT INTO addresses (address, kind, account_id) \
    WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 500) SELECT 'n' || i || '@example.org', 'alias', 'a' FROM n";

fn user(address: &str, login_name: Option<&str>) -> AdoptedUser {
    AdoptedUser {
        account: NewAccount {
            id: format!("id-{address}"),
            address: address.into(),
            password_hash: String::new(),
            profile: None,
            plan: DEFAULT_PLAN.into(),
            admin: false,
            created_at: NOW,
        },
        login_name: login_name.map(Into::into),
    }
}

/// Creates Ada and Bob on a platform domain.
async fn people(fresh: &Fresh) {
    let directory = &fresh.directory;
    directory.with("a", "ada@example.org", &[]).await;
    directory.with("b", "bob@example.org", &[]).await;
    fresh
        .execute("INSERT INTO platform_domains (domain) VALUES ('example.org')")
        .await;
}

async fn import(fresh: &Fresh, address: &str, account: &str) -> AliasImport {
    let operator = Origin::operator();
    let imported = fresh
        .directory
        .aliases
        .import(address, account, NOW, &operator);
    imported.await.unwrap()
}

async fn users_are_adopted_once_in_several_transactions(fresh: Fresh) {
    people(&fresh).await;
    let directory = &fresh.directory;
    fresh.domain("a", "ada.example", true).await;
    let operator = Origin::operator();
    directory
        .aliases
        .reserve_address(INFO, NOW, &operator)
        .await
        .unwrap();
    let mut users = vec![
        user("ada@example.org", Some("ada")),
        user("bob@example.org", None),
        user(INFO, None),
        user("new@ada.example", None),
    ];
    for n in 0..BATCH {
        let login = format!("n{n}");
        users.push(user(&format!("n{n}@example.net"), Some(&login)));
    }
    users.sort_by(|a, b| a.account.address.cmp(&b.account.address));
    let adopted = directory
        .accounts
        .adopt_users(&users, &operator)
        .await
        .unwrap();
    let of = |adopted: &[Adoption], address: &str| {
        let index = users
            .iter()
            .position(|user| user.account.address == address);
        adopted[index.unwrap()]
    };
    for (address, first, second) in [
        (
            "ada@example.org",
            Adoption::LoginNameSet,
            Adoption::Unchanged,
        ),
        ("bob@example.org", Adoption::Unchanged, Adoption::Unchanged),
        (INFO, Adoption::AddressTaken, Adoption::AddressTaken),
        (
            "new@ada.example",
            Adoption::AddressTaken,
            Adoption::AddressTaken,
        ),
        ("n0@example.net", Adoption::Created, Adoption::Unchanged),
        ("n249@example.net", Adoption::Created, Adoption::Unchanged),
    ] {
        assert_eq!(of(&adopted, address), first, "{address}");
        let again = directory
            .accounts
            .adopt_users(&users, &operator)
            .await
            .unwrap();
        assert_eq!(of(&again, address), second, "{address}");
    }
    let count = "SELECT COUNT(*) FROM accounts WHERE password_hash = '' AND login_name LIKE 'n%'";
    assert_eq!(fresh.number(count).await, 250);
    let events = "SELECT COUNT(*) FROM security_events WHERE kind = 'account_created' AND actor = 'operator'";
    assert_eq!(fresh.number(events).await, 250);
    let names = fresh
        .as_mail_server("SELECT address, login FROM mailserver_login_names")
        .await;
    assert_eq!(names.len(), 251);
}

async fn concurrent_adoptions_create_each_account_once(fresh: Fresh) {
    let users: Vec<AdoptedUser> = (100..160)
        .map(|n| user(&format!("n{n}@example.net"), None))
        .collect();
    let operator = Origin::operator();
    let (one, other) = tokio::join!(
        fresh.directory.accounts.adopt_users(&users, &operator),
        fresh.directory.accounts.adopt_users(&users, &operator)
    );
    let results = one.unwrap().into_iter().zip(other.unwrap());
    for (one, other) in results {
        let mut pair = [one, other];
        pair.sort_by_key(|adoption| *adoption != Adoption::Created);
        assert_eq!(pair, [Adoption::Created, Adoption::Unchanged]);
    }
}

async fn an_alias_is_imported_once(fresh: Fresh) {
    people(&fresh).await;
    assert_eq!(import(&fresh, INFO, "a").await, AliasImport::Imported);
    assert_eq!(import(&fresh, INFO, "a").await, AliasImport::Unchanged);
    let of_ada = AliasImport::AliasOf("ada@example.org".into());
    assert_eq!(import(&fresh, INFO, "b").await, of_ada);
    let own = import(&fresh, "bob@example.org", "a").await;
    assert_eq!(own, AliasImport::Account);
    let missing = import(&fresh, "x@example.org", "absent").await;
    assert_eq!(missing, AliasImport::NoAccount);
    fresh.domain("a", "ada.example", true).await;
    let custom = import(&fresh, "x@ada.example", "b").await;
    assert_eq!(custom, AliasImport::CustomDomain);

    let aliases = fresh
        .as_mail_server("SELECT address, destination FROM mailserver_aliases")
        .await;
    assert_eq!(aliases, [(INFO.into(), "ada@example.org".into())]);
    let events = "SELECT COUNT(*) FROM security_events WHERE kind = 'alias_created' AND actor = 'operator' AND subject = 'info@example.org'";
    assert_eq!(fresh.number(events).await, 1);
    let holder = fresh
        .directory
        .aliases
        .address_holder(INFO)
        .await
        .unwrap()
        .unwrap();
    assert_eq!(
        (holder.address.as_str(), holder.is_alias),
        ("ada@example.org", true)
    );
    let holder = fresh
        .directory
        .aliases
        .address_holder("ada@example.org")
        .await;
    assert!(!holder.unwrap().unwrap().is_alias);
    let holder = fresh
        .directory
        .aliases
        .address_holder("x@example.org")
        .await;
    assert_eq!(holder.unwrap(), None);
}

async fn an_imported_alias_replaces_a_reservation_of_the_operator(fresh: Fresh) {
    people(&fresh).await;
    let operator = Origin::operator();
    let reserve = || {
        fresh
            .directory
            .aliases
            .reserve_address(INFO, NOW, &operator)
    };
    assert_eq!(reserve().await.unwrap(), Reservation::Reserved);
    assert_eq!(import(&fresh, INFO, "a").await, AliasImport::Imported);
    assert_eq!(reserve().await.unwrap(), Reservation::Taken);
    let aliases = fresh.directory.aliases.list("a").await.unwrap();
    assert!(aliases.len() == 1 && aliases[0].active, "{aliases:?}");
}

async fn a_deleted_alias_stays_reserved(fresh: Fresh) {
    people(&fresh).await;
    let deleted = "INSERT INTO addresses (address, kind, account_id, live) VALUES ('info@example.org', 'alias', 'a', FALSE)";
    fresh.execute(deleted).await;
    let owned =
        "SELECT COUNT(*) FROM addresses WHERE address = 'info@example.org' AND account_id = 'a'";
    assert_eq!(import(&fresh, INFO, "a").await, AliasImport::Reserved);
    assert_eq!(fresh.number(owned).await, 1);
    // At the mail server, the address belongs to Bob. So Ada must not get it again.
    for _ in 0..2 {
        assert_eq!(import(&fresh, INFO, "b").await, AliasImport::Reserved);
        assert_eq!(fresh.number(owned).await, 0);
    }
    let operator = Origin::operator();
    let freed = fresh.directory.aliases.free_address(INFO, NOW, &operator);
    freed.await.unwrap();
    assert_eq!(import(&fresh, INFO, "b").await, AliasImport::Imported);
}

async fn the_limit_on_aliases_does_not_apply_to_the_operator(fresh: Fresh) {
    people(&fresh).await;
    fresh.execute(FILL).await;
    let count = "SELECT COUNT(*) FROM addresses WHERE kind = 'alias'";
    assert_eq!(
        fresh.number(count).await,
        i64::from(MAX_ON_PLATFORM_DOMAINS)
    );
    assert_eq!(import(&fresh, INFO, "a").await, AliasImport::Imported);
}

both!(
    users_are_adopted_once_in_several_transactions,
    concurrent_adoptions_create_each_account_once,
    an_alias_is_imported_once,
    an_imported_alias_replaces_a_reservation_of_the_operator,
    a_deleted_alias_stays_reserved,
    the_limit_on_aliases_does_not_apply_to_the_operator,
);
